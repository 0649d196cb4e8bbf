"""Per-sample gradients of recurrent layers and cells: each sequence is run again on its own.

A sequence's gradient to the weights is a sum over its steps, but the fused kernels also sum over the batch. So the rule
runs forward and backward for each sequence, from the gradient of its outputs. Backpropagation is linear in that
gradient: each Tensor of the output is handled separately, and the results are added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import from_host
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ..module import Module
from .per_sample_alone import again, gradients, part
from .per_sample_rules import RECURRENT, Call, register_named_rule

__all__ = ["is_recurrent"]

_CHANCES = ("dropout", "variational_dropout", "zoneout", "recurrent_dropout")


def is_recurrent(layer: Module) -> bool:
    """Whether this module's rule applies to the layer."""
    kinds = type(layer).__mro__
    return any(kind.__name__ in RECURRENT and kind.__module__.startswith("retrograd.nn.") for kind in kinds)


def _prepare(call: Call) -> np.ndarray:
    layer, sequences = call.layer, hasattr(call.layer, "batch_first")
    if call.x.array.ndim != getattr(layer, "ndim", 0) + 2 + sequences:
        raise ValueError(f"per_sample_gradients: {layer.describe()} was called without a batch axis; call it with one")
    spec = layer.layers[0] if hasattr(layer, "layers") else getattr(layer, "spec", None)
    drawn = [key for key in _CHANCES if _is_set(getattr(layer, key, getattr(spec, key, 0.0)))]
    if layer.training and drawn:
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} draws random numbers for {' and '.join(drawn)} in training, "
            "which cannot be repeated; call eval() on it, or turn that off"
        )
    call.axes = (_axis(layer), _output_axis(call))
    found: np.ndarray = kernels.duplicate(call.y.array)
    return found


def _is_set(chances: Any) -> bool:
    return any(chances) if isinstance(chances, (tuple, list)) else bool(chances)


def _axis(layer: Any) -> int:
    """The batch axis of the input."""
    return 1 if hasattr(layer, "batch_first") and not layer.batch_first else 0


def _state_axis(layer: Any) -> int:
    return 1 if hasattr(layer, "layers") else 0


def _output_axis(call: Call) -> int:
    """The batch axis of the output: for y and the cells of every step that of the input, for states their own."""
    layer = call.layer
    states = 0
    if hasattr(layer, "layers") and layer.return_states:
        tensors = 1 if layer.has_even_states else layer.num_layers
        states = tensors * (2 if layer.mode == "LSTM" else 1)
    of_steps = call.place in (0, states + 1) if hasattr(layer, "layers") else call.place == 0
    return _axis(layer) if of_steps else _state_axis(layer)


def _rule(call: Call, g: Tensor) -> dict[str, Tensor]:
    layer, count = call.layer, call.x.array.shape[call.axes[0]]
    hx, lengths = [*call.args[1:], None, None][:2]
    hx, lengths = call.kwargs.get("hx", hx), call.kwargs.get("lengths", lengths)
    counts = None if lengths is None else lengths.array if isinstance(lengths, Tensor) else from_host(lengths)

    def run(n: int) -> Any:
        extra = {} if counts is None else {"lengths": counts[n : n + 1]}
        return again(call, part(call.x, n, call.axes[0]), part(hx, n, _state_axis(layer)), **extra)

    return gradients(call, run, g, count)


for _name in RECURRENT:
    register_named_rule(_name, _rule, _prepare)
