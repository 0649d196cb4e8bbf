"""Convolution arguments: padding strings and modes, output_size, adj, target_shape, algorithm."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

import numpy as np
import pytest

import naive_extended
from ops.battery import check, numbers
from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import instead
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name
from retrograd.ops.convolution.convolution import Conv, ConvInputGrad
from retrograd.specs.convolution_options import ALGORITHMS, NEEDS, Options
from retrograd.specs.geometry import conv_padding, conv_window

WORDS = ("same", "same_upper", "same_lower", "causal")
MODES = ("reflect", "replicate", "circular")


def _positions(extent: int, kernel: int, stride: int, dilation: int) -> int:
    """Return O by counting positions."""
    return len([o for o in range(extent) if o * stride + dilation * (kernel - 1) < extent])


# ---------------------------------------------------------------- words


@pytest.mark.parametrize("word", WORDS)
def test_words_of_convolution(word: str) -> None:
    """O is ceil(I/stride) with the least padding, on the right side, for every size up to 7."""
    for i, r, s, d in itertools.product(range(1, 8), range(1, 5), range(1, 5), (1, 2, 3)):
        ((low, high),) = conv_padding(word, (i,), (r,), (s,), (d,))
        assert conv_window((i,), r, s, ((low, high),), d).output == (-(-i // s),)
        if word == "causal":
            assert (low, high) == (d * (r - 1), 0)
            continue
        total = low + high
        assert total == 0 or _positions(i + total - 1, r, s, d) < -(-i // s) == _positions(i + total, r, s, d)
        assert low - high == (total % 2 if word == "same_lower" else -(total % 2))


@pytest.mark.parametrize("word", WORDS)
def test_words_of_transposed_convolution(word: str) -> None:
    """O is I*stride; the cropped amount is the padding of a convolution from I*stride positions to I."""
    for i, r, s, d in itertools.product((1, 2, 4), (1, 2, 3, 4), (1, 2, 3), (1, 2)):
        x, w = numbers(1, 1, i), numbers(1, 1, r, seed=1)
        y = F.conv_transpose1d(Tensor(x), Tensor(w), stride=s, dilation=d, padding=word).array
        low = 0 if word == "causal" else conv_padding(word, (i * s,), (r,), (s,), (d,))[0][0]
        wanted = naive_extended.conv_transpose(x, w, np.zeros(1), (i * s,), (s,), (low,), (d,), 1, "zeros")
        np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)


def test_same_transposed_is_the_gradient_of_same() -> None:
    for word, s in itertools.product(("same", "same_lower"), (1, 2, 3)):
        g, w = Tensor(numbers(2, 3, 4, 2)), Tensor(numbers(3, 2, 3, 4))
        x = Tensor(numbers(2, 2, 4 * s, 2 * s), requires_grad=True)
        F.conv2d(x, w, stride=s, padding=word).backward(g)
        y = F.conv_transpose2d(g, w, stride=s, padding=word)
        np.testing.assert_allclose(y.array, x.grad.array, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_causal_reads_no_future(stride: int) -> None:
    x, w = numbers(1, 2, 7), numbers(3, 2, 3, seed=1)
    y = F.conv1d(Tensor(x), Tensor(w), stride=stride, dilation=2, padding="causal").array
    back = F.conv_transpose1d(Tensor(x), Tensor(w.swapaxes(0, 1)), stride=stride, dilation=2, padding="causal").array
    for at in range(7):
        later = x.copy()
        later[..., at:] += 1
        z = F.conv1d(Tensor(later), Tensor(w), stride=stride, dilation=2, padding="causal").array
        kept = -(-at // stride)  # outputs o with o*stride < at
        np.testing.assert_array_equal(z[..., :kept], y[..., :kept])
        assert (z[..., kept:] != y[..., kept:]).all()
        z = F.conv_transpose1d(Tensor(later), Tensor(w.swapaxes(0, 1)), stride=stride, dilation=2, padding="causal")
        np.testing.assert_array_equal(z.array[..., : at * stride], back[..., : at * stride])
        assert (z.array[..., at * stride] != back[..., at * stride]).all()


# ---------------------------------------------------------------- modes


def _geometry(ndim: int, seed: int) -> dict[str, Any]:
    draw = random.Random(seed * 10 + ndim)
    axes = [draw.choice((3, 4) if ndim == 3 else (6, 7)) for _ in range(ndim)]
    return {
        "size": tuple(axes),
        "kernel": tuple(draw.choice((1, 2, 3)[: 5 - ndim]) for _ in axes),
        "stride": tuple(draw.choice((1, 2, 3)) for _ in axes),
        "dilation": tuple(draw.choice((1, 2)) for _ in axes),
        "padding": tuple((draw.choice((0, 1, 2)), draw.choice((0, 1, 2))) for _ in axes),
        "groups": draw.choice((1, 2)),
    }


CASES: list[Any] = [(ndim, seed) for ndim, count in ((1, 8), (2, 4), (3, 2)) for seed in range(count)]
CASES += [
    pytest.param(ndim, seed, marks=pytest.mark.nightly)
    for ndim, count in ((1, 80), (2, 40), (3, 12))
    for seed in range(8, count)
]


def _options(case: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: case[name] for name in ("stride", "dilation", "padding", "groups", *names)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("ndim", "seed"), CASES)
def test_modes_of_convolution(ndim: int, seed: int, mode: str) -> None:
    case = _geometry(ndim, seed)
    size, groups = case["size"], case["groups"]
    x, w, b = numbers(2, 2, *size), numbers(4, 2 // groups, *case["kernel"], seed=1), numbers(4, seed=2)
    longer = [i + low + high for i, (low, high) in zip(size, case["padding"], strict=True)]
    geometry = zip(longer, case["kernel"], case["stride"], case["dilation"], strict=True)
    output = [_positions(*axis) for axis in geometry]
    function = getattr(F, f"conv{ndim}d")
    if 0 in output:
        with pytest.raises(ValueError, match=f"conv{ndim}d: no output on axis"):
            function(Tensor(x), Tensor(w), padding_mode=mode, **_options(case))
        return
    lows = [low for low, _ in case["padding"]]
    wanted = naive_extended.conv(x, w, b, output, case["stride"], lows, case["dilation"], groups, mode)
    y = function(Tensor(x), Tensor(w), Tensor(b), padding_mode=mode, **_options(case))
    np.testing.assert_allclose(y.array, wanted, rtol=1e-12, atol=1e-12)
    one = function(Tensor(x[1]), Tensor(w), Tensor(b), padding_mode=mode, **_options(case))
    np.testing.assert_allclose(one.array, wanted[1], rtol=1e-12, atol=1e-12)


@pytest.mark.pairwise
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("ndim", "seed"), CASES)
def test_modes_of_transposed_convolution(ndim: int, seed: int, mode: str) -> None:
    """The result is that of an infinite extended input, at the positions of the zero-padded result."""
    case = _geometry(ndim, seed)
    groups = case["groups"]
    extra = (seed % 2) * (ndim < 3)
    extra = tuple(min(extra, max(s, d) - 1) for s, d in zip(case["stride"], case["dilation"], strict=True))
    x, w = numbers(2, 4, *case["size"]), numbers(4, 2 // groups, *case["kernel"], seed=1)
    b = numbers(2, seed=2)
    function = getattr(F, f"conv_transpose{ndim}d")

    def run(x: np.ndarray, mode: str) -> np.ndarray:
        options = _options(case)
        return function(Tensor(x), Tensor(w), Tensor(b), padding_mode=mode, output_padding=extra, **options).array

    try:
        zeros = run(x, "zeros")
    except ValueError as error:
        assert seed >= 8 and "no output" in str(error)  # the padding removes everything
        return
    lows = [low for low, _ in case["padding"]]
    geometry = zeros.shape[2:], case["stride"], lows, case["dilation"], groups
    wanted = naive_extended.conv_transpose(x, w, b, *geometry, "zeros")
    np.testing.assert_allclose(zeros, wanted, rtol=1e-12, atol=1e-12)
    wanted = naive_extended.conv_transpose(x, w, b, *geometry, mode)
    np.testing.assert_allclose(run(x, mode), wanted, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run(x[0], mode), wanted[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (4, 2), (4, 3), (2, 3)])
def test_circular_transposed_is_the_gradient_of_circular(kernel: int, stride: int) -> None:
    w, g = Tensor(numbers(3, 2, kernel)), Tensor(numbers(2, 3, 5))
    x = Tensor(numbers(2, 2, 5 * stride), requires_grad=True)
    F.conv1d(x, w, stride=stride, padding="same", padding_mode="circular").backward(g)
    back = F.conv_transpose1d(g, w, stride=stride, padding="same", padding_mode="circular")
    np.testing.assert_allclose(back.array, x.grad.array, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_modes(mode: str) -> None:
    def forward(x: Tensor, w: Tensor) -> Tensor:
        return F.conv1d(x, w, stride=2, padding=((2, 1),), padding_mode=mode)

    def transposed(x: Tensor, w: Tensor) -> Tensor:
        return F.conv_transpose1d(x, w, None, 2, 1, 1, padding_mode=mode)

    x, w, b = numbers(1, 2, 4), numbers(2, 2, 3, seed=1), np.zeros(2)
    geometry = (2,), (2,), (1,), 1
    check(forward, (x, w), lambda x, w: naive_extended.conv(x, w, b, (3,), *geometry, mode), linear=True)
    wanted = lambda x, w: naive_extended.conv_transpose(x, w, b, (8,), (2,), (1,), (1,), 1, mode)  # noqa: E731
    check(transposed, (x, w), wanted, linear=True)


# ---------------------------------------------------------------- the size of the output


@pytest.mark.parametrize(("kernel", "stride", "dilation"), [(4, 2, 1), (3, 3, 1), (1, 3, 1), (3, 1, 2), (2, 1, 1)])
def test_target_shape_is_the_padding_of_mxnet(kernel: int, stride: int, dilation: int) -> None:
    """As in Deconvolution's InferPad: pad = (total + 1)//2 on both sides, adj = total % 2 more at the high side."""
    x, w = numbers(2, 2, 4, 4), numbers(2, 3, kernel, kernel, seed=1)
    full = 3 * stride + dilation * (kernel - 1) + 1
    for target in range(1, full + 1):
        y = F.conv_transpose2d(Tensor(x), Tensor(w), None, stride, dilation=dilation, target_shape=(target, full))
        assert y.shape == (2, 3, target, full)
        pad = (full - target + 1) // 2
        wanted = naive_extended.conv_transpose(
            x, w, np.zeros(3), (target, full), (stride,) * 2, (pad, 0), (dilation,) * 2, 1, "zeros"
        )
        np.testing.assert_allclose(y.array, wanted, rtol=1e-12, atol=1e-12)
        if target > full - 2 * pad >= 1 and stride > 1:
            adjusted = F.conv_transpose2d(Tensor(x), Tensor(w), None, stride, (pad, 0), adj=(1, 0), dilation=dilation)
            np.testing.assert_array_equal(adjusted.array, y.array)


@pytest.mark.parametrize("mode", MODES)
def test_sizes_and_modes_together(mode: str) -> None:
    x, w, b = numbers(1, 2, 5), numbers(2, 2, 4, seed=1), numbers(2, seed=2)
    cases: list[tuple[dict[str, Any], int, int]] = [({"target_shape": 9}, 9, 2), ({"target_shape": 12}, 12, 0)]
    cases += [({"output_size": [11], "padding": ((1, 0),)}, 11, 1)]
    cases += [({"output_size": [9], "padding": "same_lower"}, 9, 2)]
    for options, size, low in cases:
        y = F.conv_transpose1d(Tensor(x), Tensor(w), Tensor(b), 2, padding_mode=mode, **options)
        wanted = naive_extended.conv_transpose(x, w, b, (size,), (2,), (low,), (1,), 1, mode)
        np.testing.assert_allclose(y.array, wanted, rtol=1e-12, atol=1e-12)


def test_output_size_and_adj_are_ways_to_say_output_padding() -> None:
    x, w = Tensor(numbers(2, 4, 3)), Tensor(numbers(4, 2, 3, seed=1))
    for extra in (0, 1, 2):
        y = F.conv_transpose1d(x, w, None, 3, 1, extra)
        for options in ({"adj": extra}, {"output_size": [7 + extra]}, {"output_size": (2, 2, 7 + extra)}):
            np.testing.assert_array_equal(F.conv_transpose1d(x, w, None, 3, 1, **options).array, y.array)
    assert F.conv_transpose1d(x, w, None, 1, output_padding=1, dilation=2).shape[2] == 8
    assert F.conv_transpose1d(x, Tensor(numbers(4, 2, 1)), None, 3, 4, output_size=[1]).shape[2] == 1


def test_output_size_beside_same() -> None:
    """output_size selects one of the input sizes whose "same" convolution has I outputs."""
    x, w = numbers(1, 2, 3), numbers(2, 1, 4, seed=1)
    for size in (7, 8, 9):
        y = F.conv_transpose1d(Tensor(x), Tensor(w), None, 3, "same", output_size=[size])
        back = Tensor(np.zeros((1, 1, size)), requires_grad=True)
        F.conv1d(back, Tensor(w), stride=3, padding="same").backward(Tensor(x))
        np.testing.assert_allclose(y.array, back.grad.array, rtol=1e-12)
    with pytest.raises(ValueError, match=re.escape("output_size=(10,) is impossible; for an input with extents (3,)")):
        F.conv_transpose1d(Tensor(x), Tensor(w), None, 3, "same", output_size=[10])


# ---------------------------------------------------------------- how it is computed


def test_algorithm_and_workspace_reach_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed here: whether a kernel set supports the algorithm is tested elsewhere."""
    found: list[Options] = []
    for operator in (Conv, ConvInputGrad):
        monkeypatch.setattr(operator, "apply", lambda x, w, b, window, options: found.append(options) or x)
    x, w = Tensor(numbers(1, 2, 5)), Tensor(numbers(2, 2, 3))
    layers = nn.Conv1d, nn.ConvTranspose1d
    for function, layer in zip((F.conv1d, F.conv_transpose1d), layers, strict=True):
        for mode, algorithm in itertools.product(("zeros", "circular"), set(ALGORITHMS) - set(NEEDS)):
            options: dict[str, Any] = {"padding": 1, "padding_mode": mode}
            how: dict[str, Any] = {"algorithm": algorithm, "workspace": 1.5}
            with instead({}):  # nobody makes a plan of the operator
                function(x, w, **options)
                function(x, w, **options, **how)
            layer(2, 2, 3, dtype=np.float64, **options)(x)
            layer(2, 2, 3, dtype=np.float64, **options, **how)(x)
            assert found == [("auto", None), (algorithm, 3 << 19)] * 2
            found.clear()
    F.conv1d(x, w, workspace=np.int64(2))
    F.conv1d(x, w, workspace=1e308)
    assert found[0].workspace == 2 << 20


# ---------------------------------------------------------------- refusals

X, W = (1, 2, 5), (2, 2, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padding_mode": "wrap"}, "padding_mode='wrap' must be one of zeros, reflect, replicate, circular"),
        ({"padding_mode": 1}, "padding_mode=1 must be one of zeros"),
        ({"algorithm": "fastest"}, "algorithm='fastest' must be one of auto, exact, direct, depthwise, pointwise,"),
        ({"workspace": -1}, "workspace=-1 must be at least 0 MB; None means no limit"),
        ({"workspace": float("nan")}, "workspace=nan must be at least 0 MB"),
    ],
)
def test_messages_of_both(options: dict[str, Any], message: str) -> None:
    for function in (F.conv1d, F.conv_transpose1d):
        with pytest.raises(ValueError, match=re.escape(f"{function.__name__}: {message}")):
            function(Tensor(np.zeros(X)), Tensor(np.zeros(W)), **options)
        with pytest.raises(TypeError, match=re.escape(f"{function.__name__}: workspace='1' must be a number of MB")):
            function(Tensor(np.zeros(X)), Tensor(np.zeros(W)), workspace="1")


@pytest.mark.parametrize(
    ("mode", "padding", "message"),
    [
        ("reflect", 5, "padding_mode='reflect' adds (5, 5) positions to axis 0 of extent 5, but can add at most 4 per"),
        ("circular", ((0, 6),), "padding_mode='circular' adds (0, 6) positions to axis 0 of extent 5, but can add at"),
    ],
)
def test_a_mode_takes_only_what_is_there(mode: str, padding: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"conv1d: {message}")):
        F.conv1d(Tensor(np.zeros(X)), Tensor(np.zeros(W)), padding=padding, padding_mode=mode)
    y = F.conv1d(Tensor(np.ones(X)), Tensor(np.ones(W)), padding=9, padding_mode="replicate")
    np.testing.assert_array_equal(y.array, np.full((1, 2, 21), 6))
    with pytest.raises(ValueError, match=f"conv_transpose1d: padding_mode='{mode}' adds "):
        F.conv_transpose1d(Tensor(np.zeros(X)), Tensor(np.zeros((2, 2, 9))), padding_mode=mode)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"padding": "same", "output_padding": 1}, "output_padding=(1,) and padding='same' contradict each other"),
        ({"adj": 1, "output_padding": 1}, "adj=1 and output_padding=1 are two names of the same argument; give one"),
        ({"adj": 2}, "output_padding=2 on axis 0 must be less than max(stride, dilation) = max(2, 1)"),
        ({"adj": -1}, "adj=-1 must be at least 0"),
        ({"output_size": [11], "output_padding": 1}, "output_size=(11,) and output_padding=(1,) are both given"),
        ({"output_size": [13]}, "output_size=(13,) is impossible; for an input with extents (5,) it can be (11,) to"),
        ({"output_size": 11}, "output_size=11 needs 1 extents, or 3 for the whole shape"),
        ({"output_size": [1, 11]}, "output_size=(1, 11) needs 1 extents, or 3 for the whole shape"),
        ({"target_shape": 12}, "target_shape=(12,) is too large on axis 0: the maximum is (I - 1)*stride"),
        ({"target_shape": 12}, "= (5 - 1)*2 + 1*(3 - 1) + 1 = 11"),
        ({"target_shape": 0}, "target_shape=0 must be at least 1"),
        ({"target_shape": 9, "padding": 1}, "target_shape already determines padding; leave one of them out"),
        ({"target_shape": 9, "padding": "same"}, "target_shape already determines padding"),
        ({"target_shape": 9, "adj": 1}, "target_shape already determines output_padding or adj"),
        ({"target_shape": 9, "output_size": [9]}, "target_shape already determines output_size"),
    ],
)
def test_messages_of_conv_transpose(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"^conv_transpose1d: .*{re.escape(message)}"):
        F.conv_transpose1d(Tensor(np.zeros(X)), Tensor(np.zeros(W)), stride=2, **options)
