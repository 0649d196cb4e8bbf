"""Plans of direct convolution: gathers for outputs, reductions for weight gradients.

All strides are in bytes; a convolution in one or two dimensions is one in three with extents of 1. Positions with the
same taps form a phase: all of them in the forward pass, those of one residue modulo the stride in the input gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, prod

import numpy as np

from ....specs.geometry import Window
from ..machine.microkernel import (
    MOST_ROWS,
    PRODUCT,
    ROW_SLOTS,
    SMALL_TASK_WORK,
    TASK_WORK,
    Tile,
    even_product,
    packed_tile,
    panel_cycles,
    registers,
    task_count,
    term_cycles,
    tile,
)
from ..machine.record import record
from ..machine.scratch import page_of
from ..memory.packing import packed_elements
from .axes import LARGE_WEIGHTS, Axis, three_axes

# ---- Plans that divide the forward pass and the input gradient into tasks -------------------------------------------

WALK = record(
    source=4,
    extent=3,  # of the tensor read: strides N, D, H, W, and extents D, H, W
    target=1,  # step of the tensor written along N
)
GATHER = record(
    walk=WALK.words,
    size=1,
    columns=1,
    depth=1,  # bytes of an element; channels per group written and read
    width=1,
    panels=1,  # columns of a panel; panels of a group
    entry_step=1,
    panel_step=1,
    weight_group=1,
    weight_row=1,  # weights: from tap, panel, group, row to the next
    chunks=1,  # 1: a task packs the weights in chunks; 2: it reads them in place
    tap_chunk=1,
    depth_chunk=1,  # taps and channels of a chunk
    summed=1,  # channels of a tap that are summed before they are added to the result; 0: a whole chunk
    depth_step=1,
    column_step=1,
    group_step=1,  # of the weights before they are packed, in elements
    skip=1,  # 1: taps that read only padding are left out
    looked=1,  # where packed weights say of each panel whether they are finite, in elements; 0: not packed
    tasks=1,  # where the tasks begin
    phases=0,  # and then the tasks
)
PHASE = record(
    positions=3,  # how many along D, H, W
    pixels=1,
    source_step=3,  # positions of the source between two positions of the phase
    target_step=3,  # bytes of the target between two positions of the phase
    target=1,  # bytes to its first position
    taps=3,  # how many along D, H, W
    first_tap=1,  # its index among all taps
    product=PRODUCT.words,
    moves=0,  # the offsets of the taps along D, then H, then W
)
GATHER_TASK = record(phase=1, part_first=1, part_last=1, tile_first=1, tile_last=1)  # a part is a panel of a group

_SMALL_WEIGHTS = 1 << 15  # bytes of weights so few that they stay in L1 in any order
_CHUNK = 320 << 10  # bytes of weights that stay in L2 while pixels stream by
# For so few tiles, packing costs more than strided rows of weights: vectors of 64 bytes read more of each.
_STREAMED_TILES, _STREAMED_DEPTH = 9 if registers() == 32 else 4, 128
_ALIASED = 2048  # bytes; rows so far apart share few lines of L1
_ALIASED_ROWS = 8  # rows a multiple of _ALIASED bytes apart that L1 holds
_WAYS, _WAY = 8, 4096  # the lines of a set of an L1 of 32 KB, and bytes after which addresses share a set
_PACKING = 8000  # cycles for packing weights that could be read in place
_PIXELS = 512  # pixels that pay for packing weights a second time
_PIXELS_OF_SHARE = 128  # pixels that pay for it where an odd number of tasks becomes even, for each of the tasks
_ANY = 1 << 62  # no bound
MOST_PHASES = 64  # with more, the target is filled first, and phases without taps are skipped


@dataclass(frozen=True, slots=True)
class Gather:
    """A plan of the forward pass or the input gradient."""

    words: np.ndarray
    tasks: int
    scratch: int  # words per thread
    taps: np.ndarray  # offset of each packed tap in the weights, in elements
    zeros: int  # elements of zero that the kernel reads
    given: bool  # the kernel reads the weights in place
    packed: int  # elements per thread of the weights that a task packs
    filled: bool  # the kernel skips positions that no tap reaches: they already hold the initial row
    shape: Tile  # of the packed weights
    looked: bool  # their panels say whether they are finite


def axis_phases(
    axis: Axis, gradient: bool, filled: bool = False
) -> list[tuple[int, int, int, int, list[tuple[int, int]]]]:
    """Along one axis: (positions, source step, target start, target step, [(source offset, kernel index)]).

    Source offsets rise, so that most pixels that a tap reads are in L1 from the tap before.
    """
    if not gradient:
        return [(axis.output, axis.stride, 0, 1, [(r * axis.dilation - axis.low, r) for r in range(axis.kernel)])]
    count = min(axis.stride, axis.input)
    taps: dict[int, list[tuple[int, int]]] = {} if filled else {residue: [] for residue in range(count)}
    for r in reversed(range(axis.kernel)):
        residue = (r * axis.dilation - axis.low) % axis.stride
        if residue < count:  # of o*stride = i + low - r*dilation
            taps.setdefault(residue, []).append(((residue + axis.low - r * axis.dilation) // axis.stride, r))
    return [
        (-(-(axis.input - residue) // axis.stride), 1, residue, axis.stride, taps[residue]) for residue in sorted(taps)
    ]


def groups_of_taps(moves: Sequence[int], step: int, most: int) -> list[list[int]]:
    """Groups of at most ``most`` taps, by their places in ``moves``, each ``step`` further than the one before."""
    runs: list[list[int]] = []
    for place in sorted(range(len(moves)), key=moves.__getitem__):
        run = next((run for run in runs if moves[run[-1]] + step == moves[place]), None)
        if run is None:
            runs.append([place])
        else:
            run.append(place)
    found = []
    for run in runs:
        parts = -(-len(run) // most)
        found += [run[part * len(run) // parts : (part + 1) * len(run) // parts] for part in range(parts)]
    return found


@dataclass(frozen=True, slots=True)
class Phase:
    """Positions that share their taps."""

    words: np.ndarray
    pixels: int
    lines: int
    tiles: int
    taps: int


def phases(
    axes: list[Axis],
    gradient: bool,
    batch: int,
    target: Sequence[int],
    weight_taps: Sequence[int],
    product_of: Callable[[int], np.ndarray],
    most: int | None = None,
) -> tuple[list[Phase], list[int], bool]:
    """The phases, the offset of every tap in the weights in the order of the phases, and ``Gather.filled``.

    ``product_of``: the words of the product, by its number of rows. ``most`` phases (MOST_PHASES) are listed even
    without taps.
    """
    found: list[Phase] = []
    taps: list[int] = []
    filled = gradient and prod(min(axis.stride, axis.input) for axis in axes) > (MOST_PHASES if most is None else most)
    for phase in product(*(axis_phases(axis, gradient, filled) for axis in axes)):
        positions = [p[0] for p in phase]
        lines = batch * positions[0] * positions[1]
        pixels = lines * positions[2]
        if pixels == 0:
            continue
        lists, tiles = [p[4] for p in phase], product_of(pixels)
        words = PHASE.pack(
            positions=positions,
            pixels=pixels,
            source_step=[p[1] for p in phase],
            target_step=[p[3] * step for p, step in zip(phase, target[1:], strict=True)],
            target=sum(p[2] * step for p, step in zip(phase, target[1:], strict=True)),
            taps=[len(entries) for entries in lists],
            first_tap=len(taps),
            product=tiles,
            moves=[move for entries in lists for move, _ in entries],
        )
        here = [sum(r * s for (_, r), s in zip(tap, weight_taps, strict=True)) for tap in product(*lists)]
        found.append(Phase(words, pixels, lines, int(tiles[PRODUCT.tiles]), len(here)))
        taps += here
    reached = sum(phase.pixels for phase in found)
    return found, taps, filled and reached < batch * prod(axis.input for axis in axes)


def _is_padded(axis: Axis) -> bool:
    return axis.low > 0 or (axis.output - 1) * axis.stride + (axis.kernel - 1) * axis.dilation - axis.low >= axis.input


def gather_plan(
    axes: list[Axis],
    gradient: bool,
    batch: int,
    groups: int,
    depth: int,
    columns: int,
    dtype: str,
    source: Sequence[int],
    target: Sequence[int],
    weight_taps: Sequence[int],
    depth_step: int,
    column_step: int,
    group_step: int,
) -> Gather:
    """Plan of the forward pass, or (``gradient``) of the input gradient.

    ``depth`` and ``columns`` are the channels per group that are read and written; ``source`` and ``target`` the
    strides N, D, H, W in bytes; ``weight_taps`` the strides of the weights along the kernel's axes in elements,
    ``depth_step``, ``column_step`` and ``group_step`` those along the channels. Small weights are read in place if
    possible; large ones are packed by each task, a chunk at a time, so that they stay in L2.
    """
    size = 4 if dtype == "f" else 8
    shape = tile(dtype, "rows", columns)
    kernel = [axis.kernel for axis in axes]
    nested = [weight_taps[2] * kernel[2] * kernel[1], weight_taps[2] * kernel[2], weight_taps[2]]
    even = all(r == 1 or step == expected for r, step, expected in zip(kernel, weight_taps, nested, strict=True))
    weights = kernel[0] * kernel[1] * kernel[2] * depth * shape.panels * shape.width * size
    direct = not gradient and column_step == 1 and depth_step > 0 and even and weights <= _SMALL_WEIGHTS
    rows_held = _ALIASED_ROWS if depth_step * size % _ALIASED == 0 else _ANY
    if registers() == 16:
        rows_held = _WAYS * _WAY // gcd(depth_step * size, _WAY)
    if prod(kernel) * depth > rows_held:
        direct = False
    pixels = batch * axes[0].output * axes[1].output * axes[2].output
    if registers() == 16 and shape.tail < shape.lanes:  # masks of rows in place cost a third
        direct = direct and pixels * weights < TASK_WORK * size
    large = weights > LARGE_WEIGHTS
    # few pixels: a decision by the shape, not by the order of the weights, which must not change the bits
    most_streamed = _STREAMED_TILES * shape.rows // (2 if columns * groups * size % _ALIASED == 0 else 1)
    few = large and not gradient and pixels <= most_streamed
    streamed = few and column_step == 1 and depth_step > 0
    if not large:
        terms = prod(kernel) * depth // (prod(axis.stride for axis in axes) if gradient else 1)
        paired = packed_tile(dtype, "rows", columns, terms)
        saved = panel_cycles(shape, terms) - panel_cycles(paired, terms)
        if paired.paired and (gradient or saved * groups * pixels > _PACKING):  # for any order of the weights
            shape, direct = paired, False
    width, panels = shape.width, shape.panels
    found, taps, filled = phases(
        axes,
        gradient,
        batch,
        target,
        weight_taps,
        lambda pixels: even_product(dtype, "rows", shape, pixels, direct or streamed, shared=True),
    )
    longest = max([1, *(phase.taps for phase in found)])
    extents = [axis.output if gradient else axis.input for axis in axes]
    row_bytes = width * size
    if direct:
        entry_step = weight_taps[2] * size
        if kernel[2] == 1:  # the step of the innermost axis of more than one tap
            entry_step = (weight_taps[1] if kernel[1] > 1 else weight_taps[0]) * size
        steps = entry_step, row_bytes, columns * size, depth_step * size
    else:
        panel_step = len(taps) * depth * row_bytes
        steps = depth * row_bytes, panel_step, panels * panel_step, row_bytes
    depth_chunk = -(-depth // -(-depth * row_bytes // _CHUNK))
    tap_chunk = max(1, _CHUNK // (depth * row_bytes))
    tap_chunk = -(-longest // -(-longest // tap_chunk))
    if streamed:
        tap_chunk, depth_chunk = 1, min(depth, _STREAMED_DEPTH)
    elif few:
        depth_chunk = min(depth, -(-depth_chunk // _STREAMED_DEPTH) * _STREAMED_DEPTH)
    # in an input gradient, every tap must show a weight that is not finite: borders.py
    skip = int(not gradient and _is_padded(axes[0] if kernel[0] > 1 else axes[1]))
    looked = 0 if direct or large else skip * packed_elements(len(taps), depth, columns, groups, dtype, shape)
    tasks = []
    start = GATHER.words
    parts = groups * panels
    group_cuts = 1
    if registers() == 16:  # every tile reads the weights of all groups of a task, from an L2 of 512 KB
        group_cuts = min(groups, 1 << (groups * weights // _CHUNK).bit_length())
    for phase in found:
        work = phase.pixels * max(1, phase.taps) * depth * columns * groups
        target_tasks = task_count(work, TASK_WORK if large else SMALL_TASK_WORK)
        part_cuts = min(parts, target_tasks) if large else group_cuts
        tile_cuts = min(phase.tiles, -(-target_tasks // part_cuts))
        if streamed:
            tile_cuts = min(phase.tiles, 2) if part_cuts % 2 == 1 and target_tasks > 1 else 1
        elif large:
            tile_cuts = max(1, min(tile_cuts, phase.pixels // _PIXELS))
            pieces = part_cuts * tile_cuts * len(found)
            if pieces % 2 == 1 and phase.pixels >= _PIXELS_OF_SHARE * pieces:  # equal shares for two threads
                tile_cuts = min(phase.tiles, tile_cuts + 1)
        for p, t in product(range(part_cuts), range(tile_cuts)):
            task = GATHER_TASK.pack(
                phase=start,
                part_first=p * parts // part_cuts,
                part_last=(p + 1) * parts // part_cuts,
                tile_first=t * phase.tiles // tile_cuts,
                tile_last=(t + 1) * phase.tiles // tile_cuts,
            )
            tasks.append(task)
        start += len(phase.words)
    words = GATHER.pack(
        walk=WALK.pack(source=source, extent=extents, target=target[0]),
        size=size,
        columns=columns,
        depth=depth,
        width=width,
        panels=panels,
        entry_step=steps[0],
        panel_step=steps[1],
        weight_group=steps[2],
        weight_row=steps[3],
        chunks=int(large) + int(streamed),
        tap_chunk=tap_chunk,
        depth_chunk=depth_chunk,
        summed=_STREAMED_DEPTH if few else 0,
        depth_step=depth_step,
        column_step=column_step,
        group_step=group_step,
        skip=skip,
        looked=looked,
        tasks=start,
        phases=np.concatenate([*(phase.words for phase in found), *tasks]) if found else (),
    )
    return Gather(
        words,
        len(tasks),
        page_of((5 + longest) * ROW_SLOTS),
        np.array(taps or [0], np.int64),
        groups * (depth + columns) + width,
        direct or large,
        tap_chunk * depth_chunk * width if large and not streamed else 0,
        filled,
        shape,
        looked > 0,
    )


# ---- Plans that divide the weight gradient into tasks: integers only, made once per shape ---------------------------

WINDOW = record(
    x=4,
    extent=3,  # strides N, D, H, W of x, and its extents D, H, W
    g=4,
    output=3,  # the same of g
    stride=3,
    padding=3,
    dilation=3,
    kernel=3,
)
REDUCE = record(
    window=WINDOW.words,
    x_group=1,
    g_group=1,  # from one group to the next
    size=1,
    width=1,  # bytes of an element; columns of a panel
    rows=1,
    columns=1,  # input and output channels per group, or the other way round
    swapped=1,  # 1: rows are output channels, columns are input channels
    row_step=1,  # of the target, from one row to the next
    partial=1,  # from one partial result to the next
    chunk=1,  # rows of the output summed before the next tile
    product=PRODUCT.words,
    others=PRODUCT.words,  # for a task's first tile, for the others
    first=1,  # 1: for the first tile of the first tap alone
    ahead=1,  # 1: the next chunk is prefetched
    copy=1,
    low=1,
    line=1,  # elements of a line of x with its padding, where lines are copied; zeros in front; of x
    taps=1,  # taps along H whose rows are in one tile
    span=1,
    planes=1,  # then: copies of a plane that are kept, and of how many planes
    merged=1,  # 1: all positions are equally spaced, so that the lines of a chunk are one
    packs=1,  # so many panels of g, and a tile of x, are copied, each as one line; 0: none
    row=1,  # elements of a position of such a tile
    tasks=1,  # where the tasks begin
    list=0,  # the tasks
)
REDUCE_TASK = record(
    part=1,
    group_first=1,
    group_last=1,
    panel_first=1,
    panel_last=1,
    tap_first=1,
    tap_last=1,
    tile_first=1,
    tile_last=1,
    row_first=1,
    row_last=1,
)

MOST_PARTS = 8
_PARTIALS = 448 << 10  # bytes of partial sums besides two
_WORK_OF_BYTE = 24  # multiply-adds that pay for reading a byte of x or g
_FAR, _FAR_WORK = 6 << 20, 16  # bytes of x and g that leave L2 and L3; multiply-adds that pay for prefetching a byte
# bytes of a panel of g that stay in L1, beside rows of x, while all tiles read them; with AVX2, L1 may have only 32 KB
_NEAR = 16 << 10 if registers() == 32 else 8 << 10
# Positions of x a multiple of 512 bytes apart share so few lines of an L1 of 32 KB that the rows of a tile do not stay
# there for all panels; with 256 bytes, they leave no room for g. Then both are copied, if they are read often enough:
# rows for so many panels, so many bytes of panels for so many tiles, and about so many positions at a time.
_APART, _READ_OFTEN, _READ_MORE_OFTEN, _TILES = 256, 6, 10, 8
_COPIED, _POSITIONS, _LONGEST_LINE = 128 << 10, 256, 384
# cycles of a tile of a line besides its terms; of a panel of it; for the launch that transposes sums
_SUM_LINE, _SUM_PANEL, _TURNING = 20, 6, 6000
_LEAST_GAIN = 0.1  # of the estimated time, for which rows and columns are swapped
_MOST_TOGETHER = 9  # taps, one digit of a form of the micro-kernel
SHORT = 16  # lines of fewer positions do not fill the pipeline of a wide tile


@dataclass(frozen=True, slots=True)
class Reduce:
    """A plan of the weight gradient."""

    words: np.ndarray
    tasks: int
    scratch: int
    parts: int
    zeros: int
    copies: int  # elements per thread
    swapped: bool  # the target is (*R, Co/groups, Ci)


def window_words(axes: list[Axis], x: Sequence[int], g: Sequence[int]) -> np.ndarray:
    """The words of ``WINDOW``; x and g are strides."""
    return WINDOW.pack(
        x=x,
        extent=[a.input for a in axes],
        g=g,
        output=[a.output for a in axes],
        stride=[a.stride for a in axes],
        padding=[a.low for a in axes],
        dilation=[a.dilation for a in axes],
        kernel=[a.kernel for a in axes],
    )


def _is_pointwise(axis: Axis) -> bool:
    return axis.kernel == axis.stride == 1 and axis.low == 0 and axis.input == axis.output


def is_one_line(window: Window) -> bool:
    """Whether ``reduce_plan`` takes all positions of x, and of g, for equally spaced ones."""
    return registers() == 16 and all(map(_is_pointwise, three_axes(window)))


def _cuts(
    target_tasks: int, groups: int, panels: int, taps: int, tiles: int, x_bytes: int, g_bytes: int, most: int
) -> tuple[int, int, int, int]:
    """Return into how many ranges to cut groups, panels, taps and tiles: about ``target_tasks`` pieces altogether.

    Every range of panels reads all of x, every range of tiles all of g. There are fewer pieces if that would be
    ``most`` bytes or more.
    """
    of_groups = min(groups, target_tasks)
    found = of_groups, 1, 1, 1
    for pieces in range(2, -(-target_tasks // of_groups) + 1):
        candidates = []
        for of_panels in range(1, min(panels, pieces) + 1):
            of_tiles = min(tiles, -(-pieces // of_panels))
            of_taps = min(taps, -(-pieces // (of_panels * of_tiles)))
            missing = max(0, pieces - of_panels * of_tiles * of_taps)
            candidates.append(
                (missing, x_bytes * of_panels + g_bytes * of_tiles, (of_groups, of_panels, of_taps, of_tiles))
            )
        _, read, cuts = min(candidates)
        if read < most:
            found = cuts
    return found


def _load_bound(shape: Tile, taps: int) -> bool:
    """Whether prefetches of operands that the first tap has read would cost more than they save."""
    return shape.panels == shape.vectors == 1 and taps > 1


def sum_cycles(dtype: str, rows: int, columns: int, line: int, taps: int) -> float:
    """Estimated cycles of a tap for each position of lines of so many, with so many channels as rows and columns."""
    shape = tile(dtype, "sums", columns, 2 if line < SHORT else 4)
    tiles = -(-rows // shape.rows)
    height, found = rows / tiles, tiles * _SUM_LINE / line
    for count, vectors in ((shape.panels - 1, shape.vectors), (1, shape.last_vectors)):
        terms = term_cycles(height, vectors)
        if not _load_bound(shape, taps):  # prefetches
            terms = max(terms, height / 2 + vectors + 1)
        found += count * tiles * (terms + _SUM_PANEL / line)
    return found


def taps_of_tile(dtype: str, rows: int, columns: int, line: int, taps: int) -> int:
    """All taps along H if the rows of all fit one tile, so that g is read once, or one: of rows of merged taps."""
    shape = tile(dtype, "sums", columns, 2 if line < SHORT else 4)
    return taps if shape.panels == 1 and taps * rows <= shape.rows and taps <= _MOST_TOGETHER else 1


@lru_cache(maxsize=4096)
def is_swapped(dtype: str, rows: int, columns: int, line: int, positions: int, taps: int) -> bool:
    """Whether output channels as rows save more than it takes to transpose the sums of a tap."""
    usual, swapped = (sum_cycles(dtype, *shape, line, taps) for shape in ((rows, columns), (columns, rows)))
    return usual - swapped > max(_LEAST_GAIN * usual, (_TURNING + rows * columns) / positions)


def reduce_plan(
    axes: list[Axis],
    batch: int,
    groups: int,
    rows: int,
    columns: int,
    dtype: str,
    x: Sequence[int],
    g: Sequence[int],
    low: int = 0,
    line: int | None = None,
) -> Reduce:
    """Plan of the weight gradient for ``rows`` input and ``columns`` output channels per group, or the other way round.

    ``low``, ``line``: the rows are elements of a line of x, whose length is ``line``; see axes.py.
    """
    size, width = 4 if dtype == "f" else 8, axes[2].output
    lines, taps = batch * axes[0].output * axes[1].output, axes[0].kernel * axes[1].kernel * axes[2].kernel
    of_x, of_g, swapped = rows, columns, line is None and is_swapped(dtype, rows, columns, width, lines * width, taps)
    if swapped:
        rows, columns = columns, rows
    shape = tile(dtype, "sums", columns, 2 if width < SHORT else 4)
    together = 1 if line is None else taps_of_tile(dtype, rows, columns, width, axes[1].kernel)
    rows, taps = rows * together, taps // together
    elements = taps * rows * columns * groups
    work = lines * width * elements
    target_tasks = max(1, min(MOST_PARTS, work // TASK_WORK))
    panel_line = shape.width * size * width
    chunk, packs, merged = max(1, min(lines, _NEAR // panel_line)), 0, 0
    copy = reach = span = planes = 0
    if line is not None:
        reach = (width - 1) * axes[2].stride * x[3] // size + of_x
        copy = reach if low != 0 or reach > line else 0
    if together > 1 and copy > 0:  # the lines that a chunk reads, of each plane of the output that it is part of
        span = (chunk - 1) * axes[1].stride + (axes[1].kernel - 1) * axes[1].dilation + 1
        planes = 1 + -(-(chunk - 1) // axes[1].output)
    # A task's first tile reads its part of g first, which is then in L1. With one panel, every tile reads x first,
    # unless that was copied, or the loads are the limit: then only the first tap prefetches.
    loads = _load_bound(shape, taps)
    near = (shape.panels > 1 or copy > 0 or loads) and chunk * panel_line <= 2 * _NEAR
    words = even_product(dtype, "dense" if together == 1 else f"dense{together}", shape, rows, True)
    tiles = int(words[PRODUCT.tiles])
    if registers() == 16:
        merged = int(line is None and all(map(_is_pointwise, axes)))
        step = (of_g if swapped else of_x * axes[2].stride) * groups * size  # by the shape, as the bits of the result
        often = _READ_OFTEN if step % (2 * _APART if taps == 1 else 4 * _APART) == 0 else _READ_MORE_OFTEN
        if line is None and step % _APART == 0 and shape.panels >= often and tiles >= _TILES and width <= _LONGEST_LINE:
            packs = max(1, _COPIED // (_POSITIONS * shape.width * size))
            words = even_product(dtype, "near", shape, rows)
            chunk = max(1, min(lines, _POSITIONS // width))
    parts, most = 1, min(target_tasks, -(-lines // chunk), 2 + _PARTIALS // (elements * size))
    while elements * size <= LARGE_WEIGHTS and 2 * parts <= most:
        parts *= 2
    row = -(-shape.rows // shape.lanes) * shape.lanes
    if registers() == 16:  # chunks of equal size
        each = -(-lines // parts)
        chunk = -(-each // -(-each // chunk))
    # the rows of adjacent positions overlap in memory if the taps of a kernel row are rows, see axes.py
    x_bytes = lines * width * min(of_x * groups * size, x[3]) * axes[2].stride
    g_bytes = lines * width * of_g * groups * size
    extents, read = (groups, shape.panels, taps, tiles), (g_bytes, x_bytes) if swapped else (x_bytes, g_bytes)
    cuts = _cuts(-(-target_tasks // parts), *extents, *read, work // _WORK_OF_BYTE if parts > 1 else _ANY)
    names = "group", "panel", "tap", "tile", "row"
    tasks = [
        REDUCE_TASK.pack(part=part, **_ranges(names, (*piece, part), (*extents, lines), (*cuts, parts)))
        for part, *piece in product(range(parts), *map(range, cuts))
    ]
    plan = REDUCE.pack(
        window=window_words(axes, x, g),
        x_group=of_x * size,
        g_group=of_g * size,
        size=size,
        width=shape.width,
        rows=rows,
        columns=columns,
        swapped=int(swapped),
        row_step=columns * groups * size,
        partial=elements * size,
        chunk=chunk,
        product=words,
        others=even_product(dtype, "near", shape, rows, True) if near and together == 1 and packs == 0 else words,
        first=int(copy > 0 or loads),
        ahead=int(copy == 0 and together == 1 and x_bytes + g_bytes > _FAR and work > _FAR_WORK * (x_bytes + g_bytes)),
        copy=copy,
        low=low,
        line=line or 0,
        taps=together,
        span=span,
        planes=planes,
        merged=merged,
        packs=packs,
        row=row,
        tasks=REDUCE.words,
        list=np.concatenate(tasks),
    )
    zeros = max(shape.rows, shape.panels * shape.width, reach if together > 1 else 0)
    scratch = page_of(MOST_ROWS + 2 + (1 + together) * chunk + span * planes)
    copied = chunk * width * (packs * shape.width + row) if packs > 0 else max(chunk, span * planes) * copy
    copies = page_of(copied, size)
    return Reduce(plan, len(tasks), scratch, parts, zeros, copies, swapped)


def _ranges(names: Sequence[str], pieces: Sequence[int], extents: Sequence[int], cuts: Sequence[int]) -> dict[str, int]:
    """For each name, the begin and end of its piece, when its extent is cut into ``cuts`` pieces."""
    found = {}
    for name, piece, extent, count in zip(names, pieces, extents, cuts, strict=True):
        found[f"{name}_first"], found[f"{name}_last"] = piece * extent // count, (piece + 1) * extent // count
    return found
