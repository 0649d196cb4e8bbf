"""JSON description of a packed model: writing it, and validating and building a model from it.

A module of any other class is stored by class name, with its children; to load it, pass a model that has this module.
Nothing in the file is executed.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from .. import lowbit, nn
from .._files.state import Check, anything, brief, choice, count, flag, items, names, reason, table, text
from ..engine.tensor import wrap
from ..lowbit.bit_packing import Format, Listed, Shifts, Uniform, Weight, bytes_of, packed, unpacked
from ..lowbit.packed_layers import MOST_LISTED, packed_layer
from ..nn.module import Module
from ..ops.random.random import fork_rng
from ..specs.low_bit import ELEMENTS, Requantized, Thresholded

__all__: list[str] = []


# ---- JSON architecture: Sequential, packed layers and known float layers by name and options ------------------------

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
QUANTIZERS = {
    name: getattr(lowbit, name)
    for name in lowbit.__all__
    if inspect.isclass(getattr(lowbit, name))
    and issubclass(getattr(lowbit, name), lowbit.Quantizer)
    and getattr(lowbit, name) is not lowbit.Quantizer
}

Arrays = dict[str, np.ndarray]
_NO_JSON = object()


# ---- Model to JSON --------------------------------------------------------------------------------------------------


def described(module: Any, path: str, arrays: Arrays) -> dict[str, Any]:
    """Describe a module and its descendants; their arrays are added to ``arrays`` under their paths.

    Raises:
        ValueError: a file cannot represent the module.
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
    """Return the arguments of a layer's constructor, without its quantizers; None if JSON cannot represent one."""
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
    """Return numbers, strings and lists of them; ``_NO_JSON`` for any other object."""
    if isinstance(value, (tuple, list)):
        found = [_plain(each) for each in value]
        return _NO_JSON if any(each is _NO_JSON for each in found) else found
    return value if value is None or isinstance(value, (bool, int, float, str)) else _NO_JSON


def _quantizer(path: str, quantizer: Any) -> dict[str, Any] | None:
    if quantizer is None:
        return None
    name = type(quantizer).__name__
    if QUANTIZERS.get(name) is not type(quantizer):
        raise ValueError(f"{path or '(model)'}: a file holds quantizers of retrograd.lowbit only, not {quantizer!r}")
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
    """Return the name of an array of the module at a path."""
    return f"{path}.{name}" if path else name


# ---- Building of packed models from untrusted descriptions ----------------------------------------------------------

_EXTENTS = ("kernel_size", "stride", "padding", "dilation", "output_padding", "output_size", "target_shape")
_SIZES = (
    "in_features",
    "out_features",
    "in_channels",
    "out_channels",
    "kernel_size",
    "num_features",
    "num_channels",
    "normalized_shape",
    "num_parameters",
)
_MOST_EXTENT, _MOST_ENLARGED = 1024, 64  # of a stride that enlarges its input
_FEW = 2**16  # numbers that may be allocated for any layer


class Builder:
    """Builds modules from untrusted descriptions and arrays.

    arrays: by name; ``left`` contains those that no packed layer has used yet.
    into: the model that has the modules of other classes.
    """

    into: Module | None
    left: dict[str, np.ndarray]

    def __init__(self, arrays: Arrays, into: Module | None) -> None:
        self.left, self.into = dict(arrays), into

    def model(self, description: Any) -> Module:
        """Build the model.

        Raises:
            ValueError: the description or an array is not in the written format; the message says where.
        """
        with fork_rng():  # layers draw initial weights, which are then replaced
            result = self._module("", description, self.into)
        try:
            result.load_state_dict({key: wrap(array) for key, array in self.left.items()})
        except RuntimeError as error:
            raise ValueError(reason(error)) from error
        result.requires_grad_(False)
        for module in result.modules():
            module.training = False
        return result

    def _module(self, path: str, description: Any, into: Any) -> Module:
        where = path or "(model)"
        if not isinstance(description, Mapping):
            raise ValueError(f"{where} is {brief(description)}; it must be a table")
        name = text(f"the class of {where}", description.get("class"))
        try:
            if name in ("Sequential", "other"):
                return self._parent(path, name, description, into)
            if name in ("Packed", "PackedSum"):
                return self._packed(
                    path,
                    table(_PACKED | ({"then": anything} if "then" in description else {}))(where, description),
                    into,
                )
            if name == "PackedMaxPool":
                return self._pool(path, table(_POOL)(where, description))
            if name == "PackedNorm":
                return self._norm(path, table(_NORM)(where, description))
            if name == "Quantize":
                entry = table({"class": anything, "activation": anything})(where, description)
                layer = lowbit.Quantize(_built_quantizer(where, entry["activation"]))
                own = self._fill_own(path, layer)
                self.left.update({key_of(path, name): array for name, array in own.items()})
                return layer
            if name not in FLOAT_LAYERS:
                raise ValueError(f"the class of {where} is {brief(name)}, which is not known")
            entry = table({"class": anything, "options": anything})(where, {"options": {}, **description})
            return self._layer(path, getattr(nn, name), entry["options"], {})
        except (TypeError, OverflowError, MemoryError, AttributeError) as error:
            raise ValueError(f"{where}: {reason(error)}") from error

    def _parent(self, path: str, name: str, description: Mapping[str, Any], into: Any) -> Module:
        where = path or "(model)"
        known = {"class": anything, "children": anything} | ({"name": text} if name == "other" else {})
        entry = table(known)(where, description)
        children = entry["children"]
        if not isinstance(children, Mapping) or not all(isinstance(key, str) and key for key in children):
            raise ValueError(f"the children of {where} are {brief(children)}; they must be a table")
        if name == "other" and type(into).__name__ != entry["name"]:
            found = "give a model that has it"
            if self.into is not None:
                found = f"the model given has {type(into).__name__} there"
            kind = f"a {brief(entry['name'])}"
            if entry["name"] in lowbit.layers.__all__:
                kind = f"a low-bit {brief(entry['name'])} with a float weight"
            raise ValueError(
                f"{where} is {kind}, whose code is not in the file; {found}: load_packed(path, into=model)"
            )
        inner = {} if into is None else dict(into._members())
        made = {key: self._module(key_of(path, key), child, inner.get(key)) for key, child in children.items()}
        if name == "Sequential":
            return nn.Sequential(made)
        if made.keys() != inner.keys():
            raise ValueError(f"{where} has the children {brief(list(made))}, the model given has {brief(list(inner))}")
        memo = {id(child): made[key] for key, child in inner.items()}
        result: Module = copy.deepcopy(into, memo)
        return result

    def _layer(self, path: str, cls: Any, options: Any, more: Mapping[str, Any], weights: int | None = None) -> Any:
        """Build a layer with these options. No memory is allocated for more weights than the file has."""
        where = path or "(model)"
        allowed = set(inspect.signature(cls).parameters) - (set(more) and {"weight", "activation"}) - {"device"}
        if not isinstance(options, Mapping) or not set(options) <= allowed:
            raise ValueError(f"the options of {where} are {brief(options)}; {cls.__name__} takes {names(allowed)}")
        given = {key: _tuples(value) for key, value in options.items()}
        for key, value in given.items():
            most = _MOST_ENLARGED if key == "stride" and "Transpose" in cls.__name__ else _MOST_EXTENT
            if key in _EXTENTS and not all(abs(each) <= most for each in _numbers(value)):
                raise ValueError(f"{key} of {where} is {brief(value)}; it must be at most {most}")
            if key in _SIZES and not all(each > 0 for each in _numbers(value)):
                raise ValueError(f"{key} of {where} is {brief(value)}; it must be above 0")
        sizes = prod(each for key in _SIZES for each in _numbers(given.get(key, ()))) if set(given) & set(_SIZES) else 0
        groups = given.get("groups", 1)
        sizes //= groups if isinstance(groups, int) and groups > 0 else 1
        if weights is None:
            weights = max([a.size for key, a in self.left.items() if key.rpartition(".")[0] == path], default=0)
        if sizes > max(weights, _FEW):
            raise ValueError(f"the file has {weights} weights of {where}, whose options are {brief(options)}")
        return cls(**given, **more)

    def _packed(self, path: str, entry: dict[str, Any], into: Any) -> Module:
        where = path or "(model)"
        if not isinstance(entry["weights"], Mapping):
            raise ValueError(f"the weights of {where} are {brief(entry['weights'])}; they must be a table")
        weights = {name: self._weight(path, name, each, entry["layer"]) for name, each in entry["weights"].items()}
        if entry["class"] == "Packed":
            form, shapes = self._form_of(where, entry["layer"], into, weights)
        else:
            name = choice(*SUMMING)(f"the layer of {where}", entry["layer"])
            if list(weights) != ["weight"]:
                raise ValueError(f"{where} has the weights {brief(list(weights))}, expected one named 'weight'")
            more = {"activation": _built_quantizer(where, entry["activation"])}
            form = self._layer(path, getattr(lowbit, name), entry["options"], more, prod(weights["weight"].shape))
            shapes = {"weight": form.__dict__.pop("weight").array.shape}
            form._parameter_names.pop("weight")
        for name, weight in weights.items():
            if shapes[name] != weight.shape:
                raise ValueError(f"{name} of {where} has the shape {weight.shape}, its options make it {shapes[name]}")
            outputs = form.__dict__.get("out_channels", shapes[name][0])
            if weight.step.shape[:1] not in ((1,), (outputs,)):
                raise ValueError(f"the step of {name} of {where} has the shape {weight.step.shape}, needs ({outputs},)")
        self._fill_own(path, form)
        for name in [key for key in form._parameter_names if not key.startswith("activation_")]:
            if form.__dict__[name] is not None:
                form.__dict__[name].array = self._array(path, name, form.__dict__[name].array.shape, weight.step.dtype)
        layer: Any = getattr(lowbit, entry["class"])(form.requires_grad_(False).eval(), weights)
        if "then" in entry:
            if getattr(layer, "arithmetic", "float") == "float":
                raise ValueError(f"{where} has a next layer, but is computed in float")
            layer.__dict__["then"] = self._then(path, entry["then"], layer)
        return layer

    def _form_of(self, where: str, name: Any, into: Any, weights: Mapping[str, Any]) -> Any:
        """Return the form of a layer that only the given model has, and the shapes of its weights."""
        if isinstance(into, lowbit.LowBit) and type(into).__name__ == name and into.weight_quantizer is not None:
            base = packed_layer(into)
            if base.weights.keys() == weights.keys():
                return base.form, {key: weight.shape for key, weight in base.weights.items()}
        raise ValueError(
            f"{where} is a low-bit {brief(name)}, which a file does not describe; give a model that has it there: "
            "load_packed(path, into=model)"
        )

    def _weight(self, path: str, name: str, entry: Any, layer: Any) -> Weight:
        where = f"{name} of {path or '(model)'}"
        if not isinstance(entry, Mapping) or len(entry) != 2 or "shape" not in entry:
            raise ValueError(f"{where} is {brief(entry)}; it must have a shape and a format")
        shape = tuple(items(count(1, 2**31))(f"the shape of {where}", entry["shape"]))
        kind = next(key for key in entry if key != "shape")
        form = _format(where, kind, entry[kind])
        if len(shape) < 2 or prod(shape) > 2**40:
            raise ValueError(f"{where} has the shape {brief(shape)}")
        stream = self._array(path, f"{name}.codes", (bytes_of(form, shape),), np.dtype(np.uint8))
        step = self.left.get(key_of(path, f"{name}.step"), np.zeros(0))
        axes = 2 if isinstance(form, Listed) else 1
        if step.dtype not in (np.float32, np.float64) or step.ndim != axes or not np.isfinite(step).all():
            raise ValueError(f"the step of {where} must be finite numbers, float32 or float64")
        if isinstance(form, Listed) and (not len(step) or step.shape[1] != form.count):
            raise ValueError(f"the lists of {where} have the shape {step.shape}, the format has {form.count} numbers")
        del self.left[key_of(path, f"{name}.step")]
        weight = Weight(form, stream, shape, 0 if str(layer).startswith("ConvTranspose") else 1, step)
        if isinstance(form, Listed):
            weight.integers()  # raises a ValueError for a code of no number
        return weight

    def _array(self, path: str, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
        """Remove an array of the file from ``left`` and return it."""
        array = self.left.pop(key_of(path, name), None)
        if array is None or array.shape != shape or array.dtype != dtype:
            found = "missing" if array is None else f"{array.dtype} {array.shape}"
            raise ValueError(f"{key_of(path, name)} is {found}, needs {dtype} {shape}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{key_of(path, name)} holds numbers that are not finite")
        return array

    def _fill_own(self, path: str, layer: Any) -> Arrays:
        """Fill in the state of a layer's input quantizer; return it by name."""
        own = layer._own("activation")
        for name, tensor in own.items():
            tensor.array = self._array(path, f"activation_{name}", tensor.array.shape, tensor.array.dtype)
        if own and not layer.activation_quantizer.is_ready(own):
            raise ValueError(f"{path or '(model)'}: {layer.activation_quantizer} has no range")
        return {f"activation_{name}": tensor.array for name, tensor in own.items()}

    def _then(self, path: str, entry: Any, layer: Any) -> Thresholded | Requantized:
        outputs = layer._outputs()
        if entry == "bits":
            flip = unpacked(self._array(path, "flip", (-(-outputs // 8),), np.dtype(np.uint8)), outputs, 1) == 1
            return Thresholded(self._array(path, "threshold", (outputs,), np.dtype(np.int32)), flip)
        zero, low, high, element = items(anything, 4)(f"what is behind {path}", entry)
        choice("int8", "int16")("the next element", element)
        least, most = (0, 255) if element == "int8" else (-(2**15), 2**15 - 1)
        for value in (zero, low, high):
            count(least, most)(f"a code behind {path}", value)
        scale = self._array(path, "scale", (outputs,), np.dtype(np.float32))
        offset = self._array(path, "offset", (outputs,), np.dtype(np.int32))
        if low > high or (np.abs(offset.astype(np.int64)) + layer.limit() >= 2**31).any():
            raise ValueError(f"the offset of {path or '(model)'} and its sums exceed int32, or low exceeds high")
        return Requantized(scale, offset, zero, low, high, element)

    def _norm(self, path: str, entry: dict[str, Any]) -> Module:
        channels = count(1, 2**31)(f"the channels of {path}", entry["channels"])
        ndim = choice(1, 2, 3)(f"ndim of {path}", entry["ndim"])
        dtype = np.dtype(np.float64 if self.left.get(key_of(path, "scale"), _NONE).dtype == np.float64 else np.float32)
        own = {name: self._array(path, name, (channels,), dtype) for name in ("scale", "shift")}
        self.left.update({key_of(path, name): array for name, array in own.items()})  # they are in its state_dict
        return lowbit.PackedNorm(**own, ndim=ndim)

    def _pool(self, path: str, entry: dict[str, Any]) -> Module:
        options = _tuples(items(anything, 4)(f"the options of {path}", entry["options"]))
        if not all(abs(each) <= _MOST_EXTENT for each in _numbers(options)):
            raise ValueError(f"the options of {path} are {brief(options)}; they must be at most {_MOST_EXTENT}")
        channels, element = count(1, 2**31)(f"the channels of {path}", entry["channels"]), entry["element"]
        choice(*ELEMENTS)(f"the element of {path}", element)
        bits = self._array(path, "turned", (-(-channels // 8),), np.dtype(np.uint8))
        kernel, stride, padding, dilation = options
        return lowbit.PackedMaxPool(kernel, stride, padding, dilation, unpacked(bits, channels, 1) == 1, element)


_PACKED: dict[str, Check] = dict.fromkeys(("class", "layer", "options", "activation", "weights"), anything)
_NORM: dict[str, Check] = dict.fromkeys(("class", "ndim", "channels"), anything)
_NONE = np.zeros(0, np.float32)
_POOL: dict[str, Check] = dict.fromkeys(("class", "options", "channels", "element"), anything)


def _format(where: str, kind: str, entry: Any) -> Format:
    if kind == "Uniform":
        numbers = table({"low": count(-(2**16), 0), "high": count(0, 2**16), "stride": choice(1, 2)})(where, entry)
        form: Format = Uniform(**numbers)
    elif kind == "Shifts":
        form = Shifts(**table({"bits": count(2, 6), "shifts": count(1, 4), "has_zero": flag})(where, entry))
    elif kind == "Listed":
        form = Listed(**table({"count": count(1, MOST_LISTED)})(where, entry))
    else:
        raise ValueError(f"{where} has the format {brief(kind)}; it must be Uniform, Shifts or Listed")
    if not 1 <= form.bits <= 16:
        raise ValueError(f"{where} has codes of {form.bits} bits; it must be 1 to 16")
    return form


def _built_quantizer(where: str, entry: Any) -> Any:
    if entry is None:
        return None
    entry = table({"class": choice(*QUANTIZERS), "options": anything})(f"the quantizer of {where}", entry)
    if not isinstance(entry["options"], Mapping):
        raise ValueError(f"the options of the quantizer of {where} are {brief(entry['options'])}")
    return QUANTIZERS[entry["class"]](**entry["options"])


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, tuple):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int):
        yield value
