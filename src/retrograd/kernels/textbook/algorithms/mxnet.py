"""MXNet's convolution: unfold as many samples as the workspace holds.

``workspace``, in MB, limits the temporary memory. By MXNet's rule (InitTemp) each sample needs C*R*O numbers for
columns and Co*O for its output or gradient, and a chunk has as many samples as fit, but at least one:

    nstep = max(min(workspace // (C*R*O + Co*O), N), 1)

A chunk is unfolded into a matrix of columns, temp_col, next to temp_dst, the output or its gradient with the channels
first. The gradient to the input overwrites temp_col by W^T temp_dst.

Without a limit, MXNet's default of 1024 MB is used. Unlike in MXNet, the limit is strict: if one sample exceeds it, the
sample is unfolded unit by unit, and if one unit exceeds it, the call is refused. MXNet multiplies a whole chunk, so its
bits depend on the workspace; here every unit has its own product, and the bits do not depend on it (see unfold.py).
MXNet's products add to a gradient in place; NumPy's cannot, which needs a temporary of the weights' size.

MXNet's operator is two-dimensional, with equal padding on both sides.

Source: Apache MXNet 1.9, src/operator/convolution_v1-inl.h.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ....specs.convolution_options import AUTO, Options
from ....specs.geometry import Window
from ..ieee import ieee
from .unfold import boxes, col2im, largest
from .workspace import Channels, Demand, Need, add_bias, as_matrix, copied, frugal, part, unfolded

__all__ = ["conv", "conv_input_grad", "conv_weight_grad"]


@ieee
@frugal
def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO) -> np.ndarray:
    """temp_dst = W temp_col, nstep samples at a time"""
    N, Ci, Co, G = len(x), x.shape[1], len(w), window.groups
    work = DEMAND.workspace("conv", window, options.workspace, N, (Ci, Co), x.dtype, copied(w))
    W = as_matrix(w, G, work)  # (G, K, C*R)
    y = np.empty((N, Co, *window.output), x.dtype, like=x)
    for chunk in work.samples():
        for units in work.parts(boxes(window.output)):
            temp_col = [unfolded(x[chunk], window, unit, work) for unit in units]
            for unit, columns in zip(units, temp_col, strict=True):
                temp_dst = work.take(len(columns), G, Co // G, unit.size)
                np.matmul(W, columns, out=temp_dst)  # (G, K, C*R) @ (n, G, C*R, U) -> (n, G, K, U)
                y[chunk][:, :, *unit.slices] = temp_dst.reshape(len(columns), Co, *unit.extents)
    return add_bias(y, bias)


@ieee
@frugal
def conv_input_grad(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO
) -> np.ndarray:
    """temp_col = W^T temp_dst, then col2im, nstep samples at a time"""
    N, Ci, Co, G = len(g), w.shape[1] * window.groups, len(w), window.groups
    work = DEMAND.workspace("conv_input_grad", window, options.workspace, N, (Ci, Co), g.dtype, copied(w))
    W = as_matrix(w, G, work)  # (G, K, C*R)
    gx = np.zeros((N, Ci, *window.input), g.dtype, like=g)
    for chunk in work.samples():
        for units in work.parts(boxes(window.output)):
            temp_dst = [part(g[chunk], G, unit, work) for unit in units]
            temp_col = [work.take(len(gx[chunk]), G, W.shape[2], unit.size) for unit in units]
            for gradients, columns in zip(temp_dst, temp_col, strict=True):
                np.matmul(W.swapaxes(1, 2), gradients, out=columns)  # (G, C*R, K) @ (n, G, K, U) -> (n, G, C*R, U)
            for unit, columns in zip(units, temp_col, strict=True):
                col2im(columns.reshape(len(columns), Ci, window.taps, *unit.extents), window, unit, gx[chunk])
    return add_bias(gx, bias)


@ieee
@frugal
def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window, options: Options = AUTO) -> np.ndarray:
    """gwmat += temp_dst temp_col^T, nstep samples at a time"""
    N, Ci, Co, G = len(x), x.shape[1], g.shape[1], window.groups
    work = DEMAND.workspace("conv_weight_grad", window, options.workspace, N, (Ci, Co), x.dtype)
    gwmat = np.zeros((G, Co // G, Ci // G * window.taps), x.dtype, like=x)
    product = work.take(*gwmat.shape)
    for chunk in work.samples():
        for units in work.parts(boxes(window.output)):
            temp_dst = [part(g[chunk], G, unit, work) for unit in units]
            temp_col = [unfolded(x[chunk], window, unit, work) for unit in units]
            for sample in range(chunk.stop - chunk.start):  # sum over the batch in this order
                for gradients, columns in zip(temp_dst, temp_col, strict=True):
                    # (G, K, U) @ (G, U, C*R) -> (G, K, C*R)
                    gwmat += np.matmul(gradients[sample], columns[sample].swapaxes(1, 2), out=product)
    return gwmat.reshape(Co, Ci // G, *window.kernel)


def _needs(window: Window, channels: Channels) -> tuple[Need, Need, Need]:
    """nstep*(Ci*R*O + Co*O) elements; the gradient to the weights also needs a product of their size."""
    Ci, Co = channels
    column, weights = Ci * window.taps + Co, Ci // window.groups * window.taps * Co
    sample, unit = column * prod(window.output), column * largest(window.output).size
    return Need(0, sample, unit), Need(0, sample, unit), Need(weights, sample, unit)


DEMAND = Demand("mxnet", _needs, preferred=1024 << 20)
