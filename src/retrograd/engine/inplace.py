"""Operations that change memory in place: what they do to the graph, and what they refuse.

The new values are computed by ordinary operators from an alias of the old tensor and then written into its memory. The
tensor takes over their history, and its base and views get histories that fit. Old values that the new history needs
are copied first; older nodes that saved them refuse to run, see changes.py.

Source: PyTorch's semantics ("In-place operations with autograd", CopySlices).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import is_array, zeros_like
from ..kernel_set import listeners
from . import arithmetic
from .changes import check_changeable, mark, memory, next_order, saved_array
from .family import UNTRACKED, views_of
from .function import Function
from .grad_mode import thread
from .node import Node
from .operator import interpreted, interpreters, operator
from .tensor import Tensor, alias, wrap
from .views import rebase


def modify(
    x: Tensor,
    operator: str,
    compute: Callable[[Tensor], Tensor],
    operands: tuple[Any, ...] = (),
    write: Callable[[np.ndarray], object] | None = None,
    direct: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Change x in place to compute(old) and return it; the way to write any in-place operator.

    Args:
        x: the tensor; a view changes its base and the other views too.
        operator: the name for messages, such as "add_".
        compute: gets the tensor as it was, with its history, and returns the new values, of its shape and dtype,
            made by differentiable operators.
        operands: what else the new values depend on, if it may be a tensor that requires a gradient.
        write: does the same to the array of x; it is used if neither x nor an operand requires a gradient. If it
            raises, it must not have changed anything.
        direct: as compute, but by a Function that writes into the array of old and returns it; it needs no old values
            for its backward. It is used if x requires a gradient.

    Where the new values do not depend on the old ones, compute is ``lambda old: Replaced.apply(old, values)``: the
    gradient to the old ones is zero. ``x[1:3] = v`` is that for ``modify(x[1:3], ...)``; an assignment by a mask or by
    integers is ``modify(x, ..., lambda old: Put.apply(old, indices, v))`` with a Function Put that is out of place.

    Raises:
        RuntimeError: x is a leaf that requires a gradient, or a view of one, and operations are recorded; x has a
            view that is such a leaf; x was made in inference_mode and this is outside; several elements of x share
            memory (expand); x is read-only; x is a view that was made while nothing was recorded, and gradients
            would have to flow through it.
        ValueError: the new values do not have the shape and dtype of x.
    """
    enabled = thread.mode.enabled
    array = x.array
    check_changeable(x, operator, enabled)
    unheard = not listeners and thread.mode.watch is None
    if write is not None and unheard and not (enabled and _any_requires_grad((x, *operands))):
        write(array)
        mark((array,), operator)
        return x
    mode = thread.mode
    seen = mode.watch is not None or mode.rules is not None or mode.interpreter is not None
    if direct is not None and enabled and x._requires_grad and not seen:
        _check_family(x, operator)
        mark((array,), operator)  # before the new node, which saves the new values
        rebase(x, direct(alias(x))._edge)
        return x
    before = next_order()  # the nodes that compute makes are younger
    value = compute(alias(x))
    if value.array.shape != array.shape or value.array.dtype != array.dtype:
        instead = f"x.{operator[:-1]}(...)" if operator.isidentifier() else f"x {operator[:-1]} y"
        raise ValueError(
            f"{operator}: the result is {value.array.dtype} of shape {value.array.shape}, x is {array.dtype} of shape "
            f"{array.shape}; they must be equal: write x = {instead}"
        )
    recorded = enabled and (x._requires_grad or value._requires_grad)
    if recorded and value._edge is None:
        value = Replaced.apply(alias(x), value)
    return overwrite(x, value, operator, before if recorded else None)


@operator
def overwrite(x: Tensor, value: Tensor, name: str, before: int | None) -> Tensor:
    """Write ``value`` into the memory of x, which is returned, for the operator ``name``.

    before: if x takes over the history of value, the order that all nodes of ``value`` are younger than.
    """
    if interpreters and (seen := interpreted(overwrite, locals())) is not None:
        return seen
    array = x.array
    if before is not None:
        _check_family(x, name)
        _rescue(value, before, memory(array))
    arithmetic.assign(array, value.array)
    mark((array,), name)
    if before is not None:
        rebase(x, value._edge)
    return x


class Replaced(Function):
    """value in the place of old, which has its shape and dtype."""

    @staticmethod
    def forward(ctx: Any, old: Tensor, value: Tensor) -> Tensor:
        return wrap(value.array.view())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return wrap(zeros_like(g.array)) if ctx.needs_input_grad[0] else None, g


def _check_family(x: Tensor, operator: str) -> None:
    """Refuse a change with a history if the base or another view cannot get its own."""
    view = getattr(x, "_view", None)
    if view is UNTRACKED:
        raise RuntimeError(
            f"{operator}: x is a view that was made while nothing was recorded (no_grad), so its base cannot get "
            "the history of this change; make the view outside of no_grad, or use x.clone()"
        )
    root = view[0] if view is not None else x
    for other in views_of(root):
        if other._requires_grad and other._edge is None:
            raise RuntimeError(
                f"{operator}: another view of this memory was made a leaf that requires a gradient, which cannot get "
                "the history of this change; call requires_grad_() on a clone()"
            )
        rule = _rule_between(other) if other is not x else None
        if rule is not None:
            raise RuntimeError(
                f"{operator}: another view of this memory was made by {rule.name}, whose backward the rule "
                f"{rule.rule.name} replaces, so it cannot get the history of this change; use x.clone() first"
            )


def _rule_between(view: Tensor) -> Any:
    """A call that has ended, whose backward a rule replaces, on the way from a view to its base; None if there is none.

    A new history of the view would leave the rule out.
    """
    rules = thread.mode.rules
    running = []
    region = None if rules is None else rules.region
    while region is not None:
        running.append(region)
        region = region.parent
    edge, way = view._edge, view._view[1]
    while way is not None and type(edge) is tuple:
        node: Node = edge[0]
        if node.region is not None and node.region not in running:
            return node.region
        edge, way = node.edges[0] if node.edges else None, way[3]
    return None


def _rescue(value: Tensor, before: int, owner: np.ndarray) -> None:
    """Copy saved arrays of the nodes made since `before` whose memory is about to change."""
    waiting = [value._edge[0]]  # type: ignore[index]
    seen: set[int] = set()
    while waiting:
        node: Node = waiting.pop()
        if node.order > before or node.order in seen:
            continue
        seen.add(node.order)
        waiting.extend(edge[0] for edge in node.edges if type(edge) is tuple)
        saved = node.saved
        if type(saved) is list:
            node.saved = [_copy_item(item) if _lies_in(item, owner) else item for item in saved]


def _lies_in(item: Any, owner: np.ndarray) -> bool:
    if type(item) is tuple and item[0]._requires_grad and item[0]._edge is None:
        return False  # a copy would not be the leaf in the graph; the backward will refuse it
    array = saved_array(item)
    return array is not None and memory(array) is owner


def _copy_item(item: Any) -> Any:
    """A saved item with an array of its own."""
    if is_array(item):
        return arithmetic.copy(item)
    if type(item) is tuple:
        tensor, array = item
        copy = wrap(arithmetic.copy(array))
        copy._requires_grad, copy._edge = tensor._requires_grad, tensor._edge
        return copy, copy.array
    item.array = arithmetic.copy(item.array)  # a stand-in, which the node alone holds
    return item


def _any_requires_grad(items: tuple[Any, ...]) -> bool:
    return any(isinstance(item, Tensor) and item._requires_grad for item in items)
