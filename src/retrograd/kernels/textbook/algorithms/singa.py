"""SINGA's convolution: sample by sample, unfold and multiply.

With X_b = im2col(x_b), the forward pass of sample b is one product of matrices for each group, Y_b = W X_b. So

    dL = sum_b <G_b, dW X_b + W dX_b> = <sum_b G_b X_b^T, dW> + sum_b <W^T G_b, dX_b>

so the gradient to W is ``dW += G_b X_b^T``, summed over the samples, which share W; and the gradient to the columns is
W^T G_b, which col2im, the transpose of im2col, adds back to x_b.

Per group: W (K, C*R), X_b (C*R, O), G_b and Y_b (K, O). SINGA always unfolds a whole sample; if a workspace limit does
not allow that, it is unfolded unit by unit here (see unfold.py). SINGA's layer is two-dimensional, without groups and
dilation.

Source: Apache SINGA, src/model/layer/convolution.cc; SINGA-249.
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
    """Y_b = W im2col(x_b) + bias"""
    N, Ci, Co, G = len(x), x.shape[1], len(w), window.groups
    work = DEMAND.workspace("conv", window, options.workspace, N, (Ci, Co), x.dtype, copied(w))
    W = as_matrix(w, G, work)  # (G, K, C*R)
    y = np.empty((N, G, Co // G, prod(window.output)), x.dtype, like=x)
    for b in work.samples():
        for units in work.parts(boxes(window.output)):
            columns = [unfolded(x[b], window, unit, work) for unit in units]
            for unit, X_b in zip(units, columns, strict=True):
                np.matmul(W, X_b, out=y[b, :, :, unit.flat])  # (G, K, C*R) @ (1, G, C*R, U) -> (1, G, K, U)
    return add_bias(y.reshape(N, Co, *window.output), bias)


@ieee
@frugal
def conv_input_grad(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO
) -> np.ndarray:
    """dx_b = col2im(W^T G_b) + bias"""
    N, Ci, Co, G = len(g), w.shape[1] * window.groups, len(w), window.groups
    work = DEMAND.workspace("conv_input_grad", window, options.workspace, N, (Ci, Co), g.dtype, copied(w))
    W = as_matrix(w, G, work)  # (G, K, C*R)
    gx = np.zeros((N, Ci, *window.input), g.dtype, like=g)
    for b in work.samples():
        for units in work.parts(boxes(window.output)):
            gradients = [part(g[b], G, unit, work) for unit in units]
            columns = [work.take(1, G, W.shape[2], unit.size) for unit in units]
            for G_b, dX_b in zip(gradients, columns, strict=True):
                np.matmul(W.swapaxes(1, 2), G_b, out=dX_b)  # (G, C*R, K) @ (1, G, K, U) -> (1, G, C*R, U)
            for unit, dX_b in zip(units, columns, strict=True):
                col2im(dX_b.reshape(1, Ci, window.taps, *unit.extents), window, unit, gx[b])
    return add_bias(gx, bias)


@ieee
@frugal
def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window, options: Options = AUTO) -> np.ndarray:
    """dW += G_b im2col(x_b)^T, for one sample b after another"""
    N, Ci, Co, G = len(x), x.shape[1], g.shape[1], window.groups
    work = DEMAND.workspace("conv_weight_grad", window, options.workspace, N, (Ci, Co), x.dtype)
    dW = np.zeros((G, Co // G, Ci // G * window.taps), x.dtype, like=x)
    product = work.take(*dW.shape)
    for b in work.samples():
        for units in work.parts(boxes(window.output)):
            gradients = [part(g[b], G, unit, work) for unit in units]
            columns = [unfolded(x[b], window, unit, work) for unit in units]
            for G_b, X_b in zip(gradients, columns, strict=True):
                dW += np.matmul(G_b[0], X_b[0].swapaxes(1, 2), out=product)  # (G, K, U) @ (G, U, C*R) -> (G, K, C*R)
    return dW.reshape(Co, Ci // G, *window.kernel)


def _needs(window: Window, channels: Channels) -> tuple[Need, Need, Need]:
    """The columns of a sample, Ci*R*O elements; the gradients also G_b, Co*O; that to W also a product of W's size."""
    Ci, Co = channels
    sample, unit, column = prod(window.output), largest(window.output).size, Ci * window.taps
    return (
        Need(0, column * sample, column * unit),
        Need(0, (column + Co) * sample, (column + Co) * unit),
        Need(column // window.groups * Co, (column + Co) * sample, (column + Co) * unit),
    )


DEMAND = Demand("singa", _needs, most=1)
