"""In-place operations and ``out=``: writing results into existing tensors.

An in-place operation computes the new values by ordinary operators from an alias of the old tensor and then writes them
into its memory. The tensor takes over the history of the new values, and its base and views get matching histories.
Old values that the new history needs are copied first. The backward of an older node that saved them raises, see
aliasing.py.

For ``out=``, one function serves all operators: it runs the operator without a gradient and writes the results into the
given tensors. For large results the last kernel writes into them directly, if it has a plan: the caller of a plan
provides the memory of its results.

Source: PyTorch's semantics ("In-place operations with autograd", CopySlices) and its out variants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, NoReturn

import numpy as np

from ..arrays import empty, is_array, overlap, zeros_like
from ..kernel_set import Listener, call_into, kernels, listeners
from . import arithmetic
from .aliasing import (
    Untracked,
    check_changeable,
    mark_changed,
    memory_owner,
    next_order,
    saved_array,
    unlink_views,
    views_of,
)
from .call_site import warn_user
from .dtype import CATEGORY
from .function import Function
from .grad_mode import thread
from .node import Node
from .operator import interpreted, interpreters, operator
from .subgraph import tensors_in
from .tensor import Tensor, alias, wrap
from .views import rebase

# ---- In-place changes: their effect on the graph, and the cases that raise ------------------------------------------


def modify(
    x: Tensor,
    operator: str,
    compute: Callable[[Tensor], Tensor],
    operands: tuple[Any, ...] = (),
    write: Callable[[np.ndarray], object] | None = None,
    direct: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Change x in place to compute(old) and return it; every in-place operator is built on this function.

    Args:
        x: the tensor; a view changes its base and the other views too.
        operator: the name for messages, such as "add_".
        compute: gets the tensor as it was, with its history, and returns the new values, of the same shape and dtype,
            computed by differentiable operators.
        operands: the other values that the result depends on and that may be tensors requiring a gradient.
        write: makes the same change to the array of x; used if neither x nor an operand requires a gradient. If it
            raises, it must not have changed anything.
        direct: like compute, but with a Function that writes into the array of old, returns it, and needs no old values
            for its backward; used if x requires a gradient.

    If the new values do not depend on the old ones, compute is ``lambda old: Replaced.apply(old, values)``: the
    gradient of the old values is zero. ``x[1:3] = v`` does this with ``modify(x[1:3], ...)``. An assignment by a mask
    or by integers is ``modify(x, ..., lambda old: Put.apply(old, indices, v))`` with an out-of-place Function Put.

    Raises:
        RuntimeError: x is a leaf that requires a gradient, or a view of one, and operations are recorded; x has a
            view that is such a leaf; x was made in inference_mode and is changed outside it; several elements of x
            share memory (expand); x is read-only; x is a view that was made while nothing was recorded, and gradients
            would have to flow through it.
        ValueError: the new values do not have the shape and dtype of x.
    """
    mode = thread.mode
    enabled = mode.enabled
    array = x.array
    check_changeable(x, operator, enabled)
    recorded = enabled and (x._requires_grad or _any_requires_grad(operands))
    view = getattr(x, "_view", None)
    if enabled and type(view) is Untracked and view.base is not None:
        base = view.base()
        if base is not None and base._requires_grad and base._edge is not None:
            _refuse_untracked(operator)
    if write is not None and not recorded and not listeners and mode.watch is None:
        write(array)
        mark_changed((array,), operator)
        return x
    intercepted = mode.watch is not None or mode.rules is not None or mode.interpreter is not None
    if direct is not None and enabled and x._requires_grad and not intercepted:
        _check_views(x, operator)
        mark_changed((array,), operator)  # before the new node, which saves the new values
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
    """Write ``value`` into the memory of x for the operator ``name``, and return x.

    before: if x takes over the history of ``value``, an order such that all nodes of ``value`` are younger.
    """
    if interpreters and (seen := interpreted(overwrite, locals())) is not None:
        return seen
    array = x.array
    if before is not None:
        _check_views(x, name)
        _copy_needed(value, before, memory_owner(array))
    arithmetic.assign(array, value.array)
    mark_changed((array,), name)
    if before is not None:
        rebase(x, value._edge)
    return x


class Replaced(Function):
    """Replaces old by value; both have the same shape and dtype."""

    @staticmethod
    def forward(ctx: Any, old: Tensor, value: Tensor) -> Tensor:
        return wrap(value.array.view())

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return wrap(zeros_like(g.array)) if ctx.needs_input_grad[0] else None, g


def _refuse_untracked(operator: str) -> NoReturn:
    raise RuntimeError(
        f"{operator}: x is a view that was made while nothing was recorded (no_grad), so its base cannot get "
        "the history of this change; make the view outside of no_grad, or use x.clone()"
    )


def _check_views(x: Tensor, operator: str) -> None:
    """Raise if the base or another view cannot get the new history of a recorded change."""
    view = getattr(x, "_view", None)
    if view is not None and type(view) is not tuple:
        _refuse_untracked(operator)
    root = view[0] if view is not None else x
    for other in views_of(root):
        if other._requires_grad and other._edge is None:
            raise RuntimeError(
                f"{operator}: another view of this memory was made a leaf that requires a gradient, which cannot get "
                "the history of this change; call requires_grad_() on a clone()"
            )
        rule = _rule_on_path(other) if other is not x else None
        if rule is not None:
            raise RuntimeError(
                f"{operator}: another view of this memory was made by {rule.name}, whose backward the rule "
                f"{rule.rule.name} replaces, so it cannot get the history of this change; use x.clone() first"
            )


def _rule_on_path(view: Tensor) -> Any:
    """Return a finished call with a backward rule on the path from a view to its base; None if there is none.

    A new history of the view would bypass the rule.
    """
    rules = thread.mode.rules
    running = []
    region = None if rules is None else rules.region
    while region is not None:
        running.append(region)
        region = region.parent
    edge, path = view._edge, view._view[1]
    while path is not None and type(edge) is tuple:
        node: Node = edge[0]
        if node.region is not None and node.region not in running:
            return node.region
        edge, path = node.edges[0] if node.edges else None, path[3]
    return None


def _copy_needed(value: Tensor, before: int, owner: np.ndarray) -> None:
    """Copy the arrays saved by nodes made since `before` if their memory is about to change."""
    stack = [value._edge[0]]  # type: ignore[index]
    seen: set[int] = set()
    while stack:
        node: Node = stack.pop()
        if node.order > before or node.order in seen:
            continue
        seen.add(node.order)
        stack.extend(edge[0] for edge in node.edges if type(edge) is tuple)
        saved = node.saved
        if type(saved) is list:
            node.saved = [_copy_item(item) if _uses_memory(item, owner) else item for item in saved]


def _uses_memory(item: Any, owner: np.ndarray) -> bool:
    if type(item) is tuple and item[0]._requires_grad and item[0]._edge is None:
        return False  # a copy would not be the leaf in the graph; the backward will raise
    array = saved_array(item)
    return array is not None and memory_owner(array) is owner


def _copy_item(item: Any) -> Any:
    """Return a saved item with a copy of its array."""
    if is_array(item):
        return arithmetic.copy(item)
    if type(item) is tuple:
        tensor, array = item
        copy = wrap(arithmetic.copy(array))
        copy._requires_grad, copy._edge = tensor._requires_grad, tensor._edge
        return copy, copy.array
    item.array = arithmetic.copy(item.array)  # a stand-in, to which only the node refers
    return item


def _any_requires_grad(items: tuple[Any, ...]) -> bool:
    for item in items:  # noqa: SIM110, any() of a generator is slower
        if isinstance(item, Tensor) and item._requires_grad:
            return True
    return False


# ---- Results in given tensors: `out=` -------------------------------------------------------------------------------

_LARGE_RESULT = 1 << 21  # bytes of a result above which new memory costs more than finding the kernel that computes it
_producers: dict[Callable[..., Any], int] = {}  # index of the kernel that made an operator's result last time


def call_with_out(function: Callable[..., Any], out: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return ``out`` with the results of ``function(*args, **kwargs)`` written into it.

    out: a Tensor, or a tuple with one for each result. A Tensor of a different shape gets new memory, with a warning if
    it has elements. After an error the elements of ``out`` are undefined.

    Raises:
        TypeError: ``out`` is not a Tensor, or not a tuple with one for each result.
        RuntimeError: a gradient would be recorded, ``out`` cannot change, or its dtype cannot hold the result.
    """
    name = function.__name__
    given = (out,) if isinstance(out, Tensor) else out
    if not isinstance(given, (tuple, list)) or not all(isinstance(each, Tensor) for each in given):
        raise TypeError(f"{name}: out={type(out).__name__} must be a Tensor, or a tuple with one for each result")
    operands = tensors_in((args, kwargs))
    if thread.mode.enabled and any(each._requires_grad for each in (*operands, *given)):
        raise RuntimeError(
            f"{name}: out= records no gradient, and an argument requires one; leave out= away, or write the line into "
            "'with retrograd.no_grad():'"
        )
    for each in given:
        check_changeable(each, name, False)
    if not operands and kwargs.get("dtype") is None and "dtype" in signature(function).parameters:
        kwargs = {**kwargs, "dtype": given[0].array.dtype}  # zeros, arange, ...: the type is that of out
    enabled, thread.mode.enabled = thread.mode.enabled, False
    try:
        results = _run(function, given, operands, args, kwargs)
    finally:
        thread.mode.enabled = enabled
    values = (results,) if isinstance(results, Tensor) else results
    count = len(values) if isinstance(values, (tuple, list)) else 0
    if count != len(given):
        raise TypeError(f"{name}: out= must contain one Tensor for each result, {count} here; it contains {len(given)}")
    for value, target in zip(values, given, strict=True):
        if CATEGORY[value.array.dtype.kind] > CATEGORY[target.array.dtype.kind]:
            raise RuntimeError(
                f"{name}: the result is {value.array.dtype}, which cannot become {target.array.dtype}, the type of "
                f"out; make out with dtype={value.array.dtype}"
            )
    for value, target in zip(values, given, strict=True):
        _write(name, target, value)
    if isinstance(out, Tensor):
        return out
    return type(results)(*given) if hasattr(results, "_fields") else type(results)(given)


def _write(name: str, target: Tensor, value: Tensor) -> None:
    array, found = target.array, value.array
    if array.shape != found.shape:
        if array.size:
            warn_user(
                f"{name}: out.shape={array.shape} is not that of the result, {found.shape}, so out gets new memory; "
                "make it in this shape, or empty"
            )
        array = empty(found.shape, array.dtype, like=array)
        unlink_views(target, array)
        target.array = array
    if array is found:
        mark_changed((array,), name)
    elif array.dtype == found.dtype and interpreters:
        overwrite(target, value, name, None)
    else:
        kernels.assign(array, found)
        mark_changed((array,), name)


def _run(
    function: Callable[..., Any],
    given: Sequence[Tensor],
    operands: list[Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    y = given[0].array
    if len(given) > 1 or y.nbytes < _LARGE_RESULT or any(overlap(y, each.array) for each in operands):
        return function(*args, **kwargs)
    with _WriteInto(y, _producers.get(function, -1)) as calls:
        result = function(*args, **kwargs)
    if isinstance(result, Tensor):
        _producers[function] = calls.made.get(id(result.array), -1)
    return result


class _WriteInto(Listener):
    """Lets one of the kernels that an operator calls write into an array.

    at: the index of that kernel, counted from 0. If it is not the kernel that makes the result, only time is lost: the
    operator reads nothing from the array, and the result is copied into it at the end.
    """

    def __init__(self, y: np.ndarray, at: int) -> None:
        self.y, self.at, self.count = y, at, 0
        self.made: dict[int, int] = {}  # id of a result -> the latest call that made it

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        at, self.count = self.count, self.count + 1
        result = call_into(self.y, kernel, args, kwargs) if at == self.at else kernel(*args, **kwargs)
        self.made[id(result)] = at
        return result
