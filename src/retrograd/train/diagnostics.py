"""Diagnostics of a model's layers: timing, and the first non-finite value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import no_grad
from ..engine.node import Node
from ..engine.tensor import Tensor
from ..nn.functional import cross_entropy
from ..nn.module import Module
from ..ops.random.random import get_rng_state, set_rng_state
from ..ops.signatures import advised

__all__ = [
    "LayerTime",
    "TrainingError",
    "bad_parameter",
    "first_not_finite",
    "leaves",
    "profile",
    "state_restored",
    "tensors_in",
    "wrapped_forwards",
]


# ---- Inspection of a model's layers while it runs -------------------------------------------------------------------

Forward = Callable[..., Any]


def leaves(model: Module) -> list[tuple[str, Module]]:
    """Return (path, module) of every module without children, in order."""
    return [(path, module) for path, module in model.named_modules() if next(module.children(), None) is None]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the Tensors in a module's arguments or result: the value itself, or those in nested tuples and lists."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


@contextmanager
def wrapped_forwards(model: Module, wrap: Callable[[str, Module, Forward], Forward]) -> Iterator[None]:
    """Within the block, replace every leaf module's forward with ``wrap(path, module, forward)``."""
    before = [(module, module.__dict__.get("forward")) for _, module in leaves(model)]
    try:
        for path, module in leaves(model):
            module.forward = wrap(path, module, module.forward)
        yield
    finally:
        for module, forward in before:
            if forward is None:
                del module.forward
            else:
                module.forward = forward


@contextmanager
def state_restored(model: Module) -> Iterator[None]:
    """Restore parameters, buffers, gradients, modes and the random generator after the block."""
    state = {name: np.copy(tensor.array) for name, tensor in model.state_dict().items()}
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    random = get_rng_state()
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        model.load_state_dict(state)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for module, training in modes:
            module.training = training
        set_rng_state(random)


# ---- Diagnosis of bad data or numbers, in one sentence --------------------------------------------------------------


class TrainingError(RuntimeError):
    """Training cannot continue; the message says where, why, and what is on disk."""


def first_not_finite(model: Module, x: Tensor) -> str:
    """Find the first NaN or infinity in ``model(x)``; return a clause for a message that names its place."""
    if not np.isfinite(x.array).all():
        return "the batch itself holds NaN or infinity"
    if clause := bad_parameter(model):
        return clause
    clauses: list[str] = []

    def wrap(path: str, module: Module, forward: Forward) -> Forward:
        def checked(*args: Any, **kwargs: Any) -> Any:
            output = forward(*args, **kwargs)
            if not all(np.isfinite(tensor.array).all() for tensor in tensors_in(output)):
                clauses.append(f"the first output that holds NaN or infinity is that of {path!r}, {module.describe()}")
            return output

        return checked

    with state_restored(model), wrapped_forwards(model, wrap), no_grad(), np.errstate(all="ignore"):
        model(x)
    return clauses[0] if clauses else "all layers' outputs are finite, only the loss is not"


def bad_parameter(model: Module) -> str | None:
    """Return a clause that names a parameter or buffer with NaN or infinity, for a message; None if there is none."""
    for name, tensor in model.state_dict().items():
        if tensor.array.dtype.kind == "f" and not np.isfinite(tensor.array).all():
            return f"{name} holds NaN or infinity since the previous step"
    return None


# ---- Time per layer, forward and backward, measured on one batch ----------------------------------------------------

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
    operators: dict[str, float] = field(default_factory=dict)  # backward time of each operator in the layer


@advised
def profile(
    model: Module,
    x: Tensor,
    target: Tensor,
    repeats: int = 10,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> list[LayerTime]:
    """Time every leaf module of ``model`` in a training step on this batch.

    Rows are in order of execution. The last row is the loss and everything else outside of layers. Each layer's forward
    is timed as a whole, its backward operator by operator within the real backward pass. Parameters, buffers, gradients
    and the random generator are restored.

    Raises:
        ValueError: repeats is not positive.
    """
    if repeats < 1:
        raise ValueError(f"profile: repeats={repeats} must be at least 1")
    with state_restored(model):
        model.train()
        runs = [_run(model, x, target, loss) for _ in range(repeats + 1)][1:]  # the first run compiles and warms up
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
    """Yield the nodes that computed ``tensor``, back to those whose order is ``known``."""
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
