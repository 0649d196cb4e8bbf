"""Norms under PyTorch's names: ``torch.linalg``."""

from __future__ import annotations

from typing import Any

from .engine.tensor import Tensor
from .ops.dtype import is_number
from .ops.norms import vector_norm_of
from .ops.reduction import Dim

__all__ = ["norm", "vector_norm"]


def vector_norm(x: Tensor, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """(sum |x|^ord)^(1/ord) over ``dim`` (all axes if None); max |x| for inf, min |x| for -inf, count x != 0 for 0.

    The gradient at 0 is 0; among equal maxima it is shared evenly; that of order 0 there is none.

    dtype: convert x first.

    Raises:
        TypeError: x is no floating-point Tensor.
        ValueError: ``ord`` is no number, or needs an element where there is none, or an axis is named twice.
        IndexError: x has no such axis.
    """
    return vector_norm_of("vector_norm", x, ord, dim, keepdim, dtype)


def norm(A: Tensor, ord: Any = None, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The 2-norm over ``dim`` (all axes if None); with ``ord`` a number that of vectors, "fro" that of matrices.

    dtype: convert A first.

    Raises:
        TypeError: A is no floating-point Tensor.
        ValueError: ``ord`` is neither None, "fro" nor a number; a number for a matrix, whose other norms are not there;
            or an axis is named twice.
        IndexError: A has no such axis.
    """
    if ord is not None and ord != "fro" and not is_number(ord):
        raise ValueError(f'norm: ord={ord!r} must be a number, "fro" or None')
    over = len(dim) if isinstance(dim, (tuple, list)) else 1 if dim is not None else getattr(A, "ndim", 0)
    if over != 1 and ord is not None and ord != "fro":
        raise ValueError(
            f"norm: ord={ord!r} over {over} axes is a matrix norm, of which there is only \"fro\"; "
            f"vector_norm takes all elements as one vector"
        )
    if ord == "fro" and over != 2:
        raise ValueError(f'norm: ord="fro" is a norm of matrices and needs 2 axes, not {over}; give dim')
    return vector_norm_of("norm", A, 2 if ord is None or ord == "fro" else ord, dim, keepdim, dtype)
