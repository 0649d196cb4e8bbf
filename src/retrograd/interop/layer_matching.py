"""Matching of layers in a foreign weights file to the modules of a model, by name or in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._files.state import brief
from ..engine.arguments import kind_name
from ..nn.module import Module
from ..nn.module_state import IncompatibleKeys
from ..nn.recurrent import RNNBase

__all__ = ["Converted", "Layer", "WeightsFileError", "load_layers", "recurrent_mode"]


class WeightsFileError(ValueError):
    """A weights file is damaged or does not fit the model; the message names the file and the location."""


@dataclass
class Layer:
    """A layer in a file: its name, and its arrays by name, in the library's order."""

    name: str
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


Converted = Callable[[Module, Sequence[Layer]], dict[str, np.ndarray]]  # our module, their layers -> our state_dict


def recurrent_mode(module: RNNBase) -> str:
    """The mode of a recurrent module: "lstm", "gru", "rnn_tanh" or "rnn_relu"."""
    return module.mode.lower()


def load_layers(
    name: str,
    model: Module,
    path: Any,
    theirs: Iterable[Layer],
    convert: Converted,
    strict: bool,
    names: Mapping[str, str] | None,
    fit: Callable[[Module, Layer], int],
    error: type[WeightsFileError],
) -> IncompatibleKeys:
    """Copy the arrays of a file's layers into a model.

    names: {path of our module: name of their layer}, for layers that cannot be found otherwise. The others are matched
        by name, if every path, or the last part of every path, is the name of a layer; otherwise in order.
    fit: scores how well a layer of the file fits a module, 0 for not at all. Of equal scores, the first is chosen.
    strict: False leaves modules without a layer unchanged and ignores unmatched layers.

    Raises:
        TypeError: model is not a Module, or names is not a dict of strings.
        WeightsFileError: the layers do not fit; the message lists everything missing, left over or of another shape,
            and the model is unchanged.
    """
    if not isinstance(model, Module):
        raise TypeError(f"{name}: model is {kind_name(model)}, expected a Module")
    assigned = dict(names or {})
    if not all(isinstance(text, str) for pair in assigned.items() for text in pair):
        raise TypeError(f"{name}: names must map paths of modules to names of layers")
    own = [(place, module) for place, module in model.named_modules() if _has_state(module)]
    pool = {layer.name: layer for layer in theirs}
    unknown = [place for place in assigned if place not in dict(own)]
    absent = [layer for layer in assigned.values() if layer not in pool]
    if unknown or absent:
        raise error(
            f"{path}: names has {brief([*unknown, *absent])}; "
            f"the model has {brief([place for place, _ in own])}, the file {brief(list(pool))}"
        )
    problems: list[str] = []
    missing: list[str] = []
    state: dict[str, np.ndarray] = {}
    chosen = _chosen(own, pool, assigned, fit)
    for place, module in own:
        found = chosen[place]
        start = f"{place}." if place else ""
        converted: dict[str, np.ndarray] = {}
        if found:
            try:
                converted = convert(module, found)
            except (ValueError, TypeError, KeyError) as reason:
                problems.append(f"{start or 'the model'}: {'; '.join(layer.name for layer in found)}: {reason}")
                continue
        state |= {start + key: value for key, value in converted.items()}
        absent = [key for key, _ in _members(module) if key not in converted and key != "num_batches_tracked"]
        missing += [start + key for key in absent]
    used = {layer.name for found in chosen.values() for layer in found}
    unexpected = [layer for layer in pool if layer not in used]
    if strict and missing:
        problems.append(f"missing in the file: {brief(missing)}")
    if strict and unexpected:
        problems.append(f"not used from the file: {brief(unexpected)}")
    if strict and (missing or unexpected):
        problems.append("(names={path: layer} matches them by hand; strict=False leaves the rest unchanged)")
    if problems:
        raise error(f"{path} does not fit the model, nothing was changed:" + "".join(f"\n\t{one}" for one in problems))
    try:
        model.load_state_dict(state, strict=False)
    except RuntimeError as reason:
        raise error(f"{path} does not fit the model. {reason}") from reason
    return IncompatibleKeys(missing, unexpected)


def _chosen(
    own: Sequence[tuple[str, Module]],
    pool: Mapping[str, Layer],
    assigned: Mapping[str, str],
    fit: Callable[[Module, Layer], int],
) -> dict[str, list[Layer]]:
    """Choose the layers of the file for each path of ours; a recurrent module gets one for each of its layers."""
    left = {name: layer for name, layer in pool.items() if name not in assigned.values()}
    rest = [place for place, _ in own if place not in assigned]
    for called in (str, _last):  # match the whole path, or its last part
        named = {called(name.replace("/", ".")): name for name in left}
        keys = [called(place) for place in rest]
        if rest and len(set(keys)) == len(rest) and named.keys() >= set(keys):
            by_name = {place: [left[named[called(place)]]] for place in rest}
            return {place: by_name.get(place) or [pool[assigned[place]]] for place, _ in own}
    result: dict[str, list[Layer]] = {}
    for place, module in own:
        if place in assigned:
            result[place] = [pool[assigned[place]]]
            continue
        count = module.num_layers if isinstance(module, RNNBase) else 1
        fitting = sorted((name for name in left if fit(module, left[name])), key=lambda name: -fit(module, left[name]))
        result[place] = [left.pop(name) for name in fitting[:count]]
    return result


def _last(place: str) -> str:
    return place.rpartition(".")[2]


def _members(module: Module) -> Iterable[tuple[str, Any]]:
    return [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]


def _has_state(module: Module) -> bool:
    return any(True for _ in _members(module))
