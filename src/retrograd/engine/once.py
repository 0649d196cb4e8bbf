"""Tensors without a known gradient: a sweep that needs one ends in a message instead of a wrong number."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from .changes import next_order
from .function import Function
from .grad_mode import thread
from .node import Node
from .tensor import Tensor, wrap


def refusing(
    data: np.ndarray, kind: type[Function], function: type[Function], edges: tuple[Any, ...]
) -> Tensor:
    """A tensor without a known gradient: a sweep that needs it ends in `kind`'s message about `function`.

    `edges` say what it depends on, so that a search for the way to some input finds it.
    """
    node = Node()
    node.function = kind
    node.saved = (function,)
    node.needs_input_grad = tuple([edge is not None for edge in edges])
    node.order = next_order()
    node.edges = edges
    node.outputs = None
    tensor = wrap(data)
    tensor._requires_grad = True
    tensor._edge = (node, 0, data.shape, data.dtype)
    return tensor


class Intermediate(Function):
    """The gradient of a tensor that was made inside some forward and saved there."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        name = ctx.saved_tensors[0].__name__
        raise RuntimeError(
            f"{name}: its backward uses a saved tensor that forward made itself, so the second derivative "
            "through it is unknown. Return that tensor as a further output, compute it again in backward, "
            "or, if it does not depend on the inputs, save its array: ctx.save_for_backward(tensor.array)"
        )


class _OnceOnly(Function):
    """The gradient of a result of a backward that is declared once_differentiable."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        name = ctx.saved_tensors[0].__name__
        raise RuntimeError(
            f"{name}: its backward is marked once_differentiable, so it has no second derivative. Write "
            "backward in differentiable operators and remove @once_differentiable, or do without "
            "create_graph=True"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a backward that is not made of differentiable operators.

    It runs with recording off; a second derivative through it is an error instead of a wrong number:

        @staticmethod
        @once_differentiable
        def backward(ctx, g): ...
    """

    @functools.wraps(backward)
    def wrapper(ctx: Node, *grads: Any) -> Any:
        mode = thread.mode
        if not mode.enabled:
            return backward(ctx, *grads)
        mode.enabled = False
        try:
            results = backward(ctx, *grads)
        finally:
            mode.enabled = True
        sources = [g._edge or g for g in grads if isinstance(g, Tensor) and g._requires_grad]
        edges = (*ctx.edges, *sources)
        if type(results) is not tuple:
            results = (results,)
        return tuple(
            [
                refusing(r.array, _OnceOnly, ctx.function, edges) if isinstance(r, Tensor) else r
                for r in results
            ]
        )

    return wrapper
