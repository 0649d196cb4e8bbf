"""Product of matrices."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["matmul"]


@ieee
def matmul(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """c[..., m, n] = bias[n] + sum over k of a[..., m, k] b[..., k, n]

    a (..., M, K), b (..., K, N), bias (N,) or None  ->  (..., M, N); leading axes are broadcast.
    """
    c: np.ndarray = a @ b
    return c if bias is None else c + bias
