"""Singular values, eigenvalues, and the Cholesky and QR factorizations of matrices a (..., M, N), by NumPy's LAPACK."""

from __future__ import annotations

from typing import Any

import numpy as np

from .lapack import first_refused, none_refused, refused

__all__ = ["bad_minor", "cholesky", "eigh", "geqrf", "qr", "singular_values", "svd", "svd_complement"]


def svd(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """u (..., M, K), s (..., K) from the largest down, v (..., N, K) with a = u diag(s) vT; NaN where a is not finite.

    K = min(M, N)
    """
    finite = np.isfinite(a).all((-2, -1), keepdims=True)
    u, s, vt = np.linalg.svd(a if finite.all() else np.where(finite, a, 0), full_matrices=False)
    if not finite.all():
        u, s, vt = (np.where(mask, part, np.nan) for mask, part in ((finite, u), (finite[..., 0], s), (finite, vt)))
    return u, s, np.ascontiguousarray(vt.swapaxes(-1, -2), like=a)


def svd_complement(a: np.ndarray) -> np.ndarray:
    """Columns that complete u, or v if M < N, of ``svd`` to a square matrix: (..., max(M, N), |M - N|)"""
    finite = np.isfinite(a).all((-2, -1), keepdims=True)
    u, s, vt = np.linalg.svd(a if finite.all() else np.where(finite, a, 0))
    m, n = a.shape[-2:]
    return u[..., n:] if m > n else vt[..., m:, :].swapaxes(-1, -2)


def singular_values(a: np.ndarray, hermitian: bool) -> np.ndarray:
    """(..., K), NaN where a is not finite; of symmetric matrices, the lower triangles of a, if ``hermitian``"""
    try:
        return np.abs(np.linalg.eigvalsh(a)) if hermitian else np.linalg.svd(a, compute_uv=False)
    except np.linalg.LinAlgError:
        finite = np.isfinite(a).all((-2, -1), keepdims=True)
        s = singular_values(np.where(finite, a, 0), hermitian)
        return np.where(finite[..., 0], s, a.dtype.type(np.nan))


def eigh(a: np.ndarray, upper: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The eigenvalues (..., N), ascending, and eigenvectors (..., N, N), as columns, of symmetric matrices.

    upper: their upper triangles are in a, not the lower ones. Last, the index of the first matrix that is refused.
    """
    triangle: Any = "U" if upper else "L"
    try:
        values, vectors = np.linalg.eigh(a, triangle)
    except np.linalg.LinAlgError:
        first = first_refused(np.linalg.eigh, a, triangle)
        return np.full(a.shape[:-1], np.nan, a.dtype, like=a), np.full_like(a, np.nan), first
    return values, vectors, none_refused()


def cholesky(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lower triangles y with y yT = a, and the index of the first matrix that is not positive definite."""
    try:
        return np.linalg.cholesky(a), none_refused()
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan), first_refused(np.linalg.cholesky, a)


def bad_minor(a: np.ndarray) -> np.ndarray:
    """(...,) int32: the order of the first leading minor that is not positive definite, 0 if all are"""
    info = np.zeros(a.shape[:-2], np.int32, like=a)
    for place in np.ndindex(info.shape):
        if refused(np.linalg.cholesky, a[place]):
            orders = range(1, a.shape[-1] + 1)
            info[place] = next(k for k in orders if refused(np.linalg.cholesky, a[place][:k, :k]))
    return info


def qr(a: np.ndarray, complete: bool) -> tuple[np.ndarray, np.ndarray]:
    """q (..., M, K) with orthonormal columns and upper triangles r (..., K, N) with a = q r; K = min(M, N), or M."""
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    return q, r


def geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a = q r as LAPACK holds it: r on and above the diagonal, below it the vectors of reflections; tau (..., K)."""
    found, tau = np.linalg.qr(a, "raw")
    return np.ascontiguousarray(found.swapaxes(-1, -2), like=a), tau
