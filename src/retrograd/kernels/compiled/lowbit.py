"""Low-bit codes, filters, and products, exact in int32, and the plan of their tasks.

Pixels, phases and taps are traversed as in ``convolution/direct_plan.py``, through a table of addresses and without a
copy of the input. The border needs more: a tap in the padding reads words of zeros, whose values are not 0. What they
add is known for every set of such taps, and the sums of a pixel start from its negative.

So pixels are divided into classes with the same taps inside the input, and each class has its own row of initial sums.
Along an axis, each of the first ``low`` positions and of those from ``high`` on is a class; all between share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...specs.geometry import Window
from ...specs.low_bit import (
    ELEMENTS,
    Filters,
    Requantized,
    Scaled,
    Thresholded,
    code_dtype,
    codes_of,
    make_filters,
    words_of,
)
from .convolution.axes import Axis, three_axes, three_strides
from .convolution.direct_plan import PHASE, WALK, Phase, phases
from .machine.launch import kernel
from .machine.microkernel import (
    BYTES,
    MOST_TASKS,
    ROW_SLOTS,
    TASK_WORK,
    WORD,
    even_product,
    integer_micro,
    integer_tile,
    offset,
)
from .machine.record import record
from .machine.scratch import aligned, page_of, per_thread
from .memory.layout import CHUNK, channels_last, memory_of, usual_strides

__all__ = ["lowbit_conv", "lowbit_filters", "quantize_codes", "sign_bits"]


# ---- Codes of floating-point numbers: their signs as bits, or small integers ----------------------------------------

_SIGNS, _QUANTIZE = kernel("lowbit.signs"), kernel("lowbit.quantize")


def sign_bits(x: np.ndarray, groups: int = 1) -> np.ndarray:
    x = channels_last(x)
    channels = x.shape[1] // groups
    words = codes_of("binary", channels)
    y = np.empty((*memory_of(x.shape)[:-1], groups * words), np.uint32, like=x)
    if y.size:
        rows, per_task = _rows(x, channels)
        _SIGNS[x.dtype.char](-(-rows // per_task), x, y.view(np.int32), rows, channels, words, per_task)
    return y


def quantize_codes(
    x: np.ndarray,
    scale: float,
    zero_point: int = 0,
    low: int = 0,
    high: int = 255,
    element: str = "int8",
    groups: int = 1,
) -> np.ndarray:
    x = channels_last(x)
    channels, dtype = x.shape[1] // groups, code_dtype(element, low)
    codes = codes_of(element, channels)
    y = np.zeros((*memory_of(x.shape)[:-1], groups * codes), dtype, like=x)
    if y.size:
        rows, per_task = _rows(x, channels)
        _QUANTIZE[x.dtype.char](
            -(-rows // per_task),
            x,
            y.view(np.uint8),
            rows,
            channels,
            codes,
            dtype.itemsize,
            scale,
            zero_point,
            low,
            high,
            per_task,
        )
    return y


def _rows(x: np.ndarray, channels: int) -> tuple[int, int]:
    """The groups of channels of all positions, and how many of them a task computes."""
    return x.size // channels, max(1, 2 * CHUNK // channels)


# ---- Filters in the order in which the micro-kernel reads them ------------------------------------------------------


def lowbit_filters(
    element: str, w: np.ndarray, groups: int, transposed: bool = False, most: int | None = None
) -> Filters:
    return make_filters(element, w, groups, transposed, most, partial(_arranged, element, groups, transposed))


def _arranged(element: str, groups: int, transposed: bool, w: np.ndarray) -> np.ndarray:
    """int32 words of the filters (Co, Ci/G, *R): by tap, and then in panels unless ``transposed``."""
    outputs, channels = len(w) // groups, w.shape[1]
    taps, words = w[0, 0].size, words_of(element, channels)
    codes = np.zeros((len(w), taps, words * ELEMENTS[element]), np.int16 if element == "int16" else np.int8)
    codes[..., :channels] = w.reshape(len(w), channels, taps).swapaxes(1, 2)
    if element == "binary":
        codes = np.packbits(codes > 0, axis=-1, bitorder="little")
    by_tap = codes.view("<i4").reshape(groups, outputs, taps, words).transpose(0, 2, 3, 1)  # (G, taps, words, Co/G)
    columns = integer_tile(outputs).columns
    filled = np.zeros((*by_tap.shape[:-1], columns), np.int32)
    filled[..., :outputs] = by_tap
    return filled if transposed else _in_panels(filled)


def _in_panels(by_tap: np.ndarray) -> np.ndarray:
    """(G, taps, words, columns) -> flat; the columns are whole vectors."""
    columns = by_tap.shape[-1]
    width = integer_tile(columns).width
    firsts = range(0, columns, width)
    panels = [by_tap[group, ..., first : first + width] for group in range(len(by_tap)) for first in firsts]
    return np.concatenate([panel.ravel() for panel in panels])


def in_phases(filters: Filters, taps: tuple[int, ...]) -> np.ndarray:
    """The words in panels with the taps in this order: a transposed convolution has phases, each with some of them."""
    if not filters.transposed:
        return filters.codes
    found = filters.made.get(taps)
    if found is None:
        found = filters.made[taps] = _in_panels(filters.codes[:, list(taps)])
    return found


# ---- Plans that divide products of low-bit operands into tasks: integers only, made once per shape ------------------

PRODUCTS = record(
    walk=WALK.words,
    depth=1,
    columns=1,  # of a group: words read at a position, channels written
    width=1,
    panels=1,  # columns of a panel; panels of a group
    panel_step=1,
    group_step=1,  # bytes of the filters from panel to panel, and from group to group
    start_group=1,
    start_row=1,  # numbers from group to group in a row that sums start from, and from row to row
    target_row=1,
    step=1,  # of the tensor written: bytes of a pixel, bits of a channel
    scale=1,
    bias=1,  # bytes of a number of each; 0: the same for all channels
    in_tile=1,  # 1: the sums become bits outside of the micro-kernel
    tasks=1,
    phases=0,  # each followed by its BORDER, and then the tasks
)
BORDER = record(low=3, high=3, classes=3, first=1)  # the first class among all phases
TASK = record(phase=1, border=1, part_first=1, part_last=1, tile_first=1, tile_last=1)

_NEAR = 256 << 10  # bytes of filters that stay in L2 while pixels stream by


@dataclass(frozen=True, slots=True)
class Products:
    """A plan of products."""

    words: np.ndarray
    tasks: int
    scratch: int  # words per thread
    taps: tuple[int, ...]  # of the filters, in the order of the phases
    inside: np.ndarray  # (classes, taps) float64: 1 where a tap is inside of the input for pixels of the class
    outside: np.ndarray  # for each class, the taps in the padding; other phases have the remaining taps


def products_plan(
    axes: list[Axis],
    transposed: bool,
    batch: int,
    groups: int,
    columns: int,
    element: str,
    words: int,
    source: Sequence[int],
    target: Sequence[int],
    target_row: int,
    result: str,
) -> Products:
    """``columns`` channels of a group are written, ``words`` are read; ``source`` and ``target``: strides N, D, H, W in
    bytes; ``target_row``: bytes of a pixel; ``result`` as in machine/microkernel.py.
    """
    shape = integer_tile(columns)
    kernel, bits = [axis.kernel for axis in axes], result == "t"
    # whole vectors of bits can be stored if they are whole bytes and do not overlap the next group
    in_tile = bits and (shape.lanes % 8 > 0 or (groups > 1 and columns % shape.lanes > 0))
    found, order, _ = phases(
        axes,
        transposed,
        batch,
        target,
        (kernel[1] * kernel[2], kernel[2], 1),
        lambda pixels: even_product("i" if in_tile else result, element, shape, pixels, of=integer_micro),
        most=2**62,
    )
    extents = [axis.output if transposed else axis.input for axis in axes]
    shared = in_tile and (columns % 8 if groups > 1 else shape.panels > 1 and shape.width % 8)
    parts, row = groups * shape.panels, len(order) * words * WORD
    pieces, tasks, start, classes = [], [], PRODUCTS.words, 0
    masks: list[tuple[np.ndarray, np.ndarray]] = []
    for phase in found:
        border, inside, outside = _border(phase, extents, classes, len(order))
        target_tasks = max(
            1, min(MOST_TASKS, phase.pixels * max(1, phase.taps) * words * columns * groups // TASK_WORK)
        )
        near = -(-groups * row * shape.columns // _NEAR)
        part_cuts = 1 if shared else min(parts, max(near, -(-target_tasks // phase.tiles)))
        tile_cuts = min(phase.tiles, -(-target_tasks // part_cuts))
        for p, t in product(range(part_cuts), range(tile_cuts)):
            task = TASK.pack(
                phase=start,
                border=start + len(phase.words),
                part_first=p * parts // part_cuts,
                part_last=(p + 1) * parts // part_cuts,
                tile_first=t * phase.tiles // tile_cuts,
                tile_last=(t + 1) * phase.tiles // tile_cuts,
            )
            tasks.append(task)
        pieces += [phase.words, border]
        masks.append((inside, outside))
        start += len(phase.words) + len(border)
        classes += len(inside)
    number = 8 if result[0] == "d" else 4
    plan = PRODUCTS.pack(
        walk=WALK.pack(source=source, extent=extents, target=target[0]),
        depth=words,
        columns=columns,
        width=shape.width,
        panels=shape.panels,
        panel_step=row * shape.width,
        group_step=row * shape.columns,
        start_group=shape.columns,
        start_row=groups * shape.columns,
        target_row=target_row,
        step=1 if bits else 8 * BYTES[result[0]],
        scale=number,
        bias=0 if result in "bh" else number,
        in_tile=in_tile,
        tasks=start,
        phases=np.concatenate([*pieces, *tasks]) if tasks else (),
    )
    longest = max([1, *(phase.taps for phase in found)])
    scratch = (8 + longest) * ROW_SLOTS + ROW_SLOTS * shape.width * WORD // 8 + 16  # to align it, and to read past it
    both = (np.concatenate(each) for each in zip(*masks, strict=True)) if masks else (np.zeros((0, 0)),) * 2
    return Products(plan, len(tasks), page_of(scratch), tuple(order), *both)


def _border(phase: Phase, extents: list[int], first: int, taps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The BORDER of a phase, and which of all taps are inside and outside of the input, for each of its classes."""
    words, lows, highs, each = phase.words, [], [], []
    moves = PHASE.moves
    for axis, extent in enumerate(extents):
        positions, step = int(words[PHASE.positions + axis]), int(words[PHASE.source_step + axis])
        count = int(words[PHASE.taps + axis])
        reads = words[moves : moves + count]
        moves += count
        low, high = 0, positions
        if count:
            low = min(positions, max(0, -(int(reads.min()) // step)))
            high = max(0, min(positions, -(-(extent - int(reads.max())) // step)))
        if high < low:  # nowhere are all taps inside
            low = high = positions
        one_of_each = [*range(low), *([low] if low < high else []), *range(high, positions)]
        reads = reads + step * np.array(one_of_each)[:, np.newaxis]
        lows.append(low)
        highs.append(high)
        each.append((reads >= 0) & (reads < extent))
    inside = np.einsum("ad,be,cf->abcdef", *(one.astype(np.float64) for one in each))
    classes = [len(one) for one in each]
    begin = int(words[PHASE.first_tap])
    rows, others = np.zeros((2, int(np.prod(classes)), taps))
    rows[:, begin : begin + phase.taps] = inside.reshape(len(rows), phase.taps)
    others[:, begin : begin + phase.taps] = 1 - rows[:, begin : begin + phase.taps]
    return BORDER.pack(low=lows, high=highs, classes=classes, first=first), rows, others


# ---- Convolutions and matrix products of low-bit operands, exact in int32 -------------------------------------------

_products = kernel("lowbit.products")
_MOST_MADE = 64
_SIGNED = 128  # from codes in int8 to those in uint8
_WIDEST = 4 * 64  # bytes of the vectors of a panel


def lowbit_conv(
    x: np.ndarray,
    filters: Filters,
    window: Window,
    then: Scaled | Thresholded | Requantized | None = None,
    zero_point: int = 0,
) -> np.ndarray:
    if x.dtype == np.int8:
        x, zero_point = x.view(np.uint8) ^ _SIGNED, zero_point + _SIGNED
    result, dtype = _result(then)
    plan, memory, row = _plan(
        window, len(x), filters.element, filters.transposed, filters.groups, filters.channels, filters.outputs, result
    )
    if result in _CODES:  # zeros: bits are set one by one, and other codes are 0 beyond the channels
        y = target = (np.zeros if result == "t" or memory[-1] > filters.outputs else np.empty)(memory, dtype)
    else:
        target = aligned(prod(memory), dtype.char).reshape(memory)
        y = target.transpose(0, -1, *range(1, target.ndim - 1))
    if plan.tasks == 0:
        return y
    scale = bias = factor = None
    numbers: np.dtype[Any] = np.dtype(np.float32)
    if isinstance(then, Scaled):
        (scale, bias, factor), numbers = then, dtype
    elif isinstance(then, Thresholded):
        (scale, bias), numbers = then, np.dtype(np.int32)
    elif then is not None:
        scale, bias = then.scale, np.array([then.zero_point, then.low, then.high])
    _products["f"](
        plan.tasks,
        _bytes(x, x.dtype),
        in_phases(filters, plan.taps),
        _starts(plan, filters, window, zero_point, then),
        _zero_bytes(row),
        target.view(np.uint8),
        *(_bytes(one, numbers) for one in (scale, bias, factor)),
        int(factor is not None),
        plan.words,
        per_thread(plan.scratch, "i8"),
        plan.scratch,
    )
    return y


_NOTHING = np.zeros(1, np.uint8)


def _bytes(x: np.ndarray | None, dtype: np.dtype[Any]) -> np.ndarray:
    """The memory of an array of this dtype, made contiguous; a placeholder if there is none."""
    return _NOTHING if x is None else np.ascontiguousarray(x, dtype, like=x).view(np.uint8)


@lru_cache(maxsize=64)
def _zero_bytes(count: int) -> np.ndarray:
    """Words of zeros for a row of the input, and for the widest row of filters."""
    return np.zeros(max(count, _WIDEST), np.uint8)


def _result(then: Scaled | Thresholded | Requantized | None) -> tuple[str, np.dtype[Any]]:
    """The letters of the result that the micro-kernel writes, see machine/microkernel.py, and its dtype."""
    if isinstance(then, Scaled):
        more = ("" if then.factor is None else "k") + ("" if then.bias is None else "b")
        return then.scale.dtype.char + more, then.scale.dtype
    if isinstance(then, Thresholded):
        return "t", code_dtype("binary")
    if isinstance(then, Requantized):
        return "b" if then.element == "int8" else "h", code_dtype(then.element, then.low)
    return "i", np.dtype(np.int32)


_CODES = {"t": "binary", "b": "int8", "h": "int16"}  # the element of results that are codes


@lru_cache(maxsize=1024)
def _plan(
    window: Window, batch: int, element: str, transposed: bool, groups: int, channels: int, outputs: int, result: str
) -> tuple[Products, tuple[int, ...], int]:
    """The plan, the extents of the result in the order of memory, and the bytes of a pixel that is read."""
    words = words_of(element, channels)
    source, target = (window.output, window.input) if transposed else (window.input, window.output)
    last, size = codes_of(_CODES[result], outputs) if result in _CODES else outputs, BYTES.get(result[0], WORD)
    row = groups * words * WORD
    plan = products_plan(
        three_axes(window),
        transposed,
        batch,
        groups,
        outputs // groups,
        element,
        words,
        three_strides(usual_strides(batch, row, source, 1)),
        three_strides(usual_strides(batch, last, target, size)),
        last * size,
        result,
    )
    return plan, (batch, *target, last), row


def _starts(
    plan: Products, filters: Filters, window: Window, zero_point: int, then: Scaled | Thresholded | Requantized | None
) -> np.ndarray:
    """The initial sums for each class of pixels and each channel, int32 [class][group][column], cached in ``filters``.

    start[class, k] = bias[k] + sum over taps of sums[tap, k] * (read if the tap is inside the input, else skipped)

    For binary the number of products is added, too: a product is 1, less 2 where the bits differ.
    """
    bias = then.bias if isinstance(then, Requantized) else None
    key = window, zero_point
    known, rows = filters.made.get(key, (None, None))
    if rows is not None and (bias is None) == (known is None) and (bias is None or np.array_equal(bias, known)):
        return rows
    moved = offset(filters.element)
    read, skipped = {"binary": (0, 1), "int8": (moved - zero_point, moved), "int16": (0, 0)}[filters.element]
    sums = filters.sums[list(plan.taps)]
    start = read * (plan.inside @ sums) + skipped * (plan.outside @ sums)
    if filters.element == "binary":
        start += filters.channels * (plan.inside + plan.outside).sum(axis=1, keepdims=True)
    if bias is not None:
        start += bias
    columns = filters.outputs // filters.groups
    rows = np.zeros((len(start), filters.groups, integer_tile(columns).columns), np.int32)
    rows[..., :columns] = start.astype(np.int64).reshape(len(start), filters.groups, columns)
    if len(filters.made) >= _MOST_MADE:
        filters.made.clear()
    filters.made[key] = None if bias is None else bias.copy(), rows
    return rows
