"""Gradients of leaves: storage, delivery during the sweep, and zeros for piecewise linear functions.

A stored gradient never shares its array: not with the upstream gradient, another leaf's gradient, or a tensor saved in
the graph. The results of `grad` may share memory with the caller's upstream gradients, but with nothing else. An array
is copied only if something else still refers to it, according to its reference count.

The gradient of a piecewise linear function depends on the input only through signs or positions. These are not
recorded, so a second derivative would find no path to the input. A recorded sweep therefore connects the gradients of
every Function declared ``piecewise_linear`` to its arguments by a node that passes ZERO to them. The sweep does
not run a backward for ZERO: at its end, tensors below that node without a gradient get zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from sys import getrefcount
from typing import Any, NoReturn

import numpy as np

from ..arrays import zeros
from . import arithmetic
from .function import Function
from .grad_mode import enable_grad, process
from .node import Node, with_history
from .tensor import Tensor, wrap

# ---- Storage of gradients at the end of a sweep: `grad_req` and ownership of arrays ---------------------------------

_CACHE_LINE = 64  # bytes of a cache line
Entry = list[Any]  # [tensor, its gradient, whether the sweep made the gradient's array]
listeners: list[Callable[[Iterable[Entry]], None]] = []  # called before gradients are stored; almost always empty


def deliver(entries: Iterable[Entry], create_graph: bool) -> None:
    """Store the gradients in `grad`: "add" adds to the present gradient, "write" replaces it.

    Several threads may deliver to the same leaves at once; no gradient is lost.

    Raises:
        RuntimeError: `grad` no longer fits its tensor; nothing has been stored.
    """
    for heard in listeners:
        heard(entries)
    old: Any
    new: Any
    stored: list[Entry] = []
    summed: list[Entry] = []
    with process.lock:
        for entry in entries:  # first all that may fail, such as for want of memory
            tensor = entry[0]
            if tensor._grad is None or tensor._grad_req == "write":
                if create_graph or not is_unshared(entry) or entry[1]._requires_grad:
                    entry[1] = unshared_gradient(entry, create_graph)
                stored.append(entry)
                continue
            old, new = tensor._grad.array, entry[1].array
            if old.shape != new.shape or (old.dtype is not new.dtype and old.dtype != new.dtype):
                _refuse_addition(old, new)
            old = new = None  # references to the arrays are counted
            if create_graph:
                with enable_grad():
                    entry[1] = tensor._grad + entry[1]
            elif _grad_is_unshared(tensor):
                summed.append(entry)
                continue
            else:
                entry[1] = wrap(arithmetic.add(tensor._grad.array, entry[1].array))
            stored.append(entry)
        for entry in summed:
            arithmetic.accumulate(entry[0]._grad.array, entry[1].array)
        for entry in stored:
            entry[0]._grad = entry[1]


def _refuse_addition(old: np.ndarray, new: np.ndarray) -> NoReturn:
    raise RuntimeError(
        f"backward: cannot add a gradient of {new.dtype} and shape {new.shape} to a grad of "
        f"{old.dtype} and shape {old.shape}; the tensor was changed after its last backward: "
        "set its grad to None"
    )


def unshared_gradient(entry: Entry, create_graph: bool) -> Tensor:
    """Return the gradient of an entry in an unshared array; with its history under create_graph."""
    if is_unshared(entry) and (create_graph or not entry[1]._requires_grad):
        return entry[1]
    gradient = entry[1]
    if create_graph and gradient._requires_grad:
        with enable_grad():
            return Copy.apply(gradient)
    return wrap(arithmetic.copy(gradient.array))


def is_unshared(entry: Entry) -> bool:
    """Return whether only the entry refers to its gradient, and only the gradient to its array."""
    return (  # as _references counts them
        getrefcount(entry[1]) == _OWNED
        and getrefcount(entry[1].array) == _OWNED_ARRAY
        and type(entry[1]) is Tensor
        and (entry[1].array.flags.writeable if entry[1].array.base is None else _owns_whole_memory(entry[1].array))
    )


class Copy(Function):
    """y = x, in newly allocated memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(arithmetic.copy(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def _grad_is_unshared(tensor: Tensor) -> bool:
    """Return True if only `tensor` refers to its grad, which has no history and alone refers to its array."""
    if (  # as _grad_references counts them
        getrefcount(tensor._grad) != _UNSHARED or getrefcount(tensor._grad.array) != _UNSHARED_ARRAY  # type: ignore[union-attr]
    ):
        return False
    gradient = tensor._grad
    if gradient is None or gradient._requires_grad:
        return False
    array = gradient.array
    return array.flags.writeable if array.base is None else _owns_whole_memory(array)


def _owns_whole_memory(array: np.ndarray) -> bool:
    """Return True if the array alone owns its memory, covers each element of it once and is writable.

    It may begin up to a cache line after the start of the memory, since kernels align it.
    """
    base = array.base
    if base is not None:
        if type(base) is not np.ndarray or base.base is not None or not 0 <= base.nbytes - array.nbytes <= _CACHE_LINE:
            return False
        base = None
        if _base_references(array) != _UNSHARED_BASE:
            return False
    return array.flags.writeable


# The reference count of an object with one owner differs between Python versions, so it is measured.


def _references(entry: Entry) -> tuple[int, int]:
    return getrefcount(entry[1]), getrefcount(entry[1].array)


def _grad_references(tensor: Tensor) -> tuple[int, int]:
    return getrefcount(tensor._grad), getrefcount(tensor._grad.array)  # type: ignore[union-attr]


def _base_references(array: np.ndarray) -> int:
    return getrefcount(array.base)


def _measure() -> tuple[tuple[int, int], tuple[int, int], int]:
    def new(shape: int | tuple[int, ...] = 2) -> np.ndarray:
        return zeros(shape, np.float64)

    entry: Entry = [wrap(new()), wrap(new()), False]
    entry[0]._grad = wrap(new())
    return _references(entry), _grad_references(entry[0]), _base_references(new((2, 2)).T)


(_OWNED, _OWNED_ARRAY), (_UNSHARED, _UNSHARED_ARRAY), _UNSHARED_BASE = _measure()


# ---- Delivery during the sweep: each leaf's gradient as soon as it is complete, for example to send it to others ----


class ReadyGradients:
    """Calls ``each(position, gradient, unshared)`` once for each of `leaves` that a sweep reaches.

    unshared: True if nothing else refers to the gradient. oldest: for each reached leaf, the order of the oldest node
    that uses it, as filled by ``find_paths``.

    A sweep runs the youngest nodes first, so the gradient of a leaf is complete when the oldest node that uses it has
    run. Leaves that are inputs of a rule's region are delivered at the end of the sweep.
    """

    __slots__ = ("_each", "_pending", "order")

    def __init__(
        self, oldest: Mapping[int, float], leaves: Iterable[Tensor], each: Callable[[int, Tensor, bool], object]
    ) -> None:
        self._each = each
        pending = [(oldest[id(leaf)], position, leaf) for position, leaf in enumerate(leaves) if id(leaf) in oldest]
        self._pending = sorted(pending, key=lambda item: item[0], reverse=True)
        self.order: float = self._pending[-1][0] if self._pending else _NEVER

    def emit(self, next_order: float, found: dict[int, Any]) -> None:
        """Deliver the gradients to which no node of `next_order` or older will add; `found`: entries by leaf id."""
        pending = self._pending
        while pending and pending[-1][0] < next_order:
            _, position, leaf = pending.pop()
            entry = found.get(id(leaf))
            if entry is not None:
                unshared = is_unshared(entry)
                self._each(position, entry[1], unshared)
        self.order = pending[-1][0] if pending else _NEVER


_NEVER = float("inf")


# ---- Locally constant gradients, such as those of relu and pooling: their own derivative is 0 -----------------------

ZERO: Any = object()


class Joined(Function):
    """The gradient of a piecewise linear Function, which depends on that Function's arguments with slope 0."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        return (g, *[ZERO] * (len(ctx.edges) - 1))


def connect_to_arguments(node: Node, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Connect the gradients that the backward of `node` returned to the arguments of its forward, with slope 0."""
    sources = [edge for edge in node.edges if edge is not None]
    return tuple([_connect(item, sources) if isinstance(item, Tensor) else item for item in grads])


def _connect(gradient: Tensor, sources: list[Any]) -> Tensor:
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

    like: an array of the device on which the zeros of results are made.
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
        key = node.order, output
        if key in capture and key not in captured:
            captured[key] = [None, wrap(zeros(shape, dtype, like=like)), True]
        if node.order not in seen:
            seen.add(node.order)
            needs = None if paths is None else paths.get(node.order)
            if paths is None:
                stack += node.edges
            elif needs is not None:
                stack += [below for below, need in zip(node.edges, needs, strict=True) if need]
