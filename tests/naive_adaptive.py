"""The oracle of adaptive pooling, output by output; see naive.py."""

from __future__ import annotations

import math
from itertools import product

import numpy as np


def members(at: tuple[int, ...], inputs: tuple[int, ...], outputs: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The positions of the window of one output, row-major."""
    axes = []
    for o, i, n in zip(at, inputs, outputs, strict=True):
        axes.append([p for p in range(i) if math.floor(o * i / n) <= p < math.ceil((o + 1) * i / n)])
    return list(product(*axes))


def adaptive_max_pool(x: np.ndarray, outputs: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    inputs = x.shape[2:]
    y, indices = np.zeros((*x.shape[:2], *outputs)), np.zeros((*x.shape[:2], *outputs), np.int64)
    for n, c, *at in product(*map(range, y.shape)):
        best = None
        for place in members(tuple(at), inputs, outputs):
            value = x[(n, c, *place)]
            if best is None or value > best or (math.isnan(value) and not math.isnan(best)):
                best = value
                indices[(n, c, *at)] = np.ravel_multi_index(place, inputs)
        y[(n, c, *at)] = best
    return y, indices


def adaptive_avg_pool(x: np.ndarray, outputs: tuple[int, ...]) -> np.ndarray:
    y = np.zeros((*x.shape[:2], *outputs))
    for n, c, *at in product(*map(range, y.shape)):
        values = [float(x[(n, c, *place)]) for place in members(tuple(at), x.shape[2:], outputs)]
        y[(n, c, *at)] = sum(values) / len(values)
    return y


def adaptive_avg_pool_grad(g: np.ndarray, inputs: tuple[int, ...]) -> np.ndarray:
    gx = np.zeros((*g.shape[:2], *inputs))
    for n, c, *at in product(*map(range, g.shape)):
        places = members(tuple(at), inputs, g.shape[2:])
        for place in places:
            gx[(n, c, *place)] += g[(n, c, *at)] / len(places)
    return gx
