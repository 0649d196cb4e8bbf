"""The kernels of all formulas, and of the primitives that are operators: they run on the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..formulas import PAIRS, POINTWISE
from .ieee import ieee

_Formula = Callable[..., np.ndarray]


def on_arrays(formula: _Formula) -> _Formula:
    """The kernel of a formula: the formula itself, in the type of its first operand."""

    @ieee
    @wraps(formula)
    def run(x: np.ndarray, *operands: np.ndarray | float) -> np.ndarray:
        return np.asarray(formula(x, *operands), x.dtype)

    return run


def _pair(to_x: _Formula, to_y: _Formula) -> Callable[..., tuple[np.ndarray | None, np.ndarray | None]]:
    @ieee
    def run(
        g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The gradients that are wanted, in the shape of g."""
        gx = np.asarray(to_x(g, x, y), g.dtype) if want_x else None
        return gx, np.asarray(to_y(g, x, y), g.dtype) if want_y else None

    return run


KERNELS: dict[str, Callable[..., Any]] = {
    **{name: on_arrays(formula) for name, formula in POINTWISE.items()},
    **{name: _pair(*formulas) for name, formulas in PAIRS.items()},
}
