"""Arguments for the kernel of any formula, derived from its signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from retrograd.formulas import FUSED, POINTWISE, form

KERNELS = POINTWISE | FUSED
_NUMBERS = 0.3, 0.9, 1.2, 2.1


def arguments(name: str, draw: Callable[[int], np.ndarray]) -> tuple[Any, ...]:
    """Return operands drawn by position, then the numbers, then a request for every result if there are several."""
    one = form(KERNELS[name])
    operands = [draw(place) for place in range(len(one.operands))]
    operands = [x > 1.0 if condition else x for x, condition in zip(operands, one.conditions, strict=True)]
    return *operands, *_NUMBERS[: len(one.numbers)], *[True] * (one.results if one.results > 1 else 0)
