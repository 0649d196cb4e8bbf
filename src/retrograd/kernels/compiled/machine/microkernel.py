"""Matrix micro-kernels for floats and small integers, and products cut into their tiles.

``C[rows, columns] (+)= sum over entries e, depth k of A_e[i, k] * B_e[k, j]``: a tile of C stays in registers while any
number of small products, found through a table of addresses, is added to it. Padding is the address of a row of zeros;
the input is not copied. The micro-kernel is written in LLVM IR, because the accumulators must be values (registers),
not memory, and their number depends on the CPU.

It comes in three forms, which differ in how the table finds A:

- ``rows``: entry e is ``rows`` addresses, one for each row of A_e, contiguous along k. B_e is at ``b + e*b_step``.
  (Convolution and its input gradient: the rows are pixels.)
- ``dense``: entry e is two addresses, of A_e, contiguous along i with step ``lda`` along k, and of B_e; all tiles share
  one table, because two offsets are added to the addresses. (Weight gradients, products with a transposed matrix.)

- ``line``: equally spaced rows, as the pixels of a line: entry e is the address of A_e, B_e is at ``b + e*b_step``.
  More than eight rows need no register each, so that narrow tiles can be tall.

``near_rows`` and ``near`` are the first two for operands in L1: without prefetching. ``dense3``: entry e has three
addresses of A_e, each for a third of the rows i, before that of B_e.

``rows_pairs`` and ``line_pairs`` are these forms for columns that fill at most half a vector. In a vector of B, each
number of an even term is beside that of the next term, ``2*ldb`` further are the next two. So a multiply-add adds two
terms of each column.

Long sums are blocked: 64 terms are summed in registers, then added to the sum of the blocks before, and that to the
earlier content of C. So the error of a sum of k terms grows as the root of ``32 + k / 128``, not of ``k / 2``. Sums of
49 to 128 terms have two halves.

Source: Georganas et al., "High-Performance Deep Learning via a Single Building Block", 2019, arXiv:1906.06440;
Dukhan, "The Indirect Convolution Algorithm", 2019, arXiv:1907.02129.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from platform import machine

import numpy as np

from .launch import load
from .record import record
from .target import adds_products, counts_bits, cpu, integer_bytes, vector_bytes

# ---- The building block of convolution, matrix product and recurrent steps ------------------------------------------

# every argument is a 64-bit integer; addresses and steps are in bytes
ARGUMENTS = (
    "table",  # address of the entries
    "entries",  # how many, at least 1
    "depth",  # k of each entry, at least 1
    # dense: bytes from A_e[i, k] to A_e[i, k+1]; line: to A_e[i+1, k]; rows: elements of every row before A_e[i, 0]
    "lda",
    "b",  # rows, line: address of B_0; dense: added to the address of every B_e
    "b_step",  # rows, line: from B_e to B_e+1; dense: added to the address of every A_e
    "ldb",  # from B_e[k, j] to B_e[k+1, j]
    "c",  # address of the table of the row addresses of C; line: address of C
    "c_step",  # added to the address of every row of C; line: bytes from row to row
    "tail",  # columns of the last vector that exist, 1..lanes
    "init",  # address of the row that the sum starts from (a bias, or zeros), unless accumulate
    "accumulate",  # 1: the sum starts from zeros, and C is added at the end
    "bounds",  # 0, or the address of two elements between which the result is clamped before it is stored
    "residual",  # with bounds: 0, or bytes from C to an array of the same layout that is added before
)
ROW_SLOTS = 8  # words of a table entry in the rows form: at least the rows of its tiles, a whole vector of addresses
MOST_ROWS = 32  # words for the row addresses of C
# the word of ``bounds`` with the address of a formula that is then applied to the stored result (0: none); its record,
# an array and numbers, follows
FINISH_FORMULA = 2

# Rows of the tile with 1, 2, ... vectors of columns. The rows form holds one pointer per row: more than eight do not
# fit the registers. A wide tile reads A less often, so that B may come from L2. The tiles "sums" are for the dense form
# where A stays in L1: taller ones would read parts of more cache lines of a large A.
_ROWS_OF_32 = {"rows": (8, 8, 8, 6), "dense": (16, 14, 8, 6), "line": (28, 13, 8, 6), "sums": (28, 14, 8, 6)}
_ROWS_OF_16 = {"rows": (8, 6), "dense": (12, 6), "line": (12, 6), "sums": (12, 6)}
_FAR = {"near_rows": "rows", "near": "dense"}
_DOT_OF_32, _DOT_OF_16 = (6, 4), (3, 3)


@dataclass(frozen=True, slots=True)
class Tile:
    """The panels of a matrix of ``columns``, and the largest tile of one that stays in registers."""

    rows: int
    vectors: int  # of columns in a panel; the last panel may have fewer
    lanes: int
    columns: int
    paired: bool = False  # the last panel is at most half a vector, whose terms are in pairs

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    def whole_vectors(self) -> Tile:
        """The same for a matrix whose last vector is filled up."""
        return replace(self, columns=-(-self.columns // self.lanes) * self.lanes)

    @property
    def panels(self) -> int:
        return -(-self.columns // self.width)

    @property
    def last_vectors(self) -> int:
        """Vectors of the last panel."""
        return -(-self.columns // self.lanes) - (self.panels - 1) * self.vectors

    @property
    def tail(self) -> int:
        """Columns of the last vector of the last panel."""
        return (self.columns - 1) % self.lanes + 1


def registers() -> int:
    """The number of vector registers of the CPU."""
    return 32 if vector_bytes() == 64 or machine() not in ("x86_64", "AMD64") else 16


@cache
def tile(dtype: str, form: str, columns: int, widest: int = 4) -> Tile:
    """The tile for ``columns`` of element type "f" or "d"; ``widest`` bounds its vectors."""
    rows = (_ROWS_OF_32 if registers() == 32 else _ROWS_OF_16)[_FAR.get(form, form)]
    lanes = vector_bytes() // (4 if dtype == "f" else 8)
    total = -(-max(columns, 1) // lanes)
    vectors = -(-total // -(-total // min(widest, len(rows))))
    return Tile(rows[vectors - 1], vectors, lanes, max(columns, 1))


def term_cycles(rows: float, vectors: float) -> float:
    """Cycles for a term of a tile: two multiply-adds or loads each, and a sum waits four for the term before."""
    return max(rows * vectors / 2, (rows + vectors) / 2, 4)


# cycles of a panel of a tile, besides its terms; of pairs, whose sums are added; of a term of a single vector
_PANEL_CYCLES, _PAIRS_CYCLES, _SINGLE = 25, 30, 0.8
_GAIN = 0.95  # pairs must save a twentieth
_MOST_PAIRED = 16  # rows of pairs: with more, LLVM keeps sums in memory


def panel_cycles(shape: Tile, terms: int) -> float:
    """Estimated cycles of all panels of a tile, for each of its rows."""
    whole, last = (
        terms * (term_cycles(shape.rows, vectors) + _SINGLE * (vectors == 1))
        for vectors in (shape.vectors, shape.last_vectors)
    )
    if shape.paired:
        last = last / 2 + _PAIRS_CYCLES
    return ((shape.panels - 1) * whole + last + shape.panels * _PANEL_CYCLES) / shape.rows


@cache
def packed_tile(dtype: str, form: str, columns: int, terms: int) -> Tile:
    """The tile of "rows" or "line" for packed weights: with pairs of terms in the last panel if that is faster."""
    usual = tile(dtype, form, columns)
    whole, last = divmod(columns, usual.lanes)
    if not 0 < last <= usual.lanes // 2 or terms < 2:
        return usual
    found = []
    for vectors, rows in enumerate((_ROWS_OF_32 if registers() == 32 else _ROWS_OF_16)[form], 1):
        if max(whole, 1) % vectors == 0:
            found.append(Tile(min(rows, _MOST_PAIRED), vectors, usual.lanes, columns, True))
    best = min(found, key=lambda shape: panel_cycles(shape, terms))
    return best if panel_cycles(best, terms) < _GAIN * panel_cycles(usual, terms) else usual


@cache
def micro(dtype: str, form: str, rows: int, vectors: int, masked: bool = False) -> int:
    """Address of the micro-kernel for a tile of ``rows`` x ``vectors``, compiled on first use.

    ``masked``: B is not packed; its rows end with ``tail`` columns of the last vector, and nothing after is touched.
    """
    name = f"brgemm_{dtype}_{form}_{rows}x{vectors}{'m' if masked else ''}"

    def compile() -> bytes:
        from .compiler import emit
        from .microkernel_jit import build

        return b"\n" + emit(build(name, dtype, form, rows, vectors, masked), name, is_simple=True)

    return load(name, compile)[0]


# ---- products of planes: C[i, j] += sum over lines and positions of A_i * B_j, positions contiguous in memory
DOT_ARGUMENTS = (
    "a",  # address of the table of the addresses of A_0, A_1, ...
    "a_move",  # added to them
    "a_line",  # bytes from line to line
    "b",
    "b_move",
    "b_line",
    "lines",
    "whole",  # bytes of the whole vectors before the last one of a line
    "tail",  # positions of the last vector of a line, 1..lanes
    "c",  # address of the table of the addresses of C[0, j]
    "c_move",
)


def dot_tile() -> tuple[int, int]:
    """The most rows and columns of C whose sums fit in registers."""
    return _DOT_OF_32 if registers() == 32 else _DOT_OF_16


@cache
def dot(dtype: str, rows: int, columns: int) -> int:
    """Address of the kernel that adds ``rows`` x ``columns`` such sums to C, whose rows are contiguous."""
    name = f"dot_{dtype}_{rows}x{columns}"

    def compile() -> bytes:
        from .compiler import emit
        from .dot_jit import build

        return b"\n" + emit(build(name, dtype, rows, columns), name)

    return load(name, compile)[0]


# ---- The building block of products of small integers ---------------------------------------------------------------
# ``C[i, j] = start_i[j] + times * sum over entries e, words k of A_e[i, k] . B_e[k, j]`` as int32: as above
# a tile of C stays in registers while rows of A are found through a table of addresses. What leaves
# the registers is a result:
#
# - ``i``: these sums
# - ``f``, ``d``: float32 or float64, the sum times ``scale[j]``; if ``k`` follows the letter, times ``factor_i``, if
#   ``b`` follows, plus ``bias[j]``; each step rounded
# - ``b``, ``h``: codes of 8 or 16 bits, ``clip(round(sum * scale[j]) + zero point, low, high)``
# - ``t``: bits, ``(sum >= scale[j]) != (bias[j] != 0)``
#
# The product ``.`` depends on the element:
#
# - ``binary``: 32 bits each; the number of bits that differ, and ``times`` is -2. (+-1 as bits 1 and 0: the sum of
#   products is 32 less twice that number.)
# - ``int8``: 4 unsigned bytes of A, each less ``offset()``, and 4 signed ones of B; the sum of their products.
# - ``int16``: 2 signed numbers each; the sum of their products.
#
# Sums of products are exact as long as they fit 32 bits. Every lane of a register is a column, and A is broadcast; so
# nothing is added across lanes, and the three differ only in one or two instructions.
#
# Source: W. Mula, N. Kurz, D. Lemire, "Faster Population Counts Using AVX2 Instructions", 2017, arXiv:1611.07612.

WORD = 4  # bytes
BYTES = {"i": 4, "f": 4, "d": 8, "b": 1, "h": 2}  # of a number of each result but bits

# every argument is a 64-bit integer; addresses and steps are in bytes
INTEGER_ARGUMENTS = (
    "table",  # address of the entries, each ROW_SLOTS addresses of rows
    "entries",  # how many, at least 1
    "words",  # of a row of each entry, at least 1
    "move",  # added to the address of every row
    "b",  # address of B: [entry][word][column], whole vectors
    "starts",  # address of the table of the addresses of start_i, whole vectors
    "starts_step",  # added to the address of every start
    "c",  # address of the table of the row addresses of C
    "c_step",  # added to the address of every row of C
    "tail",  # columns of the last vector of C that exist, 1..lanes
    "scale",  # address of that of the first column of C; int32 for bits
    "bias",  # address of that of the first column of C; for codes: of zero point, low and high, float32
    "factors",  # address of the table of the addresses of each row's factor
)

# Rows of the tile with 1, 2, ... vectors of columns, with 32 registers and with 16.
_INTEGER_ROWS_OF_32, _INTEGER_ROWS_OF_16 = (8, 8, 8, 6), (8, 6)


def instructions(element: str) -> str:
    """The CPU's method for a product: "bits" or "bytes" (counted), "dot", "sdot", "pairs" (of int16), or "lanes"."""
    if element == "binary":
        return "bits" if counts_bits() else "bytes"
    if adds_products():
        return "dot"
    if machine() in ("x86_64", "AMD64"):
        return "pairs"
    return "sdot" if element == "int8" and "+dotprod" in cpu()[1].split(",") else "lanes"


def offset(element: str) -> int:
    """The offset subtracted from each number of A: 128 where both factors have to be signed bytes, else 0."""
    return 128 if instructions(element) == "sdot" else 0


@cache
def integer_tile(columns: int) -> Tile:
    """The tile for ``columns``, all of whose vectors are whole."""
    rows = _INTEGER_ROWS_OF_32 if registers() == 32 else _INTEGER_ROWS_OF_16
    lanes = integer_bytes() // WORD
    total = -(-max(columns, 1) // lanes)
    vectors = -(-total // -(-total // len(rows)))
    return Tile(rows[vectors - 1], vectors, lanes, total * lanes)


@cache
def integer_micro(result: str, element: str, rows: int, vectors: int, masked: bool = False) -> int:
    """Address of the micro-kernel for a tile of ``rows`` x ``vectors``, compiled on first use.

    Parameters are those of ``micro``; nothing is ever masked. Bits need 8 lanes.
    """
    kind = instructions(element)
    name = f"dot_{element}_{kind}_{result}_{rows}x{vectors}"

    def compile() -> bytes:
        from .compiler import emit
        from .integer_microkernel_jit import build

        return b"\n" + emit(build(name, result, element, kind, rows, vectors), name)

    return load(name, compile)[0]


# ---- A matrix product in tiles and panels, as plans describe it -----------------------------------------------------
# The rows of the result are cut into tiles of at most as many rows as stay in registers, all of about the same height;
# the columns into panels, of which the last one may be narrower. ``microkernel_jit`` walks over them.

TASK_WORK = 500_000  # multiply-adds that are worth a separate task, if it copies, packs or sums up anything of its own
SMALL_TASK_WORK = 125_000  # the same for tasks that share what was prepared, 1 to 2 us
MOST_TASKS = 32
_SUMS = 8  # of a tile, at least: two multiply-adds begin in a cycle, and a sum waits four for the term before
_HEIGHTS = 32  # more than the rows of any tile

PRODUCT = record(
    row=1,  # bytes of a row of a panel
    panels=1,
    columns=1,
    lanes=1,
    tail=1,  # columns of the last vector of a panel, and of the last panel
    tiles=1,
    least=1,
    extra=1,  # the first ``extra`` tiles have ``least + 1`` rows, the others ``least``
    whole=_HEIGHTS,
    last=_HEIGHTS,  # micro-kernels by their rows: of a whole panel, and of the last one
)


def product(
    dtype: str,
    form: str,
    shape: Tile,
    heights: Iterable[int],
    masked: bool = False,
    cut: tuple[int, int, int] = (0, 0, 0),
    of: Callable[[str, str, int, int, bool], int] = micro,
) -> np.ndarray:
    """A product whose tiles may have these ``heights``; the kernel cuts its rows, unless ``cut`` is given.

    ``masked``: nothing past the end of the last panel is read. ``of`` gives the micro-kernels.
    """
    whole, last = [0] * _HEIGHTS, [0] * _HEIGHTS
    for rows in heights:
        if shape.paired:
            last[rows] = of(dtype, f"{form}_pairs", rows, 1, False)
        else:
            last[rows] = of(dtype, form, rows, shape.last_vectors, masked and shape.tail != shape.lanes)
        if shape.panels > 1:
            whole[rows] = of(dtype, form, rows, shape.vectors, False)
    tiles, least, extra = cut
    return PRODUCT.pack(
        row=shape.width * (4 if dtype == "f" else 8),
        panels=shape.panels,
        columns=shape.columns,
        lanes=shape.lanes,
        tail=shape.tail,
        tiles=tiles,
        least=least,
        extra=extra,
        whole=whole,
        last=last,
    )


def task_count(work: int, each: int, most: int = MOST_TASKS) -> int:
    """The number of tasks for some work, one for every ``each``: two threads, or four, get equal shares."""
    wanted = max(1, min(MOST_TASKS, work // each))
    step = 4 if wanted > 4 else 2 if wanted > 1 else 1
    return max(1, min(most, -(-wanted // step) * step))


def heights_of(rows: int, most: int) -> set[int]:
    """The heights of the tiles when ``rows`` are cut evenly into tiles of at most ``most``."""
    tiles = -(-rows // most)
    return {rows // tiles, -(-rows // tiles)} if rows else set()


def even_product(
    dtype: str,
    form: str,
    shape: Tile,
    rows: int,
    masked: bool = False,
    of: Callable[[str, str, int, int, bool], int] = micro,
    shared: bool = False,
) -> np.ndarray:
    """A product of ``rows`` rows, at least 1, cut into tiles of about the same height.

    ``shared``: threads share the tiles. Instead of a small odd number of them, there is one more, unless the sums of a
    lower tile would wait for each other.
    """
    tiles = -(-rows // shape.rows)
    if shared and tiles in (3, 5, 7) and rows // (tiles + 1) * shape.last_vectors >= _SUMS:
        tiles += 1
    heights = {rows // tiles, -(-rows // tiles)}
    return product(dtype, form, shape, heights, masked, (tiles, rows // tiles, rows % tiles), of)
