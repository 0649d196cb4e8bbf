from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

from ops.battery import check, kernels_of_backward, numbers
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops.convolution.convolution import conv, conv_input_grad, conv_weight_grad
from retrograd.specs.convolution_options import AUTO, Options
from retrograd.specs.geometry import Window, conv_window

# input, kernel, stride, padding, dilation, groups
GEOMETRIES = {
    "1-D": ((5,), (3,), 1, 1, 1, 1),
    "1-D asymmetric": ((5,), (2,), 2, ((1, 0),), 2, 1),
    "pointwise": ((2, 2), (1, 1), 1, 0, 1, 1),
    "2-D": ((4, 3), (3, 2), (2, 1), (1, 0), 1, 1),
    "groups": ((3, 3), (2, 2), 1, 0, 1, 2),
    "depthwise": ((3, 3), (2, 2), 2, 1, 1, 4),
    "dilation": ((4, 4), (2, 2), 1, 1, 2, 1),
    "stride over kernel": ((5, 5), (1, 2), 3, 0, 1, 1),
    "3-D": ((2, 3, 2), (2, 2, 1), 1, (0, 1, 0), 1, 1),
}
CASES = pytest.mark.parametrize("name", GEOMETRIES)


def operands(name: str, batch: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, Window]:
    """Return x, w, g, the bias of y, the bias of x, and the window."""
    size, kernel, stride, padding, dilation, groups = GEOMETRIES[name]
    window = conv_window(size, kernel, stride, padding, dilation, groups)
    channels_in, channels_out = (4, 4) if groups > 1 else (2, 3)
    x = numbers(batch, channels_in, *size, seed=1)
    w = numbers(channels_out, channels_in // groups, *kernel, seed=2)
    g = numbers(batch, channels_out, *window.output, seed=3)
    return x, w, g, numbers(channels_out), numbers(channels_in), window


def form(window: Window, n: int, co: int, ci: int) -> Any:
    """Yield every (batch, output channel, input channel, channel in its group, o, r, i) of the trilinear form."""
    per_group = ci // window.groups
    for batch, c_out, c in itertools.product(range(n), range(co), range(per_group)):
        c_in = c_out // (co // window.groups) * per_group + c
        for o in itertools.product(*map(range, window.output)):
            for r in itertools.product(*map(range, window.kernel)):
                i = tuple(
                    a * s + b * d - low
                    for a, b, s, d, (low, _) in zip(o, r, window.stride, window.dilation, window.padding, strict=True)
                )
                if all(0 <= a < size for a, size in zip(i, window.input, strict=True)):
                    yield (batch, c_in, *i), (c_out, c, *r), (batch, c_out, *o)


@CASES
def test_the_three(name: str) -> None:
    x, w, g, b, bx, window = operands(name)
    y, gx, gw = np.zeros(g.shape), np.zeros(x.shape), np.zeros(w.shape)
    for at_x, at_w, at_g in form(window, 2, w.shape[0], x.shape[1]):
        y[at_g] += x[at_x] * w[at_w]
        gx[at_x] += g[at_g] * w[at_w]
        gw[at_w] += x[at_x] * g[at_g]
    column = (slice(None), *(None,) * window.ndim)
    wanted = {
        conv: ((x, w, b), y + b[column]),
        conv_input_grad: ((g, w, bx), gx + bx[column]),
    }
    for operator, (arrays, value) in wanted.items():
        run = lambda p, q, r, f=operator: f(p, q, r, window, AUTO)  # noqa: E731
        check(run, arrays, lambda *_, v=value: v, linear=True, rtol=1e-11)
    check(lambda p, q: conv_weight_grad(p, q, window, AUTO), (x, g), lambda *_: gw, linear=True, rtol=1e-11)


@CASES
def test_adjoint_identity(name: str) -> None:
    x, w, g, _, _, window = operands(name)
    tx, tw, tg = map(Tensor, (x, w, g))
    value = (conv(tx, tw, None, window, AUTO).array * g).sum()
    np.testing.assert_allclose((x * conv_input_grad(tg, tw, None, window, AUTO).array).sum(), value, rtol=1e-11)
    np.testing.assert_allclose((w * conv_weight_grad(tx, tg, window, AUTO).array).sum(), value, rtol=1e-11)


def test_every_node_holds_the_same_window_and_options() -> None:
    x, w, _, _, _, window = operands("2-D")
    tx, tw = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    options = Options("exact", 1 << 30)
    y = conv(tx, tw, None, window, options)
    gx, gw = grad(y, (tx, tw), Tensor(numbers(*y.shape), requires_grad=True), create_graph=True)
    (v,) = grad(gx, (tw,), Tensor(numbers(*gx.shape)), create_graph=True, retain_graph=True)
    waiting, found = [t.grad_fn for t in (y, gx, gw, v)], {}
    while waiting:
        node = waiting.pop()
        if node is not None:
            waiting += [other for other, _ in node.next_functions]
            if hasattr(node, "window"):
                found[id(node)] = (node.function.__name__, node.window, node.options)
    assert {name for name, *_ in found.values()} >= {"Conv", "ConvInputGrad", "ConvWeightGrad"}
    assert all(other is window and how is options for _, other, how in found.values())


def test_gradients_nobody_asked_for_are_not_computed() -> None:
    x, w, g, b, bx, window = operands("2-D")
    first = lambda x, w, b: conv(x, w, b, window, AUTO)  # noqa: E731
    second = lambda g, w, b: conv_input_grad(g, w, b, window, AUTO)  # noqa: E731
    third = lambda x, g: conv_weight_grad(x, g, window, AUTO)  # noqa: E731
    assert kernels_of_backward(first, (x, w, b), {0}) == ["conv_input_grad"]
    assert kernels_of_backward(first, (x, w, b), {1}) == ["conv_weight_grad"]
    assert kernels_of_backward(first, (x, w, b), {2}) == ["sum"]
    assert kernels_of_backward(second, (g, w, bx), {0}) == ["conv"]
    assert kernels_of_backward(second, (g, w, bx), {1, 2}) == ["conv_weight_grad", "sum"]
    assert kernels_of_backward(third, (x, g), {0}) == ["conv_input_grad"]
    assert kernels_of_backward(third, (x, g), {1}) == ["conv"]


def test_channels_last_in_memory() -> None:
    """Use the memory order of the layers: x (N, *I, C), w (*R, Ci, Co)."""
    x, w, g, b, _, window = operands("2-D")
    last_x = np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1)
    last_w = w.transpose(2, 3, 1, 0).copy().transpose(3, 2, 0, 1)
    assert not last_x.flags.c_contiguous and not last_w.flags.c_contiguous
    tensors = [Tensor(a, requires_grad=True) for a in (last_x, last_w, b)]
    y = conv(*tensors, window, AUTO)
    y.backward(Tensor(g))
    plain = [Tensor(a, requires_grad=True) for a in (x, w, b)]
    z = conv(*plain, window, AUTO)
    z.backward(Tensor(g))
    np.testing.assert_allclose(y.array, z.array, rtol=1e-12)
    for a, c in zip(tensors, plain, strict=True):
        np.testing.assert_allclose(a.grad.array, c.grad.array, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("ndim", [1, 2, 3])
def test_functions_of_all_dimensions(ndim: int) -> None:
    size, kernel = (4, 3, 3)[:ndim], (2,) * ndim
    forward, transposed = getattr(F, f"conv{ndim}d"), getattr(F, f"conv_transpose{ndim}d")
    x, w, b = Tensor(numbers(2, 4, *size)), Tensor(numbers(6, 2, *kernel)), Tensor(numbers(6))
    window = conv_window(size, kernel, 2, 1, 1, 2)
    y = forward(x, w, b, stride=2, padding=1, groups=2)
    np.testing.assert_array_equal(y.array, conv(x, w, b, window, AUTO).array)
    np.testing.assert_array_equal(forward(x[1], w, b, 2, 1, groups=2).array, y.array[1])

    back = transposed(y, w, None, 2, 1, tuple(n % 2 for n in size), 2)
    np.testing.assert_array_equal(back.array, conv_input_grad(y, w, None, window, AUTO).array)
    assert back.shape == x.shape
    one = transposed(y[0], w, Tensor(np.ones(4)), 2, 1, [n % 2 for n in size], 2)
    np.testing.assert_allclose(one.array, back.array[0] + 1)


@pytest.mark.parametrize("batched", [True, False])
def test_gradient_through_the_functions(batched: bool) -> None:
    x, w, b = numbers(2, 2, 4)[: 2 if batched else 1], numbers(2, 1, 3), numbers(2)
    x = x if batched else x[0]
    wanted = lambda x, w, b: F.conv1d(*map(Tensor, (x, w, b)), padding=1, groups=2).array  # noqa: E731
    check(lambda x, w, b: F.conv1d(x, w, b, padding=1, groups=2), (x, w, b), wanted, linear=True)
    wanted = lambda x, w, b: F.conv_transpose1d(*map(Tensor, (x, w, b)), stride=2, groups=2).array  # noqa: E731
    check(lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, groups=2), (x, w, b), wanted, linear=True)


@pytest.mark.parametrize(
    ("stride", "dilation", "size"), [(1, 1, 5), (1, 2, 6), (2, 1, 5), (2, 1, 6), (3, 2, 7), (4, 1, 3)]
)
@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_same_and_valid(kernel: int, stride: int, dilation: int, size: int) -> None:
    x, w = Tensor(numbers(1, 1, size)), Tensor(numbers(1, 1, kernel))
    y = F.conv1d(x, w, stride=stride, dilation=dilation, padding="same")
    assert y.shape[2] == -(-size // stride)
    if stride == 1:
        total = dilation * (kernel - 1)
        padded = np.pad(x.array, ((0, 0), (0, 0), (total // 2, total - total // 2)))
        np.testing.assert_allclose(y.array, F.conv1d(Tensor(padded), w, dilation=dilation, padding="valid").array)


def test_empty_batch() -> None:
    x, w, g, b, _, window = operands("2-D", batch=0)
    tensors = [Tensor(a, requires_grad=True) for a in (x, w, b)]
    y = conv(*tensors, window, AUTO)
    assert y.shape == g.shape
    y.backward(Tensor(g))
    assert tensors[0].grad.shape == x.shape
    np.testing.assert_array_equal(tensors[1].grad.array, np.zeros(w.shape))
    np.testing.assert_array_equal(tensors[2].grad.array, np.zeros(b.shape))


X, W = (1, 6, 9, 9), (8, 4, 3, 3)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        (
            (X, W),
            {"groups": 2},
            "conv2d: input has 6 channels, weight expects 8 = 2 groups of 4; input.shape=(1, 6, 9, 9), "
            "weight.shape=(8, 4, 3, 3)",
        ),
        (
            ((2, 9, 9, 3), (8, 3, 3, 3)),
            {},
            "input has 9 channels, weight expects 3; input.shape=(2, 9, 9, 3), weight.shape=(8, 3, 3, 3). Channels "
            "come before positions; if they are last in this input, pass x.permute(0, 3, 1, 2)",
        ),
        (((9, 3), (8, 3, 3)), {}, "if they are last in this input, pass x.permute(1, 0)"),
        (
            ((2, 1, 9, 9), (8, 3, 3, 3)),
            {},
            ". For one channel, make the layer with in_channels=1, or repeat it: x.expand(-1, 3, -1, -1)",
        ),
        (((1, 6, 9), (7, 2, 3)), {"groups": 3}, "weight.shape=(7, 2, 3) makes 7 channels, which groups=3 does not"),
        (((9,), (8, 4, 3)), {}, "input has 1 axes, needs 3 (batch, channels, 1 for positions) or 2 (without batch)"),
        ((X, (8, 4, 3)), {"ndim": 2}, "conv2d: weight has 3 axes, needs 4 (two for channels, 2 for taps); weight"),
        ((X, (8, 6, 3, 3), (7,)), {}, "bias.shape=(7,), needs (8,), one per output channel; weight.shape=(8, 6, 3, 3)"),
        ((X, (8, 6, 3, 3)), {"groups": 0}, "conv2d: groups=0 must be an int of at least 1"),
        ((X, (8, 6, 3, 3)), {"stride": 0}, "conv2d: stride=0 must be at least 1; input.shape=(1, 6, 9, 9)"),
        ((X, (8, 6, 3, 3)), {"stride": (1, 2, 3)}, "conv2d: stride=(1, 2, 3) has 3 entries"),
        ((X, (8, 6, 3, 3)), {"padding": "full"}, "conv2d: padding='full' must be numbers or one of 'valid', 'same', "),
        ((X, (8, 6, 3, 3)), {"padding": -1}, "conv2d: padding=-1 must be at least 0"),
        ((X, (8, 6, 3, 3)), {"dilation": 5}, "(9 + 0 + 0 - 5*(3 - 1) - 1)//1 + 1 = -1 must be at least 1"),
    ],
)
def test_messages_of_conv(shapes, options: dict[str, Any], message: str) -> None:
    options = dict(options)
    function = getattr(F, f"conv{options.pop('ndim', len(shapes[1]) - 2)}d")
    for _ in range(2):  # a cached plan must not hide an error
        with pytest.raises(ValueError, match=re.escape(message)):
            function(*[Tensor(np.zeros(s)) for s in shapes], **options)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ((X, (5, 4, 3, 3)), {}, "conv_transpose2d: input has 6 channels, weight expects 5; input.shape=(1, 6, 9, 9)"),
        ((X, (6, 4, 3, 3)), {"groups": 4}, "conv_transpose2d: input has 6 channels, which groups=4 does not divide"),
        ((X, (6, 4, 3, 3), (4,)), {"groups": 2}, "conv_transpose2d: bias.shape=(4,), needs (8,)"),
        ((X, (6, 4, 3, 3)), {"output_padding": 1}, "conv_transpose2d: output_padding=1 on axis 0 must be less than"),
        ((X, (6, 4, 3, 3)), {"padding": "full"}, "conv_transpose2d: padding='full' must be numbers or one of 'valid',"),
        ((X, (6, 4, 1, 1)), {"padding": 5}, "conv_transpose2d: no output on axis 0"),
    ],
)
def test_messages_of_conv_transpose(shapes, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        F.conv_transpose2d(*[Tensor(np.zeros(s)) for s in shapes], **options)


def test_messages_about_types() -> None:
    x, w = Tensor(np.zeros((1, 2, 5), np.float32)), Tensor(np.zeros((3, 2, 3), np.float32))
    for call, message in (
        (lambda: F.conv1d(x, w.double()), "conv1d: input is float32, weight is float64; both must be float32, both"),
        (lambda: F.conv1d(x, w, Tensor(np.zeros(3))), "conv1d: weight is float32, bias is float64"),
        (lambda: F.conv1d(x.bool(), w.bool()), "conv1d: input is bool, weight is bool; both must be float32, both"),
        (lambda: F.conv1d(x.array, w), "conv1d: input is ndarray, needs a Tensor; make one with retrograd.tensor"),
        (lambda: F.conv1d(x, w, stride=1.5), "conv1d: stride=1.5 must be an int, or ints in a tuple"),
        (lambda: F.conv_transpose1d(x, w.array), "conv_transpose1d: weight is ndarray, needs a Tensor"),
    ):
        with pytest.raises(TypeError, match=re.escape(message)):
            call()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"stride": (2.0,)}, "stride=(2.0,)"),
        ({"stride": 2.0}, "stride=2.0"),
        ({"padding": ((1, True),)}, "padding=(1, True)"),
        ({"padding": True}, "padding=True"),
        ({"dilation": [1.0]}, "dilation=(1.0,)"),
    ],
)
def test_a_cached_plan_does_not_let_a_float_through(options: dict[str, Any], argument: str) -> None:
    x, w = Tensor(np.zeros((1, 2, 5))), Tensor(np.zeros((2, 2, 3)))
    F.conv1d(x, w, None, 2, 1, 1)
    F.conv1d(x, w, None, [2], ((1, 1),), np.int64(1))
    F.conv_transpose1d(x, w, None, 2, 1, dilation=1)
    for function in (F.conv1d, F.conv_transpose1d):
        with pytest.raises(TypeError, match=re.escape(f"{function.__name__}: {argument} must be an int")):
            function(x, w, None, **{"stride": 2, "padding": 1} | options)
    with pytest.raises(ValueError, match="groups=True must be an int of at least 1"):
        F.conv1d(x, w, None, 2, 1, 1, True)
    with pytest.raises(TypeError, match=re.escape("max_pool1d: kernel_size=(2.0,) must be an int")):
        F.max_pool1d(x, 2)
        F.max_pool1d(x, (2,))
        F.max_pool1d(x, (2.0,))
