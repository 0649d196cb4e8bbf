"""retrograd.nn.grad against the oracle, in 1, 2 and 3 dimensions, and its derivatives up to the third order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import naive
from ops.battery import EXACT, numbers, recorded_kernels
from retrograd import Tensor, nn
from retrograd.autograd import grad, gradcheck, gradgradcheck
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.nn.grad import conv_backward

Options = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One forward pass. size: the input's shape; pairs: the padding as numbers."""

    size: tuple[int, ...]
    kernel: tuple[int, ...]
    options: Options
    pairs: tuple[tuple[int, int], ...]
    inputs: int = 2
    outputs: int = 3
    transposed: bool = False

    @property
    def ndim(self) -> int:
        return len(self.size)

    @property
    def groups(self) -> int:
        return int(self.options.get("groups", 1))

    def sizes(self, option: str) -> tuple[int, ...]:
        value = self.options.get(option, 1)
        return (value,) * self.ndim if isinstance(value, int) else value

    @property
    def name(self) -> str:
        return f"conv_transpose{self.ndim}d" if self.transposed else f"conv{self.ndim}d"

    def function(self, operand: str) -> Callable[..., Tensor]:
        return getattr(nn.grad, f"{self.name}_{operand}")

    def arrays(self, batch: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, w and an upstream gradient of the output's shape."""
        first, second = (self.inputs, self.outputs) if self.transposed else (self.outputs, self.inputs)
        x = numbers(batch, self.inputs, *self.size, seed=1)
        w = numbers(first, second // self.groups, *self.kernel, seed=2)
        y = getattr(F, self.name)(Tensor(x), Tensor(w), None, **self.options)
        return x, w, numbers(*y.shape, seed=3)

    def expected(self, x: np.ndarray, w: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """By loops."""
        geometry = self.sizes("stride"), self.pairs, self.sizes("dilation"), self.groups
        gb = np.array([g[:, k].sum() for k in range(g.shape[1])])
        if self.transposed:
            # an output_padding above the stride makes room for outputs that the forward pass did not have as inputs
            gx = naive.conv(g, w, None, *geometry)[(..., *map(slice, x.shape[2:]))]
            return gx, naive.conv_weight_grad(g, x, w.shape[2:], *geometry), gb
        gx = naive.conv_input_grad(g, w, None, x.shape[2:], *geometry)
        return gx, naive.conv_weight_grad(x, g, w.shape[2:], *geometry), gb


CASES = {
    "1-D": Case((5,), (3,), {"padding": 1}, ((1, 1),)),
    "1-D, stride leaves positions unread": Case((6,), (2,), {"stride": 4}, ((0, 0),)),
    "2-D, asymmetric": Case(
        (5, 4), (3, 2), {"stride": (2, 1), "padding": ((1, 2), (0, 1)), "dilation": (1, 2)}, ((1, 2), (0, 1))
    ),
    "2-D, groups": Case((4, 4), (2, 3), {"padding": 1, "groups": 2}, ((1, 1), (1, 1)), 4, 6),
    "2-D, depthwise": Case((3, 4), (2, 2), {"groups": 3}, ((0, 0), (0, 0)), 3, 3),
    "2-D, same": Case((4, 5), (2, 3), {"padding": "same", "stride": 2}, ((0, 0), (1, 1))),
    "3-D": Case((3, 2, 4), (2, 1, 3), {"stride": (1, 2, 1), "padding": (0, 0, 1)}, ((0, 0), (0, 0), (1, 1))),
    "1-D, transposed": Case((3,), (3,), {"stride": 2, "output_padding": 1}, ((0, 0),), transposed=True),
    "2-D, transposed": Case(
        (3, 2),
        (2, 3),
        {"stride": (2, 3), "padding": ((0, 1), (1, 0)), "output_padding": (1, 2), "dilation": (1, 2)},
        ((0, 1), (1, 0)),
        transposed=True,
    ),
    "2-D, transposed, groups": Case((2, 3), (2, 2), {"groups": 2, "padding": 1}, ((1, 1),) * 2, 4, 6, transposed=True),
    "2-D, transposed, dilation over stride": Case(
        (2, 2), (2, 2), {"dilation": 3, "output_padding": 2}, ((0, 0),) * 2, transposed=True
    ),
    "3-D, transposed": Case((2, 2, 1), (2, 1, 2), {"stride": 2}, ((0, 0),) * 3, transposed=True),
}
TABLE = pytest.mark.parametrize("name", CASES)


def close(actual: Tensor | None, expected: np.ndarray) -> None:
    assert actual is not None
    np.testing.assert_allclose(actual.array, expected, rtol=1e-11, atol=1e-11)


@TABLE
def test_values(name: str) -> None:
    case = CASES[name]
    arrays = x, w, g = case.arrays()
    tx, tw, tg = map(Tensor, arrays)
    gx, gw, gb = case.expected(x, w, g)
    close(case.function("input")(x.shape, tw, tg, **case.options), gx)
    close(case.function("weight")(tx, w.shape, tg, **case.options), gw)
    close(case.function("bias")(tg), gb)
    all_three = conv_backward(tg, tx, tw, transposed=case.transposed, **case.options)
    for found, wanted in zip(all_three, (gx, gw, gb), strict=True):
        close(found, wanted)


@TABLE
def test_they_are_what_backward_delivers(name: str) -> None:
    case = CASES[name]
    x, w, g = case.arrays()
    leaves = [Tensor(a, requires_grad=True) for a in (x, w, numbers(g.shape[1]))]
    getattr(F, case.name)(*leaves, **case.options).backward(Tensor(g))
    found = conv_backward(Tensor(g), leaves[0], leaves[1], transposed=case.transposed, **case.options)
    for gradient, leaf in zip(found, leaves, strict=True):
        assert gradient is not None
        np.testing.assert_array_equal(gradient.array, leaf.grad.array)


@TABLE
@pytest.mark.parametrize("batch", [0, 1, 3])
def test_per_sample(name: str, batch: int) -> None:
    """Row n is the gradient of a batch of sample n alone; the rows add up to the gradient of all."""
    case = CASES[name]
    x, w, g = case.arrays(batch)
    tx, tw, tg = map(Tensor, (x, w, g))
    gw = case.function("weight")(tx, w.shape, tg, per_sample=True, **case.options)
    gb = case.function("bias")(tg, per_sample=True)
    assert gw.shape == (batch, *w.shape) and gb.shape == (batch, g.shape[1])
    for n in range(batch):
        _, one_w, one_b = case.expected(x[n : n + 1], w, g[n : n + 1])
        np.testing.assert_allclose(gw.array[n], one_w, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(gb.array[n], one_b, rtol=1e-11, atol=1e-11)
    close(case.function("weight")(tx, w.shape, tg, **case.options), gw.array.sum(0))
    found = conv_backward(tg, tx, tw, transposed=case.transposed, per_sample=True, **case.options)
    np.testing.assert_array_equal(found[1].array, gw.array)
    np.testing.assert_array_equal(found[2].array, gb.array)


TINY = {
    "1-D": Case((4,), (2,), {"stride": 2, "padding": ((1, 0),)}, ((1, 0),), 2, 2),
    "2-D, groups": Case((2, 3), (1, 2), {"groups": 2, "dilation": (1, 2)}, ((0, 0),) * 2, 2, 4),
    "2-D, transposed": Case((1, 2), (2, 2), {"stride": 2, "output_padding": 1}, ((0, 0),) * 2, 2, 1, transposed=True),
    "3-D, transposed, groups": Case((1, 2, 1), (1, 2, 2), {"groups": 2}, ((0, 0),) * 3, 2, 2, transposed=True),
}


@pytest.mark.parametrize("name", TINY)
def test_second_and_third_order(name: str) -> None:
    """Each gradient is linear in each operand, so finite differences are exact, also those of its gradients."""
    case = TINY[name]
    x, w, g = (Tensor(a, requires_grad=True) for a in case.arrays(2))
    functions: list[tuple[Callable[..., Any], tuple[Tensor, ...]]] = [
        (lambda w, g: case.function("input")(x.shape, w, g, **case.options), (w, g)),
        (lambda x, g: case.function("weight")(x, w.shape, g, **case.options), (x, g)),
        (lambda x, g: case.function("weight")(x, w.shape, g, per_sample=True, **case.options), (x, g)),
        (lambda g: case.function("bias")(g, per_sample=True), (g,)),
    ]
    for function, inputs in functions:
        assert gradcheck(function, inputs, **EXACT)
        assert gradgradcheck(function, inputs, check_layouts=False, **EXACT)


@TABLE
def test_per_sample_gradients_are_differentiable(name: str) -> None:
    """Their gradients equal those of one sample at a time."""
    case = CASES[name]
    x, w, g = (Tensor(a, requires_grad=True) for a in case.arrays())
    v = Tensor(numbers(3, *w.shape, seed=4))
    found = grad(case.function("weight")(x, w.shape, g, per_sample=True, **case.options), (x, g), v)
    for n in range(3):
        one = Tensor(x.array[n : n + 1], requires_grad=True), Tensor(g.array[n : n + 1], requires_grad=True)
        wanted = grad(case.function("weight")(one[0], w.shape, one[1], **case.options), one, v[n])
        for all_of_them, of_one in zip(found, wanted, strict=True):
            np.testing.assert_allclose(all_of_them.array[n : n + 1], of_one.array, rtol=1e-11, atol=1e-11)


def test_an_empty_batch_has_gradients() -> None:
    x, g = (Tensor(np.zeros((0, c, 4)), requires_grad=True) for c in (2, 3))
    gw = nn.grad.conv1d_weight(x, (3, 2, 3), g, padding=1, per_sample=True)
    gx, gg = grad(gw, (x, g), Tensor(np.zeros(gw.shape)))
    assert gx.shape == x.shape and gg.shape == g.shape


@TABLE
def test_without_batch(name: str) -> None:
    case = CASES[name]
    x, w, g = case.arrays(1)
    gx, gw, gb = case.expected(x, w, g)
    tx, tw, tg = Tensor(x[0]), Tensor(w), Tensor(g[0])
    close(case.function("input")(tx.shape, tw, tg, **case.options), gx[0])
    close(case.function("weight")(tx, w.shape, tg, **case.options), gw)
    close(case.function("bias")(tg), gb)
    all_three = conv_backward(tg, tx, tw, transposed=case.transposed, **case.options)
    for found, wanted in zip(all_three, (gx[0], gw, gb), strict=True):
        close(found, wanted)


@TABLE
@pytest.mark.parametrize("mask", ["100", "010", "001", "101"])
def test_output_mask(name: str, mask: str) -> None:
    """Gradients that are not requested are not computed, and a shape can replace an array that is not read."""
    flags = tuple(flag == "1" for flag in mask)
    case = CASES[name]
    x, w, g = case.arrays()
    input = Tensor(x) if flags[1] else x.shape
    weight = Tensor(w) if flags[0] else w.shape
    with recorded_kernels() as names:
        found = conv_backward(Tensor(g), input, weight, transposed=case.transposed, output_mask=flags, **case.options)
    to_input = "conv" if case.transposed else "conv_input_grad"
    wanted = [kernel for kernel, flag in zip((to_input, "conv_weight_grad", "sum"), flags, strict=True) if flag]
    assert names == wanted
    for flag, gradient, expected in zip(flags, found, case.expected(x, w, g), strict=True):
        if flag:
            close(gradient, expected)
        else:
            assert gradient is None


@TABLE
def test_algorithm_and_workspace_reach_the_kernels(name: str) -> None:
    case = CASES[name]
    x, w, g = (Tensor(a, requires_grad=True) for a in case.arrays())
    how: Options = {"algorithm": "direct", "workspace": 2, **case.options}
    made = [
        case.function("input")(x.shape, w, g, **how),
        case.function("weight")(x, w.shape, g, **how),
        case.function("weight")(x, w.shape, g, per_sample=True, **how),
        *conv_backward(g, x, w, transposed=case.transposed, output_mask=(True, True, False), **how)[:2],
    ]
    for gradient in made:
        assert gradient.grad_fn.options == ("direct", 2 * 2**20)
    with pytest.raises(ValueError, match=f"{case.name}_input: algorithm='fastest' must be one of auto, exact, direct"):
        case.function("input")(x.shape, w, g, algorithm="fastest")


def test_channels_last_and_float32() -> None:
    """Channels-last operands, as in the layers; the result has their dtype."""
    case = CASES["2-D, groups"]
    x, w, g = (a.astype(np.float32) for a in case.arrays())
    last = [Tensor(np.moveaxis(np.moveaxis(a, 1, -1).copy(), -1, 1)) for a in (x, w, g)]
    for per_sample in (False, True):
        found = conv_backward(last[2], last[0], last[1], per_sample=per_sample, **case.options)
        wanted = conv_backward(*map(Tensor, (g, x, w)), per_sample=per_sample, **case.options)
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == np.float32
            np.testing.assert_allclose(a.array, b.array, rtol=1e-5, atol=1e-5)


X, W, G = (2, 4, 9, 9), (6, 2, 3, 3), (2, 6, 7, 7)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x, w, g: nn.grad.conv2d_input((2, 4, 9, 8), w, g, groups=2),
            "conv2d_input: grad_output.shape=(2, 6, 7, 7), needs (2, 6, 7, 6), the output shape for an input "
            "(2, 4, 9, 8) and a weight (6, 2, 3, 3)",
        ),
        (lambda x, w, g: nn.grad.conv2d_input(X, w, g), "conv2d_input: input has 4 channels, weight expects"),
        (lambda x, w, g: nn.grad.conv2d_input(X[1:], w, g, groups=2), "needs (6, 7, 7), the output shape"),
        (lambda x, w, g: nn.grad.conv2d_input((2, 4, -9, 9), w, g), "conv2d_input: input_size=(2, 4, -9, 9) must be"),
        (lambda x, w, g: nn.grad.conv2d_weight(x, W[1:], g), "conv2d_weight: weight has 3 axes, needs 4"),
        (lambda x, w, g: nn.grad.conv2d_weight(x, W, g, dilation=5, groups=2), "= -1 must be at least 1"),
        (
            lambda x, w, g: nn.grad.conv2d_weight(x[0], W, g[0], groups=2, per_sample=True),
            "conv2d_weight: per_sample=True needs a batch axis; grad_output.shape=(6, 7, 7)",
        ),
        (lambda x, w, g: nn.grad.conv2d_bias(g[0], per_sample=True), "conv2d_bias: per_sample=True needs a batch axis"),
        (lambda x, w, g: nn.grad.conv3d_bias(g[0]), "conv3d_bias: grad_output.shape=(6, 7, 7), needs 5 axes (batch, "),
        (
            lambda x, w, g: nn.grad.conv_transpose2d_input((2, 6, 3, 3), w, g, stride=2, groups=2),
            "conv_transpose2d_input: grad_output.shape=(2, 6, 7, 7), needs (2, 4, 7, 7), the output shape for an "
            "input (2, 6, 3, 3) and a weight (6, 2, 3, 3); output_padding selects one of several sizes",
        ),
        (lambda x, w, g: nn.grad.conv_transpose2d_weight(g, W, x, 1, 0, 1), "output_padding=1 on axis 0 must be less"),
        (lambda x, w, g: conv_backward(g, x, w, output_mask=(True, True)), "output_mask=(True, True) must be three"),
        (lambda x, w, g: conv_backward(g, x, w, output_mask=(1, 1, 1)), "output_mask=(1, 1, 1) must be three bools"),
        (
            lambda x, w, g: conv_backward(g, x, w, output_padding=1, groups=2),
            "conv_backward: output_padding=1 is for a transposed convolution; set transposed=True",
        ),
        (lambda x, w, g: conv_backward(g, x, w[0, 0]), "conv_backward: weight has 2 axes, needs 3 to 5"),
    ],
)
def test_messages(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call(*(Tensor(np.ones(shape)) for shape in (X, W, G)))


def test_messages_about_types() -> None:
    x, w, g = (Tensor(np.ones(shape)) for shape in (X, W, G))
    for call, message in (
        (lambda: nn.grad.conv2d_input(X, w.float(), g), "conv2d_input: weight is float32, grad_output is float64"),
        (lambda: nn.grad.conv2d_input(x, w.float(), g), "conv2d_input: weight is float32, grad_output is float64"),
        (lambda: nn.grad.conv2d_weight(x.array, W, g), "conv2d_weight: input is ndarray, needs a Tensor"),
        (lambda: nn.grad.conv2d_bias(g.array), "conv2d_bias: grad_output is ndarray, needs a Tensor"),
        (lambda: nn.grad.conv2d_input(9, w, g), "conv2d_input: input_size is int, needs a shape, a tuple of ints"),
        (lambda: nn.grad.conv2d_input((2, 4, 9.0, 9), w, g), "input_size=(2, 4, 9.0, 9) must be an int"),
        (lambda: conv_backward(g, X, w), "conv_backward: input is tuple, needs a Tensor"),
    ):
        with pytest.raises(TypeError, match=re.escape(message)):
            call()


@pytest.mark.parametrize(
    ("stride", "dilation", "kernel", "padding"), [(1, 3, 2, 0), (2, 3, 2, 1), (1, 2, 3, 1), (3, 1, 2, 0)]
)
def test_sizes_of_output_padding(stride: int, dilation: int, kernel: int, padding: int) -> None:
    """The input may be larger than the convolution reads; the gradient of the remaining positions is 0."""
    random = np.random.default_rng(0)
    g, w = random.standard_normal((2, 4, 3)), random.standard_normal((4, 5, kernel))
    for extra in range(max(stride, dilation)):
        extent = (3 - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1
        expected = np.zeros((2, 5, extent + 2 * padding))
        for o in range(3):
            for r in range(kernel):
                expected[:, :, o * stride + r * dilation] += g[:, :, o] @ w[:, :, r]
        found = nn.grad.conv1d_input((2, 5, extent), Tensor(w), Tensor(g), stride, padding, dilation)
        np.testing.assert_allclose(found.numpy(), expected[:, :, padding : padding + extent], atol=1e-12)
    with pytest.raises(ValueError, match="conv1d_input: grad_output.shape="):
        extent += stride
        nn.grad.conv1d_input((2, 5, extent + dilation), Tensor(w), Tensor(g), stride, padding, dilation)


OUTPUT_PADDED = {  # stride, dilation, kernel, padding, output, groups; every rest below max(stride, dilation) is run
    "2-D": ((1, 2), (3, 2), (2, 3), (0, 1), (3, 2), 1),
    "2-D, strides": ((2, 3), (3, 1), (2, 2), (1, 0), (2, 3), 2),
    "3-D": ((1, 2, 1), (2, 1, 3), (2, 2, 1), (1, 0, 0), (2, 2, 3), 1),
    "3-D, groups": ((2, 1, 2), (1, 3, 3), (1, 2, 2), (0, 1, 1), (3, 2, 2), 2),
}


@pytest.mark.parametrize("name", OUTPUT_PADDED)
def test_sizes_of_output_padding_in_more_dimensions(name: str) -> None:
    stride, dilation, kernel, padding, output, groups = OUTPUT_PADDED[name]
    n = len(stride)
    g, w = numbers(2, 4, *output, seed=5), numbers(4, 4 // groups, *kernel, seed=6)
    pairs = tuple((p, p) for p in padding)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    reached = 0
    for extra in np.ndindex(*(max(pair) for pair in zip(stride, dilation, strict=True))):
        size = tuple(
            (o - 1) * s - 2 * p + d * (k - 1) + e + 1
            for o, s, p, d, k, e in zip(output, stride, padding, dilation, kernel, extra, strict=True)
        )
        reached += any(e >= s for e, s in zip(extra, stride, strict=True))  # of no convolution with this output
        x = numbers(2, 4, *size, seed=7)
        expected = naive.conv_input_grad(g, w, None, size, stride, pairs, dilation, groups)
        tw, tg = Tensor(w, requires_grad=True), Tensor(g, requires_grad=True)
        gx = getattr(nn.grad, f"conv{n}d_input")(x.shape, tw, tg, **options)
        close(gx, expected)
        all_three = conv_backward(tg, Tensor(x), tw, **options)
        weight = naive.conv_weight_grad(x, g, kernel, stride, pairs, dilation, groups)
        for found, wanted in zip(all_three, (expected, weight, g.sum((0, *range(2, n + 2)))), strict=True):
            assert found is not None
            close(found, wanted)
        per_sample = conv_backward(tg, Tensor(x), tw, per_sample=True, **options)[1]
        assert per_sample is not None
        close(per_sample.sum(0), weight)
        # <gx(w, g), x> is linear in w and in g: its gradients are the other two of the three operators
        gx.backward(Tensor(x))
        close(tw.grad, weight)
        close(tg.grad, naive.conv(x, w, None, stride, pairs, dilation, groups)[(..., *map(slice, output))])
    assert reached
    tw, tg = Tensor(w, requires_grad=True), Tensor(g, requires_grad=True)
    gradcheck(lambda w, g: conv_backward(g, x.shape, w, output_mask=(True, False, False), **options)[0], (tw, tg))
    gradgradcheck(lambda w, g: getattr(nn.grad, f"conv{n}d_input")(x.shape, w, g, **options), (tw, tg))
    too_long = (*size[:-1], size[-1] + stride[-1] * dilation[-1] + 1)
    with pytest.raises(ValueError, match=rf"conv{n}d_input: grad_output.shape="):
        getattr(nn.grad, f"conv{n}d_input")((2, 4, *too_long), Tensor(w), Tensor(g), **options)
