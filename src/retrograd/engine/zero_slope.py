"""Gradients that are locally constant in their input, like those of relu and pooling: their own derivative is 0.

Such a gradient depends on the input through signs or positions only, which are not recorded, so a second derivative
would find no path to the input. A recorded sweep therefore connects the gradients of every Function declared
``piecewise_linear`` to its arguments, by a node that passes ZERO to them. ZERO runs no backward: at the end of the
sweep, tensors below it that have no gradient get zeros.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from ..arrays import zeros
from .deliver import Entry
from .function import Function
from .node import Node, with_history
from .tensor import Tensor, wrap

ZERO: Any = object()


class Joined(Function):
    """The gradient of a piecewise linear Function, which depends on that Function's arguments with slope 0."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return (g, *[ZERO] * (len(ctx.edges) - 1))


def join(node: Node, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradients from the backward of `node`, made to depend on the arguments of its forward."""
    sources = [edge for edge in node.edges if edge is not None]
    return tuple([_join_one(item, sources) if isinstance(item, Tensor) else item for item in grads])


def _join_one(gradient: Tensor, sources: list[Any]) -> Tensor:
    edge: Any = gradient._edge
    if edge is None and gradient._requires_grad:
        edge = gradient
    return with_history(gradient.array, Joined, (edge, *sources))


def spread_zeros(
    edges: Sequence[Any],
    paths: Mapping[int, tuple[bool, ...] | None] | None,
    leaves: dict[int, Entry],
    captured: dict[tuple[int, int], Entry],
    capture: Set[tuple[int, int]],
    like: Any,
) -> None:
    """Give zeros to the tensors at and below `edges` that have no gradient; the other arguments are the sweep's.

    like: an array next to which those of results are made.
    """
    stack = [*edges]
    seen = set()
    while stack:
        edge = stack.pop()
        if type(edge) is not tuple:
            if edge is not None and edge._grad_req != "null" and id(edge) not in leaves:
                leaves[id(edge)] = [edge, wrap(zeros(edge.array.shape, edge.array.dtype, like=edge.array)), True]
            continue
        node, output, shape, dtype = edge
        place = node.order, output
        if place in capture and place not in captured:
            captured[place] = [None, wrap(zeros(shape, dtype, like=like)), True]
        if node.order not in seen:
            seen.add(node.order)
            needs = None if paths is None else paths.get(node.order)
            if paths is None:
                stack += node.edges
            elif needs is not None:
                stack += [below for below, need in zip(node.edges, needs, strict=True) if need]
