"""Optimizers' updates: the new parameter and the new states, from the old ones, the gradient and the numbers of a step.

``step`` counts from 1, and states start as zeros unless stated otherwise. Computations on numbers alone are the same
for all elements: a compiled kernel does them once. The classes in retrograd.optim name the sources.
"""

from __future__ import annotations

from .activation import relu
from .piecewise import clamp, maximum
from .primitive import Operand, absolute, sign, sqrt, where
from .registry import update

Two = tuple[Operand, Operand]
Three = tuple[Operand, Operand, Operand]
Four = tuple[Operand, Operand, Operand, Operand]


def descent(param: Operand, grad: Operand, weight_decay: float, maximize: bool) -> Operand:
    """d = grad + weight_decay param; to maximize, grad is negated"""
    d = grad * (-1.0 if maximize else 1.0)
    if weight_decay != 0.0:  # 0 times infinity would be NaN
        d = d + param * weight_decay
    return d


def running(average: Operand, value: Operand, keep: float) -> Operand:
    """keep average + (1 - keep) value"""
    return average * keep + value * (1 - keep)


def running_square(average: Operand, value: Operand, keep: float) -> Operand:
    """keep average + (1 - keep) value^2"""
    return average * keep + value * value * (1 - keep)


def over_root(d: Operand, v: Operand, eps: float) -> Operand:
    """d / (sqrt(v) + eps)"""
    return d / (sqrt(v) + eps)


@update
def sgd(param: Operand, grad: Operand, lr: float, weight_decay: float, maximize: bool) -> Operand:
    """param - lr d"""
    return param - descent(param, grad, weight_decay, maximize) * lr


@update
def sgd_momentum(
    param: Operand,
    grad: Operand,
    momentum_buffer: Operand,
    lr: float,
    momentum: float,
    dampening: float,
    weight_decay: float,
    nesterov: bool,
    maximize: bool,
) -> Two:
    """m = momentum m + (1 - dampening) d replaces d; with nesterov, d + momentum m does"""
    d = descent(param, grad, weight_decay, maximize)
    m = momentum_buffer * momentum + d * (1 - dampening)
    d = m * momentum + d if nesterov else m
    return param - d * lr, m


# Adam and its variants: m and v are running averages of d and d^2


def decayed(param: Operand, grad: Operand, lr: float, weight_decay: float, decoupled: bool, maximize: bool) -> Two:
    """The parameter and d; decoupled weight decay shrinks the parameter and is not added to d."""
    d = descent(param, grad, 0.0 if decoupled else weight_decay, maximize)
    return param * (1 - lr * weight_decay if decoupled else 1.0), d


def adaptive(change: Operand, v: Operand, step: float, beta2: float, eps: float) -> Operand:
    """change / (sqrt(v / (1 - beta2^step)) + eps)"""
    return change / (sqrt(v) * (1 - beta2**step) ** -0.5 + eps)


@update
def adam(
    param: Operand,
    grad: Operand,
    exp_avg: Operand,
    exp_avg_sq: Operand,
    step: float,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> Three:
    """param - lr m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps)"""
    p, d = decayed(param, grad, lr, weight_decay, decoupled, maximize)
    m, v = running(exp_avg, d, beta1), running_square(exp_avg_sq, d, beta2)
    return p - adaptive(m * (lr / (1 - beta1**step)), v, step, beta2, eps), m, v


@update
def amsgrad(
    param: Operand,
    grad: Operand,
    exp_avg: Operand,
    exp_avg_sq: Operand,
    max_exp_avg_sq: Operand,
    step: float,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> Four:
    """As Adam, with the largest v of all steps instead of v."""
    p, d = decayed(param, grad, lr, weight_decay, decoupled, maximize)
    m, v = running(exp_avg, d, beta1), running_square(exp_avg_sq, d, beta2)
    largest = maximum(max_exp_avg_sq, v)
    return p - adaptive(m * (lr / (1 - beta1**step)), largest, step, beta2, eps), m, v, largest


@update
def adamax(
    param: Operand,
    grad: Operand,
    exp_avg: Operand,
    exp_inf: Operand,
    step: float,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> Three:
    """param - lr m / (1 - beta1^step) / u, with u = max(beta2 u, |d| + eps)"""
    d = descent(param, grad, weight_decay, maximize)
    m, u = running(exp_avg, d, beta1), maximum(exp_inf * beta2, absolute(d) + eps)
    return param - m * (lr / (1 - beta1**step)) / u, m, u


def nadam_momentum(step: float, beta1: float, momentum_decay: float) -> float:
    """mu of a step; NAdam's mu_product is the product of all up to this step"""
    return beta1 * (1 - 0.5 * 0.96 ** (step * momentum_decay))


@update
def nadam(
    param: Operand,
    grad: Operand,
    exp_avg: Operand,
    exp_avg_sq: Operand,
    step: float,
    mu_product: float,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    momentum_decay: float,
    decoupled: bool,
    maximize: bool,
) -> Three:
    """As Adam, with (1 - mu) / (1 - mu_product) d + mu_next / (1 - mu_product mu_next) m for m / (1 - beta1^step)"""
    p, d = decayed(param, grad, lr, weight_decay, decoupled, maximize)
    m, v = running(exp_avg, d, beta1), running_square(exp_avg_sq, d, beta2)
    mu, mu_next = nadam_momentum(step, beta1, momentum_decay), nadam_momentum(step + 1, beta1, momentum_decay)
    ahead = d * ((1 - mu) / (1 - mu_product)) + m * (mu_next / (1 - mu_product * mu_next))
    return p - adaptive(ahead * lr, v, step, beta2, eps), m, v


@update
def radam(
    param: Operand,
    grad: Operand,
    exp_avg: Operand,
    exp_avg_sq: Operand,
    step: float,
    rectification: float,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    decoupled: bool,
    maximize: bool,
) -> Three:
    """param - r lr m / (1 - beta1^step) sqrt(1 - beta2^step) / (sqrt(v) + eps), with r the rectification of the step

    With r = 0, too few steps to estimate the variance: param - lr m / (1 - beta1^step).
    """
    p, d = decayed(param, grad, lr, weight_decay, decoupled, maximize)
    m, v = running(exp_avg, d, beta1), running_square(exp_avg_sq, d, beta2)
    change, rectified = m * (lr / (1 - beta1**step)), rectification * (1 - beta2**step) ** 0.5
    if rectification != 0.0:
        change = over_root(change * rectified, v, eps)
    return p - change, m, v


# Optimizers that divide by a root mean square without bias correction


def rms_direction(
    param: Operand, grad: Operand, square_avg: Operand, alpha: float, eps: float, weight_decay: float, maximize: bool
) -> Two:
    """u = d / (sqrt(v) + eps), with v = alpha v + (1 - alpha) d^2"""
    d = descent(param, grad, weight_decay, maximize)
    v = running_square(square_avg, d, alpha)
    return over_root(d, v, eps), v


def centered_direction(
    param: Operand,
    grad: Operand,
    square_avg: Operand,
    grad_avg: Operand,
    alpha: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> Three:
    """The same with the variance v - a^2 instead of v, a = alpha a + (1 - alpha) d."""
    d = descent(param, grad, weight_decay, maximize)
    v, a = running_square(square_avg, d, alpha), running(grad_avg, d, alpha)
    variance = v - a * a
    variance = where(variance < 0.0, 0.0, variance)  # rounding errors can make it negative
    return over_root(d, variance, eps), v, a


@update
def rmsprop(
    param: Operand,
    grad: Operand,
    square_avg: Operand,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> Two:
    """param - lr u"""
    u, v = rms_direction(param, grad, square_avg, alpha, eps, weight_decay, maximize)
    return param - u * lr, v


@update
def rmsprop_momentum(
    param: Operand,
    grad: Operand,
    square_avg: Operand,
    momentum_buffer: Operand,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    maximize: bool,
) -> Three:
    """param - lr m, with m = momentum m + u"""
    u, v = rms_direction(param, grad, square_avg, alpha, eps, weight_decay, maximize)
    m = momentum_buffer * momentum + u
    return param - m * lr, v, m


@update
def rmsprop_centered(
    param: Operand,
    grad: Operand,
    square_avg: Operand,
    grad_avg: Operand,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> Three:
    """param - lr u, u centered"""
    u, v, a = centered_direction(param, grad, square_avg, grad_avg, alpha, eps, weight_decay, maximize)
    return param - u * lr, v, a


@update
def rmsprop_centered_momentum(
    param: Operand,
    grad: Operand,
    square_avg: Operand,
    grad_avg: Operand,
    momentum_buffer: Operand,
    lr: float,
    alpha: float,
    eps: float,
    weight_decay: float,
    momentum: float,
    maximize: bool,
) -> Four:
    """param - lr m, with m = momentum m + u, u centered"""
    u, v, a = centered_direction(param, grad, square_avg, grad_avg, alpha, eps, weight_decay, maximize)
    m = momentum_buffer * momentum + u
    return param - m * lr, v, a, m


@update
def adagrad(
    param: Operand,
    grad: Operand,
    sum: Operand,
    step: float,
    lr: float,
    lr_decay: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> Two:
    """param - lr / (1 + (step - 1) lr_decay) d / (sqrt(s) + eps), with s = s + d^2"""
    d = descent(param, grad, weight_decay, maximize)
    s = sum + d * d
    return param - over_root(d * (lr / (1 + (step - 1) * lr_decay)), s, eps), s


@update
def adadelta(
    param: Operand,
    grad: Operand,
    square_avg: Operand,
    acc_delta: Operand,
    lr: float,
    rho: float,
    eps: float,
    weight_decay: float,
    maximize: bool,
) -> Three:
    """param - lr u, with u = sqrt(a + eps) / sqrt(v + eps) d, v the running average of d^2 and a that of u^2"""
    d = descent(param, grad, weight_decay, maximize)
    v = running_square(square_avg, d, rho)
    u = sqrt(acc_delta + eps) / sqrt(v + eps) * d
    return param - u * lr, v, running_square(acc_delta, u, rho)


@update
def asgd(
    param: Operand,
    grad: Operand,
    ax: Operand,
    eta: float,
    mu: float,
    lambd: float,
    weight_decay: float,
    maximize: bool,
) -> Two:
    """p = (1 - lambd eta) param - eta d, and its average ax + mu (p - ax)"""
    d = descent(param, grad, weight_decay, maximize)
    p = param * (1 - lambd * eta) - d * eta
    return p, p if mu == 1.0 else ax + (p - ax) * mu


@update
def rprop(
    param: Operand,
    grad: Operand,
    prev: Operand,
    step_size: Operand,
    shrink: float,
    grow: float,
    smallest: float,
    largest: float,
    maximize: bool,
) -> Three:
    """param - sign(d) s: s grows where d keeps its sign, and shrinks where it changes, and d counts as 0 there"""
    d = descent(param, grad, 0.0, maximize)
    turn = d * prev
    s = where(turn > 0.0, step_size * grow, where(turn < 0.0, step_size * shrink, step_size))
    s = clamp(s, smallest, largest)
    d = where(turn < 0.0, 0.0, d)
    return param - sign(d) * s, d, s


# Updates besides those of optimizers that also run over lists of arrays


@update
def average(mean: Operand, value: Operand, weight: float) -> Operand:
    """mean + weight (value - mean)"""
    return mean + (value - mean) * weight


@update
def limit(x: Operand, factor: float, most: float) -> Operand:
    """factor x, clamped to [-most, most]; NaN propagates"""
    return clamp(x * factor, -most, most)


@update
def rectified(x: Operand) -> Operand:
    """relu of x: the in-place form"""
    return relu(x)
