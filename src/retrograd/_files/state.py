"""Checks of the entries of a saved state.

A state may come from an untrusted file: a check accepts an entry or raises a ValueError that names the entry, its value
and the rule.

A check is a function of the entry's name and value; it returns the value as a plain Python object.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

__all__ = [
    "Check",
    "anything",
    "brief",
    "check_table",
    "checked_bools",
    "choice",
    "count",
    "flag",
    "items",
    "names",
    "number",
    "optional",
    "reason",
    "same",
    "table",
    "text",
]

Check = Callable[[str, Any], Any]

_MAX_INT64 = 2**63 - 1  # the largest int64
_REPR = reprlib.Repr()
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = 20
_REPR.maxlevel = 3
_REPR.maxstring = _REPR.maxother = 60


def brief(value: Any) -> str:
    """Format a value for a message, abbreviated if long."""
    try:
        text = _REPR.repr(value)
    except Exception:  # such as an int with too many digits
        text = type(value).__name__
    return text if len(text) <= 300 else f"{text[:300]} ..."


def reason(error: BaseException) -> str:
    """Return the text of an error in one line, abbreviated if long."""
    text = " ".join(str(error).split()) or type(error).__name__
    if text == "File is not a zip file":  # zipfile finds no directory
        text = "the end of the zip file is missing"
    return text if len(text) <= 200 else f"{text[:200]} ..."


def names(keys: Iterable[Any]) -> str:
    """Format keys for a message, sorted."""
    return brief(sorted(map(str, keys)))


def count(low: int = 0, high: int = _MAX_INT64) -> Check:
    """Accept an integer from low to high."""

    def check(name: str, value: Any) -> int:
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not low <= value <= high:
            limits = f"of at least {low}" if high == _MAX_INT64 else f"from {low} to {high}"
            raise ValueError(f"{name} is {brief(value)}; it must be an integer {limits}")
        return int(value)

    return check


def number(low: float = -math.inf, high: float = math.inf, above: float = -math.inf) -> Check:
    """Accept a finite number from low to high and greater than ``above``."""

    def check(name: str, value: Any) -> float:
        is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        try:
            result = float(value) if is_number else math.nan
        except OverflowError:
            result = math.inf
        if not (math.isfinite(result) and low <= result <= high and result > above):
            limits = [f"at least {low}"] if low > -math.inf else []
            limits += [f"above {above}"] if above > -math.inf else []
            limits += [f"at most {high}"] if high < math.inf else []
            raise ValueError(
                f"{name} is {brief(value)}; it must be a finite number{' of ' * bool(limits)}{' and '.join(limits)}"
            )
        return value if isinstance(value, int) else result

    return check


def flag(name: str, value: Any) -> bool:
    """Accept True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} is {brief(value)}; it must be True or False")
    return bool(value)


def anything(name: str, value: Any) -> Any:
    """Accept any value; it is checked elsewhere."""
    return value


def text(name: str, value: Any) -> str:
    """Accept a string."""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {brief(value)}; it must be a string")
    return value


def choice(*allowed: Any) -> Check:
    """Accept one of the given strings or numbers."""

    def check(name: str, value: Any) -> Any:
        if not any(same(value, one) for one in allowed):
            raise ValueError(f"{name} is {brief(value)}; it must be {' or '.join(map(repr, allowed))}")
        return value

    return check


def optional(inner: Check) -> Check:
    """Accept None, or a value that ``inner`` accepts."""
    return lambda name, value: None if value is None else inner(name, value)


def items(inner: Check, length: int | None = None) -> Check:
    """Accept a list of entries that ``inner`` accepts, of this length if given."""

    def check(name: str, value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{name} is {brief(value)}; it must be a list")
        if length is not None and len(value) != length:
            raise ValueError(f"{name} has {len(value)} items, expected {length}")
        return [inner(f"{name}[{position}]", item) for position, item in enumerate(value)]

    return check


def table(checks: Mapping[str, Check]) -> Check:
    """Accept a dict with exactly these keys."""

    def check(name: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} is {brief(value)}; it must be a dict")
        if value.keys() != checks.keys():
            raise ValueError(f"{name} has the entries {names(value)}, expected {list(checks)}")
        return {key: inner(f"{name}[{key!r}]", value[key]) for key, inner in checks.items()}

    return check


def checked_bools(name: str, array: np.ndarray) -> np.ndarray:
    """Return the array; the bytes of a bool array must be 0 or 1, since NumPy and the kernels compute with them."""
    if array.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise ValueError(f"{name} is a bool array with a byte that is neither 0 nor 1")
    return array


def check_table(name: str, value: Any) -> Mapping[Any, Any]:
    """Accept a dict with any entries."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} is {brief(value)}; it must be a dict")
    return value


def same(value: Any, own: Any) -> bool:
    """Return whether an untrusted value equals our own; both consist of plain values, dicts and lists."""
    if isinstance(own, Mapping):
        return isinstance(value, Mapping) and value.keys() == own.keys() and all(same(value[k], own[k]) for k in own)
    if isinstance(own, (list, tuple)):
        return isinstance(value, (list, tuple)) and len(value) == len(own) and all(map(same, value, own))
    if isinstance(own, bool) or own is None or isinstance(own, str):
        return type(value) is type(own) and bool(value == own)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(value == own)
