"""Registry of converters, which write the ONNX nodes of each operator.

A converter receives the writer and the operator's arguments, with a Value in place of each tensor, and returns the
Value of its result, or a tuple of several.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from typing import Any

from ...operators.registry import operators as loaded
from ..formulas import SAME

Convert = Callable[..., Any]
Condition = Callable[[dict[str, Any]], bool]

_MODULES = (
    "imported_nodes",
    "indexing",
    "pointwise",
    "products",
    "recurrent",
    "reductions",
    "shapes",
    "spatial",
)

_converters: dict[Any, Convert] = {}
_functions: dict[Callable[..., Any], Condition] = {}


def converter(*operators: Any) -> Callable[[Convert], Convert]:
    """Register a converter for Functions."""

    def register(convert: Convert) -> Convert:
        _converters.update(dict.fromkeys(operators, convert))
        return convert

    return register


def converter_of(*functions: Callable[..., Any], when: Condition = lambda given: True) -> Callable[[Convert], Convert]:
    """Register a converter for functions that are not Functions; it receives their arguments by name.

    when: decides by its arguments whether a call replaces all calls inside it.
    """

    def register(convert: Convert) -> Convert:
        _converters.update(dict.fromkeys(functions, convert))
        _functions.update(dict.fromkeys(functions, when))
        return convert

    return register


@lru_cache(maxsize=1)
def converters() -> tuple[dict[Any, Convert], dict[Callable[..., Any], Condition]]:
    """Return the converters of all operators, and the plain functions among these operators."""
    for module in _MODULES:
        import_module(f"{__package__}.{module}")
    return _converters, _functions


def written_for(*operators: Any) -> tuple[str, ...]:
    """Return the ONNX operators used by the converters of these functions and Functions, or by their formulas."""
    found: dict[str, None] = {}
    known, (all_converters, _) = {name for _, name in loaded()}, converters()
    for operator in operators:
        convert = all_converters.get(operator)
        names = () if convert is None else convert.__code__.co_consts
        found |= dict.fromkeys([name for name in names if isinstance(name, str) and name in known])
        formula = getattr(operator, "formula", None)
        if not found and formula is not None and (name := SAME.get(formula.__name__)):
            found[name] = None
    return (*found,)
