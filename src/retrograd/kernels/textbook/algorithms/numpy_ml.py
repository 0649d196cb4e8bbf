"""numpy-ml's convolution: dilate, pad, flip, and unfold the whole batch.

The transposed convolution, and so the gradient to the input, is a plain convolution with stride 1: insert stride - 1
zeros between the elements of g (dilate), add dilation*(R - 1) - lo zeros before and as many as necessary after it
(pad), and rotate the kernel by 180 degrees, so that tap t = R - 1 - r of the new one is tap r:

    gx[i] = sum over t of w_flipped[t]^T g_padded[i + t*dilation]

The kernel is flipped because the outputs that read input i are in the opposite order of the taps they read it with. The
zeros are necessary because a strided convolution has outputs only at every stride-th position.

This is unfolded into a matrix, X_col, for both gradients, as the columns of the input are for the forward pass (in
numpy-ml it is the layer Deconv2D, whose input is our g and whose upstream gradient is our x):

    gx = w_flipped X_col             gw_flipped = x X_col^T

X_col has a column for each of I, not O, positions: with a stride, zeros are multiplied, so NaN and infinity reach
results that they do not reach in the other algorithms.

numpy-ml is two-dimensional, with one stride for both axes, without groups and workspace, for float64 only. With a
limit, as many samples as fit are processed together, or one sample unit by unit (see unfold.py); in the gradients,
units are boxes of the input.

Source: D. Bourgin, numpy-ml, numpy_ml/neural_nets/layers/layers.py (Conv2D and Deconv2D._bwd) and utils/utils.py.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ....specs.convolution_options import AUTO, Options
from ....specs.geometry import Window
from ..ieee import ieee
from .unfold import Box, boxes, largest
from .workspace import Channels, Demand, Need, Workspace, add_bias, as_matrix, copied, frugal, part

__all__ = ["conv", "conv_input_grad", "conv_weight_grad"]


@ieee
@frugal
def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO) -> np.ndarray:
    """y = w_col X_col + bias, with X_col the columns of the padded x"""
    N, Ci, Co, G = len(x), x.shape[1], len(w), window.groups
    work = DEMAND.workspace("conv", window, options.workspace, N, (Ci, Co), x.dtype, copied(w))
    w_col = as_matrix(w, G, work)  # (G, K, C*R)
    y = np.empty((N, G, Co // G, prod(window.output)), x.dtype, like=x)
    for n in work.samples():
        for units in work.parts(boxes(window.output)):
            X_col = _columns_of_input(x[n], window, units, work)
            for unit, columns in zip(units, X_col, strict=True):
                np.matmul(w_col, columns, out=y[n, :, :, unit.flat])  # (G, K, C*R) @ (n, G, C*R, U) -> (n, G, K, U)
    return add_bias(y.reshape(N, Co, *window.output), bias)


@ieee
@frugal
def conv_input_grad(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO
) -> np.ndarray:
    """gx = w_flipped X_col + bias, with X_col the columns of the dilated and padded g"""
    N, Ci, Co, G = len(g), w.shape[1] * window.groups, len(w), window.groups
    work = DEMAND.workspace("conv_input_grad", window, options.workspace, N, (Ci, Co), g.dtype)
    w_flipped = work.take(G, Ci // G, Co // G * window.taps)
    taps = w.reshape(G, Co // G, Ci // G, *window.kernel)
    w_flipped.reshape(G, Ci // G, Co // G, *window.kernel)[...] = _flipped(taps.swapaxes(1, 2), window)
    gx = np.empty((N, G, Ci // G, prod(window.input)), g.dtype, like=g)
    for n in work.samples():
        for units in work.parts(boxes(window.input)):
            X_col = _columns_of_gradient(g[n], window, units, work)
            for unit, columns in zip(units, X_col, strict=True):
                # (G, C, K*R) @ (n, G, K*R, U) -> (n, G, C, U)
                np.matmul(w_flipped, columns, out=gx[n, :, :, unit.flat])
    return add_bias(gx.reshape(N, Ci, *window.input), bias)


@ieee
@frugal
def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window, options: Options = AUTO) -> np.ndarray:
    """gw_flipped = x X_col^T, with X_col the columns of the dilated and padded g"""
    N, Ci, Co, G = len(x), x.shape[1], g.shape[1], window.groups
    work = DEMAND.workspace("conv_weight_grad", window, options.workspace, N, (Ci, Co), x.dtype)
    gw = np.zeros((G, Co // G, Ci // G, *window.kernel), x.dtype, like=x)
    gw_flipped = _flipped(gw.swapaxes(1, 2), window)  # (G, C, K, *R), a view
    product = work.take(G, Ci // G, Co // G * window.taps)
    for n in work.samples():
        for units in work.parts(boxes(window.input)):
            X_col = _columns_of_gradient(g[n], window, units, work)
            x_col = [part(x[n], G, unit, work) for unit in units]
            for sample in range(n.stop - n.start):  # sum over the batch in this order
                for x_n, columns in zip(x_col, X_col, strict=True):
                    # (G, C, U) @ (G, U, K*R) -> (G, C, K*R)
                    np.matmul(x_n[sample], columns[sample].swapaxes(1, 2), out=product)
                    gw_flipped += product.reshape(gw_flipped.shape)
    return gw.reshape(Co, Ci // G, *window.kernel)


def _flipped(taps: np.ndarray, window: Window) -> np.ndarray:
    """A view with the axes of the taps, the last ones, reversed: a rotation by 180 degrees."""
    return np.flip(taps, tuple(range(-window.ndim, 0)))


def _columns_of_input(x: np.ndarray, window: Window, units: tuple[Box, ...], work: Workspace) -> list[np.ndarray]:
    """For each unit, the elements of the padded x (N, Ci, *I) that its outputs read: (N, G, C*R, U)."""
    before = [lo for lo, _ in window.padding]
    return _columns(x, window, units, window.stride, (1,) * window.ndim, before, work)


def _columns_of_gradient(g: np.ndarray, window: Window, units: tuple[Box, ...], work: Workspace) -> list[np.ndarray]:
    """For each unit, the elements of the dilated, padded g (N, Co, *O) that its inputs read: (N, G, K*R, U)."""
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
    """The columns of ``a`` (N, C, *A) with spacing - 1 zeros between its elements and ``before`` zeros before them.

    Only the part that the units read is built. A negative ``before`` drops elements.
    """
    hull = _hull(units)
    firsts = [start * s for start, s in zip(hull.start, stride, strict=True)]
    extents = _read(hull, window, stride)
    padded = work.take(*a.shape[:2], *extents)
    padded[...] = 0
    places, sources = [], []
    for size, first, extent, step, shift in zip(a.shape[2:], firsts, extents, spacing, before, strict=True):
        # element j goes to j*step + shift - first, which must be in [0, extent)
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
            read = []
            sizes = zip(unit.start, unit.extents, firsts, stride, tap, window.dilation, strict=True)
            for start, length, first, s, t, d in sizes:
                at = start * s - first + t * d
                read.append(slice(at, at + (length - 1) * s + 1, s))
            columns[:, :, r] = padded[:, :, *read]
        found.append(columns.reshape(len(a), window.groups, -1, unit.size))
    return found


def _hull(units: tuple[Box, ...]) -> Box:
    """The box around the units."""
    start, last = units[0].start, units[-1]
    stop = (at + length for at, length in zip(last.start, last.extents, strict=True))
    extents = tuple(end - at for at, end in zip(start, stop, strict=True))
    return Box(start, extents, units[0].first)


def _read(box: Box, window: Window, stride: tuple[int, ...]) -> tuple[int, ...]:
    """The number of positions the box reads on every axis."""
    sizes = zip(box.extents, stride, window.kernel, window.dilation, strict=True)
    return tuple((length - 1) * s + d * (r - 1) + 1 for length, s, r, d in sizes)


def _needs(window: Window, channels: Channels) -> tuple[Need, Need, Need]:
    """For each sample Ci*(P + R*O) elements, P = (O-1)*stride + dilation*(R-1) + 1: the padded input and its columns.

    In the gradients, Co*(P + R*I) with P = I + dilation*(R-1) for g, and an array of the weights' size; the gradient to
    the weights also copies the sample, Ci*I.
    """
    Ci, Co = channels
    ones, R, weights = (1,) * window.ndim, window.taps, Ci // window.groups * Co * window.taps

    def columns(extents: tuple[int, ...], stride: tuple[int, ...]) -> tuple[int, int]:
        """For one channel, the padded part and its columns: of all units, of one."""
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


DEMAND = Demand("numpy_ml", _needs, products=_products)
