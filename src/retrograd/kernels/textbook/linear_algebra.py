"""Matrix decompositions, linear equations, determinants, exponentials, diagonals, and triangles.

NumPy's LAPACK refuses some matrices: singular ones, or those without a factorization. A kernel then returns the index
of the first of them, counted over the leading axes, and NaN in place of all results. Where there is none, it is -1.

Sources: J. Bunch, L. Kaufman, "Some stable methods for calculating inertia and solving symmetric linear systems", 1977
(LDL); N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod, sqrt
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "bad_minor",
    "cholesky",
    "cofactors",
    "determinant",
    "diagonal_fill",
    "diagonal_places",
    "eigh",
    "geqrf",
    "inverse",
    "inverse_permutation",
    "ldl_factor",
    "ldl_structure",
    "log_determinant",
    "lu_factor",
    "lu_order",
    "matrix_exp",
    "permutation_matrix",
    "pseudo_inverse",
    "qr",
    "singular_matrices",
    "singular_rank",
    "singular_values",
    "solve",
    "svd",
    "svd_complement",
    "triangle",
    "triangle_indices",
    "zero_pivot",
]


# ---- Matrices that NumPy's LAPACK refuses: singular ones, or those without a factorization --------------------------

none_refused: Callable[[], np.ndarray] = np.array(-1, np.int64).copy  # a new array of the index -1


def first_refused(function: Callable[..., Any], matrices: np.ndarray, *others: Any) -> np.ndarray:
    """The index of the first matrix that ``function(matrix, *others)`` refuses; NumPy does not say which of a stack."""
    for index, matrix in enumerate(matrices.reshape(prod(matrices.shape[:-2]), *matrices.shape[-2:])):
        if refused(function, matrix, *others):
            return np.array(index, np.int64, like=matrices)
    return np.array(0, np.int64, like=matrices)


def refused(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether NumPy refuses one matrix."""
    try:
        function(*arguments)
    except np.linalg.LinAlgError:
        return True
    return False


# ---- Singular values, eigenvalues -----------------------------------------------------------------------------------


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
    """a = q r as LAPACK stores it: r on and above the diagonal, below it the vectors of reflections; tau (..., K)."""
    found, tau = np.linalg.qr(a, "raw")
    return np.ascontiguousarray(found.swapaxes(-1, -2), like=a), tau


# ---- LU factorization of matrices with exchanges of rows, and orders of rows ----------------------------------------

_BLOCK = 32  # columns that are eliminated one by one before a matrix product updates the rest


@ieee  # zero pivots without exchanges, and elements that are not finite
def lu_factor(x: np.ndarray, pivot: bool) -> tuple[np.ndarray, np.ndarray]:
    """x (..., M, N) as L, below the diagonal, and U, and the row exchanges (..., K), int32, from 1; K = min(M, N).

    Gaussian elimination by blocks of columns; no rows are exchanged without ``pivot``.
    """
    *lead, m, n = x.shape
    k, count = min(m, n), prod(lead)
    a, every = x.reshape(count, m, n).copy(), np.arange(count, like=x)
    pivots = np.empty((count, k), np.int32, like=x)
    for begin in range(0, k, _BLOCK):
        end = min(begin + _BLOCK, k)
        for j in range(begin, end):
            row = j + np.abs(a[:, j:, j]).argmax(1) if pivot else np.full(count, j, like=x)
            a[every, j], a[every, row] = a[every, row], a[every, j]
            pivots[:, j] = row + 1
            # a column of zeros is eliminated already
            a[:, j + 1 :, j] /= np.where(a[:, j:, j].any(1), a[:, j, j], 1)[:, np.newaxis]
            a[:, j + 1 :, j + 1 : end] -= a[:, j + 1 :, j : j + 1] * a[:, j : j + 1, j + 1 : end]
        triangle = np.tril(a[:, begin:end, begin:end], -1) + np.eye(end - begin, dtype=a.dtype, like=x)
        a[:, begin:end, end:] = _substituted(triangle, a[:, begin:end, end:])
        a[:, end:, end:] -= a[:, end:, begin:end] @ a[:, begin:end, end:]
    return a.reshape(x.shape), pivots.reshape(*lead, k)


def _substituted(triangle: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with triangle x = b, for lower triangles with ones on their diagonals."""
    try:
        return np.linalg.solve(triangle, b)
    except np.linalg.LinAlgError:  # it holds infinite numbers, from a pivot of 0
        x = b.copy()
        for j in range(triangle.shape[-1] - 1):
            x[:, j + 1 :] -= triangle[:, j + 1 :, j : j + 1] * x[:, j : j + 1]
        return x


def zero_pivot(lu: np.ndarray) -> np.ndarray:
    """(...,) int32: the position, from 1, of the first 0 on the diagonal of lu (..., M, N); 0 if there is none"""
    singular = np.diagonal(lu, 0, -2, -1) == 0
    if not singular.shape[-1]:
        return np.zeros(lu.shape[:-2], np.int32, like=lu)
    return np.asarray(np.where(singular.any(-1), singular.argmax(-1) + 1, 0), np.int32, like=lu)


def lu_order(pivots: np.ndarray, rows: int) -> np.ndarray:
    """The index in the matrix of each row of L U: (..., M) int64, from the pivots (..., K); M = ``rows``."""
    *lead, k = pivots.shape
    order = np.broadcast_to(np.arange(rows, like=pivots), (prod(lead), rows)).copy()
    every = np.arange(len(order), like=pivots)
    for i, row in enumerate(pivots.reshape(len(order), k).T - 1):
        order[every, i], order[every, row] = order[every, row], order[every, i]
    return order.reshape(*lead, rows)


def inverse_permutation(order: np.ndarray) -> np.ndarray:
    """The inverses (..., N), int64, of permutations (..., N)."""
    return np.argsort(order, -1)


def permutation_matrix(order: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """p (..., N, N) with p[order[i], i] = 1, else 0."""
    return (np.arange(order.shape[-1], like=order)[:, np.newaxis] == order[..., np.newaxis, :]).astype(dtype)


# ---- LDL factorization of symmetric matrices with diagonal pivoting, as LAPACK's sytrf gives it ---------------------

_ALPHA = (1 + sqrt(17)) / 8  # balances the bounds on element growth of blocks of 1 and of 2 rows


@ieee  # elements that are not finite
def ldl_factor(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """L and D in one lower triangle (..., N, N), pivots (..., N) and info (...), int32, of lower triangles x.

    D has blocks of 1 and 2 rows. pivots: as in ``linalg.ldl_factor``. info: the first block that is 0, from 1, or 0.
    """
    a = np.tril(x)
    pivots, info = np.empty(x.shape[:-1], np.int32, like=x), np.zeros(x.shape[:-2], np.int32, like=x)
    for place in np.ndindex(info.shape):
        info[place] = _eliminate(a[place], pivots[place])
    return np.tril(a), pivots, info


def _eliminate(a: np.ndarray, pivots: np.ndarray) -> int:
    """Replace the lower triangle of a (N, N) by L and D, and set the pivots; the first zero block, from 1, or 0."""
    n, k, info = len(a), 0, 0
    while k < n:
        row, pair = _pivot(a, k)
        if row < 0:  # a column of zeros
            info, row = info or k + 1, k
        else:
            _exchange(a, k, k + pair, row)
            end = k + 1 + pair
            block = a[k:end, k:end]
            whole = np.tril(block) + np.tril(block, -1).T
            below = a[end:, k:end]
            scaled = np.linalg.solve(whole, below.T).T if pair else below / whole
            a[end:, end:] -= scaled @ below.T
            a[end:, k:end] = scaled
        pivots[k : k + 1 + pair] = -row - 1 if pair else row + 1
        k += 1 + pair
    return info


def _pivot(a: np.ndarray, k: int) -> tuple[int, bool]:
    """The row for step k, and whether it is the second of a block of two; -1 if the column is 0 or NaN."""
    own = abs(a[k, k])
    column = np.abs(a[k + 1 :, k])
    largest = column.max(initial=0)
    if np.isnan(own) or max(own, largest) == 0:
        return -1, False
    if own >= _ALPHA * largest:
        return k, False
    row = k + 1 + int(column.argmax())
    other = max(np.abs(a[row, k:row]).max(initial=0), np.abs(a[row + 1 :, row]).max(initial=0))
    if own >= _ALPHA * largest * (largest / other):
        return k, False
    return row, not abs(a[row, row]) >= _ALPHA * other


def _exchange(a: np.ndarray, k: int, first: int, second: int) -> None:
    """Swap rows and columns of the symmetric matrix whose lower triangle is a[k:, k:]."""
    if first == second:
        return
    whole = np.tril(a[k:, k:]) + np.tril(a[k:, k:], -1).T
    order = np.arange(len(whole), like=a)
    order[first - k], order[second - k] = second - k, first - k
    a[k:, k:] = np.tril(whole[order][:, order])


def ldl_structure(pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Decode the pivots (..., N) of ``ldl_factor``: the order of rows, the storage of L, and the blocks of D.

    order (..., N) int64: row i of L belongs to row order[i] of the matrix. rows (..., N, N) int64: L[i, j] is stored at
    [rows[i, j], j]. blocks (..., N, N) bool: the elements of D in the lower triangle.
    """
    *lead, n = pivots.shape
    count = prod(lead)
    order = np.broadcast_to(np.arange(n, like=pivots), (count, n)).copy()
    rows = np.broadcast_to(np.arange(n, like=pivots)[:, np.newaxis], (count, n, n)).copy()
    blocks = np.broadcast_to(np.eye(n, dtype=bool, like=pivots), (count, n, n)).copy()
    for own, order_of, rows_of, blocks_of in zip(pivots.reshape(count, n), order, rows, blocks, strict=True):
        k = 0
        while k < n:
            pair = bool(own[k] < 0)
            first, second = k + pair, abs(int(own[k])) - 1
            order_of[[first, second]] = order_of[[second, first]]
            rows_of[[first, second], :k] = rows_of[[second, first], :k]
            if pair:
                blocks_of[k + 1, k] = True
            k += 1 + pair
    return order.reshape(*lead, n), rows.reshape(*lead, n, n), blocks.reshape(*lead, n, n)


# ---- Inverses, linear equations, ranks and determinants of matrices a (..., N, N), by NumPy's LAPACK ----------------


def inverse(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverses, and the index of the first singular matrix."""
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


# ---- The exponential of matrices ------------------------------------------------------------------------------------

# coefficients of the Pade approximant of degree 13, and the norm up to which its error is below 2**-53
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_LARGEST = 5.371920351148152


@ieee
def matrix_exp(x: np.ndarray) -> np.ndarray:
    """1 + x + x x / 2 + ... of x (..., N, N), computed in float64; NaN where x is not finite."""
    return _exponential(x.astype(np.float64)).astype(x.dtype)


def _exponential(x: np.ndarray) -> np.ndarray:
    if not x.size:
        return x
    norms = np.abs(x).sum(-2).max(-1)
    if not np.isfinite(norms).all():
        finite = np.isfinite(norms)[..., np.newaxis, np.newaxis]
        return np.where(finite, _exponential(np.where(finite, x, 0)), np.nan)
    times = np.maximum(0, np.ceil(np.log2(np.maximum(norms, 1e-300) / _LARGEST))).astype(np.int64)
    x = x / (2.0**times)[..., np.newaxis, np.newaxis]
    unit, b = np.eye(x.shape[-1], like=x), _PADE
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    odd = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * unit)
    even = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * unit
    y: np.ndarray = np.linalg.solve(even - odd, even + odd)
    for step in range(int(times.max(initial=0))):
        y = np.where((times > step)[..., np.newaxis, np.newaxis], y @ y, y)
    return y


# ---- Diagonals and triangles of matrices ----------------------------------------------------------------------------


def diagonal_fill(g: np.ndarray, shape: tuple[int, ...], offset: int, first: int, second: int) -> np.ndarray:
    """Zeros of a shape, with g on a diagonal of the matrices in two axes; that is the last axis of g."""
    y = np.zeros(shape, g.dtype, like=g)
    target = np.diagonal(y, offset, first, second)
    target.flags.writeable = True  # NumPy's view is read-only, its memory is ours
    target[...] = g
    return y


def diagonal_places(shape: tuple[int, ...], end: int) -> tuple[np.ndarray, ...]:
    """The indices along each axis (int64) of the elements (i, i, ...) that are before element ``end`` in C order.

    In a matrix that is taller than its N columns, another diagonal begins after each N + 1 rows.
    """
    step = sum([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
    return tuple(np.unravel_index(np.arange(0, end, step), shape))


def triangle(x: np.ndarray, diagonal: int, lower: bool) -> np.ndarray:
    """The lower (or upper) triangles of x (..., M, N) up to a diagonal, 0 elsewhere"""
    return (np.tril if lower else np.triu)(x, diagonal)


def triangle_indices(rows: int, columns: int, offset: int, lower: bool) -> np.ndarray:
    """The indices (2, K) of the lower (or upper) triangle of a matrix up to a diagonal, row by row; int64"""
    return np.array((np.tril_indices if lower else np.triu_indices)(rows, offset, columns), np.int64)
