"""Packed layers and chains of them against the low-bit layers and against loops over the quantized numbers."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import naive
import retrograd
from retrograd import Tensor, lowbit, nn
from retrograd.kernel_set import use_kernels

BINARY = [lowbit.BinaryConnect(), lowbit.BWN(), lowbit.XNOR(), lowbit.BiReal(), lowbit.DoReFa(1)]
SIGNS = [lowbit.Sign(), lowbit.XNOR(), lowbit.BiReal(), lowbit.Sign("swish")]
SEVERAL = [  # weights, input, on what they run if there are weights enough
    (lowbit.Int8(), lowbit.Int8(), "int8"),
    (lowbit.Int8(), lowbit.Fixed(4, 4), "int8"),
    (lowbit.LSQ(8), lowbit.LSQ(8), "int8"),
    (lowbit.LSQ(3), lowbit.LSQ(4, signed=True), "int8"),
    (lowbit.LSQ(9), lowbit.LSQ(8), "int16"),
    (lowbit.DoReFa(4), lowbit.DoReFa(3), "int8"),
    (lowbit.DoReFa(8), lowbit.DoReFa(8), "int16"),
    (lowbit.DoReFa(2), lowbit.PACT(5, alpha=2.0), "int8"),
    (lowbit.TWN(), lowbit.Sign(), "int8"),
    (lowbit.BWN(), lowbit.Int8(), "int8"),
    (lowbit.DeepShiftQ(3), lowbit.Int8(), "int8"),
    (lowbit.DeepShiftQ(5), lowbit.Fixed(3, 4), "int16"),
    (lowbit.DeepShiftPS(5), lowbit.Int8(), "int16"),
    (lowbit.DeepShiftPS(4, shifts=2), lowbit.Fixed(4, 4), "int16"),
    (lowbit.DeepShiftQ(5, shifts=3), lowbit.Fixed(3, 3), "int16"),
    (lowbit.DeepShiftQ(3, positive_only=True), lowbit.Fixed(4, 5), "int16"),
    (lowbit.BinaryConnect(), None, "float"),
    (lowbit.TWN(), None, "float"),
    (lowbit.DeepShiftQ(5), lowbit.Fixed(), "float"),
    (lowbit.Int8(), lowbit.Fixed(9, 9), "float"),
]


def drawn_layer(random: np.random.Generator, weight: Any, activation: Any) -> tuple[Any, np.ndarray]:
    """Return a Linear or convolution of random sizes and an input for it; the numbers include zeros and ties."""
    ndim = int(random.integers(0, 4))
    bias = bool(random.integers(2))
    quantizers = {"weight": weight, "activation": activation, "bias": bias}
    if ndim == 0:
        sizes = random.integers(1, 70, 2)
        layer: Any = lowbit.Linear(*map(int, sizes), **quantizers)
        shape = (*random.integers(0, 4, int(random.integers(0, 3))), sizes[0])
    else:
        groups = int(random.choice([1, 1, 2, 3]))
        inputs, outputs = (groups * int(random.choice([1, 2, 5, 32, 33])) for _ in "io")
        options: dict[str, Any] = {
            name: tuple(map(int, random.integers(*limits, ndim)))
            for name, limits in (("kernel_size", (1, 4)), ("stride", (1, 4)), ("padding", (0, 3)), ("dilation", (1, 3)))
        }
        options |= {"groups": groups, **quantizers}
        transposed = bool(random.integers(2))
        if not transposed and random.integers(4) == 0:
            options |= {"padding_mode": "circular", "padding": (1,) * ndim}
        if random.integers(4) == 0:
            options["output_activation"] = "relu"
        kind = f"Conv{'Transpose' * transposed}{ndim}d"
        layer = getattr(lowbit, kind)(inputs, outputs, **options)
        shape = (*([] if random.integers(5) == 0 else [int(random.integers(1, 3))]), inputs)
        shape = (*shape, *(int(random.integers(5, 8)) for _ in range(ndim)))
    for name, parameter in layer.named_parameters():
        shape_of = parameter.array.shape
        if name == "weight":
            parameter.array[...] = random.standard_normal(shape_of) * 0.15
            parameter.array[random.random(shape_of) < 0.1] = 0
        elif name == "weight_shift":
            parameter.array[...] = random.uniform(*weight.exponents, shape_of)
        elif name == "weight_sign":
            parameter.array[...] = random.uniform(-1, 1, shape_of)
    x = random.standard_normal(shape).astype(np.float32)
    x[random.random(x.shape) < 0.1] *= 0  # also -0
    layer(Tensor(x if x.size else np.ones((1, *shape[-ndim - 1 :]), np.float32)))  # is seen
    return layer.eval(), x


def products(x: np.ndarray, w: np.ndarray, layer: Any, extents: tuple[int, ...]) -> np.ndarray:
    """The sums of products by loops, float64; x has a batch axis."""
    if not hasattr(layer, "ndim"):
        return x.reshape(-1, x.shape[-1]) @ w.T
    padding = tuple((p, p) for p in layer.padding)
    if layer.padding_mode == "circular":
        x = np.pad(x, ((0, 0), (0, 0), *padding), "wrap")
        padding = ((0, 0),) * layer.ndim
    geometry = layer.stride, padding, layer.dilation, layer.groups
    if layer.transposed:
        return naive.conv_input_grad(x, w, None, extents, *geometry)
    return naive.conv(x, w, None, *geometry)


def compare_binary(seed: int) -> None:
    random = np.random.default_rng(seed)
    layer, x = drawn_layer(random, BINARY[random.integers(len(BINARY))], SIGNS[random.integers(len(SIGNS))])
    packed = layer.pack()
    assert packed.model.arithmetic == "binary"
    expected = layer(Tensor(x)).array
    np.testing.assert_array_equal(packed(Tensor(x)).array, expected, f"seed {seed}: {packed}")
    if layer.activation_quantizer == lowbit.XNOR():
        return
    w = layer.quantized().array.astype(np.float64)
    batch = x if x.ndim == getattr(layer, "ndim", 0) + 2 else x[None]
    exact = products(np.where(batch >= 0, 1.0, -1.0), w, layer, expected.shape[-getattr(layer, "ndim", 0) :])
    bias = 0 if layer.bias is None else layer.bias.array.reshape(-1, *(1,) * getattr(layer, "ndim", 0))
    exact = exact.reshape(expected.shape if not hasattr(layer, "ndim") else exact.shape) + bias
    if getattr(layer, "activation", None) == "relu":
        exact = exact.clip(0)
    exact = exact.reshape(expected.shape)
    np.testing.assert_allclose(expected, exact, 1e-5, 1e-5 * max(1, np.abs(exact).max(initial=0)))


def compare_several(seed: int, row: int) -> None:
    """The error is below the bound in the docstring: 8 * 2**-24 times the sum of absolute values."""
    random = np.random.default_rng(seed)
    weight, activation, arithmetic = SEVERAL[row]
    layer, x = drawn_layer(random, weight, activation)
    packed = layer.pack()
    found = packed.model.arithmetic
    fewer = {"int16": ("int8",), "int8": ("binary",)}.get(arithmetic, ())  # a small filter may have few values
    assert found == arithmetic or found in fewer, (packed, seed)
    y = packed(Tensor(x)).array
    ndim = getattr(layer, "ndim", 0)
    batch = x if x.ndim == ndim + 2 else x.reshape(-1, *x.shape[-ndim - 1 :])
    xq = batch if activation is None else activation.activation(Tensor(batch), layer._own("activation")).array
    w, xq = layer.quantized().array.astype(np.float64), xq.astype(np.float64)
    if isinstance(weight, lowbit.DoReFa):  # whose formula cancels
        w = np.rint(w * (2**weight.bits - 1)) / (2**weight.bits - 1)
    bias = None if layer.bias is None else layer._bias().array.reshape(-1, *(1,) * ndim).astype(np.float64)
    extents = y.shape[-ndim:]
    exact, size = products(xq, w, layer, extents), products(np.abs(xq), np.abs(w), layer, extents)
    if bias is not None:
        exact, size = exact + bias, size + np.abs(bias)
    if ndim and layer.activation == "relu":
        exact = exact.clip(0)
    bound = (2**-20 if arithmetic == "float" else 8 * 2**-24) * size
    assert (np.abs(y.reshape(exact.shape) - exact) <= bound.reshape(exact.shape)).all(), (packed, seed)


@pytest.mark.parametrize("seed", range(24))
def test_binary_layers(seed: int) -> None:
    """Bitwise equal to the low-bit layer, and correct, for random sizes, axes, groups, dilations, paddings."""
    compare_binary(seed)


@pytest.mark.parametrize("weight", [lowbit.TWN(), lowbit.DeepShiftQ(3, positive_only=True), lowbit.LSQ(2)])
def test_weights_that_happen_to_be_signs(weight: Any) -> None:
    """They run on 8-bit integers: "binary" promises the bits of the low-bit layer, which adds these up in float."""
    layer = lowbit.Linear(9, 4, weight=weight, activation=lowbit.Sign())
    retrograd.manual_seed(0)
    layer.weight.array[...] = np.where(retrograd.randn(4, 9).numpy() < 0, -0.3, 0.3)
    x = retrograd.randn(50, 9)
    packed, y = layer.eval().pack(), layer(x).detach().numpy()
    assert "arithmetic=int8" in str(packed.packing)
    np.testing.assert_allclose(packed(x).numpy(), y, rtol=0, atol=8 * 2.0**-24 * 10)


@pytest.mark.parametrize("row", range(len(SEVERAL)))
def test_layers_of_several_bits(row: int) -> None:
    for seed in (row, 100 + row):
        compare_several(seed, row)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_2000_geometries(seed: int, kernel_set: str) -> None:
    for each in range(seed * 1000, seed * 1000 + 100):
        compare_binary(each)
        compare_several(each, each % len(SEVERAL))


# ------------------------------------------------------------------------------------------------------------- chains


def settle(model: nn.Module, random: np.random.Generator) -> nn.Module:
    """Give the batch norms statistics, and weights and biases that include negative numbers and zeros."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            count = module.num_features
            module.weight.array[...] = random.standard_normal(count) * (random.random(count) > 0.1)
            module.bias.array[...] = random.standard_normal(count).round(1)
            module.running_mean.array[...] = random.standard_normal(count).round()
            module.running_var.array[...] = random.integers(0, 4, count) ** 2
    return model.eval()


def drawn_chain(seed: int) -> tuple[Any, np.ndarray]:
    """Return binary layers with random modules between them that can be fused."""
    random = np.random.default_rng(seed)
    retrograd.manual_seed(seed)
    ndim = int(random.integers(0, 3))
    channels = [int(random.choice([1, 3, 8, 32, 40])) for _ in range(4)]

    def layer(inputs: int, outputs: int, last: bool = False) -> Any:
        quantizers = {
            "weight": BINARY[random.integers(len(BINARY))],
            "activation": SIGNS[random.integers(len(SIGNS))],
            "bias": bool(random.integers(2)),
        }
        if ndim == 0 or last:
            return lowbit.Linear(inputs, outputs, **quantizers)
        groups = 2 if inputs % 64 == 0 else 1
        kind = f"Conv{'Transpose' * int(random.integers(2))}{ndim}d"
        options = {"stride": int(random.integers(1, 3)), "padding": 1, "groups": groups if outputs % 2 == 0 else 1}
        return getattr(lowbit, kind)(inputs, outputs, 3, **options, **quantizers)

    def norm(channels: int) -> Any:
        return getattr(nn, f"BatchNorm{max(ndim, 1)}d")(channels)

    def between(channels: int) -> list[nn.Module]:
        choices = [
            lambda: norm(channels),
            lambda: norm(channels),
            nn.ReLU,
            nn.Hardtanh,
            lambda: nn.Dropout(0.5),
            nn.Identity,
            lambda: nn.LeakyReLU(0.1),
            nn.ReLU6,
            lambda: lowbit.Quantize(lowbit.Sign()),
            nn.Tanh,
        ]
        found = [choices[random.integers(len(choices))]() for _ in range(int(random.integers(0, 4)))]
        if ndim:
            kernel = int(random.integers(1, 4))
            padding = int(random.integers(0, 2)) if kernel > 1 else 0
            pool = getattr(nn, f"MaxPool{ndim}d")(kernel, stride=2, padding=padding)
            found.insert(int(random.integers(0, len(found) + 1)), pool)
        return found

    modules = [layer(channels[0], channels[1]), *between(channels[1]), layer(channels[1], channels[2])]
    modules += between(channels[2])
    x = random.standard_normal((2, channels[0], *(23, 26)[:ndim])).astype(np.float32)
    model: Any = settle(nn.Sequential(*modules), random)
    if ndim:
        features = int(np.prod(model(Tensor(x)).array.shape[1:]))
        modules += [nn.Flatten(), *([nn.Hardtanh()] * int(random.integers(2))), layer(features, 5, last=True)]
    else:
        modules += [layer(channels[2], channels[3])]
    return settle(nn.Sequential(*modules[:1], nn.Sequential(*modules[1:])), random), x


def compare_chain(seed: int) -> int:
    model, x = drawn_chain(seed)
    packed, apart = model.pack(), model.pack(fuse=False)
    expected = model(Tensor(x)).array
    np.testing.assert_array_equal(packed(Tensor(x)).array, expected, f"seed {seed}: {packed}")
    np.testing.assert_array_equal(apart(Tensor(x)).array, expected, f"seed {seed}: {packed}")
    assert not apart.packing.joined
    return len(packed.packing.joined)


def test_chains_of_binary_layers() -> None:
    """Fused and unfused are bitwise equal: nested, pools before and after norms of both signs, ties."""
    assert sum(compare_chain(seed) for seed in range(20)) > 20


@pytest.mark.nightly
def test_many_chains_of_binary_layers() -> None:
    for seed in range(1000, 1300):
        compare_chain(seed)


@pytest.mark.parametrize("scale", [1.0, 4.0, -0.5, 0.0])
def test_every_sum_gives_the_bit_of_the_float_modules(scale: float) -> None:
    """All sums of 9 products, each next to its tie, at which batch norm gives 0 exactly."""
    layer = lowbit.Linear(9, 10, weight=lowbit.BinaryConnect(), activation=lowbit.Sign(), bias=False)
    layer.weight.array[...] = 1
    norm = nn.BatchNorm1d(10, eps=0.0)
    norm.running_mean.array[...] = np.arange(-9, 11, 2)
    norm.weight.array[...] = scale
    last = lowbit.Linear(10, 10, weight=lowbit.BinaryConnect(), activation=lowbit.Sign(), bias=False)
    last.weight.array[...] = 2 * np.eye(10, dtype=np.float32) - 1
    x = np.where(np.arange(9) < np.arange(10)[:, None], 1, -1).astype(np.float32)  # sums -9, -7, ..., 9
    sums = x.sum(1, keepdims=True)
    signs = np.where(scale * (sums - norm.running_mean.array) >= 0, 1, -1)
    expected = 2 * signs - signs.sum(1, keepdims=True)
    model = nn.Sequential(layer, norm, last).eval()
    packed = model.pack()
    assert packed.packing.joined == [("1", "0")]
    np.testing.assert_array_equal(packed(Tensor(x)).array, expected)
    np.testing.assert_array_equal(model(Tensor(x)).array, expected)


def test_chains_of_int8() -> None:
    """Codes between fused layers differ by at most 1 from those of the float modules, with pools and clipping."""
    random = np.random.default_rng(3)
    retrograd.manual_seed(3)
    quantizers: dict[str, Any] = {"weight": lowbit.Int8(), "activation": lowbit.Int8()}
    model: Any = nn.Sequential(
        lowbit.Conv2d(3, 8, 3, **quantizers),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        lowbit.Conv2d(8, 7, 3, **quantizers),
        nn.ReLU6(),
        nn.MaxPool2d(2, stride=1),
        nn.Flatten(),
        lowbit.Linear(7 * 9, 5, **quantizers),
        nn.Hardtanh(-3, 2),
        lowbit.Linear(5, 4, weight=lowbit.LSQ(4), activation=lowbit.LSQ(5, signed=True)),
    )
    x = Tensor(random.standard_normal((4, 3, 14, 14)).astype(np.float32))
    for _ in range(3):
        model(x)
    model[2].weight.array[::2] *= -1
    lowbit.calibrate(model, [x])
    model.eval()
    packed = model.pack()
    assert [path for path, _ in packed.packing.joined] == ["1", "2", "3", "5", "6", "7", "9"]
    hidden, y = x, x
    for last in (4, 8, 10):  # what enters each layer
        first = {4: 0, 8: 4, 10: 8}[last]
        for module in list(packed.model)[first:last]:
            hidden = module(hidden)
        for module in list(model)[first:last]:
            y = module(y)
        levels = packed.model[last].levels
        codes = np.clip(np.rint(y.array / np.float32(levels.step)), levels.low, levels.high) - levels.low
        codes = codes.reshape(len(codes), *((7, 3, 3) if last == 8 else codes.shape[1:]))
        ours = np.moveaxis(hidden.array, -1, 1)[:, : codes.shape[1]]
        assert np.abs(ours - codes).max() <= (1 if last == 4 else 3)
    scale = np.abs(model(x).array).max()
    assert np.abs(packed(x).array - model(x).array).max() < 0.1 * scale
    np.testing.assert_allclose(model.pack(fuse=False)(x).array, model(x).array, 0, 1e-4 * scale)


# ----------------------------------------------------------------------------------------- what packing leaves and says


def binary(*sizes: int, **options: Any) -> Any:
    return lowbit.Linear(*sizes, weight=lowbit.XNOR(), activation=lowbit.Sign(), **options)


def test_the_report_and_the_model() -> None:
    """The original is unchanged; the copy has no trainable parameters, records no graph, and refuses training."""
    model = nn.Sequential(nn.Linear(4, 40), binary(40, 32), nn.BatchNorm1d(32), binary(32, 3))
    before = {key: value.array.copy() for key, value in model.state_dict().items()}
    packed = model.pack()
    assert str(packed.packing) == (
        "pack: 3 packed, 1 joined to them, 1 left; 6,964 bytes became 1,160\n"
        "  packed  1: Linear(in_features=40, out_features=32, bias=True, weight=XNOR(), activation=Sign())\n"
        "       to PackedSum(Linear(in_features=40, out_features=32, bias=True, activation=Sign()), weight_bits=1, "
        "arithmetic=binary)\n"
        "  packed  2: BatchNorm1d(32, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)\n"
        "       to PackedNorm(32, ndim=1)\n"
        "  packed  3: Linear(in_features=32, out_features=3, bias=True, weight=XNOR(), activation=Sign())\n"
        "       to PackedSum(Linear(in_features=32, out_features=3, bias=True, activation=Sign()), weight_bits=1, "
        "arithmetic=binary)\n"
        "  joined  2: part of 1\n"
        "  left    0: Linear(in_features=4, out_features=40, bias=True): it is float"
    )
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(value.array, before[key])
    assert not any(parameter.requires_grad for parameter in packed.parameters())
    x = retrograd.randn(2, 4, requires_grad=True)
    assert not packed(x).requires_grad and packed.eval() is packed
    for part in (packed, *packed.model.modules()):
        if type(part).__module__.startswith("retrograd.lowbit"):
            with pytest.raises(RuntimeError, match="a packed model is for inference: its weights are bits; train"):
                part.train()
    model[0].weight.array[...] = 0  # is not shared
    assert np.abs(packed.model[0].weight.array).min() > 0


def test_why_a_layer_is_float() -> None:
    layers = {
        "its input is float": lowbit.Linear(3, 2, weight=lowbit.BWN()),
        "the codes of its input or of a filter exceed 16 bits": lowbit.Linear(
            3, 2, weight=lowbit.DeepShiftQ(), activation=lowbit.Fixed()
        ),
        "sums of products exceed int32; take fewer bits": lowbit.Linear(
            900, 2, weight=lowbit.LSQ(16), activation=lowbit.Fixed(8, 8)
        ),
    }
    for reason, layer in layers.items():
        layer.eval()
        packed = layer.pack()
        assert reason in f"{packed}" and reason in f"{packed.packing}"
        x = retrograd.randn(2, layer.in_features)
        np.testing.assert_allclose(packed(x).array, layer(x).array, 1e-5, 1e-5)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"])
def test_recurrent_layers(kind: str) -> None:
    """Weights are stored in bits and computed in float: results agree up to the last bit of a weight."""
    for weight in (lowbit.BWN(), lowbit.DeepShiftPS(4, shifts=2), lowbit.DoReFa(3), lowbit.Int8()):
        options: dict[str, Any] = {} if "Cell" in kind else {"num_layers": 2, "bidirectional": True}
        layer = getattr(lowbit, kind)(5, 4, weight=weight, **options).eval()
        packed = layer.pack()
        bits = {"BWN": 1, "DeepShiftPS": 4, "DoReFa": 3, "Int8": 8}[type(weight).__name__]
        assert {each.format.bits for each in packed.model.weights.values()} == {bits}
        x = retrograd.randn(*(3, 5) if "Cell" in kind else (6, 3, 5))
        expected, found = layer(x), packed(x)
        pairs = [(expected, found)] if isinstance(expected, Tensor) else list(zip(expected, found, strict=True))
        for one, other in pairs:
            for a, b in zip(*([each] if isinstance(each, Tensor) else each for each in (one, other)), strict=True):
                np.testing.assert_allclose(b.array, a.array, 1e-5, 1e-5)


def test_a_copy_of_a_packed_model() -> None:
    """The copy computes the same, also on the other kernel set, in float32 and float64."""
    for dtype in (np.float32, np.float64):
        norm = nn.BatchNorm1d(40, dtype=dtype)
        chain = nn.Sequential(binary(9, 40, dtype=dtype), norm, binary(40, 3, dtype=dtype))
        model = settle(chain, np.random.default_rng(1))
        packed, x = model.pack(), Tensor(np.random.default_rng(2).standard_normal((20, 9)).astype(dtype))
        expected = packed(x).array
        assert expected.dtype == dtype and packed.packing.joined
        np.testing.assert_array_equal(expected, model(x).array)
        for name in ("textbook", "compiled"):
            with use_kernels(name):
                np.testing.assert_array_equal(copy.deepcopy(packed)(x).array, expected)


def test_modules_of_other_classes_keep_their_code() -> None:
    """A layer with two paths and one in a list are packed; a chain with a module that has two paths is not fused."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = binary(4, 4)
            self.more = nn.ModuleList([self.one, nn.BatchNorm1d(4)])
            self.chain = nn.Sequential(self.one, self.more[1], self.one)

        def forward(self, x: Tensor) -> Tensor:
            return self.chain(self.one(x) + x) + self.more[0](x)

    model, x = settle(Twice(), np.random.default_rng(0)), retrograd.randn(5, 4)
    packed = model.pack()
    assert packed.model.one is packed.model.more[0] is packed.model.chain[0] and not packed.packing.joined
    np.testing.assert_array_equal(packed(x).array, model(x).array)


def test_bfloat16_rounds_to_the_nearest() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), binary(2, 2))
    model[0].weight.array[...] = [[1 + 2**-8, 1 + 3 * 2**-8], [-1 - 2**-7 - 2**-9, 3e38]]
    found = model.pack(floats="bfloat16").model[0].weight.array
    np.testing.assert_array_equal(found, np.float32([[1, 1 + 2**-6], [-1 - 2**-7, float.fromhex("0x1.c4p+127")]]))


def test_messages_of_packed_layers() -> None:
    packed = nn.Sequential(binary(4, 32), nn.ReLU(), binary(32, 2)).pack()
    first, relu, last = packed.model
    with pytest.raises(TypeError, match=r"Linear\(in_features=4.*: input is float64, the packed layer needs float32"):
        packed(Tensor(np.zeros((1, 4))))
    with pytest.raises(TypeError, match="input is ndarray, the packed layer needs float32"):
        packed(np.zeros((1, 4), np.float32))
    with pytest.raises(ValueError, match=r"input.shape=\(2, 3, 4\) must have 2 axes, .*pack\(model, fuse=False\)"):
        packed(retrograd.zeros(2, 3, 4))
    with pytest.raises(ValueError, match=r"input.shape=\(2, 5\) must have in_features=4 in its last axis"):
        packed(retrograd.zeros(2, 5))
    codes = first(retrograd.zeros(2, 4))
    with pytest.raises(AttributeError, match=r"is codes, which have no 'shape'; call the whole Sequential"):
        _ = codes.shape
    with pytest.raises(ValueError, match=r"PackedSum: input has codes uint32 \(2, 1\), needs uint8 \(N, ..., 8\)"):
        layer = lowbit.Linear(5, 2, weight=lowbit.Int8(), activation=lowbit.LSQ(4))
        layer(retrograd.ones(1, 5))
        layer.pack().model(codes)
    pool = nn.Sequential(*(lowbit.Conv1d(1, 1, 1, weight=lowbit.BWN(), activation=lowbit.Sign()) for _ in "ab"))
    pool.insert(1, nn.MaxPool1d(2))
    with pytest.raises(TypeError, match="PackedMaxPool: input is Tensor, expected the codes of a packed layer"):
        pool.pack().model[1](retrograd.zeros(1, 1, 4))
    norm = nn.Sequential(nn.BatchNorm2d(3), binary(3, 3)).pack().model[0]
    with pytest.raises(ValueError, match=r"PackedNorm: input.shape=\(1, 3\) must be \(N, 3, H, W\)"):
        norm(retrograd.zeros(1, 3))
    with pytest.raises(TypeError, match="PackedNorm: input is float64, needs float32"):
        norm(Tensor(np.zeros((1, 3, 1, 1))))


class Own(lowbit.Linear):
    """A subclass with its own forward, which a packed layer would lose."""


class Levelless(lowbit.Quantizer):
    for_weights = True

    def weight(self, w: Any, axes: Any, own: Any, training: bool) -> Tensor:
        return w * 2.0

    def __repr__(self) -> str:
        return "Levelless()"


def unseen() -> Any:
    return lowbit.Linear(2, 2, weight=lowbit.Int8(), activation=lowbit.Int8())


def hooked() -> Any:
    layer = binary(2, 2)
    layer.register_forward_hook(lambda *_: None)
    return layer


def not_finite() -> Any:
    layer = binary(2, 2)
    layer.weight.array[0] = np.nan
    return layer


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (Own(2, 2, weight=lowbit.BWN()), r"0: Own\(.*\) has custom code in Own; leave it out: skip=\['0'\]"),
        (hooked(), r"0: Linear\(.*\) has hooks, which a packed layer does not run; remove them, or skip=\['0'\]"),
        (unseen(), r"0: .*: its Int8\(\) has seen no input; run lowbit.calibrate\(model, batches\) first; or leave it"),
        (not_finite(), r"0: .*: weight contains numbers that are not finite; or leave it out: skip=\['0'\]"),
        (
            lowbit.Linear(300, 2, weight=Levelless()),
            r"0: .*: filter 0 of weight has 300 distinct numbers, and codes "
            r"of at most 8 bits can list 256; define weight_levels in Levelless, if they are evenly spaced; or leave",
        ),
    ],
)
def test_layers_that_cannot_be_packed(layer: Any, message: str) -> None:
    """An error that names the path; with skip, the layer stays as it is."""
    model = nn.Sequential(layer, binary(2, 2)).eval()
    with pytest.raises(ValueError, match=f"^pack: {message}"):
        model.pack()
    packed = model.pack(skip="0")
    assert packed.packing.left[0].reason == "it is in skip" and type(packed.model[0]) is type(layer)


def test_options_that_are_refused() -> None:
    model = nn.Sequential(binary(2, 2))
    for error, options, message in (
        (ValueError, {"skip": ["1"]}, "pack: skip has '1', the model has no module with that path"),
        (ValueError, {"skip": ["0"]}, r"no low-bit layers to pack; convert it first, for example with lowbit.conv"),
        (TypeError, {"fuse": 2}, "pack: fuse=2 must be True or False"),
        (ValueError, {"floats": "int8"}, 'pack: floats=.int8. must be "float32" or "bfloat16"'),
        (ValueError, {"classes": ["a", 1]}, r"classes=\['a', 1\] must be a list of distinct strings"),
        (ValueError, {"image": {"size": 3}}, "image=.* must be .*channels"),
        (ValueError, {"image": {"channels": 3, "size": 3, "std": [1, 1]}}, "one of each for each channel"),
        (ValueError, {"image": {"channels": 1, "size": 3, "std": [0]}}, "numbers above 0"),
    ):
        with pytest.raises(error, match=message):
            model.pack(**options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="pack: model is str, expected a Module"):
        lowbit.pack("model")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pack: the model is packed already"):
        lowbit.pack(model.pack())


# ---- quantizers of a user's own ------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Rounded(lowbit.Quantizer):
    """A quantizer without declared levels: values are not evenly spaced, differ per filter, and include both zeros."""

    count: int = 7

    for_weights = True

    def weight(self, w: Any, axes: Any, own: Any, training: bool) -> Tensor:
        steps = (w * (self.count / 4)).round().clamp(-(self.count // 2), self.count // 2)
        return steps * steps.abs() * w.abs().amax(axes, keepdim=True) * 0.37


@dataclass(frozen=True, repr=False)
class Halves(lowbit.Quantizer):
    """A quantizer to -1/2 and 1/2 that declares its levels, its signs, or nothing."""

    says: str = "nothing"

    for_weights = True

    def weight(self, w: Any, axes: Any, own: Any, training: bool) -> Tensor:
        return retrograd.where(w >= 0, 0.3, -0.3)

    def weight_levels(self, w: Any, axes: Any, own: Any) -> Any:
        return lowbit.Levels(0.3, -1, 1, stride=2) if self.says == "levels" else None

    def signs(self, w: Any, axes: Any) -> Any:
        scale = retrograd.full((w.shape[0], *(1,) * (w.ndim - 1)), 0.3)
        return (retrograd.where(w >= 0, 1.0, -1.0), scale) if self.says == "signs" else None


@dataclass(frozen=True, repr=False)
class Above(lowbit.Quantizer):
    """A quantizer with the signs of x - 0.4, where the kernels would use the signs of x."""

    for_activations = True

    def activation(self, x: Any, own: Any) -> Tensor:
        return retrograd.where(x >= 0.4, 1.0, -1.0)

    def activation_levels(self, own: Any) -> Any:
        return lowbit.Levels(1.0, -1, 1, stride=2)


@dataclass(frozen=True, repr=False)
class Declared(lowbit.Quantizer):
    """A quantizer to -0.75, -0.25, 0.25 and 0.75 with any declaration."""

    levels: lowbit.Levels

    for_weights = True

    def weight(self, w: Any, axes: Any, own: Any, training: bool) -> Tensor:
        return (w.clamp(-0.9, 0.9) * 2 - 0.5).round() / 2 + 0.25

    def weight_levels(self, w: Any, axes: Any, own: Any) -> Any:
        return self.levels


@pytest.mark.parametrize(
    "levels",
    [
        lowbit.Levels(0.25, -1, 1, stride=2),  # too narrow
        lowbit.Levels(0.25, -2, 3, stride=2),  # even numbers
        lowbit.Levels(0.2501, -3, 3, stride=2),  # another step
        lowbit.Levels(0.5, -2, 2),  # no halves
    ],
)
def test_declared_levels_must_be_those_of_the_weight(levels: lowbit.Levels) -> None:
    layer = lowbit.Linear(9, 4, weight=Declared(levels))
    layer.weight.array[:] = np.linspace(-1, 1, 36).reshape(4, 9)
    message = r"weight of Declared\(.*: the quantized value -?0\.\d+ at \[\d, \d\] is not one of its weight_levels"
    with pytest.raises(ValueError, match=message):
        layer.pack()
    layer.weight_quantizer = Declared(lowbit.Levels(0.25, -3, 3, stride=2))
    x = retrograd.randn(3, 9)
    np.testing.assert_allclose(layer.pack()(x).numpy(), layer.eval()(x).detach().numpy(), rtol=1e-5, atol=1e-6)


class Learned(lowbit.Quantizer):
    """A quantizer with a learned step that is no dataclass, and returns its step as a Tensor."""

    for_weights = True

    def own_of_weight(self, w: Any) -> dict[str, Tensor]:
        return {"step": nn.Parameter(np.array(0.5, w.dtype))}

    def weight(self, w: Any, axes: Any, own: Any, training: bool) -> Tensor:
        return (w / own["step"]).round().clamp(-3, 3) * own["step"]

    def weight_levels(self, w: Any, axes: Any, own: Any) -> Any:
        return lowbit.Levels(own["step"], -3, 3)


def test_a_step_may_be_a_tensor() -> None:
    layer, x = lowbit.Linear(20, 4, weight=Learned(), activation=lowbit.Sign()).eval(), retrograd.randn(5, 20)
    packed = layer.pack()
    assert repr(layer).endswith("weight=Learned(), activation=Sign())") and packed.model.arithmetic == "int8"
    np.testing.assert_allclose(packed(x).numpy(), layer(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    steps = retrograd.tensor([[0.5], [0.25]])
    np.testing.assert_array_equal(lowbit.Levels(steps, -1, 1).step, steps.numpy())


OWN = [Rounded(), Rounded(255), Halves(), Halves("levels"), Halves("signs")]


@pytest.mark.parametrize("activation", [None, lowbit.Sign(), Above(), lowbit.Int8()], ids=str)
@pytest.mark.parametrize("weight", OWN, ids=str)
def test_a_quantizer_of_ones_own(weight: Any, activation: Any) -> None:
    """Codes are derived from the quantized values; the packed result is bitwise equal."""
    if isinstance(activation, lowbit.Int8) and weight == Halves("levels") or weight == Halves("signs"):
        return  # sums of integers, which round less often than the layer
    for seed in range(8):
        random = np.random.default_rng(seed)
        layer, x = drawn_layer(random, weight, activation)
        packed = layer.pack()
        expected = "binary" if isinstance(activation, (lowbit.Sign, Above)) and weight == Halves("levels") else "float"
        assert packed.model.arithmetic == expected
        np.testing.assert_array_equal(packed(Tensor(x)).array.view(np.uint32), layer(Tensor(x)).array.view(np.uint32))
        assert packed.model.weights["weight"].format.bits <= {Rounded(): 3, Rounded(255): 8}.get(weight, 1)


@pytest.mark.parametrize("activation", [lowbit.Sign(), Above()], ids=str)
def test_signs_and_scale_of_ones_own(activation: Any) -> None:
    for seed in range(8):
        layer, x = drawn_layer(np.random.default_rng(seed), Halves("levels"), activation)
        layer.weight_quantizer = Halves("signs")
        if getattr(layer, "transposed", False):
            continue
        packed = layer.pack()
        assert packed.model.arithmetic == "binary"
        np.testing.assert_array_equal(packed(Tensor(x)).array, layer(Tensor(x)).array)


def test_own_signs_between_layers_are_not_joined() -> None:
    retrograd.manual_seed(0)
    layers = [
        lowbit.Linear(64, 32, weight=lowbit.BWN(), activation=lowbit.Sign()),
        nn.BatchNorm1d(32),
        lowbit.Linear(32, 8, weight=lowbit.BWN(), activation=Above()),
    ]
    net = nn.Sequential(*layers).eval()
    x = retrograd.randn(50, 64)
    assert not net.pack().packing.joined
    np.testing.assert_array_equal(net.pack()(x).array, net(x).array)


def test_gradients_of_signs_from_levels() -> None:
    """In eval mode signs and scale are separate; the gradient of the weights is still the quantizer's."""

    @dataclass(frozen=True, repr=False)
    class Through(Halves):
        def weight(self, w: Any, axes: Any, own: Any, training: bool) -> Tensor:
            return super().weight(w, axes, own, training).detach() + 2.0 * (w - w.detach())

    layer = lowbit.Linear(5, 3, weight=Through("levels"), activation=lowbit.Sign()).eval()
    random = np.random.default_rng(0)
    x, g = (random.standard_normal(shape).astype(np.float32) for shape in ((4, 5), (4, 3)))
    layer(Tensor(x)).backward(Tensor(g))
    np.testing.assert_allclose(layer.weight.grad.array, 2 * g.T @ np.where(x >= 0, 1, -1), rtol=1e-5, atol=1e-5)
