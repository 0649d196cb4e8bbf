"""The kernels of all formulas, and of the primitives that are operators: they run on the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..formulas import FUSED, POINTWISE, form
from .ieee import ieee


def on_arrays(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of a formula: the formula itself, in the type of its operands.

    Of several results, the last arguments say which are wanted; the others are None.
    """
    one = form(formula)
    last = len(one.operands) - 1

    @ieee
    def run(*values: Any) -> np.ndarray:
        return np.asarray(formula(*values), np.bool_ if one.truth else values[last].dtype, like=values[last])

    @ieee
    def run_several(*values: Any) -> tuple[np.ndarray | None, ...]:
        wanted, dtype = values[-one.results :], values[last].dtype
        pairs = zip(formula(*values[: -one.results]), wanted, strict=True)
        return tuple([np.asarray(result, dtype, like=values[last]) if want else None for result, want in pairs])

    return wraps(formula)(run if one.results == 1 else run_several)


KERNELS: dict[str, Callable[..., Any]] = {
    name: on_arrays(formula) for name, formula in (POINTWISE | FUSED).items()
}
