"""Matrices of powers."""

from __future__ import annotations

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..arguments.checks import as_flag, as_int, require_tensor
from .functions import powers

__all__ = ["vander"]


@operator(dtypes="bihf")
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers N - 1 to 0 of x (M,), or 0 to N - 1 if ``increasing``: (M, N), with N = M by default.

    Truth values count as integers.

    Raises:
        TypeError: x is not a Tensor.
        ValueError: x does not have one axis, or N is negative.
    """
    if interpreters and (seen := interpreted(vander, locals())) is not None:
        return seen
    require_tensor("vander", x, "x")
    if x.array.ndim != 1:
        raise ValueError(f"vander: x.shape={x.array.shape} must have one axis")
    count = x.array.size if N is None else as_int("vander", "N", N)
    if count < 0:
        raise ValueError(f"vander: N={N} must be at least 0")
    found = powers(x, count)
    return found if as_flag("vander", "increasing", increasing) else found.flip(-1)
