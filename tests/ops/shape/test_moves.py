"""Operators that move data, on arrays large enough for the compiled copies and in channels-last memory."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import retrograd
import retrograd.nn.functional as functional
from retrograd.engine.tensor import Tensor
from retrograd.ops.shape.shape import can_view, reshaped

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def images(*shape: int, last: bool = True, seed: int = 0) -> np.ndarray:
    """Return integers as float32 (N, C, *I), channels-last."""
    x = np.random.default_rng(seed).integers(-99, 99, shape).astype(np.float32)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1) if last else x


def is_last(y: Tensor) -> bool:
    return bool(np.moveaxis(y.array, 1, -1).flags.c_contiguous)


X = images(3, 16, 37, 41)


def gradient(y: Tensor, x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return an upstream gradient in the memory order of y, and the resulting gradient of x."""
    g = np.empty_like(y.array)
    g[...] = images(*y.shape, last=False, seed=1)
    return g, retrograd.autograd.grad(y, x, Tensor(g))[0].array


def test_which_shapes_are_views() -> None:
    x = np.zeros((4, 6, 2, 5, 1))
    seen = set()
    for order in permutations(range(5)):
        for part in (x, x[:, ::2], x[..., :3, :], x[::-1]):
            turned = part.transpose(order)
            n = turned.size
            for target in (
                (n,),
                (2, n // 2),
                (n // 2, 2),
                (4, n // 12, 3),
                (*turned.shape[:2], -1),
                (1, *turned.shape),
            ):
                whole = np.empty(n, np.int8).reshape(target).shape
                seen.add(known := np.shares_memory(turned.reshape(target), x))
                assert can_view(turned.shape, turned.strides, whole) == known
    assert seen == {True, False}


def test_large_reshapes() -> None:
    for x in (X, X[:, ::2], X[..., ::-1]):
        for shape in ((-1,), (3, -1, 41), (x.size,), (3, x.shape[1] // 2, 2, 37, 41)):
            np.testing.assert_array_equal(reshaped(x, shape), x.reshape(shape))
    with pytest.raises(ValueError, match="do not fit"):
        Tensor(X).reshape(5, -1)


def test_joined() -> None:
    x, y = Tensor(X, requires_grad=True), Tensor(images(3, 5, 37, 41, seed=2), requires_grad=True)
    z = retrograd.cat([x, y], 1)
    np.testing.assert_array_equal(z.array, np.concatenate([x.array, y.array], 1))
    assert is_last(z)
    g = Tensor(images(*z.shape, seed=3))
    for found, expected in zip(retrograd.autograd.grad(z, [x, y], g), np.split(g.array, [16], 1), strict=True):
        np.testing.assert_array_equal(found.array, expected)
    for dim in (0, 1, 2, -1):
        pair = retrograd.stack([x, x * 2], dim)
        np.testing.assert_array_equal(pair.array, np.stack([X, 2 * X], dim))
        halves = retrograd.unbind(pair, dim)
        np.testing.assert_array_equal(halves[1].array, 2 * X)
        g, gx = gradient(pair, x)
        np.testing.assert_array_equal(gx, sum(k * part for k, part in zip((1, 2), np.moveaxis(g, dim, 0), strict=True)))
    rows = [row[None] for row in Tensor(images(4, 9000, last=False))]
    assert retrograd.cat(rows).is_contiguous()


@pytest.mark.parametrize("mode", MODES)
def test_padded(mode: str) -> None:
    for pad in ((1, 1, 1, 1), (0, 3, 2, 0), (2, 0)):
        pairs = [(0, 0)] * (4 - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
        x = Tensor(X if len(pad) == 4 else X[..., 0], requires_grad=True)
        y = functional.pad(x, pad, mode)
        pairs = pairs[-x.ndim :]
        np.testing.assert_array_equal(y.array, np.pad(x.array, pairs, MODES[mode]))
        assert is_last(y)
        g, gx = gradient(y, x)
        places = np.pad(
            np.arange(x.array.size).reshape(x.shape),
            pairs,
            MODES[mode],
            **{} if mode != "constant" else {"constant_values": -1},
        )
        expected = np.zeros(x.array.size + 1)
        np.add.at(expected, places, g)  # the last element collects the constant padding
        np.testing.assert_array_equal(gx, expected[:-1].reshape(x.shape))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
@pytest.mark.parametrize("pad", [(-1, -2), (0, -1, -1, 0), (0, 0), (1, -1)], ids=str)
def test_a_mirror_that_only_cuts_has_a_second_derivative_of_0(mode: str, pad: tuple[int, ...]) -> None:
    x = Tensor(X[0], requires_grad=True)
    y = functional.pad(x, pad, mode)
    (gx,) = retrograd.autograd.grad(y, x, Tensor(images(*y.shape, last=False)), create_graph=True)
    (ggx,) = retrograd.autograd.grad(gx.sum(), x)
    assert not ggx.array.any()


def test_shuffled() -> None:
    x = Tensor(X, requires_grad=True)
    for y, parts, dims in (
        (functional.pixel_shuffle(x, 2), (3, 4, 2, 2, 37, 41), (0, 1, 4, 2, 5, 3)),
        (functional.channel_shuffle(x, 4), (3, 4, 4, 37, 41), (0, 2, 1, 3, 4)),
    ):
        np.testing.assert_array_equal(y.array, X.reshape(parts).transpose(dims).reshape(y.shape))
        assert is_last(y)
        g, gx = gradient(y, x)
        assert (gx * X).sum(dtype=np.float64) == (g * y.array).sum(dtype=np.float64)
    back = functional.pixel_unshuffle(functional.pixel_shuffle(x, 2), 2)
    np.testing.assert_array_equal(back.array, X)
    assert is_last(back)


def test_moved_and_repeated() -> None:
    x = Tensor(X, requires_grad=True)
    for shifts, dims in (((5,), (3,)), ((-1, 2), (1, 2)), ((3, 4), (2, 2)), ((0, 37), (0, 2))):
        y = retrograd.roll(x, shifts, dims)
        np.testing.assert_array_equal(y.array, np.roll(X, shifts, dims))
        g, gx = gradient(y, x)
        np.testing.assert_array_equal(gx, np.roll(g, [-n for n in shifts], dims))
    y = functional.interpolate(x, scale_factor=(2, 3))
    np.testing.assert_array_equal(y.array, X.repeat(2, 2).repeat(3, 3))
    assert is_last(y)
    g, gx = gradient(y, x)
    np.testing.assert_allclose(gx, g.reshape(3, 16, 37, 2, 41, 3).sum((3, 5)), atol=1e-3)


@pytest.mark.parametrize("last", [True, False])
def test_windows_and_their_sum(last: bool) -> None:
    x = Tensor(images(3, 16, 37, 41, last=last), requires_grad=True)
    y = functional.unfold(x, (3, 2), padding=1, stride=(2, 1))
    g, gx = gradient(y, x)
    assert (gx * x.array).sum(dtype=np.float64) == (g * y.array).sum(dtype=np.float64)
    one, other = (Tensor(images(*y.shape, last=order)) for order in (last, not last))
    one, other = (functional.fold(z, (37, 41), (3, 2), padding=1, stride=(2, 1)) for z in (one, other))
    np.testing.assert_array_equal(one.array, other.array)


def test_nothing_fits_everywhere_and_has_a_gradient() -> None:
    nothing, x = retrograd.zeros(0, requires_grad=True), Tensor(images(2, 3), requires_grad=True)
    y = retrograd.cat([nothing, x, retrograd.zeros(0, dtype=retrograd.float64)], 1)
    assert y.dtype == np.float64
    np.testing.assert_array_equal(y.array, x.array)
    gradients = retrograd.autograd.grad(y, [nothing, x], retrograd.ones_like(y))
    assert [g.shape for g in gradients] == [(0,), (2, 3)]
    with pytest.raises(IndexError, match="dim=1 is out of range"):
        retrograd.cat([nothing, nothing, retrograd.zeros(2)], 1)
