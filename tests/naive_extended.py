"""The oracle of convolutions whose input is extended beyond its ends, position by position; see naive.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

Sizes = Sequence[int]


def source(i: int, extent: int, mode: str) -> int | None:
    """Return the index in x from which the extended input gets position i, however far outside; None if it is zero."""
    if 0 <= i < extent:
        return i
    if mode == "circular":
        return i % extent
    if mode == "replicate":
        return 0 if i < 0 else extent - 1
    if mode == "reflect":
        if extent == 1:
            return 0
        i %= 2 * (extent - 1)
        return i if i < extent else 2 * (extent - 1) - i
    return None


def conv(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    output: Sizes,
    stride: Sizes,
    lows: Sizes,
    dilation: Sizes,
    groups: int,
    mode: str,
) -> np.ndarray:
    """y[o] = b + sum over r of x[o*stride + r*dilation - low] w[r]"""
    y = np.zeros((len(x), len(w), *output))
    for o, r in product(product(*map(range, output)), product(*map(range, w.shape[2:]))):
        where = [at * s + tap * d - low for at, tap, s, d, low in zip(o, r, stride, dilation, lows, strict=True)]
        place = [source(i, extent, mode) for i, extent in zip(where, x.shape[2:], strict=True)]
        if None not in place:
            for k, c in _pairs(len(w), w.shape[1], groups):
                group = k // (len(w) // groups)
                y[(slice(None), k, *o)] += x[(slice(None), group * w.shape[1] + c, *place)] * w[(k, c, *r)]
    return y + b.reshape(-1, *[1] * len(output))


def conv_transpose(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray,
    output: Sizes,
    stride: Sizes,
    lows: Sizes,
    dilation: Sizes,
    groups: int,
    mode: str,
) -> np.ndarray:
    """y[o] = b + sum over r and all integers i with i*stride + r*dilation - low = o of x[i] w[r]"""
    y = np.zeros((len(x), w.shape[1] * groups, *output))
    for o, r in product(product(*map(range, output)), product(*map(range, w.shape[2:]))):
        steps = [at + low - tap * d for at, tap, d, low in zip(o, r, dilation, lows, strict=True)]
        if any(step % s for step, s in zip(steps, stride, strict=True)):
            continue
        where = [step // s for step, s in zip(steps, stride, strict=True)]
        place = [source(i, extent, mode) for i, extent in zip(where, x.shape[2:], strict=True)]
        if None not in place:
            for c, k in _pairs(len(w), w.shape[1], groups):
                group = c // (len(w) // groups)
                y[(slice(None), group * w.shape[1] + k, *o)] += x[(slice(None), c, *place)] * w[(c, k, *r)]
    return y + b.reshape(-1, *[1] * len(output))


def _pairs(first: int, second: int, groups: int) -> Iterator[tuple[int, int]]:
    assert first % groups == 0
    return product(range(first), range(second))
