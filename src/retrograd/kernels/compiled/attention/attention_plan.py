"""Plans that divide attention into blocks: integers only, made once per shape and read by attention_jit.py."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..machine.microkernel import MOST_ROWS, Tile, tile
from ..machine.product import PRODUCT, product
from ..machine.record import record
from ..memory.arrays import Shape

ROW_PRODUCT = record(  # all tiles have the same number of rows
    rows=1,
    near=1,  # 1: A is read down its columns
    product=PRODUCT.words,
)
ATTENTION = record(  # steps are in elements
    size=1,  # bytes of an element
    width=1,
    key_block=1,  # queries and keys of a block
    heads=1,
    group=1,  # query heads, and query heads per key head
    queries=1,
    keys=1,
    depth=1,
    value_depth=1,
    causal=1,
    biased=1,
    want_query=1,
    want_key=1,
    want_value=1,
    q=3,
    k=3,
    v=3,
    y=3,
    g=3,
    gq=3,
    gk=3,
    gv=3,  # steps of batch, head, row
    bias=4,  # steps of batch, head, query (0 or 1), key
    scores=ROW_PRODUCT.words,
    into_query=ROW_PRODUCT.words,
    into_key=ROW_PRODUCT.words,
    into_value=ROW_PRODUCT.words,
    output=ROW_PRODUCT.words,
    # offsets in scratch memory
    packed=1,
    upstream=1,
    probability=1,
    slope=1,
    rows_of_queries=1,
    nowhere=1,
)

Steps = tuple[int, ...]
_CAUSAL_BLOCKS = 4  # of queries, if their width permits
_KEY_BLOCK = 96  # a multiple of the rows of all tiles but one; the scores of a block fit into L1


class Plan(NamedTuple):
    words: np.ndarray
    blocks: int  # of queries
    scratch: int  # elements per thread
    widest: int  # columns of a product


@lru_cache(maxsize=1024)
def plan_attention(
    q: Shape,
    k: Shape,
    v: Shape,
    steps: tuple[Steps, ...],
    bias: tuple[int, ...],
    causal: bool,
    dtype: str,
    wanted: tuple[bool, bool, bool],
) -> Plan:
    (_, heads, queries, depth), (_, key_heads, keys, value_depth) = q, v
    shape = tile(dtype, "rows", queries)
    if causal:  # a block computes the scores of all keys up to its last query: narrow blocks skip more of the others
        shape = tile(dtype, "rows", queries, max(1, min(4, queries // (_CAUSAL_BLOCKS * shape.lanes))))
    width, key_block = shape.width, min(_KEY_BLOCK, keys)
    names = "q", "k", "v", "y", "g", "gq", "gk", "gv"
    arrays = dict(zip(names, [*steps, *[(0, 0, 0)] * (len(names) - len(steps))], strict=True))
    whole = Tile(shape.rows, shape.vectors, shape.lanes, width)
    products = {
        name: _product(dtype, form, tile(dtype, form, columns), True) if used else [0] * ROW_PRODUCT.words
        for name, columns, form, used in (
            ("into_query", depth, "near", wanted[0]),
            ("into_key", depth, "rows", wanted[1]),
            ("into_value", value_depth, "rows", wanted[2]),
            ("output", value_depth, "near", not any(wanted)),
        )
    }
    widest = max(width, depth, value_depth) + shape.lanes
    places, place = {}, 0
    for name, elements in (
        ("packed", depth * width),
        ("upstream", value_depth * width),
        # a tile may read a few elements past the last row of its operand
        ("probability", key_block * width + MOST_ROWS),
        ("slope", key_block * width + MOST_ROWS),
        ("rows_of_queries", 4 * width),
        ("nowhere", widest),
    ):
        places[name] = place
        place += -(-elements // 16) * 16
    words = ATTENTION.pack(
        size=4 if dtype == "f" else 8,
        width=width,
        key_block=key_block,
        heads=heads,
        group=heads // key_heads,
        queries=queries,
        keys=keys,
        depth=depth,
        value_depth=value_depth,
        causal=causal,
        biased=bool(bias),
        want_query=wanted[0],
        want_key=wanted[1],
        want_value=wanted[2],
        bias=bias or (0, 0, 0, 0),
        scores=_product(dtype, "rows", whole, False),
        **arrays,
        **products,
        **places,
    )
    return Plan(words, shape.panels, place, widest)


def _product(dtype: str, form: str, shape: Tile, masked: bool) -> np.ndarray:
    words = product(dtype, form, shape, [shape.rows], masked)
    return ROW_PRODUCT.pack(rows=shape.rows, near=form == "near", product=words)
