"""Argument checks shared by the engine and the operators."""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import Any

import numpy as np


def kind_name(value: Any) -> str:
    """Return the class of a value for a message, with a hint if it is a class or a method that was not called."""
    if isinstance(value, type):
        return f"the class {value.__name__} (make an instance: {value.__name__}(...))"
    if isinstance(value, MethodType):
        return f"the method {value.__name__} (call it: {value.__name__}())"
    if isinstance(value, FunctionType):
        return f"the function {value.__name__}"
    cls = type(value)
    return f"torch.{cls.__name__}" if cls.__module__ in ("torch", "torch.nn.parameter") else cls.__name__


def excerpt(value: Any, most: int = 60) -> str:
    """Return a repr in one line for a message; for an array or a Tensor, only its class and shape."""
    if isinstance(value, (type, FunctionType)):
        return value.__name__
    shape = getattr(value, "shape", None)
    if isinstance(value, np.ndarray) or (shape is not None and hasattr(value, "numpy")):
        return f"<{type(value).__name__} of shape {tuple(shape or ())}>"
    text = " ".join(repr(value).split())
    return text if len(text) <= most else f"{text[:most]}..."


def as_flag(name: str, argument: str, value: Any) -> bool:
    """Return a Python or NumPy bool as a bool. Strings, numbers and None raise, since "False" would count as True.

    Raises:
        TypeError: value is not a bool.
    """
    if value is True or value is False:  # the usual case
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    raise TypeError(f"{name}: {argument}={excerpt(value)} must be True or False, not {kind_name(value)}")


def as_truth(name: str, argument: str, value: Any) -> bool:
    """Like ``as_flag``, but accept 0 and 1 as False and True, for options that PyTorch tests with ``if``.

    PyTorch's operators refuse ints, so that ``x.sum(0, 1)`` is not mistaken for ``x.sum((0, 1))``; its layers,
    optimizers, data loaders and the functions written in Python accept them.

    Raises:
        TypeError: value is not a bool.
    """
    if type(value) is int and value in (0, 1):
        return value == 1
    return as_flag(name, argument, value)


def as_callable(name: str, argument: str, value: Any) -> Any:
    """Return ``value`` if it is callable.

    Raises:
        TypeError: value is not callable.
    """
    if not callable(value):
        raise TypeError(f"{name}: {argument} is {kind_name(value)}, needs a function or a module")
    return value


def as_list(name: str, argument: str, values: Any, needs: str = "a list") -> list[Any]:
    """Return the elements of an iterable other than a str as a list.

    Raises:
        TypeError: values is not such an iterable.
    """
    try:
        if not isinstance(values, (str, bytes)):
            return list(values)
    except TypeError:
        pass
    raise TypeError(f"{name}: {argument} is {kind_name(values)}, needs {needs}")


def format_number(number: Any) -> str:
    """Format a number for a message; Python itself refuses to print an int of thousands of digits."""
    if isinstance(number, int) and number.bit_length() > 128:
        return f"<int of {number.bit_length()} bits>"
    return repr(number) if isinstance(number, str) else str(number)
