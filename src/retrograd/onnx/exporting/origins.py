"""Origins of the values that a model computes: an input, a parameter, or a recorded call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ..errors import OnnxError


@dataclass(frozen=True)
class Named:
    """An input of the model, or one of its parameters or buffers."""

    name: str


@dataclass(frozen=True)
class Result:
    """Output number ``place`` of call number ``call``."""

    call: int
    place: int


@dataclass(frozen=True, eq=False)
class Fixed:
    """A Tensor that depends on no input and no parameter."""

    array: np.ndarray


@dataclass(frozen=True)
class Lost:
    """A value that the function ``maker`` computed from an input, in the module ``path``, without a recorded call."""

    maker: str
    path: str


@dataclass(frozen=True)
class Reshaped:
    """The memory of another value, in this shape; ``wide``: and broadcast to that one."""

    origin: Named | Result | Lost
    shape: tuple[int, ...]
    wide: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Known:
    """A value that was seen: where it comes from, and what it was."""

    origin: Named | Result | Lost | Reshaped
    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Call:
    """One call of ``operator``, a Function or another function of this package, in the module ``path``.

    arguments, named: of a Function by position, of another function by name. A tensor or array among them that was seen
    is a Known, another tensor is Fixed. outputs: None for what is no tensor or array.
    """

    operator: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    outputs: tuple[np.ndarray | None, ...]
    path: str


def all_arrays(value: Any) -> Iterator[np.ndarray]:
    """The tensors and arrays in what a function returned."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from all_arrays(each)
    elif (array := array_of(value)) is not None:
        yield array


def array_of(value: Any) -> np.ndarray | None:
    array = value.array if isinstance(value, Tensor) else value
    return array if isinstance(array, np.ndarray) else None


def has_known(value: Any) -> bool:
    return isinstance(value, Known) or (isinstance(value, (tuple, list)) and any(map(has_known, value)))


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, Known):
        yield value.array
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from arrays_in(each)
    elif isinstance(value, dict):
        yield from arrays_in(list(value.values()))


def required(calls: list[Call], outputs: list[Any]) -> list[int]:
    """The numbers of the calls that the outputs depend on, in order.

    Raises:
        OnnxError: an output depends on nothing that was seen.
    """
    wanted: set[int] = set()
    for place, output in enumerate(outputs):
        if not isinstance(output, Known):
            raise OnnxError(f"onnx.export: output {place} of the model depends neither on an input nor on a parameter")
        wanted |= _calls_of(output)
    for number in range(len(calls) - 1, -1, -1):
        if number in wanted:
            wanted |= _calls_of((calls[number].arguments, list(calls[number].named.values())))
    return sorted(wanted)


def _calls_of(value: Any) -> set[int]:
    if isinstance(value, Known):
        origin = value.origin.origin if isinstance(value.origin, Reshaped) else value.origin
        return {origin.call} if isinstance(origin, Result) else set()
    if isinstance(value, (tuple, list)):
        return set().union(*map(_calls_of, value)) if value else set()
    return set()
