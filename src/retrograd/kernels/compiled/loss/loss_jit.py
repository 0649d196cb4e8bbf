# mypy: ignore-errors
"""Kernels of losses: an element's loss and its sum in one pass; the gradient in another. CTC is in ``ctc.py``.

One loop for the terms of all losses and one for their gradients, made of the formulas in ``formulas/losses.py``. Each
takes three operands (most ignore the third) and a number. A task is ``CHUNK`` contiguous elements; the wrapper adds the
partial sums of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....formulas import form
from ....formulas.losses import LOSSES
from ..machine.compiler import Array, helper
from ..machine.simd import (
    ahead,
    counting,
    double,
    full,
    lanes,
    load,
    load_first,
    select,
    store,
    store_first,
    total,
    until_aligned,
)
from ..memory.arrays import CHUNK
from ..pointwise.pointwise_jit import register

Body = Callable[..., None]
TOGETHER = 8  # pairs of registers


def _loss(function: Callable[..., Any], three: bool) -> Body:
    """y[i] = function(x[i], t[i], w[i], a) if ``each``, and partial[task] = the sum of a task's losses.

    The order of the sum does not depend on addresses: loads are not aligned first.
    """

    def body(
        task: int,
        worker: int,
        x: Array,
        t: Array,
        w: Array,
        y: Array,
        partial: Array,
        n: int,
        each: int,
        a: float,
    ) -> None:
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
                u = function(load(x, i), load(t, i), third, a)
                third = load(w, i + one) if three else third
                v = function(load(x, i + one), load(t, i + one), third, a)
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
            u = function(load_first(x, i, m), load_first(t, i, m), third, a)
            added = added + double(select(counting(x) < float(m), u, 0.0))  # the surplus lanes have a loss, too
            if each:
                store_first(y, i, u, m)
            i += one
        partial[task] = total(added)

    return body


def _loss_grad(function: Callable[..., Any], three: bool) -> Body:
    """gx[i] = function(g[i], x[i], t[i], w[i], a); all share one g, times factor, if not ``each``."""

    def body(
        task: int,
        worker: int,
        g: Array,
        x: Array,
        t: Array,
        w: Array,
        gx: Array,
        n: int,
        each: int,
        factor: float,
        a: float,
    ) -> None:
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
                store_first(gx, i, function(s, load_first(x, i, m), load_first(t, i, m), third, a), m)
                i += m
            few = last
            while i + one <= last:
                ahead(x, i)
                ahead(t, i)
                ahead(gx, i)
                third = load(w, i) if three else third
                s = load(g, i) if each else s
                store(gx, i, function(s, load(x, i), load(t, i), third, a))
                i += one

    return body


def _uniform(formula: Callable[..., Any], operands: str) -> Callable[..., Any]:
    """The formula as a function of all arguments of the loop: the named operands and a number."""
    one, names = form(formula), operands.split()
    text = f"lambda {', '.join(names)}, a: formula({', '.join(names[: len(one.operands)] + ['a'] * len(one.numbers))})"
    return helper(eval(text, {"formula": register(formula)}))


def __getattr__(name: str) -> Body:
    """The kernel of a loss, or of its gradient to one operand."""
    loss, _, operand = name.partition("_grad_")
    if loss not in LOSSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    term, gradients = LOSSES[loss]
    three = len(form(term).operands) == 3
    if operand:
        return _loss_grad(_uniform(gradients["xtw".index(operand)], "g x t w"), three)
    return _loss(_uniform(term, "x t w"), three)
