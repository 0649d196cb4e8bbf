"""Saved tensors: stored by a node in forward, and restored for its backward.

An argument of forward is saved as a pair (tensor, the array it held then), an ndarray as it is. An output and a tensor
made inside forward have stand-ins, whose `restore` gives the tensor; a sparse tensor is its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .grad_mode import INFERENCE, thread
from .node import Node
from .tensor import Tensor, wrap


class SavedOutput:
    """Stands for an output among the saved tensors: the tensor itself would hold the node that holds it."""

    __slots__ = ("array", "index")

    def __init__(self, array: np.ndarray, index: int) -> None:
        self.array = array
        self.index = index

    def restore(self, node: Node) -> Tensor:
        tensor = wrap(self.array)
        tensor._requires_grad = True
        tensor._edge = (node, self.index, self.array.shape, self.array.dtype)
        return tensor


class SavedIntermediate:
    """Stands for a floating tensor made inside forward: its own dependence on the inputs was not recorded."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def restore(self, node: Node) -> Tensor:
        tensor = wrap(self.array)
        return tensor._as_intermediate(node) if thread.mode.enabled else tensor


def classify_saved(node: Node, args: tuple[Any, ...], outputs: tuple[Tensor, ...]) -> None:
    """Replace saved tensors by pairs with their arrays, or by stand-ins.

    Raises:
        TypeError: something was saved that is neither a Tensor nor an ndarray nor None.
        RuntimeError: a tensor made in inference_mode was saved.
    """
    saved: list[Any] = []
    arguments = {id(arg) for arg in args}
    for position, item in enumerate(node.saved):
        stand_in: Any = item
        if isinstance(item, Tensor):
            if item._grad_req is INFERENCE:
                raise RuntimeError(
                    f"{node.function.__name__}: a tensor made in inference_mode cannot be saved for a backward; use "
                    "tensor.clone() outside inference_mode, or no_grad instead of inference_mode"
                )
            stand_in = item, item.array
            if id(item) not in arguments:
                for index, output in enumerate(outputs):
                    if output is item:
                        if node.outputs is None or output._edge is not None:
                            stand_in = SavedOutput(item.array, index)
                        break
                else:
                    # One that requires a gradient came from outside forward and has its own history.
                    if not item._requires_grad and item.array.dtype.kind == "f":
                        stand_in = SavedIntermediate(item.array)
        elif item is not None and not hasattr(item, "__array_function__") and not hasattr(item, "restore"):
            raise TypeError(
                f"{node.function.__name__}: save_for_backward takes Tensors, ndarrays and None, "
                f"argument {position} is {type(item).__name__}; set it as an attribute: ctx.name = value"
            )
        saved.append(stand_in)
    node.saved = saved
