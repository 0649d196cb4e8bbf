"""Sparse matrices under PyTorch's path ``torch.sparse``; ``retrograd.sparse_coo_tensor`` makes them."""

from __future__ import annotations

from typing import Any

from ..engine.arguments import kind_name
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor
from ..ops.argument_checks import require_tensor
from ..ops.creation import as_tensor
from ..ops.dtypes.dtype import DTypeLike, cast, float32, float64
from ..ops.sparse import SparseTensor, sparse_coo_tensor, spmm
from .missing import attach_to_module

__all__ = ["DoubleTensor", "FloatTensor", "addmm", "mm", "sum"]


@operator
def mm(mat1: SparseTensor, mat2: Tensor) -> Tensor:
    """Return the product of matrices (R, C) and (C, D), one of them sparse and the other dense.

    Raises:
        TypeError: neither is a SparseTensor, or the dtypes differ.
        ValueError: the extents do not match.
    """
    if interpreters and (seen := interpreted(mm, locals())) is not None:
        return seen
    return spmm(mat1, mat2)


@operator
def addmm(mat: Tensor, mat1: SparseTensor, mat2: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * mat + alpha * (mat1 @ mat2).

    Raises: as ``mm``.
    """
    if interpreters and (seen := interpreted(addmm, locals())) is not None:
        return seen
    require_tensor("addmm", mat, "mat")
    return mat * beta + spmm(mat1, mat2) * alpha


@operator
def sum(input: SparseTensor, dim: int | None = None, dtype: DTypeLike = None) -> Tensor:
    """Return the sum of all elements, or over one axis; the result is dense.

    Raises:
        TypeError: input is not a SparseTensor.
        IndexError: there is no such axis.
    """
    if interpreters and (seen := interpreted(sum, locals())) is not None:
        return seen
    if not isinstance(input, SparseTensor):
        raise TypeError(f"sparse.sum: input is {kind_name(input)}, needs a SparseTensor; write input.sum()")
    result: Tensor = input.sum(dim)
    return result if dtype is None else cast(result, dtype)


@operator
def FloatTensor(indices: Any, values: Any, size: Any = None) -> SparseTensor:  # noqa: N802  PyTorch's name
    """Return a float32 ``sparse_coo_tensor``; PyTorch's older form.

    Raises: as ``sparse_coo_tensor``.
    """
    if interpreters and (seen := interpreted(FloatTensor, locals())) is not None:
        return seen
    return sparse_coo_tensor(indices, cast(as_tensor(values), float32), size)


@operator
def DoubleTensor(indices: Any, values: Any, size: Any = None) -> SparseTensor:  # noqa: N802  PyTorch's name
    """Return a float64 ``sparse_coo_tensor``; PyTorch's older form.

    Raises: as ``sparse_coo_tensor``.
    """
    if interpreters and (seen := interpreted(DoubleTensor, locals())) is not None:
        return seen
    return sparse_coo_tensor(indices, cast(as_tensor(values), float64), size)


attach_to_module(__name__)
