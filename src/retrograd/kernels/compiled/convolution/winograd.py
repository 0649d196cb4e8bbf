"""Convolutions by Winograd's transforms; their plans are made in winograd_plan.py.

The input gradient of a 4x4 kernel at stride 2 is a convolution with 2x2 taps for each of its four phases. Where the
transformed weights are larger than the transformed input, some filters are transformed at a time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from ....specs.convolution_options import suits
from ....specs.geometry import Window
from ..machine.launch import kernel, pool
from ..machine.microkernel import PRODUCT, tile
from ..machine.plan_tracing import is_planned
from ..machine.scratch import aligned, carved, cores, per_thread, shared
from ..memory.finish import Finish
from ..memory.layout import usual_strides
from ..memory.moves import copy
from ..memory.packing import zeros_of
from .axes import three_axes, three_steps, three_strides
from .winograd_plan import PAIRS, WINOGRAD, Transformed, transform_plan, transform_sum_plan

_FILTER_BYTES, _PARTS = 640 << 10, 4  # of the transformed weights of some filters; how many such parts, at least

_gather = kernel("convolution.winograd.gather")
_weight_grad = kernel("convolution.winograd.weight_grad")
_transform = kernel("convolution.winograd.transform")
_transform_both = kernel("convolution.winograd.transform_both")
_some_filters = kernel("convolution.winograd.filters")
_multiply = kernel("convolution.winograd.multiply_pairs")
_accumulate = kernel("convolution.winograd.accumulate")
_transform_back = kernel("convolution.winograd.transform_back")
_weights = kernel("convolution.winograd_transforms.weights")
_weights_back = kernel("convolution.winograd_transforms.weights_back")


def can(window: Window) -> bool:
    """Whether the transforms exist for a window."""
    return suits("winograd", window, window.groups, window.groups)


@lru_cache(maxsize=4096)
def turned_window(window: Window) -> Window:
    """The window of the convolution with a flipped kernel that is the input gradient of this one."""
    reach = [(r - 1) * d for r, d in zip(window.kernel, window.dilation, strict=True)]
    padding = tuple((most - low, most - high) for most, (low, high) in zip(reach, window.padding, strict=True))
    return replace(window, input=window.output, output=window.input, padding=padding)


def can_by_phases(window: Window) -> bool:
    """Whether the input gradient's phases, one for each residue of a position modulo the stride, have 2x2 taps each."""
    return window.kernel == (4, 4) and suits("winograd", window, window.groups, window.groups, True)


def tiles_of_phases(window: Window) -> int:
    """Tiles of an image, in all four phases."""
    return sum(-(-phase.output[0] // 3) * -(-phase.output[1] // 3) for _, _, phase in phases(window))


@lru_cache(maxsize=4096)
def phases(window: Window) -> list[tuple[tuple[int, int], tuple[int, int], Window]]:
    """For each phase: its residues, its first taps, and its window, a correlation of g with the flipped taps.

    Position i = 2q + residue reads o = q + base - t through the taps first + 2t, with base = (residue + low) // 2.
    """
    found = []
    ((low_h, _), (low_w, _)), (height, width) = window.padding, window.input
    for h, w in product((0, 1), repeat=2):
        extents = (height - h + 1) // 2, (width - w + 1) // 2
        padding = (1 - (h + low_h) // 2, 0), (1 - (w + low_w) // 2, 0)
        phase = Window(window.output, (2, 2), extents, (1, 1), (1, 1), padding)
        found.append(((h, w), ((h + low_h) % 2, (w + low_w) % 2), phase))
    return found


class _Call(NamedTuple):
    """The plan and other values for a call."""

    plan: Transformed
    zeros: np.ndarray
    taps: int  # along D
    width: int
    panels: int
    step: int  # of a row of the weights' gradient
    together: int  # pairs that a task multiplies
    weight_step: int  # from the weights of a pair, or their gradient, to the next


@lru_cache(maxsize=4096)
def _call(
    window: Window,
    batch: int,
    depth: int,
    columns: int,
    dtype: str,
    x: tuple[int, ...],
    y: tuple[int, ...],
    sums: bool,
    filters: bool = False,
) -> _Call:
    axes = three_axes(window)
    build = transform_sum_plan if sums else transform_plan
    plan = build(axes, batch, depth, columns, dtype, three_strides(x), three_steps(y, dtype), filters)
    panels = WINOGRAD.product + PRODUCT.panels
    places = WINOGRAD.width, panels, WINOGRAD.column_step, WINOGRAD.together, WINOGRAD.weight_step
    words = [int(plan.words[at]) for at in places]
    return _Call(plan, zeros_of(max(depth, columns) + 64, dtype), axes[0].kernel, *words)


class _Filters(NamedTuple):
    """Filters that are transformed some at a time."""

    calls: list[tuple[slice, _Call]]
    own: int  # elements per thread, or per task
    words: np.ndarray  # for each part the first filter and the place of its plan, then the plans


@lru_cache(maxsize=4096)
def _filters(
    window: Window, batch: int, depth: int, columns: int, dtype: str, x: tuple[int, ...], y: tuple[int, ...], sums: bool
) -> _Filters | None:
    """The filters that are transformed together, with their calls; None if all are, smaller than the transformed
    input."""
    size, shape = 4 if dtype == "f" else 8, tile(dtype, "dense" if sums else "rows", columns)
    of_filter = window.taps // window.kernel[-1] ** 2 * PAIRS * depth * size
    whole = _call(window, batch, depth, columns, dtype, x, y, sums, True)
    of_input = PAIRS * int(whole.plan.words[WINOGRAD.input_step]) * size
    if len(whole.plan.blocks) > 1 or of_input > of_filter * columns:
        return None
    most = of_filter * columns // _PARTS  # a part reads all of the transformed input
    vectors = max(
        2 if sums else shape.vectors,
        max(_FILTER_BYTES, most if sums else min(most, of_input)) // (of_filter * shape.lanes),
    )
    total = -(-columns // shape.lanes)
    if sums:
        parts = -(-total // max(vectors // shape.vectors * shape.vectors, min(vectors, shape.vectors)))
    else:  # of equal size for two threads
        parts = 2 * -(-total // (2 * min(vectors, max(2, total // _PARTS))))
    parts = min(parts, total)
    if parts < 2:
        return None
    calls = []
    for part in range(parts):
        begin, end = (min(columns, place * total // parts * shape.lanes) for place in (part, part + 1))
        calls.append((slice(begin, end), _call(window, batch, depth, end - begin, dtype, x, y, sums, True)))
    return _Filters(calls, *_plans_of(calls, window, dtype))


def _plans_of(calls: list[tuple[slice, _Call]], window: Window, dtype: str) -> tuple[int, np.ndarray]:
    """The elements per thread, and the words of ``_Filters``."""
    lanes, plans = tile(dtype, "rows", 1).lanes, list[np.ndarray]()
    words: list[int] = []
    places: dict[int, int] = {}
    own, end = 0, 2 * len(calls)
    for part, call in calls:
        count = part.stop - part.start
        if count not in places:
            places[count] = end
            plans.append(call.plan.words)
            end += len(call.plan.words)
            turning = window.taps * lanes * -(-count // lanes) * lanes
            own = max(own, call.plan.weights + PAIRS * int(call.plan.words[WINOGRAD.product_step]) + turning)
        words += part.start, places[count]
    return -(-own // lanes) * lanes, np.concatenate([np.array(words, np.int64), *plans])


def _dense(w: np.ndarray) -> np.ndarray:
    """``w`` without gaps."""
    if not w.flags.c_contiguous:
        dense = aligned(w.size, w.dtype.char).reshape(w.shape)
        copy(dense, w)
        return dense
    return w


def conv(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    y: np.ndarray,
    window: Window,
    finish: Finish | None = None,
) -> np.ndarray:
    """Fill ``y`` with the forward pass; both tensors have contiguous channels, the bias is dense."""
    return _transformed(x, w.transpose(*range(2, w.ndim), 1, 0), bias, y, window, 0, finish)


def _temporary_of_phases(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    size = 4 if dtype == "f" else 8
    x, y = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    most = 0
    for _, _, phase in phases(window):
        target = (x[0], x[1], 2 * x[2], 2 * x[3])
        found = _filters(phase, batch, outputs, inputs, dtype, y, target, False)
        if found is not None:
            most = max(most, _memory_of_filters(found, False) + 4 * inputs * outputs)
            continue
        plan = _call(phase, batch, outputs, inputs, dtype, y, target, False).plan
        # plus the taps of a phase in another order
        most = max(most, plan.weights + plan.work * (1 if plan.shared else cores()) + 4 * inputs * outputs)
    return most * size


def _memory_of_filters(found: _Filters, sums: bool) -> int:
    """Elements of the tiles, and of the transformed weights of some filters, or of their gradient."""
    if sums:
        return max(call.plan.weights for _, call in found.calls) + max(call.plan.work for _, call in found.calls)
    return max(call.plan.work for _, call in found.calls) + min(cores(), len(found.calls)) * found.own


def input_grad(
    g: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    gx: np.ndarray,
    window: Window,
    finish: Finish | None = None,
) -> np.ndarray:
    """Fill ``gx`` with the input gradient."""
    if window.kernel[-1] == 4:
        return _input_grad_by_phases(g, w, bias, gx, window, finish)
    return _transformed(g, w.transpose(*range(2, w.ndim), 0, 1), bias, gx, turned_window(window), 1, finish)


def _input_grad_by_phases(
    g: np.ndarray, w: np.ndarray, bias: np.ndarray | None, gx: np.ndarray, window: Window, finish: Finish | None
) -> np.ndarray:
    """Fill ``gx`` with the input gradient of a 4x4 kernel at stride 2: F(3x3, 2x2) for each of its four phases."""
    for (down, right), (tap_h, tap_w), phase in phases(window):
        some = w[:, :, tap_h::2, tap_w::2].transpose(2, 3, 0, 1)
        own = None if finish is None else (finish[0][:, :, down::2, right::2], finish[1])
        _transformed(g, some, bias, gx[:, :, down::2, right::2], phase, 1, own)
    return gx


def _transformed(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    y: np.ndarray,
    window: Window,
    turned: int,
    finish: Finish | None = None,
) -> np.ndarray:
    """``w`` is (*R, channels of x, channels of y)."""
    found = _filters(window, x.shape[0], *w.shape[-2:], x.dtype.char, x.strides, y.strides, False)
    if found is not None:
        if not is_planned(x):  # a frozen network keeps the transformed weights of all filters
            return _by_filters(x, w, bias, y, turned, finish, found)
        _ = _some_filters[x.dtype.char]  # a call that is tried to find its kernels will need it
    return _at_once(x, _dense(w), bias, y, window, turned, (y, y) if finish is None else finish)


def _by_filters(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    y: np.ndarray,
    turned: int,
    finish: Finish | None,
    found: _Filters,
) -> np.ndarray:
    """Fill ``y``: each task some filters, whose weights it transforms itself."""
    dtype, by_filter = x.dtype.char, not w.flags.c_contiguous and w.swapaxes(-1, -2).flags.c_contiguous
    plan, zeros = found.calls[0][1][:2]
    tasks, threads = len(found.calls), pool.threads
    work, own = carved(dtype, plan.work, min(tasks, threads) * found.own)
    table, block = per_thread(plan.table, "i8"), plan.blocks[0]
    _transform[dtype](block.inputs * block.lines, x, zeros, work, plan.words, 0, table, plan.table)
    _some_filters[dtype](
        tasks,
        w if by_filter else _dense(w),
        zeros if bias is None else bias,
        y,
        zeros,
        work,
        own,
        found.own,
        tasks < threads,
        found.words,
        w.shape[-1],
        by_filter,
        turned,
        table,
        plan.table,
        *((y, y) if finish is None else finish),
    )
    return y


def _at_once(
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    y: np.ndarray,
    window: Window,
    turned: int,
    finish: Finish,
) -> np.ndarray:
    """Fill ``y``: all filters are transformed together."""
    dtype, depth, columns = x.dtype.char, w.shape[-2], w.shape[-1]
    plan, zeros, taps, width, panels, _, together, step = _call(
        window, x.shape[0], depth, columns, dtype, x.strides, y.strides, False
    )
    transformed, side = aligned(plan.weights, dtype), window.kernel[-1]
    _weights[dtype](taps * depth, w, transformed, depth, columns, columns, width, panels, step, taps, side, turned)
    table = per_thread(plan.table, "i8")
    init = zeros if bias is None else bias
    if not plan.shared:
        work = per_thread(plan.work, dtype)
        _gather[dtype](
            len(plan.parts),
            x,
            transformed,
            init,
            y,
            zeros,
            work,
            plan.work,
            plan.words,
            table,
            plan.table,
            *finish,
        )
        return y
    work = shared(plan.work, dtype)
    for index, block in enumerate(plan.blocks):
        _transform[dtype](block.new_lines, x, zeros, work, plan.words, index, table, plan.table)
        _multiply[dtype](PAIRS // together, transformed, zeros, work, plan.words, index, table, plan.table)
        _transform_back[dtype](
            (block.last - block.first) * block.lines, work, init, y, plan.words, index, table, plan.table, *finish
        )
    return y


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window) -> np.ndarray:
    """The weight gradient in the order of memory (*R, Ci, Co); both tensors have contiguous channels."""
    dtype, depth, columns = x.dtype.char, x.shape[1], g.shape[1]
    gw = np.empty((*window.kernel, depth, columns), x.dtype, like=x)
    filters = _filters(window, x.shape[0], depth, columns, dtype, x.strides, g.strides, True)
    if filters is not None:
        return _sums_by_filters(x, g, gw, filters.calls, window.kernel[-1])
    call = _call(window, x.shape[0], depth, columns, dtype, x.strides, g.strides, True)
    partials, parts = aligned(call.plan.weights, dtype), len(call.plan.parts)
    _add_to(partials, x, g, call, call.plan.weights // parts)
    _weights_back[dtype](
        call.taps * depth,
        partials,
        gw,
        depth,
        columns,
        columns,
        call.weight_step,
        call.step,
        call.taps,
        window.kernel[-1],
        parts,
    )
    return gw


def _sums_by_filters(
    x: np.ndarray, g: np.ndarray, gw: np.ndarray, found: list[tuple[slice, _Call]], side: int
) -> np.ndarray:
    """Fill ``gw``, the gradients of some filters at a time."""
    dtype, depth, columns = x.dtype.char, *gw.shape[-2:]
    sums = aligned(max(call.plan.weights for _, call in found), dtype)
    work = shared(max(call.plan.work for _, call in found), dtype)
    table = per_thread(max(call.plan.table for _, call in found), "i8")
    for part, (plan, zeros, taps, _, _, step, _, pair) in found:
        (block,), some = plan.blocks, gw[..., part]
        lines = block.inputs * block.lines if part.start == 0 else 0  # of x: the others find it transformed
        count = lines + (block.last - block.first) * block.lines
        _transform_both[dtype](count, x, g[:, part], zeros, work, plan.words, 0, lines, table, plan.table)
        _accumulate[dtype](taps * PAIRS, sums, zeros, work, plan.words, 0, table, plan.table)
        _weights_back[dtype](taps * depth, sums, some, depth, columns, some.shape[-1], pair, step, taps, side, 1)
    return gw


def _add_to(partials: np.ndarray, x: np.ndarray, g: np.ndarray, call: _Call, elements: int) -> None:
    """Fill the partial sums of the gradient to the transformed weights, each of ``elements``."""
    dtype, plan, zeros = x.dtype.char, call.plan, call.zeros
    table = per_thread(plan.table, "i8")
    if not plan.shared:
        work = per_thread(plan.work, dtype)
        _weight_grad[dtype](
            len(plan.parts),
            x,
            g,
            partials,
            elements,
            zeros,
            work,
            plan.work,
            plan.words,
            table,
            plan.table,
        )
        return
    work = shared(plan.work, dtype)
    for index, block in enumerate(plan.blocks):
        lines = block.new_lines
        count = lines + (block.last - block.first) * block.lines
        _transform_both[dtype](count, x, g, zeros, work, plan.words, index, lines, table, plan.table)
        _accumulate[dtype](call.taps * PAIRS, partials, zeros, work, plan.words, index, table, plan.table)


def temporary(window: Window, job: str, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory: transformed weights or their partial sums, and blocks of tiles."""
    size, gradient = 4 if dtype == "f" else 8, job == "conv_input_grad"
    x, y = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    if window.kernel[-1] == 4:
        return _temporary_of_phases(window, batch, inputs, outputs, dtype)
    sums = job == "conv_weight_grad"
    if gradient:
        window, inputs, outputs, x, y = turned_window(window), outputs, inputs, y, x
    filters = _filters(window, batch, inputs, outputs, dtype, x, y, sums)
    if filters is not None:
        return _memory_of_filters(filters, sums) * size
    plan = _call(window, batch, inputs, outputs, dtype, x, y, sums).plan
    reordered = inputs * outputs * window.taps if gradient else 0  # weights in another order
    return (plan.weights + plan.work * (1 if plan.shared else cores()) + reordered) * size
