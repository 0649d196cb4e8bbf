"""Argument checks shared by layers."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ..engine.arguments import format_number, kind_name
from ..ops.argument_checks import TOO_LONG, as_real
from .module import Module

__all__ = ["as_epsilon", "as_module", "check_ints", "check_probabilities"]


def check_ints(name: str, least: int = 1, /, **values: Any) -> None:
    """Raise a ValueError unless every value is an int (NumPy's too) of at least ``least``; ``name`` is the layer's."""
    for argument, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name}: {argument}={value!r} must be an int of at least {least}")
        if value >= TOO_LONG:
            raise ValueError(f"{name}: {argument}={format_number(value)} is too large for any memory")


def check_probabilities(name: str, **values: Any) -> None:
    """Raise a ValueError unless every value is a number from 0 to 1; ``name`` is the layer's."""
    for argument, p in values.items():
        if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= float(p) <= 1:
            raise ValueError(f"{name}: {argument}={p!r} must be a probability, from 0 to 1")


def as_epsilon(name: str, eps: Any) -> float:
    """Return eps, which is added to a variance, as a float.

    Raises:
        TypeError: eps is not a number.
        ValueError: eps is negative or NaN.
    """
    number = as_real(name, "eps", eps)
    if not number >= 0:
        raise ValueError(f"{name}: eps={eps!r} must be a number of at least 0")
    return number


def as_module(name: str, label: str, value: Any) -> Module:
    """Return ``value`` if it is a Module; raise a TypeError otherwise."""
    if not isinstance(value, Module):
        raise TypeError(f"{name}: {label} is {kind_name(value)}, needs a Module such as nn.Linear(3, 2)")
    return value
