"""Choice of the convolution algorithm by a cost model and a workspace limit.

The workspace counts the arrays that a form allocates besides its result, for operands in the library's memory order:
transformed, packed or copied weights and tiles, and partial sums; arrays of each thread count once per core. It does
not count tables of some kilobytes, and copies of operands in another order.

A limit changes bits only if another form is chosen: partial sums are computed one after another and added in order, all
other arrays are allocated whole.

Costs are estimated cycles of one core: of an algorithm's products, of the values that it transforms or copies, and of
what it reads from memory, with constants measured on processors with vectors of 32 and 64 bytes. No other file chooses:
``choose`` decides for a call, ``passages`` describes the choice for ``conv_plan``.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import ceil, prod
from typing import NamedTuple

from ....specs.convolution_options import Options, suits
from ....specs.geometry import Window
from ..machine.microkernel import Tile, dot_tile, packed_tile, registers, tile
from ..machine.microkernel import term_cycles as _term
from . import axes, borders, depthwise, direct, fold, narrow, planar, rowwise, winograd
from .direct_plan import SHORT, is_swapped, sum_cycles, taps_of_tile
from .winograd_plan import PAIRS, POINTS_OF_TWO, TERMS, blocks_of, partial_sums, points_along

# ---- The temporary memory of the forms of a convolution, and the choice of one that fits a limit --------------------

JOBS = ("conv", "conv_input_grad", "conv_weight_grad")


@lru_cache(maxsize=4096)
def temporary(
    form: str, job: str, window: Window, batch: int, inputs: int, outputs: int, dtype: str
) -> tuple[int, int]:
    """Bytes that a form uses without a limit, and the least that it needs."""
    shape = batch, inputs, outputs, dtype
    sums = job == "conv_weight_grad"
    if form == "winograd":
        found = winograd.temporary(window, job, *shape)
    elif form == "planar":
        found = planar.temporary(window, job, *shape)
    elif form == "fold":
        found = fold.temporary(window, *shape)
    elif form == "narrow":
        found = (
            direct.row_grad_bytes(window, *shape)
            if sums
            else narrow.temporary(window, job == "conv_input_grad", *shape)
        )
    elif form == "line":
        ends = (inputs, outputs) if job == "conv" else (outputs, inputs)
        found = rowwise.pointwise_bytes(batch * prod(window.input), *ends, dtype)
    elif form == "depthwise":
        return depthwise.temporary(window, job, *shape)
    elif sums:
        return direct.weight_grad_bytes(window, *shape)
    else:
        found = direct.gather_bytes(window, *shape, job == "conv_input_grad")
    if sums and form in ("planar", "narrow"):  # if numbers are not finite, the direct form runs as well
        most, least = direct.weight_grad_bytes(window, *shape)
        return max(found, most), max(found, least)
    return found, found


def within(
    limit: int,
    algorithm: str,
    forms: dict[str, tuple[str, ...]],
    job: str,
    window: Window,
    batch: int,
    inputs: int,
    outputs: int,
    dtype: str,
) -> str:
    """The first of the forms of a job whose memory fits the limit; ``forms`` has those of all three.

    ``algorithm``: the requested algorithm, for the message.

    Raises:
        ValueError: for one of the three jobs no form fits. All are checked, so that a limit accepted by the forward
            pass suffices for the gradients, too.
    """
    shape = batch, inputs, outputs, dtype
    least = max(min(temporary(form, each, window, *shape)[1] for form in forms[each]) for each in JOBS)
    if limit < least:
        megabytes = ceil(least / 2**20 * 1e4) / 1e4
        raise ValueError(
            f"{job}: workspace={limit} bytes is too little for algorithm={algorithm!r}: this convolution and "
            f"its gradients take at least {least} bytes ({megabytes:.4f} MB); give that, or None for no limit"
        )
    return next(form for form in forms[job] if temporary(form, job, window, *shape)[1] <= limit)


def bytes_used(
    form: str, limit: int | None, job: str, window: Window, batch: int, inputs: int, outputs: int, dtype: str
) -> int:
    """Bytes that a form uses within a limit, or without one."""
    most, least = temporary(form, job, window, batch, inputs, outputs, dtype)
    if limit is None or most <= limit:
        return most
    if form not in ("direct", "depthwise"):
        return least
    size = 4 if dtype == "f" else 8
    each = least if form == "depthwise" else window.taps * inputs // window.groups * outputs * size
    return least + max(0, limit - least) // each * each


# ---- Choice of the algorithm for a convolution ----------------------------------------------------------------------

_GAIN = 0.95  # the transforms must save a twentieth: they are less accurate
# measured with 16 registers and an L2 of 512 KB, against the other forms; not in weight gradients, which are all slower
_OF_FEW_REGISTERS = 1.25


@lru_cache(maxsize=4096)
def costs(
    window: Window, batch: int, inputs: int, outputs: int, dtype: str, job: str = "conv", dense: bool = True
) -> dict[str, float]:
    """The algorithms that can compute a job of a convolution, and the estimated cycles of one core that each takes."""
    name = next(name for name in ("depthwise", "pointwise", "direct") if suits(name, window, inputs, outputs))
    if name == "depthwise":
        vectors = -(-inputs // tile(dtype, "rows", 1).lanes)
        found = {name: batch * prod(window.output) * window.taps * vectors / 2}
    else:
        found = {name: min(_direct_forms(job, window, batch, inputs, outputs, dtype, dense).values())}
    if winograd.can(window) or (job == "conv_input_grad" and winograd.can_by_phases(window)):
        found["winograd"] = _winograd_cycles(job, window, batch, inputs, outputs, dtype)
    return found


@lru_cache(maxsize=4096)
def choose(
    job: str, window: Window, options: Options, batch: int, inputs: int, outputs: int, dtype: str, dense: bool = True
) -> str:
    """The algorithm of a job, or the form of the direct one: "planar", "narrow", "fold" or "line".

    ``dense``: the tensor that is read is dense and channels-last, as the library's own are; "line" needs that.

    Raises:
        ValueError: the algorithm of ``options`` cannot compute it, or their limit of memory is too small.
    """
    shape = batch, inputs, outputs, dtype
    if options.workspace is None:
        return forms(job, window, options.algorithm, *shape, dense)[0]
    found = {each: forms(each, window, options.algorithm, *shape, dense) for each in JOBS}
    return within(options.workspace, options.algorithm, found, job, window, *shape)


def forms(
    job: str, window: Window, forced: str, batch: int, inputs: int, outputs: int, dtype: str, dense: bool = True
) -> tuple[str, ...]:
    """The forms that can compute a job, the best first; the others are for memory limits that it exceeds.

    Raises:
        ValueError: the algorithm ``forced``, one of ``options.ALGORITHMS``, cannot compute it.
    """
    found = costs(window, batch, inputs, outputs, dtype, job, dense)
    plain = next(iter(found))
    if forced == "winograd" and job != "conv_input_grad" and winograd.can_by_phases(window):
        forced = "exact"  # with 4x4 taps, the transforms compute only the input gradient
    if forced not in ("auto", "exact", "direct", *found):
        raise ValueError(
            f"{job}: algorithm={forced!r} cannot compute this convolution; choose one of {', '.join(sorted(found))}, "
            f"'direct' or 'auto' (kernel {window.kernel}, stride {window.stride}, dilation {window.dilation}, "
            f"groups {window.groups}, channels {inputs} to {outputs}, output {window.output})"
        )
    if forced == "winograd":
        return ("winograd",)
    if plain == "depthwise":
        return ("depthwise",)
    direct = _direct_forms(job, window, batch, inputs, outputs, dtype, dense)
    best = min(direct, key=lambda form: direct[form])
    others = ("direct",) if best == "direct" else (best, "direct")
    if forced == "auto" and found.get("winograd", found[plain]) < _GAIN * found[plain]:
        return ("winograd", *others)
    return others


def products(algorithm: str, window: Window, batch: int, inputs: int, outputs: int) -> int:
    """Multiplications, without those of the transforms; the same for all jobs of an algorithm."""
    pairs = batch * inputs // window.groups * outputs
    if algorithm == "winograd" and winograd.can_by_phases(window):
        return pairs * winograd.tiles_of_phases(window) * POINTS_OF_TWO
    if algorithm == "winograd":
        side = window.kernel[-1]
        points = prod(window.output[:-2]) * prod(sum(_points(window, axis)) for axis in (-2, -1))
        return pairs * points * (window.taps // side**2)
    return pairs * window.taps * prod(window.output)


class Passage(NamedTuple):
    """The computation chosen for a job: the algorithm, its form, multiplications, bytes of temporary memory."""

    algorithm: str
    form: str
    multiplications: int
    memory: int


def passages(window: Window, options: Options, batch: int, inputs: int, outputs: int, dtype: str) -> dict[str, Passage]:
    """The ``Passage`` of each of the three jobs.

    Raises:
        ValueError: as ``choose``.
    """
    shape = batch, inputs, outputs, dtype
    plain = next(iter(costs(window, *shape)))
    found = {}
    for job in JOBS:
        form = choose(job, window, options, *shape)
        name = form if form == "winograd" else plain
        count = products(name, window, batch, inputs, outputs)
        memory = bytes_used(form, options.workspace, job, window, *shape)
        found[job] = Passage(name, "" if form in (name, "direct") else form, count, memory)
    return found


# ---- Choice of a form of the direct algorithm -----------------------------------------------------------------------

# Estimated cycles, measured on single tiles:
_TILE, _ADDRESS = 60, 80  # the addresses of a tile; a vector of those of a tap, for two of each tile
# a tile of a panel besides its terms, in the form "line"; a tap of it, of terms in pairs
_PANEL, _LINE, _TAP, _TAP_OF_PAIRS = 25, 40, 3, 10
_PAIR = 1.8  # terms that cost as much as one, in pairs
_FLIP = 0.7  # a number that changes between channels-last and planes
_PLANE = 0.8  # the same for a weight gradient, which keeps whole planes
_ADD, _ADD_ALL = 2, 18  # a vector of products that is added to others of adjacent positions; each sum of them
_PACK, _PACK_LARGE = 0.6, 0.33  # a weight that is packed for an input gradient: before the product, by its tasks
_COPY = 2  # a vector of a line that is copied
_REDUCE, _DOT = 4, 20  # a sum of the lanes of a register, added to memory; a tile of such sums
# the same in "narrow", where a line has several panels, if no cache holds the result
_MISS_PANELS = 4
# a cache line of a result of more bytes than these, which is not prefetched, and if its positions are written in turns
_MISS, _CACHED, _MISS_APART = 5, 1 << 20, 24
_LARGEST_IN_L3 = 16 << 20  # bytes of transformed weights, measured with an L2 of 512 KB
_CALL, _CHECK = 6000, 4500  # a kernel; the look at borders for numbers that are not finite
# factors of tiles and planes of a group, which read and write parts of cache lines; "narrow" takes all groups of a line
_OF_GROUPS, _PLANES_OF_GROUPS = 1.25, 1.3
_OF_WIDE_GROUPS = 1.1 if registers() == 16 else _OF_GROUPS  # of more channels than a vector has lanes
_TILE_OF_POINT, _TILE_OF_SUMS = 43, 20  # a tile of a product of Winograd's transforms, for so many terms
# its weight gradients: a vector of a pair of points, and a channel, transformed back
_SUM_OF_POINT, _CHANNEL = 9, 90
# positions, in registers, after which planar sums lanes
_SEGMENT = 128


def _panels(shape: Tile) -> tuple[tuple[int, int], tuple[int, int]]:
    """How many panels have how many vectors."""
    return (shape.panels - 1, shape.vectors), (1, shape.last_vectors)


def _inside(window: Window, axes: int) -> float:
    """The share of the pairs of a tap and a position that read no padding along the first axes: others are skipped."""
    shares = 1.0
    for axis in range(axes):
        output, step, low = window.output[axis], window.stride[axis], window.padding[axis][0]
        positions = 0
        for tap in range(window.kernel[axis]):
            move = tap * window.dilation[axis] - low
            first, last = max(0, -(move // step)), min(output, -((move - window.input[axis]) // step))
            positions += max(0, last - first)
        shares *= positions / max(1, output * window.kernel[axis])
    return shares


def _sum_cycles(form: str, window: Window, positions: int, inputs: int, outputs: int, dtype: str) -> float:
    """Estimated time of a form of the weight gradient for each position of g."""
    groups, taps, copied_axes = window.groups, window.taps, form == "narrow"
    depth, columns, line, together = inputs // groups, outputs // groups, window.output[-1], 1
    shape, copied = tile(dtype, "sums", columns, 2 if line < SHORT else 4), 0.0
    if form == "planar":
        tiles = [-(-extent // most) for extent, most in zip((columns, taps * depth), dot_tile(), strict=True)]
        empty = -(-line // shape.lanes) * shape.lanes / line
        sums = prod(tiles) * _term(columns / tiles[0], taps * depth / tiles[1]) * empty / shape.lanes
        added = taps * depth * columns * _REDUCE + prod(tiles) * _DOT
        lines, more, _ = planar.block_of(window, False, inputs, outputs, dtype)
        added_each = added / min(lines * line, _SEGMENT * shape.lanes)
        return groups * (sums + added_each + (depth * (lines + more) / lines + columns) * _PLANE)
    if form == "narrow":
        taps, depth = taps // window.kernel[-1], depth * window.kernel[-1]
        together = taps_of_tile(dtype, depth, columns, line, window.kernel[-2] if window.ndim > 1 else 1)
        if any(window.padding[-1]):
            copies = min(taps, window.stride[-2]) if together > 1 else taps
            copied = copies * inputs * window.stride[-1] / shape.lanes * _COPY
    terms = sum_cycles(dtype, depth * together, columns, line, taps // together)
    if not copied_axes and is_swapped(dtype, depth, columns, line, positions, taps):
        terms = sum_cycles(dtype, columns, depth, line, taps)
    return groups * taps / together * terms * _inside(window, window.ndim - copied_axes) + copied


def _cycles(form: str, job: str, window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> float:
    """Estimated time of a form of the forward pass or the input gradient."""
    gradient, groups = job == "conv_input_grad", window.groups
    depth, columns = (outputs // groups, inputs // groups) if gradient else (inputs // groups, outputs // groups)
    read, written = (window.output, window.input) if gradient else (window.input, window.output)
    size = 4 if dtype == "f" else 8
    packed = window.taps * depth * columns * (_PACK if gradient else 1 / 4)
    if form == "narrow":
        terms = narrow.cycles(window, gradient, batch, inputs, outputs, dtype)
        written_bytes = groups * columns * batch * prod(written) * size
        if written_bytes > rowwise.STREAMED and tile(dtype, "line", columns).panels > 1:
            terms += written_bytes / 64 * _MISS_PANELS
        return terms + groups * packed + 3 * _CALL
    if form == "fold":
        width, steps = window.kernel[-1] * columns, -(-window.kernel[-1] // window.stride[-1])
        shape, lines = tile(dtype, "line", width), batch * prod(written[:-1])
        tiles = -(-read[-1] // shape.rows)
        rows, reads = read[-1] / tiles, batch * prod(read[:-1]) * window.taps // window.kernel[-1]
        product = sum(count * depth * _term(rows, vectors) for count, vectors in _panels(shape)) * tiles * reads
        product += lines * tiles * shape.panels * _LINE
        vectors = -(-window.stride[-1] * columns // shape.lanes) * (written[-1] / window.stride[-1])
        return product + lines * vectors * (steps * _ADD + _ADD_ALL) + packed + 2 * _CALL
    pixels = batch * prod(written)
    if form == "planar":
        lines, more, line = planar.block_of(window, gradient, depth * groups, columns * groups, dtype)
        shape = tile(dtype, "near", lines * line, 4 if columns <= 6 else 3 if columns <= 8 else 2)
        tiles, panels = -(-columns // shape.rows), -(-lines * line // shape.width)
        terms = tiles * panels * (window.taps * depth * _term(columns / tiles, shape.vectors) + _PANEL)
        flips = (depth * (lines + more) + columns * lines) * line * _FLIP
        each = groups * pixels * (terms + flips) / (lines * written[-1])
        return each * (_PLANES_OF_GROUPS if groups > 1 else 1) + 2 * _CALL
    if form == "line":
        shape = packed_tile(dtype, "line", columns, depth)
        product = sum(
            count * (depth * (_term(shape.rows, vectors) + 0.5 * (vectors == 1)) / terms + _LINE * terms)
            for (count, vectors), terms in zip(_panels(shape), (1, 2 if shape.paired else 1), strict=True)
        )
        return pixels / min(shape.rows, pixels) * product + packed + _CALL
    phases = prod(window.stride) if gradient else 1
    taps, large = window.taps / phases, window.taps * depth * columns * size > axes.LARGE_WEIGHTS
    shape = tile(dtype, "rows", columns) if large else packed_tile(dtype, "rows", columns, int(taps * depth))
    tiles, last = -(-pixels // phases // shape.rows) * phases, (_PAIR, _TAP_OF_PAIRS) if shape.paired else (1, _TAP)
    product = sum(
        count * (taps * (ceil(depth / terms) * _term(shape.rows, vectors) + begin) + _PANEL)
        for (count, vectors), (terms, begin) in zip(_panels(shape), ((1, _TAP), last), strict=True)
    )
    if gradient and large:
        packed *= _PACK_LARGE / _PACK
    written_bytes = groups * pixels * columns * size
    missed = written_bytes / 64 * (_MISS if phases == 1 else _MISS_APART) if written_bytes > _CACHED else 0
    if groups > 1:
        product *= _OF_WIDE_GROUPS if columns > shape.lanes else _OF_GROUPS
    tables = tiles * (_TILE + taps * _ADDRESS / shape.lanes * 2)
    return tiles * groups * product + tables + missed + groups * packed + 2 * _CALL


def _direct_forms(
    job: str, window: Window, batch: int, inputs: int, outputs: int, dtype: str, dense: bool
) -> dict[str, float]:
    """The forms of the direct algorithm that can compute a job, and the estimated cycles of each."""
    gradient, shape = job == "conv_input_grad", (batch, inputs, outputs, dtype)
    written = (inputs if gradient else outputs) // window.groups
    found = ["direct"]
    if planar.applies(written, window, gradient, dtype):
        found.append("planar")
    if job == "conv_weight_grad":
        if axes.is_narrow(inputs, window):
            found.append("narrow")
        positions, found_cycles = batch * prod(window.output), dict[str, float]()
        for form in found:
            calls = (2 if form == "direct" else 3) * _CALL
            each = _sum_cycles(form, window, positions, inputs, outputs, dtype)
            found_cycles[form] = calls + positions * each
        return found_cycles
    if dense and rowwise.is_line(window, batch, inputs, outputs, dtype):
        found.append("line")
    if gradient and fold.applies(written, window):
        found.append("fold")
    if narrow.applies(window, gradient, inputs, outputs, dtype):
        found.append("narrow")
    check = _CHECK if borders.reads_padding(window, gradient) else 0
    return {form: check + _cycles(form, job, window, *shape) for form in found}


def _points(window: Window, axis: int) -> list[int]:
    """How many of Winograd's tiles along an axis need each of the six points."""
    four, fifth, sixth = points_along(window.output[axis], window.kernel[axis], window.dilation[axis])
    return [four] * 4 + [fifth, sixth]


def _winograd_cycles(job: str, window: Window, batch: int, inputs: int, outputs: int, dtype: str) -> float:
    """Estimated time of Winograd's transforms and products."""
    lanes, size, sums = tile(dtype, "rows", 1).lanes, 4 if dtype == "f" else 8, job == "conv_weight_grad"
    gradient = job == "conv_input_grad"
    depth, columns = (outputs, inputs) if gradient else (inputs, outputs)
    read, written, side, points = -(-depth // lanes), -(-columns // lanes), window.kernel[-1], PAIRS
    if side == 4:
        parts, taps, points = [phase for _, _, phase in winograd.phases(window)], 1, POINTS_OF_TWO
    else:
        parts, taps = [winograd.turned_window(window) if gradient else window], window.taps // side**2
    elements = points * taps * depth * written * lanes
    multiplied = transformed = 0.0
    partial = 1
    for part in parts:
        along = [_points(part, axis) for axis in (-2, -1)]
        slices, slices_read = (batch * prod(extents[:-2]) for extents in (part.output, part.input))
        tiles, rows = slices * along[0][0] * along[1][0], slices * sum(along[0]) * sum(along[1])
        blocks = blocks_of(tiles, elements * size, depth, columns, lanes, size, taps, sums)
        if sums:
            partial = partial_sums(tiles, elements * size, (read + written) * lanes * size)
        together, spans = (slices / blocks, blocks) if taps == 1 else (1, slices)
        for of_h, of_w in product(*({*line} for line in along)):
            pairs = along[0].count(of_h) * along[1].count(of_w)
            multiplied += pairs * spans * _pair_cycles(sums, of_h * of_w * together, taps, depth, columns, dtype)
        # measured for vectors of 32 and 64 bytes, of all 36 pairs of points
        of_input, of_output = read * (80 + 10 * lanes), written * (95 + 4.5 * lanes)
        transformed += rows / PAIRS * (of_input * slices_read / slices + of_output)
    weights, calls = len(parts) * points * taps * depth * written * (0.3 + 0.35 * lanes), 1 + 3 * len(parts)
    if sums:  # partial sums are added
        weights, calls = taps * depth * (partial * points * written * _SUM_OF_POINT + _CHANNEL), 3
    bytes_ = batch * size * (inputs * prod(window.input) + outputs * prod(window.output))
    missed = max(0, bytes_ - _CACHED) / 64 * _MISS
    if registers() == 16 and job == "conv":  # some filters at a time, from short pieces of their rows
        missed += max(0, len(parts) * elements * size - _LARGEST_IN_L3) / 64 * 2 * _MISS
    factor = 1 if sums or registers() == 32 else _OF_FEW_REGISTERS
    return factor * (multiplied + transformed + weights + missed) + calls * _CALL


def _pair_cycles(sums: bool, rows: float, taps: int, depth: int, columns: int, dtype: str) -> float:
    """Estimated time of a product of Winograd's transforms, of some rows at one pair of points."""
    shape = tile(dtype, "dense" if sums else "rows", columns)
    if rows == 0:
        return 0
    if sums:
        tiles = -(-depth // shape.rows)
        height = depth / tiles
        return taps * sum(
            count * tiles * (rows * max(_term(height, vectors), height / 2 + vectors + 1) + _TILE_OF_SUMS)
            for count, vectors in _panels(shape)
        )
    tiles = ceil(rows / shape.rows)
    return sum(
        count * tiles * (taps * depth * _term(rows / tiles, vectors) + _TILE_OF_POINT * -(-depth // TERMS))
        for count, vectors in _panels(shape)
    )
