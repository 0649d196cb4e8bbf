"""The checks of saved states: accepted values, and the names in messages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from retrograd._files.state import (
    brief,
    check_table,
    checked_bools,
    choice,
    count,
    flag,
    items,
    number,
    optional,
    reason,
    same,
    table,
    text,
)


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (count(), 3),
        (count(-1), np.int64(-1)),
        (number(), -1.5),
        (number(0, 1), 1),
        (flag, True),
        (text, ""),
        (choice(1, "a"), "a"),
        (optional(flag), None),
        (items(count()), [1, 2]),
        (table({"a": flag}), {"a": False}),
    ],
)
def test_what_passes(check: Callable[[str, Any], Any], value: Any) -> None:
    assert check("x", value) == value


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (count(), -1, "x is -1; it must be an integer of at least 0"),
        (count(), True, "x is True; it must be an integer"),
        (count(), 1.0, "x is 1.0; it must be an integer"),
        (count(), 2**63, "it must be an integer of at least 0"),
        (count(1, 3), 4, "x is 4; it must be an integer from 1 to 3"),
        (number(), float("nan"), "x is nan; it must be a finite number"),
        (number(), 10**400, "it must be a finite number"),
        (number(), "1", "x is '1'; it must be a finite number"),
        (number(), False, "x is False; it must be a finite number"),
        (number(0, 1), 2, "x is 2; it must be a finite number of at least 0 and at most 1"),
        (number(above=0), 0, "it must be a finite number of above 0"),
        (flag, 1, "x is 1; it must be True or False"),
        (text, b"x", "it must be a string"),
        (choice(1, 3), True, "x is True; it must be 1 or 3"),
        (choice(1, 3), np.ones(3), "it must be 1 or 3"),
        (items(flag), "ab", "x is 'ab'; it must be a list"),
        (items(flag), [True, 1], "x[1] is 1; it must be True or False"),
        (items(flag, 1), [], "x has 0 items, expected 1"),
        (table({"a": flag}), {"a": 1}, "x['a'] is 1"),
        (table({"a": flag}), {"b": 1}, "x has the entries ['b'], expected ['a']"),
        (table({"a": flag}), [], "x is []; it must be a dict"),
        (check_table, None, "x is None; it must be a dict"),
    ],
)
def test_what_does_not(check: Callable[[str, Any], Any], value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check("x", value)


def test_bytes_that_are_no_bools() -> None:
    assert checked_bools("x", np.array([True, False])).tolist() == [True, False]
    with pytest.raises(ValueError, match="x is a bool array with a byte that is neither 0 nor 1"):
        checked_bools("x", np.array([0, 7], np.uint8).view(np.bool_))


def test_messages_are_short() -> None:
    own: list[Any] = []
    own.append(own)
    for value in (10**5000, list(range(10**5)), "a" * 10**6, own, dict.fromkeys(range(1000), own)):
        assert len(brief(value)) < 400
    assert reason(ValueError("a\n" * 1000)).startswith("a a a") and len(reason(ValueError("a\n" * 1000))) < 250
    assert reason(MemoryError()) == "MemoryError"


@pytest.mark.parametrize(
    ("value", "own", "expected"),
    [
        ({"a": [1, None]}, {"a": (1, None)}, True),
        (1.0, 1, True),
        (True, 1, False),
        (1, True, False),
        ("1", 1, False),
        (np.ones(2), 1, False),
        (np.ones(2), "digits", False),
        ({"a": np.ones(2)}, {"a": [1, 1]}, False),
        ([1], [1, 1], False),
    ],
)
def test_same(value: Any, own: Any, expected: bool) -> None:
    assert same(value, own) is expected
