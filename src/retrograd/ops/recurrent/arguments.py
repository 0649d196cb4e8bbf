"""Argument checks of recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays import first_outside, from_host, within
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ...specs.recurrence import Recurrence, Weights
from ..argument_checks import require_float, require_same

__all__ = [
    "SegmentLengths",
    "check_layer",
    "check_weights",
    "checked_interval",
    "checked_lengths",
    "runs_fused",
    "weight_shapes",
]

ALGORITHMS = ("auto", "fused", "composed")


@lru_cache(maxsize=4096)
def weight_shapes(spec: Recurrence) -> Weights:
    """Return the shape of each weight of a direction, or None for weights that the layer lacks."""
    rows, hidden = spec.gates * spec.hidden, spec.hidden
    bias = (rows,) if spec.bias else None
    gain = (rows,) if spec.norm else None
    return Weights(
        w_ih=(rows, spec.input),
        w_hh=(rows, spec.output),
        b_ih=bias,
        b_hh=bias,
        w_hr=(spec.projection, hidden) if spec.projection else None,
        peephole=(3 - int(spec.coupled), hidden) if spec.peephole else None,
        norm_ih=gain,
        norm_hh=gain,
        norm_c=(2, hidden) if spec.norm and spec.cells else None,
    )


def runs_fused(name: str, spec: Recurrence, algorithm: str) -> bool:
    """Return whether the fused kernels compute a layer; otherwise it is composed of operators.

    Raises:
        ValueError: the algorithm is unknown, or does not support the layer.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"{name}: algorithm={algorithm!r} is unknown; choose one of {', '.join(ALGORITHMS)}")
    supported = spec.reset_after and not spec.norm and not spec.draws
    if algorithm == "fused" and not supported:
        raise ValueError(
            f"{name}: algorithm='fused' does not support layer normalization, zoneout, recurrent dropout or "
            "reset_after=False; leave algorithm='auto'"
        )
    return supported and algorithm != "composed"


def check_layer(
    name: str, x: Tensor, h0: Tensor | None, c0: Tensor | None, weights: Sequence[Weights], spec: Recurrence
) -> None:
    """Raise unless x, the states and the weights fit ``spec``."""
    require_float(name, x, "input")
    shape = x.array.shape
    if len(shape) != 3 or shape[2] != spec.input:
        raise ValueError(f"{name}: input.shape={shape}, needs (T, N, {spec.input}): {spec.input} features in each step")
    if shape[0] == 0:
        raise ValueError(f"{name}: input.shape={shape} has no steps; give at least 1")
    states = [("h0", h0, spec.output)]
    if spec.cells:
        states.append(("c0", c0, spec.hidden))
    elif c0 is not None:
        raise ValueError(f"{name}: c0 is given, but mode {spec.mode!r} has no cell state; leave it out")
    for label, state, width in states:
        if state is None:
            continue
        require_same(name, "input", x, label, state)
        expected = (spec.directions, shape[1], width)
        if state.array.shape != expected:
            raise ValueError(
                f"{name}: {label}.shape={state.array.shape}, needs {expected}: directions, sequences, units; "
                f"input.shape={shape}"
            )
    if len(weights) != spec.directions:
        raise ValueError(f"{name}: weights of {len(weights)} directions, but the layer has {spec.directions}")
    for given in weights:
        check_weights(name, x, given, spec)


def check_weights(name: str, x: Tensor, given: Weights, spec: Recurrence) -> None:
    """Raise unless the weights of a direction fit ``spec`` and have the type of x."""
    shapes, dtype = weight_shapes(spec), x.array.dtype
    for weight, shape in zip(given, shapes, strict=True):
        if weight is None and shape is None:
            continue
        if not isinstance(weight, Tensor) or weight.array.shape != shape or weight.array.dtype is not dtype:
            _check_weights(name, x, given, shapes, spec)  # the slow check, with the message


def _check_weights(name: str, x: Tensor, given: Weights, shapes: Weights, spec: Recurrence) -> None:
    for label, weight, expected in zip(Weights._fields, given, shapes, strict=True):
        if weight is None and expected is None:
            continue
        if weight is None or expected is None:
            there = "missing" if weight is None else "given, but the layer has none"
            raise ValueError(f"{name}: {label} is {there}; the layer is {spec}")
        require_same(name, "input", x, label, weight)
        if weight.array.shape != expected:
            raise ValueError(f"{name}: {label}.shape={weight.array.shape}, needs {expected}")


class SegmentLengths(list[int]):
    """Lengths within a segment of long sequences. A sequence that has ended has length 0 and keeps its state."""


@operator
def checked_lengths(name: str, lengths: Any, steps: int, batch: int) -> np.ndarray:
    """Check the lengths of N sequences, and copy them as int64.

    Raises:
        TypeError: they are not ints.
        ValueError: there are not N lengths, or one is not from 1 to T (in a ``Rest``: from 0 to T).
    """
    if interpreters and (seen := interpreted(checked_lengths, locals())) is not None:
        return seen
    least = 0 if isinstance(lengths, SegmentLengths) else 1
    array = lengths.array if isinstance(lengths, Tensor) else from_host(lengths)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name}: lengths is {array.dtype}, needs ints; convert them with .long()")
    if array.shape != (batch,):
        raise ValueError(f"{name}: lengths.shape={array.shape}, needs ({batch},): one length for each sequence")
    if not within(array, least, steps, "whether lengths fit"):
        (n,), wrong = first_outside(array, least, steps, "a message")
        raise ValueError(f"{name}: lengths[{n}]={wrong}; a length must be {least} to {steps}, the steps of the input")
    return kernels.cast(array, np.dtype(np.int64))


def checked_interval(name: str, checkpoint: Any, steps: int) -> int:
    """Check and return the number of steps between two saved states.

    Raises:
        ValueError: it is neither "auto" nor an int of at least 1.
    """
    if checkpoint == "auto":
        return math.isqrt(steps - 1) + 1
    if isinstance(checkpoint, bool) or not isinstance(checkpoint, int) or checkpoint < 1:
        raise ValueError(f"{name}: checkpoint={checkpoint!r} must be an int of at least 1, 'auto' or None")
    return checkpoint
