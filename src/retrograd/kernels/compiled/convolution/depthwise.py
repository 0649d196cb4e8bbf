"""Depthwise convolution: the three kernels and the plan of their tasks. Strides are in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import lcm

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel
from ..machine.microkernel import MOST_TASKS, PRODUCT, registers, task_count
from ..machine.record import record
from ..machine.scratch import cores, page_of, per_thread
from ..machine.target import vector_bytes
from ..memory.finish import Finish
from ..memory.layout import fill, usual_strides
from ..memory.packing import zeros_of
from .axes import Axis, three_axes, three_steps
from .direct import add_parts, sum_parts
from .direct_plan import MOST_PARTS, PHASE, WINDOW, groups_of_taps, phases, window_words

# ---- Plans that divide a depthwise convolution (one channel per group) into tasks -----------------------------------

GATHER = record(  # the forward pass and the input gradient
    source=4,
    extent=3,  # of the tensor that is read: strides N, D, H, W, and extents D, H, W
    target=1,  # step of the tensor that is written along N
    channels=1,
    band=1,  # rows that a tile goes down before the next channels
    ahead=1,
    line=1,  # channels to prefetch before they are read, and channels of a cache line
    across=1,  # positions of a tile, at most
    together=1,  # registers of channels that go down a band together
    tasks=1,  # where the tasks begin
    phases=0,  # PHASE of direct_plan.py, without products, the groups of its taps, and then the tasks
)
GATHER_TASK = record(
    phase=1,
    groups=1,
    count=1,
    again=1,  # the tap so many further reads the same row of x for a position of y before
    row_first=1,
    row_last=1,
    channel_first=1,
    channel_last=1,
)
GROUP = record(  # taps at adjacent positions of a row of the kernel
    move=1,  # the first of them along W
    weight=1,
    weight_step=1,  # its weight, from that of the row's first tap, and from one to the next; or its sum
    taps=1,
)
SUMS = record(  # the weight gradient
    window=WINDOW.words,
    channels=1,
    band=1,
    span=1,  # rows, and tiles across, that one block sums up
    ahead=1,
    line=1,
    across=1,
    together=1,
    groups=1,
    count=1,  # where the groups begin
    moves=1,  # where the moves of the taps along H begin
    again=1,  # as in GATHER_TASK
    tasks=1,  # where the tasks begin
    list=0,
)
SUMS_TASK = record(row_first=1, row_last=1)

_SIZE = {"f": 4, "d": 8}  # bytes of an element
# Positions of a tile, and taps that slide over its pixels together: as many as fit the registers. (The sums of the
# weight gradient go through memory.)
GATHER_TILE, SUMS_TILE = (24, 20) if registers() == 32 else (12, 14)
GATHER_TAPS, SUMS_TAPS = (4, 4) if registers() == 32 else (3, 4)
_TASK_WORK = 100_000  # multiply-adds that are worth a separate task
_SMALL_TASK_WORK, _FEW_TASKS = 30_000, 4  # the same for so few tasks: all threads but one would wait for it
_SUMS_WORK = 400_000  # that are worth a partial sum of their own
_BAND, _LEAST_BAND = 128 << 10, 4  # bytes of rows that stay in L2; rows, at least
_LINE = 64  # bytes of a cache line
_AHEAD = 3 * _LINE  # bytes of channels to prefetch, unless both tensors together stay in L3
_NEAR = 11 << 20  # bytes of both
_FAR_TILE = 16  # positions of a tile, at most, where pixels are prefetched: they must stay in L1
_INTERLEAVED = 256 << 10  # bytes that one phase writes before the next
_FEW = 2 * _LINE  # bytes of the channels of a pixel that are not divided: pixels share cache lines
_SUMS = 64 << 10  # bytes of the sums of the channels that go down a band together
_BLOCK = 256  # positions whose products are summed up before they are added to the others


@dataclass(frozen=True, slots=True)
class Depthwise:
    """A plan of one of the three kernels."""

    words: np.ndarray
    tasks: int
    scratch: int  # words per thread
    taps: np.ndarray  # offset of each tap in the weights; none for the weight gradient
    filled: bool = False  # see ``Gather.filled``


def depthwise_plan(
    axes: list[Axis],
    gradient: bool,
    batch: int,
    channels: int,
    size: int,
    source: Sequence[int],
    target: Sequence[int],
    weight_taps: Sequence[int],
) -> Depthwise:
    """Plan of the forward pass, or (``gradient``) of the input gradient. ``size``: bytes of an element."""
    ahead = _ahead(batch * (source[0] + target[0]) * size, channels * size)
    lanes = vector_bytes() // size
    whole = channels // lanes  # registers; the last one, if it is not whole, overlaps the one before
    no_product = np.zeros(PRODUCT.words, np.int64)
    found, taps, filled = phases(axes, gradient, batch, target, weight_taps, lambda pixels: no_product)
    words, tasks, most = [], [], 1
    start = GATHER.words
    # phases write to the same cache lines: in turns, while these are in L2
    least = batch * target[0] * size // _INTERLEAVED if len(found) > 1 else 1
    for phase in found:
        first, kernel = phase.words[PHASE.first_tap], phase.words[PHASE.taps : PHASE.taps + 3]
        moves = phase.words[len(phase.words) - kernel[2] :]
        weights = taps[first : first + len(moves)] if phase.taps else []
        step = int(phase.words[PHASE.source_step + 2])
        moves_h = phase.words[PHASE.moves + kernel[0] :][: kernel[1]]
        again = _again(moves_h.tolist(), int(phase.words[PHASE.source_step + 1]))
        groups = _groups(moves.tolist() if phase.taps else [], weights, step, GATHER_TAPS)
        rows, work = phase.lines, phase.pixels * max(1, phase.taps) * channels
        cuts = min(MOST_TASKS, max(least, task_count(work, _TASK_WORK)))
        if cuts < _FEW_TASKS:
            cuts = max(least, task_count(work, _SMALL_TASK_WORK, _FEW_TASKS))
        across = 1
        if rows < 2 * cuts and rows % cuts != 0 and ahead == 0:
            across = max(1, min(cuts, whole // _least(channels * size)))
        down = max(1, min(rows, -(-cuts // across)))
        for cut, part in product(range(down), range(across)):
            ends = {"row_first": cut * rows // down, "row_last": (cut + 1) * rows // down}
            at = {"phase": start, "groups": start + len(phase.words), "count": len(groups), "again": again}
            first, last = (place * whole // across * lanes for place in (part, part + 1))
            share = {"channel_first": first, "channel_last": channels if part == across - 1 else last}
            tasks.append((cut / down, GATHER_TASK.pack(**at, **ends, **share)))
        words += [phase.words, *groups]
        start += len(phase.words) + len(groups) * GROUP.words
        most = max(most, len(groups) * int(kernel[0] * kernel[1]))
    tasks.sort(key=lambda task: task[0])
    band = min(
        _band(source[2] * (1 if gradient else axes[1].stride) * size),
        max((int(phase.words[PHASE.positions + 1]) for phase in found), default=1),
    )
    packed = GATHER.pack(
        source=source,
        extent=[axis.output if gradient else axis.input for axis in axes],
        target=target[0],
        channels=channels,
        band=band,
        ahead=ahead // size,
        line=_LINE // size,
        together=_together(channels * size, ahead > 0 and not gradient and axes[2].stride > 1),
        across=min(_FAR_TILE, GATHER_TILE) if ahead else GATHER_TILE,
        tasks=start,
        phases=np.concatenate([*words, *(task for _, task in tasks)]) if found else (),
    )
    return Depthwise(packed, len(tasks), page_of(2 * band + 5 * most), np.array(taps or [0], np.int64), filled)


def _band(row: int) -> int:
    """Rows of a band; ``row``: bytes from one to the next."""
    return max(_LEAST_BAND, _BAND // max(1, abs(row)))


def _least(pixel: int) -> int:
    """Registers of channels that share cache lines with others, and so stay in one task."""
    return -(-pixel // vector_bytes()) if pixel <= _FEW else max(1, _LINE // vector_bytes())


def _together(pixel: int, skips: bool) -> int:
    """Registers of channels that go down a band together: all of a pixel, so that memory is read in its order.

    Not with 32 registers, whose larger tiles were not measured so; nor if pixels are prefetched and the tile ``skips``
    some: it takes up to 1.4 times as long then.
    """
    return _least(pixel) if registers() == 32 or skips else -(-pixel // vector_bytes())


def _summed(pixel: int, taps: int, skips: bool) -> int:
    """The same of the weight gradient, whose sums must stay near."""
    return min(_together(pixel, skips), max(_least(pixel), _SUMS // (taps * vector_bytes())))


def _ahead(both: int, pixel: int) -> int:
    """Bytes of channels to prefetch: of a pixel with few of them, all, so that it is the next tile that is read."""
    return 0 if both <= _NEAR else _AHEAD if pixel > _FEW else pixel


def _again(moves: list[int], step: int) -> int:
    """See ``GATHER_TASK``; the moves are evenly spaced."""
    space = moves[1] - moves[0] if len(moves) > 1 else 1
    return lcm(space, step) // space


def _groups(moves: list[int], weights: list[int], step: int, most: int) -> list[np.ndarray]:
    """GROUP of each run of taps whose moves differ by ``step``, cut into parts of at most ``most``."""
    found = []
    for first, *others in groups_of_taps(moves, step, most):
        weight_step = weights[others[0]] - weights[first] if others else 0
        place = {"weight": weights[first] - weights[0], "weight_step": weight_step}
        found.append(GROUP.pack(move=moves[first], **place, taps=1 + len(others)))
    return found


def depthwise_sums_plan(
    axes: list[Axis], batch: int, channels: int, size: int, x: Sequence[int], g: Sequence[int]
) -> Depthwise:
    """Plan of the weight gradient; there is a partial sum for each task."""
    taps = axes[0].kernel * axes[1].kernel * axes[2].kernel
    lines = batch * axes[0].output * axes[1].output
    parts = max(1, min(MOST_PARTS, lines, lines * axes[2].output * taps * channels // _SUMS_WORK))
    tasks = [SUMS_TASK.pack(row_first=i * lines // parts, row_last=(i + 1) * lines // parts) for i in range(parts)]
    last = axes[2]
    moves = [r * last.dilation - last.low for r in range(last.kernel)]
    groups = _groups(moves, list(range(last.kernel)), last.stride, SUMS_TAPS)
    moves_h = np.arange(axes[1].kernel) * axes[1].dilation - axes[1].low
    ahead = _ahead(batch * (x[0] + g[0]) * size, channels * size)
    most = min(_FAR_TILE, SUMS_TILE) if ahead else SUMS_TILE
    across = -(-last.output // most)
    band = min(axes[1].output, _band(x[2] * axes[1].stride * size), max(1, _BLOCK * across // last.output))
    span = min(across, max(1, _BLOCK // (band * most)))
    words = SUMS.pack(
        window=window_words(axes, x, g),
        channels=channels,
        band=band,
        span=span,
        ahead=ahead // size,
        line=_LINE // size,
        across=most,
        together=_summed(channels * size, taps, ahead > 0 and last.stride > 1),
        groups=SUMS.words,
        count=len(groups),
        moves=SUMS.words + len(groups) * GROUP.words,
        again=_again(moves_h.tolist(), axes[1].stride),
        tasks=SUMS.words + len(groups) * GROUP.words + len(moves_h),
        list=np.concatenate([*groups, moves_h, *tasks]),
    )
    entries = len(groups) * axes[0].kernel * axes[1].kernel
    return Depthwise(words, parts, page_of(2 * band + span * (1 + 5 * entries)), np.empty(0, np.int64))


# ---- Depthwise convolution (one input and one output channel per group) ---------------------------------------------

_gather = kernel("convolution.depthwise.gather")
_weight_grad = kernel("convolution.depthwise.weight_grad")


@lru_cache(maxsize=4096)
def _plan(
    window: Window,
    gradient: bool,
    batch: int,
    channels: int,
    dtype: str,
    source: tuple[int, ...],
    target: tuple[int, ...],
) -> Depthwise:
    taps = [0] * (3 - window.ndim) + [channels * step for step in _steps(window.kernel)]
    steps = three_steps(source, dtype), three_steps(target, dtype)
    return depthwise_plan(three_axes(window), gradient, batch, channels, _SIZE[dtype], *steps, taps)


def _steps(extents: tuple[int, ...]) -> list[int]:
    return [int(np.prod(extents[axis + 1 :], dtype=int)) for axis in range(len(extents))]


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
    channels, dtype = source.shape[1], source.dtype.char
    init = zeros_of(channels, dtype) if bias is None else bias
    plan = _plan(window, gradient, source.shape[0], channels, dtype, source.strides, target.strides)
    by_tap = np.ascontiguousarray(w.reshape(channels, -1).T, like=w)  # (taps, C)
    scratch = per_thread(plan.scratch, "i8")
    if plan.filled:
        fill(target, init)
    _gather[dtype](
        plan.tasks,
        source,
        by_tap,
        init,
        target,
        plan.words,
        plan.taps,
        scratch,
        plan.scratch,
        *(finish or (target, target)),
    )
    return target


@lru_cache(maxsize=4096)
def _sums_plan(
    window: Window, batch: int, channels: int, dtype: str, x: tuple[int, ...], g: tuple[int, ...]
) -> Depthwise:
    return depthwise_sums_plan(
        three_axes(window), batch, channels, _SIZE[dtype], three_steps(x, dtype), three_steps(g, dtype)
    )


def weight_grad(x: np.ndarray, g: np.ndarray, window: Window, limit: int | None = None) -> np.ndarray:
    """The weight gradient (taps, C). ``limit``: bytes that its partial sums may take; the bits are the same."""
    channels, dtype = x.shape[1], x.dtype.char
    plan = _sums_plan(window, x.shape[0], channels, dtype, x.strides, g.strides)
    gw = np.empty((window.taps, channels), x.dtype, like=x)
    some = plan.tasks if limit is None else min(plan.tasks, limit // gw.nbytes)
    alone = plan.tasks == 1
    partials = gw if alone else np.empty((some, window.taps, channels), x.dtype, like=x)
    own = _own_sums(window, channels, dtype)
    scratch, sums = per_thread(plan.scratch, "i8"), per_thread(own, dtype)
    if some == plan.tasks:
        _weight_grad[dtype](plan.tasks, x, g, partials, sums, own, plan.words, scratch, plan.scratch)
        return gw if alone else sum_parts(partials, gw)
    for first in range(0, plan.tasks, some):  # one task per part
        count = min(some, plan.tasks - first)
        words = plan.words.copy()
        words[SUMS.tasks] += first * SUMS_TASK.words
        _weight_grad[dtype](count, x, g, partials, sums, own, words, scratch, plan.scratch)
        add_parts(partials[:count], gw, first == 0)
    return gw


def _own_sums(window: Window, channels: int, dtype: str) -> int:
    """Elements per thread, at most, of the sums of the registers of channels that go down a band together."""
    size = _SIZE[dtype]
    return page_of((window.taps * _summed(channels * size, window.taps, False) + 1) * vector_bytes() // size, size)


def temporary(window: Window, job: str, batch: int, inputs: int, outputs: int, dtype: str) -> tuple[int, int]:
    """Bytes of temporary memory, and the least: weights in another order, or partial sums, of which one suffices."""
    size = _SIZE[dtype]
    one = window.taps * inputs * size
    if job != "conv_weight_grad":
        return (0, 0) if window.taps == 1 else (one, one)
    x, g = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    parts, own = _sums_plan(window, batch, inputs, dtype, x, g).tasks, cores() * _own_sums(window, inputs, dtype) * size
    return (parts * one if parts > 1 else 0) + own, (one if parts > 1 else 0) + own
