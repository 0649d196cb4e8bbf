"""Low-bit layers against loops over quantized numbers, and their common features with the float layers."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import numpy as np
import pytest

import naive
import retrograd
from retrograd import Tensor, lowbit, nn
from retrograd.utils.checkpoint import checkpoint


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).standard_normal(shape)


def sign(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, -1.0, 1.0)


def clipped(x: np.ndarray) -> np.ndarray:
    return (abs(x) <= 1).astype(float)


def by_channel(w: np.ndarray, transposed: bool, groups: int) -> np.ndarray:
    """Return w, in the layer's shape, as one row for each output channel, group by group."""
    if not transposed:
        return w.reshape(len(w), -1)
    parts = np.split(w, groups)  # of the input channels
    return np.concatenate([np.moveaxis(part, 1, 0).reshape(w.shape[1], -1) for part in parts])


def back(rows: np.ndarray, shape: tuple[int, ...], transposed: bool, groups: int) -> np.ndarray:
    """The inverse of ``by_channel``."""
    if not transposed:
        return rows.reshape(shape)
    inner = (shape[1], shape[0] // groups, *shape[2:])
    return np.concatenate([np.moveaxis(part.reshape(inner), 0, 1) for part in np.split(rows, groups)])


def int8_rows(rows: np.ndarray) -> np.ndarray:
    scale = abs(rows).max(1, keepdims=True) / 127
    return np.round(rows / scale) * scale


def twn_rows(rows: np.ndarray) -> np.ndarray:
    large = abs(rows) > 0.7 * abs(rows).mean(1, keepdims=True)
    return sign(rows) * large * ((abs(rows) * large).sum(1) / large.sum(1))[:, None]


ROWS: dict[str, tuple[lowbit.Quantizer, Any, Any]] = {  # quantizer, value of the rows, gradient (g, rows)
    "BinaryConnect": (lowbit.BinaryConnect(), sign, lambda g, w: g * clipped(w)),
    "BiReal": (
        lowbit.BiReal(),
        lambda w: abs(w).mean(1, keepdims=True) * sign(w),
        lambda g, w: g * abs(w).mean(1, keepdims=True) * clipped(w),
    ),
    "BWN": (
        lowbit.BWN(),
        lambda w: abs(w).mean(1, keepdims=True) * sign(w),
        lambda g, w: g * abs(w).mean(1, keepdims=True) * clipped(w) + sign(w) * (g * sign(w)).mean(1, keepdims=True),
    ),
    "TWN": (lowbit.TWN(), twn_rows, lambda g, w: g),
    "Int8": (lowbit.Int8(), int8_rows, lambda g, w: g),
}

# name, arguments, input, and for the oracle: stride, padding, dilation, groups
CONVOLUTIONS: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("Conv1d", {"stride": 2, "padding": 2, "groups": 2}, (2, 4, 11)),
    ("Conv2d", {"padding": 1, "dilation": (2, 1)}, (3, 4, 7, 5)),
    ("Conv2d", {"groups": 4, "bias": False}, (1, 4, 6, 4)),
    ("Conv3d", {"stride": (1, 2, 1), "padding": 1}, (2, 4, 4, 5, 3)),
    ("ConvTranspose1d", {"stride": 3, "padding": 1, "groups": 2}, (2, 4, 5)),
    ("ConvTranspose2d", {"stride": 2, "output_padding": 1}, (2, 4, 3, 4)),
    ("ConvTranspose2d", {"groups": 2, "dilation": 2, "padding": 1}, (2, 4, 5, 4)),
    ("ConvTranspose3d", {"stride": (2, 1, 1)}, (1, 4, 2, 3, 3)),
]


def plan(layer: Any) -> tuple[Any, ...]:
    return layer.stride, tuple((p, p) for p in layer.padding), layer.dilation, layer.groups


@pytest.mark.pairwise
@pytest.mark.parametrize("quantizer", ROWS)
@pytest.mark.parametrize(("name", "options", "shape"), CONVOLUTIONS, ids=lambda v: v if isinstance(v, str) else "")
def test_convolutions(name: str, options: dict[str, Any], shape: tuple[int, ...], quantizer: str) -> None:
    """y and all gradients against loops over the quantized numbers; a filter is the weights of one output channel."""
    weight, value, gradient = ROWS[quantizer]
    layer = getattr(lowbit, name)(4, 8, 3, weight=weight, activation=lowbit.Sign(), dtype=np.float64, **options)
    layer.weight.array[...] = numbers(*layer.weight.array.shape)
    x = numbers(*shape, seed=1)
    leaf = Tensor(x.copy(), requires_grad=True)
    y = layer(leaf)

    w, kind = layer.weight.array, ("Transpose" in name, layer.groups)
    rows = by_channel(w, *kind)
    wq, xq = back(value(rows), w.shape, *kind), sign(x)
    bias = None if layer.bias is None else layer.bias.array
    transposed, (stride, padding, dilation, groups) = kind[0], plan(layer)
    geometry = stride, padding, dilation, groups
    if transposed:
        expected = naive.conv_input_grad(xq, wq, bias, y.shape[2:], *geometry)
    else:
        expected = naive.conv(xq, wq, bias, *geometry)
    np.testing.assert_allclose(y.array, expected, 1e-12, 1e-12)

    g = numbers(*y.shape, seed=2)
    y.backward(Tensor(g))
    if transposed:
        gx = naive.conv(g, wq, None, *geometry)
        gw = naive.conv_weight_grad(g, xq, w.shape[2:], *geometry)
    else:
        gx = naive.conv_input_grad(g, wq, None, shape[2:], *geometry)
        gw = naive.conv_weight_grad(xq, g, w.shape[2:], *geometry)
    np.testing.assert_allclose(leaf.grad.array, gx * clipped(x), 1e-12, 1e-12)
    expected = back(gradient(by_channel(gw, *kind), rows), w.shape, *kind)
    np.testing.assert_allclose(layer.weight.grad.array, expected, 1e-12, 1e-12)
    if bias is not None:
        np.testing.assert_allclose(layer.bias.grad.array, g.sum((0, *range(2, g.ndim))), 1e-12)


@pytest.mark.parametrize("quantizer", ROWS)
def test_linear(quantizer: str) -> None:
    """Inputs of any number of axes; a fixed-point layer also rounds its bias."""
    weight, value, gradient = ROWS[quantizer]
    layer = lowbit.Linear(5, 3, weight=weight, activation=lowbit.Fixed(3, 2), dtype=np.float64)
    layer.weight.array[...], layer.bias.array[...] = numbers(3, 5), [0.3, -0.8, 9.0]
    x, g = 2 * numbers(2, 4, 5, seed=1), numbers(2, 4, 3, seed=2)
    leaf = Tensor(x, requires_grad=True)
    y = layer(leaf)
    xq, w = (np.floor(4 * x) / 4).clip(-4, 3.75), layer.weight.array
    inside = (np.floor(4 * x) / 4 >= -4) & (np.floor(4 * x) / 4 <= 3.75)
    np.testing.assert_allclose(y.array, xq @ value(w).T + [0.25, -1.0, 3.75], 1e-12, 1e-12)
    y.backward(Tensor(g))
    np.testing.assert_allclose(leaf.grad.array, (g @ value(w)) * inside, 1e-12, 1e-12)
    gw = g.reshape(-1, 3).T @ xq.reshape(-1, 5)
    np.testing.assert_allclose(layer.weight.grad.array, gradient(gw, w), 1e-12, 1e-12)
    np.testing.assert_allclose(layer.bias.grad.array, g.sum((0, 1)) * [1, 1, 0], 1e-12)


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("Conv1d", {"stride": 2, "padding": 1, "dilation": 2}, (2, 4, 9)),
        ("Conv2d", {"padding": 1}, (2, 4, 5, 6)),
        ("Conv2d", {"padding": 1, "groups": 2}, (2, 4, 5, 6)),
        ("Conv2d", {"groups": 2, "bias": False}, (4, 5, 6)),  # no batch
        ("ConvTranspose2d", {"stride": 2, "groups": 2}, (2, 4, 3, 3)),
    ],
)
def test_xnor(name: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    """y = K (alpha sign(w) * sign(x)) + bias; K is |x| averaged over the channels of a group and the window."""
    layer = getattr(lowbit, name)(4, 6, 3, weight=lowbit.XNOR(), activation=lowbit.XNOR(), dtype=np.float64, **options)
    x = numbers(*shape)
    transposed, (*geometry, groups) = "Transpose" in name, plan(layer)
    batch = x if x.ndim == layer.ndim + 2 else x[None]
    sizes = np.stack([abs(part).mean(1) for part in np.split(batch, groups, 1)], 1)
    box = np.full((groups, 1, *layer.kernel_size), float(np.prod(layer.stride)) if transposed else 1.0)
    box /= np.prod(layer.kernel_size)
    wq = layer.quantized().array
    y = layer(Tensor(x)).array
    extents = y.shape[-layer.ndim :]
    if transposed:
        factor = naive.conv_input_grad(sizes, box, None, extents, *geometry, groups)
        product = naive.conv_input_grad(sign(batch), wq, None, extents, *geometry, groups)
    else:
        factor = naive.conv(sizes, box, None, *geometry, groups)
        product = naive.conv(sign(batch), wq, None, *geometry, groups)
    expected = product * np.repeat(factor, 6 // groups, 1)
    if layer.bias is not None:
        expected += layer.bias.array.reshape(-1, *(1,) * layer.ndim)
    np.testing.assert_allclose(y, expected if batch is x else expected[0], 1e-12, 1e-12)


def test_xnor_is_differentiated_through_its_factor() -> None:
    """y = mean |x| (sign(x) w), checked by a step that changes no sign, plus the signs' clipped gradient."""
    layer = lowbit.Linear(6, 3, weight=lowbit.XNOR(), activation=lowbit.XNOR(), dtype=np.float64)
    x, g = numbers(4, 6), numbers(4, 3, seed=1)
    leaf = Tensor(x, requires_grad=True)
    layer(leaf).backward(Tensor(g))
    wq = layer.quantized().array
    product = sign(x) @ wq.T
    through_factor = sign(x) * ((g * product).sum(1, keepdims=True) / 6)
    straight = ((g * abs(x).mean(1, keepdims=True)) @ wq) * clipped(x)
    np.testing.assert_allclose(leaf.grad.array, through_factor + straight, 1e-12)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"])
def test_recurrent_layers(kind: str) -> None:
    """Low-bit recurrent layers equal the float layer with quantized matrices; gradients pass through the quantizer."""
    options: dict[str, Any] = {"dtype": np.float64}
    if not kind.endswith("Cell"):
        options |= {"num_layers": 2, "bidirectional": True}
        options |= {"proj_size": 2} if kind == "LSTM" else {}
    layer = getattr(lowbit, kind)(3, 4, weight=lowbit.BiReal(), **options)
    plain = getattr(nn, kind)(3, 4, **options)
    plain.load_state_dict(layer.state_dict())
    _, value, gradient = ROWS["BiReal"]
    matrices = [name for name, p in layer.named_parameters() if name.startswith("weight")]
    for name in matrices:
        getattr(layer, name).array[...] *= 3  # some beyond the limits
        getattr(plain, name).array[...] = value(getattr(layer, name).array)
    x = numbers(2, 3) if kind.endswith("Cell") else numbers(5, 2, 3)
    results = []
    for module in (layer, plain):
        y = module(Tensor(x))
        y = y if isinstance(y, Tensor) else y[0]
        y.backward(Tensor(numbers(*y.shape, seed=3)))
        results.append(y.array)
    np.testing.assert_allclose(*results, 1e-9, 1e-12)
    for name, parameter in layer.named_parameters():
        found, through = parameter.grad.array, plain.get_parameter(name).grad.array
        if name in matrices:
            through = gradient(through, parameter.array)
        np.testing.assert_allclose(found, through, 1e-9, 1e-14)


ALL: list[Any] = [
    lambda **q: lowbit.Linear(6, 4, **q),
    lambda **q: lowbit.Conv2d(6, 4, 3, padding=1, groups=2, **q),
    lambda **q: lowbit.ConvTranspose1d(6, 4, 2, groups=2, **q),
]
INPUTS = [(5, 6), (2, 6, 4, 4), (2, 6, 4)]
STATEFUL: list[dict[str, Any]] = [
    {"weight": lowbit.BWN(), "activation": lowbit.PACT(4)},
    {"weight": lowbit.LSQ(3), "activation": lowbit.LSQ(4)},
    {"weight": lowbit.DeepShiftPS(shifts=2), "activation": lowbit.Int8()},
    {"weight": lowbit.DeepShiftQ(rounding="stochastic"), "activation": lowbit.Fixed(4, 8)},
    {"weight": lowbit.BinaryConnect(stochastic=True), "activation": lowbit.XNOR()},
    {},
]


@pytest.mark.pairwise
@pytest.mark.parametrize("quantizers", STATEFUL, ids=str)
@pytest.mark.parametrize("place", range(len(ALL)))
def test_copies_states_and_modes(place: int, quantizers: dict[str, Any]) -> None:
    """deepcopy, state_dict and checkpointing give the same numbers; so does eval mode, which draws nothing."""
    make, x = ALL[place], numbers(*INPUTS[place]).astype(np.float32)
    layer = make(**quantizers)
    layer(Tensor(x))  # observed
    layer.eval()
    y = layer(Tensor(x)).array
    np.testing.assert_array_equal(layer(Tensor(2 * x[:1])).array[0].shape, y[0].shape)
    twin = copy.deepcopy(layer)
    np.testing.assert_array_equal(twin(Tensor(x)).array, y)
    for one, other in zip(layer.parameters(), twin.parameters(), strict=True):
        assert one.limits == other.limits and one is not other
    other = make(**quantizers)
    other.load_state_dict({key: value.array.copy() for key, value in layer.state_dict().items()})
    np.testing.assert_array_equal(other.eval()(Tensor(x)).array, y)

    layer.train()
    gradients = []
    for run in (layer, lambda leaf: checkpoint(layer, leaf)):
        retrograd.manual_seed(3)
        layer.zero_grad()
        leaf = Tensor(x, requires_grad=True)
        (run(leaf) ** 2.0).sum().backward()
        gradients.append([leaf.grad.array, *(p.grad.array for p in layer.parameters())])
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_array_equal(one, other)


def test_float_weights_load_both_ways() -> None:
    """Names, shapes and memory order of the float layer; a quantizer's own values are the only new keys."""
    plain = nn.Conv2d(3, 4, 3)
    for quantizer in (lowbit.BWN(), lowbit.DeepShiftQ(), lowbit.Int8()):
        layer = lowbit.Conv2d(3, 4, 3, weight=quantizer, activation=lowbit.Sign())
        assert list(layer.state_dict()) == ["weight", "bias"]
        layer.load_state_dict(plain.state_dict())
        plain.load_state_dict(layer.state_dict())
        assert layer.weight.array.strides == plain.weight.array.strides == layer.quantized().array.strides
        assert isinstance(layer, nn.Conv2d)
    layer = lowbit.Conv2d(3, 4, 3, weight=lowbit.LSQ(4), activation=lowbit.PACT(4))
    missing, unexpected = layer.load_state_dict(plain.state_dict(), strict=False)
    assert (sorted(missing), unexpected) == (["activation_alpha", "weight_step"], [])
    parts = lowbit.Conv2d(3, 4, 3, weight=lowbit.DeepShiftPS())
    assert list(parts.state_dict()) == ["bias", "weight_shift", "weight_sign"]
    assert parts.weight_shift.array.strides == plain.weight.array.strides  # no repacking by the kernels
    np.testing.assert_array_equal(parts.weight.array, parts.quantized().array)  # computed, no parameter
    with pytest.raises(AttributeError, match="'Conv2d' object has no attribute 'weights'"):
        _ = parts.weights


def test_reset_parameters() -> None:
    """reset_parameters draws new float weights and reinitializes the quantizers' parameters from them."""
    for quantizer in (lowbit.LSQ(4), lowbit.DeepShiftPS(), lowbit.BWN(), None):
        retrograd.manual_seed(1)
        layer = lowbit.Linear(50, 40, weight=quantizer)
        before, objects = {k: v.array.copy() for k, v in layer.state_dict().items()}, list(layer.parameters())
        for parameter in layer.parameters():
            parameter.array[...] = 7.0
        retrograd.manual_seed(1)
        layer.reset_parameters()
        assert all(one is other for one, other in zip(layer.parameters(), objects, strict=True))
        for key, value in layer.state_dict().items():
            np.testing.assert_array_equal(value.array, before[key])


def test_limits_of_the_weights() -> None:
    """The optimizer clips the float weights to the quantizer's limits."""
    expected = {
        lowbit.BinaryConnect(): (-1, 1),
        lowbit.BWN(): (-1, 1),
        lowbit.TWN(): None,
        lowbit.Int8(): None,
        lowbit.DeepShiftQ(): (-1, 1),
        lowbit.DeepShiftQ(shifts=3): (-3, 3),
        lowbit.DeepShiftQ(bits=3, positive_only=True): (-8, 8),
    }
    for quantizer, limits in expected.items():
        assert lowbit.Linear(3, 2, weight=quantizer).weight.limits == limits
        assert lowbit.GRU(3, 2, weight=quantizer).weight_hh_l0.limits == limits
    layer = lowbit.Linear(3, 2, weight=lowbit.LSQ(4), activation=lowbit.PACT(4))
    assert layer.weight_step.limits == layer.activation_alpha.limits == (1e-8, float("inf"))


def test_reprs_and_signatures() -> None:
    layer = lowbit.Conv2d(16, 32, 3, weight=lowbit.DeepShiftQ(bits=4), activation=lowbit.Sign("swish"))
    assert repr(layer) == (
        "Conv2d(16, 32, kernel_size=(3, 3), stride=(1, 1), weight=DeepShiftQ(bits=4), "
        "activation=Sign(gradient='swish'))"
    )
    assert repr(lowbit.LSTM(3, 4, weight=lowbit.TWN())) == "LSTM(3, 4, weight=TWN())"
    assert repr(nn.Sequential(lowbit.Quantize(lowbit.PACT(4)))) == (
        "Sequential(\n  (0): Quantize(activation=PACT(bits=4))\n)"
    )
    names = list(inspect.signature(lowbit.Conv2d).parameters)
    assert names[:4] == ["in_channels", "out_channels", "kernel_size", "stride"]
    assert names[-3:] == ["weight", "activation", "output_activation"]
    assert lowbit.Conv2d.__doc__ is not None and "nn.Conv2d" in lowbit.Conv2d.__doc__
    assert "nn.GRUCell" in str(lowbit.GRUCell.__doc__)
    assert layer.activation is None  # that of nn.Conv2d, which is applied to the output
    relu = lowbit.Conv1d(2, 2, 1, weight=lowbit.BWN(), output_activation="relu")
    assert relu(Tensor(numbers(1, 2, 9).astype(np.float32))).array.min() == 0


def test_what_is_observed() -> None:
    """LSQ takes its step from the first batch, Int8 its range from all batches; eval mode observes nothing."""
    x = Tensor(np.array([[1.0, -2.0, 3.0]], np.float32))
    for quantizer in (lowbit.LSQ(4), lowbit.Int8()):
        layer = lowbit.Linear(3, 2, activation=quantizer).eval()
        message = rf"Linear: {type(quantizer).__name__}\(.*\) has seen no input yet; run a batch in training mode"
        with pytest.raises(RuntimeError, match=message):
            layer(x)
        layer.train()(x)
        before = {key: value.array.copy() for key, value in layer.state_dict().items()}
        layer.eval()(Tensor(np.full((1, 3), 50, np.float32)))
        for key, value in layer.state_dict().items():
            np.testing.assert_array_equal(value.array, before[key])
    assert (layer.activation_low.array, layer.activation_high.array) == (-2, 3)
    layer.train()(Tensor(np.full((1, 3), 50, np.float32)))
    layer(Tensor(np.zeros((0, 3), np.float32)))
    assert (layer.activation_low.array, layer.activation_high.array) == (-2, 50)
    for bad in (np.inf, np.nan):  # is not taken for a range, and shows
        layer(Tensor(np.array([[1.0, bad, 0.0]], np.float32)))
        assert (layer.activation_low.array, layer.activation_high.array) == (-2, 50)
        for quantizer in (lowbit.LSQ(4), lowbit.Int8()):
            with pytest.raises(RuntimeError, match="has seen no input yet"):
                lowbit.Quantize(quantizer)(Tensor(np.array([[1.0, bad, 0.0]], np.float32)))
    values = lowbit.Quantize(lowbit.Int8())
    values(Tensor(np.array([2.55, 0.0], np.float32)))
    np.testing.assert_allclose(values(Tensor(np.array([np.inf, -np.inf, np.nan], np.float32))).array, [2.55, 0, np.nan])
    zeros = lowbit.Quantize(lowbit.Int8())
    np.testing.assert_array_equal(zeros(Tensor(np.zeros((2, 3), np.float32))).array, 0)


def test_refusals() -> None:
    x = Tensor(np.ones((2, 3), np.float32))
    with pytest.raises(TypeError, match=r"^Linear: weight='binary' must be a quantizer, for example lowbit.BinaryConn"):
        lowbit.Linear(3, 2, weight="binary")
    with pytest.raises(TypeError, match=r"^Conv2d: activation='relu' must be a quantizer, for example lowbit.Sign\(\)"):
        lowbit.Conv2d(3, 2, 1, activation="relu")
    with pytest.raises(TypeError, match=r"^Linear: weight=Sign\(\) quantizes activations only; pass it as activation="):
        lowbit.Linear(3, 2, weight=lowbit.Sign())
    with pytest.raises(TypeError, match=r"^GRU: weight=PACT\(bits=4\) quantizes activations only; pass it as activat"):
        lowbit.GRU(3, 2, weight=lowbit.PACT(4))

    class Own(lowbit.Quantizer):
        """A quantizer whose author forgot the roles."""

    with pytest.raises(TypeError, match=r"^Linear: weight=Own\(\) has neither role; set for_weights = True in its"):
        lowbit.Linear(3, 2, weight=Own())
    with pytest.raises(TypeError, match=r"^Linear: weight=Own must be .* make an instance: Own\(\)"):
        lowbit.Linear(3, 2, weight=Own)
    with pytest.raises(TypeError, match=r"^Linear: activation=TWN\(\) quantizes weights only; pass it as weight="):
        lowbit.Linear(3, 2, activation=lowbit.TWN())
    with pytest.raises(TypeError, match=r"Linear: input is int64, Sign\(\) needs float32 or float64"):
        lowbit.Linear(3, 2, activation=lowbit.Sign())(Tensor(np.ones((2, 3), np.int64)))
    for quantizer in (lowbit.PACT(4), lowbit.LSQ(4), lowbit.Int8()):
        with pytest.raises(TypeError, match=r"Quantize: input is float64, activation_\w+ is float32; convert"):
            lowbit.Quantize(quantizer)(Tensor(np.ones((2, 3))))
        assert lowbit.Quantize(quantizer).double()(Tensor(np.ones((2, 3)))).dtype == np.float64
    with pytest.raises(ValueError, match=r"Quantize: the factor of XNOR belongs to a layer with weights; use Sign\(\)"):
        lowbit.Quantize(lowbit.XNOR())(x)
    xnor = lowbit.Conv2d(4, 4, 3, groups=2, activation=lowbit.XNOR())
    with pytest.raises(ValueError, match=r"Conv2d: input.shape=\(4, 5\) has 2 axes, needs 4, or 3 without a batch"):
        xnor(Tensor(np.ones((4, 5), np.float32)))
    for channels in (3, 6):
        with pytest.raises(ValueError, match=r"conv2d: input.*channels|conv2d: .*groups"):
            xnor(Tensor(np.ones((2, channels, 5, 5), np.float32)))
    with pytest.raises(TypeError, match=r"^Quantize: activation=None must be a quantizer"):
        lowbit.Quantize(None)  # type: ignore[arg-type]
    for layer in (lowbit.Linear(3, 2, weight=lowbit.BWN()), lowbit.Linear(3, 2, activation=lowbit.Sign())):
        with pytest.raises(ValueError, match=r"per_sample_gradients: .*Linear.* is a low-bit layer, whose parameters"):
            retrograd.per_sample_gradients(layer, lambda layer=layer: layer(x).sum(1))


def test_per_sample_gradients_of_a_low_bit_recurrent_layer() -> None:
    """The rule reruns each sequence, through the quantizer."""
    layer = lowbit.GRU(3, 4, weight=lowbit.BWN(), dtype=np.float64)
    x = numbers(5, 2, 3)
    rows = retrograd.per_sample_gradients(layer, lambda: layer(Tensor(x))[1][0].sum(1))
    for n in range(2):
        layer.zero_grad()
        layer(Tensor(x[:, n : n + 1]))[1].sum().backward()
        for name, parameter in layer.named_parameters():
            np.testing.assert_allclose(rows[name].array[n], parameter.grad.array, 1e-9, 1e-12)


def test_second_derivatives_are_those_of_the_pseudo_gradient() -> None:
    """Polynomial straight-through: d/dx of g (2 - 2 |x|) is -2 sign(x) g inside."""
    x = Tensor(np.array([0.5, -0.25, 2.0]), requires_grad=True)
    layer = lowbit.Quantize(lowbit.Sign("polynomial"))
    (gx,) = retrograd.autograd.grad((layer(x) * Tensor(np.array([1.0, 3.0, 5.0]))).sum(), [x], create_graph=True)
    gx.sum().backward()
    np.testing.assert_allclose(x.grad.array, [-2.0, 6.0, 0.0])


@pytest.mark.parametrize("quantizer", [lowbit.BWN(), lowbit.BiReal()], ids=str)
def test_second_derivatives_through_the_scale(quantizer: lowbit.Quantizer) -> None:
    """The declared gradient of a scaled sign is a function of w and g; its gradients are correct."""
    w = Tensor(np.array([[0.5, -0.25, 1.5, 0.75], [-0.5, 2.0, 0.3, -0.7]]), requires_grad=True)
    g = Tensor(numbers(2, 4), requires_grad=True)

    def gradient(w: Tensor, g: Tensor) -> Tensor:
        return retrograd.autograd.grad(quantizer.weight(w, (1,), {}, True), [w], g, create_graph=True)[0]

    def by_definition(w: Tensor, g: Tensor) -> Tensor:
        alpha = w.abs().mean(1, True)
        if isinstance(quantizer, lowbit.BiReal):
            alpha = alpha.detach()
        signs = Tensor(sign(w.array))
        straight = g * alpha * Tensor(clipped(w.array))
        return straight if isinstance(quantizer, lowbit.BiReal) else straight + signs * (g * signs).mean(1, True)

    for wanted in (w, g):
        upstream = Tensor(numbers(2, 4, seed=7))
        found, expected = (
            retrograd.autograd.grad((function(w, g) * upstream).sum(), [wanted], allow_unused=True)[0]
            for function in (gradient, by_definition)
        )
        values = np.zeros((2, 4)) if expected is None else expected.array
        np.testing.assert_allclose(np.zeros((2, 4)) if found is None else found.array, values, 1e-12, 1e-14)


def test_parametrized_weights_are_quantized() -> None:
    """Weight normalization first, then the quantizer; gradients reach both of its parameters."""
    layer = nn.utils.parametrizations.weight_norm(lowbit.Linear(5, 3, weight=lowbit.TWN(), dtype=np.float64))
    x = numbers(4, 5)
    computed = layer.weight.array
    np.testing.assert_allclose(layer(Tensor(x)).array, x @ twn_rows(computed).T + layer.bias.array, 1e-12)
    layer(Tensor(x)).sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    assert "weight=TWN()" in repr(layer)


def test_summary_counts_a_low_bit_layer_as_the_float_one() -> None:
    plain, layer = nn.Conv2d(3, 4, 3), lowbit.Conv2d(3, 4, 3, weight=lowbit.BWN(), activation=lowbit.Sign())
    rows = [retrograd.summary(module, (2, 3, 8, 8)).rows[0] for module in (plain, layer)]
    assert rows[0].multiply_adds == rows[1].multiply_adds and rows[0].parameters == rows[1].parameters


@pytest.mark.filterwarnings("ignore:a tensor of shape:UserWarning")
@pytest.mark.parametrize("quantizers", STATEFUL, ids=str)
def test_no_features_and_no_samples(quantizers: dict[str, Any]) -> None:
    for weight in {quantizers.get("weight"), lowbit.BWN(), lowbit.Int8(), lowbit.DoReFa(1), lowbit.TWN()}:
        for features, outputs, samples in ((0, 3, 2), (3, 0, 2), (3, 2, 0)):
            layer = lowbit.Linear(features, outputs, weight=weight, activation=quantizers.get("activation"))
            x = Tensor(np.ones((samples, features), np.float32), requires_grad=True)
            y = layer(x)
            assert y.shape == (samples, outputs) and np.isfinite(y.array).all()
            y.sum().backward()
    for groups in (1, 2):
        conv = lowbit.Conv1d(2, 4, 3, groups=groups, weight=lowbit.XNOR(), activation=lowbit.XNOR())
        assert conv(Tensor(np.ones((0, 2, 5), np.float32))).shape == (0, 4, 3)
