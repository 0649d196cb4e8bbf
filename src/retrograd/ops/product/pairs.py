"""Distances of all pairs of vectors."""

from __future__ import annotations

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..arguments.checks import as_real, require_float, require_same
from ..shape.broadcasting import broadcast_shape, expand
from ..shape.shape import unsqueeze
from .distance import row_norm

__all__ = ["cdist", "pdist"]


_MODES = "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"


@operator
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """y[..., i, j] = (sum over k of |x1[..., i, k] - x2[..., j, k]|^p)^(1/p)

    x1 (..., P, M), x2 (..., R, M) -> (..., P, R); the gradient at distance 0 is 0
    p: at least 0; float("inf") for the largest difference, 0 for the number of nonzero ones
    compute_mode: one of PyTorch's three; all of them sum differences here, which is accurate

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: an operand has fewer than two axes, M differs, the leading axes do not broadcast, p is below 0, or
            compute_mode is unknown.
    """
    if interpreters and (seen := interpreted(cdist, locals())) is not None:
        return seen
    require_same("cdist", "x1", x1, "x2", x2)
    s1, s2 = x1.array.shape, x2.array.shape
    if len(s1) < 2 or len(s2) < 2 or s1[-1] != s2[-1]:
        raise ValueError(f"cdist: x1.shape={s1}, x2.shape={s2} must be (..., P, M) and (..., R, M)")
    p = as_real("cdist", "p", p)
    if not p >= 0:
        raise ValueError(f"cdist: p={p:g} must be at least 0")
    if compute_mode not in _MODES:
        raise ValueError(f"cdist: compute_mode={compute_mode!r} must be one of {', '.join(map(repr, _MODES))}")
    lead = broadcast_shape("cdist", s1[:-2], s2[:-2])
    rows = unsqueeze(expand(x1, lead + s1[-2:]), -2)
    return row_norm("cdist", rows - unsqueeze(expand(x2, lead + s2[-2:]), -3), p)


@operator
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norms of the differences of all pairs of rows, row 0 with row 1 first: input (N, M) -> (N (N - 1) / 2,)

    p: as in ``cdist``

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: input is not a matrix, or p is below 0.
    """
    if interpreters and (seen := interpreted(pdist, locals())) is not None:
        return seen
    require_float("pdist", input)
    if input.array.ndim != 2:
        raise ValueError(f"pdist: input.shape={input.array.shape} must have two axes: (N, M)")
    p = as_real("pdist", "p", p)
    if not p >= 0:
        raise ValueError(f"pdist: p={p:g} must be at least 0")
    rows, columns = kernels.pair_indices(input.array)
    return row_norm("pdist", input[wrap(rows)] - input[wrap(columns)], p)
