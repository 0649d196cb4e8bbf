"""Helpers of the matrix operators: argument checks, the error for a matrix that is refused, transposes."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...arrays import eye, number
from ...engine.tensor import Tensor, wrap
from ..arguments.checks import require_float
from ..product.matmul import swap_last

__all__: list[str] = []


class LinAlgError(RuntimeError):
    """A matrix does not have what is asked for: it is singular, or not positive definite, or not finite."""


def require_matrices(name: str, x: Any, label: str = "A") -> None:
    """TypeError or ValueError unless x is a floating-point Tensor (..., M, N)."""
    require_float(name, x, label)
    if x.array.dtype.itemsize < 4:  # float16, which LAPACK does not have
        raise TypeError(f"{name}: {label} is {x.dtype}, needs float32 or float64; convert it with {label}.float()")
    if x.array.ndim < 2:
        raise ValueError(f"{name}: {label}.shape={x.array.shape} must have at least 2 axes: (..., M, N)")


def require_square(name: str, x: Any, label: str = "A") -> None:
    """TypeError or ValueError unless x is a floating-point Tensor (..., N, N)."""
    require_matrices(name, x, label)
    rows, columns = x.array.shape[-2:]
    if rows != columns:
        raise ValueError(f"{name}: {label}.shape={x.array.shape} must end in a square: (..., N, N)")


def refuse(name: str, rule: str, first: np.ndarray, shape: tuple[int, ...]) -> None:
    """LinAlgError, which says which of the matrices of this shape breaks the ``rule``, unless its index is -1."""
    index = number(first, "whether a matrix is refused")
    if index >= 0:
        where = f"{matrix_at(index, shape)} " if shape[:-2] else ""
        raise LinAlgError(f"{name}: the matrix {where}{rule}")


def matrix_at(index: int, shape: tuple[int, ...]) -> str:
    """The matrix at an index, counted over the leading axes of A: "A[1, 0]", or "A" if there are none."""
    place = [index // prod(shape[i + 1 : -2]) % extent for i, extent in enumerate(shape[:-2])]
    return f"A[{', '.join(map(str, place))}]" if place else "A"


def unit_matrix(x: Tensor, rows: int, columns: int | None = None) -> Tensor:
    """Ones on the diagonal, in the type of x; square by default."""
    return wrap(eye(rows, columns, x.array.dtype, like=x.array))


def transposed(x: Tensor) -> Tensor:
    """x (..., M, N) with its last two axes swapped."""
    return swap_last(x)


def symmetric(x: Tensor, upper: bool = False) -> Tensor:
    """The symmetric matrices that have the lower (upper) triangles of x (..., N, N)."""
    half = x.triu() if upper else x.tril()
    rest = x.triu(1) if upper else x.tril(-1)
    return half + transposed(rest)
