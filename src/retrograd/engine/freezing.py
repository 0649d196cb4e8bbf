"""Steps with constant arrays: what depends on these alone is computed once, and batch norms go into convolutions.

``frozen(steps, constants)`` returns fewer steps with the same result but for rounding. A convolution followed by a
scale and a shift per channel becomes one with other weights: (sum of w x + b) s + h = sum of (w s) x + (b s + h).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..arrays import copies
from ..specs.array_spec import arrays_in
from .memory_planning import root
from .steps import Step, Steps

__all__ = ["frozen"]

_CONVOLUTIONS = {"conv": 0, "conv_input_grad": 1}  # kernel -> the axis of its weight with the channels of its result


def frozen(steps: Steps, constants: Iterable[np.ndarray]) -> tuple[Steps, list[np.ndarray]]:
    """Return the steps that depend on arguments, and all constants: the given arrays and those computed from them."""
    kept = [*constants]
    changed = {id(root(array)) for step in steps for array in step.changed}  # at each run
    known = {id(root(array)) for array in kept} - changed

    def is_constant(array: np.ndarray) -> bool:
        return id(root(array)) in known

    left: list[Step] = []
    for step in steps:
        inputs = step.inputs
        results = [*arrays_in(step.result)]
        fixed = inputs and step.kernel != "dropout" and changed.isdisjoint(id(root(array)) for array in results)
        if fixed and not step.changed and all(map(is_constant, inputs)):
            kept += results
            known.update(id(root(array)) for array in results)
        else:
            left.append(step)
    folded = _folded(left, steps.result, known)
    before = {id(step) for step in left}
    kept += [array for step in folded if id(step) not in before for array in step.args[1:3]]
    found = Steps(folded)
    found.result, found.reads = steps.result, [*steps.reads]
    places = {id(step): place for place, step in enumerate(folded)}
    found.decisions = [(_place(place, steps, places), each) for place, each in steps.decisions]
    return found, kept


def _place(before: int, steps: Sequence[Step], places: dict[int, int]) -> int:
    """The number of remaining steps before a decision that had ``before`` steps before it."""
    ahead = [places[id(step)] + 1 for step in steps[:before] if id(step) in places]
    return max(ahead, default=0)


def _folded(steps: list[Step], result: Any, known: set[int]) -> list[Step]:
    """The steps with each scale and shift in the convolution before it, where nothing else reads that."""
    uses = Counter(id(root(array)) for step in steps for array in step.inputs)
    found: list[Step] = []
    makers: dict[int, int] = {}  # id of an array -> the place of the step that made it
    for step in steps:
        place = makers.get(id(step.args[0])) if step.kernel == "channel_affine" and len(step.args) == 3 else None
        if place is not None and uses[id(root(step.args[0]))] == 1 and _is_foldable(found[place], step, known):
            found[place] = step = _fold(found[place], step)
        else:
            place = len(found)
            found.append(step)
        for array in step.outputs:
            makers[id(array)] = place
    return found


def _is_foldable(conv: Step, affine: Step, known: set[int]) -> bool:
    axis = _CONVOLUTIONS.get(conv.kernel)
    if axis is None or conv.kwargs or len(conv.args) < 4 or (axis == 1 and conv.args[3].groups != 1):
        return False
    constants = [*conv.args[1:3], *affine.args[1:]]
    return all(array is None or id(root(array)) in known for array in constants)


def _fold(conv: Step, affine: Step) -> Step:
    axis = _CONVOLUTIONS[conv.kernel]
    (x, w, bias, *options), (_, scale, shift) = conv.args, affine.args
    weight, shift = copies.scaled(w, scale, axis), copies.duplicate(shift)
    if bias is not None:
        shift += copies.scaled(bias, scale, 0)
    return conv._replace(args=(x, weight, shift, *options), result=affine.result)
