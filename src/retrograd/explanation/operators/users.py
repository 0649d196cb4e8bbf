"""A function of the user's own as an operator with a page: ``module:name``."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ...engine.function import Function
from ...engine.tensor import Tensor
from ..explanation import Case, Setting
from ..measure import Arrays
from .example import VALUES, draw
from .function import jacobian_case
from .operator import Operator, call_text

__all__ = ["from_module"]

_SETTINGS = (
    Setting("rows", 2, (1, 2, 3, 4), "of each input"),
    Setting("columns", 3, (1, 2, 3, 4, 6), "of each input"),
    VALUES,
)


def from_module(place: str) -> Operator:
    """The operator of a function, formula or Function: ``from_module("package.file:name")``, found as by ``import``.

    Its inputs are arrays of one shape, one for each parameter without a default.

    Raises:
        ValueError: there is no such module or name, or it is not a function of at least one Tensor.
    """
    module_name, _, name = place.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # as python -m does
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"explain: {place!r} cannot be found: {error}") from error
    if isinstance(found, type) and issubclass(found, Function):
        call: Callable[..., Any] = found.apply
        parameters = _parameters(found.forward)[1:]  # the first is ctx
    else:
        call, parameters = found, _parameters(found) if callable(found) else []
    if not parameters:
        raise ValueError(f"explain: {place!r} must be a function of one or more Tensors")

    def checked(*tensors: Tensor) -> Tensor:
        try:
            result = call(*tensors)
        except Exception as error:  # of the user's function: the page says it
            raise ValueError(f"explain: {place} raised {type(error).__name__}: {error}") from error
        if not isinstance(result, Tensor):
            raise ValueError(f"explain: {place} returns {type(result).__name__}, needs one Tensor")
        return result

    def example(options: Mapping[str, Any]) -> Arrays:
        shape = options["rows"], options["columns"]
        return {each: draw(shape, options["values"], 1 + j) for j, each in enumerate(parameters)}

    def case(inputs: Arrays, options: Mapping[str, Any]) -> Case:
        return jacobian_case(name, checked, inputs, call_text(name, inputs, {}), False)

    return Operator(place, tuple(parameters), (), _SETTINGS, example, case)


def _parameters(function: Any) -> list[str]:
    """The names of the parameters that are given by position and have no default."""
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in by_position and each.default is each.empty]
