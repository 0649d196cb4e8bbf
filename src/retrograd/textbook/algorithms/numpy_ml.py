"""numpy-ml's convolution: dilate, pad, turn, and unfold the whole batch.

The transposed convolution, and so the gradient to the input, is a plain convolution with stride 1: put stride - 1 zeros
between the numbers of g (dilate), put dilation*(R - 1) - lo zeros in front of it and as many behind it as it takes
(pad), and turn the kernel by 180 degrees, so that its tap t = R - 1 - r comes from tap r:

    gx[i] = sum over t of w_turned[t]^T g_padded[i + t*dilation]

The turn is there because an input i that output o read at tap r was in front of o when r was small: seen from i, the
outputs that read it stand in the opposite order. The zeros are there because a strided convolution visits only every
stride-th place, so only every stride-th place has a gradient to send back.

All that is unfolded into one matrix, X_col. It serves both gradients, as the columns of the input serve the forward
pass (in numpy-ml this is the layer Deconv2D, whose input is our g and whose upstream gradient is our x):

    gx = w_turned X_col              gw_turned = x X_col^T

X_col has a column for each of I, not of O, positions: with a stride, zeros are multiplied, and a NaN or infinity
among the numbers that they are multiplied with gets into results that the other algorithms keep it out of.

numpy-ml has two dimensions, one stride for both, no groups, float64 only, and no workspace. With a limit, as many
samples as fit are done at once, or one sample unit by unit (see unfold.py); the units of the gradients are boxes of
the input here.

Source: D. Bourgin, numpy-ml, numpy_ml/neural_nets/layers/layers.py (Conv2D and Deconv2D._bwd) and utils/utils.py.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...geometry import Window
from ..ieee import ieee
from .unfold import Box, boxes, largest
from .workspace import Channels, Cost, Demand, Need, Workspace, add_bias, as_matrix, copied, frugal, part

__all__ = ["conv", "conv_input_grad", "conv_weight_grad", "cost"]


@ieee
@frugal
def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    """y = w_col X_col + bias, with X_col the columns of the padded x

    x (N, Ci, *I), w (Co, Ci//groups, *R), bias (Co,) or None  ->  (N, Co, *O)
    """
    N, Ci, Co, G = len(x), x.shape[1], len(w), window.groups
    work = DEMAND.workspace("conv", window, N, (Ci, Co), x.dtype, copied(w))
    w_col = as_matrix(w, G, work)  # (G, K, C*R)
    y = np.empty((N, G, Co // G, prod(window.output)), x.dtype)
    for n in work.samples():
        for units in work.parts(boxes(window.output)):
            X_col = _columns_of_input(x[n], window, units, work)
            for unit, columns in zip(units, X_col, strict=True):
                np.matmul(w_col, columns, out=y[n, :, :, unit.flat])  # (G, K, C*R) @ (n, G, C*R, U) -> (n, G, K, U)
    return add_bias(y.reshape(N, Co, *window.output), bias)


@ieee
@frugal
def conv_input_grad(g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    """gx = w_turned X_col + bias, with X_col the columns of the dilated and padded g

    g (N, Co, *O), w (Co, Ci//groups, *R), bias (Ci,) or None  ->  (N, Ci, *I)
    """
    N, Ci, Co, G = len(g), w.shape[1] * window.groups, len(w), window.groups
    work = DEMAND.workspace("conv_input_grad", window, N, (Ci, Co), g.dtype)
    w_turned = work.take(G, Ci // G, Co // G * window.taps)
    taps = w.reshape(G, Co // G, Ci // G, *window.kernel)
    w_turned.reshape(G, Ci // G, Co // G, *window.kernel)[...] = _turned(taps.swapaxes(1, 2), window)
    gx = np.empty((N, G, Ci // G, prod(window.input)), g.dtype)
    for n in work.samples():
        for units in work.parts(boxes(window.input)):
            X_col = _columns_of_gradient(g[n], window, units, work)
            for unit, columns in zip(units, X_col, strict=True):
                # (G, C, K*R) @ (n, G, K*R, U) -> (n, G, C, U)
                np.matmul(w_turned, columns, out=gx[n, :, :, unit.flat])
    return add_bias(gx.reshape(N, Ci, *window.input), bias)


@ieee
@frugal
def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """gw_turned = x X_col^T, with X_col the columns of the dilated and padded g

    x (N, Ci, *I), g (N, Co, *O)  ->  (Co, Ci//groups, *R)
    """
    N, Ci, Co, G = len(x), x.shape[1], g.shape[1], window.groups
    work = DEMAND.workspace("conv_weight_grad", window, N, (Ci, Co), x.dtype)
    gw = np.zeros((G, Co // G, Ci // G, *window.kernel), x.dtype)
    gw_turned = _turned(gw.swapaxes(1, 2), window)  # (G, C, K, *R), a view
    product = work.take(G, Ci // G, Co // G * window.taps)
    for n in work.samples():
        for units in work.parts(boxes(window.input)):
            X_col = _columns_of_gradient(g[n], window, units, work)
            x_col = [part(x[n], G, unit, work) for unit in units]
            for sample in range(n.stop - n.start):  # the sum over the batch, in this order
                for x_n, columns in zip(x_col, X_col, strict=True):
                    # (G, C, U) @ (G, U, K*R) -> (G, C, K*R)
                    np.matmul(x_n[sample], columns[sample].swapaxes(1, 2), out=product)
                    gw_turned += product.reshape(gw_turned.shape)
    return gw.reshape(Co, Ci // G, *window.kernel)


def cost(window: Window, batch: int, channels: Channels, dtype: Any = "float32") -> Cost:
    """What the three kernels take; ``channels`` are (Ci, Co), and the weights lie in the order of their axes.

    memory, for each sample: the padded input and its columns, Ci*(P + R*O) numbers with P = (O-1)*stride +
    dilation*(R-1) + 1; in the gradients the dilated and padded g and its columns, Co*(P + R*I) numbers with P = I +
    dilation*(R-1), and for the gradient to the weights a copy of the sample, Ci*I. Besides, the gradients hold an array
    of the weights' size.
    multiplications: N*Co*C*R*O, in the gradients N*Co*C*R*I, those with zeros included.
    """
    return DEMAND.cost(window, batch, channels, dtype)


def _turned(taps: np.ndarray, window: Window) -> np.ndarray:
    """A view in which the last axes, those of the taps, run backwards: a turn by 180 degrees."""
    return np.flip(taps, tuple(range(-window.ndim, 0)))


def _columns_of_input(x: np.ndarray, window: Window, units: tuple[Box, ...], work: Workspace) -> list[np.ndarray]:
    """What all outputs of the units see of the padded x (N, Ci, *I): for each unit (N, G, C*R, U)."""
    before = [lo for lo, _ in window.padding]
    return _columns(x, window, units, window.stride, (1,) * window.ndim, before, work)


def _columns_of_gradient(g: np.ndarray, window: Window, units: tuple[Box, ...], work: Workspace) -> list[np.ndarray]:
    """What all inputs of the units see of the dilated and padded g (N, Co, *O): for each unit (N, G, K*R, U)."""
    before = [d * (r - 1) - lo for r, d, (lo, _) in zip(window.kernel, window.dilation, window.padding, strict=True)]
    return _columns(g, window, units, (1,) * window.ndim, window.stride, before, work)


def _columns(
    a: np.ndarray,
    window: Window,
    units: tuple[Box, ...],
    stride: tuple[int, ...],
    spacing: tuple[int, ...],
    before: list[int],
    work: Workspace,
) -> list[np.ndarray]:
    """The columns of ``a`` (N, C, *A), with spacing - 1 zeros between its numbers and ``before`` zeros in front.

    Only the part that the units read is made. Less than no zeros in front: that many numbers are dropped.
    """
    hull = _hull(units)
    firsts = [start * s for start, s in zip(hull.start, stride, strict=True)]
    extents = _read(hull, window, stride)
    padded = work.take(*a.shape[:2], *extents)
    padded[...] = 0
    places, sources = [], []
    for size, first, extent, step, shift in zip(a.shape[2:], firsts, extents, spacing, before, strict=True):
        # number j goes to j*step + shift - first, which lies in 0 to extent
        start, stop = max(0, -((shift - first) // step)), min(size, (extent - 1 - shift + first) // step + 1)
        stop = max(start, stop)
        place = start * step + shift - first
        places.append(slice(place, place + (stop - start) * step, step) if stop > start else slice(0, 0))
        sources.append(slice(start, stop))
    padded[:, :, *places] = a[:, :, *sources]
    found = []
    for unit in units:
        columns = work.take(*a.shape[:2], window.taps, *unit.extents)
        for r, tap in enumerate(np.ndindex(window.kernel)):
            seen = []
            sizes = zip(unit.start, unit.extents, firsts, stride, tap, window.dilation, strict=True)
            for start, length, first, s, t, d in sizes:
                at = start * s - first + t * d
                seen.append(slice(at, at + (length - 1) * s + 1, s))
            columns[:, :, r] = padded[:, :, *seen]
        found.append(columns.reshape(len(a), window.groups, -1, unit.size))
    return found


def _hull(units: tuple[Box, ...]) -> Box:
    """The box around the units: around all of an image, or one alone."""
    start, last = units[0].start, units[-1]
    stop = (at + length for at, length in zip(last.start, last.extents, strict=True))
    extents = tuple(end - at for at, end in zip(start, stop, strict=True))
    return Box(start, extents, units[0].first)


def _read(box: Box, window: Window, stride: tuple[int, ...]) -> tuple[int, ...]:
    """How many positions the box reads on every axis."""
    sizes = zip(box.extents, stride, window.kernel, window.dilation, strict=True)
    return tuple((length - 1) * s + d * (r - 1) + 1 for length, s, r, d in sizes)


def _needs(window: Window, channels: Channels) -> tuple[Need, Need, Need]:
    Ci, Co = channels
    ones, R, weights = (1,) * window.ndim, window.taps, Ci // window.groups * Co * window.taps

    def columns(extents: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, int]:
        """Of one channel: the padded part and its columns, for all units and for one."""
        sample, unit = _hull(boxes(extents)), largest(extents)
        return prod(_read(sample, window, stride)) + R * sample.size, prod(_read(unit, window, stride)) + R * unit.size

    forward, backward = columns(window.output, window.stride), columns(window.input, ones)
    inputs = prod(window.input), largest(window.input).size
    return (
        Need(0, *(Ci * size for size in forward)),
        Need(weights, *(Co * size for size in backward)),
        Need(weights, *(Co * size + Ci * extent for size, extent in zip(backward, inputs, strict=True))),
    )


def _products(window: Window, channels: Channels) -> tuple[int, int, int]:
    taps = prod(channels) // window.groups * window.taps
    return taps * prod(window.output), taps * prod(window.input), taps * prod(window.input)


DEMAND = Demand("numpy_ml", _needs, _products)
