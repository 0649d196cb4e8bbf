"""The end of a sweep, where gradients are stored: `grad_req`, and who owns which array.

An array that is stored as a gradient is shared with nothing: not with the upstream gradient, not with another
leaf's gradient, not with anything saved in the graph. What `grad` returns may share memory with the caller's
upstream gradients, but with nothing else. An array is copied only if something else still holds it, which its
reference count tells.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import getrefcount
from typing import Any

import numpy as np

from ..arrays import zeros
from . import arithmetic
from .function import Function
from .grad_mode import enable_grad
from .shared import shared
from .tensor import Tensor, wrap

_LINE = 64  # bytes of a cache line
Entry = list[Any]  # [tensor, its gradient, whether the sweep made the gradient's array]


def deliver(entries: Iterable[Entry], create_graph: bool) -> None:
    """Store the gradients in `grad`: "add" adds to what is there, "write" replaces it.

    Threads may have leaves in common: no gradient is lost.

    Raises:
        RuntimeError: `grad` no longer fits its tensor; nothing has been stored.
    """
    with shared.lock:
        _deliver(entries, create_graph)


def _deliver(entries: Iterable[Entry], create_graph: bool) -> None:
    for entry in entries:
        previous = entry[0]._grad
        if previous is not None and entry[0]._grad_req == "add":
            old, new = previous.array, entry[1].array
            if old.shape != new.shape or old.dtype != new.dtype:
                raise RuntimeError(
                    f"backward: cannot add a gradient of {new.dtype} and shape {new.shape} to a grad of "
                    f"{old.dtype} and shape {old.shape}; the tensor was changed after its last backward: "
                    "set its grad to None"
                )
        previous = old = new = None
    for entry in entries:
        tensor = entry[0]
        if tensor._grad is None or tensor._grad_req == "write":
            tensor._grad = own(entry, create_graph)
        elif create_graph:
            with enable_grad():
                tensor._grad = tensor._grad + entry[1]
        elif _holds_alone(tensor):
            arithmetic.accumulate(tensor._grad.array, entry[1].array)
        else:
            tensor._grad = wrap(arithmetic.add(tensor._grad.array, entry[1].array))


def own(entry: Entry, create_graph: bool) -> Tensor:
    """The gradient of an entry as a tensor whose array nothing else holds; with its history under create_graph."""
    if is_alone(entry) and (create_graph or not entry[1]._requires_grad):
        return entry[1]
    gradient = entry[1]
    if create_graph and gradient._requires_grad:
        with enable_grad():
            return Copy.apply(gradient)
    return wrap(arithmetic.copy(gradient.array))


def is_alone(entry: Entry) -> bool:
    """Whether nothing but the entry holds its gradient, and nothing but that its array."""
    return _references(entry) == _ALONE and type(entry[1]) is Tensor and _array_is_whole(entry[1].array)


class Copy(Function):
    """The same numbers in an array of their own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(arithmetic.copy(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g


def _holds_alone(tensor: Tensor) -> bool:
    """True if only `tensor` holds its grad, and that has no history and alone holds its array."""
    if _grad_references(tensor) != _ALONE_GRAD:
        return False
    gradient = tensor._grad
    return gradient is not None and not gradient._requires_grad and _array_is_whole(gradient.array)


def _array_is_whole(array: np.ndarray) -> bool:
    """True if the array alone holds its memory, shows each element of it once and is writable.

    It may begin up to a cache line after the start of the memory, where a kernel has aligned it.
    """
    base = array.base
    if base is not None:
        if type(base) is not np.ndarray or base.base is not None or not 0 <= base.nbytes - array.nbytes <= _LINE:
            return False
        base = None
        if _base_references(array) != _ALONE_BASE:
            return False
    return array.flags.writeable


# The reference counts of an object with one holder differ between versions of Python, so they are measured.


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


_ALONE, _ALONE_GRAD, _ALONE_BASE = _measure()
