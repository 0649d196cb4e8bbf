"""Products of sparse matrices with dense tensors.

The gradient is the product with the transposed matrix, so the operator is closed under differentiation.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import arange, as_constant, from_host, is_constant, ones
from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels

__all__: list[str] = []


# ---- Products of a constant sparse matrix and a tensor along one axis ------------------------------------------------


class Matrix:
    """A sparse matrix in CSR form: row r has weights[k] in column indices[k] for starts[r] <= k < starts[r+1].

    Without ``starts`` each row has one entry; without ``weights`` all entries are 1.
    """

    columns: int
    indices: np.ndarray
    starts: np.ndarray | None
    weights: np.ndarray | None

    def __init__(
        self, indices: np.ndarray, columns: int, starts: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> None:
        self.indices, self.columns, self.starts, self.weights = indices, columns, starts, weights
        self._transposed: Matrix | None = None

    @property
    def rows(self) -> int:
        return self.indices.size if self.starts is None else self.starts.size - 1

    def csr(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return starts, indices and weights in x's type, on x's device."""
        starts, weights, dtype = self.starts, self.weights, x.dtype
        if starts is None:
            starts = arange(self.rows + 1, like=self.indices)
        if weights is None:
            weights = ones(self.indices.size, dtype, like=self.indices)
        elif weights.dtype != dtype:
            weights = kernels.cast(weights, dtype)
        if type(x) is np.ndarray:
            return starts, self.indices, weights
        return from_host(starts, like=x), from_host(self.indices, like=x), from_host(weights, like=x)

    @property
    def transposed(self) -> Matrix:
        """Return the transpose; the entries of a row are in the order of the rows they come from."""
        if self._transposed is None:
            starts, row_of, weights = kernels.csr_transpose(self.indices, self.columns, self.starts, self.weights)
            self._transposed = Matrix(row_of, self.rows, starts, weights)
            self._transposed._transposed = self
            if is_constant(self.indices):
                self._transposed.as_constant()
        return self._transposed

    def as_constant(self) -> Matrix:
        """Declare that the matrix is kept in a cache and never changes."""
        for array in (self.starts, self.indices, self.weights):
            if array is not None:
                as_constant(array)
        return self


class SparseProduct(Function):
    """y[..., r, ...] = sum over c of matrix[r, c] x[..., c, ...] along ``axis``"""

    piecewise_linear = True

    @staticmethod
    def forward(x: Tensor, matrix: Matrix, axis: int) -> Tensor:
        array = x.array
        if matrix.starts is None and matrix.weights is None:
            return wrap(pick(array, matrix.indices, axis))
        return wrap(kernels.csr_product(array, axis, *matrix.csr(array)))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.matrix, ctx.axis = inputs

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return SparseProduct.apply(g, ctx.matrix.transposed, ctx.axis), None, None


class SparseProducts(Function):
    """SparseProduct along ``axis`` and, with another matrix, along the next axis."""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Matrix, next_matrix: Matrix, axis: int) -> Tensor:
        ctx.matrices, ctx.axis = (matrix, next_matrix), axis
        return wrap(kernels.csr_product_pair(x.array, axis, matrix.csr(x.array), next_matrix.csr(x.array)))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        matrices = [matrix.transposed for matrix in ctx.matrices]
        return SparseProducts.apply(g, *matrices, ctx.axis), None, None, None


def pick(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    """Return the slices ``indices`` of x along ``axis``, in x's memory order."""
    if type(x) is not np.ndarray:
        indices = from_host(indices, like=x) if type(indices) is np.ndarray else indices
    if x.dtype.char in "fd":
        return kernels.lines(x, indices, axis)
    return kernels.take(x, indices, axis)


# ---- Products of a sparse matrix, whose values may require gradients, and a dense one --------------------------------


class Pattern:
    """The sparsity pattern of a matrix, sorted by row: entry k is in row row_of[k] and column column_of[k]."""

    column_of: np.ndarray
    row_of: np.ndarray
    shape: tuple[int, int]

    def __init__(self, row_of: np.ndarray, column_of: np.ndarray, shape: tuple[int, int]) -> None:
        self.row_of, self.column_of, self.shape = row_of, column_of, shape

    @cached_property
    def starts(self) -> np.ndarray:
        """Return the number of the first entry of each row, and the total number of entries."""
        return kernels.row_starts(self.row_of, self.shape[0])

    @cached_property
    def transposed(self) -> tuple[np.ndarray, Pattern]:
        """Return the entry numbers in column order, and the pattern of the transposed matrix."""
        return sorted_pattern(self.column_of, self.row_of, self.shape[::-1])


def sorted_pattern(row_of: np.ndarray, column_of: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, Pattern]:
    """Return the entry numbers in row order, and their pattern."""
    _, order, _ = kernels.csr_transpose(row_of, shape[0], None, None)
    return order, Pattern(pick(row_of, order, 0), pick(column_of, order, 0), (shape[0], shape[1]))


def select_rows(x: Tensor, indices: np.ndarray) -> Tensor:
    """Return x[indices] along the first axis."""
    return SparseProduct.apply(x, Matrix(indices, x.array.shape[0]), 0)


class SpMM(Function):
    """y[r] = sum of values[k] x[c] over the entries k = (r, c) of a matrix: values (K,), x (C, D) -> y (R, D)"""

    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
        ctx.save_for_backward(values, x)
        ctx.pattern = pattern
        return wrap(kernels.csr_product(x.array, 0, pattern.starts, pattern.column_of, values.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (want_values, want_x, _), (values, x), pattern = ctx.needs_input_grad, ctx.saved_tensors, ctx.pattern
        gvalues = gx = None
        if want_values:
            gvalues = (select_rows(g, pattern.row_of) * select_rows(x, pattern.column_of)).sum(1)
        if want_x:
            order, transposed = pattern.transposed
            gx = SpMM.apply(select_rows(values, order), g, transposed)
        return gvalues, gx, None
