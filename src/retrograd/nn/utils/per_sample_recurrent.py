"""Per-sample gradients of recurrent layers and cells: each sequence is run again on its own.

A sequence's gradient to the weights is a sum over its steps, but the fused kernels also sum over the batch. So the rule
runs forward and backward for each sequence, from the gradient of its outputs. Backpropagation is linear in that
gradient: each Tensor of the output is handled separately, and the results are added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.sweep import grad
from ...engine.tensor import Tensor, wrap
from ...ops.shape.shape import Reshape
from ..module import Module
from .per_sample_ruled import again
from .per_sample_rules import Call, register_named_rule
from .truncation import like

__all__ = ["separated", "is_recurrent", "tensors_in"]

_KINDS = ("RNN", "LSTM", "GRU")
_BASES = ("RNNBase", "RNNCellBase", "ConvCell")
_CHANCES = ("dropout", "variational_dropout", "zoneout", "recurrent_dropout")


def is_recurrent(layer: Module) -> bool:
    """Whether this module's rule applies to the layer."""
    return any(kind.__name__ in _BASES and kind.__module__.startswith("retrograd.nn.") for kind in type(layer).__mro__)


def tensors_in(result: Any) -> list[Tensor]:
    """The Tensors of a result, including those in nested tuples."""
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in tensors_in(item)]
    return [result] if isinstance(result, Tensor) else []


def separated(result: Any) -> Any:
    """The result as views, so that no Tensor in it is computed from another."""
    if isinstance(result, (tuple, list)):
        return like(result, [separated(item) for item in result])
    return Reshape.apply(result, result.array.shape) if isinstance(result, Tensor) else result


def _prepare(call: Call) -> None:
    layer, sequences = call.layer, hasattr(call.layer, "batch_first")
    if call.x.array.ndim != getattr(layer, "ndim", 0) + 2 + sequences:
        raise ValueError(f"per_sample_gradients: {layer.describe()} was called without a batch axis; call it with one")
    spec = layer.layers[0] if hasattr(layer, "layers") else getattr(layer, "spec", None)
    drawn = [key for key in _CHANCES if np.any(getattr(layer, key, getattr(spec, key, 0.0)))]
    if layer.training and drawn:
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} draws random numbers for {' and '.join(drawn)} in training, "
            "which cannot be repeated; call eval() on it, or turn that off"
        )
    call.axes = (_axis(layer), _output_axis(call))


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


def _alone(value: Any, n: int, axis: int) -> Any:
    """Sample n of a Tensor, or of the Tensors of a tuple, without its graph."""
    if isinstance(value, (tuple, list)):
        return type(value)(_alone(item, n, axis) for item in value)
    if not isinstance(value, Tensor):
        return value
    return wrap(value.array[(slice(None),) * axis + (slice(n, n + 1),)])


def _rule(call: Call, g: Tensor) -> dict[str, Tensor]:
    layer, count = call.layer, call.x.array.shape[call.axes[0]]
    hx, lengths = [*call.args[1:], None, None][:2]
    hx, lengths = call.kwargs.get("hx", hx), call.kwargs.get("lengths", lengths)
    counts = None if lengths is None else np.asarray(lengths.array if isinstance(lengths, Tensor) else lengths)
    wanted = {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad and p.grad_req != "null"}
    rows = {name: np.zeros((count, *p.array.shape), p.array.dtype) for name, p in wanted.items()}
    for n in range(count):
        extra = {} if counts is None else {"lengths": counts[n : n + 1]}
        result = again(call, _alone(call.x, n, call.axes[0]), _alone(hx, n, _state_axis(layer)), **extra)
        y = tensors_in(result)[call.place]
        pieces = grad(y, list(wanted.values()), _alone(g, n, call.axes[1]), allow_unused=True)
        for name, piece in zip(wanted, pieces, strict=True):
            if piece is not None:
                rows[name][n] = piece.array
    return {name: wrap(array) for name, array in rows.items()}


for _name in _BASES:
    register_named_rule(_name, _rule, _prepare)
