"""Losses of elements: what each contributes, or their sum, in one pass over dense memory; and the gradient in another.

Which formulas there are, by name, is written in ``retrograd.textbook.loss``.
"""

from __future__ import annotations

import numpy as np

from .arrays import dense, like, tasks
from .launch import kernel

__all__ = ["element_loss", "element_loss_grad"]

_NAMES = (
    "distance",
    "bce",
    "bce_logits",
    "bce_logits_weighted",
    "kl",
    "kl_log",
    "poisson",
    "poisson_log",
    "gaussian",
    "soft_margin",
    "hinge",
    "ranking",
)
_LOSS = {name: kernel(f"loss.{name}") for name in _NAMES}
_GRAD = {name: kernel(f"loss.{name}_grad") for name in _NAMES}
_GRAD["gaussian_var"] = kernel("loss.gaussian_grad_var")
_OF_TARGET = ("kl", "kl_log")  # whose slope does not depend on x
_NONE = (0.0, 0.0, 0.0, 0.0)


def element_loss(
    name: str, operands: tuple[np.ndarray, ...], numbers: tuple[float, ...], factor: float | None
) -> np.ndarray:
    """The loss ``name`` of each element; their sum times ``factor``, without axes, where that is not None.

    operands: two or three arrays of one shape; numbers: what else the formula has.
    """
    x, t, w = _ordered(operands)
    n, dtype = x.size, x.dtype
    partial = np.zeros(tasks(n), dtype)
    y = partial if factor is not None else np.empty_like(x)
    if n:
        a, b, c, d = (*numbers, *_NONE)[:4]
        _LOSS[name][dtype.char](partial.size, x, t, w, y, partial, n, factor is None, a, b, c, d)
    return y if factor is None else np.asarray(sum(partial.tolist()) * factor, dtype)  # (in float64)


def element_loss_grad(
    name: str, g: np.ndarray, operands: tuple[np.ndarray, ...], numbers: tuple[float, ...], factor: float | None
) -> np.ndarray:
    """g times the derivative of the loss ``name`` by its first operand ("gaussian_var": by the third one).

    g has the shape of the operands where ``factor`` is None; else no axes, and ``factor`` comes in, too.
    """
    x, t, w = _ordered(operands)
    gx = np.empty_like(x)
    n = x.size
    if n:
        a, b, c, d = (*numbers, *_NONE)[:4]
        each = factor is None
        g = like(g, gx) if each else g
        x = t if name in _OF_TARGET else x  # an array less to read
        _GRAD[name][x.dtype.char](tasks(n), g, x, t, w, gx, n, each, 1.0 if factor is None else factor, a, b, c, d)
    return gx


def _ordered(operands: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The operands in the order of memory of the first; it stands for a third one that there is not."""
    x = dense(operands[0])
    t = like(operands[1], x)
    return x, t, like(operands[2], x) if len(operands) > 2 else x
