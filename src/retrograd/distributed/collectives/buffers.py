"""Tensors as memory that MPI reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...engine.aliasing import mark
from ...engine.tensor import Tensor

_WIDER: dict[Any, Any] = {np.dtype(np.float16): np.dtype(np.float32), np.dtype(bool): np.dtype(np.uint8)}


class Buffer:
    """`array`: the elements of a tensor in one piece, of a type that MPI adds. `store` writes them back."""

    def __init__(self, tensor: Tensor, caller: str) -> None:
        self.tensor, self._caller = tensor, caller
        own = tensor.array
        self.array: np.ndarray = np.ascontiguousarray(own, _WIDER.get(own.dtype, own.dtype))

    def store(self) -> None:
        """Write `array` to the tensor, and record the change."""
        own = self.tensor.array
        if self.array is not own:
            own[...] = self.array
        mark((own,), self._caller)


def as_tensor(caller: str, name: str, value: Any) -> Tensor:
    """value, which must be a Tensor.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, Tensor):
        raise TypeError(f"{caller}: {name} must be a Tensor, got {type(value).__name__}")
    return value


def as_list(caller: str, name: str, values: Any, count: int) -> list[Tensor]:
    """values, which must be `count` Tensors: one for each process.

    Raises:
        TypeError, ValueError: they are something else.
    """
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{caller}: {name} must be a list of Tensors, got {type(values).__name__}")
    found = [as_tensor(caller, f"{name}[{place}]", value) for place, value in enumerate(values)]
    if len(found) != count:
        raise ValueError(f"{caller}: {name} has {len(found)} tensors, expected {count}: one for each process")
    return found


def same_kind(caller: str, first: tuple[str, Tensor], others: Sequence[tuple[str, Tensor]]) -> None:
    """Check that all tensors have the shape and dtype of the first.

    Raises:
        ValueError: one has not.
    """
    name, tensor = first
    for other, each in others:
        if each.array.shape != tensor.array.shape or each.array.dtype != tensor.array.dtype:
            raise ValueError(f"{caller}: {other} is {kind(each)}, {name} is {kind(tensor)}; make them the same")


def kind(tensor: Tensor) -> str:
    """ "float32 (3, 4)"."""
    return f"{tensor.array.dtype} {tuple(tensor.array.shape)}"
