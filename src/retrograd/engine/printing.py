"""Printing of a tensor's elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arguments import as_truth, format_number

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "max_line_width": None},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "max_line_width": None},
    "full": {"precision": 4, "threshold": 2**62, "edgeitems": 3, "max_line_width": None},
}
_options = dict(_PROFILES["default"])
_scientific: list[bool | None] = [None]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed; an option that is None keeps its value, except sci_mode.

    precision: digits after the decimal point. threshold: tensors with more elements than this are summarized, with
    edgeitems elements at each end of an axis. linewidth: characters per line. profile: "default", "short" or "full"
    sets all of these; the other arguments then override it. sci_mode: whether numbers are written with an exponent;
    None lets their size decide.

    Raises:
        ValueError: a number is negative, or the profile is unknown.
    """
    if profile is not None:
        if not isinstance(profile, str) or profile.lower() not in _PROFILES:
            raise ValueError(f"set_printoptions: profile={profile!r}; choose default, short or full")
        _options.update(_PROFILES[profile.lower()])
    numbers = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "max_line_width": linewidth}
    for name, value in numbers.items():
        if value is not None:
            if not isinstance(value, (int, float, np.number)) or not value >= 0:
                raise ValueError(
                    f"set_printoptions: {name.removeprefix('max_')}={format_number(value)} must be at least 0"
                )
            _options[name] = min(value, 2**62)
    _scientific[0] = None if sci_mode is None else as_truth("set_printoptions", "sci_mode", sci_mode)


def format_elements(array: np.ndarray) -> str:
    """Return the elements of an array as text for ``repr(tensor)``."""
    options: dict[str, Any] = dict(_options)
    if _scientific[0] is not None:
        form = f".{options['precision']}{'e' if _scientific[0] else 'f'}"
        options["formatter"] = {"float_kind": lambda number: format(float(number), form)}
    return np.array2string(array, separator=", ", prefix="tensor(", **options)
