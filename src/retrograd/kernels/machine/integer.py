"""The building block of products of small integers: sums of products of 32-bit words that hold several of them.

``C[i, j] = sum over entries e, words k of A_e[i, k] . B_e[k, j]`` as int32: as in ``microkernel.py`` a tile of C stays
in registers while rows of A are found through a table of addresses. What ``.`` is depends on the element:

- ``binary``: 32 bits each; the number of bits that differ. (+-1 as bits 1 and 0: the sum of products is 32 less twice
  that.)
- ``int8``: 4 unsigned bytes of A, 4 signed ones of B; the sum of their products less ``offset()`` times that of B.
- ``int16``: 2 signed numbers each; the sum of their products.

Sums of products are exact as long as they fit 32 bits. Every lane of a register is a column, and A is broadcast; so
nothing is added across lanes, and the three differ only in one or two instructions.

Source: W. Mula, N. Kurz, D. Lemire, "Faster Population Counts Using AVX2 Instructions", 2017, arXiv:1611.07612.
"""

from __future__ import annotations

from functools import cache
from platform import machine

from .launch import load
from .microkernel import Tile, registers
from .target import adds_products, counts_bits, cpu, integer_bytes

WORD = 4  # bytes

# every argument is a 64-bit integer; addresses and steps are in bytes
INTEGER_ARGUMENTS = (
    "table",  # address of the entries, each ROW_SLOTS addresses of rows
    "entries",  # how many, at least 1
    "words",  # of a row of each entry, at least 1
    "move",  # added to the address of every row
    "b",  # address of B: [entry][word][column]
    "c",  # address of C: [row][column], whole vectors
)

# Rows of the tile with 1, 2, ... vectors of columns, with 32 registers and with 16.
_ROWS_OF_32, _ROWS_OF_16 = (8, 8, 8, 6), (8, 6)


def instructions(element: str) -> str:
    """How the CPU computes a product: "bits" or "bytes" (counted), "dot", "pairs" (of int16), or "lanes"."""
    if element == "binary":
        return "bits" if counts_bits() else "bytes"
    if adds_products():
        return "dot"
    if machine() in ("x86_64", "AMD64"):
        return "pairs"
    return "sdot" if element == "int8" and "+dotprod" in cpu()[1].split(",") else "lanes"


def offset(element: str) -> int:
    """What is subtracted from each number of A: where both factors have to be signed bytes, 128."""
    return 128 if instructions(element) == "sdot" else 0


@cache
def integer_tile(element: str, columns: int) -> Tile:
    """The tile for ``columns``, all of whose vectors are whole."""
    rows = _ROWS_OF_32 if registers() == 32 else _ROWS_OF_16
    lanes = integer_bytes() // WORD
    total = -(-max(columns, 1) // lanes)
    vectors = -(-total // -(-total // len(rows)))
    return Tile(rows[vectors - 1], vectors, lanes, total * lanes)


@cache
def integer_micro(dtype: str, element: str, rows: int, vectors: int, masked: bool = False) -> int:
    """Address of the micro-kernel for a tile of ``rows`` x ``vectors``, compiled on first use.

    The parameters are those of ``micro``: sums are as wide as the type "f", and nothing is masked.
    """
    kind = instructions(element)
    name = f"dot_{element}_{kind}_{rows}x{vectors}"

    def compile() -> bytes:
        from .compiler import emit
        from .integer_jit import build

        return b"\n" + emit(build(name, element, kind, rows, vectors), name)

    return load(name, compile)[0]
