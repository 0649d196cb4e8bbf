"""Steps with constant arrays: what depends on these alone is computed once, and batch norms go into convolutions.

``frozen(steps, constants)`` returns fewer steps with the same result but for rounding. A convolution followed by a
scale and a shift per channel becomes one with other weights: (sum of w x + b) s + h = sum of (w s) x + (b s + h).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from ..arrays import copies
from ..specs.array_spec import arrays_in
from .memory_planning import root
from .steps import Step, Steps

__all__ = ["frozen"]

_CONVOLUTIONS = {"conv": 0, "conv_input_grad": 1}  # kernel -> the axis of its weight with the channels of its result


def frozen(
    steps: Steps, constants: Iterable[np.ndarray], outside: Iterable[np.ndarray]
) -> tuple[Steps, list[np.ndarray]]:
    """Return the steps that depend on arguments, and all constants: the given arrays and those computed from them.

    outside: arrays that are read after the steps, such as the results.
    """
    kept = [*constants]
    changed = {id(root(array)) for step in steps for array in step.changed}  # at each run
    known = {id(root(array)) for array in kept} - changed
    dropped: set[int] = set()
    for at, step in enumerate(steps):
        inputs = step.inputs
        results = [*arrays_in(step.result)]
        fixed = inputs and step.kernel != "dropout" and changed.isdisjoint(id(root(array)) for array in results)
        if fixed and not step.changed and all(id(root(array)) in known for array in inputs):
            kept += results
            known.update(id(root(array)) for array in results)
            dropped.add(at)
    decided = [array for _, each in steps.decisions for array in each.arrays]
    made = _folded(steps, dropped, known, {id(root(array)) for array in (*outside, *decided)})
    kept += [array for step in made.values() for array in step.args[1:3]]
    return steps.replaced(made, dropped), kept


def _folded(steps: Steps, dropped: set[int], known: set[int], read: set[int]) -> dict[int, Step]:
    """Convolutions with the scale and shift after them, by place, where nothing else reads their own results.

    The steps of the scales and shifts become ``dropped``, too.
    """
    left = [at for at in range(len(steps)) if at not in dropped]
    uses = Counter(id(root(array)) for at in left for array in steps[at].inputs)
    made: dict[int, Step] = {}
    makers: dict[int, int] = {}  # id of an array -> the place of the step that made it
    for at in left:
        step: Step = steps[at]
        place = makers.get(id(step.args[0])) if step.kernel == "channel_affine" and len(step.args) == 3 else None
        if place is not None and id(root(step.args[0])) not in read and uses[id(root(step.args[0]))] == 1:
            conv = made.get(place, steps[place])
            if _is_foldable(conv, step, known):
                made[place] = step = _fold(conv, step)
                dropped.add(at)
                at = place
        for array in step.outputs:
            makers[id(array)] = at
    return made


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
