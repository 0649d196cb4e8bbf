"""Matrix products of which some extent is small: few rows, few columns or few terms.

Copying B into panels, and a table of addresses for each tile, pay only for many rows of many terms. A thin product has
micro-kernels of its own, which walk over the tiles themselves:

- ``strip``: a tile is some rows of some vectors of C. For each k, a row of B is multiplied by an element of each row of
  A. C is written line by line. The last vector of a line ends with the line: it overlaps the one before it, so that
  nothing is masked, unless C is narrower than a vector.
- ``lines``: the single row of C stays in L1 while B streams by, four rows at a time, in long pieces.
- ``dots``: rows of A times columns of B, both contiguous, a vector of terms at a time. As many sums as a vector has
  lanes are reduced to one together.

A tile with few sums has several for each element of C, which take turns: an addition waits for the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from .machine.launch import load
from .machine.microkernel import registers
from .machine.record import record
from .machine.target import vector_bytes

LINE_BLOCK = 64  # terms of ``lines`` that are added in L1, then to C
BLOCK = 128  # units of terms that are added in registers, then to the sum of the blocks before
STACK = 4096  # elements of a copy of B that a task has on its stack: a launch without scratch memory is found natively

# every argument is a 64-bit integer; addresses and steps are in bytes
STRIP_ARGUMENTS = (
    "a",  # address of A[0, 0] of the first tile
    "a_step",  # from row to row, whose elements are contiguous; dense: from k to k
    "b",
    "ldb",  # from k to k
    "c",  # address of C[0, 0] of the first tile
    "c_row",
    "c_end",  # nothing from this address on is written
    "init",  # address of the row that the sums start from
    "depth",  # terms, at least 1
    "tiles",
    "first",
    "end",  # panels
    "panel",  # from panel to panel
    "last_panel",  # where the last panel begins
    "last",  # where the last vector of a panel begins
    "tail",  # columns, if C is narrower than a vector
    "bounds",  # as in microkernel.py
    "residual",
)
DOT_ARGUMENTS = (
    "a",
    "a_row",
    "b",
    "b_row",  # from column to column of B
    "c",
    "c_row",
    "init",
    "depth",  # terms, at least 1
    "a_tiles",
    "b_tiles",
    "ahead",  # address of the first line to prefetch, and from line to line
    "ahead_step",
    "bounds",
    "residual",
)

_COMMON = {
    "size": 1,  # bytes of an element
    "depth": 1,
    "columns": 1,
    "a_row": 1,  # steps are in elements
    "b_depth": 1,
    "b_column": 1,
    "packing": 1,  # elements of a row of the copy of B; 0: none is made
    "least": 1,  # rows of a tile; the first ``extra`` tiles have one more
    "extra": 1,
    "each": 1,
    "count": 1,  # parts of a task, and of all tasks
}
STRIPS = record(**_COMMON, group=1, a_step=1, panel=1, last_panel=1, last=1, tall=1, short=1, parts=0)
LINES = record(**_COMMON, a_depth=1, width=1, parts=0)
DOTS = record(**_COMMON, narrow=1, wide_tiles=1, group=1, ahead=1, ahead_step=1, kernels=4, parts=0)


class Choice(NamedTuple):
    """How a product is computed: by ``strip`` or ``dots``, with tiles of at most these extents."""

    cycles: float  # estimated
    kernel: str
    rows: int
    width: int  # vectors of a strip, columns of a tile of dots
    phases: int


@cache
def choose(
    rows: int, columns: int, depth: int, dense: bool, b_depth: int, b_column: int, dtype: str, matrices: int
) -> Choice | None:
    """The cheapest of the plans for thin products, each of which has one of ``matrices``; None if there is none."""
    choices = _choices(rows, columns, depth, dense, b_depth, b_column, dtype, matrices)
    if registers() == 16:
        choices = (choice._replace(cycles=choice.cycles * _MEASURED.get(choice.kernel, 1)) for choice in choices)
    return min(choices, default=None)


_NEAR, _FAR = 1 << 15, 1 << 18  # bytes of B that stay in L1 and in L2 while tiles of A stream by
_LINE = 64  # bytes
_LEAST_VECTOR = 16  # bytes
_WIDEST = 20  # vectors of a single row whose B comes from memory: so many lines are on their way
_FROM_L2, _PIECES_FROM_L2 = 96, 35  # bytes per cycle, beside the loads of a tile; of pieces of rows, with 16 registers
_MOST_PAGES = 256  # whose addresses the CPU finds without a pause
_LEAST_OF_PAGE = 256  # bytes of a row that are worth a walk over so many pages
_PERIOD, _WAYS = 4096, 8  # of L1: addresses a period apart share a set of so many lines
_CHAINS = 8  # additions in flight: two per cycle, of four cycles
_ISSUED = 3.5  # instructions per cycle
_OF_TILE, _OF_DOTS, _OF_CALL, _OF_COPYING = 16, 4, 20, 40  # cycles
_OF_PAGE = 1.25  # cycles per line of the cache, of rows of B in more pages than the CPU finds at once, _FEW_PAGES
_FEW_PAGES, _OF_CONFLICT = 64, (5, 2.5)  # ... cycles per line, if the rows share sets of L1 as well
_MEASURED = {"strip": 1.1, "dots": 1.3}  # times over the counted ones, of products that tiles compete for
_MOST_AHEAD = 32  # rows, of those that are prefetched and used
_OF_TALL = 4  # cycles per term, of a tall tile that reads columns of A again which have left L1
_OF_SHORT_PIECES = 20  # cycles per line of a B from memory, of whose rows tiles read short pieces
_OF_FAR = 3  # cycles per line of a B that L2 does not hold
_LINES_FROM, _LEAST_LINE, _LINE_WIDTH = 1 << 20, 64, 256  # bytes of B and columns of ``lines``, and of its panels
_OF_LINES, _OF_PIECES = 3.2, 3.5  # cycles per line of a B not in L2: read by ``lines``, more in pieces by ``strip``
_OF_A = 4, 8  # cycles per line of A that has left L1, or L2, for every group of panels
_OF_COPY = 0.5, 0.75  # cycles per element of a copy of B, by vectors and by elements
_L2_SHARE, _L3_SHARE = 1 << 19, 16 << 20  # bytes of all B that stay in L2 and in L3
_OF_L3, _OF_MEMORY = (0.5, 1.5), (1, 5)  # cycles per line of B from there, of ``dots`` with 16 and with 32 registers


def _choices(
    rows: int,
    columns: int,
    depth: int,
    dense: bool,
    b_depth: int,
    b_column: int,
    dtype: str,
    matrices: int = 1,
) -> Iterator[Choice]:
    size = 4 if dtype == "f" else 8
    lanes = lanes_of(columns, size)
    wide = lanes * size  # bytes of a vector
    many = registers() == 32
    room = 30 if many else 16
    vectors = -(-columns // lanes)
    touched = 1 + wide / _LINE  # lines of the cache: arrays are aligned to 16 bytes
    content, content_of_a = columns * depth * size, rows * depth * size
    copying = b_column != 1 and columns > 1
    streaming = rows == 1 and not many and not copying and content > _LINES_FROM and columns >= _LEAST_LINE
    if streaming:
        yield Choice(content / _LINE * _OF_LINES + _OF_CALL, "lines", 1, _LINE_WIDTH // lanes, 1)
    together = depth if copying else rows_in_l1(b_depth * size)
    pages = min(depth, content // _PERIOD)  # of memory, that every tile of a panel reads from
    copied = _OF_COPY[min(columns, depth) < lanes] * columns * depth + _OF_COPYING
    for height in range(1, min(rows, 12 if dense and not many else 8) + 1):
        tiles = -(-rows // height)
        widest = _WIDEST if rows == 1 and content > _NEAR else room
        for width in range(min(vectors, widest, room), 0, -1):
            panels, cells = -(-vectors // width), height * width
            if -(-vectors // panels) < width or cells + (width if height > 1 else 0) + (0 if many else 1) > room:
                continue
            near = depth * width * lanes * size  # bytes of a panel
            narrow = tiles > 1 or panels > 1 and width * wide <= _LEAST_OF_PAGE
            if tiles > 1 and near > _FAR or narrow and pages > _MOST_PAGES or copying and content > _FAR:
                continue
            phases = _phases(cells, (room - width - 1) // cells, depth)
            each = max(cells / 2, (height + width * touched) / 2, _CHAINS / 2 / phases)
            each = max(each, (cells + width + (0 if many else height) + 1) / _ISSUED)
            if tiles > 1 and pages >= _FEW_PAGES:
                each = max(each, _OF_PAGE * width * touched)
            # bytes for a term that the next tile or panel reads again
            of_b, of_a = width * wide, height * size + _LINE if dense and panels > 1 and not many else 0
            apart = panels > 1 and not many and depth * (of_b + of_a) > _NEAR * 3 // 4
            if apart and (tiles > 1 or dense):
                each += (of_b * (tiles > 1) + of_a) / _PIECES_FROM_L2
            if tiles > 1 and (near > _NEAR or depth > together):
                each += 0 if apart else of_b / _FROM_L2
                if not copying and rows_conflict(depth, b_depth * size):
                    each += conflict_cycles(width * lanes * size)
            if tiles > 1 and dense and columns_are_far(depth):
                each += 1 if many else _OF_TALL * (height > 8 and panels > 1)
            cycles = tiles * panels * (depth * each + cells * touched + _OF_TILE) + _OF_CALL
            if tiles > 1 and not copying:
                cycles += far_cycles(content)
            if rows > 1 and not many and not copying and is_far(content * matrices):
                cycles += content / _LINE * _OF_SHORT_PIECES
            if streaming:
                cycles += content / _LINE * _OF_PIECES
            groups = -(-panels // _near_panels(near))
            if not many and tiles > 1 and groups > 1 and content_of_a > _FAR // 2:
                cycles += groups * content_of_a / _LINE * _OF_A[content_of_a > _L2_SHARE]
            yield Choice(cycles + (copied if copying else 0), "strip", height, width, phases)
    copying = b_depth != 1 and depth > 1
    if dense or copying and content > _FAR:
        return
    lanes, touched = vector_bytes() // size, 1 + vector_bytes() / _LINE
    for height in {1, 2, 4} if lanes >= 8 else {1, 2}:
        height = min(height, rows)
        width = min(lanes // height, columns, columns if copying else rows_in_l1(b_column * size))
        pieces, cells = -(-depth // lanes), height * width
        phases = _phases(cells, (room - width - 1) // cells, pieces)
        loaded = (height + width) * (touched if depth % lanes else 1)  # lines
        each = max(cells / 2, loaded / 2, _CHAINS / 2 / phases)
        if rows > height and width * depth * size > _NEAR:
            each += width * lanes * size / _FROM_L2
        if columns > width and rows * depth * size > _NEAR:  # rows of A leave L1 before the next columns of B
            each += height * lanes * size / _FROM_L2 / _near_tiles(width, depth, size)
        tiles_of_rows = -(-rows // height)
        tiles = tiles_of_rows * -(-columns // width)
        cycles = tiles * (pieces * each + 2 * lanes + 2 * height + _OF_DOTS) + _OF_CALL
        if not is_near(content * matrices):
            cycles += content / _LINE * (_OF_MEMORY if is_far(content * matrices) else _OF_L3)[many]
        yield Choice(cycles + (copied if copying else 0), "dots", height, width, phases)


def lanes_of(columns: int, size: int) -> int:
    """Return how many elements of ``size`` bytes a vector of a strip has: a register, or a part that has all columns.

    Halves of registers are multiplied and stored in half of the time by CPUs that divide them, and seldom need a mask.
    """
    lanes = vector_bytes() // size
    while lanes * size > _LEAST_VECTOR and 2 * columns <= lanes:
        lanes //= 2
    return lanes


def rows_in_l1(step: int) -> int:
    """Return how many rows, ``step`` bytes apart, L1 holds: few if the step divides its period."""
    return _WAYS * _PERIOD // gcd(step, _PERIOD)


def conflict_cycles(width: int) -> float:
    """Return the time of reading ``width`` bytes of a row of many that share sets of L1."""
    return _OF_CONFLICT[registers() == 32] * width / _LINE


def rows_conflict(depth: int, step: int) -> bool:
    """Return whether the rows of B, ``step`` bytes apart, are too many for L1, and on many pages.

    With 16 registers: if their sets do not even hold the rows that are prefetched.
    """
    if registers() == 16:
        return rows_in_l1(step) <= _MOST_AHEAD < depth
    return depth > rows_in_l1(step) and depth * step // _PERIOD >= _FEW_PAGES <= depth


def far_cycles(content: int) -> float:
    """Return the time of reading a B of ``content`` bytes, if L2 does not hold it."""
    return 0.0 if registers() == 32 or content <= _L2_SHARE else content / _LINE * _OF_FAR


def is_near(content: int) -> bool:
    """Return whether matrices of together ``content`` bytes stay in L2."""
    return content <= _L2_SHARE


def is_far(content: int) -> bool:
    """Return whether matrices of together ``content`` bytes come from memory."""
    return content > _L3_SHARE


def _near_tiles(width: int, depth: int, size: int) -> int:
    """Return the number of tiles of ``dots`` whose columns of B stay in L1 while the rows of A stream by."""
    return max(1, _NEAR // 2 // (width * depth * size))


def columns_are_far(depth: int) -> bool:
    """Return whether the lines of A leave L1 before the next tile, where the columns of A are contiguous."""
    return depth * _LINE > _NEAR // 2


def _near_panels(near: int) -> int:
    """Return the number of panels of B, of ``near`` bytes each, that stay in L1 while the tiles of A stream by."""
    return max(1, _NEAR * 3 // 4 // near)


def _phases(cells: int, fit: int, steps: int) -> int:
    """The sums of each element of a tile: 1, 2, 4 or 8, as many as overlap and fit in registers."""
    phases = 1
    while phases * cells < _CHAINS and 2 * phases <= fit and 8 * phases <= steps:
        phases *= 2
    return phases


@cache
def strip(dtype: str, dense: bool, rows: int, vectors: int, lanes: int, phases: int, masked: bool, far: bool) -> int:
    """Address of a micro-kernel, compiled on first use."""
    form = (
        f"{'dense' if dense else 'rows'}_{rows}x{vectors}x{phases}_{lanes}{'m' if masked else ''}{'f' if far else ''}"
    )
    name = f"strip_{dtype}_{form}"

    def compile() -> bytes:
        from .machine.compiler import emit
        from .thin_product_jit import build_strip

        return b"\n" + emit(build_strip(name, dtype, dense, rows, vectors, lanes, phases, masked, far), name)

    return load(name, compile)[0]


@cache
def dots(dtype: str, rows: int, columns: int, phases: int, ahead: int) -> int:
    """Address of a micro-kernel, compiled on first use."""
    name = f"dots_{dtype}_{rows}x{columns}x{phases}{f'a{ahead}' if ahead else ''}"

    def compile() -> bytes:
        from .machine.compiler import emit
        from .thin_product_jit import build_dots

        return b"\n" + emit(build_dots(name, dtype, rows, columns, phases, ahead), name)

    return load(name, compile)[0]


class Layout(NamedTuple):
    """The tiles of a choice, as a plan counts them."""

    tiles: int  # of rows
    panels: int  # strips: of vectors; dots: tiles of columns
    packing: int  # elements of a row of the copy of B; 0: none is made
    packed: int  # elements of the copy in scratch memory


def layout(choice: Choice, columns: int, rows: int, depth: int, b_depth: int, b_column: int, dtype: str) -> Layout:
    """How many tiles there are, and the copy of B."""
    size = 4 if dtype == "f" else 8
    lanes = lanes_of(columns, size) if choice.kernel == "strip" else vector_bytes() // size
    tiles = -(-rows // choice.rows)
    if choice.kernel == "lines":
        return Layout(1, -(-columns // (choice.width * lanes)), 0, 0)
    if choice.kernel == "strip":
        row = 0 if b_column == 1 or columns == 1 else -(-columns // lanes) * lanes
        panels, copied = -(-columns // (choice.width * lanes)), row * depth
    else:
        row = 0 if b_depth == 1 or depth == 1 else -(-depth // lanes) * lanes
        panels, copied = -(-columns // choice.width), row * columns
    return Layout(tiles, panels, row, copied if copied > STACK else 0)


def words(
    choice: Choice,
    made: Layout,
    rows: int,
    columns: int,
    depth: int,
    dense: bool,
    a_steps: tuple[int, int],
    b_steps: tuple[int, int],
    dtype: str,
    each: int,
    count: int,
    parts: np.ndarray,
    passes: int,
) -> np.ndarray:
    """The plan for the kernel ``strips`` or ``dots``; ``each``, ``count`` and ``parts`` as in matmul.py.

    ``passes``: tiles of rows of a part, during which ``dots`` prefetches its next columns of B; 0: it does not.
    """
    size = 4 if dtype == "f" else 8
    lanes = lanes_of(columns, size) if choice.kernel == "strip" else vector_bytes() // size
    least, extra = divmod(rows, made.tiles)
    common: dict[str, Any] = {
        "size": size,
        "depth": depth,
        "columns": columns,
        "a_row": a_steps[0],
        "b_depth": b_steps[0],
        "b_column": b_steps[1],
        "packing": made.packing,
        "least": least,
        "extra": extra,
        "each": each,
        "count": count,
        "parts": parts,
    }
    if choice.kernel == "strip":
        width = choice.width * lanes
        masked = columns < lanes
        # the last vector of a single panel ends with the line, and so does the last of several panels
        last = 0 if masked else (min(columns, width) - lanes) * size
        far = rows == 1 and not made.packing and columns * depth * size > _NEAR
        tall, short = (
            strip(dtype, dense, height, choice.width, lanes, choice.phases, masked, far) if used else 0
            for height, used in ((least + 1, extra), (least, extra < made.tiles))
        )
        near = width * depth * size
        return STRIPS.pack(
            **common,
            group=_near_panels(near) if made.tiles > 1 else made.panels,
            a_step=a_steps[1] if dense else a_steps[0],
            panel=width * size,
            last_panel=max(0, columns - width) * size,
            last=last,
            tall=tall,
            short=short,
        )
    if choice.kernel == "lines":
        return LINES.pack(**common, a_depth=a_steps[1], width=choice.width * lanes)
    narrow, wide_tiles = divmod(columns, made.panels)
    heights = ((least + 1, extra), (least, extra < made.tiles))
    widths = ((narrow + 1, wide_tiles), (narrow, wide_tiles < made.panels))
    near = _near_tiles(choice.width, depth, size)
    ahead, ahead_step, pieces = 0, 0, -(-depth // lanes)
    if passes > 1 and not made.packing and depth <= b_steps[1] < 2 * depth:
        ahead = -(-choice.width * vector_bytes() // (passes * _LINE))
        ahead_step = -(-choice.width * b_steps[1] * size // (passes * pieces * ahead))
    kernels = [
        dots(dtype, height, width, choice.phases, ahead) if used and also else 0
        for height, used in heights
        for width, also in widths
    ]
    return DOTS.pack(
        **common,
        narrow=narrow,
        wide_tiles=wide_tiles,
        group=near if made.tiles > 1 else made.panels,
        ahead=ahead * pieces,  # lines of a pass over a tile
        ahead_step=ahead_step,
        kernels=kernels,
    )
