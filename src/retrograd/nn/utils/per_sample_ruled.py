"""Per-sample gradients of calls whose backward a rule replaces: the call is run again for each sample on its own.

A rule may do anything with the gradient of a batch, so the gradient of one sample is what the rule makes of that sample
alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.grad_mode import enable_grad, thread
from ...engine.sweep import grad
from ...engine.tensor import Tensor, wrap
from ..module import Module
from ..parameter import Parameter
from ..ruled import call_with_rule, has_rule
from .per_sample_rules import Call, mixes_samples

__all__ = ["again", "check_alone", "is_ruled", "one_by_one", "own_parameters"]


def is_ruled(layer: Module) -> bool:
    """Whether a rule of the layer, or of an operator in it, holds now."""
    rules = thread.mode.rules
    return has_rule(layer) or (rules is not None and bool(rules.overrides))


def own_parameters(layer: Module) -> dict[str, Parameter]:
    """The layer's own parameters that require a gradient; with those of its children if it has a rule."""
    named = layer.named_parameters(recurse=has_rule(layer))
    return {name: p for name, p in named if p.requires_grad and p.grad_req != "null"}


def again(call: Call, *args: Any, **kwargs: Any) -> Any:
    """The result of the layer for other arguments, under the rules that held for the call."""
    mode, forward = thread.mode, call.layer.forward
    before, mode.rules = mode.rules, call.rules
    try:
        with enable_grad():
            if has_rule(call.layer):
                return call_with_rule(call.layer, forward, *args, **kwargs)
            return forward(*args, **kwargs)
    finally:
        mode.rules = before


def check_alone(call: Call) -> None:
    """Refuse a call that cannot be run for each sample on its own.

    Raises:
        ValueError: it has other Tensors than its input, normalises over the batch, or draws random numbers.
    """
    layer, reason = call.layer, ""
    if any(isinstance(value, Tensor) for value in (*call.args[1:], *call.kwargs.values())):
        reason = "was called with more than one Tensor"
    elif any(map(mixes_samples, layer.modules())):
        reason = "normalises over the batch, which mixes the samples; call eval() on it"
    elif any("Dropout" in type(each).__name__ and each.training for each in layer.modules()):
        reason = "draws random numbers, which cannot be repeated; call eval() on it"
    if reason:
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} has a backward rule, so it is run for each sample on its own, "
            f"but it {reason}"
        )


def one_by_one(call: Call, g: Tensor) -> dict[str, Tensor]:
    """The gradients of the parameters for each sample."""
    wanted = own_parameters(call.layer)
    rows = {name: np.zeros((len(g.array), *p.array.shape), p.array.dtype) for name, p in wanted.items()}
    for n in range(len(g.array)):
        y = again(call, wrap(call.x.array[n : n + 1]), *call.args[1:], **call.kwargs)
        if not y.requires_grad:
            continue
        pieces = grad(y, list(wanted.values()), wrap(g.array[n : n + 1]), allow_unused=True)
        for name, piece in zip(wanted, pieces, strict=True):
            if piece is not None:
                rows[name][n] = piece.array
    return {name: wrap(array) for name, array in rows.items()}
