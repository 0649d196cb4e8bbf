"""The checks of what a recurrent layer is called with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..recurrence import Recurrence, Weights
from .dtype import require_float, require_same

__all__ = ["Rest", "check_layer", "checked_interval", "checked_lengths", "weight_shapes"]


@lru_cache(maxsize=4096)
def weight_shapes(what: Recurrence) -> Weights:
    """The shape of each weight of a direction; None for those that the layer lacks."""
    rows, hidden = what.gates * what.hidden, what.hidden
    bias = (rows,) if what.bias else None
    gain = (rows,) if what.norm else None
    return Weights(
        w_ih=(rows, what.input),
        w_hh=(rows, what.output),
        b_ih=bias,
        b_hh=bias,
        w_hr=(what.projection, hidden) if what.projection else None,
        peephole=(3 - int(what.coupled), hidden) if what.peephole else None,
        norm_ih=gain,
        norm_hh=gain,
        norm_c=(2, hidden) if what.norm and what.cells else None,
    )


def check_layer(
    name: str, x: Tensor, h0: Tensor | None, c0: Tensor | None, weights: Sequence[Weights], what: Recurrence
) -> None:
    """Raise unless x, the states and the weights are those of ``what``."""
    require_float(name, x, "input")
    shape = x.array.shape
    if len(shape) != 3 or shape[2] != what.input:
        raise ValueError(f"{name}: input.shape={shape}, needs (T, N, {what.input}): {what.input} features in each step")
    if shape[0] == 0:
        raise ValueError(f"{name}: input.shape={shape} has no steps; give at least 1")
    states = [("h0", h0, what.output)]
    if what.cells:
        states.append(("c0", c0, what.hidden))
    elif c0 is not None:
        raise ValueError(f"{name}: c0 is given, and mode {what.mode!r} has no cell state; leave it out")
    for label, state, width in states:
        if state is None:
            continue
        require_same(name, "input", x, label, state)
        expected = (what.directions, shape[1], width)
        if state.array.shape != expected:
            raise ValueError(
                f"{name}: {label}.shape={state.array.shape}, needs {expected}: directions, sequences, units; "
                f"input.shape={shape}"
            )
    if len(weights) != what.directions:
        raise ValueError(f"{name}: weights of {len(weights)} directions, and the layer has {what.directions}")
    shapes = weight_shapes(what)
    dtype = x.array.dtype
    for given in weights:
        for weight, expected in zip(given, shapes, strict=True):
            if weight is None:
                if expected is not None:
                    break
            elif not isinstance(weight, Tensor) or weight.array.shape != expected or weight.array.dtype is not dtype:
                break
        else:
            continue
        _check_weights(name, x, given, shapes, what)  # something may be wrong: says what


def _check_weights(name: str, x: Tensor, given: Weights, shapes: Weights, what: Recurrence) -> None:
    for label, weight, expected in zip(Weights._fields, given, shapes, strict=True):
        if weight is None and expected is None:
            continue
        if weight is None or expected is None:
            there = "missing" if weight is None else "given, and the layer has none"
            raise ValueError(f"{name}: {label} is {there}; the layer is {what}")
        require_same(name, "input", x, label, weight)
        if weight.array.shape != expected:
            raise ValueError(f"{name}: {label}.shape={weight.array.shape}, needs {expected}")


class Rest(list[int]):
    """What is left of lengths in a piece of a long sequence: 0 for one that has ended, which keeps its state."""


def checked_lengths(name: str, lengths: Any, steps: int, batch: int) -> np.ndarray:
    """The lengths of N sequences as a copy of their own, int64.

    Raises:
        TypeError: they are not ints.
        ValueError: there are not N of them, or one is not 1 to T (of a ``Rest``: 0 to T).
    """
    least = 0 if isinstance(lengths, Rest) else 1
    array = np.asarray(lengths.array if isinstance(lengths, Tensor) else lengths)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name}: lengths are {array.dtype}, they must be ints; convert them with .long()")
    if array.shape != (batch,):
        raise ValueError(f"{name}: lengths.shape={array.shape}, needs ({batch},): one length for each sequence")
    wrong = np.flatnonzero((array < least) | (array > steps))
    if wrong.size:
        raise ValueError(
            f"{name}: lengths[{wrong[0]}]={array[wrong[0]]}; a length must be {least} to {steps}, the steps of the "
            "input"
        )
    return array.astype(np.int64)


def checked_interval(name: str, checkpoint: Any, steps: int) -> int:
    """How many steps lie between two states that are kept.

    Raises:
        ValueError: it is neither "auto" nor an int of at least 1.
    """
    if checkpoint == "auto":
        return math.isqrt(steps - 1) + 1
    if isinstance(checkpoint, bool) or not isinstance(checkpoint, int) or checkpoint < 1:
        raise ValueError(f"{name}: checkpoint={checkpoint!r} must be an int of at least 1, 'auto' or None")
    return checkpoint
