"""What the operators of matrices share: checks, NumPy's LAPACK with PyTorch's error, transposes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
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


def lapack(name: str, rule: str, function: Callable[..., Any], matrices: np.ndarray, *others: Any) -> Any:
    """``function(matrices, *others)`` of NumPy; LinAlgError, which says which matrix breaks the ``rule``."""
    try:
        return function(matrices, *others)
    except np.linalg.LinAlgError:
        pass
    raise LinAlgError(f"{name}: the matrix {_first_failing(function, matrices, others)}{rule}")


def failing(function: Callable[[np.ndarray], Any], x: np.ndarray) -> bool:
    """Whether NumPy refuses one matrix."""
    try:
        function(x)
    except np.linalg.LinAlgError:
        return True
    return False


def _first_failing(function: Callable[..., Any], matrices: np.ndarray, others: tuple[Any, ...]) -> str:
    """"A[2] " for the first matrix of several that fails by itself."""
    if matrices.ndim > 2:
        if others and isinstance(others[0], np.ndarray):  # of solve, right sides: their values do not matter
            others = (np.zeros((matrices.shape[-1], 1), matrices.dtype),)
        for place in np.ndindex(matrices.shape[:-2]):
            if failing(lambda x: function(x, *others), matrices[place]):
                return f"A[{', '.join(map(str, place))}] "
    return ""


def transposed(x: Tensor) -> Tensor:
    """x (..., M, N) with its last two axes swapped."""
    return swap_last(x)


def symmetric(x: Tensor, upper: bool = False) -> Tensor:
    """The symmetric matrices that have the lower (upper) triangles of x (..., N, N)."""
    half = x.triu() if upper else x.tril()
    rest = x.triu(1) if upper else x.tril(-1)
    return half + transposed(rest)
