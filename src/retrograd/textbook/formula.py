"""Users' formulas: they run on the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from .pointwise import on_arrays

__all__ = ["formula_kernel"]


@cache
def formula_kernel(formula: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The kernel of a formula of one to three operands of one shape and type, and up to three numbers."""
    return on_arrays(formula)
