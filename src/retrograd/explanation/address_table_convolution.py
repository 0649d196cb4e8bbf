"""Convolution through an address table, in plain NumPy: the algorithm of the compiled kernels, without im2col's copies.

x is stored as rows of channels, one row per position. ``table[o, r]`` is the row that output o reads at tap r.
Padding refers to one additional row, of zeros. Then

    y[o]  = sum over r of w[r] x[table[o, r]]                 a matrix (K, C) times a row
    gw[r] = sum over o of gy[o] x[table[o, r]]^T              a column times a row
    gx[table[o, r]] += w[r]^T gy[o]                           the row of zeros collects the gradient of the padding

Nothing is copied: a micro-kernel receives the addresses of the rows and multiplies them where they are.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..specs.geometry import Window

__all__ = ["address_table", "conv", "conv_input_grad", "conv_weight_grad", "cost"]


def address_table(window: Window) -> np.ndarray:
    """Return the table (O, R): the row that each output reads at each tap; prod(I), the row of zeros, for padding."""
    outputs, taps = (np.indices(extents).reshape(window.ndim, -1) for extents in (window.output, window.kernel))
    row, inside = np.zeros((outputs.shape[1], taps.shape[1]), int), np.True_
    for axis, extent in enumerate(window.input):
        lo, _ = window.padding[axis]
        at = outputs[axis][:, None] * window.stride[axis] + taps[axis] * window.dilation[axis] - lo  # (O, R)
        inside = inside & (at >= 0) & (at < extent)
        row = row * extent + at
    return np.where(inside, row, prod(window.input))


def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    """x (N, Ci, *I), w (Co, C, *R), bias (Co,) or None  ->  y (N, Co, *O)"""
    table = address_table(window)
    y = np.zeros((len(x), len(w), prod(window.output)), x.dtype)
    for n, channels, filters in _parts(window, len(x), x.shape[1], len(w)):
        rows = _rows(x[n, channels])
        taps = w[filters].reshape(filters.stop - filters.start, -1, window.taps)
        for r in range(window.taps):
            y[n, filters] += taps[:, :, r] @ rows[table[:, r]].T  # (K, C) @ (C, O)
    if bias is not None:
        y += bias[:, None]
    return y.reshape(*y.shape[:2], *window.output)


def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """x (N, Ci, *I), g (N, Co, *O)  ->  gw (Co, C, *R)"""
    table = address_table(window)
    gw = np.zeros((g.shape[1], x.shape[1] // window.groups, window.taps), x.dtype)
    for n, channels, filters in _parts(window, len(x), x.shape[1], g.shape[1]):
        rows = _rows(x[n, channels])
        upstream = g[n, filters].reshape(filters.stop - filters.start, -1)
        for r in range(window.taps):
            gw[filters, :, r] += upstream @ rows[table[:, r]]  # (K, O) @ (O, C)
    return gw.reshape(*gw.shape[:2], *window.kernel)


def conv_input_grad(g: np.ndarray, w: np.ndarray, window: Window) -> np.ndarray:
    """g (N, Co, *O), w (Co, C, *R)  ->  gx (N, Ci, *I)"""
    table = address_table(window)
    ci = w.shape[1] * window.groups
    gx = np.zeros((len(g), ci, *window.input), g.dtype)
    for n, channels, filters in _parts(window, len(g), ci, len(w)):
        rows = _rows(gx[n, channels])
        upstream = g[n, filters].reshape(filters.stop - filters.start, -1)
        taps = w[filters].reshape(filters.stop - filters.start, -1, window.taps)
        for r in range(window.taps):
            rows[table[:, r]] += (
                upstream.T @ taps[:, :, r]
            )  # (O, K) @ (K, C); within one tap, only the row of zeros repeats
        gx[n, channels] = rows[:-1].T.reshape(gx[n, channels].shape)
    return gx


def cost(window: Window, batch: int, channels: tuple[int, int]) -> dict[str, int]:
    """Return the multiplications of each pass, padding included, and the bytes of the table."""
    pairs = channels[0] * channels[1] // window.groups
    entries = prod(window.output) * window.taps
    return {"multiplications": batch * pairs * entries, "bytes": 8 * entries}


def _rows(x: np.ndarray) -> np.ndarray:
    """x (C, *I) -> (I + 1, C): one row of channels per position, and one row of zeros."""
    rows = x.reshape(len(x), -1).T
    return np.concatenate([rows, np.zeros((1, len(x)), x.dtype)])


def _parts(window: Window, batch: int, ci: int, co: int) -> list[tuple[int, slice, slice]]:
    """Return (sample, channels of x, channels of y) for every sample and group."""
    c, k = ci // window.groups, co // window.groups
    return [
        (n, slice(group * c, (group + 1) * c), slice(group * k, (group + 1) * k))
        for n in range(batch)
        for group in range(window.groups)
    ]
