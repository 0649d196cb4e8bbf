"""The equations of a recurrent unit at one step, forward and backward, on registers of units; see ../recurrent.py."""

from __future__ import annotations

from typing import Any

from ..compiler import helper
from ..simd import both, full_like, select
from .math import sigmoid, tanh


@helper
def clipped(c: Any, low: float, high: float, clip: int) -> Any:
    """The cell state in its range; ``clip``: 0 there is none, 2 NaN becomes the upper end."""
    if clip == 0:
        return c
    if clip == 2:
        c = select(c == c, c, full_like(c, high))
    return select(c < low, full_like(c, low), select(c > high, full_like(c, high), c))


@helper
def inside(gc: Any, c: Any, low: float, high: float, clip: int) -> Any:
    """The gradient of a cell state before it was clipped: ``gc`` inside the range, both ends included, else 0."""
    if clip == 0:
        return gc
    return select(both(c >= low, c <= high), gc, full_like(gc, 0.0))


@helper
def lstm_gates_grad(gc: Any, i: Any, f: Any, g: Any, before: Any) -> Any:
    """Gradients of the pre-activations of i, f, g and of the cell state before: of c = f * before + i * g."""
    ai = gc * g * i * (1.0 - i)
    af = gc * before * f * (1.0 - f)
    ag = gc * i * (1.0 - g * g)
    return ai, af, ag, gc * f


@helper
def coupled_gates_grad(gc: Any, f: Any, g: Any, before: Any) -> Any:
    """Gradients of the pre-activations of f, g and of the cell state before: of c = f * before + (1 - f) * g."""
    af = gc * (before - g) * f * (1.0 - f)
    ag = gc * (1.0 - f) * (1.0 - g * g)
    return af, ag, gc * f


@helper
def gru_gates(n: Any, r: Any, z: Any, m: Any, before: Any) -> Any:
    """The gates n, r, z and the new state; m = W_hn h' + b_hn."""
    r, z = sigmoid(r), sigmoid(z)
    n = tanh(n + r * m)
    return n, r, z, (1.0 - z) * n + z * before


@helper
def gru_gates_grad(gh: Any, n: Any, r: Any, z: Any, m: Any, before: Any) -> Any:
    """Gradients of the pre-activations of n, r, z, of m and of the state before (without what comes through W_hh)."""
    an = gh * (1.0 - z) * (1.0 - n * n)
    ar = an * m * r * (1.0 - r)
    az = gh * (before - n) * z * (1.0 - z)
    return an, ar, az, an * r, gh * z
