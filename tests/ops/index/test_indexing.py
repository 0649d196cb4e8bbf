"""Indexing rules, compared with an oracle that visits the positions one by one."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import retrograd
from ops.battery import EXACT, numbers
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor

X = numbers(3, 4, 2, 5)


def picked(x: np.ndarray, index: tuple[Any, ...]) -> np.ndarray:
    """Return x[index] by PyTorch's rule: ints are applied first, then the other parts, position by position.

    ``index`` contains no ... and no masks; its arrays are lists.
    """
    parts = [*index, *[slice(None)] * (x.ndim - sum(part is not None for part in index))]
    axes: list[tuple[str, Any, int]] = []  # kind, places along an axis of x, axis
    axis = 0
    for part in parts:
        if part is None:
            axes.append(("new", [0], -1))
            continue
        if isinstance(part, slice):
            axes.append(("slice", list(range(x.shape[axis]))[part], axis))
        elif isinstance(part, int):
            axes.append(("int", [range(x.shape[axis])[part]], axis))
        else:
            axes.append(("list", np.asarray(part), axis))
        axis += 1
    left = [item for item in axes if item[0] != "int"]
    lists = [i for i, item in enumerate(left) if item[0] == "list"]
    together = np.broadcast_shapes(*[left[i][1].shape for i in lists]) if lists else ()
    first = 0
    if lists:
        first = lists[0] if lists == list(range(lists[0], lists[-1] + 1)) else 0
    others = [i for i in range(len(left)) if i not in lists]
    before, behind = [i for i in others if i < first], [i for i in others if i >= first]
    shape = [len(left[i][1]) for i in before] + list(together) + [len(left[i][1]) for i in behind]
    y = np.empty(shape, x.dtype)
    for place in np.ndindex(*shape):
        source = [0] * x.ndim
        for kind, where, axis in axes:
            if kind == "int":
                source[axis] = where[0]
        for k, i in enumerate(before):
            source[left[i][2]] = left[i][1][place[k]] if left[i][2] >= 0 else source[left[i][2]]
        middle = place[len(before) : len(before) + len(together)]
        for i in lists:
            source[left[i][2]] = range(x.shape[left[i][2]])[np.broadcast_to(left[i][1], together)[middle]]
        for k, i in enumerate(behind):
            if left[i][2] >= 0:
                source[left[i][2]] = left[i][1][place[len(before) + len(together) + k]]
        y[place] = x[tuple(source)]
    return y


CASES: list[tuple[Any, ...]] = [
    ([0, 2, 0],),
    ([[0, 2], [1, -1]],),
    (slice(None), [3, 0]),
    ([0, 1], [1, 3]),
    ([[0], [2]], [1, 3]),
    ([0, 1], slice(None), [1, 0]),
    (slice(None), [0, 1], [1, 0]),
    (slice(1, None), [0, 1], slice(None), [4, 0]),
    (0, slice(None), [0, 1]),
    ([0, 1], 2, [1, 1]),
    ([0, 1], slice(None), 1, [0, 4]),
    (None, [0, 1], None),
    ([0, 1], None, [0, 3]),
    (slice(None, None, -1), [0, 1], 1),
    ([0, 1, 2], [3, 2, 1], [0, 1, 0], [4, 4, -5]),
    ([],),
    ([[]], [1]),
    (2, [0], [1], [2]),
]


@pytest.mark.parametrize("index", CASES, ids=str)
def test_lists(index: tuple[Any, ...]) -> None:
    x = Tensor(X, requires_grad=True)
    wanted = picked(X, index)
    for convert in (lambda part: part, lambda part: np.array(part, np.int64) if isinstance(part, list) else part):
        found = x[tuple(map(convert, index))]
        np.testing.assert_array_equal(found.array, wanted)
    as_tensors = tuple(Tensor(np.array(part, np.int64)) if isinstance(part, list) else part for part in index)
    np.testing.assert_array_equal(x[as_tensors].array, wanted)
    g = numbers(*wanted.shape)
    x[index].backward(Tensor(g))
    gx = np.zeros(X.size)
    np.add.at(gx, picked(np.arange(X.size).reshape(X.shape), index), g)
    np.testing.assert_allclose(x.grad.array, gx.reshape(X.shape), rtol=1e-12)


@pytest.mark.parametrize("index", [CASES[1], CASES[5], CASES[9], CASES[13]], ids=str)
def test_second_derivative(index: tuple[Any, ...]) -> None:
    x = Tensor(X, requires_grad=True)
    assert gradcheck(lambda t: t[index], [x], **EXACT) and gradgradcheck(lambda t: t[index], [x], **EXACT)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4)))[::5])
def test_any_memory_order(order: tuple[int, ...]) -> None:
    x = np.transpose(X.transpose(order).copy(), np.argsort(order))
    for index in CASES:
        np.testing.assert_array_equal(Tensor(x)[index].array, picked(X, index))


def test_masks() -> None:
    x, rng = Tensor(X), np.random.default_rng(0)
    for axes in (1, 2, 4):
        mask = rng.random(X.shape[:axes]) > 0.5
        wanted = np.array([X[place] for place in np.ndindex(mask.shape) if mask[place]])
        for form in (mask, Tensor(mask), mask.tolist()):
            np.testing.assert_array_equal(x[form].array, wanted)
    columns = np.array([True, False, True, True])
    np.testing.assert_array_equal(x[1:, columns].array, X[1:, [0, 2, 3]])
    np.testing.assert_array_equal(x[[0, 1, 2], columns].array, X[[0, 1, 2], [0, 2, 3]])
    np.testing.assert_array_equal(x[..., Tensor(np.zeros(5, np.bool_))].array, X[..., :0])
    np.testing.assert_array_equal(x[True].array, X[None])
    np.testing.assert_array_equal(x[False].array, X[None][:0])
    np.testing.assert_array_equal(x[Tensor(np.array(True)), 0].array, X[None, 0])


def test_ellipsis_and_numbers() -> None:
    x = Tensor(X)
    np.testing.assert_array_equal(x[..., [0, 1]].array, X[..., [0, 1]])
    np.testing.assert_array_equal(x[[0, 1], ..., 0].array, X[[0, 1], ..., 0])
    np.testing.assert_array_equal(x[np.int64(1), [0, 1]].array, X[1, [0, 1]])
    np.testing.assert_array_equal(x[Tensor(np.array(1)), :, [0, 1]].array, X[1][:, [0, 1]])
    np.testing.assert_array_equal(x[range(2)].array, X[:2])
    np.testing.assert_array_equal(x[[Tensor(np.array(1)), 2]].array, X[[1, 2]])
    labels = Tensor(np.array([1, 0, 3]))
    np.testing.assert_array_equal(
        x[Tensor(np.arange(3)), labels].array, np.stack([X[i, k] for i, k in enumerate((1, 0, 3))])
    )


def test_gradients_of_repeated_indices_accumulate() -> None:
    x = Tensor(X, requires_grad=True)
    g = numbers(4, 4, 2, 5)
    x[[1, 0, 1, 1]].backward(Tensor(g))
    wanted = np.zeros_like(X)
    for k, i in enumerate((1, 0, 1, 1)):
        wanted[i] += g[k]
    np.testing.assert_allclose(x.grad.array, wanted, rtol=1e-14)


def test_of_several_values_for_a_place_the_last_stays_and_has_the_gradient() -> None:
    x, v = Tensor(np.zeros(3), requires_grad=True), Tensor(np.array([1.0, 2.0, 3.0]), requires_grad=True)
    y = retrograd.index_put(x, (Tensor(np.array([2, 0, 2])),), v)
    assert y.array.tolist() == [2, 0, 3]
    y.backward(Tensor(np.array([10.0, 20.0, 30.0])))
    assert x.grad.array.tolist() == [0, 20, 0] and v.grad.array.tolist() == [0, 10, 30]


def test_of_integers_and_truth_values() -> None:
    x = np.arange(12).reshape(3, 4)
    assert Tensor(x)[[0, 2], 1].array.tolist() == [1, 9]
    assert Tensor(x > 5)[[1]].array.tolist() == [[False, False, True, True]]
    assert Tensor(x).masked_fill(Tensor(x > 5), 0).array.sum() == 15
    assert Tensor(x).scatter_add(0, Tensor(np.array([[1]])), Tensor(np.array([[7]]))).array[1, 0] == 11
    assert Tensor(x).scatter_reduce(0, Tensor(np.array([[1, 1]])), Tensor(np.array([[8, 0]])), "mean").array[1, 0] == 6
    assert Tensor(x).scatter_reduce(0, Tensor(np.array([[1]])), Tensor(np.array([[3]])), "amin").array[1, 0] == 3


def test_equal_largest_values_share_the_gradient() -> None:
    x, s = Tensor(np.array([1.0, 5.0]), requires_grad=True), Tensor(np.array([5.0, 5.0, 0.0]), requires_grad=True)
    y = x.scatter_reduce(0, Tensor(np.array([1, 1, 0])), s, "amax")
    y.backward(Tensor(np.array([1.0, 3.0])))
    assert x.grad.array.tolist() == [1, 1] and s.grad.array.tolist() == [1, 1, 0]
    nan = x.detach().scatter_reduce(0, Tensor(np.array([0])), Tensor(np.array([np.nan])), "amax")
    assert np.isnan(nan.array).tolist() == [True, False]


def test_numbers_without_axes() -> None:
    x = Tensor(np.array(2.0), requires_grad=True)
    zero = Tensor(np.array(0))
    assert x.gather(0, zero).item() == 2 and x.scatter(0, zero, 3.0).item() == 3
    assert x.scatter_add(0, zero, Tensor(np.array(3.0))).item() == 5 and x.index_select(0, zero).item() == 2
    assert x.scatter_reduce(0, zero, Tensor(np.array(3.0)), "prod").item() == 6
    assert x.nonzero().shape == (1, 0) and x[...].shape == () and x[None].shape == (1,)
    assert x.masked_fill(Tensor(np.array(True)), 7).item() == 7


def test_views_share_memory_and_picked_elements_do_not() -> None:
    x = Tensor(X)
    for view in (x[1], x[:, 1:], x[None], x[..., 0], x.narrow(0, 1, 2), x.select(1, 2), x.unbind(1)[0], *x.split(2)):
        assert np.shares_memory(view.array, X)
    assert not np.shares_memory(x[[0, 1]].array, X)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (
            0.5,
            TypeError,
            "getitem: an index is an int, a slice, None, ..., or an array (list, Tensor) of int64 or bool",
        ),
        ("a", TypeError, "got str"),
        (Tensor(np.array([1.0])), TypeError, "got Tensor of float64"),
        ([0.5], TypeError, "got list of float64"),
        ([[1], [2, 3]], TypeError, "got list"),
        (slice(0.5), TypeError, "getitem: slice(None, 0.5, None) must consist of ints"),
        (3, IndexError, "getitem: input.shape=(3, 4, 2, 5): index 3 is out of bounds"),
        ((0, 4), IndexError, "index 4 is out of bounds for axis 1 with size 4"),
        ([0, 3], IndexError, "getitem: index[1]=3 is out of range; axis 0 of input.shape=(3, 4, 2, 5) allows -3 to 2"),
        ((0, [[0, 1], [-5, 7]]), IndexError, "getitem: index[1, 0]=-5 is out of range; axis 1"),
        ((0, 0, 0, 0, 0), IndexError, "too many indices: it has 4 axes, the index is for 5"),
        ((..., 0, ...), IndexError, "more than one ..."),
        (([0, 1], [0, 1, 2]), IndexError, "the index arrays of shapes (2,), (3,) do not broadcast together"),
        (np.ones(4, np.bool_), IndexError, "a mask of shape (4,) does not fit axes 0 to 0 of input.shape=(3, 4, 2, 5)"),
    ],
    ids=str,
)
def test_messages(index: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        Tensor(X)[index]


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
def test_a_lost_gradient_is_an_error(name: str) -> None:
    """Otherwise a sum that includes the result would silently get an incomplete gradient."""
    x = Tensor(np.array([1.5, 1.5, 0.5]), requires_grad=True)
    y = getattr(x, name)().sum() + x.sum()
    with pytest.raises(NotImplementedError, match=f"{name}: it has no gradient; use input.detach"):
        y.backward()
    assert not getattr(x.detach(), name)().requires_grad
    found, counts = getattr(x, name)(return_counts=True)
    assert found.requires_grad and not counts.requires_grad
