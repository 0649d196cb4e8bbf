"""x[index] = value: results, and the gradients of both."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from ops.battery import EXACT, numbers
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor

X = numbers(3, 4, 2)
MASK = X > 0

CASES: dict[str, tuple[Any, Any, tuple[int, ...]]] = {  # index, the same for NumPy, shape of the value
    "int": (1, 1, (4, 2)),
    "slices": ((slice(None), slice(1, 3)), (slice(None), slice(1, 3)), (3, 1, 2)),
    "backwards": ((slice(None, None, -1), 0), (slice(None, None, -1), 0), (3, 2)),
    "everything": (..., ..., ()),
    "new axis": ((None, 0), (None, 0), (1, 4, 2)),
    "list": (([2, 0],), ([2, 0],), (2, 4, 2)),
    "lists apart": (([0, 2], slice(None), [1, 0]), ([0, 2], slice(None), [1, 0]), (2, 4)),
    "int and list": ((1, slice(None), [1, 0]), (slice(1, 2), slice(None), [1, 0]), (4, 2)),
    "mask": (MASK, MASK, (int(MASK.sum()),)),
    "mask, one value": (MASK, MASK, ()),
    "rows by mask": ((MASK[:, 0, 0], 2), (MASK[:, 0, 0], 2), (2,)),
    "leading ones": (0, 0, (1, 1, 4, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_assignment(name: str) -> None:
    index, numpy_index, shape = CASES[name]
    value = numbers(*shape)
    wanted = X.copy()
    wanted[numpy_index] = value.reshape(shape[2:]) if name == "leading ones" else value
    plain = Tensor(X.copy())
    plain[index] = Tensor(value)
    np.testing.assert_array_equal(plain.array, wanted)

    def assigned(x: Tensor, v: Tensor) -> Tensor:
        y = x * 2.0
        y[index] = v
        return y

    x, v = Tensor(X, requires_grad=True), Tensor(value, requires_grad=True)
    assert gradcheck(assigned, [x, v], **EXACT) and gradgradcheck(assigned, [x, v], **EXACT)


def test_numbers_and_types() -> None:
    x = Tensor(np.zeros((2, 3), np.float32))
    x[0] = 1
    x[1, [0, 2]] = 2.5
    x[0, 0] = Tensor(np.array(7))
    assert x.array.tolist() == [[7, 1, 1], [2.5, 0, 2.5]] and x.dtype == np.float32
    counts = Tensor(np.arange(3))
    counts[counts > 0] = 9
    assert counts.array.tolist() == [0, 9, 9]


def test_a_view_is_changed_with_its_base() -> None:
    base = Tensor(np.zeros((2, 3)), requires_grad=True) * 1.0
    row, v = base[0], Tensor(np.array([4.0, 5.0]), requires_grad=True)
    row[[0, 2]] = v
    assert base.array.tolist() == [[4, 0, 5], [0, 0, 0]]
    base.backward(Tensor(np.arange(6.0).reshape(2, 3)))
    assert v.grad.array.tolist() == [0, 2]


def test_a_leaf_changes_only_while_nothing_is_recorded() -> None:
    x = Tensor(np.zeros(3), requires_grad=True)
    for index in (0, [0, 1], slice(2)):
        with pytest.raises(RuntimeError, match="leaf that requires a gradient"):
            x[index] = 1.0
    with retrograd.no_grad():
        x[[0, 1]] = 1.0
        x.masked_fill_(x > 0, 3.0)
    assert x.array.tolist() == [3, 3, 0]


def test_methods_that_change_their_tensor() -> None:
    index, s = Tensor(np.array([2, 0])), Tensor(numbers(2, 4, 2))
    calls = {
        "index_add": (0, index, s),
        "index_copy": (0, index, s),
        "index_fill": (0, index, 2.0),
        "masked_fill": (Tensor(MASK), 2.0),
        "masked_scatter": (Tensor(MASK), Tensor(numbers(24))),
        "index_put": ((index,), s),
        "scatter": (1, Tensor(np.array([[[1]], [[0]]])), 3.0),
        "scatter_add": (1, Tensor(np.array([[[1]], [[0]]])), s),
        "scatter_reduce": (1, Tensor(np.array([[[1]], [[0]]])), s, "prod"),
        "tril": (),
        "triu": (1,),
    }
    for name, args in calls.items():
        x = Tensor(X, requires_grad=True)
        y, wanted = x * 1.0, getattr(x, name)(*args)
        assert getattr(y, f"{name}_")(*args) is y
        np.testing.assert_array_equal(y.array, wanted.array, err_msg=name)
        g = Tensor(numbers(3, 4, 2))
        (found,), (expected,) = retrograd.autograd.grad(y, [x], g), retrograd.autograd.grad(wanted, [x], g)
        np.testing.assert_array_equal(found.array, expected.array, err_msg=name)


@pytest.mark.parametrize(
    ("index", "value", "error", "message"),
    [
        (0, "a", TypeError, "setitem: the value is str, needs a Tensor or a number"),
        (0, np.zeros(2), TypeError, "setitem: the value is ndarray, needs a Tensor or a number"),
        ([0], Tensor(np.zeros((4, 2), np.int64)), TypeError, "setitem: the value is int64, input is float64"),
        (0, Tensor(np.zeros(3)), ValueError, "setitem: a value of shape (3,) does not broadcast to the shape (4, 2)"),
        ([0, 5], 1.0, IndexError, "setitem: index[1]=5 is out of range"),
        ("a", 1.0, TypeError, "setitem: an index is an int"),
    ],
    ids=str,
)
def test_messages(index: Any, value: Any, error: type[Exception], message: str) -> None:
    x = Tensor(X.copy())
    with pytest.raises(error, match=re.escape(message)):
        x[index] = value
    np.testing.assert_array_equal(x.array, X)


@pytest.mark.parametrize("kind", [np.int64, np.bool_, np.float32, np.int32])
def test_a_slice_takes_values_of_any_type(kind):
    """Assigned values are converted; a floating-point value gets a gradient."""
    x, values = Tensor(X.copy()), numbers(4, 2)
    x[1] = Tensor((values * 3).astype(kind))
    np.testing.assert_array_equal(x.array[1], (values * 3).astype(kind).astype(x.array.dtype))
    integers = Tensor(np.zeros((3, 2), np.int64))
    source = Tensor(np.array([1.7, -1.7], np.float32), requires_grad=kind is np.float32)
    integers[1:] = source.detach()
    assert integers.tolist() == [[0, 0], [1, -1], [1, -1]]
    y = x * 1.0
    y[0, 0] = source
    if source.requires_grad:
        y.sum().backward()
        assert source.grad.tolist() == [1.0, 1.0] and source.grad.dtype == np.float32


def test_scatter_takes_a_number_by_its_name():
    """Scripts write ``one_hot.scatter_(1, labels, value=1)``."""
    labels = retrograd.tensor([[2], [0]])
    for value in (1, 1.0, retrograd.tensor(1.0)):
        found = retrograd.zeros(2, 3).scatter_(dim=1, index=labels, value=value)
        assert found.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert retrograd.ones(2, 3).scatter(1, labels, value=2, reduce="add").tolist() == [[1, 1, 3], [3, 1, 1]]
    for given in ({}, {"src": 1, "value": 1}):
        with pytest.raises(TypeError, match=r"scatter: src=.* and value=.*: give exactly one"):
            retrograd.zeros(2, 3).scatter(1, labels, **given)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 1), (2, 3)], ids=str)
def test_values_added_at_indices_with_more_axes(shape: tuple[int, ...]) -> None:
    """x of one axis: each index adds the value that broadcasting gives it."""
    index, value = np.array([[2, -2, -2], [-2, -3, 2]]), numbers(*shape, seed=1)
    wanted = [0.5, 1.5, 2.5]
    for place, number in zip(index.ravel(), np.broadcast_to(value, (2, 3)).ravel(), strict=True):
        wanted[place] += number
    x = retrograd.tensor([0.5, 1.5, 2.5], dtype=retrograd.float64)
    added = x.index_put((retrograd.tensor(index),), retrograd.tensor(value), accumulate=True)
    np.testing.assert_allclose(added.numpy(), wanted, rtol=1e-14)
    x.index_put_((retrograd.tensor(index),), retrograd.tensor(value), accumulate=True)
    np.testing.assert_array_equal(x.numpy(), added.numpy())
