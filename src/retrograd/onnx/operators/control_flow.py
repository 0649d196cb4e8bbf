"""If, Loop and Scan, sequences and optional values. Source: ONNX Operators.html."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ..errors import OnnxError, UnsupportedError
from ..node import Node, Value, array_of, scalar, value_of
from .registry import operator

# ---- If, Loop and Scan, whose bodies are graphs. Source: ONNX Operators.html, sections of these names ---------------

Run = Callable[..., tuple[Value, ...]]
_MOST_ITERATIONS = 30_000  # of any loop, whatever limit the file sets


@operator("If", constants=(0,), branches=True)
def if_(node: Node, condition: Value, *, run: Run) -> tuple[Value, ...]:
    return run("then_branch" if scalar(condition) else "else_branch")


@operator("Loop", constants=(0, 1), branches=True)
def loop(node: Node, count: Value, condition: Value, *carried: Value, run: Run) -> tuple[Value, ...]:
    """Run the body repeatedly.

    It receives the iteration number, the condition and the carried values. It returns the condition, the carried
    values, and one entry of each collected output.
    """
    most = _MOST_ITERATIONS if count is None else scalar(count)
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
        if turn == _MOST_ITERATIONS:
            raise OnnxError(f"the loop has not ended after {_MOST_ITERATIONS} iterations")
    return (*carried, *(_stacked(place, 0) for place in collected))


@operator("Scan", branches=True)
def scan(node: Node, *values: Value, run: Run) -> tuple[Value, ...]:
    """Run the body on each slice of the sequences.

    It receives the carried values and a slice of each sequence, and returns the carried values and a slice of each
    result.
    """
    count = node["num_scan_inputs"]
    if node.version < 9:
        raise UnsupportedError("Scan of opset 8")
    carried, sequences = values[: len(values) - count], values[len(values) - count :]
    axes = node["scan_input_axes"] or [0] * count
    backward = node["scan_input_directions"] or [0] * count
    length = array_of(sequences[0]).shape[axes[0]]
    outputs = len(node.outputs) - len(carried)
    collected: list[list[Value]] = [[] for _ in range(outputs)]
    for turn in range(length):
        slices = [
            _slice_at(sequence, axis, length - 1 - turn if reverse else turn)
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


def _slice_at(value: Value, axis: int, place: int) -> Any:
    return ops.select(value, axis, place) if isinstance(value, Tensor) else np.take(value, place, axis)


def _stacked(values: list[Value], axis: int) -> Value:
    if values and all(isinstance(value, Tensor) for value in values):
        return ops.stack(values, axis)
    if not values:
        return wrap(np.zeros(0, np.float32))
    return value_of(np.stack([array_of(value) for value in values], axis))


# ---- Sequences and optional values. Source: ONNX Operators.html, sections of these names ----------------------------


def _place(sequence: list[Value], position: Value, extra: int) -> int:
    """Return a position counted from the front; extra: the number of allowed positions after the last entry."""
    place, count = scalar(position), len(sequence) + extra
    if not -len(sequence) <= place < count:
        raise OnnxError(f"position {place} is outside a sequence of {len(sequence)}")
    return int(place + len(sequence) if place < 0 else place)


@operator("SequenceConstruct")
def sequence_construct(node: Node, *values: Value) -> Any:
    return ([*values],)


@operator("SequenceEmpty")
def sequence_empty(node: Node) -> Any:
    return ([],)


@operator("SequenceAt", constants=(1,))
def sequence_at(node: Node, sequence: list[Value], position: Value) -> Value:
    return sequence[_place(sequence, position, 0)]


@operator("SequenceInsert", constants=(2,))
def sequence_insert(node: Node, sequence: list[Value], value: Value, position: Value = None) -> Any:
    place = len(sequence) if position is None else _place(sequence, position, 1)
    return ([*sequence[:place], value, *sequence[place:]],)


@operator("SequenceErase", constants=(1,))
def sequence_erase(node: Node, sequence: list[Value], position: Value = None) -> Any:
    place = len(sequence) - 1 if position is None else _place(sequence, position, 0)
    return ([*sequence[:place], *sequence[place + 1 :]],)


@operator("SequenceLength")
def sequence_length(node: Node, sequence: list[Value]) -> Tensor:
    return wrap(np.array(len(sequence), np.int64))


@operator("SplitToSequence", constants=(1,))
def split_to_sequence(node: Node, x: Value, sizes: Value = None) -> Any:
    axis, extent = node["axis"], array_of(x).shape[node["axis"]]
    if sizes is None:
        parts = [1] * extent
    elif array_of(sizes).ndim == 0:
        size = scalar(sizes)
        parts = [min(size, extent - begin) for begin in range(0, extent, size)]
    else:
        parts = array_of(sizes).tolist()
    whole = isinstance(x, Tensor)
    pieces: list[Value] = [*(ops.split(x, parts, axis) if whole else np.split(x, np.cumsum(parts)[:-1], axis))]
    if sizes is None and not node["keepdims"]:
        pieces = [ops.squeeze(piece, axis) if whole else np.squeeze(piece, axis) for piece in pieces]
    return ([*pieces],)


@operator("ConcatFromSequence")
def concat_from_sequence(node: Node, sequence: list[Value]) -> Value:
    join = ops.stack if node["new_axis"] else ops.cat
    return join(sequence, node["axis"])


@operator("SequenceMap", branches=True)
def sequence_map(node: Node, *values: Value, run: Run) -> tuple[Value, ...]:
    """Run the body for each entry of the first sequence and of others; non-sequence inputs are passed to each run."""
    results: list[tuple[Value, ...]] = []
    for place in range(len(values[0])):
        results.append(run("body", *[value[place] if isinstance(value, list) else value for value in values]))
    return tuple([each[k] for each in results] for k in range(len(node.outputs)))


@operator("Optional")
def optional(node: Node, value: Value = None) -> Any:
    return (value,)


@operator("OptionalHasElement")
def optional_has_element(node: Node, value: Value = None) -> Tensor:
    return wrap(np.array(value is not None))


@operator("OptionalGetElement")
def optional_get_element(node: Node, value: Value) -> Any:
    if value is None:
        raise OnnxError("the optional value is missing")
    return (value,)
