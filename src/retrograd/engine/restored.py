"""Saved tensors that a backward gets back with a history of their own; saved.py has the others."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .function import Function
from .node import Node, with_history
from .tensor import Tensor, wrap


class Snapshot(Function):
    """The array that a tensor held when it was saved, at the tensor's place in the graph."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, array: np.ndarray) -> Tensor:
        return wrap(array)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g, None


def as_saved(tensor: Tensor, array: np.ndarray) -> Tensor:
    """`tensor` as it was when it was saved with `array`; by now it holds another one."""
    return Snapshot.apply(tensor, array)


def as_intermediate(tensor: Tensor, node: Node) -> Tensor:
    """`tensor`, which the forward of `node` made and saved, in a sweep that is recorded."""
    return without_derivative(tensor.array, Intermediate, node.function, node.edges)


def without_derivative(
    array: np.ndarray, kind: type[Function], function: type[Function], edges: tuple[Any, ...]
) -> Tensor:
    """A tensor whose gradient is not known: a sweep that needs it ends in `kind`'s message about `function`.

    `edges` say what it depends on, so that `grad` finds the path to its inputs.
    """
    return with_history(array, kind, edges, (function,))


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
