"""backward_source: the text of the backward that computes a gradient."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

from .function import Function
from .node import Node
from .tensor import Tensor


def backward_source(tensor_or_function: Any) -> str:
    """The source text of the backward that will run.

    Args:
        tensor_or_function: a result of an operation, its `grad_fn`, a Function, or a Function's `apply`.

    Raises:
        ValueError: a tensor without history.
        TypeError: something else.
        OSError: Python has no source text for it, for example because it was typed into an interactive
            session.
    """
    thing = tensor_or_function
    if not isinstance(thing, (Tensor, Node, type)):
        thing = getattr(thing, "function", thing)  # an operator that is made of its Function
    if isinstance(thing, Tensor):
        if thing.grad_fn is None:
            raise ValueError(
                "backward_source: this tensor is no result of a recorded operation, so no backward belongs "
                "to it; pass a result computed from tensors that require a gradient"
            )
        thing = thing.grad_fn
    if isinstance(thing, Node):
        thing = thing.function
    if inspect.ismethod(thing) and isinstance(thing.__self__, type):
        thing = thing.__self__
    if not (isinstance(thing, type) and issubclass(thing, Function)):
        raise TypeError(
            "backward_source: expected a Tensor, its grad_fn or a Function, got "
            f"{type(tensor_or_function).__name__}"
        )
    if thing.backward is Function.backward:
        raise TypeError(f"backward_source: {thing.__name__} defines no backward")
    function = inspect.unwrap(thing.backward)
    try:
        return textwrap.dedent(inspect.getsource(function)).removeprefix("@formula\n")
    except (OSError, TypeError) as error:
        raise OSError(
            f"backward_source: Python has no source text of {thing.__qualname__}.backward: {error}"
        ) from None
