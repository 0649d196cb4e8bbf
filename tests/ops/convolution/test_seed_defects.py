"""Convolution defects of other libraries: each test fails in a library that has the defect.

The libraries are MXNet, SINGA, numpy-ml, PyTorch and DeepShift. Each test runs on both kernel sets. The docstrings
describe the defect.
"""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

import naive
from ops.battery import kernels_of_backward, numbers, recorded_kernels
from retrograd import Tensor, nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops.convolution.convolution import Conv, ConvInputGrad, ConvWeightGrad, conv
from retrograd.specs.convolution_options import AUTO, Options
from retrograd.specs.geometry import Window, conv_window

SIZE, KERNEL = (5, 6), (3, 2)
GEOMETRY: Any = ((2, 1), ((1, 0), (0, 2)), (1, 2), 2)  # stride, padding, dilation, groups
WINDOW = conv_window(SIZE, KERNEL, *GEOMETRY)


def operands(batch: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return x, w and g for WINDOW."""
    return (numbers(batch, 4, *SIZE, seed=1), numbers(6, 2, *KERNEL, seed=2), numbers(batch, 6, *WINDOW.output, seed=3))


def in_chunks() -> list[Options]:
    """Return options without a limit, and with temporary memory for the patches of one image, and of two."""
    image = 8 * (4 * WINDOW.taps + 6) * int(np.prod(WINDOW.output))
    return [AUTO, *(Options(workspace=count * image) for count in (1, 2))]


def close(actual: Any, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual.array, expected, rtol=1e-11, atol=1e-11)


# ---------------------------------------------------------------- MXNet


@pytest.mark.parametrize("options", in_chunks(), ids=["whole", "chunks of 1", "chunks of 2"])
def test_mxnet_v1_null_is_null_in_every_chunk_of_the_batch(options: Options) -> None:
    """MXNet honored the weight's grad_req in the first chunk only; later chunks were added to a gradient that nobody
    requested (convolution_v1-inl.h:275).
    """
    x, w, g = operands()
    tx, tw = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    tw.grad_req, tw.grad = "null", Tensor(before := numbers(*w.shape))
    conv(tx, tw, None, WINDOW, options).backward(Tensor(g))
    np.testing.assert_array_equal(tw.grad.array, before)
    close(tx.grad, naive.conv_input_grad(g, w, None, SIZE, *GEOMETRY))
    assert kernels_of_backward(lambda x, w: conv(x, w, None, WINDOW, options), (x, w), {0}) == ["conv_input_grad"]


@pytest.mark.parametrize("options", in_chunks(), ids=["whole", "chunks of 1", "chunks of 2"])
@pytest.mark.parametrize("request_", ["write", "add", "null"])
def test_mxnet_a_request_holds_for_every_sample(request_: str, options: Options) -> None:
    """MXNet honored grad_req for sample 0 only; others used "add", even for "null" (convolution-inl.h:460, 493)."""
    x, w, g = operands()
    leaves = [Tensor(a, requires_grad=True) for a in (x, w, numbers(6))]
    before = [numbers(*leaf.shape, seed=9) for leaf in leaves]
    for leaf, previous in zip(leaves, before, strict=True):
        leaf.grad_req, leaf.grad = request_, Tensor(previous.copy())
    y = conv(*leaves, WINDOW, options)
    if request_ != "null":
        y.backward(Tensor(g))
    expected = (
        naive.conv_input_grad(g, w, None, SIZE, *GEOMETRY),
        naive.conv_weight_grad(x, g, KERNEL, *GEOMETRY),
        np.array([g[:, k].sum() for k in range(6)]),
    )
    for leaf, previous, one in zip(leaves, before, expected, strict=True):
        close(leaf.grad, {"write": one, "add": previous + one, "null": previous}[request_])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_mxnet_add_reaches_the_input_of_a_pointwise_convolution(groups: int, transposed: bool) -> None:
    """MXNet's path for 1x1 kernels overwrote where it should have added (convolution-inl.h:392)."""
    x = Tensor(numbers(3, 4, 2, 3), requires_grad=True)
    w = Tensor(numbers(4, 4 // groups, 1, 1, seed=1))
    g = Tensor(numbers(3, 4, 2, 3, seed=2))
    function = F.conv_transpose2d if transposed else F.conv2d
    function(x, w, groups=groups).backward(g)
    once, before = x.grad.array.copy(), numbers(*x.shape, seed=3)
    x.grad = Tensor(before.copy())
    function(x, w, groups=groups).backward(g)
    np.testing.assert_array_equal(x.grad.array, before + once)


def test_mxnet_v1_a_kernel_that_its_dilation_makes_too_large_is_refused() -> None:
    """MXNet's check ignored the dilation, and the output size became negative (convolution_v1-inl.h:434)."""
    x, w = Tensor(numbers(1, 1, 6, 7)), Tensor(numbers(1, 1, 3, 3))
    formula = "(6 + 0 + 0 - 3*(3 - 1) - 1)//1 + 1 = 0 must be at least 1; take a larger input or padding, or a smaller"
    with pytest.raises(ValueError, match=re.escape(formula)):
        F.conv2d(x, w, dilation=3)
    assert F.conv2d(x, w, dilation=3, padding=((1, 0), (0, 0))).shape == (1, 1, 1, 1)  # exactly one position fits


# ---------------------------------------------------------------- SINGA


def test_singa_several_forwards_before_a_backward_and_a_backward_twice() -> None:
    """SINGA's layer kept one input and rejected a second forward; its graph allowed one backward pass."""
    layer = nn.Conv2d(4, 6, KERNEL, groups=2).double()
    inputs = [Tensor(numbers(2, 4, *SIZE, seed=seed)) for seed in (1, 2)]
    first, second = (layer(x) for x in inputs)
    upstream = [Tensor(numbers(*y.shape, seed=seed)) for seed, y in enumerate((first, second), 3)]
    expected = sum(
        naive.conv_weight_grad(x.array, g.array, KERNEL, (1, 1), ((0, 0),) * 2, (1, 1), 2)
        for x, g in zip(inputs, upstream, strict=True)
    )
    for _ in range(2):
        layer.zero_grad()
        first.backward(upstream[0], retain_graph=True)
        second.backward(upstream[1], retain_graph=True)
        close(layer.weight.grad, expected)


def test_singa_without_a_bias_there_is_no_gradient_of_one() -> None:
    """SINGA's first backward computed and returned the gradient of a missing bias."""
    x, w, g = operands()
    assert kernels_of_backward(lambda x, w: conv(x, w, None, WINDOW, AUTO), (x, w), {0, 1}) == [
        "conv_input_grad",
        "conv_weight_grad",
    ]
    layer = nn.Conv2d(4, 6, KERNEL, bias=False)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


# ---------------------------------------------------------------- numpy-ml


def test_numpy_ml_the_type_of_the_input_is_kept() -> None:
    """numpy-ml converted float32 to float64."""
    layer = nn.Conv2d(2, 3, 3, padding="same", stride=2)
    x = Tensor(numbers(2, 2, 5, 5).astype(np.float32), requires_grad=True)
    y = layer(x)
    y.backward(Tensor(numbers(*y.shape).astype(np.float32)))
    assert {t.dtype for t in (y, x.grad, layer.weight.grad, layer.bias.grad)} == {np.dtype(np.float32)}


def test_numpy_ml_the_readable_backward_runs_with_several_output_channels() -> None:
    """numpy-ml's Conv2D._backward_naive fails for more than one output channel; here the textbook kernels train."""
    x, w, g = operands()
    tx, tw = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    conv(tx, tw, None, WINDOW, AUTO).backward(Tensor(g))
    close(tx.grad, naive.conv_input_grad(g, w, None, SIZE, *GEOMETRY))
    close(tw.grad, naive.conv_weight_grad(x, g, KERNEL, *GEOMETRY))


def test_numpy_ml_a_frozen_layer_lets_the_gradient_through() -> None:
    """In numpy-ml, ``backward`` of a frozen layer fails, so no layer before it can be trained."""
    frozen = nn.Conv2d(4, 6, KERNEL, (2, 1), ((1, 0), (0, 2)), (1, 2), 2).double()
    frozen.requires_grad_(False)
    x, _, g = operands()
    tx = Tensor(x, requires_grad=True)
    frozen(tx).backward(Tensor(g))
    close(tx.grad, naive.conv_input_grad(g, frozen.weight.array, None, SIZE, *GEOMETRY))
    assert frozen.weight.grad is None and frozen.bias.grad is None


@pytest.mark.parametrize("padding", [1, ((1, 0), (0, 1))])
def test_numpy_ml_padding_is_never_the_maximum(padding: Any) -> None:
    """numpy-ml pads with zeros, which exceed negative numbers, and its backward fails with padding."""
    x = Tensor(-np.abs(numbers(2, 3, 4, 5)) - 1, requires_grad=True)
    y = F.max_pool2d(x, 3, 1, padding)
    assert y.array.max() < -1
    y.backward(g := Tensor(numbers(*y.shape)))
    np.testing.assert_allclose(x.grad.array.sum(), g.array.sum(), rtol=1e-12)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("padding", [0, 1, ((2, 0), (1, 2))])
def test_numpy_ml_gradients_of_a_deconvolution(padding: Any, stride: int) -> None:
    """numpy-ml's formula (dilate, pad, flip, crop) is right, but its tests use only upstream gradients of ones."""
    x, w = Tensor(numbers(2, 3, 4, 3), requires_grad=True), Tensor(numbers(3, 2, 3, 4, seed=1), requires_grad=True)
    y = F.conv_transpose2d(x, w, None, stride, padding)
    g = numbers(*y.shape, seed=2)
    y.backward(Tensor(g))
    pairs = ((padding, padding),) * 2 if isinstance(padding, int) else padding
    geometry: Any = ((stride, stride), pairs, (1, 1), 1)
    close(y, naive.conv_input_grad(x.array, w.array, None, y.shape[2:], *geometry))
    close(x.grad, naive.conv(g, w.array, None, *geometry))
    close(w.grad, naive.conv_weight_grad(g, x.array, (3, 4), *geometry))


# ---------------------------------------------------------------- PyTorch


@pytest.mark.parametrize(
    ("size", "stride", "groups"), [((7, 8), 2, 1), ((8, 10), 3, 2), ((5, 5), 1, 4), ((9, 4), 4, 4)]
)
def test_torch_conv2d_weight_with_groups_and_positions_that_nothing_reads(
    size: tuple[int, int], stride: int, groups: int
) -> None:
    """torch.nn.grad.conv2d_weight was wrong for some inputs (pytorch#51430)."""
    x, w = Tensor(numbers(3, 4, *size)), Tensor(numbers(8, 4 // groups, 3, 3, seed=1))
    g = numbers(*F.conv2d(x, w, None, stride, 1, 1, groups).shape, seed=2)
    geometry: Any = ((stride, stride), ((1, 1), (1, 1)), (1, 1), groups)
    found = nn.grad.conv2d_weight(x, w.shape, Tensor(g), stride, 1, 1, groups)
    close(found, naive.conv_weight_grad(x.array, g, (3, 3), *geometry))
    close(
        nn.grad.conv2d_input(x.shape, w, Tensor(g), stride, 1, 1, groups),
        naive.conv_input_grad(g, w.array, None, size, *geometry),
    )


def test_torch_conv2d_weight_makes_no_copy_for_each_input_channel() -> None:
    """PyTorch repeated the upstream gradient for every input channel and ran out of memory (pytorch#7806)."""
    x, g = Tensor(numbers(2, 64, 24, 24)), Tensor(numbers(2, 64, 24, 24, seed=1))
    nn.grad.conv2d_weight(x, (64, 64, 3, 3), g, padding=1)  # compile and cache first
    tracemalloc.start()
    try:
        nn.grad.conv2d_weight(x, (64, 64, 3, 3), g, padding=1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 * x.array.nbytes, "64 copies of the gradient were made there"


@pytest.mark.parametrize("size", [(3, 4), (1, 1), (2, 5)])
def test_torch_the_input_gradient_of_a_transposed_convolution_with_stride_2(size: tuple[int, int]) -> None:
    """PyTorch's result on the CPU was reported as wrong (pytorch#63314)."""
    x, w = Tensor(numbers(2, 3, *size), requires_grad=True), Tensor(numbers(3, 4, 3, 3, seed=1), requires_grad=True)
    y = F.conv_transpose2d(x, w, None, 2, 1, 1)
    y.backward(Tensor(g := numbers(*y.shape, seed=2)))
    geometry: Any = ((2, 2), ((1, 1), (1, 1)), (1, 1), 1)
    close(x.grad, naive.conv(g, w.array, None, *geometry))
    close(w.grad, naive.conv_weight_grad(g, x.array, (3, 3), *geometry))


def test_torch_output_padding_that_only_the_dilation_allows() -> None:
    """PyTorch crashed with a segmentation fault (pytorch#5112)."""
    x, w = Tensor(numbers(2, 3, 4, 3), requires_grad=True), Tensor(numbers(3, 2, 2, 3, seed=1), requires_grad=True)
    y = F.conv_transpose2d(x, w, None, 1, 0, 2, 1, 3)
    y.backward(Tensor(g := numbers(*y.shape, seed=2)))
    geometry: Any = ((1, 1), ((0, 0), (0, 0)), (3, 3), 1)
    assert y.shape == (2, 2, 9, 11)
    close(y, naive.conv_input_grad(x.array, w.array, None, (9, 11), *geometry))
    close(x.grad, naive.conv(g, w.array, None, *geometry)[:, :, :4, :3])
    close(w.grad, naive.conv_weight_grad(g[..., :7, :9], x.array, (2, 3), *geometry))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_torch_the_output_mask_is_followed(place: int) -> None:
    """One of PyTorch's backends computed all gradients, whatever the mask (pytorch PR 75298)."""
    x, w, g = map(Tensor, operands())
    mask = [n == place for n in range(3)]
    with recorded_kernels() as names:
        found = nn.grad.conv_backward(g, x, w, *GEOMETRY[:3], groups=2, output_mask=mask)
    assert names == [("conv_input_grad", "conv_weight_grad", "sum")[place]]
    assert [gradient is not None for gradient in found] == mask


# ---------------------------------------------------------------- DeepShift


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_deepshift_groups_neither_crash_nor_mix(groups: int) -> None:
    """DeepShift's CPU kernel reads beyond its arrays for more than one group (DeepShift#26)."""
    x, w = numbers(2, 6, 4, 5), numbers(12, 6 // groups, 3, 2, seed=1)
    y = F.conv2d(Tensor(x), Tensor(w), None, 1, 1, 1, groups)
    close(y, naive.conv(x, w, None, (1, 1), ((1, 1), (1, 1)), (1, 1), groups))


def test_deepshift_every_argument_of_a_function_has_its_gradient() -> None:
    """Four of DeepShift's Functions return fewer gradients than they have arguments, so they cannot be trained."""
    x, w, g = (Tensor(a, requires_grad=True) for a in operands())
    bias = {n: Tensor(numbers(n), requires_grad=True) for n in (4, 6)}
    for function, arguments in (
        (Conv, (x, w, bias[6], WINDOW, AUTO)),
        (ConvInputGrad, (g, w, bias[4], WINDOW, AUTO)),
        (ConvWeightGrad, (x, g, WINDOW, AUTO)),
    ):
        y: Any = function.apply(*arguments)
        gradients = y.grad_fn.function.backward(y.grad_fn, Tensor(numbers(*y.shape, seed=8)))
        assert len(gradients) == len(arguments)
        for argument, gradient in zip(arguments, gradients, strict=True):
            assert (gradient is None) == isinstance(argument, Window | Options)
            assert gradient is None or gradient.shape == argument.shape  # type: ignore[union-attr]


def test_deepshift_padding_belongs_to_its_own_axis() -> None:
    """DeepShift passed (H, H, W, W) to a function that takes (W, W, H, H)."""
    x, w = numbers(1, 2, 4, 4), numbers(3, 2, 3, 3, seed=1)
    padded = np.pad(x, ((0, 0), (0, 0), (2, 2), (0, 0)))
    y = F.conv2d(Tensor(x), Tensor(w), padding=(2, 0))
    assert y.shape == (1, 3, 6, 2)
    close(y, naive.conv(padded, w, None, (1, 1), ((0, 0), (0, 0)), (1, 1), 1))


def test_deepshift_a_layer_runs_without_a_bias() -> None:
    """One of DeepShift's kernels reads a bias that is None."""
    x, w, _ = operands()
    close(F.conv2d(Tensor(x), Tensor(w), None, *GEOMETRY), naive.conv(x, w, None, *GEOMETRY))


# ---------------------------------------------------------------- options that are accepted and then ignored


CHANGES: dict[str, Any] = {"stride": 2, "padding": 1, "dilation": 2, "bias": False, "output_padding": 1, "groups": 2}


@pytest.mark.parametrize(
    ("kind", "option"),
    [(nn.ConvTranspose2d, option) for option in CHANGES]
    + [(nn.Conv2d, option) for option in CHANGES if option != "output_padding"],
)
def test_every_option_changes_the_result(kind: Any, option: str) -> None:
    """SINGA, numpy-ml and DeepShift accept some of these options and ignore them."""
    x, w, b = Tensor(numbers(2, 4, 5, 5)), numbers(4, 4, 3, 3, seed=1), numbers(4, seed=2)

    def run(**options: Any) -> Tensor:
        stride = {"stride": 2} if option == "output_padding" else {}
        layer = kind(4, 4, 3, **stride, **options).double()
        layer.weight.array[...] = w[:, : layer.weight.shape[1]]
        if layer.bias is not None:
            layer.bias.array[...] = b
        return layer(x)  # type: ignore[no-any-return]

    plain, changed = run(), run(**{option: CHANGES[option]})
    assert plain.shape != changed.shape or not np.allclose(plain.array, changed.array)
