"""What a step needs to know of a module, which is found anew for each step, in one walk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...engine.tensor import Tensor
from ...nn.module import Module
from .sync_batch_norm import SyncBatchNorm


class Slot(NamedTuple):
    """Where a module has a buffer."""

    module: Module
    name: str
    tensor: Tensor

    def array(self) -> np.ndarray:
        """What the buffer holds now; forward may have assigned another tensor.

        Raises:
            ValueError: it has another shape or dtype.
        """
        now = self.module.__dict__.get(self.name)
        if now is self.tensor:
            return self.tensor.array
        old = self.tensor.array
        new = getattr(now, "array", None)
        if not isinstance(new, np.ndarray) or (new.shape, new.dtype) != (old.shape, old.dtype):
            kind = type(now).__name__ if not isinstance(new, np.ndarray) else f"{new.dtype} {new.shape}"
            raise ValueError(
                f"forward has replaced the buffer {self.name} of {type(self.module).__name__}, {old.dtype} {old.shape}"
                f", by {kind}; with several shards a buffer keeps its shape and dtype"
            )
        return new

    def restore(self, values: np.ndarray) -> None:
        """Give the buffer these values, of one axis, in the tensor that it was."""
        array = self.tensor.array
        array[...] = values.reshape(array.shape)
        self.module.__dict__[self.name] = self.tensor


class Parts(NamedTuple):
    """trained: the parameters that require a gradient. averaged: the buffers that each shard changes in its own way.
    alike: those of SyncBatchNorm, which all shards change alike. meets: shards need numbers of each other.
    """

    trained: list[Tensor]
    averaged: list[Slot]
    alike: list[Slot]
    meets: bool


def parts_of(module: Module) -> Parts:
    """The parts of a module and of all modules below it, each once."""
    trained: list[Tensor] = []
    averaged: list[Slot] = []
    alike: list[Slot] = []
    meets = False
    seen: set[int] = set()
    for each in module.modules():
        members = each.__dict__
        for name in members["_parameter_names"]:
            parameter = members[name]
            if parameter is not None and parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                trained.append(parameter)
        synchronised = isinstance(each, SyncBatchNorm)
        meets = meets or synchronised
        for name in members["_buffer_names"]:
            tensor = members[name]
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                (alike if synchronised else averaged).append(Slot(each, name, tensor))
    return Parts(trained, averaged, alike, meets)
