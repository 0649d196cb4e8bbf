"""The oracle of deformable convolution, output by output and tap by tap; see naive.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

Sizes = Sequence[int]
Pairs = Sequence[tuple[int, int]]


def deform_conv(
    x: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None,
    w: np.ndarray,
    bias: np.ndarray | None,
    g: np.ndarray | None,
    stride: Sizes,
    padding: Pairs,
    dilation: Sizes,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return y, and the gradients of sum(g*y) with respect to x, offset, mask (ones by default) and w.

    x (N, Ci, *I), offset (N, D*R*axes, *O), mask (N, D*R, *O), w (Co, Ci/groups, *R)
    """
    x, offset, w = (np.array(array, np.float64) for array in (x, offset, w))
    axes, taps = x.ndim - 2, list(np.ndindex(*w.shape[2:]))
    output = offset.shape[2:]
    deformable = offset.shape[1] // (axes * len(taps))
    each, inputs, outputs = x.shape[1] // deformable, w.shape[1], len(w) // (x.shape[1] // w.shape[1])
    m = np.ones((len(x), deformable * len(taps), *output)) if mask is None else np.array(mask, np.float64)
    y = np.zeros((len(x), len(w), *output))
    upstream = np.zeros(y.shape) if g is None else np.array(g, np.float64)
    gx, go, gm, gw = (np.zeros(array.shape) for array in (x, offset, m, w))
    for n, c, (r, tap), o in product(range(len(x)), range(x.shape[1]), enumerate(taps), np.ndindex(*output)):
        channel = c // each * len(taps) + r
        p = [
            at * s + t * d - low + float(offset[n, channel * axes + axis, *o])
            for axis, (at, t, s, d, (low, _)) in enumerate(zip(o, tap, stride, dilation, padding, strict=True))
        ]
        corners = [
            q
            for q in product(*((math.floor(at), math.floor(at) + 1) for at in p))
            if all(0 <= position < extent for position, extent in zip(q, x.shape[2:], strict=True))
        ]
        value = math.fsum(math.prod(1 - abs(a - b) for a, b in zip(p, q, strict=True)) * x[n, c, *q] for q in corners)
        modulation = m[n, channel, *o]
        filters = slice(c // inputs * outputs, (c // inputs + 1) * outputs)
        y[n, filters, *o] += w[filters, c % inputs, *tap] * modulation * value
        back = float(w[filters, c % inputs, *tap] @ upstream[n, filters, *o])
        gw[filters, c % inputs, *tap] += upstream[n, filters, *o] * modulation * value
        gm[n, channel, *o] += back * value
        for q in corners:
            weights = [1 - abs(a - b) for a, b in zip(p, q, strict=True)]
            gx[n, c, *q] += back * modulation * math.prod(weights)
            for axis in range(axes):
                others = math.prod(weights[:axis]) * math.prod(weights[axis + 1 :])
                slope = (
                    1 if q[axis] > p[axis] else -1
                )  # if p is an integer position, so is q: the slope towards the next one
                go[n, channel * axes + axis, *o] += back * modulation * slope * others * x[n, c, *q]
    if bias is not None:
        y += np.reshape(bias, (-1, *[1] * axes))
    return y, [gx, go, gm, gw]
