"""Layers as operators: the operator that a layer computes, with its tensors and options."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from ..engine.tensor import Tensor
from ..nn.module import Module
from .explanation import Case
from .layer import Layer
from .operators import find
from .operators.operator import Operator

__all__ = ["case_of_layer"]

_WINDOW = ("stride", "padding", "dilation", "groups")
_POOL = ("kernel_size", "stride", "padding")
_OPTIONS = {  # operator without its number of axes -> the attributes of its layer that it takes
    "conv": _WINDOW,
    "conv_transpose": (*_WINDOW, "output_padding"),
    "max_pool": (*_POOL, "dilation", "ceil_mode"),
    "avg_pool": (*_POOL, "ceil_mode", "count_include_pad", "divisor_override"),
    "adaptive_max_pool": ("output_size",),
    "adaptive_avg_pool": ("output_size",),
    "batch_norm": ("training", "eps"),
    "instance_norm": ("eps",),
    "group_norm": ("num_groups", "eps"),
    "layer_norm": ("normalized_shape", "eps"),
    "rms_norm": ("normalized_shape", "eps"),
    "softmax": ("dim",),
    "log_softmax": ("dim",),
    "leaky_relu": ("negative_slope",),
    "elu": ("alpha",),
    "celu": ("alpha",),
    "hardtanh": ("min_val", "max_val"),
    "hardshrink": ("lambd",),
    "softshrink": ("lambd",),
    "softplus": ("beta", "threshold"),
    "threshold": ("threshold", "value"),
    "gelu": ("approximate",),
}
_TENSORS = {
    "w": "weight",
    "b": "bias",
    "w_ih": "weight_ih",
    "w_hh": "weight_hh",
    "b_ih": "bias_ih",
    "b_hh": "bias_hh",
}
_REFUSED = (  # what a layer may have that its operator's page does not take apart
    ("padding_mode", "zeros"),
    ("return_indices", False),
    ("padding_idx", None),
    ("max_norm", None),
    ("scale_grad_by_freq", False),
    ("sparse", False),
)


def case_of_layer(recorded: Layer) -> Case:
    """The layer as an operator that ran on its x, with its weights.

    Raises:
        ValueError: the layer is none of the operators that can be taken apart, or has an option that cannot.
    """
    layer, kind = recorded.module, recorded.kind
    if recorded.why_not:
        raise ValueError(f"explain: {recorded.why_not}")
    if recorded.operator:
        return find(recorded.operator).case(recorded.operands, recorded.options)
    for name, usual in _REFUSED:
        if getattr(layer, name, usual) != usual:
            raise ValueError(f"explain: {kind} with {name}={getattr(layer, name)!r} is not taken apart")
    operator = _operator(layer)
    tensors = {"x": recorded.as_read(recorded.x), **recorded.states}
    for name in (*operator.tensors[1:], *operator.optional):
        value = getattr(layer, f"{_TENSORS.get(name, name)}{recorded.end}", None)
        if isinstance(value, Tensor):
            tensors[name] = value.numpy(force=True).copy()
    missing = [name for name in operator.tensors if name not in tensors]
    if missing:
        raise ValueError(f"explain: {kind} takes {', '.join(missing)} besides x, and is not taken apart in a model")
    options = {
        name: getattr(layer, name)
        for name in _OPTIONS.get(operator.name.rstrip("123d"), ())
        if getattr(layer, name, None) is not None
    }
    if kind in ("Softmax", "LogSoftmax") and "dim" not in options:
        raise ValueError(f"explain: {kind} needs its dim")
    case = operator.case(tensors, options)
    if recorded.end.endswith("_reverse"):
        about = "the input from its last step to its first, as this direction reads it"
        case = replace(case, inputs=case.inputs | {"x": replace(case.inputs["x"], about=about)})
    return case


def _operator(layer: Module) -> Operator:
    """The operator of a layer's class, or of one whose forward it has.

    Raises:
        ValueError: there is none.
    """
    kinds = [each.__name__ for each in type(layer).__mro__ if getattr(each, "forward", None) is type(layer).forward]
    for kind in kinds:
        with suppress(ValueError):
            return find(f"rnn_{layer.nonlinearity}" if kind == "RNN" else kind)
    raise ValueError(f"explain: {kinds[0]} is not one of the layers that are taken apart")
