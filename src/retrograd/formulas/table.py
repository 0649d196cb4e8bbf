"""The list of formulas, from which both kernel sets make their kernels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Arity(NamedTuple):
    """What a formula takes: operands first, then numbers, which are annotated as float."""

    operands: int
    numbers: int


FORMULAS: dict[str, Callable[..., Any]] = {}


def formula(function: F) -> F:
    """Enter a function of operands and numbers into the list: both kernel sets get a kernel of its name."""
    FORMULAS[function.__name__] = function
    return function


def arity(function: Callable[..., Any]) -> Arity:
    """How many operands and numbers a formula takes."""
    parameters = inspect.signature(function).parameters.values()
    numbers = sum(parameter.annotation in (float, "float") for parameter in parameters)
    return Arity(len(parameters) - numbers, numbers)
