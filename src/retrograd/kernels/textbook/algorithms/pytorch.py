"""PyTorch's convolution: the gradients are convolutions themselves.

At tap r, the outputs read a shifted, strided copy of the input, x_r[n, c, o] = x[n, c, o*stride + r*dilation - lo]:

    conv              y   = sum over r of w_r x_r       a convolution of x with the kernel w
    conv_input_grad   x_r += w_r^T g                    the transposed convolution of g: each element of g adds a copy
                                                        of the kernel, times itself
    conv_weight_grad  w_r = sum over n of g_n x_nr^T    a convolution of x with the kernel g

In the last one, taps and outputs are exchanged: i = r*dilation + o*stride - lo. So it is a convolution with the
upstream gradient as its kernel of O taps, with stride and dilation exchanged, and with R outputs. Sample n is convolved
with its own g_n: groups = batch. The sum of these gradients is the gradient to the weights. The channels of a sample
are the batch of this convolution, with one channel each.

PyTorch repeated g for every input channel, and cropped the result to R if the stride had left it larger; here neither
is necessary. The kernels run over the taps of the convolution, always unit by unit (see unfold.py).

Source: PyTorch, torch/nn/grad.py before 1.13 (conv2d_input and conv2d_weight).
"""

from __future__ import annotations

from math import prod

import numpy as np

from ....specs.convolution_options import AUTO, Options
from ....specs.geometry import Window
from ..ieee import ieee
from .unfold import boxes, gather, largest, reads, scatter
from .workspace import Channels, Demand, Need, Workspace, add_bias, frugal, part

__all__ = ["conv", "conv_input_grad", "conv_weight_grad"]


@ieee
@frugal
def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO) -> np.ndarray:
    """y += w_r x_r, for one tap r after another"""
    N, Ci, Co, G = len(x), x.shape[1], len(w), window.groups
    work = DEMAND.workspace("conv", window, options.workspace, N, (Ci, Co), x.dtype)
    y = np.zeros((N, G, Co // G, prod(window.output)), x.dtype, like=x)
    w = _by_tap(w, G, work)  # (R, G, K, C)
    for n in work.samples():
        for unit in work.each(boxes(window.output)):
            copy = work.take(len(x[n]), Ci, *unit.extents)
            product = work.take(len(copy), G, Co // G, unit.size)
            for w_r, pair in zip(w, reads(window, unit), strict=True):
                gather(x[n], pair, copy)
                x_r = copy.reshape(len(copy), G, Ci // G, unit.size)
                y[n, :, :, unit.flat] += np.matmul(w_r, x_r, out=product)  # (G, K, C) @ (n, G, C, U)
    return add_bias(y.reshape(N, Co, *window.output), bias)


@ieee
@frugal
def conv_input_grad(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO
) -> np.ndarray:
    """x_r += w_r^T g, for one tap r after another"""
    N, Ci, Co, G = len(g), w.shape[1] * window.groups, len(w), window.groups
    work = DEMAND.workspace("conv_input_grad", window, options.workspace, N, (Ci, Co), g.dtype)
    gx = np.zeros((N, Ci, *window.input), g.dtype, like=g)
    w = _by_tap(w, G, work)  # (R, G, K, C)
    for n in work.samples():
        for unit in work.each(boxes(window.output)):
            g_n = part(g[n], G, unit, work)
            back = work.take(len(g_n), G, Ci // G, unit.size)
            for w_r, pair in zip(w, reads(window, unit), strict=True):
                np.matmul(w_r.swapaxes(1, 2), g_n, out=back)  # (G, C, K) @ (n, G, K, U) -> (n, G, C, U)
                scatter(back.reshape(len(back), Ci, *unit.extents), pair, gx[n])
    return add_bias(gx, bias)


@ieee
@frugal
def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window, options: Options = AUTO) -> np.ndarray:
    """The convolution of every x_n with the kernel g_n, then the sum over n"""
    N, Ci, Co, G = len(x), x.shape[1], g.shape[1], window.groups
    work = DEMAND.workspace("conv_weight_grad", window, options.workspace, N, (Ci, Co), x.dtype)
    gw = np.zeros((G, Co // G, Ci // G, window.taps), x.dtype, like=x)
    for n in work.samples():
        per_sample = work.take(len(x[n]), window.taps, G, Co // G, Ci // G)
        product = work.take(*per_sample.shape[:1], *per_sample.shape[2:])
        per_sample[...] = 0
        for unit in work.each(boxes(window.output)):
            g_n = part(g[n], G, unit, work)
            copy = work.take(len(g_n), Ci, *unit.extents)
            for r, pair in enumerate(reads(window, unit)):
                gather(x[n], pair, copy)
                x_nr = copy.reshape(len(copy), G, Ci // G, unit.size)
                # (n, G, K, U) @ (n, G, U, C) -> (n, G, K, C)
                per_sample[:, r] += np.matmul(g_n, x_nr.swapaxes(2, 3), out=product)
        for one in per_sample:  # sum over the batch in this order
            gw += np.moveaxis(one, 0, -1)  # (R, G, K, C) -> (G, K, C, R)
    return gw.reshape(Co, Ci // G, *window.kernel)


def _by_tap(w: np.ndarray, groups: int, work: Workspace) -> np.ndarray:
    """A copy of w with its taps first: (Co, C, *R) -> (R, G, K, C)."""
    Co, C, taps = len(w), w.shape[1], prod(w.shape[2:])
    copy = work.take(taps, groups, Co // groups, C)
    copy.reshape(*w.shape[2:], Co, C)[...] = np.moveaxis(w, (0, 1), (-2, -1))
    return copy


def _needs(window: Window, channels: Channels) -> tuple[Need, Need, Need]:
    """A copy of the weights, and the inputs and products of a unit at one tap, (Ci + Co)*U elements for each sample.

    The gradient to the weights needs no copy of them, but (R + 1)*C*Co elements for each sample: its gradient, and that
    of one tap.
    """
    Ci, Co = channels
    tap = Ci // window.groups * Co
    unit = (Ci + Co) * largest(window.output).size
    weights, gradient = tap * window.taps, tap * (window.taps + 1) + unit
    return Need(weights, unit, unit), Need(weights, unit, unit), Need(0, gradient, gradient)


DEMAND = Demand("pytorch", _needs)
