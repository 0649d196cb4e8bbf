"""Membership, runs of equal elements, and indices of flat places."""

from __future__ import annotations

from math import prod
from typing import Any

from ...arrays import from_host
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_flag, as_index, is_number, require_tensor
from ..pointwise.operands import WithoutGradient
from ..shape.shape import axis, reshaped, sizes
from .indexing import in_range

__all__ = ["isin", "unique_consecutive", "unravel_index"]


@operator(dtypes="bihf")
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """True where an element is in ``test_elements``; either argument may be a number, but not both; no gradient.

    assume_unique: all elements of each differ; the result is the same. invert: True where it is not

    Raises:
        TypeError: neither is a Tensor, or one is neither a Tensor nor a number.
    """
    if interpreters and (seen := interpreted(isin, locals())) is not None:
        return seen
    pair = (("elements", elements), ("test_elements", test_elements))
    for label, value in pair:
        if not isinstance(value, Tensor) and not is_number(value):
            require_tensor("isin", value, label)
    if not any(isinstance(value, Tensor) for _, value in pair):
        require_tensor("isin", elements, "elements")
    as_flag("isin", "assume_unique", assume_unique)
    x, y = (value.array if isinstance(value, Tensor) else from_host(value) for _, value in pair)
    return wrap(kernels.isin(x, y, as_flag("isin", "invert", invert)))


@operator(records=WithoutGradient, methods="unique_consecutive", dtypes="bihf")
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """input as a vector with equal neighbors merged, or with equal neighboring slices along ``dim``.

    It has no gradient: a backward through the result raises NotImplementedError.

    return_inverse: also the index in the result of each element, or slice. return_counts: also how many were merged.
        The result is then a tuple of output and those requested

    Raises:
        TypeError: input is not a Tensor.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(unique_consecutive, locals())) is not None:
        return seen
    require_tensor("unique_consecutive", input)
    return_inverse = as_flag("unique_consecutive", "return_inverse", return_inverse)
    return_counts = as_flag("unique_consecutive", "return_counts", return_counts)
    along = 0 if dim is None else axis("unique_consecutive", "dim", dim, input.array.ndim)
    x = reshaped(input.array, (-1,)) if dim is None else input.array
    merged, inverse, counts = kernels.unique_consecutive(x, along, return_inverse, return_counts)
    wanted = [WithoutGradient.apply(input, merged, "unique_consecutive") if input._requires_grad else wrap(merged)]
    if inverse is not None:
        wanted.append(wrap(inverse.reshape(input.array.shape) if dim is None else inverse))
    if counts is not None:
        wanted.append(wrap(counts))
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


@operator(dtypes="i")
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """For each axis of ``shape``, the index along it of the flat places ``indices`` (C order): int64, indices' shape.

    Raises:
        TypeError: ``indices`` does not hold int64, or shape is not an int or ints.
        IndexError: an index is out of range.
        ValueError: a tensor of this shape has more elements than int64 can count.
    """
    if interpreters and (seen := interpreted(unravel_index, locals())) is not None:
        return seen
    indices = as_index("unravel_index", indices, "indices")
    extents = sizes("unravel_index", "shape", (shape,))
    size = prod(extents)
    if size >= 1 << 63:
        raise ValueError(f"unravel_index: shape={extents} has {size} elements, more than int64 can count")
    flat = in_range("unravel_index", "indices", indices.array, size, f"shape={extents} with {size} elements")
    if not extents:
        return ()
    return tuple(map(wrap, kernels.unravel_index(flat, extents)))
