"""Forward passes and input gradients with few channels: line by line, each term of a sum with an address of its own.

If the channels that are read are few, the products of single taps are too short to fill the pipeline, and a table of
addresses for each tile of pixels costs as much as its products. Here one table serves all positions of a line, and its
entries are terms, pairs of a tap and a channel: the micro-kernel adds their products in one loop. Each task copies the
lines that it reads, with their padding, so that all positions of a line are alike.

If the channels that are written fit one vector, a number that is read serves one multiply-add, and loads are the limit.
Then the entries are groups of up to three taps next to each other: a number is read once for all of them. Two groups of
channels that fill at most half a vector each are computed side by side in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ....specs.geometry import Window
from ..machine.launch import kernel, load
from ..machine.microkernel import SMALL_TASK_WORK, TASK_WORK, Tile, registers, task_count
from ..machine.microkernel import tile as usual_tile
from ..machine.record import record
from ..machine.scratch import cores, page_of, per_thread
from ..memory.finish import Finish
from ..memory.layout import nested_strides, usual_strides
from ..memory.packing import pack_weights, packed_elements, zeros_of
from .axes import LARGE_WEIGHTS, Axis, three_axes, three_strides
from .borders import border_words, correct
from .direct_plan import MOST_PHASES, axis_phases, groups_of_taps

# ---- The micro-kernel -----------------------------------------------------------------------------------------------

# ``C[i, j] (+)= sum over terms t of A_t[i] * B[t, j]``; all arguments are 64-bit integers, steps are in bytes
TERM_ARGUMENTS = (
    "table",  # address of the addresses of A_t[0]
    "terms",  # how many, at least 1
    "move",  # added to the address of every A_t
    "step",  # from A_t[i] to A_t[i+1]
    "b",
    "b_step",  # from B[t, j] to B[t+1, j]
    "c",
    "c_step",  # from C[i, j] to C[i+1, j]
    "tail",  # columns of the last vector that exist, 1..lanes
    "init",  # address of the row that the sum starts from, unless accumulate
    "accumulate",  # 1: the sum starts from zeros, and C is added at the end
    "bounds",  # as in microkernel.py
    "residual",
)
# The same for terms in groups: the A of up to three taps, one after the other, are those of adjacent positions, so that
# each number is read once for all of them; B of tap t is t times b_step further. With one vector of columns.
SLIDE_ARGUMENTS = (
    "table",  # address of the addresses of A[0] of the first tap of each group: all with three taps, with two, with one
    "places",  # address of the offsets of B of the first tap of each group
    "threes",
    "twos",
    "ones",  # how many groups
    "half",  # columns of the first of two groups of channels side by side, 0: one group
    "other",  # bytes from A of the first of them to that of the second
    *TERM_ARGUMENTS[2:],
)
_ROWS_OF_32, _ROWS_OF_16 = (28, 13, 8, 6), (12, 6, 4)  # of the tile with 1, 2, ... vectors of columns
_SLIDING = 3 if registers() == 32 else 2  # taps of a group, at most: their rows of B stay in registers
_MOST_TERMS, _MOST_COPIED = 2048, 1 << 16
BLOCK = 112  # most terms that are summed before they are added to those before, see microkernel.py


@cache
def _micro(dtype: str, rows: int, vectors: int, slide: bool = False, pairs: bool = False) -> int:
    """Address of the micro-kernel for a tile of ``rows`` x ``vectors``, compiled on first use."""
    name = f"{'slide' if slide else 'terms'}{'_pairs' if pairs else ''}_{dtype}_{rows}x{vectors}"

    def compile() -> bytes:
        from ..machine.compiler import emit
        from .narrow_jit import build

        return b"\n" + emit(build(name, dtype, rows, vectors, slide, pairs), name, is_simple=True)

    return load(name, compile)[0]


# ---- The plan -------------------------------------------------------------------------------------------------------

NARROW = record(
    source=3,
    extent=2,  # strides N, D, H of the tensor read in bytes; its extents D, H
    target=3,
    positions=3,  # strides N, D, H of the tensor written in bytes; its extents D, H, W
    period=2,
    step=2,  # along D, H: position q*period + residue reads from q*step on
    size=1,
    groups=1,
    columns=1,  # bytes of an element; groups; channels of one that are written
    depth=1,  # and those of one that are read
    width=1,
    panels=1,
    tail=1,  # columns of a panel; panels; columns of the last vector of the last panel
    panel_step=1,  # bytes from panel to panel of the weights
    source_group=1,  # bytes from group to group of the tensor read
    source_step=1,
    target_step=1,  # bytes from one position of a phase to the next
    begin=1,  # the first element of a line that is read
    copy=1,
    left=1,
    middle=1,
    pitch=1,  # 1: lines are copied, to this many zeros, then elements; elements from one copy to the next
    span=2,  # lines of the tensor read between two that share a copy, along D, H
    most_rows=1,
    half=1,  # columns of the first of two groups side by side, 0: one; then columns and groups are those of pairs
    skip=1,  # 1: rows of taps that read only padding are left out, where taps are in groups
    places=1,  # words from the table of addresses to that of places of the weights
    lines=1,
    tasks=1,  # lines read by one; lines written; tasks that share them
    kinds_h=1,
    kinds=0,  # where the kind of line of each pair of residues begins, and then those
)
KIND = record(
    rows=1,  # lines read
    phases=1,
    fill=1,  # 1: no tap reaches some positions
    list=0,  # the offsets along D, H of the lines read; the phases
)
CUT = record(tiles=1, least=1, extra=1, kernels=2)  # see microkernel.PRODUCT; kernels of least and least + 1 rows
LINE_PHASE = record(
    target=1,  # bytes to its first position
    weights=1,  # bytes to its first term in a panel
    terms=1,
    blocks=1,  # the terms are summed in so many blocks
    whole=CUT.words,
    last=CUT.words,  # of a whole panel, of the last one
    row=1,
    step=1,  # bytes of the weights from one row of taps to the next; from one tap of a group to the next
    groups=3,  # how many have three taps, two, one; none: terms without groups
    runs=1,
    list=0,  # contiguous terms of a line read: the first element, and how many; or of groups: bytes to its weights
)


@dataclass(frozen=True, slots=True)
class Narrow:
    """The plan of a forward pass or an input gradient."""

    words: np.ndarray
    shape: Tile
    taps: np.ndarray  # offset of each packed tap in the weights, in elements
    zeros: int
    copies: int  # elements per thread
    scratch: int  # words per thread
    cycles: float  # estimated time
    pairs: bool  # two groups are side by side


def _cut(dtype: str, positions: int, vectors: int, slide: bool, pairs: bool = False) -> np.ndarray:
    tiles = -(-positions // _most_rows()[vectors - 1])
    least, extra = divmod(positions, tiles)
    kernels = [_micro(dtype, rows, vectors, slide, pairs) for rows in (least, least + 1)[: 2 if extra else 1]]
    return CUT.pack(tiles=tiles, least=least, extra=extra, kernels=[*kernels, 0][:2])


def _most_rows() -> tuple[int, ...]:
    return _ROWS_OF_32 if registers() == 32 else _ROWS_OF_16


# Cycles: of a tile besides its terms, and if it is of two groups, whose rows are apart; of a line besides its tiles;
# of an entry of its table; of a vector of positions that no tap reaches; of a vector of the weights; factor for lines
# and a panel of the weights that do not fit L1, whose bytes follow.
_TILE, _TILE_OF_PAIRS, _LINE, _ENTRY, _FILL, _WEIGHT, _FAR, _NEAR = 30, 350, 60, 0.6, 2, 0.7, 1.08, 40 << 10
_LINE_STEP = 16  # copies of lines begin at multiples of so many elements


def _cycles(positions: int, vectors: int, terms: float, taps: float = 1, pairs: bool = False) -> float:
    """Cycles of a panel of a line: two multiply-adds or loads in each, and a sum waits four for the term before.

    ``taps``: of a group of terms that share loads, on average.
    """
    tiles = -(-positions // _most_rows()[vectors - 1])
    rows = positions / tiles
    loads = ((rows + taps - 1) * (2 if pairs else 1) + taps * vectors + 1) / taps
    return tiles * (terms * max(rows * vectors / 2, loads / 2, 4) + (_TILE_OF_PAIRS if pairs else _TILE))


def _cycles_of_panels(shape: Tile, positions: int, terms: int, taps: float = 1, pairs: bool = False) -> float:
    whole, last = (_cycles(positions, vectors, terms, taps, pairs) for vectors in (shape.vectors, shape.last_vectors))
    return (shape.panels - 1) * whole + last


def _shape(dtype: str, columns: int, positions: int, terms: int) -> Tile:
    """The panels for which a line takes the fewest cycles."""
    lanes = usual_tile(dtype, "line", 1).lanes
    widest = min(-(-columns // lanes), len(_most_rows()))
    shapes = [Tile(_most_rows()[vectors - 1], vectors, lanes, columns) for vectors in range(widest, 0, -1)]
    return min(shapes, key=lambda shape: _cycles_of_panels(shape, positions, terms))


def narrow_plan(
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
) -> Narrow:
    """The plan of the forward pass, or (``gradient``) of the input gradient; see ``direct_plan.gather_plan``."""
    size, channels = 4 if dtype == "f" else 8, groups * depth
    along_d, along_h, along_w = (axis_phases(axis, gradient) for axis in axes)
    for *_, taps_of_phase in along_w:
        taps_of_phase.sort()
    inputs = [axis.output if gradient else axis.input for axis in axes]
    outputs = [axis.input if gradient else axis.output for axis in axes]
    moves = [[move for *_, taps in phases for move, _ in taps] or [0] for phases in (along_d, along_h, along_w)]
    begin = min(moves[2])
    ends = [(count - 1) * step + 1 + max((move for move, _ in taps), default=0) for count, step, *_, taps in along_w]
    reach = max(ends) - begin  # positions of a line that are read, from ``begin`` on
    first, left = max(0, begin), max(0, -begin)
    middle = max(0, min(inputs[2], begin + reach) - first)
    copy = begin < 0 or begin + reach > inputs[2]
    pitch = -(-max(reach, left + middle) * channels // _LINE_STEP) * _LINE_STEP
    span = [max(move) - min(move) + 1 for move in moves[:2]]
    lists = [[taps for *_, taps in phases] for phases in (along_d, along_h)]
    most_rows = max(len(d) * len(h) for d, h in product(*lists))
    most_terms = depth * most_rows * max(len(taps) for *_, taps in along_w)
    source_group, half = depth * size, 0
    if groups % 2 == 0 and 2 * columns <= usual_tile(dtype, "line", 1).lanes and registers() == 32:
        gathered = [_sliding(of_w, along_w[0][1]) for *_, of_w in along_w if of_w]
        if gathered and all(gathered):
            groups, columns, half = groups // 2, 2 * columns, columns
    shape = _shape(dtype, columns, max(count for count, *_ in along_w), max(1, most_terms))
    kinds: list[np.ndarray] = []
    taps: list[int] = []
    cycles = 0.0
    for of_d, of_h in product(*lists):
        rows = list(product(of_d, of_h))
        phases: list[np.ndarray] = []
        for count, _, start, _, of_w in along_w:
            if not rows or not of_w:
                cycles += count * -(-groups * columns // shape.lanes) * _FILL
                continue
            terms = len(rows) * len(of_w) * depth
            step = along_w[0][1]
            moves_w = [move for move, _ in of_w]
            sliding = _sliding(of_w, step) if columns <= shape.lanes else []
            row = len(of_w) * depth * shape.width * size
            phases.append(
                LINE_PHASE.pack(
                    target=start * target[3],
                    weights=len(taps) * depth * shape.width * size,
                    terms=terms,
                    blocks=-(-terms // BLOCK),
                    whole=_cut(dtype, count, shape.vectors, False) if shape.panels > 1 else [0] * CUT.words,
                    last=_cut(dtype, count, shape.last_vectors, bool(sliding), half > 0),
                    row=row,
                    step=(sliding[0][1] - sliding[0][0]) * row // len(of_w) if sliding else 0,
                    groups=[sum(len(group) == taps for group in sliding) for taps in (3, 2, 1)],
                    **_runs([(move - begin) * channels for move in moves_w], depth, sliding, row // len(of_w)),
                )
            )
            taps += [
                a * weight_taps[0] + b * weight_taps[1] + c * weight_taps[2] for (_, a), (_, b) in rows for _, c in of_w
            ]
            shared = len(of_w) / len(sliding) if sliding else 1
            cycles += groups * _cycles_of_panels(shape, count, terms, shared, half > 0) + _ENTRY * terms
            panels = groups * shape.panels
            if panels > 1 and terms * groups * columns * size > _NEAR // 2:  # they are read again for every line
                cycles += _WEIGHT * panels * shape.vectors * terms
        lines_read = np.array([(d, h) for (d, _), (h, _) in rows], np.int64).reshape(-1)
        fill = int(len(phases) < len(along_w))
        kinds.append(
            KIND.pack(rows=len(rows), phases=len(phases), fill=fill, list=np.concatenate([lines_read, *phases]))
        )
    lines, slots = batch * outputs[0] * outputs[1], span[0] * span[1]
    work = lines * outputs[2] * len(taps) // len(kinds) * channels * columns
    starts = np.cumsum([NARROW.words + len(kinds), *(len(kind) for kind in kinds)])[:-1]
    words = NARROW.pack(
        source=source[:3],
        extent=inputs[:2],
        target=target[:3],
        positions=outputs,
        period=[axis.stride if gradient else 1 for axis in axes[:2]],
        step=[1 if gradient else axis.stride for axis in axes[:2]],
        size=size,
        groups=groups,
        columns=columns,
        depth=depth,
        width=shape.width,
        panels=shape.panels,
        tail=shape.tail,
        panel_step=len(taps) * depth * shape.width * size,
        source_group=source_group if half == 0 else 2 * source_group,
        source_step=along_w[0][1] * channels * size,
        target_step=along_w[0][3] * target[3],
        begin=first * channels,
        copy=int(copy),
        left=left * channels,
        middle=middle * channels,
        pitch=pitch,
        span=span,
        half=half,
        most_rows=most_rows,
        skip=int(not gradient),  # in an input gradient, every tap must show a weight that is not finite: borders.py
        places=-(-most_terms // 8) * 8 + 8,
        lines=lines,
        tasks=task_count(work, TASK_WORK if copy else SMALL_TASK_WORK, lines),
        kinds_h=len(along_h),
        kinds=np.concatenate([starts, *kinds]),
    )
    far = (slots * pitch + most_terms * shape.width) * size > _NEAR
    return Narrow(
        words,
        shape,
        np.array(taps or [0], np.int64),
        max(groups * columns, pitch, inputs[2] * channels),
        page_of(slots * pitch, size) if copy else 0,
        page_of(sum(-(-count // 8) * 8 + 8 for count in (slots, most_rows, most_terms, most_terms))),
        lines * (cycles / len(kinds) + _LINE) * (_FAR if far else 1),
        half > 0,
    )


def _sliding(taps: list[tuple[int, int]], step: int) -> list[list[int]]:
    """The groups of taps of a phase next to each other, large ones first; none if there is only one tap in each."""
    found = groups_of_taps([move for move, _ in taps], step, _SLIDING)
    return [] if len(found) == len(taps) else sorted(found, key=lambda group: -len(group))


def _runs(begins: Sequence[int], depth: int, sliding: list[list[int]], tap: int) -> dict[str, Any]:
    """The terms of the taps of a line, ``depth`` from each of these elements on: contiguous ones together.

    ``sliding``: the groups of taps, if there are any; ``tap``: bytes of the weights of one.
    """
    if sliding:
        words = [word for place, *_ in sliding for word in (begins[place], place * tap)]
        return {"runs": len(sliding), "list": words}
    runs: list[list[int]] = []
    for begin in begins:
        if runs and begin == sum(runs[-1]):
            runs[-1][1] += depth
        else:
            runs.append([begin, depth])
    return {"runs": len(runs), "list": [word for run in runs for word in run]}


# ---- Forward passes and input gradients with few channels -----------------------------------------------------------

_conv = kernel("convolution.narrow.conv")


@dataclass(frozen=True, slots=True)
class Packing:
    """The arguments of ``pack_weights``; ``first``: w is first copied to (*R, channels read, groups, written)."""

    steps: tuple[int, int, int, int, int, int]
    first: bool


@lru_cache(maxsize=4096)
def _plan(
    window: Window,
    gradient: bool,
    batch: int,
    w_shape: tuple[int, ...],
    w_strides: tuple[int, ...],
    dtype: str,
    source: tuple[int, ...],
    target: tuple[int, ...],
) -> tuple[Narrow, Packing | None, np.ndarray, np.ndarray | None]:
    """The plan, how the weights are packed (none: read in place), a line of zeros, and how borders are corrected."""
    size = 4 if dtype == "f" else 8
    output_step, input_step, *steps = (stride // size for stride in w_strides)
    groups = window.groups
    outputs, inputs = w_shape[0] // groups, w_shape[1]
    group_step = outputs * output_step
    depth, columns, depth_step, column_step = (
        (outputs, inputs, output_step, input_step) if gradient else (inputs, outputs, input_step, output_step)
    )

    def planned(steps: Sequence[int]) -> Narrow:
        return narrow_plan(
            three_axes(window),
            gradient,
            batch,
            groups,
            depth,
            columns,
            dtype,
            three_strides(source),
            three_strides(target),
            [0] * (3 - len(steps)) + [*steps],
        )

    plan = planned(steps)
    first = plan.pairs and group_step != columns * column_step
    if first:
        depth_step, column_step, group_step = groups * columns, 1, columns
        plan = planned(_nested(window.kernel, depth * depth_step))
    given = groups == column_step == 1 and columns == depth_step == plan.shape.width
    given = given and plan.taps.tolist() == [tap * depth * columns for tap in range(len(plan.taps))]
    together = 2 if plan.pairs else 1
    packing = depth, together * columns, depth_step, column_step, groups // together, together * group_step
    words = border_words(window, gradient, batch, w_shape, w_strides, dtype, source, target)
    return plan, None if given else Packing(packing, first), zeros_of(plan.zeros, dtype), words


def _nested(kernel: tuple[int, ...], last: int) -> list[int]:
    """Strides of a contiguous array (*kernel, ``last``), in elements."""
    return [prod(kernel[axis + 1 :]) * last for axis in range(len(kernel))]


def _groups_inside(w: np.ndarray, groups: int) -> np.ndarray:
    """w as a contiguous array (*R, Co/groups, groups, Ci/groups)."""
    split = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    return np.ascontiguousarray(split.transpose(*range(3, split.ndim), 1, 0, 2), like=w)


def gather(
    source: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray | None,
    target: np.ndarray,
    window: Window,
    gradient: bool,
    finish: Finish | None = None,
) -> np.ndarray:
    """Fill ``target``, channels-last, with the forward pass or the input gradient; lines of the source are dense."""
    dtype, channels = source.dtype.char, source.shape[1]
    strides = (*source.strides[:-1], channels * source.itemsize)  # (of an axis with one element may be any)
    plan, packing, zeros, borders = _plan(
        window, gradient, source.shape[0], w.shape, w.strides, dtype, strides, target.strides
    )
    weights = w
    if packing:
        ordered = _groups_inside(w, window.groups) if packing.first else w
        weights = pack_weights(ordered, plan.taps, *packing.steps, shape=plan.shape)
    scratch, copies = per_thread(plan.scratch, "i8"), per_thread(plan.copies, dtype)
    init = zeros if bias is None else bias
    tasks = int(plan.words[NARROW.tasks])
    _conv[dtype](
        tasks,
        source,
        weights,
        init,
        target,
        zeros,
        copies,
        plan.copies,
        plan.words,
        scratch,
        plan.scratch,
        *(finish or (target, target)),
    )
    if borders is not None:
        correct(borders, source, w, bias, target, finish)
    return target


def _usual(
    window: Window, gradient: bool, batch: int, inputs: int, outputs: int, dtype: str
) -> tuple[Narrow, Packing | None]:
    """The plan for operands in the usual order, and how weights are packed."""
    size, last = 4 if dtype == "f" else 8, window.ndim
    depth = inputs // window.groups
    w_strides = nested_strides((*window.kernel, depth, outputs), size, (last + 1, last, *range(last)))
    x, y = usual_strides(batch, inputs, window.input, size), usual_strides(batch, outputs, window.output, size)
    ends = (y, x) if gradient else (x, y)
    plan, packing, *_ = _plan(window, gradient, batch, (outputs, depth, *window.kernel), w_strides, dtype, *ends)
    return plan, packing


def applies(window: Window, gradient: bool, inputs: int, outputs: int, dtype: str) -> bool:
    """Whether tables and copied lines of this form have a moderate size."""
    channels, extents = (outputs, window.output) if gradient else (inputs, window.input)
    copied = prod((r - 1) * d + 1 for r, d in zip(window.kernel[:-1], window.dilation[:-1], strict=True))
    line = channels * (extents[-1] + (window.kernel[-1] - 1) * window.dilation[-1])
    return (
        window.taps * channels // window.groups <= _MOST_TERMS
        and window.taps * inputs // window.groups * outputs * (4 if dtype == "f" else 8) <= LARGE_WEIGHTS
        and copied * line <= _MOST_COPIED
        and (not gradient or prod(window.stride) <= MOST_PHASES)
    )


def cycles(window: Window, gradient: bool, batch: int, inputs: int, outputs: int, dtype: str) -> float:
    """The estimated time for operands in the usual order."""
    return _usual(window, gradient, batch, inputs, outputs, dtype)[0].cycles


def temporary(window: Window, gradient: bool, batch: int, inputs: int, outputs: int, dtype: str) -> int:
    """Bytes of temporary memory: packed weights, and copied lines."""
    plan, packing = _usual(window, gradient, batch, inputs, outputs, dtype)
    elements = 0
    if packing is not None:
        depth, columns, _, _, groups, _ = packing.steps
        elements = packed_elements(len(plan.taps), depth, columns, groups, dtype, plan.shape)
        elements += inputs * outputs // window.groups * window.taps if packing.first else 0
    return (elements + plan.copies * cores()) * (4 if dtype == "f" else 8)
