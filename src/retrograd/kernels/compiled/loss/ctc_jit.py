# mypy: ignore-errors
"""Kernels of connectionist temporal classification: the forward and backward recursions over the states of a sample.

The states are blank, first label, blank, second label, ..., blank. A task is one sample; the states at one time are
lanes of registers. ``width``, a multiple of a register, elements hold them; those after the last state are -inf
(probability 0), and two more of -inf pad the end at which a recursion looks.
"""

from __future__ import annotations

import math as scalar
from typing import Any

from ..machine.compiler import Array, Table, helper
from ..machine.simd import full, full_like, lanes, load, load_first, maximum, offset, select, store, store_first
from ..math.elementary_jit import exp, exp_negative, log

_NOTHING = float("-inf")  # the logarithm of no probability


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


def forward(
    task: int,
    worker: int,
    x: Array,
    targets: Table,
    inputs: Table,
    lengths: Table,
    loss: Array,
    alpha: Array,
    scratch: Array,
    room: int,
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
    emitted = offset(scratch, worker * room)
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
    other = row[states - 2] if labels else full_stop(last)
    top = max(last, other)
    if last != last or other != other or top == _NOTHING:
        loss[task] = -(last + other)
    else:
        loss[task] = -(scalar.log(scalar.exp(last - top) + scalar.exp(other - top)) + top)


@helper
def full_stop(x: Any) -> Any:
    """-inf of x's type, whatever x."""
    return x * 0.0 + _NOTHING


def backward(
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
    room: int,
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
    emitted = offset(scratch, worker * room)
    skip = offset(emitted, width)  # 0 where the state two after may be skipped, else -inf
    passed = offset(skip, width)
    beta = offset(passed, width)  # of time t, followed by those of t + 1; they are swapped
    later = offset(beta, width + lanes(x))
    share = offset(later, width + lanes(x))  # of each class
    _clear(emitted, 5 * width + 2 * lanes(x), _NOTHING)
    for k in range(labels - 1):
        if goals[k] != goals[k + 1]:
            skip[2 * k + 1] = 0.0
    step = width + 2
    # a path ends in the last state or the one before it
    later[states - 1] = 0.0
    if labels:
        later[states - 2] = 0.0
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
                y = load(later, s)
            else:
                y = _log_sum(load(later, s), load(later, s + 1), load(later, s + 2) + load(skip, s))
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
        beta, later = later, beta
        t -= 1
