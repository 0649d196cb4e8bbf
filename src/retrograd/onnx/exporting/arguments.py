"""The arguments of ``export``: checked, and made into the examples that the model is run with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from inspect import Parameter, signature
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...nn.module import Module

Axes = Mapping[str, Mapping[int, str]]
Places = dict[str, list[tuple[str, int]]]  # the name of an extent that is left open -> the (input, axis) that have it


def inputs_of(model: Module, example: Any, names: Sequence[str] | None) -> dict[str, np.ndarray]:
    """The arrays of the example by the names of the inputs.

    Raises:
        TypeError, ValueError: the example holds no tensors, or the names do not fit.
    """
    given = tuple(example) if isinstance(example, (tuple, list)) else (example,)
    arrays = []
    for place, each in enumerate(given):
        if not isinstance(each, (Tensor, np.ndarray)):
            raise TypeError(
                f"onnx.export: example holds a {type(each).__name__} at place {place}, needs a Tensor, or a tuple "
                "of them: the arguments of the model"
            )
        arrays.append(Tensor(each).array if isinstance(each, np.ndarray) else each.array)
    if not arrays:
        raise ValueError("onnx.export: example is empty, needs the arguments of the model")
    if names is None:
        parameters = [
            each.name
            for each in signature(model.forward).parameters.values()
            if each.kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        ]
        named = len(parameters) >= len(arrays)
        names = parameters[: len(arrays)] if named else [f"input_{k}" for k in range(len(arrays))]
    if len(names) != len(arrays) or len(set(names)) != len(names) or not all(isinstance(n, str) and n for n in names):
        raise ValueError(f"onnx.export: input_names={list(names)!r} must be {len(arrays)} different names")
    return dict(zip(names, arrays, strict=True))


def places_of(inputs: dict[str, np.ndarray], axes: Axes | None) -> Places:
    """The extents that are left open.

    Raises:
        ValueError: an axis is not there, or an extent differs between its places.
    """
    if axes is None:
        axes = {name: {0: "batch"} for name, array in inputs.items() if array.ndim}
        sizes = {inputs[name].shape[0] for name in axes}
        if len(sizes) > 1:
            raise ValueError(
                f"onnx.export: the first axes of the inputs have the extents {sorted(sizes)}, and are the batch by "
                'default; say what is left open: dynamic_axes={"x": {0: "batch"}}'
            )
    found: Places = {}
    for name, of in axes.items():
        if name not in inputs:
            raise ValueError(f"onnx.export: dynamic_axes names {name!r}, which is none of the inputs {list(inputs)}")
        for axis, label in of.items():
            if not isinstance(label, str) or not label.isidentifier():
                raise ValueError(f"onnx.export: dynamic_axes={axes!r}: {label!r} must be a name for the extent")
            if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < inputs[name].ndim:
                raise ValueError(f"onnx.export: dynamic_axes: {name} has no axis {axis!r}; shape={inputs[name].shape}")
            found.setdefault(label, []).append((name, axis))
    for label, places in found.items():
        sizes = {inputs[name].shape[axis] for name, axis in places}
        if len(sizes) > 1 or 0 in sizes:
            raise ValueError(f"onnx.export: the extent {label!r} is {sorted(sizes)} in the example, needs one above 0")
    return found


def another(inputs: dict[str, np.ndarray], open_places: Places, turn: int) -> dict[str, np.ndarray]:
    """Another example: of other values, and of other extents where they are left open.

    turn: 1 and 2 are a bit larger, 3 much. Values are those of the first example in another order, whole ones
    from turn 2 on with some repeated, so that indices and lengths stay valid; floating-point ones are scaled down, so
    that signs and domains stay.
    """
    found = dict(inputs)
    ratios: list[Fraction] = []
    steps: list[int] = []
    for (name, axis), *rest in open_places.values():
        size = inputs[name].shape[axis]
        more = turn if turn < 3 else size + 3
        # so that neither what grows in proportion to an extent nor what is longer by a number can be that of another
        while more in steps or _is_known(Fraction(size + more, size), ratios):
            more += 1
        ratios.append(Fraction(size + more, size))
        steps.append(more)
        for of, along in ((name, axis), *rest):
            found[of] = np.take(found[of], np.arange(size + more) % size, along)
    for name, array in found.items():
        line = array.reshape(-1)
        places = (np.arange(line.size) + turn) % max(line.size, 1)
        if turn > 1 and array.dtype.kind != "f":  # which of equal ones comes first when sorted is not defined
            places[:: turn + 1] = places[:1]
        array = line[places].reshape(array.shape)
        found[name] = array * array.dtype.type(1 - turn / 8) if array.dtype.kind == "f" else array
    return found


def _is_known(ratio: Fraction, known: list[Fraction]) -> bool:
    products = [a * b for a in (*known, ratio) for b in known]
    return ratio in (*known, *products) or any(one in products for one in known)
