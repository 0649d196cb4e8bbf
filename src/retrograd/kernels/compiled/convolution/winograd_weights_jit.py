# mypy: ignore-errors
"""The weights of a convolution at the points of Winograd's transforms, and their gradient back; see winograd.py."""

from __future__ import annotations

from ..machine.simd import buffer, lanes, load, load_first, store, store_first
from .winograd_plan import PAIRS, POINTS
from .winograd_points_jit import points_of_two_weights, points_of_weights, weights_of_points
from .winograd_tiles_jit import keep

_values = buffer(PAIRS * 16)  # a vector for each pair of points


def weights(
    task: int,
    worker: int,
    w: Array,
    target: Array,
    depth: int,
    columns: int,
    width: int,
    panels: int,
    taps: int,
    turned: int,
) -> None:
    """``target[t, e, panel, c, k] = (G w[t, :, :, c, k] G^T)_e`` for one t and c; w is (taps, 3, 3, depth, columns).

    ``turned``: of the kernel flipped on every axis, for the input gradient.
    """
    values, one = _values(w), lanes(w)
    tap, sign, c = depth * columns, 1, task % depth
    first, own = task // depth * 9 * tap, task // depth * PAIRS * panels * depth * width
    if turned != 0:
        first, sign = (taps * 9 - 1) * tap - first, -1
    for panel in range(panels):
        for k in range(panel * width, min((panel + 1) * width, (columns + one - 1) // one * one), one):
            left = columns - k
            begin = first + c * columns + k
            for i in range(3):
                at = begin + sign * 3 * i * tap
                v0, v1, v2, v3, v4, v5 = points_of_weights(
                    load_first(w, at, left),
                    load_first(w, at + sign * tap, left),
                    load_first(w, at + sign * 2 * tap, left),
                )
                keep(values, i * POINTS * one, one, v0, v1, v2, v3, v4, v5)
            step = panels * depth * width
            for j in range(POINTS):
                v0, v1, v2, v3, v4, v5 = points_of_weights(
                    load(values, j * one), load(values, (POINTS + j) * one), load(values, (2 * POINTS + j) * one)
                )
                to = own + j * step + (panel * depth + c) * width + k - panel * width
                keep(target, to, POINTS * step, v0, v1, v2, v3, v4, v5)


def two_weights(
    task: int,
    worker: int,
    w: Array,
    target: Array,
    depth: int,
    columns: int,
    width: int,
    panels: int,
) -> None:
    """As ``weights`` for two taps on both axes, flipped: ``target`` has only the pairs of the first four points.

    w is (2, 2, depth, columns).
    """
    values, one = _values(w), lanes(w)
    tap, step = depth * columns, panels * depth * width
    for panel in range(panels):
        for k in range(panel * width, min((panel + 1) * width, (columns + one - 1) // one * one), one):
            left, at = columns - k, task * columns + k
            for i in range(2):
                line = at + (1 - i) * 2 * tap
                v0, v1, v2, v3 = points_of_two_weights(load_first(w, line + tap, left), load_first(w, line, left))
                keep(values, i * POINTS * one, one, v0, v1, v2, v3, v3, v3)
            for j in range(4):
                v0, v1, v2, v3 = points_of_two_weights(load(values, j * one), load(values, (POINTS + j) * one))
                to = j * step + (panel * depth + task) * width + k - panel * width
                store(target, to, v0)
                store(target, to + POINTS * step, v1)
                store(target, to + 2 * POINTS * step, v2)
                store(target, to + 3 * POINTS * step, v3)


def weights_back(
    task: int,
    worker: int,
    partials: Array,
    gw: Array,
    depth: int,
    columns: int,
    step: int,
    taps: int,
    parts: int,
) -> None:
    """``gw[t, :, :, c, k] = G^T (sum over parts of partials[part, t, e, c, k]) G`` for one t and c.

    gw is (taps, 3, 3, depth, columns).
    """
    values, one = _values(gw), lanes(gw)
    pair, c, tap = depth * step, task % depth, task // depth
    for k in range(0, columns, one):
        left = columns - k
        for e in range(PAIRS):
            at = (tap * PAIRS + e) * pair + c * step + k
            total = load(partials, at)
            for part in range(1, parts):
                total = total + load(partials, part * taps * PAIRS * pair + at)
            store(values, e * one, total)
        for j in range(POINTS):
            w0, w1, w2 = weights_of_points(
                load(values, j * one),
                load(values, (POINTS + j) * one),
                load(values, (2 * POINTS + j) * one),
                load(values, (3 * POINTS + j) * one),
                load(values, (4 * POINTS + j) * one),
                load(values, (5 * POINTS + j) * one),
            )
            store(values, j * one, w0)
            store(values, (POINTS + j) * one, w1)
            store(values, (2 * POINTS + j) * one, w2)
        for i in range(3):
            q = i * POINTS * one
            w0, w1, w2 = weights_of_points(
                load(values, q),
                load(values, q + one),
                load(values, q + 2 * one),
                load(values, q + 3 * one),
                load(values, q + 4 * one),
                load(values, q + 5 * one),
            )
            at = ((tap * 9 + 3 * i) * depth + c) * columns + k
            store_first(gw, at, w0, left)
            store_first(gw, at + depth * columns, w1, left)
            store_first(gw, at + 2 * depth * columns, w2, left)
