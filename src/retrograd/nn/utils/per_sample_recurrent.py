"""Per-sample gradients of recurrent layers and cells: each sequence runs by itself once more.

A sequence's gradient to the weights is a sum over its steps, which the fused kernels add up over the batch as well. So
the rule runs forward and backward of every sequence alone, from the gradient of its own outputs. Backpropagation is
linear in that gradient: each Tensor of the output is taken by itself, and the results are added.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.grad_mode import enable_grad
from ...engine.sweep import grad
from ...engine.tensor import Tensor, wrap
from ...ops.shape import Reshape
from ..module import Module
from .per_sample_rules import Call, register_named_rule
from .truncation import like

__all__ = ["apart", "is_recurrent", "tensors_in"]

_KINDS = ("RNN", "LSTM", "GRU")
_BASES = ("RNNBase", "RNNCellBase", "ConvCell")
_CHANCES = ("dropout", "variational_dropout", "zoneout", "recurrent_dropout")


def is_recurrent(layer: Module) -> bool:
    """Whether the rule here is the layer's."""
    return any(kind.__name__ in _BASES and kind.__module__.startswith("retrograd.nn.") for kind in type(layer).__mro__)


def tensors_in(result: Any) -> list[Tensor]:
    """The Tensors of a result, also of tuples inside it."""
    if isinstance(result, (tuple, list)):
        return [tensor for item in result for tensor in tensors_in(item)]
    return [result] if isinstance(result, Tensor) else []


def apart(result: Any) -> Any:
    """The same result in Tensors that nothing else is made of."""
    if isinstance(result, (tuple, list)):
        return like(result, [apart(item) for item in result])
    return Reshape.apply(result, result.array.shape) if isinstance(result, Tensor) else result


def _prepare(call: Call) -> None:
    layer, sequences = call.layer, hasattr(call.layer, "batch_first")
    if call.x.array.ndim != getattr(layer, "ndim", 0) + 2 + sequences:
        raise ValueError(f"per_sample_gradients: {layer.describe()} was called without a batch axis; call it with one")
    what = layer.layers[0] if hasattr(layer, "layers") else getattr(layer, "what", None)
    drawn = [key for key in _CHANCES if np.any(getattr(layer, key, getattr(what, key, 0.0)))]
    if layer.training and drawn:
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} draws by {' and '.join(drawn)} in training, which is not drawn "
            "again; call eval() on it, or leave that out"
        )
    call.axes = (_axis(layer), _output_axis(call))


def _axis(layer: Any) -> int:
    """The batch axis of the input."""
    return 1 if hasattr(layer, "batch_first") and not layer.batch_first else 0


def _state_axis(layer: Any) -> int:
    return 1 if hasattr(layer, "layers") else 0


def _output_axis(call: Call) -> int:
    """The batch axis of the output: y and the cells of every step lie as the input, states in their own way."""
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
    many = None if lengths is None else np.asarray(lengths.array if isinstance(lengths, Tensor) else lengths)
    wanted = {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad and p.grad_req != "null"}
    found = {name: np.zeros((count, *p.array.shape), p.array.dtype) for name, p in wanted.items()}
    for n in range(count):
        extra = {} if many is None else {"lengths": many[n : n + 1]}
        with enable_grad():
            result = layer.forward(_alone(call.x, n, call.axes[0]), _alone(hx, n, _state_axis(layer)), **extra)
            y = tensors_in(result)[call.place]
            pieces = grad(y, list(wanted.values()), _alone(g, n, call.axes[1]), allow_unused=True)
        for name, piece in zip(wanted, pieces, strict=True):
            if piece is not None:
                found[name][n] = piece.array
    return {name: wrap(rows) for name, rows in found.items()}


for _name in _BASES:
    register_named_rule(_name, _rule, _prepare)
