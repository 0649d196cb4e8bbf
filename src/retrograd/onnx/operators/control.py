"""If, Loop and Scan, whose bodies are graphs. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ..errors import OnnxError, UnsupportedError
from ..node import Node
from ..values import Value, array_of, scalar, value_of
from .registry import operator

Run = Callable[..., tuple[Value, ...]]
_MOST_TURNS = 30_000  # of a loop, whatever its own limit


@operator("If", constants=(0,), branches=True)
def if_(node: Node, condition: Value, *, run: Run) -> tuple[Value, ...]:
    return run("then_branch" if scalar(condition) else "else_branch")


@operator("Loop", constants=(0, 1), branches=True)
def loop(node: Node, count: Value, condition: Value, *carried: Value, run: Run) -> tuple[Value, ...]:
    """The body gets the turn, the condition and what is carried; it gives the condition, what is carried, and what is
    collected from each turn."""
    most = _MOST_TURNS if count is None else scalar(count)
    goes_on = True if condition is None else bool(scalar(condition))
    collected: list[list[Value]] = [[] for _ in range(len(node.outputs) - len(carried))]
    turn = 0
    while goes_on and turn < most:
        again, *results = run("body", wrap(np.array(turn, np.int64)), wrap(np.array(goes_on)), *carried)
        goes_on = bool(scalar(again))
        carried = tuple(results[: len(carried)])
        for place, value in zip(collected, results[len(carried) :], strict=False):
            place.append(value)
        turn += 1
        if turn == _MOST_TURNS:
            raise OnnxError(f"the loop has not ended after {_MOST_TURNS} turns")
    return (*carried, *(_stacked(place, 0) for place in collected))


@operator("Scan", branches=True)
def scan(node: Node, *values: Value, run: Run) -> tuple[Value, ...]:
    """The body gets what is carried, and a slice of each sequence; it gives what is carried, and a slice of each
    result."""
    count = node["num_scan_inputs"]
    if node.version < 9:
        raise UnsupportedError("the form that Scan has in opset 8")
    carried, sequences = values[: len(values) - count], values[len(values) - count :]
    axes = node["scan_input_axes"] or [0] * count
    backward = node["scan_input_directions"] or [0] * count
    length = array_of(sequences[0]).shape[axes[0]]
    outputs = len(node.outputs) - len(carried)
    collected: list[list[Value]] = [[] for _ in range(outputs)]
    for turn in range(length):
        slices = [
            _taken(sequence, axis, length - 1 - turn if reverse else turn)
            for sequence, axis, reverse in zip(sequences, axes, backward, strict=True)
        ]
        results = run("body", *carried, *slices)
        carried = results[: len(carried)]
        for place, value in zip(collected, results[len(carried) :], strict=True):
            place.append(value)
    reverses = node["scan_output_directions"] or [0] * outputs
    out_axes = node["scan_output_axes"] or [0] * outputs
    stacked = [
        _stacked(place[::-1] if reverse else place, axis)
        for place, reverse, axis in zip(collected, reverses, out_axes, strict=True)
    ]
    return (*carried, *stacked)


def _taken(value: Value, axis: int, place: int) -> Any:
    return ops.select(value, axis, place) if isinstance(value, Tensor) else np.take(value, place, axis)


def _stacked(values: list[Value], axis: int) -> Value:
    if values and all(isinstance(value, Tensor) for value in values):
        return ops.stack(values, axis)
    if not values:
        return wrap(np.zeros(0, np.float32))
    return value_of(np.stack([array_of(value) for value in values], axis))
