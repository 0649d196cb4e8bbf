"""Direct convolution by the batch-reduce micro-kernel, for every geometry.

The forward pass and the input gradient gather: each pixel of the result is a sum over the taps. The weight gradient
reduces: partial sums over the lines of the output, which are added in a fixed order.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.scratch import aligned, cores, per_thread
from ..memory.finish import Finish
from ..memory.layout import channels_last, fill, nested_strides, usual_strides
from ..memory.moves import copy
from ..memory.packing import pack_weights, packed_elements, whole_steps, zeros_of
from .axes import merge_window, three_axes, three_strides
from .borders import border_words, correct
from .direct_plan import REDUCE, REDUCE_TASK, Gather, Reduce, gather_plan, is_one_line, reduce_plan

# ---- The partial sums of a weight gradient, one for each part of the work -------------------------------------------

_add_partials = kernel("convolution.direct.add_partials")


def sum_parts(partials: np.ndarray, gw: np.ndarray) -> np.ndarray:
    """Fill ``gw`` with the sum of all partial sums, in their order."""
    chunk = 16384
    _add_partials[gw.dtype.char](-(-gw.size // chunk), partials, gw, gw.size, partials.shape[0], chunk)
    return gw


def add_parts(partials: np.ndarray, gw: np.ndarray, first: bool) -> None:
    """Add some partial sums to ``gw``, in their order; the ``first`` of all begins it."""
    with np.errstate(all="ignore"):
        for at, part in enumerate(partials.reshape(len(partials), *gw.shape)):
            if first and at == 0:
                gw[...] = part
            else:
                np.add(gw, part, out=gw)


# ---- Convolution by the batch-reduce micro-kernel, tap by tap, for every geometry -----------------------------------

_gather = kernel("convolution.direct.gather")
_weight_grad = kernel("convolution.direct.weight_grad")


@lru_cache(maxsize=4096)
def _gather_plan(
    window: Window,
    gradient: bool,
    batch: int,
    w_shape: tuple[int, ...],
    w_strides: tuple[int, ...],
    dtype: str,
    source: tuple[int, ...],
    target: tuple[int, ...],
) -> tuple[Gather, tuple[int, ...], np.ndarray, np.ndarray | None]:
    """The plan, the sizes and steps by which the weights are packed (none: read in place), a row of zeros, and the
    words by which borders are corrected."""
    size, groups = 4 if dtype == "f" else 8, window.groups
    outputs, inputs = w_shape[0] // groups, w_shape[1]
    output_step, input_step, *steps = (stride // size for stride in w_strides)
    depth, columns, depth_step, column_step = (
        (outputs, inputs, output_step, input_step) if gradient else (inputs, outputs, input_step, output_step)
    )
    plan = gather_plan(
        three_axes(window),
        gradient,
        batch,
        groups,
        depth,
        columns,
        dtype,
        three_strides(source),
        three_strides(target),
        [0] * (3 - len(steps)) + steps,
        depth_step,
        column_step,
        outputs * output_step,
    )
    packing = () if plan.given else (depth, columns, depth_step, column_step, groups, outputs * output_step)
    words = border_words(window, gradient, batch, w_shape, w_strides, dtype, source, target)
    return plan, packing, zeros_of(plan.zeros, dtype), words


def dense(bias: np.ndarray | None) -> np.ndarray | None:
    """A contiguous bias."""
    return bias if bias is None or bias.strides == (bias.itemsize,) else np.ascontiguousarray(bias, like=bias)


def gather(
    source: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    target: np.ndarray,
    window: Window,
    gradient: bool,
    finish: Finish | None = None,
) -> np.ndarray:
    """Fill ``target`` with the forward pass or the input gradient.

    Both tensors have contiguous channels, the bias is dense.
    """
    dtype = source.dtype.char
    if not whole_steps(w.strides, w.itemsize):
        w = np.ascontiguousarray(w, like=w)
    plan, packing, zeros, borders = _gather_plan(
        window, gradient, source.shape[0], w.shape, w.strides, dtype, source.strides, target.strides
    )
    weights = pack_weights(w, plan.taps, *packing, shape=plan.shape, looked=plan.looked) if packing else w
    scratch, packed = per_thread(plan.scratch, "i8"), per_thread(plan.packed, dtype)
    init = zeros if bias is None else bias
    if plan.filled:  # positions that no tap reaches; + 0, because their empty sum turns -0 into 0
        fill(target, init[: target.shape[1]] + 0)
    _gather[dtype](
        plan.tasks,
        source,
        weights,
        plan.taps,
        init,
        target,
        zeros,
        packed,
        plan.packed,
        plan.words,
        scratch,
        plan.scratch,
        *(finish or (target, target)),
    )
    if borders is not None:
        correct(borders, source, w, bias, target, finish)
    return target


@lru_cache(maxsize=4096)
def _reduce_plan(
    window: Window,
    batch: int,
    rows: int,
    columns: int,
    dtype: str,
    x: tuple[int, ...],
    g: tuple[int, ...],
    low: int = 0,
    line: int | None = None,
) -> Reduce:
    return reduce_plan(
        three_axes(window), batch, window.groups, rows, columns, dtype, three_strides(x), three_strides(g), low, line
    )


def weight_grad(x: np.ndarray, window: Window, g: np.ndarray, limit: int | None = None) -> np.ndarray:
    """The weight gradient in the order of memory (*R, Ci/groups, Co); both tensors have contiguous channels.

    ``limit``: bytes for the partial sums; fewer at a time, added in the same order, give the same bits.
    """
    groups, taps = window.groups, window.taps
    if is_one_line(window):
        x, g = _spaced(x), _spaced(g)
    rows, columns = x.shape[1] // groups, g.shape[1] // groups
    plan = _reduce_plan(window, x.shape[0], rows, columns, x.dtype.char, x.strides, g.strides)
    gw = np.empty((*window.kernel, rows, g.shape[1]), x.dtype, like=x)
    sums = gw.reshape(taps, rows, groups, columns).transpose(0, 3, 2, 1) if plan.swapped else gw
    _reduced(plan, x, g, sums, limit)
    return gw


def _spaced(x: np.ndarray) -> np.ndarray:
    """``x`` (N, C, ...) if its positions are equally spaced, else a copy."""
    step = x.strides[-1] * x.shape[-1]
    for axis in (*range(x.ndim - 2, 1, -1), 0):
        if x.shape[axis] > 1 and x.strides[axis] != step:
            return channels_last(x)
        step *= x.shape[axis]
    return x


def row_grad(x: np.ndarray, window: Window, g: np.ndarray) -> np.ndarray:
    """As ``weight_grad`` where a row of taps counts as one, see axes.py: (*R', R*Ci, Co). Lines of x are dense."""
    channels, seen = x.shape[1], merge_window(window)
    rows, steps = window.kernel[-1] * channels, (*x.strides[:-1], channels * x.itemsize)
    low, line = window.padding[-1][0] * channels, window.input[-1] * channels
    plan = _reduce_plan(seen, x.shape[0], rows, g.shape[1], x.dtype.char, steps, g.strides, low, line)
    gw = np.empty((*seen.kernel, rows, g.shape[1]), x.dtype, like=x)
    _reduced(plan, x, g, gw, None)
    return gw


def _reduced(plan: Reduce, x: np.ndarray, g: np.ndarray, gw: np.ndarray, limit: int | None) -> None:
    """Fill ``gw``: the weight gradient in the order of the sums, contiguous unless they are swapped."""
    dtype = x.dtype.char
    scratch, zeros = per_thread(plan.scratch, "i8"), zeros_of(plan.zeros, dtype)
    copies = per_thread(plan.copies, dtype)
    some = plan.parts if limit is None else min(plan.parts, (limit - _copied(plan, x.itemsize)) // gw.nbytes)
    if plan.parts == 1 or some == plan.parts:
        in_place = plan.parts == 1 and not plan.swapped
        target = gw if in_place else aligned(plan.parts * gw.size, dtype).reshape(plan.parts, gw.size)
        _weight_grad[dtype](plan.tasks, x, g, target, zeros, copies, plan.copies, plan.words, scratch, plan.scratch)
        if plan.swapped:
            total = sum_parts(target, target[0]) if plan.parts > 1 else target[0]
            copy(gw, total.reshape(gw.shape))
        elif not in_place:
            sum_parts(target, gw)
        return
    partials = np.empty((some, gw.size), x.dtype, like=x)
    pieces = plan.tasks // plan.parts
    for first in range(0, plan.parts, some):
        count = min(some, plan.parts - first)
        words = plan.words.copy()
        words[REDUCE.tasks] += first * pieces * REDUCE_TASK.words
        begin = words[REDUCE.tasks] + REDUCE_TASK.part
        words[begin : begin + count * pieces * REDUCE_TASK.words : REDUCE_TASK.words] -= first
        _weight_grad[dtype](count * pieces, x, g, partials, zeros, copies, plan.copies, words, scratch, plan.scratch)
        add_parts(partials[:count], gw, first == 0)


# ---- Temporary memory, see algorithm.py -----------------------------------------------------------------------------


def gather_bytes(window: Window, batch: int, inputs: int, outputs: int, dtype: str, gradient: bool) -> int:
    """Packed weights of the forward pass or the input gradient, unless they are read in place."""
    size, groups = 4 if dtype == "f" else 8, window.groups
    depth, last = inputs // groups, window.ndim
    w_strides = nested_strides((*window.kernel, depth, outputs), size, (last + 1, last, *range(last)))
    source = usual_strides(batch, inputs, window.input, size)
    target = usual_strides(batch, outputs, window.output, size)
    plan, packing, *_ = _gather_plan(
        window,
        gradient,
        batch,
        (outputs, depth, *window.kernel),
        w_strides,
        dtype,
        *((target, source) if gradient else (source, target)),
    )
    packed = packed_elements(len(plan.taps), packing[0], packing[1], groups, dtype, plan.shape) if packing else 0
    packed += groups * plan.shape.panels * plan.looked
    return (packed + plan.packed * cores()) * size


def weight_grad_bytes(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> tuple[int, int]:
    """All partial sums of the weight gradient, and one of them: the least."""
    size, groups = 4 if dtype == "f" else 8, window.groups
    one = window.taps * inputs // groups * outputs * size
    x, g = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    plan = _reduce_plan(window, batch, inputs // groups, outputs // groups, dtype, x, g)
    copied = _copied(plan, size)
    return (plan.parts * one + copied, one + copied) if plan.parts > 1 or plan.swapped else (copied, copied)


def _copied(plan: Reduce, size: int) -> int:
    """Bytes of the copies of panels and tiles, of all threads."""
    return plan.copies * size * cores()


def row_grad_bytes(window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Partial sums and copied lines of ``row_grad``."""
    size, rows = 4 if dtype == "f" else 8, window.kernel[-1] * inputs
    x, g = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    low, line = window.padding[-1][0] * inputs, window.input[-1] * inputs
    plan = _reduce_plan(merge_window(window), batch, rows, outputs, dtype, x, g, low, line)
    sums = plan.parts * window.taps * inputs * outputs if plan.parts > 1 else 0
    return (sums + plan.copies * cores()) * size
