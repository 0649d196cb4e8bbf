"""How an attention is cut into blocks: integers only, made once per shape and read by compiled/attention.py."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .arrays import Shape
from .microkernel import MOST_ROWS, Tile, micro, tile

# steps are in elements
SIZE, WIDTH, KEY_BLOCK = 0, 1, 2  # bytes of an element; queries and keys of a block
HEADS, GROUP, QUERIES, KEYS, DEPTH, VALUE_DEPTH = 3, 4, 5, 6, 7, 8  # GROUP: heads of the queries per head of the keys
CAUSAL, BIASED = 9, 10
WANT_QUERY, WANT_KEY, WANT_VALUE = 11, 12, 13
STEPS = 14  # of batch, head, row: q, k, v, y, g, gq, gk, gv
BIAS = 38  # steps of batch, head, query (0 or 1), key
SCORES, INTO_QUERY, INTO_KEY, INTO_VALUE, OUTPUT = 42, 49, 56, 63, 70  # products, see _product
PACKED, UPSTREAM, PROBABILITY, SLOPE, ROWS_OF_QUERIES, NOWHERE = 77, 78, 79, 80, 81, 82  # places in scratch memory

_KEY_BLOCK = 96  # a multiple of the rows of all tiles but one; the scores of a block fit into the first cache


class Plan(NamedTuple):
    words: np.ndarray
    blocks: int  # of queries
    scratch: int  # elements per thread
    widest: int  # columns of a product


@lru_cache(maxsize=1024)
def plan_attention(
    q: Shape, k: Shape, v: Shape, steps: tuple[tuple[int, ...], ...], bias: tuple[int, ...], causal: bool, dtype: str,
    wanted: tuple[bool, bool, bool],
) -> Plan:  # fmt: skip
    (_, heads, queries, depth), (_, key_heads, keys, value_depth) = q, v
    shape = tile(dtype, "rows", queries)
    width, key_block = shape.width, min(_KEY_BLOCK, keys)
    words = [4 if dtype == "f" else 8, width, key_block]
    words += [heads, heads // key_heads, queries, keys, depth, value_depth, causal, bool(bias), *wanted]
    for place in range(8):
        words += steps[place] if place < len(steps) else (0, 0, 0)
    words += bias or (0, 0, 0, 0)
    whole = Tile(shape.rows, shape.vectors, shape.lanes, width)
    words += _product(dtype, "rows", whole, False)
    for columns, form, used in (
        (depth, "near", wanted[0]),
        (depth, "rows", wanted[1]),
        (value_depth, "rows", wanted[2]),
        (value_depth, "near", not any(wanted)),
    ):
        words += _product(dtype, form, tile(dtype, form, columns), True) if used else [0] * 7
    # a tile may read a few elements behind the last row of what it multiplies
    sizes = [depth * width, value_depth * width, key_block * width + MOST_ROWS, key_block * width + MOST_ROWS]
    widest = max(width, depth, value_depth) + shape.lanes
    sizes += [4 * width, widest]
    place = 0
    for size in sizes:
        words.append(place)
        place += -(-size // 16) * 16
    return Plan(np.array(words, np.int64), shape.panels, place, widest)


def _product(dtype: str, form: str, shape: Tile, masked: bool) -> list[int]:
    """Words of a product: micro-kernels of a whole panel and of the last, rows, panels, width, tail, form."""
    guarded = masked and shape.tail != shape.lanes
    first = micro(dtype, form, shape.rows, shape.vectors) if shape.panels > 1 else 0
    last = micro(dtype, form, shape.rows, shape.last_vectors, guarded)
    return [first, last, shape.rows, shape.panels, shape.width, shape.tail, int(form == "near")]
