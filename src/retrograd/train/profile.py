"""Time per layer, forward and backward, measured on one batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

from ..engine.function import Function
from ..engine.node import Node
from ..engine.tensor import Tensor
from ..nn.functional import cross_entropy
from ..nn.module import Module
from .leaves import Forward, tensors_in, unchanged, wrapped_forwards

__all__ = ["LayerTime", "profile"]

_REST = "loss and the rest"


@dataclass
class LayerTime:
    """One leaf module's share of a training step; times are medians in seconds."""

    path: str
    layer: str
    output: tuple[int, ...]
    parameters: int
    forward: float
    backward: float
    operators: dict[str, float] = field(default_factory=dict)  # backward time of each operator in it


def profile(
    model: Module,
    x: Tensor,
    target: Tensor,
    repeats: int = 10,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> list[LayerTime]:
    """Times of every leaf module of ``model`` in a training step on this batch, in order of execution; the last row is
    the loss and everything else outside of layers.

    Each layer's forward is timed as a whole, its backward operator by operator in the actual sweep. Parameters,
    buffers, gradients and the random generator are restored.

    Raises:
        ValueError: repeats is not positive.
    """
    if repeats < 1:
        raise ValueError(f"profile: repeats={repeats} must be at least 1")
    with unchanged(model):
        model.train()
        runs = [_run(model, x, target, loss) for _ in range(repeats + 1)][1:]  # the first compiles and warms up
    rows = []
    for position, first in enumerate(runs[0]):
        same = [run[position] for run in runs]
        rows.append(
            LayerTime(
                first.path,
                first.layer,
                first.output,
                first.parameters,
                median(row.forward for row in same),
                median(row.backward for row in same),
                {name: median(row.operators[name] for row in same) for name in first.operators},
            )
        )
    return rows


def _run(model: Module, x: Tensor, target: Tensor, loss_of: Callable[[Tensor, Tensor], Tensor]) -> list[LayerTime]:
    rows: list[LayerTime] = []
    owner: dict[int, LayerTime] = {}  # order of a node -> the layer that created it
    bookkeeping = [0.0, 0.0]  # seconds of this function's own work within forward and backward

    def wrap(path: str, module: Module, forward: Forward) -> Forward:
        description = module.describe()
        parameters = sum(parameter.numel() for parameter in module.parameters())

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = perf_counter()
            output = forward(*args, **kwargs)
            end = perf_counter()
            outputs = list(tensors_in(output))
            row = LayerTime(path, description, outputs[0].shape, parameters, end - start, 0.0)
            rows.append(row)
            known = {tensor.grad_fn.order for tensor in tensors_in(args) if tensor.grad_fn is not None}
            for tensor in outputs:
                owner.update((node.order, row) for node in _nodes(tensor, known | owner.keys()))
            bookkeeping[0] += perf_counter() - end
            return output

        return timed

    for parameter in model.parameters():
        parameter.grad = None
    with wrapped_forwards(model, wrap):
        start = perf_counter()
        loss = loss_of(model(x), target)
        forward = perf_counter() - start - bookkeeping[0]
    rest = LayerTime("", _REST, (), 0, max(forward - sum(row.forward for row in rows), 0.0), 0.0)

    def note(node: Node, start: float) -> None:
        end = perf_counter()
        row = owner.get(node.order, rest)
        name = node.function.__name__
        row.operators[name] = row.operators.get(name, 0.0) + end - start
        row.backward += end - start
        bookkeeping[1] += perf_counter() - end

    with _timed_backwards({node.function for node in _nodes(loss, set())}, note):
        start = perf_counter()
        loss.backward()
        backward = perf_counter() - start - bookkeeping[1]
    rest.backward += max(backward - sum(row.backward for row in rows) - rest.backward, 0.0)
    return [*rows, rest]


def _nodes(tensor: Tensor, known: set[int]) -> Iterator[Node]:
    """The nodes that computed ``tensor``, back to those whose order is ``known``."""
    seen, stack = set(known), [tensor.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node.order not in seen:
            seen.add(node.order)
            stack += [edge[0] for edge in node.edges if type(edge) is tuple]
            yield node


@contextmanager
def _timed_backwards(functions: set[type[Function]], note: Any) -> Iterator[None]:
    """Within the block, call ``note(node, start)`` after every backward of these Functions."""

    def timed(backward: Any) -> Any:
        def run(ctx: Node, *grads: Any) -> Any:
            start = perf_counter()
            result = backward(ctx, *grads)
            note(ctx, start)
            return result

        return staticmethod(run)

    own = {function: function.__dict__.get("backward") for function in functions}
    replacements = {function: timed(function.backward) for function in functions}
    try:
        for function, replacement in replacements.items():
            function.backward = replacement  # type: ignore[method-assign]
        yield
    finally:
        for function, backward in own.items():
            if backward is None:
                del function.backward
            else:
                function.backward = backward  # type: ignore[method-assign]
