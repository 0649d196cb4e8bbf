"""Losses of elements, by name: x against t, some with a third operand w, and up to four numbers.

"distance" is a parabola near 0 and a straight line from |x - t| = b on: squared error, absolute error and what lies
between them. "bce" is cut off at -100 as in PyTorch, for the logarithm of 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .ieee import ieee

__all__ = ["element_loss", "element_loss_grad"]


def _softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + exp(x))"""
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.exp(-_softplus(-x))


def _distance(x: np.ndarray, t: np.ndarray, a: float, b: float, c: float, d: float) -> np.ndarray:
    z = np.abs(x - t)
    return np.where(z < b, a * z * z, c * z + d)


def _distance_slope(x: np.ndarray, t: np.ndarray, a: float, b: float, c: float, d: float) -> np.ndarray:
    z = x - t
    odd = z if b > 0 else 0.0  # NaN stays; the slope of |z| is 0 at 0, and at NaN as in PyTorch
    return np.where(np.abs(z) < b, 2 * a * z, np.where(z > 0, c, np.where(z < 0, -c, odd)))


def _bce(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.asarray((t - 1) * np.maximum(np.log1p(-x), -100) - t * np.maximum(np.log(x), -100))


def _hinge(x: np.ndarray, t: np.ndarray, margin: float) -> np.ndarray:
    return np.where(t == 1, 0, np.maximum(margin - x, 0)) + np.where(t == -1, 0, x)


def _hinge_slope(x: np.ndarray, t: np.ndarray, margin: float) -> np.ndarray:
    return np.where(t == -1, 0.0, 1.0) - np.where((t != 1) & (margin - x >= 0), 1.0, 0.0)


LOSS: dict[str, Callable[..., np.ndarray]] = {
    "distance": _distance,
    "bce": _bce,
    "bce_logits": lambda x, t: (1 - t) * x + _softplus(-x),
    "bce_logits_weighted": lambda x, t, w: (1 - t) * x + (1 + (w - 1) * t) * _softplus(-x),
    "kl": lambda x, t: t * np.log(np.where(t == 0, 1, t)) - t * x,
    "kl_log": lambda x, t: np.exp(t) * (t - x),
    "poisson": lambda x, t, eps: x - t * np.log(x + eps),
    "poisson_log": lambda x, t: np.exp(x) - t * x,
    "gaussian": lambda x, t, w: 0.5 * (np.log(w) + (x - t) ** 2 / w),
    "soft_margin": lambda x, t: _softplus(-t * x),
    "hinge": _hinge,
    "ranking": lambda x, t, w, margin: np.maximum(margin - w * (x - t), 0),
}
SLOPE: dict[str, Callable[..., np.ndarray]] = {
    "distance": _distance_slope,
    "bce": lambda x, t: (x - t) / np.maximum((1 - x) * x, 1e-12),
    "bce_logits": lambda x, t: _sigmoid(x) - t,
    "bce_logits_weighted": lambda x, t, w: (1 - t) - (1 + (w - 1) * t) * _sigmoid(-x),
    "kl": lambda x, t: -t,
    "kl_log": lambda x, t: -np.exp(t),
    "poisson": lambda x, t, eps: 1 - t / (x + eps),
    "poisson_log": lambda x, t: np.exp(x) - t,
    "gaussian": lambda x, t, w: (x - t) / w,
    "gaussian_var": lambda x, t, w: 0.5 * (1 / w - ((x - t) / w) ** 2),
    "soft_margin": lambda x, t: -t * _sigmoid(-t * x),
    "hinge": _hinge_slope,
    "ranking": lambda x, t, w, margin: np.where(margin - w * (x - t) >= 0, 1, 0) * -w,  # NaN where w is NaN
}


@ieee
def element_loss(
    name: str, operands: tuple[np.ndarray, ...], numbers: tuple[float, ...], factor: float | None
) -> np.ndarray:
    """The loss ``name`` of each element; their sum times ``factor``, without axes, where that is not None.

    operands: two or three arrays of one shape; numbers: what else the formula has.
    """
    y = LOSS[name](*operands, *numbers)
    return np.asarray(y if factor is None else y.sum() * factor, operands[0].dtype)


@ieee
def element_loss_grad(
    name: str, g: np.ndarray, operands: tuple[np.ndarray, ...], numbers: tuple[float, ...], factor: float | None
) -> np.ndarray:
    """g times the derivative of the loss ``name`` by its first operand ("gaussian_var": by the third one).

    g has the shape of the operands where ``factor`` is None; else no axes, and ``factor`` comes in, too.
    """
    slope = SLOPE[name](*operands, *numbers)
    return np.asarray(slope * (g if factor is None else g * factor), operands[0].dtype)
