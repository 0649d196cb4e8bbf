# mypy: ignore-errors
"""Tasks of elementwise losses, margin losses, and CTC."""

from __future__ import annotations

import math as scalar
from collections.abc import Callable
from typing import Any

from ...formulas import form
from ...formulas.losses import LOSSES
from .machine.compiler import Array, Table, helper
from .machine.simd import (
    ahead,
    both,
    counting,
    double,
    full,
    full_like,
    lanes,
    load,
    load_first,
    load_first_or,
    maximum,
    offset,
    select,
    store,
    store_first,
    total,
    until_aligned,
)
from .math.elementary_jit import exp, exp_negative, log
from .memory.layout import CHUNK
from .pointwise_jit import register

# ---- Kernels of elementwise losses ----------------------------------------------------------------------------------
# One loop for the terms of all losses and one for their gradients, made of the formulas in ``formulas/losses.py``. Each
# takes three operands (most ignore the third) and a number. A task is ``CHUNK`` contiguous elements; the wrapper adds
# the partial sums of the tasks.


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
    source = (
        f"lambda {', '.join(names)}, a: formula({', '.join(names[: len(one.operands)] + ['a'] * len(one.numbers))})"
    )
    return helper(eval(source, {"formula": register(formula)}))


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


# ---- Kernels of the margin losses. A task is some rows --------------------------------------------------------------


_NOTHING = float("-inf")


def multi_margin(
    task: int,
    worker: int,
    x: Array,
    labels: Table,
    loss: Array,
    rows: int,
    length: int,
    per_task: int,
    p: int,
    margin: float,
) -> None:
    """loss[n] = sum over c != label of max(0, margin - x[n, label] + x[n, c])^p / length"""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        label = labels[row]
        base = full(x, margin - x[begin + label])
        s = full(x, 0.0)
        for i in range(0, length, lanes(x)):
            z = load_first_or(x, begin + i, length - i, _NOTHING) + base
            z = select(z < 0.0, 0.0, z)
            z = select(counting(x) == float(label - i), 0.0, z)
            s = s + (z * z if p == 2 else z)
        loss[row] = total(s) / length


def multi_margin_slopes(
    task: int,
    worker: int,
    x: Array,
    labels: Table,
    slopes: Array,
    rows: int,
    length: int,
    per_task: int,
    margin: float,
) -> None:
    """1 / length for each c != label that violates the margin, 0 for the others, minus the sum at the label."""
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        label = labels[row]
        base = full(x, margin - x[begin + label])
        h = full(x, 1.0 / length)
        s = full(x, 0.0)
        for i in range(0, length, lanes(x)):
            z = load_first_or(x, begin + i, length - i, _NOTHING) + base
            y = select(z > 0.0, h, 0.0)
            y = select(counting(x) == float(label - i), 0.0, y)
            s = s + y
            store_first(slopes, begin + i, y, length - i)
        slopes[begin + label] = -total(s)


def multilabel_margin(
    task: int,
    worker: int,
    x: Array,
    targets: Table,
    loss: Array,
    scratch: Array,
    scratch_size: int,
    rows: int,
    length: int,
    per_task: int,
) -> None:
    """loss[n] = sum over targets j and others i of max(0, 1 - x[n, j] + x[n, i]) / length; -1 ends the targets"""
    others = offset(scratch, worker * scratch_size)  # 1 for others, 0 for targets
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        for i in range(0, length, lanes(x)):
            store(others, i, full(x, 1.0))
        count = 0
        while count < length and targets[begin + count] >= 0:
            others[targets[begin + count]] = 0.0
            count += 1
        s = full(x, 0.0)
        for k in range(count):
            base = full(x, 1.0 - x[begin + targets[begin + k]])
            i = 0
            while i + lanes(x) <= length:
                z = load(x, begin + i) + base
                s = s + select(both(load(others, i) == 1.0, z >= 0.0), z, select(z == z, 0.0, z))
                i += lanes(x)
            if i < length:
                z = load_first_or(x, begin + i, length - i, _NOTHING) + base
                s = s + select(both(load(others, i) == 1.0, z >= 0.0), z, select(z == z, 0.0, z))
        loss[row] = total(s) / length


def multilabel_margin_slopes(
    task: int,
    worker: int,
    x: Array,
    targets: Table,
    slopes: Array,
    scratch: Array,
    scratch_size: int,
    rows: int,
    length: int,
    per_task: int,
) -> None:
    """Each pair that violates the margin adds 1 / length to the other class and subtracts it from the target."""
    others = offset(scratch, worker * scratch_size)
    for row in range(task * per_task, min(rows, (task + 1) * per_task)):
        begin = row * length
        for i in range(0, length, lanes(x)):
            store(others, i, full(x, 1.0))
            store_first(slopes, begin + i, full(x, 0.0), length - i)
        count = 0
        while count < length and targets[begin + count] >= 0:
            others[targets[begin + count]] = 0.0
            count += 1
        h = full(x, 1.0 / length)
        for k in range(count):
            j = begin + targets[begin + k]
            base = full(x, 1.0 - x[j])
            s = full(x, 0.0)
            for i in range(0, length, lanes(x)):
                z = load_first_or(x, begin + i, length - i, _NOTHING) + base
                y = select(both(load(others, i) == 1.0, z > 0.0), h, 0.0)
                s = s + y
                store_first(slopes, begin + i, load_first(slopes, begin + i, length - i) + y, length - i)
            slopes[j] -= total(s)


# ---- Kernels of connectionist temporal classification ---------------------------------------------------------------
# The states are blank, first label, blank, second label, ..., blank. A task is one sample; the states at one time are
# lanes of registers. ``width``, a multiple of a register, elements hold them; those after the last state are -inf
# (probability 0), and two more of -inf pad the end at which a recursion looks.


@helper
def _log_sum(a: Any, b: Any, c: Any) -> Any:
    """log(exp(a) + exp(b) + exp(c))"""
    top = maximum(maximum(a, b), c)
    top = select(top == _NOTHING, full_like(top, 0.0), top)
    return log(exp_negative(a - top) + exp_negative(b - top) + exp_negative(c - top)) + top


@helper
def _emit(row: Any, emitted: Any, targets: Any, labels: int, blank: int) -> None:
    """The log-probability of each state's label; ``row`` has those of all classes."""
    silence = row[blank]
    emitted[0] = silence
    for k in range(labels):
        emitted[2 * k + 1] = row[targets[k]]
        emitted[2 * k + 2] = silence


@helper
def _clear(row: Any, count: int, value: float) -> None:
    for i in range(0, count, lanes(row)):
        store(row, i, full(row, value))


def ctc_forward(
    task: int,
    worker: int,
    x: Array,
    targets: Table,
    inputs: Table,
    lengths: Table,
    loss: Array,
    alpha: Array,
    scratch: Array,
    scratch_size: int,
    T: int,
    N: int,
    C: int,
    S: int,
    width: int,
    blank: int,
) -> None:
    """alpha[n, t, s]: log-probability of all prefixes ending in state s at time t; each row starts with two -inf."""
    time, labels = inputs[task], lengths[task]
    states = 2 * labels + 1
    if time == 0:
        loss[task] = 0.0 if labels == 0 else -_NOTHING
        return
    goals = offset(targets, task * S)
    emitted = offset(scratch, worker * scratch_size)
    skip = offset(emitted, width)  # 0 where the state two before may be skipped, else -inf
    _clear(emitted, 2 * width, _NOTHING)
    for k in range(1, labels):
        if goals[k] != goals[k - 1]:
            skip[2 * k + 1] = 0.0
    step = width + 2
    row = offset(alpha, task * T * step + 2)
    _emit(offset(x, task * C), emitted, goals, labels, blank)
    row[0] = emitted[0]
    if labels:
        row[1] = emitted[1]
    for t in range(1, time):
        _emit(offset(x, (t * N + task) * C), emitted, goals, labels, blank)
        before = row
        row = offset(row, step)
        for s in range(0, states, lanes(x)):
            y = _log_sum(load(before, s), load(before, s - 1), load(before, s - 2) + load(skip, s))
            store(row, s, y + load(emitted, s))
    last = row[states - 1]
    other = row[states - 2] if labels else minus_infinity(last)
    top = max(last, other)
    if last != last or other != other or top == _NOTHING:
        loss[task] = -(last + other)
    else:
        loss[task] = -(scalar.log(scalar.exp(last - top) + scalar.exp(other - top)) + top)


@helper
def minus_infinity(x: Any) -> Any:
    """Return -inf in x's type."""
    return x * 0.0 + _NOTHING


def ctc_backward(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    targets: Table,
    inputs: Table,
    lengths: Table,
    loss: Array,
    alpha: Array,
    gx: Array,
    scratch: Array,
    scratch_size: int,
    T: int,
    N: int,
    C: int,
    S: int,
    width: int,
    blank: int,
    zero_infinity: int,
) -> None:
    """gx[t, n, c] = g[n] (exp(x[t, n, c]) - probability that a state with label c is passed at time t)"""
    time, labels = inputs[task], lengths[task]
    states = 2 * labels + 1
    impossible = loss[task] == -_NOTHING
    nothing = float("nan") if impossible and not zero_infinity else 0.0
    for t in range(T):
        value = nothing if t < time else 0.0
        if impossible or t >= time:
            for c in range(C):
                gx[(t * N + task) * C + c] = value
    if impossible:
        return
    goals = offset(targets, task * S)
    emitted = offset(scratch, worker * scratch_size)
    skip = offset(emitted, width)  # 0 where the state two after may be skipped, else -inf
    passed = offset(skip, width)
    beta = offset(passed, width)  # of time t, followed by those of t + 1; they are swapped
    beta_next = offset(beta, width + lanes(x))
    share = offset(beta_next, width + lanes(x))  # of each class
    _clear(emitted, 5 * width + 2 * lanes(x), _NOTHING)
    for k in range(labels - 1):
        if goals[k] != goals[k + 1]:
            skip[2 * k + 1] = 0.0
    step = width + 2
    # a path ends in the last state or the one before it
    beta_next[states - 1] = 0.0
    if labels:
        beta_next[states - 2] = 0.0
    first = True
    total_loss = full(x, loss[task])
    factor = full(x, g[task])
    t = time - 1
    while t >= 0:
        row = offset(x, (t * N + task) * C)
        ends = offset(alpha, (task * T + t) * step + 2)
        _emit(row, emitted, goals, labels, blank)
        for s in range(0, states, lanes(x)):
            e = load(emitted, s)
            if first:
                y = load(beta_next, s)
            else:
                y = _log_sum(load(beta_next, s), load(beta_next, s + 1), load(beta_next, s + 2) + load(skip, s))
            store(beta, s, y + e)
            p = exp(load(ends, s) + y + total_loss)
            store(passed, s, select(e == _NOTHING, full_like(e, 0.0), p))
        first = False
        for c in range(0, C, lanes(x)):
            store(share, c, full(x, 0.0))
        silence = passed[0]
        for k in range(labels):
            share[goals[k]] += passed[2 * k + 1]
            silence += passed[2 * k + 2]
        share[blank] += silence
        c = 0
        q = (t * N + task) * C
        while c + lanes(x) <= C:
            store(gx, q + c, (exp(load(row, c)) - load(share, c)) * factor)
            c += lanes(x)
        if c < C:
            store_first(gx, q + c, (exp(load_first(row, c, C - c)) - load(share, c)) * factor, C - c)
        beta, beta_next = beta_next, beta
        t -= 1
