"""Kernels of losses: an element's loss and its sum in one pass; the gradient in another. CTC is in ``ctc.py``.

One loop text for all losses; a loss gives it a function of three operands (the third of most is not looked at) and
four numbers. A task is ``CHUNK`` neighbouring elements of dense memory; its sum is a partial one, added to the others
by the wrapper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arrays import CHUNK
from ..compiler import Array, helper
from ..simd import (
    absolute,
    ahead,
    both,
    counting,
    double,
    full,
    full_like,
    lanes,
    load,
    load_first,
    select,
    store,
    store_first,
    total,
    until_aligned,
)
from .activation import log1p_of_exp
from .exponential import log1p
from .math import exp, log, sigmoid

Body = Callable[..., None]
TOGETHER = 8  # pairs of registers


def _loss(function: Callable[..., Any], three: bool = False) -> Body:
    """y[i] = function(x[i], t[i], w[i], a, b, c, d) if ``each``, and partial[task] = the sum of a task's losses.

    The order of the sum depends on no address: registers are not aligned first.
    """

    def body(
        task: int, worker: int, x: Array, t: Array, w: Array, y: Array, partial: Array,
        n: int, each: int, a: float, b: float, c: float, d: float,
    ) -> None:  # fmt: skip
        i = task * CHUNK
        last = min(n, i + CHUNK)
        one = lanes(x)
        zero = full(x, 0.0)
        third = zero
        added = double(zero)
        while i + 2 * one <= last:
            first, second = zero, zero
            stop = min(last - 2 * one, i + (TOGETHER - 1) * 2 * one)
            while i <= stop:
                ahead(x, i)
                ahead(t, i)
                ahead(x, i + one)
                ahead(t, i + one)
                third = load(w, i) if three else third
                u = function(load(x, i), load(t, i), third, a, b, c, d)
                third = load(w, i + one) if three else third
                v = function(load(x, i + one), load(t, i + one), third, a, b, c, d)
                first = first + u
                second = second + v
                if each:
                    store(y, i, u)
                    store(y, i + one, v)
                i += 2 * one
            added = added + double(first + second)
        while i < last:
            m = min(one, last - i)
            third = load_first(w, i, m) if three else third
            u = function(load_first(x, i, m), load_first(t, i, m), third, a, b, c, d)
            added = added + double(select(counting(x) < float(m), u, 0.0))  # the lanes behind have a loss, too
            if each:
                store_first(y, i, u, m)
            i += one
        partial[task] = total(added)

    return body


def _loss_grad(function: Callable[..., Any], three: bool = False) -> Body:
    """gx[i] = g[i] function(x[i], t[i], w[i], a, b, c, d); one g, times factor, stands for all if not ``each``."""

    def body(
        task: int, worker: int, g: Array, x: Array, t: Array, w: Array, gx: Array,
        n: int, each: int, factor: float, a: float, b: float, c: float, d: float,
    ) -> None:  # fmt: skip
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_aligned(gx, i))
        one = lanes(x)
        s = full(g, g[0] * factor)
        third = s
        while i < last:
            while i < few:
                m = min(one, few - i)
                third = load_first(w, i, m) if three else third
                s = load_first(g, i, m) if each else s
                store_first(gx, i, function(load_first(x, i, m), load_first(t, i, m), third, a, b, c, d) * s, m)
                i += m
            few = last
            while i + one <= last:
                ahead(x, i)
                ahead(t, i)
                ahead(gx, i)
                third = load(w, i) if three else third
                s = load(g, i) if each else s
                store(gx, i, function(load(x, i), load(t, i), third, a, b, c, d) * s)
                i += one

    return body


# ---------------------------------------------------------------------------------------------- each loss, its slope


@helper
def _distance(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    z = absolute(x - t)
    return select(z < b, z * z * a, z * c + d)


@helper
def _distance_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    z = x - t
    odd = select(full_like(z, b) > 0.0, z, 0.0)  # NaN stays; the slope of |z| is 0 at 0, and at NaN as in PyTorch
    far = select(z > 0.0, c, select(z < 0.0, -c, odd))
    return select(absolute(z) < b, z * (2.0 * a), far)


@helper
def _bce(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    p, q = log(x), log1p(-x)
    p, q = select(p < -100.0, -100.0, p), select(q < -100.0, -100.0, q)
    return (t - 1.0) * q - t * p


@helper
def _bce_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    p = (1.0 - x) * x
    return (x - t) / select(p < 1e-12, 1e-12, p)


@helper
def _bce_logits(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return log1p_of_exp(-x) + (1.0 - t) * x


@helper
def _bce_logits_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return sigmoid(x) - t


@helper
def _bce_logits_weighted(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return log1p_of_exp(-x) * ((w - 1.0) * t + 1.0) + (1.0 - t) * x


@helper
def _bce_logits_weighted_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return (1.0 - t) - ((w - 1.0) * t + 1.0) * sigmoid(-x)


@helper
def _kl(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return t * select(t == 0.0, 0.0, log(t)) - t * x


@helper
def _kl_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return -t


@helper
def _kl_log(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return exp(t) * (t - x)


@helper
def _kl_log_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return -exp(t)


@helper
def _poisson(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return x - t * log(x + a)


@helper
def _poisson_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return 1.0 - t / (x + a)


@helper
def _poisson_log(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return exp(x) - t * x


@helper
def _poisson_log_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return exp(x) - t


@helper
def _gaussian(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    z = x - t
    return (log(w) + z * z / w) * 0.5


@helper
def _gaussian_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return (x - t) / w


@helper
def _gaussian_slope_var(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    z = (x - t) / w
    return (1.0 / w - z * z) * 0.5


@helper
def _soft_margin(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return log1p_of_exp(-(t * x))


@helper
def _soft_margin_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return -t * sigmoid(-(t * x))


@helper
def _hinge(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    z = a - x
    return select(t == 1.0, 0.0, select(z < 0.0, 0.0, z)) + select(t == -1.0, 0.0, x)


@helper
def _hinge_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    near = both(t != 1.0, (a - x) >= 0.0)
    return select(t == -1.0, full_like(x, 0.0), 1.0) - select(near, full_like(x, 1.0), 0.0)


@helper
def _ranking(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    z = a - w * (x - t)
    return select(z < 0.0, 0.0, z)


@helper
def _ranking_slope(x: Any, t: Any, w: Any, a: float, b: float, c: float, d: float) -> Any:
    return select(a - w * (x - t) >= 0.0, full_like(x, 1.0), 0.0) * -w  # NaN where w is NaN


distance, distance_grad = _loss(_distance), _loss_grad(_distance_slope)
bce, bce_grad = _loss(_bce), _loss_grad(_bce_slope)
bce_logits, bce_logits_grad = _loss(_bce_logits), _loss_grad(_bce_logits_slope)
bce_logits_weighted = _loss(_bce_logits_weighted, three=True)
bce_logits_weighted_grad = _loss_grad(_bce_logits_weighted_slope, three=True)
kl, kl_grad = _loss(_kl), _loss_grad(_kl_slope)
kl_log, kl_log_grad = _loss(_kl_log), _loss_grad(_kl_log_slope)
poisson, poisson_grad = _loss(_poisson), _loss_grad(_poisson_slope)
poisson_log, poisson_log_grad = _loss(_poisson_log), _loss_grad(_poisson_log_slope)
gaussian, gaussian_grad = _loss(_gaussian, three=True), _loss_grad(_gaussian_slope, three=True)
gaussian_grad_var = _loss_grad(_gaussian_slope_var, three=True)
soft_margin, soft_margin_grad = _loss(_soft_margin), _loss_grad(_soft_margin_slope)
hinge, hinge_grad = _loss(_hinge), _loss_grad(_hinge_slope)
ranking, ranking_grad = _loss(_ranking, three=True), _loss_grad(_ranking_slope, three=True)
