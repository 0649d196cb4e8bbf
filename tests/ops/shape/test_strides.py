"""as_strided and as_strided_scatter: positions in the storage, gradients, in-place changes, errors."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor


def line(count: int = 24) -> Tensor:
    return Tensor(np.arange(float(count)))


# of the numbers 0 to 23 in memory: a tensor, its offset, and a function of a NumPy array in the same memory
INPUTS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "all": (lambda x: x, 0),
    "a slice": (lambda x: x[5:20], 5),
    "every third": (lambda x: x[2::3], 2),
    "transposed": (lambda x: x.reshape(4, 6).t(), 0),
    "a column": (lambda x: x.reshape(4, 6)[:, 4], 4),
    "channels last": (lambda x: x.reshape(1, 2, 3, 4).permute(0, 3, 1, 2), 0),
    "repeated": (lambda x: x[7:8].expand(4), 7),
    "repeated rows": (lambda x: x[3:6].expand(2, 3), 3),
    "one element": (lambda x: x[9], 9),
    "windows": (lambda x: x[4:12].unfold(0, 4, 2), 4),
}
LAYOUTS = [((2, 3), (1, 2)), ((3,), (0,)), ((2, 2, 2), (3, 1, 1)), ((), ()), ((4,), (4,)), ((0, 3), (5, 1))]


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_positions_are_those_of_the_storage(name: str, layout: tuple[Any, Any]) -> None:
    make, own = INPUTS[name]
    x, (size, stride) = make(line()), layout
    assert x.storage_offset() == own
    for offset in (None, 0, 6):
        y = x.as_strided(size, stride, offset)
        start = own if offset is None else offset
        wanted = np.zeros(size)
        for index in np.ndindex(size):
            wanted[index] = start + sum(i * step for i, step in zip(index, stride, strict=True))
        np.testing.assert_array_equal(y.array, wanted)
        if y.array.size:
            assert y.storage_offset() == start and y.untyped_storage() == x.untyped_storage()
            assert all(a == b for a, b, n in zip(y.stride(), stride, size, strict=True) if n > 1)


def places(x: Tensor) -> np.ndarray:
    """Return the position in memory of each element of a tensor made from ``line()``."""
    return x.detach().array.astype(int)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("layout", [each for each in LAYOUTS if 0 not in each[0]], ids=str)
def test_gradients_add_up_at_each_position(name: str, layout: tuple[Any, Any]) -> None:
    make, _ = INPUTS[name]
    rng = np.random.default_rng(3)
    x = make(line()).detach().requires_grad_()
    y = x.as_strided(*layout)
    g = Tensor(rng.standard_normal(y.shape)).requires_grad_()
    (gx,) = rg.autograd.grad(y, x, g, create_graph=True)
    at, own = places(y), places(x)
    sums = np.zeros(24)
    for index in np.ndindex(y.shape):
        sums[at[index]] += g.array[index]
    counts = np.bincount(own.ravel(), minlength=24)
    wanted = np.array([sums[p] / counts[p] for p in own.ravel()]).reshape(x.shape)
    np.testing.assert_allclose(gx.array, wanted, rtol=1e-13)
    v = rng.standard_normal(x.shape)  # the gradient is linear in g: its own gradient is the transpose
    (gg,) = rg.autograd.grad(gx, g, Tensor(v))
    parts = np.zeros(24)
    for index in np.ndindex(x.shape):
        parts[own[index]] += v[index] / counts[own[index]]
    np.testing.assert_allclose(gg.array, parts[at] if y.ndim else parts[int(at)], rtol=1e-13)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("offset", [None, 0, 6])
@pytest.mark.parametrize("layout", [each for each in LAYOUTS if 0 not in each[0]], ids=str)
def test_gradients_reach_the_base(name: str, offset: int | None, layout: tuple[Any, Any]) -> None:
    leaf = line().requires_grad_()
    y = INPUTS[name][0](leaf * 1).as_strided(*layout, offset)
    g = np.random.default_rng(3).standard_normal(y.shape)
    wanted = np.zeros(24)
    for index in np.ndindex(y.shape):
        wanted[places(y)[index]] += g[index]
    y.backward(Tensor(g))
    assert leaf.grad is not None
    np.testing.assert_allclose(leaf.grad.array, wanted, rtol=1e-13)


def test_gradgradcheck_of_a_view_of_a_view() -> None:
    def windows(x: Tensor) -> Tensor:
        y = (x * x)[2:].as_strided((3, 3), (1, 2))
        return y * y * y

    x = Tensor(np.random.default_rng(4).standard_normal(9)).requires_grad_()
    assert rg.autograd.gradcheck(windows, [x]) and rg.autograd.gradgradcheck(windows, [x])


def test_changes_in_place_reach_the_base() -> None:
    x = line(8).requires_grad_()
    base = x * 1
    part = base[3:5]
    y = part.as_strided((2, 2), (4, 1), 1)  # 1 2 5 6, none of which part shows
    y.mul_(y.detach() * 10)
    assert base.tolist() == [0, 10, 40, 3, 4, 250, 360, 7] and part.tolist() == [3, 4]
    weight = Tensor(np.array([1.0, 2, 3, 4, 5, 6, 7, 8]))
    (base * weight).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1, 20, 60, 4, 5, 300, 420, 8]
    z = line(8)
    z.as_strided((2,), (3,), 1).fill_(-1)
    assert z.tolist() == [0, -1, 2, 3, -1, 5, 6, 7]
    with pytest.raises(RuntimeError, match="several elements of x"):
        z.as_strided((2,), (0,)).add_(1)


def test_storages_of_arrays() -> None:
    array = np.arange(12.0)
    middle = rg.from_numpy(array[4:8])  # the storage is all the memory of the array
    assert middle.storage_offset() == 4 and middle.as_strided((3,), (4,), 0).tolist() == [0, 4, 8]
    backwards = rg.from_numpy(array[::-1])
    assert backwards.storage_offset() == 11 and backwards.as_strided((3,), (1,), 2).tolist() == [2, 3, 4]
    assert rg.from_numpy(array.reshape(3, 4).T).as_strided((2, 2), (1, 4)).tolist() == [[0, 4], [1, 5]]
    column = rg.from_numpy(np.asfortranarray(array.reshape(3, 4)))
    assert column.as_strided((12,), (1,)).tolist() == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    image = Tensor(array.reshape(1, 2, 2, 3)).contiguous(memory_format=rg.channels_last)
    assert image.as_strided((4,), (1,)).tolist() == [0, 6, 1, 7]  # channel by channel of each pixel
    fixed = np.arange(4.0)
    fixed.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        Tensor(fixed).as_strided((2,), (1,)).zero_()
    records = np.zeros(3, [("a", np.int32), ("b", np.float64)])
    with pytest.raises(ValueError, match="as_strided: the memory of input is not a row of float64 elements"):
        rg.from_numpy(records["b"]).as_strided((1,), (1,))


def test_as_strided_itself() -> None:
    x = line()
    y = x[4:10]
    assert y.as_strided_((2, 2), (8, 1)) is y and y.tolist() == [[4, 5], [12, 13]]
    assert y.as_strided_((2,), (1,), 0).tolist() == [0, 1] and rg.as_strided_(y, (1,), (1,), 23).tolist() == [23]


@pytest.mark.parametrize("name", INPUTS)
def test_scatter_replaces_positions(name: str) -> None:
    make, own = INPUTS[name]
    rng = np.random.default_rng(5)
    for (size, stride), offset in itertools.product([((2, 3), (1, 2)), ((3,), (3,)), ((), ())], (None, 2)):
        x, start = make(line()).detach().requires_grad_(), own if offset is None else offset
        src = Tensor(rng.standard_normal(size)).requires_grad_()
        if size == (2, 3):
            with pytest.raises(ValueError, match="as_strided_scatter: size=.* map several elements of src to one"):
                rg.as_strided_scatter(x, src, size, (1, 1), offset)
        values = {}
        for index in np.ndindex(size):
            values[start + sum(i * step for i, step in zip(index, stride, strict=True))] = index
        y = x.as_strided_scatter(src, size, stride, offset)
        at = places(x)
        g = rng.standard_normal(x.shape)
        gx, gsrc = rg.autograd.grad(y, [x, src], Tensor(g))
        wanted, to_x, to_src = x.array.copy(), g.copy(), np.zeros(size)
        for index in np.ndindex(x.shape):
            if (place := int(at[index])) in values:
                wanted[index], to_x[index] = src.array[values[place]], 0
                to_src[values[place]] += g[index]
        np.testing.assert_array_equal(y.array, wanted)
        np.testing.assert_array_equal(gx.array, to_x)
        np.testing.assert_allclose(gsrc.array, to_src, rtol=1e-13)
        assert y.untyped_storage() != x.untyped_storage()


def test_what_is_refused() -> None:
    x = line()[4:]
    with pytest.raises(ValueError, match="storage_offset=20 lead to element 24, but the storage of input has 24"):
        x.as_strided((5,), (1,), 20)
    with pytest.raises(ValueError, match="size=.* and stride=.* must have the same length, and they and storage"):
        x.as_strided((5,), (1,), -1)
    with pytest.raises(ValueError, match="must have the same length, and they and storage_offset=4 must be at least 0"):
        x.as_strided((5,), (-1,))
    with pytest.raises(TypeError, match=r"as_strided: storage_offset='3' must be an int"):
        x.as_strided((5,), (1,), "3")
    with pytest.raises(TypeError, match=r"as_strided: stride=\(1.5,\) must consist of ints"):
        x.as_strided((5,), (1.5,))
    with pytest.raises(ValueError, match="are too large for any memory"):
        x.as_strided((1,), (2**80,))
    assert x.as_strided((0,), (1,), 10**9).shape == (0,)
