"""Decompositions, linear equations, Fourier transforms, windows of signals, and parts of distances and attention."""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from typing import Any

import numpy as np

from ...specs.array_spec import Array, Spec
from .kernel import INT64, Axes, Pair, Three, along, declare

INT32, BOOL = np.dtype(np.int32), np.dtype(np.bool_)
FIRST = Spec((), INT64)  # the index of the first matrix that LAPACK refuses, see textbook/linear_algebra.py
Type = np.dtype[Any]


def _matrices(a: Spec, rows: int, columns: int) -> Spec:
    """As many matrices as in a, with other extents."""
    return a._replace(shape=(*a.shape[:-2], rows, columns))


def _vectors(a: Spec, size: int) -> Spec:
    """A vector for each matrix of a."""
    return a._replace(shape=(*a.shape[:-2], size))


def _numbers(a: Spec, dtype: Type | None = None) -> Spec:
    """A number for each matrix of a."""
    return Spec(a.shape[:-2], dtype or a.dtype)


def _solution(a: Spec, b: Spec) -> tuple[Spec, Spec]:
    ones = (1,) * (len(a.shape) - len(b.shape))
    return a._replace(shape=(*np.broadcast_shapes(a.shape[:-2], ones + b.shape[:-2]), *b.shape[-2:])), FIRST


def _svd(a: Spec) -> tuple[Spec, Spec, Spec]:
    m, n = a.shape[-2:]
    return _matrices(a, m, min(m, n)), _vectors(a, min(m, n)), _matrices(a, n, min(m, n))


def _svd_complement(a: Spec) -> Spec:
    m, n = a.shape[-2:]
    return _matrices(a, max(m, n), abs(m - n))


def _qr(a: Spec, complete: bool) -> tuple[Spec, Spec]:
    m, n = a.shape[-2:]
    k = m if complete else min(m, n)
    return _matrices(a, m, k), _matrices(a, k, n)


def _ldl_structure(pivots: Spec) -> tuple[Spec, Spec, Spec]:
    square = Spec((*pivots.shape, pivots.shape[-1]), INT64)
    return pivots._replace(dtype=INT64), square, square._replace(dtype=BOOL)


class LinearAlgebra:
    """Decompositions, linear equations, Fourier transforms, windows of signals, and parts of distances and attention.

    a is one or more matrices (..., M, N). Where LAPACK may refuse a matrix, the last result is the index of the first
    that it refuses, else -1.
    """

    # ---- linear equations and determinants

    @declare(lambda a: (a, FIRST))
    def inverse(self, a: Array) -> Pair:
        """The inverses."""

    @declare(_solution)
    def solve(self, a: Array, b: Array) -> Pair:
        """y with a y = b."""

    @declare(lambda a: _numbers(a, BOOL))
    def singular_matrices(self, a: Array) -> Array:
        """Whether a matrix has the determinant 0."""

    @declare(lambda a, atol, rtol: _matrices(a, a.shape[-1], a.shape[-2]))
    def pseudo_inverse(self, a: Array, atol: Array, rtol: Array) -> Array:
        """The Moore-Penrose inverses, with singular values below the tolerances treated as 0."""

    @declare(lambda s, atol, rtol: Spec(np.broadcast_shapes(s.shape[:-1], atol.shape, rtol.shape), INT64))
    def singular_rank(self, s: Array, atol: Array, rtol: Array) -> Array:
        """The number of singular values that exceed max(atol, rtol times the largest)."""

    @declare(_numbers)
    def determinant(self, a: Array) -> Array:
        """The determinants."""

    @declare(lambda a: (_numbers(a), _numbers(a)))
    def log_determinant(self, a: Array) -> Pair:
        """The signs of the determinants, and the logarithms of their absolute values."""

    @declare(lambda a: a)
    def cofactors(self, a: Array) -> Array:
        """The matrices of cofactors."""

    @declare(lambda x: x)
    def matrix_exp(self, x: Array) -> Array:
        """The exponentials of matrices."""

    # ---- decompositions

    @declare(_svd)
    def svd(self, a: Array) -> Three:
        """u, s and v with a = u diag(s) vT."""

    @declare(_svd_complement)
    def svd_complement(self, a: Array) -> Array:
        """The columns that complete u, or v, to a square matrix."""

    @declare(lambda a, hermitian: _vectors(a, min(a.shape[-2:])))
    def singular_values(self, a: Array, hermitian: bool) -> Array:
        """The singular values."""

    @declare(lambda a, upper: (_vectors(a, a.shape[-1]), a, FIRST))
    def eigh(self, a: Array, upper: bool) -> Three:
        """The eigenvalues and eigenvectors of symmetric matrices."""

    @declare(lambda a: (a, FIRST))
    def cholesky(self, a: Array) -> Pair:
        """Lower triangles y with y yT = a."""

    @declare(lambda a: _numbers(a, INT32))
    def bad_minor(self, a: Array) -> Array:
        """The order of the first leading minor that is not positive definite, else 0."""

    @declare(_qr)
    def qr(self, a: Array, complete: bool) -> Pair:
        """q and r with a = q r, orthonormal columns and an upper triangle."""

    @declare(lambda a: (a, _vectors(a, min(a.shape[-2:]))))
    def geqrf(self, a: Array) -> Pair:
        """r and the Householder vectors of q in one matrix, and their scales tau."""

    @declare(lambda x, pivot: (x, _vectors(x, min(x.shape[-2:]))._replace(dtype=INT32)))
    def lu_factor(self, x: Array, pivot: bool) -> Pair:
        """L and U in one matrix, and the pivots (row exchanges)."""

    @declare(lambda lu: _numbers(lu, INT32))
    def zero_pivot(self, lu: Array) -> Array:
        """The position of the first 0 on the diagonal, from 1, else 0."""

    @declare(lambda pivots, rows: Spec((*pivots.shape[:-1], rows), INT64))
    def lu_order(self, pivots: Array, rows: int) -> Array:
        """The permutation of rows that the pivots describe."""

    @declare(lambda order: order._replace(dtype=INT64))
    def inverse_permutation(self, order: Array) -> Array:
        """The inverses of permutations, along the last axis."""

    @declare(lambda order, dtype: Spec((*order.shape, order.shape[-1]), dtype))
    def permutation_matrix(self, order: Array, dtype: Type) -> Array:
        """The permutation matrix p of an order: p[order[i], i] = 1."""

    @declare(lambda x: (x, x._replace(shape=x.shape[:-1], dtype=INT32), _numbers(x, INT32)))
    def ldl_factor(self, x: Array) -> Three:
        """L and D in one lower triangle, the pivots, and the position of the first block that is 0, from 1, else 0."""

    @declare(_ldl_structure)
    def ldl_structure(self, pivots: Array) -> Three:
        """The order of rows, where the elements of L are stored, and the blocks of D."""

    # ---- Fourier transforms, of complex numbers as pairs

    @declare(lambda x, axes, inverse, factor: x)
    def complex_fft(self, x: Array, axes: Axes, inverse: bool, factor: float) -> Array:
        """The transform of pairs over axes, times a factor."""

    @declare(lambda x, axis, inverse, factor: x._replace(shape=(*along(x, axis, x.shape[axis] // 2 + 1).shape, 2)))
    def real_fft(self, x: Array, axis: int, inverse: bool, factor: float) -> Array:
        """Half of the transform of real numbers along an axis, as pairs."""

    @declare(lambda g, axis, n, inverse, factor: along(g._replace(shape=g.shape[:-1]), axis, n))
    def half_sum(self, g: Array, axis: int, n: int, inverse: bool, factor: float) -> Array:
        """The transpose of ``real_fft``."""

    @declare(lambda n, dtype: Spec((n // 2 + 1,), dtype))
    def half_weights(self, n: int, dtype: Type) -> Array:
        """How many of the n frequencies of a real signal each of the half represents: 1 or 2."""

    @declare(lambda n, d, dtype: Spec((n,), dtype))
    def fft_frequencies(self, n: int, d: float, dtype: Type) -> Array:
        """The frequencies of a transform."""

    @declare(lambda n, d, dtype: Spec((n // 2 + 1,), dtype))
    def rfft_frequencies(self, n: int, d: float, dtype: Type) -> Array:
        """The frequencies of half of a transform."""

    # ---- windows of signals, n = 0 .. count - 1

    @declare(lambda count, last, dtype: Spec((count,), dtype))
    def triangular_window(self, count: int, last: int, dtype: Type) -> Array:
        """1 - |2 n / last - 1|."""

    @declare(lambda count, last, dtype: Spec((count,), dtype))
    def sine_window(self, count: int, last: int, dtype: Type) -> Array:
        """sin(pi (n + 1/2) / (last + 1))."""

    @declare(lambda count, last, weights, dtype: Spec((count,), dtype))
    def cosine_window(self, count: int, last: int, weights: tuple[float, ...], dtype: Type) -> Array:
        """The sum over k of (-1)**k weights[k] cos(2 pi k n / last)."""

    @declare(lambda count, center, tau, dtype: Spec((count,), dtype))
    def exponential_window(self, count: int, center: float, tau: float, dtype: Type) -> Array:
        """exp(-|n - center| / tau)."""

    @declare(lambda count, center, std, dtype: Spec((count,), dtype))
    def gaussian_window(self, count: int, center: float, std: float, dtype: Type) -> Array:
        """exp(-((n - center) / std)**2 / 2)."""

    @declare(lambda count, last, beta, dtype: Spec((count,), dtype))
    def kaiser_window(self, count: int, last: int, beta: float, dtype: Type) -> Array:
        """i0(beta sqrt(1 - (2 n / last - 1)**2)) / i0(beta)."""

    # ---- parts of distances and attention

    @declare(lambda x: x._replace(dtype=BOOL))
    def is_zero(self, x: Array) -> Array:
        """Whether x is 0."""

    @declare(lambda square, eps: (square, square._replace(dtype=BOOL)))
    def short_lengths(self, square: Array, eps: float) -> Pair:
        """The square root, and whether it is below ``eps``."""

    @declare(lambda x: x)
    def signum(self, x: Array) -> Array:
        """The sign of x; NaN stays."""

    @declare(lambda x: x._replace(shape=x.shape[:-1]))
    def largest(self, x: Array) -> Array:
        """The largest absolute value along the last axis."""

    @declare(lambda x, y: x)
    def largest_slope(self, x: Array, y: Array) -> Array:
        """The gradient of ``largest``; ties share it."""

    @declare(lambda x: (Spec((x.shape[0] * (x.shape[0] - 1) // 2,), INT64),) * 2)
    def pair_indices(self, x: Array) -> Pair:
        """Both row numbers of all pairs of rows."""

    @declare(lambda mask, dtype: Spec(mask.shape, dtype))
    def mask_bias(self, mask: Array, dtype: Type) -> Array:
        """0 where a mask is True, else -inf."""

    @declare(lambda scores: scores._replace(shape=scores.shape[-2:]))
    def causal_bias(self, scores: Array) -> Array:
        """-inf for keys after their query, else 0."""

    @declare(lambda y, x: None, changes="y")
    def zero_masked_rows(self, y: Array, x: Array) -> None:
        """Set the rows of the softmax y to 0 where all of the row of x is -inf."""
