"""Per-sample gradients: the gradient of every sample's own loss to every parameter, by one forward and one sweep.

The sweep brings the gradient g of the summed losses to each layer's output. Where a layer treats the samples of a batch
one by one, row n of g belongs to sample n alone, and a rule makes the gradients of the parameters from it and from the
layer's input:

    Linear        gw[n] = g[n]T x[n]
    convolution   gw[n] = conv_weight_grad(x[n], g[n]), all n at once as the groups of one convolution
    normalisation gw[n] = sum of g[n] * normalised x[n] over positions
    Embedding     gw[n][i] = sum of g[n] where index i was looked up

Source: I. Goodfellow, "Efficient Per-Example Gradient Computations", 2015 (arXiv:1510.01799); G. Rochette et al.,
"Efficient Per-Example Gradient Computations in Convolutional Neural Networks", 2019 (arXiv:1912.06015).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...engine.grad_mode import is_grad_enabled, no_grad
from ...engine.sweep import grad
from ...engine.tensor import Tensor, wrap
from ...ops.convolution import Conv, ConvInputGrad, conv_weight_grad
from ...ops.matmul import matmul
from ..module import Module

__all__ = ["per_sample_gradients", "register_per_sample_rule"]


@dataclass
class Call:
    """One call of a layer, as a rule sees it; axis 0 of x and y counts the samples.

    x: the first positional argument; y: the output; saved: what ``prepare`` of the rule returned.
    """

    layer: Any
    x: Tensor
    y: Tensor
    saved: Any = None


Rule = Callable[[Call, Tensor], dict[str, Tensor]]  # (call, g like y) -> {name in the layer: gradient (N, *shape)}
Prepare = Callable[[Call], Any]

_RULES: dict[type[Module] | str, tuple[Rule, Prepare | None]] = {}


def register_per_sample_rule(layer: type[Module], rule: Rule, prepare: Prepare | None = None) -> None:
    """Let ``per_sample_gradients`` handle the parameters of a layer and of its subclasses.

    Args:
        layer: a Module class that owns parameters.
        rule: rule(call, g) -> {parameter name: gradient of shape (N, \\*parameter shape)}, where call.x is the layer's
            input, g the gradient of its output, and call.layer the layer.
        prepare: prepare(call) runs at the end of the layer's forward; call.saved keeps its result for the rule. It may
            raise ValueError where the layer's settings mix the samples.

    Raises:
        TypeError: layer is no Module class.
    """
    if not (isinstance(layer, type) and issubclass(layer, Module)):
        raise TypeError(f"register_per_sample_rule: layer is {layer!r}, expected a class derived from Module")
    _RULES[layer] = rule, prepare


def per_sample_gradients(module: Module, losses: Callable[[], Tensor]) -> dict[str, Tensor]:
    """{path of the parameter: Tensor (N, \\*shape)}: row n is the gradient of loss n.

        grads = per_sample_gradients(model, lambda: cross_entropy(model(x), labels, reduction="none"))

    Every parameter that requires a gradient is in it; one that no loss depends on gives zeros. No ``grad`` is touched.
    The samples must stay apart: axis 0 of what goes into a layer is the batch, and nothing in the model mixes its rows.
    Layers with a rule are Linear, convolutions, normalisations (BatchNorm in eval mode only) and Embedding; others by
    ``register_per_sample_rule``.

    Args:
        losses: a function that runs the module and returns the loss of every sample, a Tensor of shape (N,).

    Raises:
        ValueError: a layer mixes the samples (BatchNorm in training), its parameters have no rule, or axis 0 of its
            input does not have N rows.
        TypeError: losses does not return a Tensor of shape (N,), or grad recording is off.
        RuntimeError: no loss depends on a parameter.
    """
    if not is_grad_enabled():
        raise TypeError("per_sample_gradients: recording is off; call it outside of no_grad")
    owners = {path: layer for path, layer in module.named_modules() if _own_parameters(layer)}
    rules = {path: _rule_of(path, layer) for path, layer in owners.items()}
    calls: list[tuple[str, Call]] = []
    handles = [
        layer.register_forward_hook(_recorder(path, rules[path][1], calls)) for path, layer in owners.items()
    ]
    try:
        values = losses()
    finally:
        for handle in handles:
            handle.remove()
    if not isinstance(values, Tensor) or values.data.ndim != 1:
        found = f"a Tensor of shape {values.shape}" if isinstance(values, Tensor) else type(values).__name__
        raise TypeError(
            f"per_sample_gradients: losses returned {found}, expected the loss of every sample, of shape (N,); "
            'use reduction="none" and sum over everything but the batch'
        )
    count = values.data.shape[0]
    if not calls or not values.requires_grad:
        raise RuntimeError("per_sample_gradients: the losses depend on no parameter of the module")
    upstream = grad(values, [call.y for _, call in calls], wrap(np.ones_like(values.data)), allow_unused=True)
    return _assemble(owners, rules, calls, upstream, count)


def _assemble(
    owners: dict[str, Module],
    rules: dict[str, tuple[Rule, Prepare | None]],
    calls: list[tuple[str, Call]],
    upstream: tuple[Tensor | None, ...],
    count: int,
) -> dict[str, Tensor]:
    """The gradients of all calls, summed per parameter."""
    names: dict[int, str] = {}  # a shared parameter stands under its first path
    results: dict[str, Tensor] = {}
    for path, layer in owners.items():
        for name, parameter in _own_parameters(layer).items():
            key = names.setdefault(id(parameter), f"{path}.{name}" if path else name)
            if key not in results:
                results[key] = wrap(np.zeros((count, *parameter.data.shape), parameter.data.dtype))
    with no_grad():
        for (path, call), g in zip(calls, upstream, strict=True):
            if g is None:
                continue
            for side, tensor in (("input", call.x), ("output", call.y)):
                if not tensor.data.ndim or tensor.data.shape[0] != count:
                    raise ValueError(
                        f"per_sample_gradients: the {side} of {path or 'the module'} ({call.layer.describe()}) has "
                        f"shape {tensor.data.shape}, axis 0 must be the {count} samples"
                    )
            wanted = _own_parameters(call.layer)
            for name, gradient in rules[path][0](call, g).items():
                if name in wanted:
                    results[names[id(wanted[name])]].add_(gradient)
    return results


def _own_parameters(layer: Module) -> dict[str, Any]:
    return {name: p for name, p in layer.named_parameters(recurse=False) if p.requires_grad and p.grad_req != "null"}


def _rule_of(path: str, layer: Module) -> tuple[Rule, Prepare | None]:
    for kind in type(layer).__mro__:
        if kind in _RULES:
            return _RULES[kind]
        if kind.__module__.startswith("retrograd.nn.") and kind.__name__ in _RULES:
            return _RULES[kind.__name__]
    raise ValueError(
        f"per_sample_gradients: no rule for the parameters {list(_own_parameters(layer))} of "
        f"{path or 'the module itself'} ({type(layer).__name__}); add one by register_per_sample_rule, or freeze them: "
        "requires_grad_(False)"
    )


def _recorder(path: str, prepare: Prepare | None, calls: list[tuple[str, Call]]) -> Callable[..., None]:
    def hook(layer: Module, args: tuple[Any, ...], output: Any) -> None:
        if not (args and isinstance(args[0], Tensor) and isinstance(output, Tensor)):
            raise ValueError(
                f"per_sample_gradients: {path or 'the module'} ({layer.describe()}) must be called with its input "
                "as the first positional argument and return one Tensor"
            )
        if output.requires_grad:
            # An alias: the model may change the output in place afterwards.
            y = wrap(output.data)
            y._edge, y._requires_grad = output._edge, True
            call = Call(layer, args[0], y)
            call.saved = prepare(call) if prepare else None
            calls.append((path, call))

    return hook


# ---- the rules -----------------------------------------------------------------------------------------------


def _linear(call: Call, g: Tensor) -> dict[str, Tensor]:
    """x (N, ..., Ci), g (N, ..., Co)"""
    x, n = call.x.data, call.x.data.shape[0]
    rows = wrap(g.data.reshape(n, -1, g.data.shape[-1]))
    gw = matmul(rows.transpose(1, 2), wrap(x.reshape(n, -1, x.shape[-1])))
    return {"weight": gw, "bias": rows.sum(1)}


def _prepare_convolution(call: Call) -> Any:
    """What the operator saw, which padding may have made larger than the layer's input: (x, window, transposed)."""
    node: Any = call.y.grad_fn
    if node.function not in (Conv, ConvInputGrad):
        raise ValueError(
            f"per_sample_gradients: {call.layer.describe()} was called without a batch axis; call it with (N, Ci, ...)"
        )
    return node.saved_tensors[0], node.window, node.function is ConvInputGrad


def _convolution(call: Call, g: Tensor) -> dict[str, Tensor]:
    """All samples as groups of one convolution: x (1, N*Ci, *I), g (1, N*Co, *O) -> (N*Co, Ci//groups, *R)"""
    x, window, transposed = call.saved
    n, shape = x.data.shape[0], call.layer.weight.data.shape
    first, second = (g, x) if transposed else (x, g)
    one, two = (wrap(t.data.reshape(1, n * t.data.shape[1], *t.data.shape[2:])) for t in (first, second))
    gw = conv_weight_grad(one, two, replace(window, groups=n * window.groups))
    gb = wrap(np.asarray(g.data.sum(tuple(range(2, g.data.ndim)))))
    return {"weight": wrap(gw.data.reshape(n, *shape)), "bias": gb}


def _prepare_norm(call: Call) -> Any:
    """The normalised input: the layer's output with weight 1 and bias 0."""
    layer = call.layer
    if hasattr(layer, "running_mean") and "Instance" not in type(layer).__name__ and (
        layer.training or layer.running_mean is None
    ):
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} takes its statistics over the batch, which mixes the samples; "
            "call eval() on it, or use GroupNorm"
        )
    members = layer.__dict__
    kept = {name: members[name] for name in ("weight", "bias", "running_mean", "running_var") if name in members}
    try:
        for name, value in (("weight", 1), ("bias", 0)):
            if kept.get(name) is not None:
                members[name] = wrap(np.full_like(kept[name].data, value))
        for name in ("running_mean", "running_var"):  # instance norm in training would move them a second time
            if kept.get(name) is not None:
                members[name] = wrap(kept[name].data.copy())
        with no_grad():
            return layer.forward(call.x)
    finally:
        members.update(kept)


def _norm(call: Call, g: Tensor) -> dict[str, Tensor]:
    """Weights of the last axes (LayerNorm, RMSNorm), or of axis 1."""
    ndim, shape = g.data.ndim, call.layer.weight.data.shape
    axes = tuple(range(1, ndim - len(shape))) if hasattr(call.layer, "normalized_shape") else tuple(range(2, ndim))
    gw = np.asarray((g.data * call.saved.data).sum(axes))
    return {"weight": wrap(gw), "bias": wrap(np.asarray(g.data.sum(axes)))}


def _embedding(call: Call, g: Tensor) -> dict[str, Tensor]:
    """x (N, ...) of int64, g (N, ..., D)"""
    layer, indices = call.layer, call.x.data
    if getattr(layer, "scale_grad_by_freq", False):
        raise ValueError(f"per_sample_gradients: {layer.describe()}: scale_grad_by_freq counts over the whole batch")
    gw = np.zeros((indices.shape[0], *layer.weight.data.shape), g.data.dtype)
    samples = np.arange(indices.shape[0]).reshape(-1, *(1,) * (indices.ndim - 1))
    np.add.at(gw, (np.broadcast_to(samples, indices.shape), indices), g.data)
    if getattr(layer, "padding_idx", None) is not None:
        gw[:, layer.padding_idx] = 0
    return {"weight": wrap(gw)}


_RULES["Linear"] = _linear, None
_RULES["Embedding"] = _embedding, None
for _dims in "123":
    for _name in ("Conv", "ConvTranspose"):
        _RULES[f"{_name}{_dims}d"] = _convolution, _prepare_convolution
    for _name in ("BatchNorm", "InstanceNorm"):
        _RULES[f"{_name}{_dims}d"] = _norm, _prepare_norm
for _name in ("GroupNorm", "LayerNorm", "RMSNorm"):
    _RULES[_name] = _norm, _prepare_norm
