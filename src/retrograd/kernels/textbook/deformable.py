"""Deformable convolution from the definition, in any number of dimensions: the taps of a window move by offsets.

    y[n, k, o] = bias[k] + sum over c, r of w[k, c, r] m[n, d, r, o] s(x[n, c], p)
    p = o*stride + r*dilation - lo + offset[n, d, r, o]

s interpolates x linearly along each axis at p: every corner q around p adds x[q] times the product of 1 - |p - q| over
the axes; a corner outside the input adds nothing. Channel c is in the deformable group d = c // (Ci/D). Without a mask
m is 1 (the first version of deformable convolution).

In memory the channels of offset are (D, R, axes), those of the mask (D, R). At one tap r, each kernel is that of the
ordinary convolution with m s(x, p), the columns, instead of x. The gradients to the columns, x, mask and offset:

    gcolumns = w^T g        gx[q] += gcolumns m ds/dx[q]        gm = sum over c of gcolumns s
                            goffset = sum over c of gcolumns m ds/dp

Memory: besides the results, the columns of one tap of one image, Ci*O numbers, and as many for each corner. That is the
minimum, so ``workspace`` has no effect. Operations: those of the convolution, and about 2^axes for each column.

Axes: N batch, G groups, D deformable groups, I, R, O positions of input, kernel and output, all axes flattened.

Source: J. Dai et al., "Deformable Convolutional Networks", 2017, arXiv:1703.06211; X. Zhu et al., "Deformable ConvNets
v2", 2018, arXiv:1811.11168 (the mask).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from ...specs.geometry import Window
from .ieee import ieee

__all__ = ["deform_conv", "deform_conv_grad", "deform_conv_weight_grad", "deform_points"]


class _Corner(NamedTuple):
    """One of the 2^axes positions around the points of a tap, each (D, O)."""

    place: np.ndarray  # flat index into *I, 0 if outside
    inside: np.ndarray
    weight: np.ndarray
    slopes: list[np.ndarray]  # derivatives of the weight along the axes


@ieee
def deform_conv(
    x: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None,
    w: np.ndarray,
    bias: np.ndarray | None,
    window: Window,
    workspace: int | None = None,
) -> np.ndarray:
    """y[n, k, o] = bias[k] + sum over c, r of w[k, c, r] m[n, d, r, o] s(x[n, c], p)

    x (N, Ci, *I), offset (N, D*R*axes, *O), mask (N, D*R, *O) or None, w (Co, Ci//groups, *R)  ->  (N, Co, *O)
    """
    G, C, outputs = window.groups, w.shape[1], prod(window.output)
    K = len(w) // G
    weights = w.reshape(G, K, C, window.taps)
    y = np.zeros((len(x), G, K, outputs), x.dtype, like=x)
    for n, r, corners in _places(x, offset, window):
        columns = _modulated(_sampled(x[n], corners), mask, n, r)  # (D, Ci/D, O)
        y[n] += weights[..., r] @ columns.reshape(G, C, outputs)  # (G, K, C) @ (G, C, O) -> (G, K, O)
    y = y.reshape(len(x), G * K, *window.output)
    return y if bias is None else y + bias.reshape(-1, *(1,) * window.ndim)


@ieee
def deform_conv_grad(
    g: np.ndarray,
    x: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None,
    w: np.ndarray,
    window: Window,
    needs_grad: tuple[bool, bool, bool],
    workspace: int | None = None,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """The gradients of deform_conv to x, offset and mask; None where ``needs_grad`` is False.

    g (N, Co, *O)  ->  (N, Ci, *I), (N, D*R*axes, *O), (N, D*R, *O)
    """
    G, C, outputs = window.groups, w.shape[1], prod(window.output)
    K = len(w) // G
    weights, g = w.reshape(G, K, C, window.taps), g.reshape(len(x), G, K, outputs)
    D = offset.shape[1] // (window.ndim * window.taps)
    gx = np.zeros((len(x), D, x.shape[1] // D, prod(window.input)), x.dtype, like=x)
    goffset = np.zeros((len(x), D, window.taps, window.ndim, outputs), x.dtype, like=x)
    gmask = np.zeros((len(x), D, window.taps, outputs), x.dtype, like=x)
    for n, r, corners in _places(x, offset, window):
        gcolumns = (weights[..., r].swapaxes(1, 2) @ g[n]).reshape(D, x.shape[1] // D, outputs)  # (G, C, K) @ (G, K, O)
        if needs_grad[2]:
            gmask[n, :, r] = (gcolumns * _sampled(x[n], corners)).sum(axis=1)
        gcolumns = _modulated(gcolumns, mask, n, r)
        for corner in corners:
            if needs_grad[1]:
                met = (gcolumns * _read(x[n], corner)).sum(axis=1)  # (D, O)
                for axis, slope in enumerate(corner.slopes):
                    goffset[n, :, r, axis] += slope * met
            if needs_grad[0]:
                back = np.where(corner.inside[:, None], gcolumns * corner.weight[:, None], 0)
                for d in range(D):  # points may share a corner, hence add.at
                    np.add.at(gx[n, d].T, corner.place[d], back[d].T)
    return (
        gx.reshape(x.shape) if needs_grad[0] else None,
        goffset.reshape(offset.shape) if needs_grad[1] else None,
        gmask.reshape(len(x), D * window.taps, *window.output) if needs_grad[2] else None,
    )


@ieee
def deform_conv_weight_grad(
    x: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None,
    g: np.ndarray,
    window: Window,
    workspace: int | None = None,
) -> np.ndarray:
    """gw[k, c, r] = sum over n, o of g[n, k, o] m[n, d, r, o] s(x[n, c], p)

    x (N, Ci, *I), offset (N, D*R*axes, *O), mask (N, D*R, *O) or None, g (N, Co, *O)  ->  (Co, Ci//groups, *R)
    """
    G, outputs = window.groups, prod(window.output)
    C, K = x.shape[1] // G, g.shape[1] // G
    g = g.reshape(len(x), G, K, outputs)
    gw = np.zeros((G, K, C, window.taps), x.dtype, like=x)
    for n, r, corners in _places(x, offset, window):
        columns = _modulated(_sampled(x[n], corners), mask, n, r).reshape(G, C, outputs)
        gw[..., r] += g[n] @ columns.swapaxes(1, 2)  # (G, K, O) @ (G, O, C) -> (G, K, C)
    return gw.reshape(G * K, C, *window.kernel)


def _places(x: np.ndarray, offset: np.ndarray, window: Window) -> Iterator[tuple[int, int, list[_Corner]]]:
    """For every image n and tap r: the corners around the points that the outputs read."""
    deformable = offset.shape[1] // (window.ndim * window.taps)
    offset = offset.reshape(len(x), deformable, window.taps, window.ndim, prod(window.output))
    for n in range(len(x)):
        for r, tap in enumerate(np.ndindex(window.kernel)):
            yield n, r, _corners(offset[n, :, r], tap, window, x.dtype)


def _corners(offset: np.ndarray, tap: tuple[int, ...], window: Window, dtype: np.dtype) -> list[_Corner]:
    """The corners around p = o*stride + r*dilation - lo + offset; offset (D, axes, O) of one tap."""
    steps = zip(tap, window.output, window.stride, window.dilation, window.padding, strict=True)
    lines = [np.arange(o, like=offset) * s + r * d - lo for r, o, s, d, (lo, _) in steps]
    regular = np.meshgrid(*lines, indexing="ij")
    sides = []  # along each axis, below and above p: (position, weight, slope)
    for axis, (extent, start) in enumerate(zip(window.input, regular, strict=True)):
        p = start.reshape(-1) + offset[:, axis].astype(np.float64)  # (D, O); exact, so that floor is right
        p = np.clip(p, -2, extent)  # at these limits both sides are still outside
        low = np.floor(p)
        above = (p - low).astype(dtype)  # NaN stays NaN
        i = np.nan_to_num(low, nan=-2).astype(np.int64)
        one = np.ones_like(above)
        sides.append([(i, one - above, -one), (i + 1, above, one)])
    corners = []
    for chosen in product(*sides):
        shape = chosen[0][0].shape
        index, inside = np.zeros(shape, np.int64, like=offset), np.ones(shape, np.bool_, like=offset)
        for (i, _, _), extent in zip(chosen, window.input, strict=True):
            index, inside = index * extent + i, inside & (i >= 0) & (i < extent)
        weights = [weight for _, weight, _ in chosen]
        slopes = [
            np.prod(np.stack([*weights[:axis], slope, *weights[axis + 1 :]]), axis=0)
            for axis, (_, _, slope) in enumerate(chosen)
        ]
        corners.append(_Corner(np.where(inside, index, 0), inside, np.prod(np.stack(weights), axis=0), slopes))
    return corners


@ieee
def deform_points(offset: np.ndarray, window: Window, axis: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The integer positions below and above all points p along an axis, and (p - below) - offset.

    offset (N, D, R, O)  ->  two arrays of int64 and one of offset's dtype, all (N, D, R, O). A point that is NaN or far
    outside is moved just outside.
    """
    after = (1,) * (window.ndim - axis - 1)
    o, r = (
        np.broadcast_to(np.arange(extents[axis], like=offset).reshape(-1, *after), extents)
        for extents in (window.output, window.kernel)
    )
    start = o.reshape(1, -1) * window.stride[axis] + r.reshape(-1, 1) * window.dilation[axis]
    regular = start - window.padding[axis][0]
    low = np.floor(np.clip(regular + offset.astype(np.float64), -2, window.input[axis]))
    low = np.nan_to_num(low, nan=-2)
    below = low.astype(np.int64)
    return below, below + 1, (regular - low).astype(offset.dtype)


def _read(x: np.ndarray, corner: _Corner) -> np.ndarray:
    """x (Ci, *I) at one corner of every point, 0 outside: (D, Ci/D, O)."""
    flat = x.reshape(len(corner.place), -1, prod(x.shape[1:]))  # (D, Ci/D, I)
    values = np.take_along_axis(flat, corner.place[:, None], axis=2)
    return np.where(corner.inside[:, None], values, np.zeros_like(values))


def _sampled(x: np.ndarray, corners: list[_Corner]) -> np.ndarray:
    """s(x, p), the corners weighted and summed: (D, Ci/D, O)."""
    return sum((corner.weight[:, None] * _read(x, corner) for corner in corners), np.zeros((), x.dtype, like=x))


def _modulated(columns: np.ndarray, mask: np.ndarray | None, n: int, r: int) -> np.ndarray:
    """Columns (D, Ci/D, O) of image n and tap r times their mask."""
    if mask is None:
        return columns
    D, _, outputs = columns.shape
    product: np.ndarray = columns * mask[n].reshape(D, -1, 1, outputs)[:, r]
    return product
