"""The architecture of a packed model as JSON: Sequential, packed layers and known float layers by name and options.

A module of any other class is only named, with its children: who loads it gives a model that has it.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np

from .. import lowbit, nn
from ..lowbit.bit_packing import packed
from ..specs.low_bit import Requantized, Thresholded

__all__: list[str] = []

_AXES = (1, 2, 3)
SUMMING = ("Linear", *(f"Conv{n}d" for n in _AXES), *(f"ConvTranspose{n}d" for n in _AXES))
FLOAT_LAYERS = (
    *SUMMING,
    *(f"{name}{n}d" for name in ("BatchNorm", "MaxPool", "AvgPool", "AdaptiveAvgPool") for n in _AXES),
    "LayerNorm",
    "GroupNorm",
    "PReLU",
    "Flatten",
    "Identity",
    "Dropout",
    *(f"Dropout{n}d" for n in _AXES),
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "Hardtanh",
    "Hardsigmoid",
    "Hardswish",
    "ELU",
    "GELU",
    "SELU",
    "SiLU",
    "Mish",
    "Sigmoid",
    "Tanh",
    "Softplus",
    "Softsign",
    "Softmax",
    "LogSoftmax",
)
QUANTISERS = {
    name: getattr(lowbit, name)
    for name in lowbit.__all__
    if inspect.isclass(getattr(lowbit, name))
    and issubclass(getattr(lowbit, name), lowbit.Quantizer)
    and getattr(lowbit, name) is not lowbit.Quantizer
}

Arrays = dict[str, np.ndarray]
_NO_JSON = object()


# ------------------------------------------------------------------------------------------------------------- to JSON


def described(module: Any, path: str, arrays: Arrays) -> dict[str, Any]:
    """The description of a module and all below it, whose arrays are added under its path.

    Raises:
        ValueError: a file cannot hold it.
    """
    if any(module.__dict__.get("_hooks", {}).values()):
        raise ValueError(f"{path or '(model)'}: {module.describe()} has hooks, which a file cannot hold; remove them")
    if isinstance(module, lowbit.Packed):
        return _described_packed(module, path, arrays)
    if isinstance(module, lowbit.PackedMaxPool):
        arrays[key_of(path, "turned")] = packed(module.turned, 1)
        return {
            "class": "PackedMaxPool",
            "options": _plain(module.options),
            "element": module.element,
            "channels": len(module.turned),
        }
    if type(module) is lowbit.PackedNorm:
        arrays[key_of(path, "scale")], arrays[key_of(path, "shift")] = module.scale.array, module.shift.array
        return {"class": "PackedNorm", "ndim": module.ndim, "channels": len(module.scale.array)}
    if type(module) is lowbit.Quantize:
        own = module._own("activation")
        arrays.update({key_of(path, f"activation_{name}"): tensor.array for name, tensor in own.items()})
        return {"class": "Quantize", "activation": _quantizer(path, module.activation_quantizer)}
    for name in (*module._parameter_names, *(key for key, saved in module._buffer_names.items() if saved)):
        tensor = module.__dict__[name]
        if tensor is not None:
            arrays[key_of(path, name)] = tensor.array
    children = {name: described(child, key_of(path, name), arrays) for name, child in module._members()}
    if type(module) is nn.Sequential:
        return {"class": "Sequential", "children": children}
    name = type(module).__name__
    known = not children and name in FLOAT_LAYERS and type(module) is getattr(nn, name)
    options = options_of(module) if known else None
    if options is not None:
        return {"class": name} | ({"options": options} if options else {})
    return {"class": "other", "name": name, "children": children}


def options_of(layer: Any) -> dict[str, Any] | None:
    """The arguments of a layer's constructor, without its quantisers; None if JSON cannot hold one."""
    options = {}
    for name, parameter in inspect.signature(type(layer)).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            continue
        if isinstance(layer, lowbit.LowBit) and name in ("weight", "activation"):
            continue
        if name == "dtype":
            doubles = any(p.array.dtype == np.float64 for p in layer.parameters(recurse=False))
            value: Any = "float64" if doubles else None
        elif name == "bias":
            value = layer.bias is not None
        elif name in ("output_activation", "activation"):
            value = layer.activation
        elif name in ("adj", "device"):
            value = None
        else:
            value = getattr(layer, name)
        value = _plain(value)
        if value is _NO_JSON:
            return None
        if value != _plain(parameter.default):
            options[name] = value
    return options


def _plain(value: Any) -> Any:
    """Numbers, strings and lists of them; ``_NO_JSON`` for any other object."""
    if isinstance(value, (tuple, list)):
        found = [_plain(each) for each in value]
        return _NO_JSON if any(each is _NO_JSON for each in found) else found
    return value if value is None or isinstance(value, (bool, int, float, str)) else _NO_JSON


def _quantizer(path: str, quantizer: Any) -> dict[str, Any] | None:
    if quantizer is None:
        return None
    name = type(quantizer).__name__
    if QUANTISERS.get(name) is not type(quantizer):
        raise ValueError(f"{path or '(model)'}: a file holds quantisers of retrograd.lowbit only, not {quantizer!r}")
    return {"class": name, "options": {f.name: getattr(quantizer, f.name) for f in dataclasses.fields(quantizer)}}


def _described_packed(layer: Any, path: str, arrays: Arrays) -> dict[str, Any]:
    form, then = layer.form, getattr(layer, "then", None)
    options = options_of(form) if type(layer) is lowbit.PackedSum else {}
    if options is None:
        raise ValueError(f"{path or '(model)'}: {form.describe()} has an activation function that a file cannot hold")
    own = {f"activation_{name}": tensor for name, tensor in form._own("activation").items()}
    others = {name: form.__dict__[name] for name in form._parameter_names if name not in own}
    arrays.update({key_of(path, name): each.array for name, each in (own | others).items() if each is not None})
    weights: dict[str, Any] = {}
    for name, weight in layer.weights.items():
        form_of_codes = dataclasses.asdict(weight.format)
        weights[name] = {type(weight.format).__name__: form_of_codes, "shape": list(weight.shape)}
        arrays[key_of(path, f"{name}.codes")] = weight.stream
        arrays[key_of(path, f"{name}.step")] = weight.step
    found: dict[str, Any] = {
        "class": type(layer).__name__,
        "layer": type(form).__name__,
        "options": options,
        "activation": _quantizer(path, form.activation_quantizer),
        "weights": weights,
    }
    if isinstance(then, Thresholded):
        arrays[key_of(path, "threshold")] = then.threshold
        arrays[key_of(path, "flip")] = packed(then.flip, 1)
        found["then"] = "bits"
    elif isinstance(then, Requantized):
        arrays[key_of(path, "scale")], arrays[key_of(path, "offset")] = then.scale, np.asarray(then.bias)
        found["then"] = [then.zero_point, then.low, then.high, then.element]
    return found


def key_of(path: str, name: str) -> str:
    """The name of an array of the module at a path."""
    return f"{path}.{name}" if path else name
