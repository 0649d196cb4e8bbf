"""Allocation next to an array of another library, and values that the host reads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from retrograd import arrays
from retrograd.arrays import host


class Elsewhere:
    """An array of another library, which makes others beside it."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function.__name__, args, kwargs


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("empty", ((2, 3), np.float32)),
        ("zeros", (2, np.int64)),
        ("ones", ((2, 3), np.float32)),
        ("full", ((2, 3), 1.5)),
        ("arange", (5,)),
        ("arange", (1, 5, 2, np.float32)),
        ("eye", (3, 2)),
        ("from_host", ([1, 2], np.float32)),
    ],
)
def test_made_next_to_another(name: str, args: tuple[Any, ...]) -> None:
    make = getattr(arrays, name)
    here: Any = make(*args)
    beside = make(*args, like=np.ones(1))
    assert type(beside) is np.ndarray and beside.dtype == here.dtype and beside.shape == here.shape
    function, *_ = make(*args, like=Elsewhere())
    assert function == ("asarray" if name == "from_host" else name)


def test_patterns() -> None:
    assert arrays.arange(3).tolist() == [0, 1, 2] and arrays.arange(1, 6, 2).tolist() == [1, 3, 5]
    assert arrays.linspace(0, 1, 3, np.float32).tolist() == [0, 0.5, 1]
    assert arrays.eye(2, 3, np.int64).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert arrays.full((2,), 3, np.int8).dtype == np.int8


def test_views_show_the_same_memory() -> None:
    x = np.arange(6.0).reshape(2, 3)
    for view in (
        arrays.broadcast_to(x, (4, 2, 3)),
        arrays.moveaxis(x, 0, 1),
        arrays.diagonal(x),
        arrays.as_strided(x, (2, 2), (8, 8)),
        arrays.broadcast_arrays(x, np.ones((5, 1, 1)))[0],
    ):
        assert arrays.shares_memory(view, x) and arrays.overlap(view, x)
    assert arrays.overlap(x[:, ::2], x[:, 1:]) and not arrays.shares_memory(x[:, ::2], x[:, 1::2])
    assert arrays.shares_memory(x, x, 1) and not arrays.shares_memory(x[:1], x[1:], 1)


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda x: arrays.number(x[0], "why"), 0.0),
        (lambda x: arrays.integers(x.astype(int), "why"), [0, 1, 2]),
        (lambda x: arrays.extremes(x, "why"), (0.0, 2.0)),
        (lambda x: arrays.any_true(x, "why"), True),
        (lambda x: arrays.all_true(x, "why"), False),
        (lambda x: arrays.all_finite(x, "why"), True),
        (lambda x: arrays.all_finite(x / 0, "why"), False),
        (lambda x: arrays.any_nan(x, "why"), False),
        (lambda x: arrays.any_nan(x / 0, "why"), True),
        (lambda x: arrays.any_nan(x.astype(int), "why"), False),
        (lambda x: arrays.same(x, x + 1, "why"), False),
        (lambda x: arrays.extremes(x, "why"), (0.0, 2.0)),
        (lambda x: arrays.within(x, 0, 2, "why"), True),
        (lambda x: arrays.within(x / 0, 0, 2, "why"), False),
        (lambda x: arrays.within(x.astype(np.int64), 0, 2, "why"), True),
        (lambda x: arrays.within(x.astype(np.int64), 0, 1, "why"), False),
        (lambda x: arrays.within(x.astype(np.int64) - 1, 0, 2, "why"), False),
        (lambda x: arrays.first_outside(x, 0, 1, "why"), ([2], 2.0)),
        (lambda x: arrays.increasing(x, "why"), True),
        (lambda x: arrays.increasing(x[::-1], "why"), False),
        (lambda x: arrays.same(x / 0, x / 0, "why"), False),
        (lambda x: arrays.same(x / 0, x / 0, "why", equal_nan=True), True),
        (lambda x: arrays.to_host(x, "why").tolist(), [0.0, 1.0, 2.0]),
        (lambda x: arrays.numbers(x, "why"), [0.0, 1.0, 2.0]),
        (lambda x: arrays.within(x, 0, 2, "why"), True),
        (lambda x: arrays.within(x, 0.5, 2, "why"), False),
        (lambda x: arrays.within(x / 0, 0, np.inf, "why"), False),  # NaN
        (lambda x: arrays.within(x.astype(np.int64), 0, 2, "why"), True),
        (lambda x: arrays.within(x.astype(np.int64) - 1, 0, 2, "why"), False),
        (lambda x: arrays.first_true(x.reshape(1, 3) > 0, "why"), (0, 1)),
        (lambda x: arrays.first_true(x[:0] > 0, "why"), None),
        (lambda x: arrays.first_true(np.array(True), "why"), ()),
        (lambda x: arrays.count_true(x, "why"), 2),
        (lambda x: arrays.any_below(x, 0, "why"), False),
        (lambda x: arrays.any_below(x, 1, "why"), True),
        (lambda x: arrays.first_outside(x, 0, 1, "why"), ([2], 2.0)),
    ],
)
def test_a_read_is_heard(read: Any, expected: Any) -> None:
    heard: list[str] = []

    def hear(why: str, checked: host.Decision | None) -> None:
        heard.append(why)
        assert checked is None or checked.holds()

    host.listeners.append(hear)
    try:
        with np.errstate(all="ignore"):
            assert read(np.arange(3.0)) == expected
    finally:
        host.listeners.remove(hear)
    assert heard == ["why"]


def test_copies_of_the_host() -> None:
    given = np.arange(3.0)
    assert arrays.from_host(given) is given
    assert not arrays.shares_memory(arrays.copied_from_host(given), given)
    assert arrays.copied_from_host([1, 2], np.float32).dtype == np.float32
    assert arrays.from_buffer(bytearray(b"\1\0\2\0"), np.int16, 1, 2).tolist() == [2]
    assert arrays.shares_memory(arrays.from_dlpack(given), given)


def test_more_views() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert arrays.flip(x, (1,)).tolist() == [[2, 1, 0], [5, 4, 3]] and arrays.shares_memory(arrays.flip(x, (0,)), x)
    assert arrays.of_bytes(x.view(np.uint8).reshape(-1), (2,), np.float64, 8, (16,)).tolist() == [1, 3]
    for column in (x[:, :1], x[:, :1].copy()):
        wide = arrays.repeated(column, (2, 3))
        assert wide.tolist() == [[0] * 3, [3] * 3] and arrays.shares_memory(wide, column) and not wide.flags.writeable


def test_an_array_in_c_order() -> None:
    turned = np.zeros((2, 3)).T
    assert arrays.empty_like(turned).flags.f_contiguous and arrays.empty_like(turned, order="C").flags.c_contiguous


def test_constants_are_known_while_they_live() -> None:
    x = np.arange(6.0)
    y = arrays.as_constant(x.reshape(2, 3))
    assert arrays.is_constant(y) and arrays.is_constant(x) and not arrays.is_constant(x.copy())
