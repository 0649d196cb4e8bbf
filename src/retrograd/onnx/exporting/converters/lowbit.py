"""Signs with the mean size of what they are signs of."""

from __future__ import annotations

import numpy as np

from ....lowbit.quantization_functions import MeanScaledSign, SignAndSize
from ..writer import Value, Writer
from .reductions import reduced
from .registry import converter


def _sign(w: Writer, x: Value) -> Value:
    """1 for 0, too."""
    up = w.node("GreaterOrEqual", x, w.constant(0, x.dtype), dtype=np.bool_)
    return w.node("Where", up, w.constant(1, x.dtype), w.constant(-1, x.dtype), dtype=x.dtype)


def _size(w: Writer, x: Value, axes: tuple[int, ...]) -> Value:
    return reduced(w, "ReduceMean", w.node("Abs", x), axes, True)


@converter(MeanScaledSign)
def mean_scaled_sign(w: Writer, x: Value, axes: tuple[int, ...], is_exact: bool) -> Value:
    return w.node("Mul", _sign(w, x), _size(w, x, axes))


@converter(SignAndSize)
def sign_and_size(w: Writer, x: Value, axis: int) -> tuple[Value, Value]:
    return _sign(w, x), _size(w, x, (axis,))
