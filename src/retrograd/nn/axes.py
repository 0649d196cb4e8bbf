"""What one, two and three axes differ in: names and docstrings. The code of a function or layer is one text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from ..ops.arguments.binding import require_bound

__all__ = ["filled", "over_axes"]

P = ParamSpec("P")
R = TypeVar("R")

_WORDS = {1: ("one axis", "I"), 2: ("two axes", "H, W"), 3: ("three axes", "D, H, W")}


def filled(text: str, ndim: int) -> str:
    """The text with the number of axes for {n}, in words for {axes}, and the names of their extents for {extents}."""
    axes, extents = _WORDS[ndim]
    return text.replace("{n}", str(ndim)).replace("{axes}", axes).replace("{extents}", extents)


def over_axes(
    names: str, text: Callable[Concatenate[str, int, P], R]
) -> tuple[Callable[P, R], Callable[P, R], Callable[P, R]]:
    """The functions for 1, 2 and 3 axes that call text(name, ndim, ...); names: theirs, with {n} for the number.

    Each has the signature of text without these two parameters, and its docstring, ``filled``.
    """
    return _function(names, text, 1), _function(names, text, 2), _function(names, text, 3)


def _function(names: str, text: Callable[Concatenate[str, int, P], R], ndim: int) -> Callable[P, R]:
    name = filled(names, ndim)

    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return text(name, ndim, *args, **kwargs)
        except TypeError:
            require_bound(name, signature, args, kwargs)
            raise

    _, _, *parameters = inspect.signature(text).parameters.values()
    signature = inspect.signature(text).replace(parameters=parameters)
    made: Any = call
    made.__code__ = made.__code__.replace(co_name=name)  # code of its own, by which a rule finds its calls
    made.__signature__ = signature
    made.__annotations__ = {key: kind for key, kind in text.__annotations__.items() if key not in ("name", "ndim")}
    made.__name__ = made.__qualname__ = name
    made.__module__, made.__doc__ = text.__module__, filled(text.__doc__ or "", ndim)
    made.__wrapped__ = text  # whose source inspect finds
    return call
