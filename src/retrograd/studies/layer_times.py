"""Times of packed networks and of the float network, layer by layer, measured in turns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from time import perf_counter
from typing import Any

from ..engine.grad_mode import inference_mode
from ..engine.tensor import Tensor
from ..lowbit.fusion import packed_norm
from ..lowbit.packed_layers import Codes, PackedSum
from ..nn.convolution import Conv2d
from ..nn.linear import Linear
from ..nn.module import Module
from ..specs.low_bit import codes_of

__all__ = ["Part", "for_inference", "remark", "times_in_turns"]

_SECONDS = 1.0  # seconds of measurement per network
_LEAST_ROUNDS = 5
_SLOWER = 1.05  # a part is called slower from this ratio on
_FIXED = 0.6  # the time is called fixed if one sample takes this fraction of it
_FRACTION = 0.1  # a step is mentioned if it takes this fraction of a part

_Times = dict[tuple[int, str], float]  # (index of the part, step) -> seconds


@dataclass
class Part:
    """A layer with weights and the modules up to the next one, with its seconds per call.

    steps: the seconds of the "layer" alone; in a packed layer, also of "one" sample and of two steps on float input,
        the conversion to "codes" and the "factor" of the output.
    """

    name: str
    arithmetic: str = "float"
    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    used: float = 1.0  # the fraction of the words of codes that the input channels fill


def for_inference(model: Module) -> Module:
    """Return a copy of a float network in which batch norms are a scale and a shift, as in packed networks."""
    memo = {id(module): norm for module in model.modules() if (norm := packed_norm(module)) is not None}
    return copy.deepcopy(model, memo).eval()


def times_in_turns(models: Mapping[str, Module], batch: Tensor) -> dict[str, list[Part]]:
    """Return the parts of each network, a Sequential.

    In each round every network runs once, in random order, so that caches and other programs affect all alike.
    """
    parts = {name: _parts(model) for name, model in models.items()}
    times: dict[str, list[_Times]] = {name: [] for name in models}
    steps: dict[str, list[_Times]] = {name: [] for name in models}
    order, shuffle = list(models), Random(0).shuffle
    with inference_mode():
        for model in models.values():
            _run(model, batch)  # fills caches
        begin = perf_counter()
        while perf_counter() - begin < _SECONDS * len(models) or len(times[order[0]]) < _LEAST_ROUNDS:
            shuffle(order)
            for name in order:
                times[name].append(_run(models[name], batch))
            for name in order:
                steps[name].append(_run(models[name], batch, with_steps=True))
    for name, rounds in times.items():
        for place, part in enumerate(parts[name]):
            part.seconds = _usual([each[place, ""] for each in rounds])
            part.steps = {"layer": _usual([each[place, "layer"] for each in rounds])}
            for step in ("one", "codes", "factor"):
                if (place, step) in steps[name][0]:
                    part.steps[step] = _usual([each[place, step] for each in steps[name]])
    return parts


def _usual(times: list[float]) -> float:
    """Return the 5th percentile: other programs interrupt a call often, and never make it faster."""
    return sorted(times)[len(times) // 20]


def _parts(model: Module) -> list[Part]:
    parts: list[Part] = []
    for layer in model.children():
        if not _has_weights(layer):
            continue
        form: Any = layer.form if isinstance(layer, PackedSum) else layer
        inputs, outputs = (
            (form.in_features, form.out_features) if isinstance(form, Linear) else (form.in_channels, form.out_channels)
        )
        part = Part(f"{type(form).__name__}({inputs}, {outputs})")
        if isinstance(layer, PackedSum) and layer.arithmetic != "float":
            part.arithmetic = layer.arithmetic
            capacity = codes_of(layer.arithmetic, inputs) * (32 if layer.arithmetic == "binary" else 1)
            part.used = inputs / capacity
        parts.append(part)
    return parts


def _has_weights(module: Module) -> bool:
    return isinstance(module, (PackedSum, Conv2d, Linear))


def _run(model: Module, batch: Tensor, with_steps: bool = False) -> _Times:
    """Run a network once and return the times of its parts; the step "" is the whole part."""
    found: _Times = {}
    x: Any = batch
    place = -1
    for layer in model.children():
        place += _has_weights(layer)
        if with_steps and isinstance(layer, PackedSum) and layer.arithmetic != "float":
            found.update({(place, step): seconds for step, seconds in _steps(layer, x).items()})
        start = perf_counter()
        x = layer(x)
        seconds = perf_counter() - start
        if _has_weights(layer):
            found[place, "layer"] = seconds
        found[place, ""] = found.get((place, ""), 0.0) + seconds
    return found


def _steps(layer: PackedSum, x: Tensor | Codes) -> dict[str, float]:
    """Return the seconds for one sample, and those of the steps that are computed on float input."""
    one: Any = Tensor(x.array[:1]) if isinstance(x, Tensor) else replace(x, array=x.array[:1])
    steps = {"one": _seconds(lambda: layer(one))}
    if isinstance(x, Tensor):
        steps["codes"] = _seconds(lambda: layer._coded(x))
        quantizer, window = layer.form.activation_quantizer, layer.form._window()
        if quantizer.factor(one, window) is not None:
            steps["factor"] = _seconds(lambda: quantizer.factor(x, window))
    return steps


def _seconds(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def remark(name: str, packed: list[Part], float_parts: list[Part]) -> str:
    """Return sentences that compare a packed network with the float one, and say why parts of it are slower."""
    ratio = sum(part.seconds for part in float_parts) / sum(part.seconds for part in packed)
    pairs = list(zip(packed, float_parts, strict=True))
    changes = ", ".join(f"{a.name} {_micro(b.seconds)} to {_micro(a.seconds)}" for a, b in pairs)
    text = (
        f"{name} is {ratio:.2f} times as fast as float. Microseconds for a batch, with the modules after each layer: "
        f"{changes}."
    )
    slower = [_why(a, b) for a, b in pairs if a.arithmetic != "float" and a.seconds > _SLOWER * b.seconds]
    return " ".join([text, *slower])


def _why(packed: Part, float_part: Part) -> str:
    """Return where the time of a slower part goes."""
    layer = packed.steps["layer"]
    causes = [f"the layer takes {_micro(layer)} instead of {_micro(float_part.steps['layer'])}"]
    if (codes := packed.steps.get("codes", 0.0)) > _FRACTION * layer:
        causes.append(f"{_micro(codes)} of this convert its float input to codes")
    if (factor := packed.steps.get("factor", 0.0)) > _FRACTION * layer:
        causes.append(f"{_micro(factor)} of this compute the mean |x| of each window")
    if (one := packed.steps["one"]) > _FIXED * layer:
        causes.append(f"a single image takes {_micro(one)}, so this is mostly the fixed cost of a call")
    if packed.used < 1:
        causes.append(f"its input channels fill {packed.used:.0%} of the words of codes")
    others = [part.seconds - part.steps["layer"] for part in (packed, float_part)]
    if others[0] > others[1] + _FRACTION * packed.seconds:
        causes.append(f"the modules after it take {_micro(others[0])} instead of {_micro(others[1])}")
    return f"{packed.name} is slower, with {packed.arithmetic} arithmetic: {'; '.join(causes)}."


def _micro(seconds: float) -> str:
    return f"{1e6 * seconds:.0f}"
