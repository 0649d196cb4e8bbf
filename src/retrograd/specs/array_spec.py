"""The specification of an array, which needs no memory, and helpers for memory addresses and for nested arguments.

Models: ``jax.ShapeDtypeStruct`` and its trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class Spec(NamedTuple):
    """The layout of an array that need not exist yet. strides: in bytes; None where they do not matter."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None = None


def spec_of(value: Any) -> Any:
    """The ``Spec`` of an array, or of each array in nested tuples and lists."""
    return mapped(value, lambda leaf: Spec(leaf.shape, leaf.dtype) if _is_array(leaf) else leaf)


def layout_of(value: Any) -> Any:
    """As ``spec_of``, with the strides."""
    return mapped(value, lambda leaf: Spec(leaf.shape, leaf.dtype, leaf.strides) if _is_array(leaf) else leaf)


def mapped(value: Any, change: Callable[[Any], Any], whole: tuple[type, ...] = (Spec,)) -> Any:
    """Tuples, lists and dicts with every leaf changed; a tuple of a class in ``whole`` is a leaf."""
    if isinstance(value, (tuple, list)) and not isinstance(value, whole):
        found = [mapped(each, change, whole) for each in value]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    if type(value) is dict:
        return {key: mapped(each, change, whole) for key, each in value.items()}
    return change(value)


def leaves(value: Any, whole: tuple[type, ...] = (Spec,)) -> Iterator[Any]:
    """Yield the leaves of nested tuples, lists and dicts, except None; a tuple of a class in ``whole`` is a leaf."""
    if isinstance(value, (tuple, list)) and not isinstance(value, whole):
        for each in value:
            yield from leaves(each, whole)
    elif isinstance(value, dict):
        for each in value.values():
            yield from leaves(each, whole)
    elif value is not None:
        yield value


def byte_bounds(shape: Sequence[int], strides: Sequence[int], size: int) -> tuple[int, int]:
    """Return the first byte of an array and the byte after the last, relative to element 0; size: bytes per element."""
    if 0 in shape:
        return 0, 0
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum([min(step, 0) for step in steps]), sum([max(step, 0) for step in steps]) + size


class ArrayInterface:
    """Exposes memory by its address to ``np.asarray``, and keeps its owner alive."""

    owner: Any

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__: dict[str, Any] = interface
        self.owner = owner


def arrays_in(value: Any) -> Iterator[Array]:
    """The arrays among the leaves."""
    found: list[Array] = []
    _gather((value,), found)
    return iter(found)


def _gather(values: Any, found: list[Array]) -> None:
    """Append the arrays among some values; without a generator for each, since all passes over steps need it."""
    for each in values:
        kind = type(each)
        if kind is Array:
            found.append(each)
        elif kind is tuple or kind is list:
            _gather(each, found)
        elif each is None or kind is float or kind is int:
            continue
        elif isinstance(each, dict):
            _gather(each.values(), found)
        elif isinstance(each, (tuple, list)):
            if kind is not Spec:
                _gather(each, found)
        elif _is_array(each):
            found.append(each)


def _is_array(value: Any) -> bool:
    """As ``arrays.is_array``; this package imports only NumPy."""
    return isinstance(value, np.ndarray) or hasattr(value, "to_host")
