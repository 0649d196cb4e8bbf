"""Per-sample gradients of layers without a rule: the layer runs again for each sample.

This works for any forward, and for backward rules, which may do anything with the gradient of a batch. Each second run
must reproduce that sample's output: if not, the layer mixes the samples or draws random numbers, and is refused.

In a recurrent layer, a sequence's gradient to the weights is a sum over its steps, but the fused kernels also sum over
the batch. So the rule runs forward and backward for each sequence, from the gradient of its outputs. Backpropagation is
linear in that gradient: each Tensor of the output is handled separately, and the results are added.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import Any

import numpy as np

from ...arrays import from_host, zeros
from ...engine.aliasing import check_unchanged
from ...engine.backward_pass import grad
from ...engine.backward_rules import overridden
from ...engine.grad_mode import enable_grad
from ...engine.hooks import run_leaf_hooks, without_hooks
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ...ops.shape.shape import Reshape
from ..module import Module
from ..module_hooks import call_with_rule, has_rule
from ..parameter import Parameter
from .per_sample_rules import RECURRENT, Call, mixes_samples, register_named_rule, rule_named, rule_of
from .truncated_bptt import like

__all__ = [
    "again",
    "buffers_of",
    "first_axis",
    "free_axes",
    "gradients",
    "hooked",
    "is_recurrent",
    "has_active_rule",
    "one_by_one",
    "output_axis",
    "own_parameters",
    "part",
    "prepare_alone",
    "separated",
    "tensors_in",
]


# ---- Layers without a rule: run a call again for each sample alone --------------------------------------------------

Buffers = list[tuple[dict[str, Any], str, Tensor, np.ndarray]]  # members of a module, name, buffer, copy


def has_active_rule(layer: Module) -> bool:
    """Return whether a backward rule of the layer, or of an operator in it, is active."""
    return has_rule(layer) or bool(overridden())


def own_parameters(layer: Module, recurse: bool) -> dict[str, Parameter]:
    """Return the layer's parameters that require a gradient; with those of its children if ``recurse``."""
    named = layer.named_parameters(recurse=recurse)
    return {name: p for name, p in named if p.requires_grad and p.grad_req != "null"}


def tensors_in(value: Any) -> list[Tensor]:
    """Return the Tensors of a value, including those in nested tuples, lists and dicts."""
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors_in(item)]
    return [value] if isinstance(value, Tensor) else []


def separated(result: Any) -> Any:
    """Return the result as views, so that no Tensor in it is computed from another."""
    if isinstance(result, (tuple, list)):
        return like(result, [separated(item) for item in result])
    if type(result) is dict:
        return {key: separated(item) for key, item in result.items()}
    return Reshape.apply(result, result.array.shape) if isinstance(result, Tensor) else result


def buffers_of(layer: Module) -> Buffers:
    """Return copies of the layer's buffers, from which the second runs start as the first one did."""
    found: Buffers = []
    for module in layer.modules():
        members = module.__dict__
        for name in members["_buffer_names"]:
            tensor = members[name]
            if tensor is not None:
                found.append((members, name, tensor, kernels.duplicate(tensor.array)))
    return found


def again(call: Call, *args: Any, **kwargs: Any) -> Any:
    """Return the result of the layer for other arguments, under the rules that were active for the call."""
    forward = call.layer.forward
    now = [(members, name, members.get(name)) for members, name, _, _ in call.buffers]
    for members, name, _, copy in call.buffers:
        members[name] = wrap(kernels.duplicate(copy))
    try:
        with call.rules.in_force(None), enable_grad():
            if has_rule(call.layer):
                return call_with_rule(call.layer, forward, *args, **kwargs)
            return forward(*args, **kwargs)
    finally:
        for members, name, tensor in now:
            members[name] = tensor


def check_alone(call: Call) -> None:
    """Refuse a call that cannot be run for each sample on its own.

    Raises:
        ValueError: it normalizes over the batch, draws random numbers, or counts entries over the batch.
    """
    layer, reason = call.layer, ""
    layers = list(layer.modules())
    if any(map(mixes_samples, layers)):
        reason = "normalizes over the batch, which mixes the samples; call eval() on it"
    elif any("Dropout" in type(each).__name__ and each.training for each in layers):
        reason = "draws random numbers, which cannot be repeated; call eval() on it"
    elif any(getattr(each, "scale_grad_by_freq", False) for each in layers):
        reason = "has scale_grad_by_freq=True, which counts over the whole batch; set it to False"
    if reason:
        why = "has a backward rule" if has_active_rule(layer) else "has no rule for its forward"
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} {why}, so it is run for each sample on its own, but it {reason}"
        )


def prepare_alone(call: Call) -> np.ndarray:
    """Find the batch axes of a call, and keep its output to compare the second runs with."""
    check_alone(call)
    axis = 1 if getattr(call.layer, "batch_first", True) is False else 0
    call.axes = axis, axis
    return kernels.duplicate(call.y.array)


def output_axis(call: Call, count: int) -> int:
    """Return the batch axis of an output of a layer without a rule: that of the input if it can be, else axis 0."""
    axis, shape = call.axes[1], call.y.array.shape
    if _is_attention(call.layer) and call.place == 1:  # the weights
        return 0
    return axis if axis < len(shape) and shape[axis] == count else 0


def _is_attention(layer: Any) -> bool:
    return hasattr(layer, "num_heads") and any(
        kind.__name__ == "MultiheadAttention" and kind.__module__.startswith("retrograd.nn.")
        for kind in type(layer).__mro__
    )


def free_axes(call: Call) -> int:
    """Return how many of the first two axes of the input may be the batch axis; 0 if it is certain."""
    layer, x = call.layer, call.x.array
    rule = rule_of(layer)
    if rule is None or has_active_rule(layer):
        axes = 0 if hasattr(layer, "batch_first") else x.ndim
    elif rule == rule_named("Linear"):
        axes = x.ndim - 1
    elif rule == rule_named("Embedding"):
        axes = x.ndim
    elif rule == rule_named("LayerNorm") and hasattr(layer, "normalized_shape"):
        axes = x.ndim - layer.weight.array.ndim
    else:
        axes = 0
    return min(axes, 2)


def first_axis(call: Call, g: Tensor) -> tuple[Call, Tensor]:
    """Return the call and the gradient with the samples on axis 0."""
    axis = call.axes[0]
    if axis == 0:
        return call, g
    saved = wrap(call.saved.array.swapaxes(0, axis)) if isinstance(call.saved, Tensor) else call.saved
    moved = replace(call, x=wrap(call.x.array.swapaxes(0, axis)), saved=saved)
    return moved, wrap(g.array.swapaxes(0, axis))


def part(value: Any, n: int, axis: int) -> Any:
    """Return sample n of a Tensor, or of the Tensors of a container, without its graph."""
    if isinstance(value, (tuple, list)):
        return like(value, [part(item, n, axis) for item in value])
    if type(value) is dict:
        return {key: part(item, n, axis) for key, item in value.items()}
    return wrap(value.array[(slice(None),) * axis + (slice(n, n + 1),)]) if isinstance(value, Tensor) else value


def _argument(value: Any, n: int, axis: int, count: int) -> Any:
    """Return sample n of an argument; a Tensor without an axis of ``count`` samples is the same for all of them."""
    if isinstance(value, (tuple, list)):
        return like(value, [_argument(item, n, axis, count) for item in value])
    if type(value) is dict:
        return {key: _argument(item, n, axis, count) for key, item in value.items()}
    if not isinstance(value, Tensor):
        return value
    shape = value.array.shape
    for place in (axis, 0):
        if place < len(shape) and shape[place] == count:
            return part(value, n, place)
    return wrap(value.array)


def _attention_arguments(call: Call, n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return sample n of the arguments of MultiheadAttention, whose masks have different axes."""
    names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
    given = dict(zip(names, call.args, strict=False)) | call.kwargs
    rest = call.args[len(names) :]
    axis, heads = call.axes[0], call.layer.num_heads
    for name in names[:3]:
        given[name] = part(given[name], n, axis)
    padding, mask = given.get("key_padding_mask"), given.get("attn_mask")
    if isinstance(padding, Tensor) and padding.array.ndim == 2:
        given["key_padding_mask"] = part(padding, n, 0)
    if isinstance(mask, Tensor) and mask.array.ndim == 3:
        given["attn_mask"] = wrap(mask.array[n * heads : (n + 1) * heads])
    if rest:
        return (*(given.pop(name, None) for name in names), *rest), given
    return (), given


def _arguments(call: Call, n: int, count: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if _is_attention(call.layer):
        return _attention_arguments(call, n)
    args = tuple(_argument(value, n, call.axes[0], count) for value in call.args)
    return args, {name: _argument(value, n, call.axes[0], count) for name, value in call.kwargs.items()}


def _check_row(call: Call, y: Any, n: int) -> None:
    """Check that sample n has the same output alone as in the batch; ``call.saved`` holds that of the batch.

    Raises:
        ValueError: the outputs differ.
    """
    whole: np.ndarray = call.saved
    axis = call.axes[1]
    expected = whole[(slice(None),) * axis + (slice(n, n + 1),)]
    tolerance = 1e-3 if whole.dtype in (np.float32, np.complex64) else 1e-7
    same = isinstance(y, Tensor) and y.array.shape == expected.shape
    if not same or not kernels.agrees(y.array, expected, tolerance):
        raise ValueError(
            f"per_sample_gradients: {call.layer.describe()} is run for each sample on its own, but its output for "
            f"sample {n} alone differs from row {n} of its output for the batch: its forward mixes the samples, draws "
            "random numbers, or an argument has the samples on another axis; change that, or freeze its parameters: "
            "requires_grad_(False)"
        )


def gradients(call: Call, run: Any, g: Tensor, count: int) -> dict[str, Tensor]:
    """Return the parameters' gradients for each sample, from run(n), which computes the result for sample n alone."""
    by_name = own_parameters(call.layer, recurse=True)
    rows = {name: zeros((count, *p.array.shape), p.array.dtype, like=p.array) for name, p in by_name.items()}
    parameters = list(by_name.values())
    check_unchanged(call.y.grad_fn, [*tensors_in([call.args, call.kwargs]), *parameters])  # type: ignore[arg-type]
    with without_hooks(parameters):  # which are for the sum over all calls
        for n in range(count):
            results = tensors_in(run(n))
            y = results[call.place] if call.place < len(results) else None
            _check_row(call, y, n)
            if y is None or not y.requires_grad:
                continue
            pieces = grad(y, parameters, part(g, n, call.axes[1]), retain_graph=True, allow_unused=True)
            for name, piece in zip(by_name, pieces, strict=True):
                if piece is not None:
                    kernels.copy(rows[name][n, ...], piece.array)
    return {name: wrap(array) for name, array in rows.items()}


def one_by_one(call: Call, g: Tensor) -> dict[str, Tensor]:
    """Return the gradients of the parameters for each sample."""
    count = call.x.array.shape[call.axes[0]]

    def run(n: int) -> Any:
        args, kwargs = _arguments(call, n, count)
        try:
            return again(call, *args, **kwargs)
        except (ValueError, TypeError, IndexError) as error:
            raise ValueError(
                f"per_sample_gradients: {call.layer.describe()} is run for each sample on its own, but it refused "
                f"sample {n} alone: {error}"
            ) from error

    return gradients(call, run, g, count)


def hooked(parameter: Parameter, rows: Tensor, own: Container[int] = ()) -> Tensor:
    """Return the rows after the parameter's hooks on its gradient, which run for each sample.

    own: ids of hooks that do not change the gradient.
    """
    hooks = getattr(parameter, "_hooks", {})
    if all(key in own for key in hooks):
        return rows
    entries: list[list[Any]] = [[parameter, wrap(rows.array[n, ...]), False] for n in range(len(rows.array))]
    run_leaf_hooks(entries)
    return wrap(kernels.concatenate([entry[1].array[None] for entry in entries], 0)) if entries else rows


# ---- Recurrent layers and cells: run each sequence again on its own -------------------------------------------------

_RANDOM_OPTIONS = ("dropout", "variational_dropout", "zoneout", "recurrent_dropout")


def is_recurrent(layer: Module) -> bool:
    """Return whether the rule for recurrent layers applies to the layer."""
    kinds = type(layer).__mro__
    return any(kind.__name__ in RECURRENT and kind.__module__.startswith("retrograd.nn.") for kind in kinds)


def _prepare(call: Call) -> np.ndarray:
    layer, sequences = call.layer, hasattr(call.layer, "batch_first")
    if call.x.array.ndim != getattr(layer, "ndim", 0) + 2 + sequences:
        raise ValueError(f"per_sample_gradients: {layer.describe()} was called without a batch axis; call it with one")
    spec = layer.layers[0] if hasattr(layer, "layers") else getattr(layer, "spec", None)
    drawn = [key for key in _RANDOM_OPTIONS if _is_set(getattr(layer, key, getattr(spec, key, 0.0)))]
    if layer.training and drawn:
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} draws random numbers for {' and '.join(drawn)} in training, "
            "which cannot be repeated; call eval() on it, or turn that off"
        )
    call.axes = (_axis(layer), _output_axis(call))
    found: np.ndarray = kernels.duplicate(call.y.array)
    return found


def _is_set(probabilities: Any) -> bool:
    return any(probabilities) if isinstance(probabilities, (tuple, list)) else bool(probabilities)


def _axis(layer: Any) -> int:
    """Return the batch axis of the input."""
    return 1 if hasattr(layer, "batch_first") and not layer.batch_first else 0


def _state_axis(layer: Any) -> int:
    return 1 if hasattr(layer, "layers") else 0


def _output_axis(call: Call) -> int:
    """Return the output's batch axis: that of the input for y and the cells of every step; states have their own."""
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
