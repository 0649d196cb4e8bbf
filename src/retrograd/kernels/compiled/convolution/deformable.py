"""Deformable convolution and the plan of its tasks.

Steps are in elements, positions are counted over the whole batch. The positions of the taps are only known at run time:
a task samples x there into *columns*, one row of (taps, channels) for each position, as many rows at a time as fit in
L2 (or within a limit), and multiplies them before it samples the next ones.

Besides the results there are, per thread, the columns of some positions: as few as keep the micro-kernel busy, or as
``workspace`` allows, in bytes (at least those of one position). The results do not depend on their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product as pieces

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import get_num_threads, kernel
from ..machine.microkernel import MOST_ROWS, MOST_TASKS, PRODUCT, ROW_SLOTS, TASK_WORK, even_product, product, tile
from ..machine.record import record
from ..machine.scratch import page_of, per_thread
from ..memory.layout import channels_last, empty
from ..memory.packing import pack_weights, whole_steps, zeros_of
from .axes import WEIGHT
from .direct import sum_parts

__all__ = ["deform_conv", "deform_conv_grad", "deform_conv_weight_grad"]


# ---- Plans that divide a deformable convolution into tasks ----------------------------------------------------------

DEFORM = record(  # shared by the three plans
    x=3,
    extent=2,  # steps N, H, W of x, and its extents H, W
    output=2,
    stride=2,
    offset=4,
    mask=4,  # steps of offset and mask: N, C, H, W
    masked=1,
    taps=1,
    channels=1,
    shared=1,  # channels that share an offset
    groups=1,
    depth=1,
    wide=1,  # groups, and the input and output channels of one
    size=1,  # bytes of an element
    chunk=1,  # rows of columns that are in memory
    rows=1,  # of a tile; the weight gradient's are those of its product
    product=PRODUCT.words,
    block=1,  # channels of a task
    parts=1,  # gradient: how many sums over channels make one of offset; weight gradient: over positions, one of w
    part=1,  # elements of such a partial result
    tap_chunk=1,  # forward: taps whose weights stay in L2
    entries=1,  # forward: products that make one tile: 1, or one for each tap
    tasks=1,  # how many; weight gradient: where they begin
    moves=0,  # where tap r begins: r*dilation - lo, two words each; and then the tasks of the weight gradient
)
TASK = record(part=1, tap_first=1, tap_last=1, low=1, first=1, last=1)  # low: its first channel; its positions

_COLUMNS = 384 << 10  # bytes
_WEIGHTS = 256 << 10  # bytes of packed weights next to them
_LEAST_TILES = 8  # tiles that make reading weights from beyond L2 worthwhile
_LEAST_CHANNELS = 32  # of a block: the positions of its taps are computed again for each block
_ENOUGH = 8  # tasks
_PARTS = 8
_LARGE = 256 << 10  # bytes of a partial sum of gw that would not stay in L2

Steps = Sequence[int]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan of one of the three kernels."""

    words: np.ndarray
    tasks: int
    columns: int  # elements per thread
    scratch: int  # words per thread
    parts: int = 1  # partial sums of what is summed over tasks
    blocks: int = 1  # of channels


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes shared by the three plans."""

    window: Window
    batch: int
    channels: int
    outputs: int
    deformable: int  # groups of channels with their own offsets
    dtype: str
    x: Steps
    offset: Steps
    mask: Steps | None
    limit: int | None  # bytes of columns per thread

    @property
    def size(self) -> int:
        return 4 if self.dtype == "f" else 8

    @property
    def positions(self) -> int:
        height, width = self.window.output
        return self.batch * height * width

    @property
    def work(self) -> int:
        """Multiply-adds of the product."""
        return self.positions * self.window.taps * self.channels * self.outputs // self.window.groups

    def pack(self, product: np.ndarray, after: Sequence[np.ndarray] = (), **values: int) -> np.ndarray:
        """The words of a plan; those that are not given are 0."""
        window, nothing = self.window, dict.fromkeys(("rows", "tap_chunk", "entries", "part"), 0)
        return DEFORM.pack(
            x=(self.x[0], *self.x[2:]),
            extent=window.input,
            output=window.output,
            stride=window.stride,
            offset=self.offset,
            mask=self.mask or (0, 0, 0, 0),
            masked=self.mask is not None,
            taps=window.taps,
            channels=self.channels,
            shared=self.channels // self.deformable,
            groups=window.groups,
            depth=self.channels // window.groups,
            wide=self.outputs // window.groups,
            size=self.size,
            product=product,
            moves=np.concatenate([self.moves(), *after]),
            **{**nothing, **values},
        )

    def moves(self) -> list[int]:
        lows = [low for low, _ in self.window.padding]
        return [
            at * step - low
            for tap in pieces(*map(range, self.window.kernel))
            for at, step, low in zip(tap, self.window.dilation, lows, strict=True)
        ]

    def rows(self, width: int, multiple: int, most: int) -> int:
        """How many of ``most`` rows of ``width`` columns are in memory together: whole tiles, or as many as fit."""
        row = width * self.size
        rows_at_once = max(_LEAST_TILES, _COLUMNS // (row * multiple)) * multiple
        times = max(1, round(most / rows_at_once))  # passes of equal size, none of only a few rows
        rows = -(-most // (times * multiple)) * multiple
        if self.limit is None:
            return rows
        fits = max(1, self.limit // row)
        return min(rows, fits // multiple * multiple or fits)


def forward_plan(sizes: Sizes) -> Plan:
    """Plan of y; a task is a range of positions."""
    window = sizes.window
    depth, wide = sizes.channels // window.groups, sizes.outputs // window.groups
    shape = tile(sizes.dtype, "rows", wide)
    row = window.taps * sizes.channels
    near = row * wide * sizes.size <= _WEIGHTS * window.groups
    least = shape.rows * (1 if near else _LEAST_TILES)
    tasks = max(1, min(MOST_TASKS, sizes.work // TASK_WORK, round(sizes.positions / least)))
    chunk = sizes.rows(row, shape.rows, -(-sizes.positions // tasks))
    entries = 1 if window.groups == 1 else window.taps
    tap_chunk = max(1, min(window.taps, _WEIGHTS // (depth * shape.width * sizes.size)))
    words = sizes.pack(
        product(sizes.dtype, "rows", shape, [shape.rows]),
        chunk=chunk,
        rows=shape.rows,
        block=sizes.channels,
        parts=1,
        tap_chunk=tap_chunk,
        entries=entries,
        tasks=tasks,
    )
    tiles = -(-chunk // shape.rows)
    return Plan(words, tasks, chunk * row, page_of(tiles * (entries + 1) * ROW_SLOTS))


def blocks_of(sizes: Sizes) -> int:
    """The number of blocks of channels of the gradient to x: an image is one task, or several.

    A block consists of whole groups, or lies within one; the same holds for the channels that share an offset.
    """
    channels, groups = sizes.channels, sizes.window.groups
    shared = channels // sizes.deformable
    found = 1
    for blocks in _divisors(channels):
        block = channels // blocks
        fits = (groups == 1 or block % (channels // groups) == 0) and (block % shared == 0 or shared % block == 0)
        if fits and found * sizes.batch < _ENOUGH and block >= _LEAST_CHANNELS:
            found = blocks
    return found


def _divisors(number: int) -> Iterator[int]:
    return (divisor for divisor in range(1, number + 1) if number % divisor == 0)


def grad_plan(sizes: Sizes) -> Plan:
    """Plan of the gradients to x, offset and mask; a task is a block of the channels of an image."""
    window, blocks = sizes.window, blocks_of(sizes)
    block, shared = sizes.channels // blocks, sizes.channels // sizes.deformable
    shape = tile(sizes.dtype, "rows", min(block, sizes.channels // window.groups))
    row = window.taps * block
    chunk = sizes.rows(row, shape.rows, sizes.positions // sizes.batch)
    parts = max(1, shared // block)
    words = sizes.pack(
        product(sizes.dtype, "rows", shape, [shape.rows]),
        chunk=chunk,
        rows=shape.rows,
        block=block,
        parts=parts,
        part=sizes.positions * sizes.deformable * window.taps,
        tasks=sizes.batch * blocks,
    )
    tiles = -(-chunk // shape.rows)
    scratch = page_of(tiles * 2 * ROW_SLOTS)
    return Plan(words, sizes.batch * blocks, chunk * row, scratch, parts, blocks)


def weight_grad_plan(sizes: Sizes) -> Plan:
    """Plan of gw.

    A task is a range of positions, for a partial sum of all of gw; where weights are large, a range of taps and
    channels, for all of the sum.
    """
    window = sizes.window
    depth, wide = sizes.channels // window.groups, sizes.outputs // window.groups
    elements = window.taps * depth * sizes.outputs
    target_tasks = max(1, min(MOST_TASKS, sizes.work // TASK_WORK))
    parts = taps = blocks = 1
    if elements * sizes.size <= _LARGE:
        parts = max(1, min(_PARTS, target_tasks, sizes.positions))
    elif target_tasks > 1:
        taps = min(window.taps, target_tasks)
        each = _divisors(sizes.channels) if window.groups == 1 else _divisors(window.groups)
        blocks = max(
            n for n in each if n == 1 or (sizes.channels // n >= 2 * _LEAST_CHANNELS and taps * n <= target_tasks)
        )
    # The limit does not change how many positions are summed together, and so no bit; with a small one, fewer taps
    # and channels are in memory.
    row = -(-window.taps // taps) * (sizes.channels // blocks)
    free = replace(sizes, limit=None)
    chunk = free.rows(row, 8, min(256, -(-sizes.positions // parts)))
    if sizes.limit is not None:
        each = _divisors(sizes.channels) if window.groups == 1 else _divisors(window.groups)
        cuts = [(n, blocks) for n in range(taps, window.taps)] + [(window.taps, n) for n in each if n >= blocks]
        for taps, blocks in cuts:
            row = -(-window.taps // taps) * (sizes.channels // blocks)
            if chunk * row * sizes.size <= sizes.limit:
                break
    block = sizes.channels // blocks
    rows = min(block, depth)
    shape = tile(sizes.dtype, "dense", wide)
    tasks = [
        TASK.pack(
            part=part,
            tap_first=tap * window.taps // taps,
            tap_last=(tap + 1) * window.taps // taps,
            low=at * block,
            first=part * sizes.positions // parts,
            last=(part + 1) * sizes.positions // parts,
        )
        for part, tap, at in pieces(range(parts), range(taps), range(blocks))
    ]
    words = sizes.pack(
        even_product(sizes.dtype, "dense", shape, rows, True),
        tasks,
        chunk=chunk,
        block=block,
        parts=parts,
        part=elements,
        tasks=DEFORM.moves + 2 * window.taps,
    )
    return Plan(words, len(tasks), chunk * row, page_of(MOST_ROWS + 2), parts, blocks)


# ---- Deformable convolution -----------------------------------------------------------------------------------------

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
    needs_grad: tuple[bool, bool, bool],
    workspace: int | None = None,
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """The gradients of deform_conv to x, offset and mask; None where ``needs_grad`` is False.

    g (N, Co, *O)  ->  (N, Ci, *I), (N, D*R*axes, *O), (N, D*R, *O)
    """
    batch, channels, places = len(x), x.shape[1], needs_grad[1] or needs_grad[2]
    gx = empty((batch, *window.input, channels if needs_grad[0] else 0), x.dtype, x)
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
            int(needs_grad[0]),
            int(places),
        )
        if places and not whole:
            sum_parts(to_offset, goffset)
            sum_parts(to_mask, gmask)
    return gx if needs_grad[0] else None, goffset if needs_grad[1] else None, gmask if needs_grad[2] else None


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
