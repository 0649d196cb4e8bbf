"""The three convolution kernels: arrays in, arrays out, through the batch-reduce micro-kernel.

T(x, w, g) = sum of x[i] w[r] g[o] over i = o*stride + r*dilation - low; each kernel leaves one of the three out.
Activations are read and written channels-last in memory, weights in the order (kernel, input channel, output channel);
arrays in another order are copied into this one first.
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite

import numpy as np

from ..geometry import Window
from . import by_line, depthwise, fold, planar, winograd
from .algorithm import choose
from .gather_plan import Gather, gather_plan
from .launch import kernel
from .layout import channels_last, empty
from .narrow import WEIGHT, merge_row, merge_weights
from .packing import pack_weights, whole_steps, zeros_of
from .plan import three_axes, three_strides
from .reduce_plan import Reduce, reduce_plan
from .scratch import aligned, per_thread

__all__ = ["conv", "conv_input_grad", "conv_weight_grad"]

_gather = kernel("convolution.gather")
_weight_grad = kernel("convolution.weight_grad")
_add_partials = kernel("convolution.add_partials")


def _readable(x: np.ndarray) -> np.ndarray:
    """``x`` (N, C, ...) with neighbouring channels: itself where it has them, else a copy."""
    size = x.itemsize
    return x if (x.strides[1] == size or x.shape[1] == 1) and whole_steps(x.strides, size) else channels_last(x)


def conv(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    """y[o] = bias + sum over r of w[r] x[o*stride + r*dilation - low].

    x (N,Ci,*I), w (Co,Ci/groups,*R), bias (Co,) or None; y (N,Co,*O).
    """
    y = empty((x.shape[0], *window.output, w.shape[0]), x.dtype)
    if x.size == 0 or y.size == 0:
        return _only_bias(bias, y)
    algorithm = choose("conv", window, x.shape[0], x.shape[1], w.shape[0], x.dtype.char)
    if algorithm == "planar":
        return planar.gather(_readable(x), w, _dense(bias), y, window, False)
    if algorithm == "winograd":
        return winograd.conv(_readable(x), w, _dense(bias), y, window)
    if algorithm == "narrow":
        x, window = merge_row(x, window)
        return by_line.conv(x, merge_weights(w), _dense(bias), y, window)
    x = _readable(x)
    if by_line.applies(window, x.shape, x.strides, w.shape[0], x.itemsize):
        return by_line.pointwise(x, _whole(w), _dense(bias), y)
    return _gather_into(x, w, bias, y, window, False)


def conv_input_grad(g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, window: Window) -> np.ndarray:
    """gx[i] = bias + sum over o, r with o*stride + r*dilation - low = i of w[r] g[o].

    g (N,Co,*O), w (Co,Ci/groups,*R), bias (Ci,) or None; gx (N,Ci,*I).
    """
    inputs = w.shape[1] * window.groups
    gx = empty((g.shape[0], *window.input, inputs), g.dtype)
    if g.size == 0 or gx.size == 0:
        return _only_bias(bias, gx)
    algorithm = choose("conv_input_grad", window, g.shape[0], inputs, w.shape[0], g.dtype.char)
    if algorithm == "planar":
        return planar.gather(_readable(g), w, _dense(bias), gx, window, True)
    if algorithm == "winograd":
        return winograd.input_grad(_readable(g), w, _dense(bias), gx, window)
    if algorithm == "fold":
        return fold.input_grad(_readable(g), w, _dense(bias), gx, window)
    g = _readable(g)
    if by_line.applies(window, g.shape, g.strides, inputs, g.itemsize):
        return by_line.pointwise(g, _whole(w).swapaxes(0, 1), _dense(bias), gx)
    return _gather_into(g, w, bias, gx, window, True)


def _only_bias(bias: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """What a sum of nothing leaves."""
    y[...] = 0 if bias is None else bias.reshape(-1, *[1] * (y.ndim - 2))
    return y


@lru_cache(maxsize=4096)
def _gather_plan(
    window: Window, gradient: bool, batch: int, w_shape: tuple[int, ...], w_strides: tuple[int, ...], dtype: str,
    source: tuple[int, ...], target: tuple[int, ...],
) -> tuple[Gather, tuple[int, ...], np.ndarray]:  # fmt: skip
    """The plan, the sizes and steps by which the weights are packed (none: read as they are), and a row of zeros."""
    size, groups = 4 if dtype == "f" else 8, window.groups
    outputs, inputs = w_shape[0] // groups, w_shape[1]
    output_step, input_step, *steps = (stride // size for stride in w_strides)
    depth, columns, depth_step, column_step = (
        (outputs, inputs, output_step, input_step) if gradient else (inputs, outputs, input_step, output_step)
    )
    plan = gather_plan(
        three_axes(window), gradient, batch, groups, depth, columns, dtype,
        three_strides(source), three_strides(target), [0] * (3 - len(steps)) + steps, depth_step, column_step,
        outputs * output_step,
    )  # fmt: skip
    packing = () if plan.given else (depth, columns, depth_step, column_step, groups, outputs * output_step)
    return plan, packing, zeros_of(plan.zeros, dtype)


def _dense(bias: np.ndarray | None) -> np.ndarray | None:
    return bias if bias is None or bias.strides == (bias.itemsize,) else np.ascontiguousarray(bias)


def _whole(w: np.ndarray) -> np.ndarray:
    return w if whole_steps(w.strides, w.itemsize) else np.ascontiguousarray(w)


def _gather_into(
    source: np.ndarray, w: np.ndarray, bias: np.ndarray | None, target: np.ndarray, window: Window, gradient: bool
) -> np.ndarray:
    dtype = source.dtype.char
    w, bias = _whole(w), _dense(bias)
    if window.groups == source.shape[1] == target.shape[1]:
        channels = w.shape[0]
        return depthwise.gather(
            source, w, zeros_of(channels, dtype) if bias is None else bias, target, window, gradient
        )
    plan, packing, zeros = _gather_plan(
        window, gradient, source.shape[0], w.shape, w.strides, dtype, source.strides, target.strides
    )
    if packing:
        w = pack_weights(w, plan.taps, *packing)
    scratch, packed = per_thread(plan.scratch, "q"), per_thread(plan.packed, dtype)
    init = zeros if bias is None else bias
    _gather[dtype](
        plan.tasks, source, w, plan.taps, init, target, zeros, packed, plan.packed, plan.words, scratch, plan.scratch
    )
    return target


@lru_cache(maxsize=4096)
def _reduce_plan(
    window: Window, batch: int, rows: int, columns: int, dtype: str, x: tuple[int, ...], g: tuple[int, ...]
) -> Reduce:
    return reduce_plan(
        three_axes(window), batch, window.groups, rows, columns, dtype, three_strides(x), three_strides(g)
    )


def conv_weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """gw[r] = sum over N, o of g[o] x[o*stride + r*dilation - low].

    x (N,Ci,*I), g (N,Co,*O); gw (Co,Ci/groups,*R).
    """
    gw = np.empty((*window.kernel, x.shape[1] // window.groups, g.shape[1]), x.dtype)
    if gw.size == 0 or x.size == 0 or g.size == 0:
        gw.fill(0)
        return gw.transpose(WEIGHT[x.ndim])
    g = _readable(g)
    algorithm = choose("conv_weight_grad", window, x.shape[0], x.shape[1], g.shape[1], x.dtype.char)
    if algorithm == "winograd":
        gw = winograd.weight_grad(_readable(x), g, window)
    elif algorithm == "depthwise":
        _sum_parts(depthwise.weight_grad(_readable(x), g, window), gw)
    elif algorithm == "planar":
        _sum_parts(planar.weight_grad(_readable(x), g, window), gw)
    elif algorithm == "narrow":
        gw = _plain_weight_grad(*merge_row(x, window), g).reshape(gw.shape)
    else:
        gw = _plain_weight_grad(_readable(x), window, g)
    if algorithm in ("planar", "narrow"):
        with np.errstate(all="ignore"):
            total = np.add.reduce(gw, None)
        if not isfinite(total):  # the padding was multiplied, too, and 0 * inf is NaN
            gw = _plain_weight_grad(_readable(x), window, g)
    return gw.transpose(WEIGHT[x.ndim])


def _plain_weight_grad(x: np.ndarray, window: Window, g: np.ndarray) -> np.ndarray:
    """The weight gradient in the order of memory (*R, Ci/groups, Co); both tensors have neighbouring channels."""
    rows, columns, dtype = x.shape[1] // window.groups, g.shape[1] // window.groups, x.dtype.char
    gw = np.empty((*window.kernel, rows, g.shape[1]), x.dtype)
    plan = _reduce_plan(window, x.shape[0], rows, columns, dtype, x.strides, g.strides)
    target = gw if plan.parts == 1 else aligned(plan.parts * gw.size, dtype).reshape(plan.parts, gw.size)
    scratch = per_thread(plan.scratch, "q")
    _weight_grad[dtype](plan.tasks, x, g, target, zeros_of(plan.zeros, dtype), plan.words, scratch, plan.scratch)
    return gw if plan.parts == 1 else _sum_parts(target, gw)


def _sum_parts(partials: np.ndarray, gw: np.ndarray) -> np.ndarray:
    chunk = 16384
    _add_partials[gw.dtype.char](-(-gw.size // chunk), partials, gw, gw.size, partials.shape[0], chunk)
    return gw
