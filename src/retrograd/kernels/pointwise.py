"""The kernels of all formulas, and of the primitives that are operators; ``compiled/pointwise.py`` compiles them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..formulas import POINTWISE, arity
from .launch import kernel
from .maps import map_one, map_one_numbers, map_two, map_two_numbers

# operands, and whether there are numbers
_MAPS: dict[tuple[int, bool], Any] = {
    (1, False): map_one,
    (1, True): map_one_numbers,
    (2, False): map_two,
    (2, True): map_two_numbers,
}


def _kernel(name: str, formula: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    handle, (operands, numbers) = kernel(f"pointwise.{name}"), arity(formula)
    run_map = _MAPS[operands, numbers > 0]

    @wraps(formula)
    def run(*values: np.ndarray | float) -> np.ndarray:
        result: np.ndarray = run_map(handle, *values)
        return result

    return run


KERNELS = {name: _kernel(name, function) for name, function in POINTWISE.items()}
