"""The three convolution kernels: arrays in, arrays out, through the batch-reduce micro-kernel.

T(x, w, g) = sum of x[i] w[r] g[o] over i = o*stride + r*dilation - low; each kernel leaves one of the three out.
Activations are read and written channels-last in memory, weights in the order (kernel, input channel, output channel);
arrays in another order are copied into this one first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod
from typing import Any

import numpy as np

from ....specs.convolution_options import AUTO, Options
from ....specs.geometry import Window
from ..machine.prepared import prepared
from ..memory.finish import Given, finish_arrays, finish_by_numpy
from ..memory.layout import channels_last, empty, is_channels_last
from ..memory.packing import whole_steps
from ..pooling import max_pool_values
from ..reduction import unless_finite
from . import depthwise, direct, fold, narrow, planar, rowwise, winograd
from .algorithm import choose
from .axes import WEIGHT
from .direct_plan import MOST_PHASES

__all__ = ["conv", "conv_clamp", "conv_input_grad", "conv_input_grad_clamp", "conv_max_pool", "conv_weight_grad"]

_GATHERS: dict[str, Callable[..., np.ndarray]] = {
    "direct": direct.gather,
    "depthwise": depthwise.gather,
    "narrow": narrow.gather,
    "planar": planar.gather,
}


def _is_readable(x: np.ndarray) -> bool:
    size = x.itemsize
    return (x.strides[1] == size or x.shape[1] == 1) and whole_steps(x.strides, size)


def _readable(x: np.ndarray) -> np.ndarray:
    """``x`` (N, C, ...) if its channels are contiguous, else a copy."""
    return x if _is_readable(x) else channels_last(x)


def _read(x: np.ndarray) -> tuple[np.ndarray, bool]:
    """``_readable(x)``, and whether it is dense and channels-last."""
    if is_channels_last(x.shape, x.strides, x.itemsize):
        return x, True
    return (x, False) if _is_readable(x) else (channels_last(x), True)


def _lines(x: np.ndarray) -> np.ndarray:
    """``x`` (N, C, ..., W) if its lines are dense, position by position, else a copy."""
    return x if x.strides[-1] == x.shape[1] * x.itemsize and _is_readable(x) else channels_last(x)


def _whole(w: np.ndarray) -> np.ndarray:
    return w if whole_steps(w.strides, w.itemsize) else np.ascontiguousarray(w, like=w)


@prepared
def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO) -> np.ndarray:
    """y[o] = bias + sum over r of w[r] x[o*stride + r*dilation - low].

    x (N,Ci,*I), w (Co,Ci/groups,*R), bias (Co,) or None; y (N,Co,*O).
    """
    return _conv(x, w, bias, window, options, None)


def conv_clamp(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    low: float,
    high: float,
    window: Window,
    options: Options = AUTO,
    formula: Callable[..., Any] | None = None,
    numbers: tuple[float, ...] = (),
) -> np.ndarray:
    """min(max(conv + residual, low), high), while the sums are in registers, and then the formula of it."""
    return _conv(x, w, bias, window, options, (residual, low, high, formula, numbers))


def conv_max_pool(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    low: float,
    high: float,
    window: Window,
    pool: Window,
    options: Options = AUTO,
) -> np.ndarray:
    """The largest element of each window ``pool`` of min(max(conv, low), high): where positions fill vectors and the
    windows are two by two, before anything is stored."""
    given = None if (low, high) == (-inf, inf) else (None, low, high, None, ())
    if x.size and _is_halving(pool):
        (batch, inputs), outputs = x.shape[:2], w.shape[0]
        x, dense = _read(x)
        if choose("conv", window, options, batch, inputs, outputs, x.dtype.char, dense) == "planar":
            y = empty((batch, *pool.output, outputs), x.dtype, x)
            finish = None if given is None else finish_arrays(y, given)
            w, bias = _whole(w), direct.dense(bias)
            return planar.gather(x, w, bias, y, window, False, finish, halved=True)
    return max_pool_values(_conv(x, w, bias, window, options, given), pool)


def _is_halving(pool: Window) -> bool:
    """Whether windows of two by two positions lie side by side; a last odd line or position is in none."""
    sizes = pool.kernel == pool.stride == (2, 2) and pool.dilation == (1, 1) and not any(map(any, pool.padding))
    return sizes and pool.output == tuple([extent // 2 for extent in pool.input])


def _conv(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    window: Window,
    options: Options,
    given: Given | None,
) -> np.ndarray:
    (batch, inputs), outputs = x.shape[:2], w.shape[0]
    y = empty((batch, *window.output, outputs), x.dtype, x)
    if x.size == 0 or y.size == 0:
        y = _only_bias(bias, y)
        return y if given is None else finish_by_numpy(y, given)
    finish = None if given is None else finish_arrays(y, given)
    x, dense = _read(x)
    form = choose("conv", window, options, batch, inputs, outputs, x.dtype.char, dense)
    bias = direct.dense(bias)
    if form == "winograd":
        return winograd.conv(x, w, bias, y, window, finish)
    w = _whole(w)
    if form == "line":
        return rowwise.pointwise(x, w, bias, y, finish)
    x = _lines(x) if form == "narrow" else x
    return _GATHERS[form](x, w, bias, y, window, False, finish)


@prepared
def conv_input_grad(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options = AUTO
) -> np.ndarray:
    """gx[i] = bias + sum over o, r with o*stride + r*dilation - low = i of w[r] g[o].

    g (N,Co,*O), w (Co,Ci/groups,*R), bias (Ci,) or None; gx (N,Ci,*I).
    """
    return _input_grad(g, w, bias, window, options, None)


def conv_input_grad_clamp(
    g: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    residual: np.ndarray | None,
    low: float,
    high: float,
    window: Window,
    options: Options = AUTO,
    formula: Callable[..., Any] | None = None,
    numbers: tuple[float, ...] = (),
) -> np.ndarray:
    """min(max(conv_input_grad + residual, low), high), and then the formula of it, as ``conv_clamp``."""
    given = residual, low, high, formula, numbers
    if prod(window.stride) > MOST_PHASES:  # positions that no tap reaches are filled in advance
        return finish_by_numpy(_input_grad(g, w, bias, window, options, None), given)
    return _input_grad(g, w, bias, window, options, given)


def _input_grad(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window, options: Options, given: Given | None
) -> np.ndarray:
    batch, (outputs, depth) = g.shape[0], w.shape[:2]
    inputs = depth * window.groups
    gx = empty((batch, *window.input, inputs), g.dtype, g)
    if g.size == 0 or gx.size == 0:
        gx = _only_bias(bias, gx)
        return gx if given is None else finish_by_numpy(gx, given)
    finish = None if given is None else finish_arrays(gx, given)
    g, dense = _read(g)
    form = choose("conv_input_grad", window, options, batch, inputs, outputs, g.dtype.char, dense)
    bias = direct.dense(bias)
    if form == "winograd":
        return winograd.input_grad(g, w, bias, gx, window, finish)
    if form == "fold":
        return fold.input_grad(g, w, bias, gx, window, finish)
    w = _whole(w)
    if form == "line":
        return rowwise.pointwise(g, w.swapaxes(0, 1), bias, gx, finish)
    g = _lines(g) if form == "narrow" else g
    return _GATHERS[form](g, w, bias, gx, window, True, finish)


def _only_bias(bias: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """The result of empty sums."""
    y[...] = 0 if bias is None else bias.reshape(-1, *[1] * (y.ndim - 2))
    return y


def _without_padding(gw: np.ndarray, x: np.ndarray, g: np.ndarray, window: Window, limit: int | None) -> None:
    """Fill ``gw`` with the weight gradient, of products with x alone."""
    gw[...] = direct.weight_grad(_readable(x), window, g, limit)


@prepared
def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window, options: Options = AUTO) -> np.ndarray:
    """gw[r] = sum over N, o of g[o] x[o*stride + r*dilation - low].

    x (N,Ci,*I), g (N,Co,*O); gw (Co,Ci/groups,*R).
    """
    (batch, inputs), outputs, limit = x.shape[:2], g.shape[1], options.workspace
    shape = *window.kernel, inputs // window.groups, outputs
    if x.size == 0 or g.size == 0:
        return np.zeros(shape, x.dtype, like=x).transpose(WEIGHT[x.ndim])
    g = _readable(g)
    form = choose("conv_weight_grad", window, options, batch, inputs, outputs, x.dtype.char)
    if form == "winograd":
        gw = winograd.weight_grad(_readable(x), g, window)
    elif form == "depthwise":
        gw = depthwise.weight_grad(_readable(x), g, window, limit).reshape(shape)
    elif form == "planar":
        gw = planar.weight_grad(_readable(x), g, window).reshape(shape)
    elif form == "narrow":
        gw = direct.row_grad(_lines(x), window, g).reshape(shape)
    else:
        gw = direct.weight_grad(_readable(x), window, g, limit)
    if form in ("planar", "narrow"):
        unless_finite(gw, _without_padding, gw, x, g, window, limit)  # padding is also multiplied: 0 * inf is NaN
    return gw.transpose(WEIGHT[x.ndim])
