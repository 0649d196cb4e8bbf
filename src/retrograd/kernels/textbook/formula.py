"""Users' formulas: they run on the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from .pointwise import on_arrays

__all__ = ["formula_kernel"]


@cache
def formula_kernel(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a formula of operands of one shape and type, and of up to three numbers.

    Of one with several results, the last arguments say which of them are wanted.
    """
    return on_arrays(formula)
