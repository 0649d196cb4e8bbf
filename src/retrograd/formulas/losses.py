"""Losses of single elements: the formula of each term, and of its gradient to each operand that has one.

x is the input, t the target, w a third operand. Kernels sum the terms in the same pass, see
``kernels/compiled/loss.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .activation import log1p_of_exp
from .primitive import Operand, absolute, exp, log, log1p, sigmoid, sign, where


class Loss(NamedTuple):
    """The formulas of a loss: ``<name>(x, t)`` or ``<name>(x, t, w)``, and ``<name>_grad_x(g, x, t)`` and so on."""

    term: Callable[..., Any]
    gradients: tuple[Callable[..., Any], ...]


LOSSES: dict[str, Loss] = {}
_NAN = float("nan")


def minus_first(x_grad: Operand) -> Operand:
    """minus the gradient to x: the loss depends on x - t"""
    return -x_grad


def loss(term: Callable[..., Any], *gradients: Callable[..., Any]) -> None:
    """Register a loss in the table from which both kernel sets make their kernels."""
    LOSSES[term.__name__] = Loss(term, gradients)


# ----------------------------------------------------------------------------------------------------- distances


def squared_error(x: Operand, t: Operand) -> Operand:
    """(x - t)**2"""
    z = x - t
    return z * z


def squared_error_grad_x(g: Operand, x: Operand, t: Operand) -> Operand:
    """2 g (x - t)"""
    return g * ((x - t) * 2.0)


def absolute_error(x: Operand, t: Operand) -> Operand:
    """|x - t|"""
    return absolute(x - t)


def absolute_error_grad_x(g: Operand, x: Operand, t: Operand) -> Operand:
    """g sign(x - t), 0 at NaN as in PyTorch"""
    return g * sign(x - t)


def smooth_absolute_error(x: Operand, t: Operand, beta: float) -> Operand:
    """z**2 / (2 beta) where z = |x - t| < beta, else z - beta / 2"""
    z = absolute(x - t)
    return where(z < beta, z * z * (0.5 / beta), z - beta * 0.5)


def smooth_absolute_error_grad_x(g: Operand, x: Operand, t: Operand, beta: float) -> Operand:
    """g (x - t) / beta, between -g and g"""
    z = x - t
    bent = where(z == z, z * (1.0 / beta), _NAN)  # keep NaN out of second derivatives, as in PyTorch
    return g * where(z >= beta, 1.0, where(z <= -beta, -1.0, bent))


def huber(x: Operand, t: Operand, delta: float) -> Operand:
    """z**2 / 2 where z = |x - t| < delta, else delta (z - delta / 2)"""
    z = absolute(x - t)
    return where(z < delta, z * z * 0.5, (z - delta * 0.5) * delta)


def huber_grad_x(g: Operand, x: Operand, t: Operand, delta: float) -> Operand:
    """g (x - t), with x - t between -delta and delta"""
    z = x - t
    return g * where(z >= delta, delta, where(z <= -delta, -delta, where(z == z, z, _NAN)))


loss(squared_error, squared_error_grad_x, minus_first)
loss(absolute_error, absolute_error_grad_x, minus_first)
loss(smooth_absolute_error, smooth_absolute_error_grad_x, minus_first)
loss(huber, huber_grad_x, minus_first)


# -------------------------------------------------------------------------------------------- binary cross entropy


def binary_cross_entropy(x: Operand, t: Operand) -> Operand:
    """-t log(x) - (1 - t) log(1 - x), with logarithms of at least -100, as in PyTorch"""
    p, q = log(x), log1p(-x)
    return (t - 1.0) * where(q < -100.0, -100.0, q) - t * where(p < -100.0, -100.0, p)


def binary_cross_entropy_grad_x(g: Operand, x: Operand, t: Operand) -> Operand:
    """g (x - t) / (x (1 - x)), with a divisor of at least 1e-12, as in PyTorch"""
    d = (1.0 - x) * x
    return g * ((x - t) / where(d < 1e-12, 1e-12, d))


def binary_cross_entropy_grad_t(g: Operand, x: Operand, t: Operand) -> Operand:
    """g (log(1 - x) - log(x))"""
    return g * (log1p(-x) - log(x))


def binary_cross_entropy_with_logits(x: Operand, t: Operand) -> Operand:
    """(1 - t) x + log(1 + exp(-x))"""
    return log1p_of_exp(-x) + (1.0 - t) * x


def binary_cross_entropy_with_logits_grad_x(g: Operand, x: Operand, t: Operand) -> Operand:
    """g (sigmoid(x) - t)"""
    return g * (sigmoid(x) - t)


def binary_cross_entropy_with_logits_grad_t(g: Operand, x: Operand, t: Operand) -> Operand:
    """-g x"""
    return -(g * x)


def weighted_binary_cross_entropy_with_logits(x: Operand, t: Operand, w: Operand) -> Operand:
    """(1 - t) x + (1 + (w - 1) t) log(1 + exp(-x)), with the weight w of positives"""
    return log1p_of_exp(-x) * ((w - 1.0) * t + 1.0) + (1.0 - t) * x


def weighted_binary_cross_entropy_with_logits_grad_x(g: Operand, x: Operand, t: Operand, w: Operand) -> Operand:
    """g (1 - t - (1 + (w - 1) t) sigmoid(-x))"""
    return g * ((1.0 - t) - ((w - 1.0) * t + 1.0) * sigmoid(-x))


def weighted_binary_cross_entropy_with_logits_grad_t(g: Operand, x: Operand, t: Operand, w: Operand) -> Operand:
    """g ((w - 1) log(1 + exp(-x)) - x)"""
    return g * ((w - 1.0) * log1p_of_exp(-x) - x)


loss(binary_cross_entropy, binary_cross_entropy_grad_x, binary_cross_entropy_grad_t)
loss(
    binary_cross_entropy_with_logits,
    binary_cross_entropy_with_logits_grad_x,
    binary_cross_entropy_with_logits_grad_t,
)
loss(
    weighted_binary_cross_entropy_with_logits,
    weighted_binary_cross_entropy_with_logits_grad_x,
    weighted_binary_cross_entropy_with_logits_grad_t,
)


# ---------------------------------------------------------------------------------------------------- likelihoods


def kullback_leibler(x: Operand, t: Operand) -> Operand:
    """t (log(t) - x), 0 where t is 0"""
    return t * where(t == 0.0, 0.0, log(t)) - t * x


def kullback_leibler_grad_x(g: Operand, x: Operand, t: Operand) -> Operand:
    """-g t"""
    return -(g * t)


def kullback_leibler_grad_t(g: Operand, x: Operand, t: Operand) -> Operand:
    """g (log(t) + 1 - x)"""
    return g * (log(t) + 1.0 - x)


def kullback_leibler_of_logs(x: Operand, t: Operand) -> Operand:
    """exp(t) (t - x)"""
    return exp(t) * (t - x)


def kullback_leibler_of_logs_grad_x(g: Operand, x: Operand, t: Operand) -> Operand:
    """-g exp(t)"""
    return -(g * exp(t))


def kullback_leibler_of_logs_grad_t(g: Operand, x: Operand, t: Operand) -> Operand:
    """g exp(t) (t - x + 1)"""
    return g * (exp(t) * (t - x + 1.0))


def poisson(x: Operand, t: Operand, eps: float) -> Operand:
    """x - t log(x + eps)"""
    return x - t * log(x + eps)


def poisson_grad_x(g: Operand, x: Operand, t: Operand, eps: float) -> Operand:
    """g (1 - t / (x + eps))"""
    return g * (1.0 - t / (x + eps))


def poisson_grad_t(g: Operand, x: Operand, t: Operand, eps: float) -> Operand:
    """-g log(x + eps)"""
    return -(g * log(x + eps))


def poisson_of_logs(x: Operand, t: Operand) -> Operand:
    """exp(x) - t x"""
    return exp(x) - t * x


def poisson_of_logs_grad_x(g: Operand, x: Operand, t: Operand) -> Operand:
    """g (exp(x) - t)"""
    return g * (exp(x) - t)


def poisson_of_logs_grad_t(g: Operand, x: Operand, t: Operand) -> Operand:
    """-g x"""
    return -(g * x)


def gaussian(x: Operand, t: Operand, w: Operand) -> Operand:
    """(log(w) + (x - t)**2 / w) / 2, with the variance w"""
    z = x - t
    return (log(w) + z * z / w) * 0.5


def gaussian_grad_x(g: Operand, x: Operand, t: Operand, w: Operand) -> Operand:
    """g (x - t) / w"""
    return g * ((x - t) / w)


def gaussian_grad_w(g: Operand, x: Operand, t: Operand, w: Operand) -> Operand:
    """g (1 / w - ((x - t) / w)**2) / 2"""
    z = (x - t) / w
    return g * ((1.0 / w - z * z) * 0.5)


loss(kullback_leibler, kullback_leibler_grad_x, kullback_leibler_grad_t)
loss(kullback_leibler_of_logs, kullback_leibler_of_logs_grad_x, kullback_leibler_of_logs_grad_t)
loss(poisson, poisson_grad_x, poisson_grad_t)
loss(poisson_of_logs, poisson_of_logs_grad_x, poisson_of_logs_grad_t)
loss(gaussian, gaussian_grad_x, minus_first, gaussian_grad_w)


# -------------------------------------------------------------------------------------------------------- margins


def soft_margin(x: Operand, t: Operand) -> Operand:
    """log(1 + exp(-t x))"""
    return log1p_of_exp(-(t * x))


def soft_margin_grad_x(g: Operand, x: Operand, t: Operand) -> Operand:
    """-g t sigmoid(-t x)"""
    return -(g * t) * sigmoid(-(t * x))


def hinge(x: Operand, t: Operand, margin: float) -> Operand:
    """x where t = 1, max(0, margin - x) where t = -1; their sum for any other t"""
    z = margin - x
    return where(t == 1.0, 0.0, where(z < 0.0, 0.0, z)) + where(t == -1.0, 0.0, x)


def hinge_grad_x(g: Operand, x: Operand, t: Operand, margin: float) -> Operand:
    """g where t = 1; -g where t = -1 and x is at most the margin; the sum of both for any other t"""
    return where(t == -1.0, 0.0, g) - where((t != 1.0) & (margin - x >= 0.0), g, 0.0)


def ranking(x: Operand, t: Operand, w: Operand, margin: float) -> Operand:
    """max(0, margin - w (x - t))"""
    z = margin - w * (x - t)
    return where(z < 0.0, 0.0, z)


def ranking_grad_x(g: Operand, x: Operand, t: Operand, w: Operand, margin: float) -> Operand:
    """-g w where margin - w (x - t) >= 0, else 0 w"""
    return where(margin - w * (x - t) >= 0.0, g, 0.0) * -w


def ranking_grad_w(g: Operand, x: Operand, t: Operand, w: Operand, margin: float) -> Operand:
    """g (t - x) where margin - w (x - t) >= 0, else 0 (t - x)"""
    return where(margin - w * (x - t) >= 0.0, g, 0.0) * (t - x)


loss(soft_margin, soft_margin_grad_x)
loss(hinge, hinge_grad_x)
loss(ranking, ranking_grad_x, minus_first, ranking_grad_w)
