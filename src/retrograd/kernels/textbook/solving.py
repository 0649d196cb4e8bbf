"""Inverses, linear equations, ranks and determinants of matrices a (..., N, N), by NumPy's LAPACK."""

from __future__ import annotations

import numpy as np

from .decompositions import svd
from .ieee import ieee
from .lapack import first_refused, none_refused

__all__ = [
    "cofactors",
    "determinant",
    "inverse",
    "log_determinant",
    "pseudo_inverse",
    "singular_matrices",
    "singular_rank",
    "solve",
]


def inverse(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverses, and the index of the first singular matrix, see ``lapack``."""
    try:
        return np.linalg.inv(a), none_refused()
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan), first_refused(np.linalg.inv, a)


def solve(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """y (..., N, K) with a y = b, and the index of the first singular matrix; the leading axes broadcast."""
    if b.ndim < a.ndim:  # NumPy 1 takes a right side with one axis less for vectors
        b = b.reshape((1,) * (a.ndim - b.ndim) + b.shape)
    try:
        return np.linalg.solve(a, b), none_refused()
    except np.linalg.LinAlgError:
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])
        any_side = np.zeros((a.shape[-1], 1), a.dtype, like=a)
        return np.full(shape, np.nan, a.dtype, like=a), first_refused(np.linalg.solve, a, any_side)


@ieee
def singular_matrices(a: np.ndarray) -> np.ndarray:
    """(...,) bool: whether the sign of the determinant is 0, as it is where elimination meets a pivot of 0"""
    return np.asarray(np.linalg.slogdet(a)[0] == 0, like=a)


def pseudo_inverse(a: np.ndarray, atol: np.ndarray, rtol: np.ndarray) -> np.ndarray:
    """v diag(1 / s) uT of a (..., M, N), with 0 for singular values s up to max(atol, rtol times the largest)."""
    u, s, v = svd(a)
    limits = np.maximum(atol, rtol * s.max(-1, initial=0))[..., np.newaxis]
    kept = s > limits
    y: np.ndarray = (v * np.where(kept, 1 / np.where(kept, s, 1), 0)[..., np.newaxis, :]) @ u.swapaxes(-1, -2)
    return y


def singular_rank(s: np.ndarray, atol: np.ndarray, rtol: np.ndarray) -> np.ndarray:
    """(...,) int64: how many of the singular values s (..., K) exceed max(atol, rtol times the largest)"""
    limits = np.maximum(atol, rtol * s.max(-1, initial=0))
    return np.asarray((s > limits[..., np.newaxis]).sum(-1), np.int64, like=s)


@ieee
def determinant(a: np.ndarray) -> np.ndarray:
    """The determinants (...,)."""
    return np.asarray(np.linalg.det(a), like=a)


@ieee
def log_determinant(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The signs of the determinants (...,), and the logarithms of their absolute values."""
    sign, logarithm = np.linalg.slogdet(a)
    return np.asarray(sign, like=a), np.asarray(logarithm, like=a)


@ieee
def cofactors(a: np.ndarray) -> np.ndarray:
    """det(a) a^-T, and its limit where a is singular: det(u) det(v) u diag(products of all s but one) vT"""
    u, s, v = svd(a)
    n = s.shape[-1]
    others = np.where(np.eye(n, dtype=bool, like=a), 1, s[..., np.newaxis, :]).prod(-1)
    sign = np.linalg.det(u) * np.linalg.det(v)
    y: np.ndarray = (u * (others * np.sign(sign)[..., np.newaxis])[..., np.newaxis, :]) @ v.swapaxes(-1, -2)
    return y.astype(a.dtype, copy=False)
