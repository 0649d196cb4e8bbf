"""The building block of products of small integers: sums of products of 32-bit words that hold several of them.

``C[i, j] = start_i[j] + times * sum over entries e, words k of A_e[i, k] . B_e[k, j]`` as int32: as in
``microkernel.py`` a tile of C stays in registers while rows of A are found through a table of addresses. What leaves
the registers is a result:

- ``i``: these sums
- ``f``, ``d``: float32 or float64, the sum times ``scale[j]``; with ``k`` behind the letter times ``factor_i``, with
  ``b`` plus ``bias[j]``; each step rounded
- ``b``, ``h``: codes of 8 or 16 bits, ``clip(round(sum * scale[j]) + zero point, low, high)``
- ``t``: bits, ``(sum >= scale[j]) != (bias[j] != 0)``

What ``.`` is depends on the element:

- ``binary``: 32 bits each; the number of bits that differ, and ``times`` is -2. (+-1 as bits 1 and 0: the sum of
  products is 32 less twice that number.)
- ``int8``: 4 unsigned bytes of A, each less ``offset()``, and 4 signed ones of B; the sum of their products.
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
    "bias",  # likewise; for codes: of zero point, low and high, float32
    "factors",  # address of the table of the addresses of each row's factor
)

# Rows of the tile with 1, 2, ... vectors of columns, with 32 registers and with 16.
_ROWS_OF_32, _ROWS_OF_16 = (8, 8, 8, 6), (8, 6)


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
    rows = _ROWS_OF_32 if registers() == 32 else _ROWS_OF_16
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
        from .integer_jit import build

        return b"\n" + emit(build(name, result, element, kind, rows, vectors), name)

    return load(name, compile)[0]
