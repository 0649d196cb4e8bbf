"""Cases of products of matrices, with and without broadcasting."""

from __future__ import annotations

from typing import Any

from .case import Case, case
from .numbers import Shape


def _gemm(name: str, *shapes: Shape, **attributes: Any) -> Case:
    return case(f"gemm_{name}", "Gemm", *shapes, **attributes)


def _matmul(name: str, a: Shape, b: Shape) -> Case:
    return case(f"matmul_{name}", "MatMul", a, b)


def _einsum(name: str, equation: str, *shapes: Shape) -> Case:
    return case(f"einsum_{name}", "Einsum", *shapes, equation=equation)


CASES = [
    _gemm("no_bias", (3, 4), (4, 2)),
    _gemm("alpha_and_beta", (3, 4), (4, 2), (3, 2), alpha=0.75, beta=-1.5),
    _gemm("transposed_a", (4, 3), (4, 2), (3, 2), transA=1),
    _gemm("transposed_b", (3, 4), (2, 4), (2,), transB=1),
    _gemm("both_transposed", (4, 3), (2, 4), (3, 2), transA=1, transB=1, alpha=2.0),
    _gemm("bias_row", (3, 4), (4, 2), (1, 2), beta=0.5),
    _gemm("bias_column", (3, 4), (4, 2), (3, 1)),
    _gemm("bias_scalar", (3, 4), (4, 2), (1,)),
    _matmul("2d", (3, 4), (4, 2)),
    _matmul("batches", (2, 3, 4), (2, 4, 2)),
    _matmul("broadcast", (2, 1, 3, 4), (3, 4, 2)),
    _matmul("broadcast_matrix", (2, 3, 2, 4), (4, 3)),
    _matmul("vector_matrix", (4,), (2, 4, 3)),
    _matmul("matrix_vector", (2, 3, 4), (4,)),
    _matmul("vectors", (5,), (5,)),
    _einsum("batched_product", "bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
    _einsum("outer", "i,j->ij", (3,), (4,)),
    _einsum("diagonal", "ii->i", (4, 4)),
    _einsum("sum", "ijk->j", (2, 3, 4)),
    _einsum("ellipsis", "...ij,...jk->...ik", (2, 1, 3, 2), (1, 3, 2, 4)),
    _einsum("three_operands", "ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
]
