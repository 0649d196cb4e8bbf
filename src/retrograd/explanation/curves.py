"""The curve of a function of single numbers: its value, its derivative, and the gradient that is declared for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.backward_pass import grad
from ..engine.tensor import Tensor
from .measure import Call

__all__ = ["Curve", "lines"]

_POINTS = 240
_STEP = 1e-6


@dataclass(frozen=True)
class Curve:
    """A function of one Tensor, (1, n) in and out, entry by entry, and the range that is drawn."""

    call: Call
    low: float
    high: float


def lines(curve: Curve, name: str) -> dict[str, Any]:
    """``{"x": [...], "lines": [{"name", "kind": "function" | "derivative" | "declared", "values": [...]}, ...]}``

    The points are the centres of equal pieces of the range, which kinks at round numbers miss. A function of a whole
    Tensor, such as a quantiser whose step is the largest weight's, sees all points and their neighbours at once.

    Raises:
        ValueError: the function changes the shape.
    """
    at = curve.low + (np.arange(_POINTS) + 0.5) * ((curve.high - curve.low) / _POINTS)
    x = Tensor(np.concatenate([at, at + _STEP, at - _STEP])[np.newaxis], requires_grad=True)
    y = curve.call(x)
    if y.array.shape != x.array.shape:
        raise ValueError(f"curve: {name} makes {y.array.shape} of {x.array.shape}; it is no function of single numbers")
    value, above, below = y.numpy(force=True).reshape(3, _POINTS)
    upstream = np.zeros_like(y.array)
    upstream[0, :_POINTS] = 1
    (declared,) = grad(y, [x], Tensor(upstream), allow_unused=True, materialize_grads=True)
    found = {
        "function": (name, value),
        "derivative": ("derivative", (above - below) / (2 * _STEP)),
        "declared": ("declared", declared.array[0, :_POINTS]),
    }
    return {
        "x": at.tolist(),
        "lines": [{"name": text, "kind": kind, "values": values} for kind, (text, values) in found.items()],
    }
