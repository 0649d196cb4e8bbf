"""Inspecting the layers of a model while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..nn.module import Module
from ..ops.random.random import get_rng_state, set_rng_state

__all__ = ["leaves", "tensors_in", "unchanged", "wrapped_forwards"]

Forward = Callable[..., Any]


def leaves(model: Module) -> list[tuple[str, Module]]:
    """(path, module) of every module without children, in order."""
    return [(path, module) for path, module in model.named_modules() if next(module.children(), None) is None]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The Tensors in a module's arguments or result: itself, or those in nested tuples and lists."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)


@contextmanager
def wrapped_forwards(model: Module, wrap: Callable[[str, Module, Forward], Forward]) -> Iterator[None]:
    """Within the block, every leaf module's forward is ``wrap(path, module, forward)``."""
    before = [(module, module.__dict__.get("forward")) for _, module in leaves(model)]
    try:
        for path, module in leaves(model):
            module.__dict__["forward"] = wrap(path, module, module.forward)
        yield
    finally:
        for module, forward in before:
            if forward is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = forward


@contextmanager
def unchanged(model: Module) -> Iterator[None]:
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
