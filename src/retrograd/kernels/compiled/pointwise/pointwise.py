"""The kernels of all formulas, and of the primitives that are operators; ``pointwise_jit.py`` compiles them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ....formulas import FUSED, POINTWISE, form
from ..machine.launch import kernel
from .maps import broadcast, same_or_broadcast, same_shape

# kernels that broadcast and run so often that operands of one shape have a separate kernel
OFTEN = ("add", "addcdiv", "addcmul", "div", "lerp", "lerp_number", "mul", "sub")


def _kernel(name: str, formula: Callable[..., Any]) -> Callable[..., Any]:
    handle, one = kernel(f"pointwise.pointwise.{name}"), form(formula)
    if name in OFTEN:
        run = same_or_broadcast(handle, kernel(f"pointwise.pointwise.{name}_broadcast"), one)
    elif in_rows(name, formula):
        run = broadcast(handle, one)
    else:
        run = same_shape(handle, len(one.operands))
    return wraps(formula)(run)


def in_rows(name: str, formula: Callable[..., Any]) -> bool:
    """Whether the operands of a formula broadcast, or its result is not one array of numbers."""
    one = form(formula)
    return name in FUSED or one.truth or one.results > 1 or (len(one.operands) > 1 and one.operands[0] != "g")


KERNELS: dict[str, Callable[..., Any]] = {name: _kernel(name, formula) for name, formula in (POINTWISE | FUSED).items()}
