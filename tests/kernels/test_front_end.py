"""Compiled functions of integers beside the same functions in Python: types of variables, constants, calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import count, product
from typing import Any, NamedTuple

import pytest

pytest.importorskip("numba")

from numba.extending import overload

from retrograd.kernels.compiled.machine.compiler import compile_plain, helper
from retrograd.kernels.compiled.machine.launch import _Engine
from retrograd.kernels.compiled.machine.record import record

FIELDS = record(first=2, second=3, rest=0)
VALUES = (-7, -1, 0, 1, 2, 5, 1 << 40)
_names, _engine = count(), _Engine()


class Pair(NamedTuple):
    least: int
    most: int


LIMITS = Pair(-3, 4)


def compiled(body: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """The machine code of a function of two integers."""
    name = f"front_end_{next(_names)}"
    address = _engine.add(compile_plain(body, 2, name, returns=True), name)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)


def constants(x: int, y: int) -> int:
    return x + FIELDS.first * 100 + FIELDS.second * 10 + FIELDS.words + min(y, LIMITS.most) * LIMITS.least


def extremes(x: int, y: int) -> int:
    return min(x, y, 3) * 7 + max(x, y) - max(x, -2, y, 4)


def of_several_types(x: int, y: int) -> int:
    value = x * 3  # beyond the integers that a float64 can hold
    found = value + 1
    value = y * 0.5
    return found + int(value)


def becomes_a_float(x: int, y: int) -> int:
    total = 0
    for i in range(5):
        total = total + (x & 255) * 0.25 + i
    return int(total) + y


def loops(x: int, y: int) -> int:
    total, i = 0, 0
    while i < 6:
        i += 1
        if i == 2:
            continue
        for k in range(i, 0, -1):
            if k == 4:
                break
            total += k * x
        else:
            total -= y
    return total


def choices(x: int, y: int) -> int:
    a = x if x > y else y
    b = a > 3 and y < 2 or not x
    return a * 2 + (1 if b else 5) + int(b)


def divisions(x: int, y: int) -> int:
    return x // 3 * 5 + x % 4 + (y >> 2) - (y & 6)


@helper
def _parts(x: int, y: int) -> Any:
    return x // 2, y - x, x + y


@helper
def _scaled(triple: Any, by: int) -> Any:
    first, second, third = triple
    return first * by, third, second + triple[2] * by


def tuples(x: int, y: int) -> int:
    triple = _parts(x, y)
    first, _, last = _scaled(triple, 3)
    return first * 5 + last - triple[1] + _scaled(triple, 2)[2]


@helper
def _sum_to(n: int) -> int:
    total = 0
    for i in range(n):
        if i > 20:
            return total
        total += i
    return total


def early_return(x: int, y: int) -> int:
    return _sum_to(x) * 3 + _sum_to(y)


@pytest.mark.parametrize(
    "body",
    [
        constants,
        extremes,
        of_several_types,
        becomes_a_float,
        loops,
        choices,
        divisions,
        tuples,
        early_return,
    ],
)
def test_the_results_are_those_of_python(body: Callable[[int, int], int]) -> None:
    function = compiled(body)
    for x, y in product(VALUES, VALUES):
        assert function(x, y) == body(x, y), (x, y)


def test_integers_beyond_float64_are_exact() -> None:
    x = (1 << 60) + 1
    assert compiled(of_several_types)(x, 8) == of_several_types(x, 8)


def test_a_function_that_numba_compiles_is_refused() -> None:
    def doubled(x: int) -> int:
        return x * 2

    @overload(doubled)
    def _(x):  # type: ignore[no-untyped-def]
        return lambda x: x * 2

    def body(x: int, y: int) -> int:
        return doubled(x) + y

    with pytest.raises(Exception, match="a kernel calls a function that Numba would compile"):
        compiled(body)


def test_an_error_names_the_line() -> None:
    def body(x: int, y: int) -> int:
        return x + "y" + y  # type: ignore[operator]

    with pytest.raises(Exception, match="test_front_end.py"):
        compiled(body)
