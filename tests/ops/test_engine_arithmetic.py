"""The engine's own arithmetic on large gradients: the same numbers as NumPy, computed by kernels."""

from __future__ import annotations

import numpy as np
import pytest

from ops.battery import numbers, recorded_kernels
from retrograd.engine import arithmetic
from retrograd.engine.tensor import Tensor

LARGE = (3, 16, 40, 40)


def layouts(dtype: type) -> list[np.ndarray]:
    x = numbers(*LARGE).astype(dtype)
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    return [x, last, x.transpose(2, 0, 3, 1), x[:, :, ::-1], np.broadcast_to(x[:, :, :1], LARGE), x[:1, :2]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arithmetic_is_numpys(dtype: type) -> None:
    for x in layouts(dtype):
        x.flags.writeable = False
        copied = arithmetic.copy(x)
        repeated = 0 in x.strides
        np.testing.assert_array_equal(copied, x)
        assert not np.shares_memory(copied, x)
        assert repeated or copied.strides == x.copy(order="K").strides
        for y in (x, numbers(*x.shape, seed=1).astype(dtype)):
            total = arithmetic.add(x, y)
            np.testing.assert_array_equal(total, np.add(x, y))
            assert total.dtype == dtype and total.flags.writeable


def test_large_gradients_in_a_sweep() -> None:
    x, b = Tensor(numbers(*LARGE), requires_grad=True), Tensor(numbers(16, 1, 1), requires_grad=True)
    g = Tensor(numbers(*LARGE, seed=1))
    (x + b).backward(g)
    np.testing.assert_array_equal(x.grad.array, g.array)
    np.testing.assert_allclose(b.grad.array, g.array.sum((0, 2, 3))[:, None, None], rtol=1e-10)
    assert not np.shares_memory(x.grad.array, g.array)
    x.grad = None
    y = x + x
    with recorded_kernels() as names:
        y.backward(g)
    assert names == ["add"]
    np.testing.assert_array_equal(x.grad.array, 2 * g.array)
