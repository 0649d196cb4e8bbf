# mypy: ignore-errors
"""The two loops of element-wise kernels, and how a function of one element becomes a kernel.

A task is ``CHUNK`` contiguous elements, or some rows of a broadcast result. The number of operands, results and numbers
is known at compile time: ``x`` and ``y`` are tuples of pointers, ``numbers`` is a tuple of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..machine.simd.groups import (
    lanes_of,
    load_each,
    load_each_first,
    load_steps,
    load_steps_first,
    places_of,
    repeat_each,
    store_each,
    store_each_first,
    until_first_aligned,
)
from ..memory.arrays import CHUNK

Body = Callable[..., None]

# Both loops begin with a few elements, so that the registers after them are stored aligned (NumPy's arrays are aligned
# only to 16 bytes), and end with the remainder.


def dense(function: Callable[..., Any], operands: int, numbers: int = 0) -> Body:
    """y[i] = function(x[i]..., numbers...) over dense memory."""

    def body(task, worker, x, y, n, numbers):
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_first_aligned(y, i))
        one = lanes_of(x)
        while i < last:
            while i < few:
                m = min(one, few - i)
                store_each_first(y, i, function(*load_each_first(x, i, m, numbers)), m, numbers)
                i += m
            few = last
            while i + one <= last:
                store_each(y, i, function(*load_each(x, i, numbers)), numbers)
                i += one

    def body_by_four(task, worker, x, y, n, numbers):
        i = task * CHUNK
        last = min(n, i + CHUNK)
        few = min(last, i + until_first_aligned(y, i))
        one = lanes_of(x)
        while i < last:
            while i < few:
                m = min(one, few - i)
                store_each_first(y, i, function(*load_each_first(x, i, m, numbers)), m, numbers)
                i += m
            few = last
            # four registers at once: the CPU overlaps their long dependency chains
            while i + 4 * one <= last:
                second, third, fourth = i + one, i + 2 * one, i + 3 * one
                a, b = load_each(x, i, numbers), load_each(x, second, numbers)
                c, d = load_each(x, third, numbers), load_each(x, fourth, numbers)
                store_each(y, i, function(*a), numbers)
                store_each(y, second, function(*b), numbers)
                store_each(y, third, function(*c), numbers)
                store_each(y, fourth, function(*d), numbers)
                i += 4 * one

    made = body if operands > 1 or numbers else body_by_four
    made.parameters = ("Array",) * operands, ("Array",), "int", ("float",) * numbers
    return made


def rows(
    function: Callable[..., Any], sources: tuple[str, ...], numbers: int = 0, targets: tuple[str, ...] = ("Array",)
) -> Body:
    """y[o, m, i] = function(x[o, m, i]..., numbers...): y dense with n elements, each x with any steps along o and m.

    The step of an operand along i is 0 or 1. The last row may be shorter than ``inner``. Of several results only those
    wanted are written; flags for them follow the numbers, as in the function's arguments. ``sources`` and ``targets``:
    "Array" or "Truth", for each operand and result.
    """

    def body(task, worker, x, y, n, inner, middle, rows_per_task, outer_steps, middle_steps, steps, numbers):
        row = task * rows_per_task
        last_row = min((n + inner - 1) // inner, row + rows_per_task)
        o = row // middle
        m = row - o * middle
        one = lanes_of(x)
        while row < last_row:
            places = places_of(o, outer_steps, m, middle_steps)
            k = start = row * inner
            last = min(n, k + inner)
            few = k + until_first_aligned(y, k) if last - k > 4 * one else k
            still = repeat_each(x, places)
            while k < last:
                while k < few:
                    part = min(one, few - k)
                    values = load_steps_first(x, places, steps, k - start, part, still, numbers)
                    store_each_first(y, k, function(*values), part, numbers)
                    k += part
                few = last
                while k + one <= last:
                    store_each(y, k, function(*load_steps(x, places, steps, k - start, still, numbers)), numbers)
                    k += one
            row += 1
            m += 1
            if m == middle:
                m = 0
                o += 1

    steps = ("int",) * len(sources)
    wanted = ("int",) * (len(targets) if len(targets) > 1 else 0)
    body.parameters = sources, targets, *("int",) * 4, steps, steps, steps, ("float",) * numbers + wanted
    return body
