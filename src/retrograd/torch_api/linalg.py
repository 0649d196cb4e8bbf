"""Linear algebra under PyTorch's names, as in ``torch.linalg``."""

from __future__ import annotations

from typing import Any

from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor
from ..ops.dtypes.dtype import DTypeLike
from ..ops.linalg.decompositions import (
    cholesky,
    cholesky_ex,
    eigh,
    eigvalsh,
    householder_product,
    matrix_rank,
    qr,
    svd,
    svdvals,
)
from ..ops.linalg.lu import ldl_factor, ldl_factor_ex, ldl_solve, lu, lu_factor, lu_factor_ex, lu_solve
from ..ops.linalg.matrix_functions import (
    cond,
    cross,
    det,
    diagonal,
    matrix_exp,
    matrix_power,
    multi_dot,
    slogdet,
    vander,
    vecdot,
)
from ..ops.linalg.solving import (
    LinAlgError,
    inv,
    inv_ex,
    lstsq,
    pinv,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from ..ops.product.matmul import matmul
from ..ops.reduce.norms import matrix_norm_of, vector_norm_of
from ..ops.reduce.reduction import Dim
from ..ops.signatures import add_forms
from .missing import attach_to_module

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


@operator
def vector_norm(
    x: Tensor, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike = None
) -> Tensor:
    """(sum |x|^ord)^(1/ord) over ``dim`` (all axes if None); max |x| for inf, min |x| for -inf, count x != 0 for 0.

    The gradient at 0 is 0; equal maxima share the gradient evenly; order 0 has no gradient.

    dtype: convert x first.

    Raises:
        TypeError: x is not a floating-point Tensor.
        ValueError: ``ord`` is not a number or needs an element where x is empty, or an axis is repeated.
        IndexError: x has no such axis.
    """
    if interpreters and (seen := interpreted(vector_norm, locals())) is not None:
        return seen
    return vector_norm_of("vector_norm", x, ord, dim, keepdim, dtype)


@operator
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: DTypeLike = None
) -> Tensor:
    """Return the norm of the matrices A (..., M, N), whose rows and columns are the axes ``dim``.

    ord: "fro", sqrt(sum A^2); "nuc", the sum of the singular values; 2 and -2, the largest and the smallest of them;
    1 and -1, the largest and the smallest column sum of |A|; inf and -inf, row sum.

    dtype: convert A first.

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: ``ord`` is not one of these, ``dim`` does not name two axes, or A is empty.
        IndexError: A has no such axis.
    """
    if interpreters and (seen := interpreted(matrix_norm, locals())) is not None:
        return seen
    return matrix_norm_of("matrix_norm", A, ord, dim, keepdim, dtype)


@operator
def norm(A: Tensor, ord: Any = None, dim: Dim = None, keepdim: bool = False, *, dtype: DTypeLike = None) -> Tensor:
    """The 2-norm over ``dim`` (all axes if None); with ``ord``, ``vector_norm`` (one axis) or ``matrix_norm`` (two).

    dtype: convert A first.

    Raises:
        TypeError: A is not a floating-point Tensor.
        ValueError: that norm has no such ``ord``; without ``dim``, A has neither one axis nor two; or an axis is
            repeated.
        IndexError: A has no such axis.
    """
    if interpreters and (seen := interpreted(norm, locals())) is not None:
        return seen
    if ord is None:
        return vector_norm_of("norm", A, 2, dim, keepdim, dtype)
    over = tuple(range(getattr(A, "ndim", 0))) if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else dim
    if isinstance(ord, str) or (isinstance(over, tuple) and len(over) == 2):
        return matrix_norm_of("norm", A, ord, over, keepdim, dtype)
    if isinstance(over, tuple) and len(over) > 2:
        raise ValueError(
            f"norm: ord={ord!r} over {len(over)} axes is neither a vector norm (1 axis) nor a matrix norm (2); pass "
            "dim, or use vector_norm, which takes all elements as one vector"
        )
    return vector_norm_of("norm", A, ord, dim, keepdim, dtype)


add_forms(globals(), "linalg")
attach_to_module(__name__)
