"""The kernels of all formulas, and of the primitives that are operators; ``compiled/pointwise.py`` compiles them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import numpy as np

from ..formulas import PAIRS, POINTWISE, arity, broadcasts
from .launch import kernel
from .maps import both_gradients, broadcast, map_one, map_one_numbers, map_two, map_two_numbers

# operands, and whether there are numbers
_MAPS: dict[tuple[int, bool], Callable[..., Any]] = {
    (1, False): map_one,
    (1, True): map_one_numbers,
    (2, False): map_two,
    (2, True): map_two_numbers,
}


def _kernel(name: str, formula: Callable[..., Any]) -> Callable[..., np.ndarray]:
    handle, (operands, numbers) = kernel(f"pointwise.{name}"), arity(formula)
    run_map = partial(broadcast, None) if broadcasts(formula) else _MAPS[operands, numbers > 0]

    @wraps(formula)
    def run(*values: Any) -> np.ndarray:
        result: np.ndarray = run_map(handle, *values)
        return result

    return run


def _pair(name: str) -> Callable[..., tuple[np.ndarray | None, np.ndarray | None]]:
    handle = kernel(f"pointwise.{name}")

    def run(
        g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """The gradients that are wanted, in the shape of g."""
        return both_gradients(handle, g, x, y, want_x, want_y)

    return run


KERNELS: dict[str, Callable[..., Any]] = {
    **{name: _kernel(name, formula) for name, formula in POINTWISE.items()},
    **{name: _pair(name) for name in PAIRS},
}
