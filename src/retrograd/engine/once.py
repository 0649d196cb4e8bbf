"""once_differentiable: a second derivative through such a backward is an error instead of a wrong number."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from .function import Function
from .grad_mode import thread
from .node import Node
from .restored import without_derivative
from .tensor import Tensor


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
        if not isinstance(results, (tuple, list)):
            results = (results,)
        return tuple(
            [
                without_derivative(r.array, _OnceOnly, ctx.function, edges) if isinstance(r, Tensor) else r
                for r in results
            ]
        )

    return wrapper
