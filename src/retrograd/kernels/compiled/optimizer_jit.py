# mypy: ignore-errors
"""Optimizers' updates of all tensors of a group in one launch.

The elements of all tensors are numbered consecutively, and a task is ``per_task`` of them. Each tensor has a row of
``COLUMNS`` integers in a table: the objects of its arrays (parameter, gradient, three states), the number of its first
element, and its size. Its arrays share one memory order, so the order does not matter. Where an update has fewer
arrays, the parameter fills the remaining slots and is not read.

``_step`` walks the tensors with an update of formulas/optimizers.py; ``_CHANGES`` loads its operands and stores its
results. The compiler hoists computations on numbers alone out of the loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from ...formulas import UPDATES, form
from .machine.compiler import DATA_OFFSET, Array, Table, helper
from .machine.simd import (
    absolute,
    ahead_by,
    full,
    lanes,
    largest,
    load_first,
    maximum,
    pointer_like,
    store_first,
    total,
    until_aligned,
)
from .memory.layout import CHUNK
from .pointwise_jit import register

COLUMNS, FIRST, COUNT = 7, 5, 6  # of the table; the indices of its last two
_ahead = ahead_by(1024)  # several streams: a shorter distance than for one (3 to 5 % of a step)


@helper
def _elements(model: Any, table: Any, slot: int) -> Any:
    """The elements of the array whose object is in ``table[slot]``."""
    return pointer_like(model, pointer_like(table, table[slot] + DATA_OFFSET)[0])


@helper
def _row_of(table: Any, tensors: int, element: int) -> int:
    """The tensor that holds ``element``: the last one that begins at or before it."""
    low, high = 0, tensors
    while high - low > 1:
        middle = (low + high) // 2
        if table[COLUMNS * middle + FIRST] <= element:
            low = middle
        else:
            high = middle
    return low


def _step(update: Callable[..., Any]) -> Callable[..., None]:
    operands, names, *_ = form(update)
    first, change = _first(len(names)), _CHANGES[len(operands) - 1](register(update))

    def body(
        task: int,
        worker: int,
        model: Array,
        table: Table,
        tensors: int,
        per_task: int,
        a: float,
        b: float,
        c: float,
        d: float,
        e: float,
        f: float,
        g: float,
        h: float,
        j: float,
        k: float,
    ) -> None:
        numbers = first((a, b, c, d, e, f, g, h, j, k))
        start, end = task * per_task, (task + 1) * per_task
        tensor = _row_of(table, tensors, start)
        while tensor < tensors and table[COLUMNS * tensor + FIRST] < end:
            row = COLUMNS * tensor
            begin = table[row + FIRST]
            i = max(0, start - begin)
            last = min(table[row + COUNT], end - begin)
            p, x = _elements(model, table, row), _elements(model, table, row + 1)
            y, z = _elements(model, table, row + 2), _elements(model, table, row + 3)
            arrays = (p, x, y, z, _elements(model, table, row + 4))
            few = min(last, i + until_aligned(p, i))
            while i < last:
                while i < few:
                    n = min(lanes(p), few - i)
                    change(arrays, i, n, numbers)
                    i += n
                few = last
                while i + lanes(p) <= last:  # with all lanes, "first" is a plain load or store
                    change(arrays, i, lanes(p), numbers)
                    i += lanes(p)
            tensor += 1

    return body


def _first(count: int) -> Callable[..., Any]:
    """The first ``count`` of a tuple of numbers."""

    @intrinsic
    def first(typing: Any, numbers: Any) -> Any:
        result = types.UniTuple(types.float64, count)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return context.make_tuple(builder, result, [builder.extract_value(args[0], n) for n in range(count)])

        return result(numbers), generate

    return first


@helper
def _load(pointer: Any, i: int, n: int) -> Any:
    _ahead(pointer, i)
    return load_first(pointer, i, n)


# An update of one array, of a parameter and its gradient, and with one to three states: elements i to i + n, where n is
# at most a register.


def _alone(update: Callable[..., Any]) -> Callable[..., None]:
    def change(arrays: Any, i: int, n: int, numbers: Any) -> None:
        p, _, _, _, _ = arrays
        store_first(p, i, update(_load(p, i, n), *numbers), n)

    return helper(change)


def _without_state(update: Callable[..., Any]) -> Callable[..., None]:
    def change(arrays: Any, i: int, n: int, numbers: Any) -> None:
        p, g, _, _, _ = arrays
        store_first(p, i, update(_load(p, i, n), _load(g, i, n), *numbers), n)

    return helper(change)


def _one_state(update: Callable[..., Any]) -> Callable[..., None]:
    def change(arrays: Any, i: int, n: int, numbers: Any) -> None:
        p, g, a, _, _ = arrays
        new, x = update(_load(p, i, n), _load(g, i, n), _load(a, i, n), *numbers)
        store_first(p, i, new, n)
        store_first(a, i, x, n)

    return helper(change)


def _two_states(update: Callable[..., Any]) -> Callable[..., None]:
    def change(arrays: Any, i: int, n: int, numbers: Any) -> None:
        p, g, a, b, _ = arrays
        new, x, y = update(_load(p, i, n), _load(g, i, n), _load(a, i, n), _load(b, i, n), *numbers)
        store_first(p, i, new, n)
        store_first(a, i, x, n)
        store_first(b, i, y, n)

    return helper(change)


def _three_states(update: Callable[..., Any]) -> Callable[..., None]:
    def change(arrays: Any, i: int, n: int, numbers: Any) -> None:
        p, g, a, b, c = arrays
        new, x, y, z = update(_load(p, i, n), _load(g, i, n), _load(a, i, n), _load(b, i, n), _load(c, i, n), *numbers)
        store_first(p, i, new, n)
        store_first(a, i, x, n)
        store_first(b, i, y, n)
        store_first(c, i, z, n)

    return helper(change)


_CHANGES = (_alone, _without_state, _one_state, _two_states, _three_states)


def norm(task: int, worker: int, model: Array, table: Table, tensors: int, partials: Array, maxima: int) -> None:
    """partials[task] = the sum of the squares of CHUNK elements; with ``maxima``, the largest absolute value"""
    start, end = task * CHUNK, (task + 1) * CHUNK
    tensor = _row_of(table, tensors, start)
    a = full(model, 0.0)
    b, c, d = a, a, a
    one = lanes(model)
    while tensor < tensors and table[COLUMNS * tensor + FIRST] < end:
        first = table[COLUMNS * tensor + FIRST]
        i = max(0, start - first)
        last = min(table[COLUMNS * tensor + COUNT], end - first)
        p = _elements(model, table, COLUMNS * tensor)
        while i < last:
            s, t = _load(p, i, last - i), _load(p, i + one, last - i - one)
            u, v = _load(p, i + 2 * one, last - i - 2 * one), _load(p, i + 3 * one, last - i - 3 * one)
            if maxima:
                a, b = maximum(a, absolute(s)), maximum(b, absolute(t))
                c, d = maximum(c, absolute(u)), maximum(d, absolute(v))
            else:
                a, b, c, d = a + s * s, b + t * t, c + u * u, d + v * v
            i += 4 * one
        tensor += 1
    if maxima:
        partials[task] = largest(maximum(maximum(a, b), maximum(c, d)))
    else:
        partials[task] = total((a + b) + (c + d))


def __getattr__(name: str) -> Callable[..., None]:
    """The kernel of an update. (No other name in this file may be that of an update.)"""
    if name not in UPDATES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _step(UPDATES[name])
