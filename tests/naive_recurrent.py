"""The oracle of recurrent layers, unit by unit, with the derivative by complex steps; see naive.py.

The complex-step method evaluates a real function at x + ih for a tiny h. The imaginary part of the result is h times
the derivative, exact to the last digits, since nothing is subtracted. No backward pass is written here that could share
a mistake with the library's.
"""

from __future__ import annotations

import cmath
from itertools import product
from typing import Any

import numpy as np

TINY = 1e-200
Outputs = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def sigmoid(a: Any) -> Any:
    if a.real < 0:
        return cmath.exp(a) / (1 + cmath.exp(a))
    return 1 / (1 + cmath.exp(-a))


def affine(w: list[Any], x: list[Any], b: Any, rows: range) -> list[Any]:
    """Return W x + b for these rows."""
    found = []
    for row in rows:
        total = b[row] if b is not None else 0
        for column, value in enumerate(x):
            total += w[row][column] * value
        found.append(total)
    return found


def normalized(a: list[Any], eps: float) -> list[Any]:
    mean = sum(a) / len(a)
    variance = sum((v - mean) ** 2 for v in a) / len(a)
    return [(v - mean) / cmath.sqrt(variance + eps) for v in a]


def sums(w: list[Any], x: list[Any], b: Any, gain: Any, rows: range, what: Any) -> list[Any]:
    """Return W x + b, or gain * normalized W x + b, for these rows."""
    if not what.norm:
        return affine(w, x, b, rows)
    found = normalized(affine(w, x, None, rows), what.norm)
    return [gain[row] * v + (0 if b is None else b[row]) for row, v in zip(rows, found, strict=True)]


def clipped(c: Any, what: Any) -> Any:
    if what.clip is None:
        return c
    low, high = what.clip
    if what.clip_nan and c != c:
        return high
    return low if c.real < low else high if c.real > high else c


def lstm_step(x: list[Any], given: list[Any], c: list[Any], w: Any, what: Any) -> tuple[list[Any], list[Any]]:
    H = what.hidden
    rows = range(what.gates * H)
    a = [
        of_x + of_h
        for of_x, of_h in zip(
            sums(w.w_ih, x, w.b_ih, w.norm_ih, rows, what),
            sums(w.w_hh, given, w.b_hh, w.norm_hh, rows, what),
            strict=True,
        )
    ]
    cells, outputs = [], []
    first = 0 if what.coupled else 1  # gate f, after i
    for j in range(H):
        ai, af, ag, ao = a[j], a[first * H + j], a[(first + 1) * H + j], a[(first + 2) * H + j]
        if w.peephole is not None:
            ai += w.peephole[0][j] * c[j]
            af += w.peephole[first][j] * c[j]
        f = sigmoid(af)
        i = 1 - f if what.coupled else sigmoid(ai)
        cell = clipped(f * c[j] + i * cmath.tanh(ag), what)
        if w.peephole is not None:
            ao += w.peephole[first + 1][j] * cell
        cells.append(cell)
        outputs.append(sigmoid(ao))
    seen = cells
    if what.norm:
        seen = [w.norm_c[0][j] * v + w.norm_c[1][j] for j, v in enumerate(normalized(cells, what.norm))]
    h = [o * cmath.tanh(v) for o, v in zip(outputs, seen, strict=True)]
    return affine(w.w_hr, h, None, range(what.projection)) if what.projection else h, cells


def gru_step(x: list[Any], given: list[Any], h: list[Any], w: Any, what: Any) -> list[Any]:
    H = what.hidden
    gates, new = range(2 * H), range(2 * H, 3 * H)
    both = zip(
        sums(w.w_ih, x, w.b_ih, w.norm_ih, gates, what),
        sums(w.w_hh, given, w.b_hh, w.norm_hh, gates, what),
        strict=True,
    )
    rz = [sigmoid(of_x + of_h) for of_x, of_h in both]
    r, z = rz[:H], rz[H:]
    of_x = sums(w.w_ih, x, w.b_ih, w.norm_ih, new, what)
    if what.reset_after:
        of_h = [r[j] * v for j, v in enumerate(sums(w.w_hh, given, w.b_hh, w.norm_hh, new, what))]
    else:
        of_h = sums(w.w_hh, [r[j] * given[j] for j in range(H)], w.b_hh, w.norm_hh, new, what)
    n = [cmath.tanh(of_x[j] + of_h[j]) for j in range(H)]
    return [(1 - z[j]) * n[j] + z[j] * h[j] for j in range(H)]


def rnn_step(x: list[Any], given: list[Any], w: Any, what: Any) -> list[Any]:
    rows = range(what.hidden)
    of_x = sums(w.w_ih, x, w.b_ih, w.norm_ih, rows, what)
    of_h = sums(w.w_hh, given, w.b_hh, w.norm_hh, rows, what)
    a = [p + q for p, q in zip(of_x, of_h, strict=True)]
    return [cmath.tanh(v) if what.mode == "rnn_tanh" else v if v.real > 0 else 0 for v in a]


def zoned(before: list[Any], now: list[Any], p: float, mask: Any) -> list[Any]:
    if mask is not None:
        return [old if keep else new for old, new, keep in zip(before, now, mask, strict=True)]
    return [p * old + (1 - p) * new for old, new in zip(before, now, strict=True)]


def layer(
    x: np.ndarray, h0: Any, c0: Any, weights: Any, what: Any, lengths: Any = None, masks: Any = (None, None, None)
) -> Outputs:
    """Return y, hn, cn and all cell states; masks: for h' (D, N, P), and kept cells (D, T, N, H) and h (D, T, N, P)."""
    (T, N, _), D, H, P = x.shape, len(what.reverse), what.hidden, what.output
    y, cells = np.zeros((T, N, D * P), complex), np.zeros((T, N, D * H), complex)
    hn, cn = np.zeros((D, N, P), complex), np.zeros((D, N, H), complex)
    listed = [type(w)(*[None if piece is None else piece.tolist() for piece in w]) for w in weights]
    inputs = x.tolist()
    for d, n in product(range(D), range(N)):
        h = [0.0] * P if h0 is None else h0[d, n].tolist()
        c = [0.0] * H if c0 is None else c0[d, n].tolist()
        length = T if lengths is None else int(lengths[n])
        for t in reversed(range(length)) if what.reverse[d] else range(length):
            given = h if masks[0] is None else [v * m for v, m in zip(h, masks[0][d, n].tolist(), strict=True)]
            if what.mode == "lstm":
                h_now, c_now = lstm_step(inputs[t][n], given, c, listed[d], what)
                c = zoned(c, c_now, what.zoneout[0], None if masks[1] is None else masks[1][d, t, n])
            elif what.mode == "gru":
                h_now = gru_step(inputs[t][n], given, h, listed[d], what)
            else:
                h_now = rnn_step(inputs[t][n], given, listed[d], what)
            h = zoned(h, h_now, what.zoneout[1], None if masks[2] is None else masks[2][d, t, n])
            y[t, n, d * P : (d + 1) * P], cells[t, n, d * H : (d + 1) * H] = h, c
        hn[d, n], cn[d, n] = h, c
    return y, hn, cn, cells


def values(x: np.ndarray, h0: Any, c0: Any, weights: Any, what: Any, *rest: Any) -> Outputs:
    y, hn, cn, cells = layer(x, h0, c0, weights, what, *rest)
    return y.real, hn.real, cn.real, cells.real


def slope(x: np.ndarray, h0: Any, c0: Any, weights: Any, what: Any, direction: Any, upstream: Any, *rest: Any) -> float:
    """Return the derivative of sum(upstream * outputs) along ``direction``, which has parts for x, h0, c0 and weights.

    Parts of ``direction`` and ``upstream`` may be None.
    """
    dx, dh0, dc0, dweights = direction

    def moved(value: Any, step: Any) -> Any:
        return value if value is None or step is None else value + 1j * TINY * step

    moved_weights = [
        type(w)(*[moved(piece, step) for piece, step in zip(w, dw, strict=True)])
        for w, dw in zip(weights, dweights, strict=True)
    ]
    outputs = layer(moved(x, dx), moved(h0, dh0), moved(c0, dc0), moved_weights, what, *rest)
    total = sum((g * y.imag).sum() for y, g in zip(outputs, upstream, strict=True) if g is not None)
    return float(total) / TINY
