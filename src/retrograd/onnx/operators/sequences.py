"""Lists of tensors, and values that may be left out. Source: ONNX Operators.html, sections of these names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ..errors import OnnxError
from ..node import Node
from ..values import Value, array_of, scalar
from .control import Run
from .registry import operator


def _place(sequence: list[Value], position: Value, room: int) -> int:
    """A position from 0 on; room: positions behind the last entry that are allowed."""
    place, count = scalar(position), len(sequence) + room
    if not -len(sequence) <= place < count:
        raise OnnxError(f"the position {place} of a sequence of {len(sequence)}")
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
    """The body for each entry of the first sequence, and of others; what is no sequence is given to each."""
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
        raise OnnxError("the value is left out")
    return (value,)
