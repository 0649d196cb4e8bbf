"""Distances and similarities of vectors, at special lengths."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd.nn import functional


@pytest.mark.parametrize("eps", [1e-30, 1e-8, 0.5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cosine_similarity_of_short_vectors(dtype: type, eps: float) -> None:
    """x1 @ x2 / (max(|x1|, eps) max(|x2|, eps)), which is 0 for a vector of zeros, in float32 too."""
    a = np.array([[0, 0, 0], [1, 0, 1], [1e-9, 0, 0], [3e-5, 4e-5, 0]], dtype)
    b = np.array([[1, 2, 3], [1, 1, 0], [1, 1, 1], [0, 0, 0]], dtype)
    lengths = [np.maximum(np.linalg.norm(each.astype(np.float64), axis=1), eps) for each in (a, b)]
    expected = (a.astype(np.float64) * b).sum(1) / (lengths[0] * lengths[1])
    x, y = rg.Tensor(a, requires_grad=True), rg.Tensor(b, requires_grad=True)
    found = functional.cosine_similarity(x, y, eps=eps)
    np.testing.assert_allclose(found.array, expected, 1e-6, 1e-30)
    g = np.array([1.5, -0.75, 2.0, 0.25], dtype)
    found.backward(rg.Tensor(g))
    assert x.grad is not None and y.grad is not None
    assert np.isfinite(x.grad.array).all() and np.isfinite(y.grad.array).all()
    np.testing.assert_allclose(x.grad.array[0], g[0] * b[0] / (eps * lengths[1][0]), 1e-5)
