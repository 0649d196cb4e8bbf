"""ONNX's RNN, GRU and LSTM in PyTorch: PyTorch's layers where they suffice, and its tensors otherwise."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

_LAYERS = {"RNN": torch.nn.RNN, "GRU": torch.nn.GRU, "LSTM": torch.nn.LSTM}
_GATES = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}  # PyTorch's among ONNX's


def recurrent(
    operator: str,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h0: Any = None,
    c0: Any = None,
    p: Any = None,
    *,
    hidden_size: int,
    direction: str,
    activations: Any = ("Tanh",),
    linear_before_reset: int = 1,
) -> Any:
    if p is not None or not linear_before_reset or direction == "reverse":
        return _of_tensors(operator, x, w, r, b, lengths, h0, c0, p, direction, activations, linear_before_reset)
    directions = w.shape[0]
    options = {"nonlinearity": activations[0].lower()} if operator == "RNN" else {}
    layer = _LAYERS[operator](
        x.shape[2], hidden_size, bidirectional=directions == 2, bias=b is not None, dtype=x.dtype, **options
    )
    weights = {}
    for d in range(directions):
        halves = {} if b is None else dict(zip(("bias_ih", "bias_hh"), b[d].chunk(2), strict=True))
        for name, each in ({"weight_ih": w[d], "weight_hh": r[d]} | halves).items():
            gates = each.chunk(len(_GATES[operator]))
            weights[f"{name}_l0" + "_reverse" * d] = torch.cat([gates[gate] for gate in _GATES[operator]])
    states = None if h0 is None else (h0, c0) if operator == "LSTM" else h0
    steps = x.shape[0]
    if lengths is not None:
        x = pack_padded_sequence(x, lengths.long(), enforce_sorted=False)
    y, last = torch.func.functional_call(layer, weights, (x, states))
    if lengths is not None:
        y, _ = pad_packed_sequence(y, total_length=steps)
    y = y.reshape(*y.shape[:2], directions, hidden_size).transpose(1, 2)
    return (y, *last) if operator == "LSTM" else (y, last)


def _of_tensors(
    operator: str,
    x: Any,
    w: Any,
    r: Any,
    b: Any,
    lengths: Any,
    h0: Any,
    c0: Any,
    p: Any,
    direction: str,
    activations: Any,
    linear_before_reset: int,
) -> Any:
    """Step by step, by ONNX's equations; a sequence that has ended keeps its states."""
    steps, batch, _ = x.shape
    found = []
    for d in range(w.shape[0]):
        h = x.new_zeros(batch, r.shape[2]) if h0 is None else h0[d]
        c = torch.zeros_like(h) if c0 is None else c0[d]
        peephole = torch.zeros(3, r.shape[2], dtype=x.dtype) if p is None else p[d].reshape(3, -1)
        bx, bh = b[d].chunk(2) if b is not None else x.new_zeros(2, w.shape[1])
        outputs = [None] * steps
        for t in reversed(range(steps)) if direction == "reverse" or d == 1 else range(steps):
            if operator == "RNN":
                sums = x[t] @ w[d].T + bx + h @ r[d].T + bh
                new_h, new_c = getattr(torch, activations[d].lower())(sums), c
            elif operator == "GRU":
                new_h, new_c = _gru(x[t] @ w[d].T + bx, h, r[d], bh, linear_before_reset), c
            else:
                new_h, new_c = _lstm(x[t] @ w[d].T + bx + h @ r[d].T + bh, c, peephole)
            goes_on = torch.ones(batch, 1, dtype=bool) if lengths is None else (t < lengths)[:, None]
            outputs[t] = torch.where(goes_on, new_h, 0)
            h, c = torch.where(goes_on, new_h, h), torch.where(goes_on, new_c, c)
        found.append((torch.stack(outputs), h, c))
    ys, hs, cs = zip(*found, strict=True)
    results = torch.stack(ys, 1), torch.stack(hs), torch.stack(cs)
    return results if operator == "LSTM" else results[:2]


def _gru(of_x: Any, h: Any, r: Any, bh: Any, linear_before_reset: int) -> Any:
    (xz, xr, xn), (rz, rr, rn), (bz, br, bn) = (each.chunk(3, axis) for each, axis in ((of_x, -1), (r, 0), (bh, 0)))
    z, reset = torch.sigmoid(xz + h @ rz.T + bz), torch.sigmoid(xr + h @ rr.T + br)
    n = torch.tanh(xn + (reset * (h @ rn.T + bn) if linear_before_reset else (reset * h) @ rn.T + bn))
    return (1 - z) * n + z * h


def _lstm(sums: Any, c: Any, peephole: Any) -> tuple[Any, Any]:
    i, o, f, g = sums.chunk(4, -1)
    i, f = torch.sigmoid(i + peephole[0] * c), torch.sigmoid(f + peephole[2] * c)
    new = f * c + i * torch.tanh(g)
    return torch.sigmoid(o + peephole[1] * new) * torch.tanh(new), new
