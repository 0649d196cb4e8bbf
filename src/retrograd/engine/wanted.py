"""The tensors whose gradients a sweep is asked for, and their places in the graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from .arguments import as_truth
from .deliver import Entry
from .refusals import as_tuple
from .tensor import Tensor


def as_wanted(inputs: Any, caller: str) -> tuple[Tensor, ...]:
    """The tensors `inputs` as a tuple.

    Raises:
        TypeError, ValueError: it is empty, or holds something else.
        RuntimeError: one does not require a gradient.
    """
    wanted = as_tuple(inputs, caller, "inputs")
    for position, tensor in enumerate(wanted):
        if not tensor._requires_grad:
            raise RuntimeError(
                f"{caller}: inputs[{position}] does not require a gradient; set requires_grad=True before using it"
            )
    return wanted


def places_of(wanted: tuple[Tensor, ...]) -> set[tuple[int, int]]:
    """(order of the node, which output) of those that are results of operations."""
    return {(tensor._edge[0].order, tensor._edge[1]) for tensor in wanted if tensor._edge is not None}


def entries_of(
    wanted: tuple[Tensor, ...], leaves: Iterable[Entry], captured: Mapping[tuple[int, int], Entry]
) -> list[Entry]:
    """The gradients to deliver to these tensors alone: of leaves, and of results of operations, which were captured."""
    these = {id(tensor): tensor for tensor in wanted}
    found = [entry for entry in leaves if id(entry[0]) in these]
    for tensor in these.values():
        edge = tensor._edge
        entry = None if edge is None else captured.get((edge[0].order, edge[1]))
        if entry is not None:
            found.append([tensor, entry[1], False])
    return found


def check_grad_options(only_inputs: Any, is_grads_batched: Any) -> None:
    """Refuse or warn of options of `grad` that have one value, as PyTorch does.

    Raises:
        RuntimeError: is_grads_batched is True.
    """
    if not as_truth("grad", "only_inputs", only_inputs):
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use retrograd.autograd.backward.",
            FutureWarning,
            stacklevel=3,
        )
    if as_truth("grad", "is_grads_batched", is_grads_batched):
        raise RuntimeError("grad: is_grads_batched=True is not supported; call grad for each row of grad_outputs")
