"""Winograd's F(4x4, 3x3) in plain NumPy: a tile of 4x4 outputs costs 36 multiplications per channel, not 144.

A correlation of 3 taps w with 6 positions d has 4 outputs. Viewed as polynomials, taps and outputs are evaluated at the
points 0, ±5/8, ±3/2 and infinity by G and A, and B^T transforms the input accordingly:

    y = A^T [(G w G^T) * (B^T d B)] A        in two dimensions, with elementwise *

This is linear in w and in d, so the gradients use the same three matrices, transposed:

    gw = G^T [(A gy A^T) * (B^T d B)] G      summed over all tiles and samples
    gd = B   [(A gy A^T) * (G w G^T)] B^T    added to the tile's 6x6 positions of x

This module supports stride 1, dilation 1 and 3x3 kernels. The compiled kernels compute the same with vectors.

Source: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015 (arXiv:1509.09308).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..specs.geometry import Window

__all__ = ["conv", "conv_input_grad", "conv_weight_grad", "cost", "fits", "transforms"]

_POINTS = (0.0, 5 / 8, -5 / 8, 3 / 2, -3 / 2)  # and infinity
_TILE, _TAPS = 4, 3
_READS = _TILE + _TAPS - 1  # positions of the input under a tile


def fits(window: Window) -> bool:
    """Return whether the transforms exist for this window."""
    return window.kernel == (3, 3) and window.stride == (1, 1) and window.dilation == (1, 1)


def transforms() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return A (6, 4), G (6, 3) and B (6, 6): the matrices of the module's formulas."""
    A, G, B = np.zeros((_READS, _TILE)), np.zeros((_READS, _TAPS)), np.zeros((_READS, _READS))
    for j, point in enumerate(_POINTS):
        others = [other for other in _POINTS if other != point]
        A[j] = point ** np.arange(_TILE)
        G[j] = point ** np.arange(_TAPS) / np.prod([point - other for other in others])
        B[:-1, j] = np.poly(others)[::-1]
    A[-1, -1] = G[-1, -1] = 1  # at infinity, only the highest coefficient counts
    B[:, -1] = np.poly(_POINTS)[::-1]
    return A, G, B


def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    """x (N, Ci, H, W), w (Co, C, 3, 3), bias (Co,) or None  ->  y (N, Co, OH, OW)"""
    A, G, B = transforms()
    y = np.zeros((len(x), len(w), *_rounded(window)))
    U = G @ w @ G.T  # (Co, C, 6, 6)
    for channels, filters in _groups(window, x.shape[1], len(w)):
        padded = _padded(x[:, channels], window)
        for tile, reads in _tiles(window):
            V = B.T @ padded[..., *reads] @ B  # (N, C, 6, 6)
            M = np.einsum("kcij,ncij->nkij", U[filters], V)
            y[:, filters, *tile] = A.T @ M @ A
    if bias is not None:
        y += bias[:, None, None]
    return y[:, :, : window.output[0], : window.output[1]].astype(x.dtype)


def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """x (N, Ci, H, W), g (N, Co, OH, OW)  ->  gw (Co, C, 3, 3)"""
    A, G, B = transforms()
    gw = np.zeros((g.shape[1], x.shape[1] // window.groups, 3, 3))
    wide = _widened(g, window)
    for channels, filters in _groups(window, x.shape[1], g.shape[1]):
        padded = _padded(x[:, channels], window)
        gU = np.zeros((filters.stop - filters.start, channels.stop - channels.start, _READS, _READS))
        for tile, reads in _tiles(window):
            V = B.T @ padded[..., *reads] @ B  # (N, C, 6, 6)
            gM = A @ wide[:, filters, *tile] @ A.T  # (N, K, 6, 6)
            gU += np.einsum("nkij,ncij->kcij", gM, V)
        gw[filters] = G.T @ gU @ G
    return gw.astype(x.dtype)


def conv_input_grad(g: np.ndarray, w: np.ndarray, window: Window) -> np.ndarray:
    """g (N, Co, OH, OW), w (Co, C, 3, 3)  ->  gx (N, Ci, H, W)"""
    A, G, B = transforms()
    U = G @ w @ G.T  # (Co, C, 6, 6)
    wide = _widened(g, window)
    ci = w.shape[1] * window.groups
    padded = _padded(np.zeros((len(g), ci, *window.input)), window)
    for channels, filters in _groups(window, ci, len(w)):
        for tile, reads in _tiles(window):
            gM = A @ wide[:, filters, *tile] @ A.T  # (N, K, 6, 6)
            gV = np.einsum("nkij,kcij->ncij", gM, U[filters])
            padded[:, channels, *reads] += B @ gV @ B.T  # neighboring tiles overlap
    inside = [slice(lo, lo + i) for (lo, _), i in zip(window.padding, window.input, strict=True)]
    return padded[:, :, *inside].astype(g.dtype)


def cost(window: Window, batch: int, channels: tuple[int, int]) -> dict[str, int]:
    """Return each pass's multiplications of transformed arrays, and the bytes of these in float64 for one tile."""
    tiles = batch * len(list(_tiles(window)))
    ci, co = channels
    pairs = ci * co // window.groups
    transformed = 8 * _READS**2 * (pairs + batch * (ci + co))
    return {"multiplications": tiles * _READS**2 * pairs, "bytes": transformed}


def _tiles(window: Window) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield the outputs of each tile, and the positions of the padded input under it."""
    for p in range(0, window.output[0], _TILE):
        for q in range(0, window.output[1], _TILE):
            yield (
                (slice(p, p + _TILE), slice(q, q + _TILE)),
                (slice(p, p + _READS), slice(q, q + _READS)),
            )


def _groups(window: Window, ci: int, co: int) -> Iterator[tuple[slice, slice]]:
    c, k = ci // window.groups, co // window.groups
    for group in range(window.groups):
        yield slice(group * c, (group + 1) * c), slice(group * k, (group + 1) * k)


def _rounded(window: Window) -> tuple[int, ...]:
    """Return the output's extents, rounded up to whole tiles."""
    return tuple(-(-o // _TILE) * _TILE for o in window.output)


def _padded(x: np.ndarray, window: Window) -> np.ndarray:
    """Return x with its padding, extended with zeros to whole tiles."""
    more = [rounded - o for rounded, o in zip(_rounded(window), window.output, strict=True)]
    pairs = [(lo, hi + extra) for (lo, hi), extra in zip(window.padding, more, strict=True)]
    return np.pad(x, [(0, 0), (0, 0), *pairs])


def _widened(g: np.ndarray, window: Window) -> np.ndarray:
    """Return g extended with zeros to whole tiles."""
    pairs = [(0, rounded - o) for rounded, o in zip(_rounded(window), window.output, strict=True)]
    return np.pad(g, [(0, 0), (0, 0), *pairs])
