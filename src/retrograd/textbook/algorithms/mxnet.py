"""MXNet's convolution: unfold as many samples at once as the workspace holds.

``workspace``, in MB, is how much temporary memory the operator may take. MXNet's rule (InitTemp) gives each sample

    C*R*O numbers of columns and Co*O numbers for its output or its gradient, each a "unit" of MXNet's,

and takes nstep samples at a time, as many as fit, but one at least:

    nstep = max(min(workspace // (C*R*O + Co*O), N), 1)

Each chunk of nstep samples is unfolded into one matrix of columns, temp_col, beside temp_dst, in which the channels of
the output or of its gradient stand in front. The gradient to the input overwrites temp_col by W^T temp_dst.

Here a window without a limit has MXNet's default of 1024 MB. A limit is a limit: where one sample exceeds it, a sample
is unfolded unit by unit, and what the smallest unit exceeds is refused. MXNet takes one sample all the same. MXNet
multiplies a chunk by one product, and its bits depend on the workspace; here every unit has a product of its own, and
the bits do not (see unfold.py). MXNet's products add to a gradient in place; NumPy's cannot, so one product of the
weights' size is held besides.

MXNet's operator has two dimensions, and the same padding on both sides.

Source: Apache MXNet 1.9, src/operator/convolution_v1-inl.h.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...geometry import Window
from ..ieee import ieee
from .unfold import boxes, col2im, largest
from .workspace import Channels, Cost, Demand, Need, add_bias, as_matrix, copied, frugal, part, unfolded

__all__ = ["conv", "conv_input_grad", "conv_weight_grad", "cost"]


@ieee
@frugal
def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    """temp_dst = W temp_col, nstep samples at a time

    x (N, Ci, *I), w (Co, Ci//groups, *R), bias (Co,) or None  ->  (N, Co, *O)
    """
    N, Ci, Co, G = len(x), x.shape[1], len(w), window.groups
    work = DEMAND.workspace("conv", window, N, (Ci, Co), x.dtype, copied(w))
    W = as_matrix(w, G, work)  # (G, K, C*R)
    y = np.empty((N, Co, *window.output), x.dtype)
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
def conv_input_grad(g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    """temp_col = W^T temp_dst, then col2im, nstep samples at a time

    g (N, Co, *O), w (Co, Ci//groups, *R), bias (Ci,) or None  ->  (N, Ci, *I)
    """
    N, Ci, Co, G = len(g), w.shape[1] * window.groups, len(w), window.groups
    work = DEMAND.workspace("conv_input_grad", window, N, (Ci, Co), g.dtype, copied(w))
    W = as_matrix(w, G, work)  # (G, K, C*R)
    gx = np.zeros((N, Ci, *window.input), g.dtype)
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
def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """gwmat += temp_dst temp_col^T, nstep samples at a time

    x (N, Ci, *I), g (N, Co, *O)  ->  (Co, Ci//groups, *R)
    """
    N, Ci, Co, G = len(x), x.shape[1], g.shape[1], window.groups
    work = DEMAND.workspace("conv_weight_grad", window, N, (Ci, Co), x.dtype)
    gwmat = np.zeros((G, Co // G, Ci // G * window.taps), x.dtype)
    product = work.take(*gwmat.shape)
    for chunk in work.samples():
        for units in work.parts(boxes(window.output)):
            temp_dst = [part(g[chunk], G, unit, work) for unit in units]
            temp_col = [unfolded(x[chunk], window, unit, work) for unit in units]
            for sample in range(chunk.stop - chunk.start):  # the sum over the batch, in this order
                for gradients, columns in zip(temp_dst, temp_col, strict=True):
                    # (G, K, U) @ (G, U, C*R) -> (G, K, C*R)
                    gwmat += np.matmul(gradients[sample], columns[sample].swapaxes(1, 2), out=product)
    return gwmat.reshape(Co, Ci // G, *window.kernel)


def cost(window: Window, batch: int, channels: Channels, dtype: Any = "float32") -> Cost:
    """What the three kernels take; ``channels`` are (Ci, Co), and the weights lie in the order of their axes.

    memory: nstep*(Ci*R*O + Co*O) numbers; for the gradient to the weights also a product of their size.
    multiplications: N*Co*C*R*O each, those with padding included.
    """
    return DEMAND.cost(window, batch, channels, dtype)


def _needs(window: Window, channels: Channels) -> tuple[Need, Need, Need]:
    Ci, Co = channels
    column, weights = Ci * window.taps + Co, Ci // window.groups * window.taps * Co
    sample, unit = column * prod(window.output), column * largest(window.output).size
    return Need(0, sample, unit), Need(0, sample, unit), Need(weights, sample, unit)


def _products(window: Window, channels: Channels) -> tuple[int, int, int]:
    return (prod(channels) // window.groups * window.taps * prod(window.output),) * 3


DEMAND = Demand("mxnet", _needs, _products, preferred=1024 << 20)
