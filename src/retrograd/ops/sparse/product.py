"""The product of a sparse matrix, whose values may require gradients, and a dense one."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..index.sparse import Matrix, SparseProduct, pick

__all__: list[str] = []


class Pattern:
    """The sparsity pattern of a matrix, sorted by row: entry k is in row row_of[k] and column column_of[k]."""

    def __init__(self, row_of: np.ndarray, column_of: np.ndarray, shape: tuple[int, int]) -> None:
        self.row_of, self.column_of, self.shape = row_of, column_of, shape

    @cached_property
    def starts(self) -> np.ndarray:
        """The first entry of each row, and the number of all."""
        return kernels.row_starts(self.row_of, self.shape[0])

    @cached_property
    def transposed(self) -> tuple[np.ndarray, Pattern]:
        """The entries' numbers, column by column, and the pattern of the transposed matrix."""
        return sorted_pattern(self.column_of, self.row_of, self.shape[::-1])


def sorted_pattern(row_of: np.ndarray, column_of: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, Pattern]:
    """The entries' numbers in the order of their rows, and their pattern."""
    _, order, _ = kernels.csr_transpose(row_of, shape[0], None, None)
    return order, Pattern(pick(row_of, order, 0), pick(column_of, order, 0), (shape[0], shape[1]))


def taken(x: Tensor, indices: np.ndarray) -> Tensor:
    """x[indices] along the first axis."""
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
            gvalues = (taken(g, pattern.row_of) * taken(x, pattern.column_of)).sum(1)
        if want_x:
            order, transposed = pattern.transposed
            gx = SpMM.apply(taken(values, order), g, transposed)
        return gvalues, gx, None
