"""The rules that compute per-sample gradients, one for each kind of layer.

If a layer does not mix the samples of a batch, row n of the gradient g of its output belongs to sample n alone, and a
rule computes the gradients of the parameters from it and the layer's input:

    Linear        gw[n] = g[n]T x[n]
    convolution   gw[n] = conv_weight_grad(x[n], g[n]), deformable ones too, with their offsets and mask
    normalization gw[n] = sum of g[n] * normalized x[n] over positions
    Embedding     gw[n][i] = sum of g[n] where index i was looked up

Source: I. Goodfellow, "Efficient Per-Example Gradient Computations", 2015 (arXiv:1510.01799).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...arrays import broadcast_to, full_like, zeros
from ...engine.call_site import in_package
from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ...ops.convolution.convolution import Conv, ConvInputGrad, bias_gradient, per_sample_conv_weight_grad
from ...ops.convolution.deformable import DeformConv, per_sample_deform_weight_grad
from ...ops.product.matmul import matmul
from ...ops.shape.shape import reshaped
from ..module import Module

__all__ = [
    "Call",
    "Prepare",
    "Rule",
    "is_built_in",
    "mixes_samples",
    "refusal_of",
    "refuse_per_sample",
    "register_named_rule",
    "register_per_sample_rule",
    "rule_named",
    "rule_of",
]


@dataclass
class Call:
    """One call of a layer, as passed to a rule; axis 0 of x and y is the batch.

    x: the first positional argument; y: the output; saved: the result of the rule's ``prepare``.
    args, kwargs: all arguments. place: the position of y in an output of several Tensors; each gets its own Call.
    axes: the batch axes of x and y. buffers: copies of the buffers as they were before the call, see ``Buffers``.
    """

    layer: Any
    x: Tensor
    y: Tensor
    saved: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    place: int = 0
    rules: Any = None  # the backward rules that were active when the layer was called
    axes: tuple[int, int] = (0, 0)
    buffers: Any = ()


Rule = Callable[[Call, Tensor], dict[str, Tensor]]  # (call, g like y) -> {name in the layer: gradient (N, *shape)}
Prepare = Callable[[Call], Any]

_RULES: dict[type[Module] | str, tuple[Rule, Prepare | None]] = {}
_REFUSED: dict[type[Module], str] = {}  # why a class and its subclasses have no per-sample gradients
RECURRENT = ("RNNBase", "RNNCellBase", "ConvCell")


def register_per_sample_rule(layer: type[Module], rule: Rule, prepare: Prepare | None = None) -> None:
    """Let ``per_sample_gradients`` handle the parameters of a layer by a rule.

    A subclass uses the rule too, unless it defines its own ``forward``.

    Args:
        layer: a Module class that owns parameters.
        rule: rule(call, g) -> {parameter name: gradient of shape (N, \\*parameter shape)}, with an entry for every
            parameter that requires a gradient. call.x is the layer's input, g the gradient of its output, and
            call.layer the layer.
        prepare: prepare(call) runs at the end of the layer's forward; call.saved holds its result for the rule. It may
            raise ValueError if the layer's settings mix the samples.

    Raises:
        TypeError: layer is not a Module class.
    """
    if not (isinstance(layer, type) and issubclass(layer, Module)):
        raise TypeError(f"register_per_sample_rule: layer must be a subclass of Module, got {layer!r}")
    _RULES[layer] = rule, prepare


def register_named_rule(name: str, rule: Rule, prepare: Prepare | None) -> None:
    """``register_per_sample_rule`` for a class of this package by name, which avoids importing it."""
    _RULES[name] = rule, prepare


def refuse_per_sample(layer: type[Module], reason: str) -> None:
    """Refuse per-sample gradients for a class and all of its subclasses; reason: the cause, and a remedy."""
    _REFUSED[layer] = reason


def refusal_of(layer: Module) -> str | None:
    """Return the reason why the layer has no per-sample gradients, or None."""
    return next((_REFUSED[kind] for kind in type(layer).__mro__ if kind in _REFUSED), None)


def rule_named(name: str) -> tuple[Rule, Prepare | None]:
    """Return the rule of a class of this package."""
    return _RULES[name]


def rule_of(layer: Module) -> tuple[Rule, Prepare | None] | None:
    """Return the rule of the class that defines the layer's forward, or None.

    A built-in rule also needs weight and bias to be the layer's only parameters, which a parametrization changes.
    """
    own: Any = getattr(type(layer), "cls_to_become", type(layer))  # a lazy layer gets this class in its first call
    for kind in own.__mro__:
        named = kind.__module__.startswith("retrograd.nn.") and kind.__name__ in _RULES
        if not named and kind not in _RULES:
            continue
        if "forward" in layer.__dict__:
            return None
        if not named:
            return _RULES[kind] if own.forward is kind.forward else None
        if not in_package[getattr(getattr(own.forward, "__code__", None), "co_filename", "")]:
            return None
        if kind.__name__ in RECURRENT:  # this runs the layer again, so computed weights are fine
            return _RULES[kind.__name__]
        built_in = own.forward is kind.forward and not _has_new_parts(layer, own, kind)
        return _RULES[kind.__name__] if built_in and _has_plain_parameters(layer) else None
    return None


def is_built_in(rule: tuple[Rule, Prepare | None]) -> bool:
    """Return whether it is the rule of a layer of this package."""
    return any(rule is each for kind, each in _RULES.items() if isinstance(kind, str))


def _has_new_parts(layer: Module, own: type[Module], kind: type[Module]) -> bool:
    """Return whether the layer replaces a method that the forward of a built-in class may call."""
    replaced = {name for name, member in layer.__dict__.items() if callable(member)}
    for each in own.__mro__[: own.__mro__.index(kind)]:
        if not hasattr(each, "_computed"):
            replaced.update(vars(each))
    harmless = ("_is_plain", "extra_repr", "reset_parameters", "from_pretrained", "train")
    return any(hasattr(kind, name) and not name.startswith("__") and name not in harmless for name in replaced)


def _has_plain_parameters(layer: Module) -> bool:
    """Return whether the layer owns no parameters but weight and bias, and neither is computed from others."""
    names, members = layer.__dict__["_parameter_names"], layer.__dict__
    return set(names) <= {"weight", "bias"} and all(
        name in names or members.get(name) is None and not hasattr(type(layer), name) for name in ("weight", "bias")
    )


def _linear(call: Call, g: Tensor) -> dict[str, Tensor]:
    """x (N, ..., Ci), g (N, ..., Co)"""
    x, n = call.x.array, call.x.array.shape[0]
    places = math.prod(x.shape[1:-1])
    rows = wrap(reshaped(g.array, (n, places, g.array.shape[-1])))
    gw = matmul(rows.transpose(1, 2), wrap(reshaped(x, (n, places, x.shape[-1]))))
    return {"weight": gw, "bias": rows.sum(1)}


def _convolution(call: Call, g: Tensor) -> dict[str, Tensor]:
    """Use the operator's input, which padding may have made larger than the layer's."""
    node: Any = call.y.grad_fn
    gradients = {"bias": bias_gradient("per_sample_gradients", g.array.ndim - 2, g, True)}
    x = node.saved_tensors[0]
    if x is not None:  # the weight is not frozen
        read, made = (g, x) if node.function is ConvInputGrad else (x, g)
        gradients["weight"] = per_sample_conv_weight_grad(read, made, node.window, node.options)
    return gradients


def _deformable(call: Call, g: Tensor) -> dict[str, Tensor]:
    node: Any = call.y.grad_fn
    x, offset, mask, _ = node.saved_tensors
    gw = per_sample_deform_weight_grad(x, offset, mask, g, node.window, node.workspace)
    return {"weight": gw, "bias": bias_gradient("per_sample_gradients", 2, g, True)}


def _prepare_convolution(call: Call) -> None:
    """Set ``call.y`` to the output of the operator, before the layer's activation."""
    layer, last = call.layer, call.y.grad_fn
    if call.x.array.ndim != layer.weight.array.ndim:
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} was called without a batch axis; call it with (N, Ci, ...)"
        )
    node = _operator_of(layer, last)
    if node is not last:
        window = node.window
        extents = window.input if node.function is ConvInputGrad else window.output
        call.y = wrap(broadcast_to(zeros((), call.x.dtype), (len(call.x.array), layer.out_channels, *extents)))
        call.y._edge, call.y._requires_grad = (node, 0, call.y.array.shape, call.y.array.dtype), True


def _operator_of(layer: Any, last: Any) -> Any:
    """Return the node of the layer's convolution: ``last`` or an ancestor of it."""
    nodes = [last]
    for node in nodes:
        own = node.function in (Conv, ConvInputGrad, DeformConv)
        if own and any(edge is p for edge in node.edges for p in layer.parameters()):
            return node
        nodes += [edge[0] for edge in node.edges if type(edge) is tuple and edge[0] not in nodes]
    raise ValueError(f"per_sample_gradients: the activation of {layer.describe()} does not depend on the convolution")


def mixes_samples(layer: Any) -> bool:
    """Return whether the layer normalizes over the batch."""
    if not hasattr(layer, "running_mean") or "Instance" in type(layer).__name__:
        return False
    return bool(layer.training or layer.running_mean is None)


def _prepare_norm(call: Call) -> Any:
    """Return the normalized input: the layer's output with weight 1 and bias 0."""
    layer = call.layer
    if mixes_samples(layer):
        raise ValueError(
            f"per_sample_gradients: {layer.describe()} normalizes over the batch, which mixes the samples; "
            "call eval() on it, or use GroupNorm"
        )
    members = layer.__dict__
    originals = {name: members[name] for name in ("weight", "bias", "running_mean", "running_var") if name in members}
    try:
        for name, value in (("weight", 1), ("bias", 0)):
            if originals.get(name) is not None:
                members[name] = wrap(full_like(originals[name].array, value))
        for name in ("running_mean", "running_var"):  # instance norm in training would update them twice
            if originals.get(name) is not None:
                members[name] = wrap(kernels.duplicate(originals[name].array))
        with no_grad():
            return layer.forward(call.x)
    finally:
        members.update(originals)


def _norm(call: Call, g: Tensor) -> dict[str, Tensor]:
    """The rule of norms with weights over the last axes (LayerNorm, RMSNorm) or axis 1."""
    ndim, shape = g.array.ndim, call.layer.weight.array.shape
    axes = tuple(range(1, ndim - len(shape))) if hasattr(call.layer, "normalized_shape") else tuple(range(2, ndim))
    add_up = exact("sum")
    gw = add_up(kernels.mul(g.array, call.saved.array), axes, False)
    return {"weight": wrap(gw), "bias": wrap(add_up(g.array, axes, False))}


def _embedding(call: Call, g: Tensor) -> dict[str, Tensor]:
    """x (N, ...) of int64, g (N, ..., D)"""
    layer, indices = call.layer, call.x.array
    if getattr(layer, "scale_grad_by_freq", False):
        raise ValueError(f"per_sample_gradients: {layer.describe()}: scale_grad_by_freq counts over the whole batch")
    shape, padding = layer.weight.array.shape, getattr(layer, "padding_idx", None)
    return {"weight": wrap(kernels.embedding_sample_grad(g.array, indices, shape, padding))}


_RULES["Linear"] = _linear, None
_RULES["Embedding"] = _embedding, None
_RULES["DeformConv2d"] = _deformable, _prepare_convolution
for _dims in "123":
    for _name in ("Conv", "ConvTranspose"):
        _RULES[f"{_name}{_dims}d"] = _convolution, _prepare_convolution
    for _name in ("BatchNorm", "InstanceNorm"):
        _RULES[f"{_name}{_dims}d"] = _norm, _prepare_norm
for _name in ("GroupNorm", "LayerNorm", "RMSNorm"):
    _RULES[_name] = _norm, _prepare_norm
