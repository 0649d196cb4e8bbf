"""Parts of a module that a step needs: parameters and buffers, collected anew for each step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...engine.tensor import Tensor
from ...nn.module import Module
from .sync_batch_norm import SyncBatchNorm


class Slot(NamedTuple):
    """A buffer of a module: its owner and name, and its tensor, shape and dtype before the batch."""

    module: Module
    name: str
    tensor: Tensor
    shape: tuple[int, ...]
    dtype: np.dtype

    def array(self) -> np.ndarray:
        """Return the current array of the buffer; forward may have assigned another tensor.

        Raises:
            ValueError: the shape or dtype has changed.
        """
        new = getattr(self.module.__dict__.get(self.name), "array", None)
        if not isinstance(new, np.ndarray) or new.shape != self.shape or new.dtype != self.dtype:
            kind = f"{new.dtype} {new.shape}" if isinstance(new, np.ndarray) else type(new).__name__
            raise ValueError(
                f"forward has replaced the buffer {self.name} of {type(self.module).__name__}, {self.dtype} "
                f"{self.shape}, by {kind}; with several shards a buffer keeps its shape and dtype"
            )
        return new

    def restore(self, values: np.ndarray) -> None:
        """Give the buffer these values, of one axis, in the tensor that it was."""
        array = self.tensor.array
        if array.shape == self.shape:
            array[...] = values.reshape(self.shape)
        else:
            self.tensor.array = values.reshape(self.shape).copy()
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
    averaged: list[Slot] = []
    alike: list[Slot] = []
    meets = False
    seen: set[int] = set()
    for each in module.modules():
        synchronised = isinstance(each, SyncBatchNorm)
        meets = meets or synchronised
        if not each.__dict__["_buffer_names"] and type(each).named_buffers is Module.named_buffers:
            continue
        for name, tensor in each.named_buffers(recurse=False):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                array = tensor.array
                (alike if synchronised else averaged).append(Slot(each, name, tensor, array.shape, array.dtype))
    trained: list[Tensor] = [parameter for parameter in module.parameters() if parameter.requires_grad]
    return Parts(trained, averaged, alike, meets)
