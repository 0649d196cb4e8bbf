"""The weights of a convolution at the points of Winograd's transforms, and their gradient back; see winograd.py."""

from __future__ import annotations

from .. import winograd_plan as word
from ..simd import buffer, lanes, load, load_first, store, store_first
from .points import points_of_weights, weights_of_points
from .winograd import keep

_POINTS = word.POINTS
_PAIRS = _POINTS * _POINTS
_values = buffer(_PAIRS * 16)  # a vector for each pair of points


def weights(
    task: int, worker: int, w: Array, target: Array, depth: int, columns: int, width: int, panels: int, turned: int,
) -> None:  # fmt: skip
    """``target[e, panel, c, k] = (G w[:, :, c, k] G^T)_e`` for one c; w is (3, 3, depth, columns).

    ``turned``: of the kernel turned round by 180 degrees, which the input gradient needs.
    """
    values, one = _values(w), lanes(w)
    tap, sign = depth * columns, 1
    first = 0
    if turned != 0:
        first, sign = 8 * tap, -1
    for panel in range(panels):
        for k in range(panel * width, min((panel + 1) * width, (columns + one - 1) // one * one), one):
            left = columns - k
            begin = first + task * columns + k
            for i in range(3):
                at = begin + sign * 3 * i * tap
                v0, v1, v2, v3, v4, v5 = points_of_weights(
                    load_first(w, at, left), load_first(w, at + sign * tap, left),
                    load_first(w, at + sign * 2 * tap, left),
                )  # fmt: skip
                keep(values, i * _POINTS * one, one, v0, v1, v2, v3, v4, v5)
            step = panels * depth * width
            for j in range(_POINTS):
                v0, v1, v2, v3, v4, v5 = points_of_weights(
                    load(values, j * one), load(values, (_POINTS + j) * one), load(values, (2 * _POINTS + j) * one)
                )
                to = j * step + (panel * depth + task) * width + k - panel * width
                keep(target, to, _POINTS * step, v0, v1, v2, v3, v4, v5)


def weights_back(
    task: int, worker: int, partials: Array, gw: Array, depth: int, columns: int, step: int, parts: int,
) -> None:  # fmt: skip
    """``gw[:, :, c, k] = G^T (sum over parts of partials[part, e, c, k]) G`` for one c; gw (3, 3, depth, columns)."""
    values, one = _values(gw), lanes(gw)
    pair = depth * step
    for k in range(0, columns, one):
        left = columns - k
        for e in range(_PAIRS):
            at = e * pair + task * step + k
            total = load(partials, at)
            for part in range(1, parts):
                total = total + load(partials, part * _PAIRS * pair + at)
            store(values, e * one, total)
        for j in range(_POINTS):
            w0, w1, w2 = weights_of_points(
                load(values, j * one), load(values, (_POINTS + j) * one), load(values, (2 * _POINTS + j) * one),
                load(values, (3 * _POINTS + j) * one), load(values, (4 * _POINTS + j) * one),
                load(values, (5 * _POINTS + j) * one),
            )  # fmt: skip
            store(values, j * one, w0)
            store(values, (_POINTS + j) * one, w1)
            store(values, (2 * _POINTS + j) * one, w2)
        for i in range(3):
            q = i * _POINTS * one
            w0, w1, w2 = weights_of_points(
                load(values, q), load(values, q + one), load(values, q + 2 * one), load(values, q + 3 * one),
                load(values, q + 4 * one), load(values, q + 5 * one),
            )  # fmt: skip
            at = 3 * i * depth * columns + task * columns + k
            store_first(gw, at, w0, left)
            store_first(gw, at + depth * columns, w1, left)
            store_first(gw, at + 2 * depth * columns, w2, left)
