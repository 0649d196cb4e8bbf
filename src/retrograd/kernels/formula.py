"""The kernels of users' formulas: compiled when first used, and kept under a digest of their text."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..formulas import arity
from .launch import Kernel
from .maps import map_one, map_one_numbers, map_three_numbers, map_two, map_two_numbers

__all__ = ["formula_kernel"]

_MAPS: dict[int, tuple[Any, Any]] = {  # without and with numbers
    1: (map_one, map_one_numbers),
    2: (map_two, map_two_numbers),
    3: (map_three_numbers, map_three_numbers),
}


_kernels: dict[str, Callable[..., np.ndarray]] = {}  # by digest: equal texts have one kernel


class _Own(Kernel):
    """The handle on a formula's kernel."""

    def __init__(self, formula: Callable[..., Any]) -> None:
        super().__init__(f"formula.{formula.digest}")  # type: ignore[attr-defined]
        self._formula = formula

    def body(self) -> Callable[..., None]:
        from .compiled.pointwise import loop

        return loop(self._formula)


def formula_kernel(formula: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """The kernel of a formula of one to three operands of one shape and type, and up to three numbers."""
    digest: str = formula.digest  # type: ignore[attr-defined]
    run = _kernels.get(digest)
    if run is None:
        handle, (operands, numbers) = _Own(formula), arity(formula)
        run = _kernels.setdefault(digest, partial(_MAPS[operands][numbers > 0], handle))
    return run
