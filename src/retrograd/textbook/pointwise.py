"""The kernels of all formulas, and of the primitives that are operators: they run on the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from ..formulas import POINTWISE
from .ieee import ieee


def on_arrays(formula: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The kernel of a formula: the formula itself, in the type of its first operand."""

    @ieee
    @wraps(formula)
    def run(x: np.ndarray, *operands: np.ndarray | float) -> np.ndarray:
        return np.asarray(formula(x, *operands), x.dtype)

    return run


KERNELS = {name: on_arrays(function) for name, function in POINTWISE.items()}
