"""RNN, GRU and LSTM. Source: ONNX Operators.html, sections of these names.

ONNX's gates are i, o, f, c and z, r, h; ours i, f, g, o and r, z, n.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...ops.recurrent.arguments import check_layer, checked_lengths
from ...ops.recurrent.recurrent import recurrent_layer
from ...specs.recurrence import Weights, recurrence
from ..errors import OnnxError
from ..node import Node
from ..values import Value, array_of, floating
from .recurrent_steps import cells_of, layer
from .registry import operator

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}  # ours among ONNX's
_PEEPHOLES = (0, 2, 1)  # i, f, o among i, o, f
_USUAL = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}
_MODES = {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}


@operator("RNN", "GRU", constants=(4,))
def rnn(node: Node, x: Value, w: Value, r: Value, b: Value = None, lengths: Value = None, h0: Value = None) -> Any:
    return _layer(node, x, w, r, b, lengths, h0, None, None)[:2]


@operator("LSTM", constants=(4,))
def lstm(
    node: Node,
    x: Value,
    w: Value,
    r: Value,
    b: Value = None,
    lengths: Value = None,
    h0: Value = None,
    c0: Value = None,
    p: Value = None,
) -> Any:
    return _layer(node, x, w, r, b, lengths, h0, c0, p)


def _layer(
    node: Node, x: Value, w: Value, r: Value, b: Value, lengths: Value, h0: Value, c0: Value, p: Value
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Y (T, D, N, H), or (N, T, D, H) with layout=1, and the last states (D, N, H), or (N, D, H)."""
    x, w, r = floating(x), floating(w), floating(r)
    name, batch_first = node.operator, bool(node["layout"])
    names = _names(node, w.shape[0])
    mode = _mode(node, names)
    if batch_first:
        x, h0, c0 = (None if each is None else ops.transpose(each, 0, 1) for each in (x, h0, c0))
    directions, units = w.shape[0], r.shape[2]
    order = _GATES[name]
    weights = []
    for d in range(directions):
        halves = (None, None) if b is None else (b[d, : len(order) * units], b[d, len(order) * units :])
        w_ih, w_hh, b_ih, b_hh = (None if each is None else _reordered(each, order) for each in (w[d], r[d], *halves))
        peephole = None if p is None else _reordered(p[d], _PEEPHOLES).reshape(3, units)
        weights.append(Weights(w_ih, w_hh, b_ih, b_hh, peephole=peephole))
    reverse = {"forward": (False,), "reverse": (True,)}.get(node["direction"], (False, True))
    spec = recurrence(
        name,
        mode or _MODES[name],
        x.shape[2],
        units,
        reverse=reverse,
        bias=b is not None,
        peephole=p is not None,
        reset_after=bool(node["linear_before_reset"]) or name != "GRU",
    )
    counts = None if lengths is None else wrap(array_of(lengths).astype("int64"))
    if mode is None:
        check_layer(name, x, h0, c0, weights, spec)
        checked = None if counts is None else checked_lengths(name, counts, *x.shape[:2])
        y, hn, cn = layer(x, h0, c0, weights, spec, checked, cells_of(node, names, directions))
    else:
        y, hn, cn, _ = recurrent_layer(x, h0, c0, weights, spec, counts, name=name)
    y = y.reshape(*y.shape[:2], directions, units)
    if batch_first:
        states = [None if each is None else ops.transpose(each, 0, 1) for each in (hn, cn)]
        return (ops.transpose(y, 0, 1), *states)  # type: ignore[return-value]
    return ops.transpose(y, 1, 2), hn, cn


def _names(node: Node, directions: int) -> list[str]:
    """The activations of all directions in lower case."""
    usual = _USUAL[node.operator] * directions
    # the schema's own default names two of them, whatever the directions
    names = [name.lower() for name in (node["activations"] or usual)[: len(usual)]]
    if len(names) < len(usual):
        each = len(usual) // directions
        raise OnnxError(f"activations={node['activations']} must be {len(usual)}, {each} a direction")
    return names


def _mode(node: Node, names: list[str]) -> str | None:
    """The name of our layer with these options; None if there is none, and the steps are computed one by one."""
    if node["clip"] is not None or node["input_forget"]:
        return None
    if node.operator == "RNN" and set(names) == {"relu"}:
        return "rnn_relu"
    usual = _USUAL[node.operator]
    return _MODES[node.operator] if names == usual * (len(names) // len(usual)) else None


def _reordered(x: Tensor, order: tuple[int, ...]) -> Tensor:
    if len(order) == 1:
        return x
    pieces = ops.chunk(x, len(order), 0)
    return ops.cat([pieces[gate] for gate in order], 0)
