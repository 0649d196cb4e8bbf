"""Deformable convolution: x is sampled at the taps, as much as fits in the cache, and then multiplied.

Besides the results there are, per thread, the columns of some positions: as few as keep the micro-kernel busy, or as
``workspace`` allows, in bytes (at least those of one position). The results do not depend on their number.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import get_num_threads, kernel
from ..machine.scratch import per_thread
from ..memory.channels_last import channels_last, empty
from ..memory.packing import pack_weights, whole_steps, zeros_of
from .deformable_plan import Plan, Sizes, forward_plan, grad_plan, weight_grad_plan
from .narrow import WEIGHT
from .partials import sum_parts

__all__ = ["deform_conv", "deform_conv_grad", "deform_conv_weight_grad"]

_FORWARD, _GRAD = kernel("convolution.deformable.forward"), kernel("convolution.deformable.grad")
_WEIGHT_GRAD = kernel("convolution.deformable.weight_grad")
_PLANS = {"forward": forward_plan, "grad": grad_plan, "weight_grad": weight_grad_plan}
Shape = tuple[int, ...]


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
    y = empty((len(x), *window.output, len(w)), x.dtype, x)
    if y.size == 0:
        return y
    x, offset, mask, w = channels_last(x), _readable(offset), _given(mask), _readable(w)
    plan = _plan_of("forward", x, offset, mask, len(w), window, workspace)
    rows, outputs = _steps(w), len(w) // window.groups
    packed = pack_weights(
        w, _taps(w.shape, rows), w.shape[1], outputs, rows[1], rows[0], window.groups, outputs * rows[0]
    )
    zeros = _zeros(x, len(w))
    init = zeros if bias is None else np.ascontiguousarray(bias, like=bias)
    columns, scratch = per_thread(plan.columns, x.dtype.char), per_thread(plan.scratch, "i8")
    _FORWARD[x.dtype.char](
        plan.tasks,
        x,
        offset,
        offset if mask is None else mask,
        packed,
        init,
        y,
        zeros,
        columns,
        plan.columns,
        plan.words,
        scratch,
        plan.scratch,
        y.size // len(w),
    )
    return y


def deform_conv_grad(
    g: np.ndarray,
    x: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None,
    w: np.ndarray,
    window: Window,
    wanted: tuple[bool, bool, bool],
    workspace: int | None = None,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """The gradients of deform_conv to x, offset and mask; None unless ``wanted``.

    g (N, Co, *O)  ->  (N, Ci, *I), (N, D*R*axes, *O), (N, D*R, *O)
    """
    batch, channels, places = len(x), x.shape[1], wanted[1] or wanted[2]
    gx = empty((batch, *window.input, channels if wanted[0] else 0), x.dtype, x)
    goffset = empty((batch, *window.output, offset.shape[1] if places else 0), x.dtype, x)
    gmask = empty((batch, *window.output, offset.shape[1] // 2 if places else 0), x.dtype, x)
    if x.size == 0 or g.size == 0:
        for array in (gx, goffset, gmask):
            array.fill(0)
    else:
        g, x, offset, mask, w = channels_last(g), channels_last(x), _readable(offset), _given(mask), _readable(w)
        plan = _plan_of("grad", x, offset, mask, len(w), window, workspace)
        rows, outputs = _steps(w), len(w) // window.groups
        each = min(channels // plan.blocks, w.shape[1])  # channels of a product: a group, or a block of the only one
        further = outputs * rows[0] if window.groups > 1 else each * rows[1]
        packed = pack_weights(w, _taps(w.shape, rows), outputs, each, rows[0], rows[1], channels // each, further)
        whole = plan.parts == 1
        to_offset = goffset if whole else np.empty((plan.parts, goffset.size), x.dtype, like=x)
        to_mask = gmask if whole else np.empty((plan.parts, gmask.size), x.dtype, like=x)
        columns, scratch = per_thread(plan.columns, x.dtype.char), per_thread(plan.scratch, "i8")
        _GRAD[x.dtype.char](
            plan.tasks,
            g,
            x,
            offset,
            offset if mask is None else mask,
            packed,
            gx,
            to_offset,
            to_mask,
            _zeros(x, len(w)),
            columns,
            plan.columns,
            plan.words,
            scratch,
            plan.scratch,
            int(wanted[0]),
            int(places),
        )
        if places and not whole:
            sum_parts(to_offset, goffset)
            sum_parts(to_mask, gmask)
    return gx if wanted[0] else None, goffset if wanted[1] else None, gmask if wanted[2] else None


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
    gw = np.empty((*window.kernel, x.shape[1] // window.groups, g.shape[1]), x.dtype, like=x)
    if x.size == 0 or g.size == 0:
        gw.fill(0)
        return gw.transpose(WEIGHT[x.ndim])
    x, offset, mask, g = channels_last(x), _readable(offset), _given(mask), channels_last(g)
    plan = _plan_of("weight_grad", x, offset, mask, g.shape[1], window, workspace)
    target = gw if plan.parts == 1 else np.empty((plan.parts, gw.size), x.dtype, like=x)
    columns, scratch = per_thread(plan.columns, x.dtype.char), per_thread(plan.scratch, "i8")
    _WEIGHT_GRAD[x.dtype.char](
        plan.tasks,
        x,
        offset,
        offset if mask is None else mask,
        g,
        target,
        _zeros(x, g.shape[1]),
        columns,
        plan.columns,
        plan.words,
        scratch,
        plan.scratch,
    )
    return (gw if plan.parts == 1 else sum_parts(target, gw)).transpose(WEIGHT[x.ndim])


def _readable(x: np.ndarray) -> np.ndarray:
    return x if whole_steps(x.strides, x.itemsize) else np.ascontiguousarray(x, like=x)


def _given(mask: np.ndarray | None) -> np.ndarray | None:
    return None if mask is None else _readable(mask)


def _steps(x: np.ndarray) -> Shape:
    """Strides in elements."""
    return tuple(stride // x.itemsize for stride in x.strides)


def _zeros(x: np.ndarray, outputs: int) -> np.ndarray:
    """The zeros outside of x and at the start of sums, with a whole register after the last channel."""
    return zeros_of(max(x.shape[1], outputs) + 64, x.dtype.char)


@lru_cache(maxsize=256)
def _taps(shape: Shape, steps: Shape) -> np.ndarray:
    """The offset of each tap in w."""
    rows, columns = (np.arange(extent) * step for extent, step in zip(shape[2:], steps[2:], strict=True))
    offsets: np.ndarray = (rows[:, None] + columns).ravel()
    return offsets


def _plan_of(
    kind: str,
    x: np.ndarray,
    offset: np.ndarray,
    mask: np.ndarray | None,
    outputs: int,
    window: Window,
    workspace: int | None,
) -> Plan:
    mask_steps = None if mask is None else _steps(mask)
    dtype, limit = x.dtype.char, None if workspace is None else workspace // get_num_threads()
    return _plan(kind, window, x.shape, outputs, dtype, _steps(x), offset.shape[1], _steps(offset), mask_steps, limit)


@lru_cache(maxsize=4096)
def _plan(
    kind: str,
    window: Window,
    shape: Shape,
    outputs: int,
    dtype: str,
    x: Shape,
    offsets: int,
    offset: Shape,
    mask: Shape | None,
    limit: int | None,
) -> Plan:
    deformable = offsets // (2 * window.taps)
    return _PLANS[kind](Sizes(window, shape[0], shape[1], outputs, deformable, dtype, x, offset, mask, limit))
