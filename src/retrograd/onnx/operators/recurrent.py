"""RNN, GRU and LSTM, fused or step by step.

Source: ONNX Operators.html, the equations of these operators. ONNX's gates are in the order i, o, f, c and z, r, h;
ours i, f, g, o and r, z, n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ... import ops
from ...engine.tensor import Tensor, wrap
from ...nn import functional
from ...ops.recurrent.arguments import check_layer, checked_lengths
from ...ops.recurrent.recurrent import recurrent_layer
from ...specs.recurrence import Recurrence, Weights, recurrence
from ..errors import OnnxError, UnsupportedError
from ..node import Node, Value, elements_of, floating
from .registry import operator

# ---- Stepwise RNN, GRU and LSTM, with options that the fused layers lack: clip, input_forget, any activations -------

Activation = Callable[[Tensor], Tensor]

# name -> function, default parameters: those of the operators of the same name; Affine, ScaledTanh: the identity
_ACTIVATIONS: dict[str, tuple[Callable[..., Tensor], dict[str, float]]] = {
    "relu": (ops.relu, {}),
    "tanh": (ops.tanh, {}),
    "sigmoid": (ops.sigmoid, {}),
    "affine": (lambda x, alpha, beta: alpha * x + beta, {"alpha": 1.0, "beta": 0.0}),
    "leakyrelu": (lambda x, alpha: ops.where(x >= 0, x, alpha * x), {"alpha": 0.01}),
    "thresholdedrelu": (lambda x, alpha: ops.where(x >= alpha, x, 0.0), {"alpha": 1.0}),
    "scaledtanh": (lambda x, alpha, beta: alpha * ops.tanh(beta * x), {"alpha": 1.0, "beta": 1.0}),
    "hardsigmoid": (lambda x, alpha, beta: ops.clamp(alpha * x + beta, 0, 1), {"alpha": 0.2, "beta": 0.5}),
    "elu": (lambda x, alpha: ops.where(x >= 0, x, alpha * ops.expm1(ops.clamp(x, max=0))), {"alpha": 1.0}),
    "softsign": (functional.softsign, {}),
    "softplus": (functional.softplus, {}),
}


@dataclass(frozen=True)
class Cell:
    """The options of a step. activations: f, g and h of the node in one direction, as far as it has them."""

    activations: tuple[Activation, ...]
    clip: float | None  # of the sums passed to an activation
    couples: bool  # the forget gate is 1 - the input gate
    reset_after: bool

    def __call__(self, number: int, x: Tensor) -> Tensor:
        """Apply an activation to x."""
        return self.activations[number](x if self.clip is None else ops.clamp(x, -self.clip, self.clip))


def cells_of(node: Node, names: Sequence[str], directions: int) -> list[Cell]:
    """Return the cell of each direction. names: of its activations, in lower case.

    Raises:
        UnsupportedError: an activation is unknown.
        OnnxError: clip is not above 0.
    """
    clip = node["clip"]
    if clip is not None and not clip > 0:
        raise OnnxError(f"clip={clip} must be above 0")
    left: dict[str, Iterator[float]] = {key: iter(node[f"activation_{key}"] or ()) for key in ("alpha", "beta")}
    made: list[Activation] = []
    for name in names:
        if name not in _ACTIVATIONS:
            raise UnsupportedError(f"the activation {name!r}")
        function, values = _ACTIVATIONS[name]
        made.append(partial(function, **{key: next(left[key], value) for key, value in values.items()}))
    count = len(made) // directions
    options = clip, bool(node["input_forget"]), bool(node["linear_before_reset"])
    return [Cell(tuple(made[d * count : (d + 1) * count]), *options) for d in range(directions)]


def layer(
    x: Tensor,
    h0: Tensor | None,
    c0: Tensor | None,
    weights: Sequence[Weights],
    spec: Recurrence,
    lengths: np.ndarray | None,
    cells: Sequence[Cell],
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Map checked x (T, N, I), h0 and c0 (D, N, H) or None to y (T, N, D*H) and the last states (D, N, H)."""
    steps, batch = x.shape[:2]
    over = None if lengths is None else np.arange(steps)[:, None, None] >= lengths[:, None]  # (T, N, 1)
    if over is not None:
        x = ops.masked_fill(x, wrap(np.broadcast_to(over, x.shape).copy()), 0.0)
    outputs, hs, cs = [], [], []
    for d, (w, cell) in enumerate(zip(weights, cells, strict=True)):
        zero = wrap(np.zeros((batch, spec.hidden), x.array.dtype))
        h, c = zero if h0 is None else h0[d], zero if c0 is None else c0[d]
        found: list[Any] = [None] * steps
        for t in reversed(range(steps)) if spec.reverse[d] else range(steps):
            h_new, c_new = _STEPS[spec.mode](cell, w, x[t], h, c)
            if over is None or not over[t].any():
                h, c, found[t] = h_new, c_new, h_new
            else:
                ended = wrap(over[t])
                h, c = ops.where(ended, h, h_new), ops.where(ended, c, c_new)
                found[t] = ops.where(ended, zero, h)
        outputs.append(ops.stack(found))
        hs.append(h)
        cs.append(c)
    return ops.cat(outputs, 2), ops.stack(hs), ops.stack(cs) if spec.cells else None


def _sums(x: Tensor, w: Tensor, b: Tensor | None, gates: int) -> tuple[Tensor, ...]:
    return ops.chunk(functional.linear(x, w, b), gates, 1)


def _lstm(cell: Cell, w: Weights, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    pairs = zip(_sums(x, w.w_ih, w.b_ih, 4), _sums(h, w.w_hh, w.b_hh, 4), strict=True)
    i, f, g, o = (a + b for a, b in pairs)
    p_i, p_f, p_o = (None, None, None) if w.peephole is None else w.peephole
    i = cell(0, i if p_i is None else i + p_i * c)
    f = 1 - i if cell.couples else cell(0, f if p_f is None else f + p_f * c)
    c = f * c + i * cell(1, g)
    o = cell(0, o if p_o is None else o + p_o * c)
    return o * cell.activations[2](c), c  # clip applies to the gate sums only, as in onnxruntime and OpenVINO


def _gru(cell: Cell, w: Weights, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    units = h.shape[1]
    x_r, x_z, x_n = _sums(x, w.w_ih, w.b_ih, 3)
    b_gates, b_n = (None, None) if w.b_hh is None else (w.b_hh[: 2 * units], w.b_hh[2 * units :])
    h_r, h_z = _sums(h, w.w_hh[: 2 * units], b_gates, 2)
    r, z, w_n = cell(0, x_r + h_r), cell(0, x_z + h_z), w.w_hh[2 * units :]
    h_n = r * functional.linear(h, w_n, b_n) if cell.reset_after else functional.linear(r * h, w_n, b_n)
    return (1 - z) * cell(1, x_n + h_n) + z * h, c


def _rnn(cell: Cell, w: Weights, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    return cell(0, functional.linear(x, w.w_ih, w.b_ih) + functional.linear(h, w.w_hh, w.b_hh)), c


_STEPS = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _rnn}


# ---- RNN, GRU and LSTM. Source: ONNX Operators.html, sections of these names ----------------------------------------

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}  # the positions of our gates in ONNX's order
_PEEPHOLES = (0, 2, 1)  # i, f, o in the order i, o, f
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
    """Return Y (T, D, N, H), or (N, T, D, H) with layout=1, and the last states (D, N, H), or (N, D, H)."""
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
    counts = None if lengths is None else wrap(elements_of(lengths).astype("int64"))
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
    """Return the activations of all directions in lower case."""
    usual = _USUAL[node.operator] * directions
    # the schema's default has two names, whatever the number of directions
    names = [name.lower() for name in (node["activations"] or usual)[: len(usual)]]
    if len(names) < len(usual):
        each = len(usual) // directions
        raise OnnxError(f"activations={node['activations']} must have {len(usual)} names, {each} for each direction")
    return names


def _mode(node: Node, names: list[str]) -> str | None:
    """Return the name of our layer with these options, or None if no layer has them and each step must be computed."""
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
