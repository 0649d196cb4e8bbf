"""Gradient test cases of layers: convolution, recurrence, pooling, normalization, losses, attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .case import Apart, Case, Fixed, Literal, Numbers, Shape, Uniform, case, whole

# ---- Convolution and transposed convolution -------------------------------------------------------------------------


def _conv(name: str, x: Shape, w: Shape, *, bias: bool = True, **attributes: Any) -> Case:
    return case(f"conv_{name}", "Conv", x, w, *([(w[0],)] if bias else []), **attributes)


def _transposed(name: str, x: Shape, w: Shape, *, bias: bool = True, **attributes: Any) -> Case:
    channels = w[1] * attributes.get("group", 1)
    return case(f"conv_transpose_{name}", "ConvTranspose", x, w, *([(channels,)] if bias else []), **attributes)


def _deformed(name: str, x: Shape, w: Shape, outputs: Shape, *, mask: bool = False, **attributes: Any) -> Case:
    """The offsets place each point strictly between two pixels, where the interpolation has a derivative."""
    points = w[2] * w[3] * attributes.get("offset_group", 1)
    more = [Uniform((x[0], points, *outputs), 0.25, 1.25)] if mask else []
    offset = Uniform((x[0], 2 * points, *outputs), 0.125, 0.875)
    return case(f"deform_conv_{name}", "DeformConv", x, w, offset, (w[0],), *more, **attributes)


CONVOLUTION = [
    _conv("1d", (2, 3, 11), (4, 3, 3)),
    _conv("1d_even_kernel", (2, 2, 10), (3, 2, 4), pads=[1, 2]),
    _conv("1d_strides", (2, 2, 12), (3, 2, 3), strides=[2], pads=[1, 1]),
    _conv("1d_dilation", (1, 2, 13), (2, 2, 3), dilations=[3], pads=[2, 2]),
    _conv("1d_groups", (2, 4, 9), (6, 2, 3), group=2),
    _conv("1d_depthwise", (2, 3, 9), (6, 1, 5), group=3, pads=[2, 2]),
    _conv("1d_no_bias", (2, 3, 7), (2, 3, 2), bias=False),
    _conv("2d_odd_sizes", (2, 3, 7, 5), (4, 3, 3, 3), pads=[1, 1, 1, 1]),
    _conv("2d_even_kernel", (1, 2, 6, 7), (3, 2, 2, 4), pads=[0, 1, 1, 2]),
    _conv("2d_strides", (2, 2, 9, 8), (3, 2, 3, 2), strides=[2, 3]),
    _conv("2d_strides_that_skip_pixels", (1, 2, 8, 9), (2, 2, 2, 2), strides=[3, 4]),
    _conv("2d_dilation", (1, 2, 9, 8), (3, 2, 3, 3), dilations=[2, 3], pads=[1, 2, 1, 2]),
    _conv("2d_strides_and_dilation", (1, 2, 10, 11), (2, 2, 3, 3), strides=[2, 2], dilations=[2, 3], pads=[2, 1, 0, 3]),
    _conv("2d_groups", (2, 6, 5, 6), (4, 3, 3, 3), group=2, pads=[1, 1, 1, 1]),
    _conv("2d_depthwise", (2, 4, 6, 5), (4, 1, 3, 3), group=4, pads=[1, 1, 1, 1]),
    _conv("2d_depthwise_multiplier", (1, 3, 7, 6), (6, 1, 3, 2), group=3, strides=[2, 1], pads=[1, 0, 1, 1]),
    _conv("2d_asymmetric_padding", (1, 2, 5, 6), (3, 2, 3, 3), pads=[0, 2, 1, 0]),
    _conv("2d_no_bias", (2, 2, 6, 5), (3, 2, 3, 3), bias=False),
    _conv("2d_one_pixel_kernel", (2, 3, 5, 4), (4, 3, 1, 1)),
    _conv("2d_one_pixel_kernel_strides", (2, 3, 5, 6), (4, 3, 1, 1), strides=[2, 3]),
    _conv("2d_kernel_of_the_whole_image", (2, 2, 4, 5), (3, 2, 4, 5)),
    _conv("2d_same_upper", (1, 2, 7, 6), (2, 2, 4, 3), auto_pad="SAME_UPPER", strides=[2, 2]),
    _conv("2d_same_lower", (1, 2, 7, 6), (2, 2, 4, 2), auto_pad="SAME_LOWER", strides=[2, 1]),
    _conv("3d", (1, 2, 5, 4, 6), (3, 2, 3, 2, 3), pads=[1, 0, 1, 1, 1, 1]),
    _conv("3d_strides", (1, 2, 6, 5, 5), (2, 2, 3, 3, 2), strides=[2, 1, 2], pads=[1, 1, 0, 0, 1, 1]),
    _conv("3d_dilation", (1, 1, 6, 5, 7), (2, 1, 2, 2, 3), dilations=[3, 2, 2]),
    _conv("3d_groups", (1, 4, 4, 3, 4), (4, 2, 2, 2, 3), group=2, bias=False),
    _conv("3d_depthwise", (1, 2, 4, 4, 3), (2, 1, 3, 2, 2), group=2),
    _transposed("1d", (2, 3, 6), (3, 2, 3)),
    _transposed("1d_strides", (2, 2, 5), (2, 3, 4), strides=[3], pads=[1, 0]),
    _transposed("1d_output_padding", (1, 2, 5), (2, 2, 3), strides=[2], output_padding=[1]),
    _transposed("2d", (2, 3, 4, 5), (3, 2, 3, 3)),
    _transposed("2d_even_kernel", (1, 2, 4, 3), (2, 3, 2, 4), strides=[2, 2], pads=[0, 1, 0, 1]),
    _transposed("2d_strides", (1, 2, 3, 4), (2, 2, 3, 2), strides=[2, 3]),
    _transposed("2d_strides_wider_than_kernel", (1, 2, 3, 3), (2, 2, 2, 2), strides=[3, 4]),
    _transposed(
        "2d_output_padding", (1, 2, 4, 3), (2, 3, 3, 3), strides=[2, 3], pads=[1, 1, 1, 1], output_padding=[1, 2]
    ),
    _transposed("2d_output_shape", (1, 2, 3, 3), (2, 2, 3, 3), strides=[3, 2], output_shape=[8, 6]),
    _transposed("2d_groups", (2, 4, 4, 3), (4, 2, 3, 3), group=2, strides=[2, 1]),
    _transposed("2d_depthwise", (1, 3, 4, 4), (3, 1, 3, 3), group=3, strides=[2, 2], pads=[1, 1, 1, 1]),
    _transposed("2d_dilation", (1, 2, 4, 5), (2, 2, 2, 3), dilations=[2, 2]),
    _transposed(
        "2d_strides_and_dilation", (1, 2, 3, 4), (2, 2, 3, 3), strides=[2, 3], dilations=[2, 2], pads=[1, 2, 1, 2]
    ),
    _transposed("2d_asymmetric_padding", (1, 2, 4, 5), (2, 3, 3, 3), pads=[0, 2, 1, 0]),
    _transposed("2d_no_bias", (2, 2, 3, 4), (2, 3, 3, 2), bias=False),
    _transposed("3d", (1, 2, 3, 2, 3), (2, 2, 2, 3, 2)),
    _transposed("3d_strides", (1, 2, 2, 3, 2), (2, 1, 3, 2, 3), strides=[2, 2, 3], output_padding=[1, 0, 2]),
    _transposed("3d_groups", (1, 4, 2, 2, 3), (4, 1, 2, 3, 2), group=2, bias=False),
    _deformed("2d", (1, 2, 5, 6), (2, 2, 3, 3), (3, 4)),
    _deformed(
        "2d_mask_and_groups",
        (1, 4, 5, 5),
        (4, 2, 2, 2),
        (3, 3),
        mask=True,
        group=2,
        offset_group=2,
        strides=[2, 2],
        pads=[1, 1, 0, 0],
        dilations=[1, 1],
    ),
    case("col2im", "Col2Im", (1, 12, 8), whole(4, 5), whole(2, 3), strides=[2, 1], pads=[0, 1, 0, 0], dilations=[1, 1]),
]


# ---- RNN, LSTM and GRU, with gates in ONNX's order: i, o, f, c and z, r, h ------------------------------------------

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_STEPS, _BATCH, _FEATURES, _UNITS = 5, 3, 4, 3
_LENGTHS = (3, 5, 1)  # of the sequences of a batch


def _layer(
    name: str,
    operator: str,
    direction: str = "forward",
    *,
    bias: bool = True,
    states: bool = True,
    lengths: Sequence[int] | None = None,
    peepholes: bool = False,
    weighted: Sequence[int] | None = None,
    steps: int = _STEPS,
    **attributes: Any,
) -> Case:
    directions, rows = 2 if direction == "bidirectional" else 1, _GATES[operator] * _UNITS

    def numbers(*shape: int) -> Uniform:
        return Uniform((directions, *shape), -1, 1)

    b = numbers(2 * rows) if bias else None
    state = numbers(_BATCH, _UNITS) if states else None
    counts = None if lengths is None else Literal(np.array(lengths, np.int32))
    x = Uniform((steps, _BATCH, _FEATURES))
    inputs: list[Numbers | None] = [x, numbers(rows, _FEATURES), numbers(rows, _UNITS), b, counts, state]
    is_lstm = operator == "LSTM"
    if is_lstm:
        inputs += [state, numbers(3 * _UNITS) if peepholes else None]
    while inputs[-1] is None:
        inputs.pop()
    return case(
        f"{operator.lower()}_{name}",
        operator,
        *inputs,
        outputs=3 if is_lstm else 2,
        weighted=weighted,
        hidden_size=_UNITS,
        direction=direction,
        **attributes,
    )


def _layers(prefix: str, operator: str, reverse: int = _STEPS, **attributes: Any) -> list[Case]:
    """Make cases of a layer with two outputs: in each direction, with lengths, and with each gradient alone.

    reverse: the number of steps of the reverse case.
    """

    def layer(name: str, direction: str = "forward", **options: Any) -> Case:
        own = dict(attributes)
        if "activations" in own and direction == "bidirectional":
            own["activations"] = own["activations"] * 2
        return _layer(f"{prefix}_{name}", operator, direction, **own, **options)

    return [
        layer("forward"),
        layer("reverse", "reverse", steps=reverse),
        layer("bidirectional", "bidirectional"),
        layer("sequence_lens", lengths=_LENGTHS),
        layer("reverse_sequence_lens", "reverse", lengths=_LENGTHS),
        layer("bidirectional_sequence_lens", "bidirectional", lengths=_LENGTHS),
        layer("grad_of_Y", weighted=[0]),
        layer("grad_of_Y_h", weighted=[1]),
        layer("no_bias_no_state", bias=False, states=False),
    ]


def _rnns(activation: str) -> list[Case]:
    # a fourth step would come close to the kink of relu
    return _layers(activation, "RNN", reverse=3, activations=[activation.title()])


def _grus(after: int) -> list[Case]:
    prefix = f"linear_before_reset_{after}"
    return [
        *_layers(prefix, "GRU", linear_before_reset=after),
        _layer(f"{prefix}_one_step", "GRU", linear_before_reset=after, steps=1),
    ]


RECURRENT = [
    *_rnns("tanh"),
    *_rnns("relu"),
    *_grus(0),
    *_grus(1),
    _layer("forward", "LSTM"),
    _layer("reverse", "LSTM", "reverse"),
    _layer("bidirectional", "LSTM", "bidirectional"),
    _layer("sequence_lens", "LSTM", lengths=_LENGTHS),
    _layer("reverse_sequence_lens", "LSTM", "reverse", lengths=_LENGTHS),
    _layer("bidirectional_sequence_lens", "LSTM", "bidirectional", lengths=_LENGTHS),
    _layer("grad_of_Y", "LSTM", weighted=[0]),
    _layer("grad_of_Y_h", "LSTM", weighted=[1]),
    _layer("grad_of_Y_c", "LSTM", weighted=[2]),
    _layer("bidirectional_grad_of_Y_c", "LSTM", "bidirectional", weighted=[2]),
    _layer("no_bias_no_state", "LSTM", bias=False, states=False),
    _layer("one_step", "LSTM", steps=1),
    _layer("peepholes", "LSTM", peepholes=True),
    _layer("peepholes_reverse", "LSTM", "reverse", peepholes=True),
    _layer("peepholes_bidirectional_sequence_lens", "LSTM", "bidirectional", peepholes=True, lengths=_LENGTHS),
]


# ---- Pooling, without ties among maxima -----------------------------------------------------------------------------


def _max(name: str, x: Shape, kernel: list[int], **attributes: Any) -> Case:
    return case(f"max_pool_{name}", "MaxPool", Apart(x), kernel_shape=kernel, **attributes)


def _average(name: str, x: Shape, kernel: list[int], **attributes: Any) -> Case:
    return case(f"average_pool_{name}", "AveragePool", x, kernel_shape=kernel, **attributes)


def _lp(name: str, x: Shape, kernel: list[int], **attributes: Any) -> Case:
    return case(f"lp_pool_{name}", "LpPool", Apart(x), kernel_shape=kernel, **attributes)


POOLING = [
    _max("1d_overlapping", (2, 2, 9), [3], strides=[2]),
    _max("2d", (1, 2, 6, 6), [2, 2], strides=[2, 2]),
    _max("2d_overlapping", (1, 2, 7, 6), [3, 3], strides=[1, 2]),
    _max("2d_padding", (1, 2, 6, 5), [3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    _max("2d_asymmetric_padding", (1, 2, 5, 5), [3, 2], strides=[2, 2], pads=[0, 1, 1, 0]),
    _max("2d_dilation", (1, 1, 8, 9), [3, 2], dilations=[2, 3]),
    _max("2d_ceil_mode", (1, 1, 6, 8), [3, 3], strides=[2, 3], ceil_mode=1),
    case("max_pool_2d_indices", "MaxPool", Apart((1, 2, 5, 6)), kernel_shape=[2, 3], outputs=2, weighted=[0]),
    _max("3d", (1, 1, 5, 4, 5), [3, 2, 3], strides=[2, 1, 2], pads=[1, 0, 1, 1, 1, 1]),
    _average("1d", (2, 2, 9), [4], strides=[2]),
    _average("2d", (1, 2, 7, 6), [3, 2], strides=[2, 1]),
    _average("2d_padding_excluded", (1, 2, 6, 5), [3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=0),
    _average("2d_padding_included", (1, 2, 6, 5), [3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
    _average("2d_asymmetric_padding_excluded", (1, 2, 5, 6), [3, 3], pads=[0, 1, 1, 0], count_include_pad=0),
    _average("2d_asymmetric_padding_included", (1, 2, 5, 6), [3, 3], pads=[0, 1, 1, 0], count_include_pad=1),
    _average("2d_ceil_mode", (1, 1, 6, 8), [3, 3], strides=[2, 3], ceil_mode=1),
    _average("2d_dilation", (1, 2, 7, 8), [2, 3], dilations=[3, 2]),
    _average("3d_padding_included", (1, 1, 4, 5, 4), [2, 3, 3], pads=[1, 1, 0, 0, 1, 1], count_include_pad=1),
    _lp("1d_p3", (2, 2, 8), [3], p=3, strides=[2]),
    _lp("2d_p2", (1, 2, 6, 5), [2, 3], p=2, pads=[1, 1, 0, 1]),
    case("global_average_pool", "GlobalAveragePool", (2, 3, 4, 5)),
    case("global_average_pool_3d", "GlobalAveragePool", (1, 2, 3, 2, 4)),
    case("global_max_pool", "GlobalMaxPool", Apart((2, 3, 4, 5))),
    case("global_lp_pool", "GlobalLpPool", Apart((2, 2, 3, 4)), p=2),
    case(
        "max_unpool",
        "MaxUnpool",
        (1, 1, 2, 3),
        Literal(np.array([[[[0, 9, 5], [18, 14, 23]]]], np.int64)),
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
]


# ---- Normalization, with a large epsilon so that misplacing it is detected ------------------------------------------

_EPSILON = 2.0**-7
_DOUBLE = 11  # the ONNX type number of float64; without it the statistics are float32


def _batch(name: str, x: Shape, **options: Any) -> Case:
    channels = (x[1],)
    mean, variance = Fixed(Uniform(channels)), Fixed(Uniform(channels, 0.5, 2))
    return case(
        f"batch_normalization_{name}",
        "BatchNormalization",
        x,
        channels,
        channels,
        mean,
        variance,
        epsilon=_EPSILON,
        **options,
    )


def _training(name: str, x: Shape, weighted: list[int]) -> Case:
    return _batch(f"training_{name}", x, outputs=3, weighted=weighted, training_mode=1, momentum=0.75)


def _layer_normalization(name: str, x: Shape, axis: int, *, bias: bool = True, **options: Any) -> Case:
    shape = x[axis:]
    more = [shape] if bias else []
    return case(
        f"layer_normalization_{name}",
        "LayerNormalization",
        x,
        shape,
        *more,
        axis=axis,
        epsilon=_EPSILON,
        stash_type=_DOUBLE,
        **options,
    )


def _rms(name: str, x: Shape, axis: int) -> Case:
    return case(
        f"rms_normalization_{name}",
        "RMSNormalization",
        x,
        x[axis:],
        axis=axis,
        epsilon=_EPSILON,
        stash_type=_DOUBLE,
        opset=23,
    )


def _group(name: str, x: Shape, groups: int) -> Case:
    channels = (x[1],)
    return case(
        f"group_normalization_{name}",
        "GroupNormalization",
        x,
        channels,
        channels,
        num_groups=groups,
        epsilon=_EPSILON,
        stash_type=_DOUBLE,
    )


def _instance(name: str, x: Shape) -> Case:
    return case(f"instance_normalization_{name}", "InstanceNormalization", x, (x[1],), (x[1],), epsilon=_EPSILON)


NORMALIZATION = [
    _batch("inference_1d", (4, 3)),
    _batch("inference_2d", (2, 3, 4, 5)),
    _batch("inference_3d", (2, 2, 2, 3, 2)),
    _training("1d", (5, 3), [0]),
    _training("2d", (2, 3, 4, 3), [0]),
    _training("3d", (2, 2, 2, 3, 2), [0]),
    _training("2d_running_statistics", (2, 3, 3, 4), [0, 1, 2]),
    _instance("1d", (2, 3, 5)),
    _instance("2d", (2, 3, 4, 3)),
    _instance("3d", (1, 2, 2, 3, 4)),
    _layer_normalization("last_axis", (2, 3, 5), -1),
    _layer_normalization("two_axes", (3, 4, 5), 1),
    _layer_normalization("all_axes", (2, 3, 2), 0),
    _layer_normalization("no_bias", (3, 6), -1, bias=False),
    _group("2d", (2, 6, 3, 4), 3),
    _group("one_group", (2, 4, 5), 1),
    _group("a_group_for_each_channel", (2, 3, 4, 2), 3),
    _rms("last_axis", (2, 3, 5), -1),
    _rms("two_axes", (2, 3, 4), 1),
    case("lrn", "LRN", (2, 5, 3, 2), size=3, alpha=0.5, beta=0.75, bias=1.5),
    case("lrn_wide", "LRN", (1, 7, 2, 3), size=5, alpha=0.25, beta=0.5, bias=2.0),
    case("lp_normalization_p1", "LpNormalization", Apart((3, 4)), axis=1, p=1),
    case("lp_normalization_p2", "LpNormalization", (2, 3, 4), axis=1, p=2),
]


# ---- Softmax and classification losses ------------------------------------------------------------------------------

_LABELS = Literal(np.array([3, 0, 2, 2], np.int64))
_IMAGE_LABELS = Literal(np.array([[[0, 2, 1], [1, 1, 2]], [[2, 0, 0], [1, 2, 1]]], np.int64))
_IMAGES = (2, 3, 2, 3)
_SCORES = (4, 5)


def _cross_entropy(name: str, x: Shape, labels: Literal, *, weights: bool = False, **options: Any) -> Case:
    more = [Fixed(Uniform((x[1],), 0.5, 2))] if weights else []
    return case(f"softmax_cross_entropy_{name}", "SoftmaxCrossEntropyLoss", x, labels, *more, **options)


def _likelihood(name: str, x: Shape, labels: Literal, *, weights: bool = False, **options: Any) -> Case:
    more = [Fixed(Uniform((x[1],), 0.5, 2))] if weights else []
    return case(f"negative_log_likelihood_{name}", "NegativeLogLikelihoodLoss", x, labels, *more, **options)


LOSSES = [
    case("softmax_last_axis", "Softmax", (3, 5), axis=-1),
    case("softmax_axis_0", "Softmax", (4, 2, 3), axis=0),
    case("softmax_axis_1", "Softmax", (2, 4, 3), axis=1),
    case("softmax_large_scores", "Softmax", Uniform((2, 4), 496, 504), axis=-1),
    case("log_softmax_last_axis", "LogSoftmax", (3, 5), axis=-1),
    case("log_softmax_axis_1", "LogSoftmax", (2, 4, 3), axis=1),
    case("log_softmax_large_scores", "LogSoftmax", Uniform((2, 4), 496, 504), axis=-1),
    _cross_entropy("mean", _SCORES, _LABELS, reduction="mean"),
    _cross_entropy("sum", _SCORES, _LABELS, reduction="sum"),
    _cross_entropy("none", _SCORES, _LABELS, reduction="none"),
    _cross_entropy("weights", _SCORES, _LABELS, weights=True, reduction="mean"),
    _cross_entropy("ignore_index", _SCORES, _LABELS, reduction="mean", ignore_index=2),
    _cross_entropy("weights_ignore_index", _SCORES, _LABELS, weights=True, reduction="mean", ignore_index=2),
    _cross_entropy("log_prob", _SCORES, _LABELS, outputs=2, reduction="mean"),
    _cross_entropy("images", _IMAGES, _IMAGE_LABELS, reduction="mean"),
    _cross_entropy("images_none_weights", _IMAGES, _IMAGE_LABELS, weights=True, reduction="none"),
    _likelihood("mean", _SCORES, _LABELS, reduction="mean"),
    _likelihood("sum_weights", _SCORES, _LABELS, weights=True, reduction="sum"),
    _likelihood("images_none", _IMAGES, _IMAGE_LABELS, reduction="none"),
    _likelihood("images_weights_ignore_index", _IMAGES, _IMAGE_LABELS, weights=True, reduction="mean", ignore_index=1),
]


# ---- Attention; numeric masks have gradients ------------------------------------------------------------------------

_SEEN = Literal(np.array([[1, 0, 1, 1, 0], [1, 1, 0, 1, 1], [0, 1, 1, 0, 1]], bool))


def _attention(name: str, *inputs: Any, **options: Any) -> Case:
    return case(f"attention_{name}", "Attention", *inputs, opset=23, **options)


_Q, _K, _V = (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4)

ATTENTION = [
    _attention("4d", _Q, _K, _V),
    _attention("4d_values_of_another_size", _Q, _K, (2, 2, 5, 3)),
    _attention("scale", _Q, _K, _V, scale=0.75),
    _attention("causal", (1, 2, 4, 3), (1, 2, 4, 3), (1, 2, 4, 3), is_causal=1),
    _attention("mask", _Q, _K, _V, (3, 5)),
    _attention("mask_of_each_head", _Q, _K, _V, (2, 2, 3, 5)),
    _attention("boolean_mask", _Q, _K, _V, _SEEN),
    _attention("grouped_queries", (1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)),
    _attention("grouped_queries_causal_scale", (1, 4, 4, 2), (1, 2, 4, 2), (1, 2, 4, 2), is_causal=1, scale=0.5),
    _attention("softcap", _Q, _K, _V, softcap=2.0),
    _attention("3d", (2, 3, 6), (2, 4, 6), (2, 4, 8), q_num_heads=2, kv_num_heads=2),
    _attention("3d_grouped_queries", (1, 3, 8), (1, 4, 4), (1, 4, 4), q_num_heads=4, kv_num_heads=2),
    _attention("past_keys", (1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4), None, (1, 2, 2, 4), (1, 2, 2, 4), outputs=3),
]
