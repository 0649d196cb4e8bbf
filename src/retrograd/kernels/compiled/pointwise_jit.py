# mypy: ignore-errors
"""Elementwise loops, formulas on vector registers, and GLU.

A task is ``CHUNK`` contiguous elements, or some rows of a broadcast result. The number of operands, results and numbers
is known at compile time: ``x`` and ``y`` are tuples of pointers, ``numbers`` is a tuple of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import Any

from ...formulas import FUSED, POINTWISE, PRIMITIVES, form
from ...formulas.activation import gated, gated_grad_x, gated_grad_y
from ...formulas.registry import Together, stored
from .machine import simd
from .machine.compiler import Array, helper, rename
from .machine.simd import (
    address,
    ahead,
    lanes,
    load,
    load_first,
    offset,
    pointer_like,
    store,
    store_first,
    word_at,
)
from .machine.simd.pointer_tuples import (
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
from .math import elementary_jit as error_function
from .math import elementary_jit as math
from .math import exponential_jit as exponential
from .math import exponential_jit as powers
from .math import trigonometric_jit as trigonometric
from .memory.layout import CHUNK
from .pointwise import OFTEN, in_rows

# ---- The two loops of element-wise kernels, and how a function of one element becomes a kernel ----------------------


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

    The step of an operand along i is 0 or 1. The last row may be shorter than ``inner``. Several results have flags,
    after the numbers, as in the function's arguments: only results whose flag is set are written. ``sources`` and
    ``targets``: "Array" or "Truth", for each operand and result.
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
    flags = ("int",) * (len(targets) if len(targets) > 1 else 0)
    body.parameters = sources, targets, *("int",) * 4, steps, steps, steps, ("float",) * numbers + flags
    return body


def tile(function: Callable[..., Any], numbers: int = 0) -> Body:
    """y[i] = function(y[i], numbers...) for rows of a tile that another kernel has just written: a ``Part``.

    The task is the address of the tile's own address, its rows, the bytes from row to row, and the elements of a row.
    """

    def body(task, worker, y, numbers):
        first, rows, step, count = word_at(task), word_at(task + 8), word_at(task + 16), word_at(task + 24)
        size, one = address(offset(y[0], 1)) - address(y[0]), lanes_of(y)
        if step == count * size:  # the rows are contiguous
            rows, count = 1, rows * count
        for _ in range(rows):
            row = pointer_like(y[0], first)
            i = 0
            while i + one <= count:
                ahead(row, i)  # lines that will be written soon
                store(row, i, function(load(row, i), *numbers))
                i += one
            if i < count:
                store_first(row, i, function(load_first(row, i, count - i), *numbers), count - i)
            first += step

    body.parameters = ("Array",), ("float",) * numbers
    return body


# ---- Formulas on registers: the primitives, and the loop that runs a formula over memory ----------------------------


@helper
def _sign(x: Any) -> Any:
    return simd.select(x > 0.0, 1.0, simd.select(x < 0.0, simd.full_like(x, -1.0), 0.0))


@helper
def _pow(x: Any, y: Any) -> Any:
    return powers.pow(x, simd.full_like(x, y))  # y may be a number


# x - q y is exact for q = trunc(x / y), and for the integer next to it, which rounding may have given instead
_many = math.number(2.0**23, 2.0**52)
_any_fmod = simd.by_lane("fmod")


@helper
def _fmod(x: Any, y: Any) -> Any:
    quotient = x / y
    if not simd.all_lanes(simd.absolute(quotient) < _many(x)):
        return _any_fmod(x, y)
    r = simd.fma(-simd.truncate(quotient), y, x)
    wrong = simd.select(x < 0.0, -r, r) < 0.0
    r = simd.select(wrong, r + simd.select(x < 0.0, -simd.absolute(y), simd.absolute(y)), r)
    return simd.copy_sign(simd.select(simd.absolute(y) == float("inf"), x, r), x)


ON_REGISTERS: dict[str, Callable[..., Any]] = {
    "absolute": simd.absolute,
    "sqrt": simd.sqrt,
    "floor": simd.floor,
    "ceil": simd.ceil,
    "trunc": simd.truncate,
    "nearest": simd.nearest,
    "sign": _sign,
    "where": simd.select,
    "full_like": simd.full_like,
    "exp": math.exp,
    "exp_negative": math.exp_negative,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "log1p": exponential.log1p,
    "sigmoid": math.sigmoid,
    "tanh": math.tanh,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": trigonometric.asin,
    "acos": trigonometric.acos,
    "atan": trigonometric.atan,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "asinh": exponential.asinh,
    "acosh": exponential.acosh,
    "atanh": exponential.atanh,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
    "normal_cdf": error_function.normal,
    "pow": _pow,
    "fmod": _fmod,
    "hypot": powers.hypot,
    "atan2": trigonometric.atan2,
}
_known: set[Callable[..., Any]] = {stored, *PRIMITIVES.values()}


def register(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call a formula and the formulas it calls."""
    if isinstance(formula, Together):
        for part in formula.parts:
            register(part)
    elif formula not in _known:
        _known.add(formula)
        for name in formula.__code__.co_names:
            called = formula.__globals__.get(name)
            if isfunction(called):
                register(called)
        helper(formula)
    return formula


rename(stored, simd.fenced)
for _name, _primitive in PRIMITIVES.items():
    rename(_primitive, ON_REGISTERS.get(_name) or register(_primitive.__wrapped__))


def loop(formula: Callable[..., Any], in_rows: bool) -> Body:
    """A kernel that computes a formula of each element: over dense memory, or in rows of operands that broadcast."""
    one = form(register(formula))
    if not in_rows:
        return dense(formula, len(one.operands), len(one.numbers))
    if one.results > 1:
        formula = _with_flags(formula)
    sources = tuple("Truth" if condition else "Array" for condition in one.conditions)
    return rows(formula, sources, len(one.numbers), ("Truth" if one.truth else "Array",) * one.results)


def loop_of_tile(formula: Callable[..., Any]) -> Body:
    """The same over a tile, for a formula of one operand."""
    return tile(register(formula), len(form(formula).numbers))


def _with_flags(formula: Callable[..., Any]) -> Callable[..., Any]:
    """A formula of several results with a flag for each; separate formulas are computed only if their flag is set."""
    one, parts = form(formula), formula.parts if isinstance(formula, Together) else ()
    flags = [f"want_{place}" for place in range(one.results)]
    calls = [f"_{place}({', '.join(sum(form(part)[:2], ()))})" for place, part in enumerate(parts)]
    first = one.operands[0]
    chosen = [f"{call} if {flag} else {first}" for call, flag in zip(calls, flags, strict=False)]
    result = f"({', '.join(chosen)})" if parts else f"formula({', '.join(one.operands + one.numbers)})"
    scope = {f"_{place}": part for place, part in enumerate(parts)} | {"formula": formula}
    return helper(eval(f"lambda {', '.join((*one.operands, *one.numbers, *flags))}: {result}", scope))


def __getattr__(name: str) -> Body:
    """The kernel of a formula, primitive or several gradients. (No other object in this file may have its name.)"""
    own = name.removesuffix("_broadcast").removesuffix("_tile")
    formula = FUSED.get(own) or POINTWISE.get(own)
    if formula is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == f"{own}_tile":
        return loop_of_tile(formula)
    return loop(formula, own != name or (own not in OFTEN and in_rows(own, formula)))


# ---- Kernels of the gated linear unit and of its gradient -----------------------------------------------------------


for _formula in (gated, gated_grad_x, gated_grad_y):
    register(_formula)


# x[o, 2, i] holds a = x[o, 0, i] and b = x[o, 1, i], i below ``half``


def glu(task: int, worker: int, x: Array, y: Array, n: int, half: int) -> None:
    """y[o, i] = a sigmoid(b)"""
    i = task * CHUNK
    last = min(n, i + CHUNK)
    while i < last:
        row = i // half
        stop = min(last, (row + 1) * half)
        while i < stop:
            m = min(lanes(x), stop - i)
            p = i + row * half
            if m == lanes(x):
                ahead(x, p)
                ahead(x, p + half)
                ahead(y, i)
                store(y, i, gated(load(x, p), load(x, p + half)))
            else:
                store_first(y, i, gated(load_first(x, p, m), load_first(x, p + half, m)), m)
            i += m


def glu_grad(task: int, worker: int, g: Array, x: Array, y: Array, n: int, half: int) -> None:
    """y[o, 0, i] = g sigmoid(b), y[o, 1, i] = g a sigmoid(b) (1 - sigmoid(b))"""
    i = task * CHUNK
    last = min(n, i + CHUNK)
    while i < last:
        row = i // half
        stop = min(last, (row + 1) * half)
        while i < stop:
            m = min(lanes(x), stop - i)
            p = i + row * half
            if m == lanes(x):
                ahead(x, p)
                ahead(x, p + half)
                ahead(y, p)
                ahead(y, p + half)
                u, a, b = load(g, i), load(x, p), load(x, p + half)
                store(y, p, gated_grad_x(u, a, b))
                store(y, p + half, gated_grad_y(u, a, b))
            else:
                u, a, b = load_first(g, i, m), load_first(x, p, m), load_first(x, p + half, m)
                store_first(y, p, gated_grad_x(u, a, b), m)
                store_first(y, p + half, gated_grad_y(u, a, b), m)
            i += m
