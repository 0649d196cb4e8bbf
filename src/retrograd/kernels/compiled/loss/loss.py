"""Losses of elements, or their sum, in one pass over dense memory; and the gradient in another.

Their formulas are in ``formulas/losses.py``.
"""

from __future__ import annotations

import numpy as np

from ....formulas.losses import LOSSES, minus_first
from ..machine.launch import Kernel, kernel
from ..memory.arrays import dense, like, tasks
from ..reduction.moments import total

__all__ = ["element_loss", "element_loss_grad"]

_LOSS = {name: kernel(f"loss.loss.{name}") for name in LOSSES}
_GRAD = {
    # gradients to other operands are rare: they are compiled on demand
    (name, of): (Kernel if of else kernel)(f"loss.loss.{gradient.__name__}")
    for name, loss in LOSSES.items()
    for of, gradient in enumerate(loss.gradients)
    if gradient is not minus_first
}
_OF_TARGET = ("kullback_leibler", "kullback_leibler_of_logs")  # whose gradient to x does not depend on x


def element_loss(
    name: str, operands: tuple[np.ndarray, ...], numbers: tuple[float, ...], factor: float | None
) -> np.ndarray:
    x, t, w = _ordered(operands)
    n, dtype = x.size, x.dtype
    partial = np.zeros(tasks(n), dtype, like=x)
    y = partial if factor is not None else np.empty_like(x)
    if n:
        _LOSS[name][dtype.char](partial.size, x, t, w, y, partial, n, factor is None, *(numbers or (0.0,)))
    return y if factor is None else total(partial, 1, factor).reshape(())


def element_loss_grad(
    name: str,
    of: int,
    g: np.ndarray,
    operands: tuple[np.ndarray, ...],
    numbers: tuple[float, ...],
    factor: float | None,
) -> np.ndarray:
    x, t, w = _ordered(operands)
    gx = np.empty_like(x)
    n = x.size
    if n:
        each = factor is None
        g = like(g, gx) if each else g
        x = t if of == 0 and name in _OF_TARGET else x  # one array less to read
        launch = _GRAD[name, of][x.dtype.char]
        launch(tasks(n), g, x, t, w, gx, n, each, 1.0 if factor is None else factor, *(numbers or (0.0,)))
    return gx


def _ordered(operands: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The operands in the memory order of the first, which also stands in for a missing third."""
    x = dense(operands[0])
    t = like(operands[1], x)
    return x, t, like(operands[2], x) if len(operands) > 2 else x
