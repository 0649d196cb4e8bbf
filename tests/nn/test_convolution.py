"""Convolution layers against the oracle, for 1, 2 and 3 axes from one table of cases."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import naive
from retrograd import nn
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

CONV: dict[int, Any] = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSE: dict[int, Any] = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}

# Ci, Co, R, options; every one for 1, 2 and 3 axes
CASES: list[tuple[int, int, int, dict[str, Any]]] = [
    (2, 3, 3, {}),
    (2, 3, 3, {"padding": 1}),
    (3, 2, 1, {"stride": 2, "bias": False}),
    (2, 4, 2, {"stride": 3, "padding": 2}),
    (4, 6, 2, {"groups": 2, "dilation": 2, "padding": 1}),
    (3, 6, 3, {"groups": 3, "stride": 2, "padding": 1}),
]
OUTPUT_PADDING = [0, 0, 1, 2, 1, 1]


CASE_TABLE = pytest.mark.parametrize(
    ("ndim", "case"), [(ndim, case) for ndim in (1, 2, 3) for case in range(len(CASES))]
)


def arguments(layer: Any) -> tuple[Any, ...]:
    return layer.stride, [(p, p) for p in layer.padding], layer.dilation, layer.groups


def conv_by_loops(layer: Any, x: np.ndarray) -> np.ndarray:
    bias = None if layer.bias is None else layer.bias.array
    return naive.conv(x, layer.weight.array, bias, *arguments(layer))


def conv_transpose_by_loops(layer: Any, x: np.ndarray, output_padding: tuple[int, ...]) -> np.ndarray:
    bias = None if layer.bias is None else layer.bias.array
    size = tuple(
        (n - 1) * s - 2 * p + d * (r - 1) + extra + 1
        for n, s, p, d, r, extra in zip(
            *(x.shape[2:], layer.stride, layer.padding, layer.dilation, layer.kernel_size, output_padding),
            strict=True,
        )
    )
    return naive.conv_input_grad(x, layer.weight.array, bias, size, *arguments(layer))


SIZES = (7, 6, 5)


@CASE_TABLE
def test_conv_values(ndim: int, case: int) -> None:
    ci, co, kernel, options = CASES[case]
    layer = CONV[ndim](ci, co, kernel, dtype=np.float64, **options)
    x = np.random.default_rng(case).normal(size=(2, ci, *SIZES[:ndim]))
    kept = x.copy()
    expected = conv_by_loops(layer, x)
    np.testing.assert_allclose(layer(Tensor(x)).array, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(layer(Tensor(x[0])).array, expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(x, kept)


@CASE_TABLE
def test_conv_transpose_values(ndim: int, case: int) -> None:
    ci, co, kernel, options = CASES[case]
    extra = OUTPUT_PADDING[case]
    layer = TRANSPOSE[ndim](ci, co, kernel, output_padding=extra, dtype=np.float64, **options)
    x = np.random.default_rng(case).normal(size=(2, ci, *(4, 3, 3)[:ndim]))
    expected = conv_transpose_by_loops(layer, x, (extra,) * ndim)
    np.testing.assert_allclose(layer(Tensor(x)).array, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(layer(Tensor(x[1])).array, expected[1], rtol=1e-12, atol=1e-12)


def test_axes_have_arguments_of_their_own() -> None:
    layer = nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(0, 1), dilation=(2, 1), dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 5))
    np.testing.assert_allclose(layer(Tensor(x)).array, conv_by_loops(layer, x), rtol=1e-12)


def test_padding_in_words_and_pairs() -> None:
    x = np.random.default_rng(0).normal(size=(2, 1, 6))
    base = nn.Conv1d(1, 2, 4, dtype=np.float64)

    def run(padding: Any, x: np.ndarray, stride: int = 1) -> np.ndarray:
        layer = nn.Conv1d(1, 2, 4, stride=stride, padding=padding, dtype=np.float64)
        layer.load_state_dict(base.state_dict())
        return layer(Tensor(x)).array

    np.testing.assert_array_equal(run("valid", x), base(Tensor(x)).array)
    padded = np.pad(x, ((0, 0), (0, 0), (3, 0)))
    np.testing.assert_allclose(run([(3, 0)], x), base(Tensor(padded)).array, rtol=1e-12)
    assert run("same", x).shape == (2, 2, 6)
    assert run("same", x, stride=2).shape == (2, 2, 3)
    assert nn.Conv1d(1, 2, 4, padding=[(2, 2)]).padding == (2,)
    assert nn.Conv1d(1, 2, 4, padding=[(2, 1)]).padding == ((2, 1),)


# ---------------------------------------------------------------- output_size


def test_output_size_chooses_among_the_possible_ones() -> None:
    layer = nn.ConvTranspose2d(2, 3, 3, stride=(2, 3), padding=1, dtype=np.float64)
    x = np.random.default_rng(1).normal(size=(2, 2, 4, 3))
    for wanted in itertools.product((7, 8), (7, 8, 9)):
        extra = (wanted[0] - 7, wanted[1] - 7)
        y = layer(Tensor(x), output_size=wanted)
        assert y.shape == (2, 3, *wanted)
        np.testing.assert_allclose(y.array, conv_transpose_by_loops(layer, x, extra), rtol=1e-12, atol=1e-12)
    assert layer(Tensor(x), output_size=[2, 3, 8, 9]).shape == (2, 3, 8, 9)
    assert layer(Tensor(x[0]), output_size=(3, 8, 9)).shape == (3, 8, 9)


def test_output_size_errors() -> None:
    layer = nn.ConvTranspose2d(2, 3, 3, stride=(2, 3), padding=1)
    x = Tensor(np.zeros((2, 2, 4, 3), np.float32))
    with pytest.raises(ValueError, match=r"\(9, 7\) is impossible; .* can be \(7, 7\) to \(8, 9\)"):
        layer(x, output_size=(9, 7))
    with pytest.raises(ValueError, match="is impossible"):
        layer(x, output_size=(6, 7))
    with pytest.raises(ValueError, match=r"output_size=\(7,\) needs 2 extents, or 4 for the whole shape"):
        layer(x, output_size=(7,))


# ---------------------------------------------------------------- further options


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_layers_pass_their_options_on(ndim: int) -> None:
    """ops/convolution/test_convolution_options.py checks the functions against the oracle."""
    rng = np.random.default_rng(ndim)
    x = Tensor(rng.normal(size=(2, 4, *(5, 4, 4)[:ndim])))
    conv, transposed = getattr(F, f"conv{ndim}d"), getattr(F, f"conv_transpose{ndim}d")
    for options in (
        {"padding": "causal"},
        {"padding": "same_lower", "stride": 2, "groups": 2},
        {"padding": 1, "padding_mode": "circular"},
        {"padding": [(1, 0)] * ndim, "padding_mode": "reflect", "dilation": 2},
    ):
        layer = CONV[ndim](4, 6, 2, dtype=np.float64, **options)
        given = {"padding": options.get("padding", 0), **options}
        np.testing.assert_array_equal(layer(x).array, conv(x, layer.weight, layer.bias, **given).array)
        layer = TRANSPOSE[ndim](4, 6, 2, dtype=np.float64, **options)
        np.testing.assert_array_equal(layer(x).array, transposed(x, layer.weight, layer.bias, **given).array)
    layer = TRANSPOSE[ndim](4, 6, 3, 2, adj=1, dtype=np.float64)
    assert layer.output_padding == (1,) * ndim
    np.testing.assert_array_equal(layer(x).array, transposed(x, layer.weight, layer.bias, 2, output_padding=1).array)
    layer = TRANSPOSE[ndim](4, 6, 3, 2, target_shape=(8, 7, 6)[:ndim], dtype=np.float64)
    assert layer(x).shape == (2, 6, *(8, 7, 6)[:ndim])
    with pytest.raises(ValueError, match="target_shape already determines output_size"):
        layer(x, output_size=(8, 7, 6)[:ndim])


ACTIVATIONS: dict[str, Any] = {
    "relu": lambda y: np.maximum(y, 0),
    "tanh": np.tanh,
    "sigmoid": lambda y: 1 / (1 + np.exp(-y)),
    "softrelu": lambda y: np.log1p(np.exp(y)),
    "softplus": lambda y: np.log1p(np.exp(y)),
    "softsign": lambda y: y / (1 + abs(y)),
    "log_sigmoid": lambda y: -np.log1p(np.exp(-y)),
    "RELU": lambda y: np.maximum(y, 0),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_by_name(name: str) -> None:
    x = Tensor(np.random.default_rng(3).normal(size=(2, 3, 4)))
    for kind in (nn.Conv1d, nn.ConvTranspose1d):
        layer = kind(3, 4, 3, padding=1, activation=name, dtype=np.float64)
        plain = kind(3, 4, 3, padding=1, dtype=np.float64)
        plain.load_state_dict(layer.state_dict())
        np.testing.assert_allclose(layer(x).array, ACTIVATIONS[name](plain(x).array), rtol=1e-12, atol=1e-12)
        assert f"activation={name}" in repr(layer)


@pytest.mark.parametrize("activation", ["tanh", F.softsign, nn.PReLU(4, dtype=np.float64)])
def test_gradients_through_the_activation(activation: Any) -> None:
    rng = np.random.default_rng(5)
    layer = nn.ConvTranspose2d(2, 4, 2, activation=activation, dtype=np.float64)
    tensors = [Tensor(rng.normal(size=(1, 2, 3, 2)), requires_grad=True), *layer.parameters()]
    assert len(tensors) == 3 + isinstance(activation, nn.Module)
    gradcheck(lambda *_: layer(tensors[0]), tensors)
    gradgradcheck(lambda *_: layer(tensors[0]), tensors)


def test_an_activation_that_is_a_layer_is_a_child() -> None:
    layer = nn.Conv1d(1, 2, 3, activation=nn.PReLU())
    assert set(layer.state_dict()) == {"weight", "bias", "activation.weight"}
    assert repr(layer) == ("Conv1d(\n  1, 2, kernel_size=(3,), stride=(1,)\n  (activation): PReLU(num_parameters=1)\n)")
    layer.activation = None
    assert layer(Tensor(np.ones((1, 1, 3), np.float32))).shape == (1, 2, 1)
    other = nn.Conv1d(1, 2, 3)
    other.activation = "step"
    with pytest.raises(ValueError, match="Conv1d: activation='step' must be a function, or one of elu, gelu"):
        other(Tensor(np.ones((1, 1, 3), np.float32)))


def test_repr_of_the_options() -> None:
    assert repr(nn.Conv1d(1, 2, 3, padding_mode="circular", algorithm="direct", workspace=4)) == (
        "Conv1d(1, 2, kernel_size=(3,), stride=(1,), padding_mode=circular, algorithm=direct, workspace=4)"
    )
    assert repr(nn.ConvTranspose1d(1, 2, 3, target_shape=4, activation=F.relu)) == (
        "ConvTranspose1d(1, 2, kernel_size=(3,), stride=(1,), target_shape=(4,), activation=relu)"
    )


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_weights_lie_in_the_order_that_kernels_read(ndim: int) -> None:
    kernel = (2, 3, 4)[:ndim]
    conv = CONV[ndim](6, 8, kernel, groups=2)
    assert conv.weight.shape == (8, 3, *kernel)
    assert conv.weight.array.transpose(*range(2, 2 + ndim), 1, 0).flags.c_contiguous
    transposed = TRANSPOSE[ndim](6, 8, kernel, groups=2)
    assert transposed.weight.shape == (6, 4, *kernel)
    assert transposed.weight.array.transpose(*range(2, 2 + ndim), 1, 0).flags.c_contiguous
    assert conv.bias.shape == transposed.bias.shape == (8,)
    assert conv.weight.dtype == np.float32


@pytest.mark.parametrize("requests", list(itertools.product(("add", "write", "null"), repeat=2)))
def test_gradient_requests(requests: tuple[str, str]) -> None:
    rng = np.random.default_rng(7)
    layer = nn.Conv2d(2, 3, 3, padding=1, dtype=np.float64)
    x = Tensor(rng.normal(size=(2, 2, 4, 5)), requires_grad=True)
    g = Tensor(rng.normal(size=(2, 3, 4, 5)))

    def run() -> dict[str, np.ndarray]:
        layer(x).backward(g)
        return {"x": x.grad.array, "weight": layer.weight.grad.array, "bias": layer.bias.grad.array}

    reference = {name: array.copy() for name, array in run().items()}
    layer.zero_grad()
    x.grad = None
    previous = {}
    for name, request in zip(("weight", "bias"), requests, strict=True):
        parameter = getattr(layer, name)
        parameter.grad_req = request
        previous[name] = rng.normal(size=parameter.shape)
        parameter.grad = Tensor(previous[name].copy())
    result = run()
    np.testing.assert_array_equal(result["x"], reference["x"])
    for name, request in zip(("weight", "bias"), requests, strict=True):
        expected = {
            "add": previous[name] + reference[name],
            "write": reference[name],
            "null": previous[name],
        }[request]
        np.testing.assert_allclose(result[name], expected, rtol=1e-12)
        if request != "add":
            np.testing.assert_array_equal(result[name], expected)


def test_frozen_parameters_get_no_gradient() -> None:
    layer = nn.Conv1d(2, 3, 2)
    layer.weight.requires_grad_(False)
    layer.bias.grad_req = "null"
    y = layer(Tensor(np.ones((1, 2, 4), np.float32)))
    assert not y.requires_grad
    layer.bias.grad_req = "add"
    layer(Tensor(np.ones((1, 2, 4), np.float32))).sum().backward()
    assert layer.weight.grad is None
    np.testing.assert_allclose(layer.bias.grad.array, [3, 3, 3])


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"in_channels": 0}, ValueError, "Conv2d: in_channels=0 must be an int of at least 1"),
        ({"out_channels": 2.0}, ValueError, "Conv2d: out_channels=2.0 must be an int of at least 1"),
        ({"groups": True}, ValueError, "Conv2d: groups=True must be an int"),
        ({"groups": 3}, ValueError, "Conv2d: in_channels=4 must be divisible by groups=3"),
        ({"in_channels": 6, "groups": 3}, ValueError, "Conv2d: out_channels=4 must be divisible by groups=3"),
        ({"kernel_size": 0}, ValueError, "Conv2d: kernel_size=0 must be at least 1"),
        ({"kernel_size": (3, 3, 3)}, ValueError, r"Conv2d: kernel_size=\(3, 3, 3\) has 3 entries"),
        ({"kernel_size": 1.5}, TypeError, "Conv2d: kernel_size=1.5 must be an int"),
        ({"stride": 0}, ValueError, "Conv2d: stride=0 must be at least 1"),
        ({"dilation": (1, 0)}, ValueError, r"Conv2d: dilation=\(1, 0\) must be at least 1"),
        ({"padding": -1}, ValueError, "padding=-1 must be at least 0"),
        ({"padding": "full"}, ValueError, "Conv2d: padding='full' must be numbers or one of 'valid', 'same',"),
        ({"padding_mode": "wrap"}, ValueError, "Conv2d: padding_mode='wrap' must be one of zeros, reflect, replicate,"),
        ({"algorithm": "fastest"}, ValueError, "Conv2d: algorithm='fastest' must be one of auto, exact, direct,"),
        ({"workspace": -1}, ValueError, "Conv2d: workspace=-1 must be at least 0 MB; None means no limit"),
        ({"workspace": np.inf}, ValueError, "Conv2d: workspace=inf must be at least 0 MB"),
        ({"workspace": True}, TypeError, "Conv2d: workspace=True must be a number of MB, or None for no limit"),
        ({"activation": "step"}, ValueError, "Conv2d: activation='step' must be a function, or one of elu, gelu, "),
        ({"activation": 1}, TypeError, "Conv2d: activation=1 must be a name, a function of a Tensor, or None"),
        ({"dtype": np.int64}, TypeError, "dtype=int64, but layers compute in float32 or float64"),
        ({"dtype": "text"}, TypeError, "dtype='text' is not an element type of a Tensor"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        nn.Conv2d(**{"in_channels": 4, "out_channels": 4, "kernel_size": 3, **arguments})


def test_arguments_of_transposed_convolution_are_checked() -> None:
    with pytest.raises(ValueError, match="ConvTranspose1d: padding='full' must be numbers or one of 'valid'"):
        nn.ConvTranspose1d(1, 1, 3, padding="full")
    with pytest.raises(ValueError, match=r"ConvTranspose1d: output_padding=\(1,\) and padding='same' contradict"):
        nn.ConvTranspose1d(1, 1, 3, 2, padding="same", output_padding=1)
    with pytest.raises(ValueError, match="ConvTranspose1d: adj=1 and output_padding=1 are two names of the"):
        nn.ConvTranspose1d(1, 1, 3, 2, output_padding=1, adj=1)
    for other, value in {"padding": 1, "output_padding": 1, "adj": 1}.items():
        with pytest.raises(ValueError, match=f"ConvTranspose1d: target_shape already determines .*{other}"):
            nn.ConvTranspose1d(1, 1, 3, 2, target_shape=7, **{other: value})
    with pytest.raises(ValueError, match="ConvTranspose1d: target_shape=0 must be at least 1"):
        nn.ConvTranspose1d(1, 1, 3, 2, target_shape=0)
    with pytest.raises(ValueError, match=r"output_padding=\(2,\) must be smaller than stride=\(2,\)"):
        nn.ConvTranspose1d(1, 1, 3, stride=2, output_padding=2)
    nn.ConvTranspose1d(1, 1, 3, output_padding=1, dilation=2)
    with pytest.raises(ValueError, match="ConvTranspose1d: output_padding=-1 must be at least 0"):
        nn.ConvTranspose1d(1, 1, 3, output_padding=-1)


@pytest.mark.parametrize(
    ("x", "kind", "message"),
    [
        (np.zeros((1, 3, 8, 8), np.float32), ValueError, r"input has 3 channels, weight expects 4 = 2 groups of 2"),
        (np.zeros((1, 4, 8), np.float32), ValueError, r"conv2d: input has 1 channels, weight expects"),
        (np.zeros((8, 8), np.float32), ValueError, r"conv2d: input has 2 axes, needs 4"),
        (np.zeros((1, 4, 2, 8), np.float32), ValueError, r"no output on axis 0"),
        (np.zeros((1, 4, 8, 8), np.float64), TypeError, r"conv2d: input is float64, weight is float32"),
    ],
)
def test_inputs_are_checked(x: np.ndarray, kind: type[Exception], message: str) -> None:
    layer = nn.Sequential(nn.Conv2d(4, 4, 3, groups=2))
    start = r"^in 0 \(Conv2d\(4, 4, kernel_size=\(3, 3\), stride=\(1, 1\), groups=2\)\): .*"
    with pytest.raises(kind, match=start + f"({message})"):
        layer(Tensor(x))
