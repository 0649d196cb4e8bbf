"""Converters of RNN, GRU and LSTM.

Our gates are i, f, g, o and r, z, n; ONNX's i, o, f, c and z, r, h. Weights are written in ONNX's order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....nn.utils.rnn import pack_padded_sequence
from ....ops.recurrent.arguments import checked_lengths
from ....ops.recurrent.fused import RecurrentLayer, RecurrentStep, regrouped
from ....specs.recurrence import Recurrence
from ..tracing import Known
from ..writer import Value, Writer
from .registry import converter, converter_of

_OPERATORS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn_tanh": (0,), "rnn_relu": (0,)}
_PEEPHOLES = (0, 2, 1)  # i, o, f in our order


@converter(RecurrentLayer)
def layer(
    w: Writer, x: Value, h0: Value | None, c0: Value | None, lengths: Any, spec: Recurrence, cells: bool, *flat: Value
) -> Any:
    for option in ("projection", "coupled", "norm", "clip"):
        w.require(not getattr(spec, option), f"a recurrent layer with {option}={getattr(spec, option)!r}")
    key = spec.mode, spec.directions, *(each.name for each in flat)
    if key not in w.made:  # a cell that is called at every step writes its weights only once
        w.made[key] = _weights(w, spec, flat)
    kernel, recurrent, bias, peephole = w.made[key]
    counts = None if lengths is None else w.cast(w.as_value(lengths), np.int32)
    direction = "bidirectional" if spec.directions == 2 else "reverse" if spec.reverse[0] else None
    options: dict[str, Any] = {"hidden_size": spec.hidden, "direction": direction}
    if spec.mode == "gru":
        options["linear_before_reset"] = int(spec.reset_after)
    if spec.mode == "rnn_relu":
        options["activations"] = ["Relu"] * spec.directions
    states = [h0, c0, peephole] if spec.cells else [h0]
    found = w.node(
        _OPERATORS[spec.mode],
        x,
        kernel,
        recurrent,
        bias,
        counts,
        *states,
        outputs=3 if spec.cells else 2,
        dtype=x.dtype,
        **options,
    )
    w.require(not cells, "the cell states of all steps")
    if spec.directions == 1:
        return w.node("Squeeze", found[0], w.ints([1])), *found[1:]
    # (T, D, N, H) -> (T, N, D*H)
    return w.reshape(w.node("Transpose", found[0], perm=[0, 2, 1, 3]), w.results[0].shape), *found[1:]


@converter(RecurrentStep)
def step(w: Writer, x: Value, h: Value | None, c: Value | None, spec: Recurrence, *flat: Value) -> Any:
    only = w.ints([0])
    sequence = [None if each is None else w.node("Unsqueeze", each, only) for each in (x, h, c)]
    _, *found = layer(w, *sequence, None, spec, False, *flat)
    return tuple(w.node("Squeeze", each, only) for each in found)


def _weights(w: Writer, spec: Recurrence, flat: tuple[Value, ...]) -> tuple[Value | None, ...]:
    """Write the inputs W, R, B and P."""
    weights = regrouped(flat, spec)
    gates, order = spec.gates, _ORDER[spec.mode]
    kernel = _stacked(w, "W", [_reordered(w, each.w_ih, gates, order) for each in weights])
    recurrent = _stacked(w, "R", [_reordered(w, each.w_hh, gates, order) for each in weights])
    bias = peephole = None
    if weights[0].b_ih is not None:
        bias = _stacked(
            w,
            "B",
            [_joined(w, [_reordered(w, half, gates, order) for half in (each.b_ih, each.b_hh)]) for each in weights],
        )
    if spec.peephole:
        flattened = [w.reshape(each.peephole, (-1,)) for each in weights]
        peephole = _stacked(w, "P", [_reordered(w, each, 3, _PEEPHOLES) for each in flattened])
    return kernel, recurrent, bias, peephole


def _reordered(w: Writer, x: Value, gates: int, order: tuple[int, ...]) -> Value:
    """Write x with its gate blocks in another order."""
    if len(order) == 1:
        return x
    known = w.weight(x)
    if known is not None:
        pieces = np.split(known, gates)
        return w.constant(np.concatenate([pieces[gate] for gate in order]))
    parts = w.node("Split", x, axis=0, outputs=gates, num_outputs=gates)
    return w.node("Concat", *(parts[gate] for gate in order), axis=0)


def _joined(w: Writer, values: list[Value]) -> Value:
    known = [w.weight(each) for each in values]
    if all(each is not None for each in known):
        return w.constant(np.concatenate([each for each in known if each is not None]))
    return w.node("Concat", *values, axis=0)


def _stacked(w: Writer, name: str, values: list[Value]) -> Value:
    """Write the weights of all directions as one input, with ONNX's name for it."""
    known = [w.weight(each) for each in values]
    if all(each is not None for each in known):
        return w.constant(np.stack([each for each in known if each is not None]), name=name, trained=True)
    return w.node("Concat", *(w.node("Unsqueeze", each, w.ints([0])) for each in values), axis=0)


@converter_of(checked_lengths)
def counts(w: Writer, name: str, lengths: Value, steps: int, batch: int) -> Value:
    return w.cast(lengths, np.int64)


@converter_of(pack_padded_sequence, when=lambda given: isinstance(given["lengths"], Known))
def packed(w: Writer, input: Value, lengths: Value, batch_first: bool, enforce_sorted: bool) -> Value:
    w.require(False, "packing by lengths that are an input (give the layer lengths=, which needs no packing); it")
    return input
