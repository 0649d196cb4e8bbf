# mypy: ignore-errors
"""Tasks of batch norm followed by a clamp: the passes over memory in which the clamp takes part.

A row holds all channels, or several positions of few channels. Tables have a number for each column of a row. Backward
computes the clamp's argument again from x, which costs less than reading it from memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...formulas.normalization import about_mean, about_mean_grad
from ...formulas.piecewise import clamp, hardtanh_grad
from .machine.compiler import Array, Table, helper
from .machine.simd import ahead, lanes, load, load_first, offset, store, store_first
from .memory.layout import CHUNK
from .moments_jit import sums_over_columns
from .normalization import PLANES
from .pointwise_jit import register
from .reduction_grad_jit import from_end

for _formula in (about_mean, about_mean_grad, clamp, hardtanh_grad):
    register(_formula)


@helper
def _rows_of(task: int, plan: Table) -> Any:
    """The length of a row, a task's first element and one past its last."""
    row = plan[PLANES.channels] * plan[PLANES.repeat]
    per_task = max(1, CHUNK // row)
    tasks = (plan[PLANES.length] + per_task - 1) // per_task
    begin = from_end(task, tasks, plan[PLANES.shares]) * per_task
    return row, begin * row, min(plan[PLANES.length], begin + per_task) * row


def _normalized(adds: bool) -> Callable[..., None]:
    def body(
        task: int,
        worker: int,
        x: Array,
        other: Array,
        table: Array,
        coefficients: Array,
        y: Array,
        plan: Table,
        low: float,
        high: float,
    ) -> None:
        """y = clamp((x - mean) factor + shift + other, low, high); table: mean, factor, shift.

        The first task keeps factor and shift of each channel, (2, C), for the gradient.
        """
        row, begin, end = _rows_of(task, plan)
        factor, shift, channels = offset(table, row), offset(table, 2 * row), plan[PLANES.channels]
        if task == 0:
            for c in range(0, channels, lanes(x)):
                store_first(coefficients, c, load_first(factor, c, channels - c), channels - c)
            for c in range(0, channels, lanes(x)):
                store_first(coefficients, channels + c, load_first(shift, c, channels - c), channels - c)
        for first in range(begin, end, row):
            for q in range(0, row - lanes(x) + 1, lanes(x)):
                i = first + q
                ahead(x, i)
                ahead(y, i)
                value = about_mean(load(x, i), load(table, q), load(factor, q), load(shift, q))
                if adds:
                    ahead(other, i)
                    value = value + load(other, i)
                store(y, i, clamp(value, low, high))
            q = row // lanes(x) * lanes(x)
            if q < row:
                i, m = first + q, row - q
                mean, by, more = load_first(table, q, m), load_first(factor, q, m), load_first(shift, q, m)
                value = about_mean(load_first(x, i, m), mean, by, more)
                if adds:
                    value = value + load_first(other, i, m)
                store_first(y, i, clamp(value, low, high), m)

    return body


normalize: Final = _normalized(False)
normalize_add: Final = _normalized(True)


@helper
def _passed(g: Any, x: Any, mean: Any, factor: Any, shift: Any, low: float, high: float) -> Any:
    """The gradient behind the clamp."""
    return hardtanh_grad(g, about_mean(x, mean, factor, shift), low, high)


_sums = sums_over_columns(_passed)


def sums_columns(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    mean: Array,
    factor: Array,
    shift: Array,
    pieces: Array,
    plan: Table,
    low: float,
    high: float,
) -> None:
    """As ``sums_columns`` of ``moments_jit.py``, of the gradient behind the clamp."""
    length, row = plan[PLANES.length], plan[PLANES.channels] * plan[PLANES.repeat]
    parts, piece, width = plan[PLANES.parts], plan[PLANES.piece], plan[PLANES.width]
    _sums(task, g, x, mean, factor, shift, pieces, length, row, parts, piece, width, low, high)


def input_grad(
    task: int,
    worker: int,
    g: Array,
    x: Array,
    factor: Array,
    shift: Array,
    table: Array,
    gx: Array,
    plan: Table,
    low: float,
    high: float,
) -> None:
    """``about_mean_grad`` of the gradient behind the clamp; table: mean, factor, slope, level of ``coefficients``."""
    row, begin, end = _rows_of(task, plan)
    scale, slope, level = offset(table, row), offset(table, 2 * row), offset(table, 3 * row)
    for first in range(begin, end, row):
        for q in range(0, row - lanes(x) + 1, lanes(x)):
            i = first + q
            ahead(g, i)
            ahead(x, i)
            ahead(gx, i)
            value, mean = load(x, i), load(table, q)
            passed = _passed(load(g, i), value, mean, load(factor, q), load(shift, q), low, high)
            store(gx, i, about_mean_grad(passed, value, mean, load(scale, q), load(slope, q), load(level, q)))
        q = row // lanes(x) * lanes(x)
        if q < row:
            i, m = first + q, row - q
            value, mean = load_first(x, i, m), load_first(table, q, m)
            by, more = load_first(factor, q, m), load_first(shift, q, m)
            passed = _passed(load_first(g, i, m), value, mean, by, more, low, high)
            by, about, more = load_first(scale, q, m), load_first(slope, q, m), load_first(level, q, m)
            store_first(gx, i, about_mean_grad(passed, value, mean, by, about, more), m)
