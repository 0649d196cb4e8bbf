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
# name of a kernel -> the gradients of an operator of two operands to the first and to the second one
PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {}


def formula(function: F) -> F:
    """Enter a function of operands and numbers into the list: both kernel sets get a kernel of its name.

    The operands of a gradient, which come after g, have one shape; two operands ``x`` and ``y`` broadcast.
    """
    FORMULAS[function.__name__] = function
    return function


def pair(name: str, to_x: Callable[..., Any], to_y: Callable[..., Any]) -> None:
    """Enter both gradients of an operator, which a kernel computes in one pass."""
    PAIRS[name] = to_x, to_y


def arity(function: Callable[..., Any]) -> Arity:
    """How many operands and numbers a formula takes."""
    parameters = inspect.signature(function).parameters.values()
    numbers = sum(parameter.annotation in (float, "float") for parameter in parameters)
    return Arity(len(parameters) - numbers, numbers)


def broadcasts(function: Callable[..., Any]) -> bool:
    """Whether a formula is an operator of two operands."""
    return list(inspect.signature(function).parameters)[:2] == ["x", "y"]
