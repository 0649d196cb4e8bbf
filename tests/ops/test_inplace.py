from __future__ import annotations

import re

import numpy as np
import pytest

from retrograd.autograd import no_grad
from retrograd.engine.tensor import Tensor


def test_a_step_by_hand() -> None:
    w = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    memory, before = w.data, w
    (w * w).sum().backward()
    with no_grad():
        w -= w.grad * 0.25
        w += 1
        w *= 3
        w /= 2.0
    assert w is before and w.data is memory and w.is_leaf and w.requires_grad
    np.testing.assert_array_equal(memory, [2.25, 3.0])


def test_otherwise_a_new_tensor_under_the_old_name() -> None:
    x, factor = Tensor(np.array([3.0]), requires_grad=True), Tensor(np.array([2.0]))
    first = factor
    y = x * factor
    factor += 5.0
    y += 1.0
    y *= 2
    y.backward()
    assert y.item() == 14 and first.item() == 2 and factor.item() == 7
    assert x.grad.item() == 4  # what the graph has saved stays as it was


def test_messages() -> None:
    w = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    with pytest.raises(RuntimeError, match=re.escape("-=: a leaf that requires a gradient cannot change while")):
        w -= 1.0
    with no_grad():
        with pytest.raises(ValueError, match=re.escape("+=: the result is float64 of shape (3, 2), x is float64")):
            w += Tensor(np.zeros((3, 1)))
        v = Tensor(np.zeros(2, np.float32), requires_grad=True)
        with pytest.raises(ValueError, match=re.escape("*=: the result is float64 of shape (2,), x is float32")):
            v *= w
    np.testing.assert_array_equal(w.data, [1, 2])
