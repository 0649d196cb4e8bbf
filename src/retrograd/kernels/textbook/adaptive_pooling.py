"""Maximum and mean over windows that divide the input evenly; see AdaptiveWindow in specs/geometry.py.

x (N, C, *I)    y, g, indices (N, C, *O)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from ...specs.geometry import AdaptiveWindow
from .ieee import ieee

__all__ = ["adaptive_avg_pool", "adaptive_avg_pool_grad", "adaptive_max_pool"]


def adaptive_max_pool(x: np.ndarray, window: AdaptiveWindow) -> tuple[np.ndarray, np.ndarray]:
    """``max_pool`` over windows that divide the input evenly; the gradient is ``max_pool_grad``."""
    N, C = x.shape[:2]
    y = np.empty((N, C, *window.output), x.dtype, like=x)
    indices = np.empty(y.shape, np.int64, like=y)
    positions = np.arange(x[0, 0].size if x.size else 0, like=x).reshape(window.input if x.size else (0,))
    for o, at in _spans(window) if x.size else ():
        part = x[at].reshape(N, C, -1)  # (N, C, *part) -> (N, C, taps)
        first = part.argmax(2)  # or of the first NaN
        y[o] = np.take_along_axis(part, first[..., None], 2)[..., 0]
        indices[o] = positions[at].ravel()[first]
    return y, indices


@ieee
def adaptive_avg_pool(x: np.ndarray, window: AdaptiveWindow) -> np.ndarray:
    """y[n, c, o] = the mean of x[n, c, i] over the window of o: x (N,C,*I) -> (N,C,*O)."""
    y = np.empty((*x.shape[:2], *window.output), x.dtype, like=x)
    for o, at in _spans(window):
        y[o] = x[at].mean(tuple(range(2, x.ndim)))
    return y


@ieee
def adaptive_avg_pool_grad(g: np.ndarray, window: AdaptiveWindow) -> np.ndarray:
    """gx[n, c, i] = sum of g[n, c, o] / (size of the window of o) over all o that read i: g (N,C,*O) -> (N,C,*I)."""
    gx = np.zeros((*g.shape[:2], *window.input), g.dtype, like=g)
    for o, at in _spans(window):
        part = gx[at]
        count = part[0, 0].size if part.size else 1
        part += (g[o] / g.dtype.type(count)).reshape(*g.shape[:2], *(1,) * window.ndim)
    return gx


def _spans(window: AdaptiveWindow) -> Iterator[tuple[Any, Any]]:
    """For every output, its index and that of its window, for the last axes of an array."""
    for at in product(*map(range, window.output)):
        sizes = zip(at, window.input, window.output, strict=True)
        yield (..., *at), (..., *(slice(o * i // n, -(-(o + 1) * i // n)) for o, i, n in sizes))
