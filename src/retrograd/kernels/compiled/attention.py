"""Scaled dot-product attention, block by block, and the plan of its blocks.

A task processes as many queries as one or several panels of the micro-kernel have columns, over blocks of keys. It
keeps the scores transposed, one row per key. So the values of a query (maximum, sum, upstream product) are a lane of a
register, and all products read their operands in place, except the queries (and the upstream gradient), which a task
packs once. The gradient recomputes the scores from the logarithm of their sum, which the forward pass saves.

Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, arXiv:1805.02867; T. Dao et al.,
"FlashAttention", 2022, arXiv:2205.14135.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .machine.launch import kernel
from .machine.microkernel import MOST_ROWS, PRODUCT, Tile, product, registers, tile
from .machine.prepared import prepared
from .machine.record import record
from .machine.scratch import per_thread
from .memory.layout import Shape
from .memory.packing import whole_steps, zeros_of

__all__ = ["attention", "attention_grad"]


# ---- Plans that divide attention into blocks ------------------------------------------------------------------------

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
_TOGETHER = 4, 3, 2, 1  # panels of queries in a block: narrow ones take more tables and more surplus rows
_OF_BLOCK = 0.1  # cost of a block besides its columns, in panels
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
    needs_grad: tuple[bool, bool, bool],
) -> Plan:
    (_, heads, queries, depth), (_, key_heads, keys, value_depth) = q, v
    shape = tile(dtype, "rows", queries)
    if causal:  # a block computes the scores of all keys up to its last query: narrow blocks skip more of the others
        shape = tile(dtype, "rows", queries, max(1, min(4, queries // (_CAUSAL_BLOCKS * shape.lanes))))
    together = 1 if causal or registers() == 32 else min(_TOGETHER, key=lambda panels: _cost_of_block(shape, panels))
    width, key_block = together * shape.width, min(_KEY_BLOCK, keys)
    names = "q", "k", "v", "y", "g", "gq", "gk", "gv"
    arrays = dict(zip(names, [*steps, *[(0, 0, 0)] * (len(names) - len(steps))], strict=True))
    whole = Tile(shape.rows, shape.vectors, shape.lanes, width)
    products = {
        name: _product(dtype, form, tile(dtype, form, columns), True) if used else [0] * ROW_PRODUCT.words
        for name, columns, form, used in (
            ("into_query", depth, "near", needs_grad[0]),
            ("into_key", depth, "rows", needs_grad[1]),
            ("into_value", value_depth, "rows", needs_grad[2]),
            ("output", value_depth, "near", not any(needs_grad)),
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
        want_query=needs_grad[0],
        want_key=needs_grad[1],
        want_value=needs_grad[2],
        bias=bias or (0, 0, 0, 0),
        scores=_product(dtype, "rows", whole, False),
        **arrays,
        **products,
        **places,
    )
    return Plan(words, -(-queries // width), place, widest)


def _cost_of_block(shape: Tile, together: int) -> float:
    """The estimated cost of all blocks of so many panels, in panels."""
    blocks = -(-shape.panels // together)
    return blocks * (together + _OF_BLOCK)


def _product(dtype: str, form: str, shape: Tile, masked: bool) -> np.ndarray:
    words = product(dtype, form, shape, [shape.rows], masked)
    return ROW_PRODUCT.pack(rows=shape.rows, near=form == "near", product=words)


# ---- Scaled dot-product attention, block by block: the full score matrix is never in memory -------------------------

_FORWARD, _BACKWARD = kernel("attention.attention"), kernel("attention.attention_grad")


@prepared
def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray | None, scale: float, causal: bool
) -> tuple[np.ndarray, np.ndarray]:
    batch, heads, queries, _ = q.shape
    q, k, v = _rows(q), _rows(k), _rows(v)
    y = _empty_like_rows(q, v.shape[3])
    log_sum = np.empty((batch, heads, queries), q.dtype, like=q)
    if 0 in (*q.shape, *k.shape, *v.shape):
        y[...], log_sum[...] = 0, 0
        return y, log_sum
    bias, bias_steps = _by_query(bias, q)
    arrays = (q, k, v, y)
    plan = plan_attention(
        q.shape, k.shape, v.shape, tuple(_steps(a) for a in arrays), bias_steps, causal, q.dtype.char, (False,) * 3
    )
    _FORWARD[q.dtype.char](
        batch * heads * plan.blocks,
        q,
        k,
        v,
        bias,
        y,
        log_sum,
        plan.words,
        per_thread(plan.scratch, q.dtype.char),
        plan.scratch,
        per_thread(2 * MOST_ROWS, "i8"),
        zeros_of(plan.widest, q.dtype.char),
        scale,
    )
    return y, log_sum


@prepared
def attention_grad(
    g: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    y: np.ndarray,
    log_sum: np.ndarray,
    bias: np.ndarray | None,
    scale: float,
    causal: bool,
    needs_grad: tuple[bool, bool, bool],
) -> tuple[np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    q, k, v, y, g = (_rows(a) for a in (q, k, v, y, g))
    gradients = [_empty_like_rows(a, a.shape[3]) for a in (q, k, v)]
    if 0 in (*q.shape, *k.shape, *v.shape):
        for gradient in gradients:
            gradient[...] = 0
    else:
        bias, bias_steps = _by_query(bias, q)
        steps = tuple(_steps(a) for a in (q, k, v, y, g, *gradients))
        plan = plan_attention(q.shape, k.shape, v.shape, steps, bias_steps, causal, q.dtype.char, needs_grad)
        _BACKWARD[q.dtype.char](
            k.shape[0] * k.shape[1],
            q,
            k,
            v,
            bias,
            y,
            np.ascontiguousarray(log_sum, like=log_sum),
            g,
            *gradients,
            plan.words,
            per_thread(plan.scratch, q.dtype.char),
            plan.scratch,
            per_thread(2 * MOST_ROWS, "i8"),
            zeros_of(plan.widest, q.dtype.char),
            scale,
        )
    gq, gk, gv = (gradient if needed else None for gradient, needed in zip(gradients, needs_grad, strict=True))
    return gq, gk, gv


def _rows(x: np.ndarray) -> np.ndarray:
    """``x`` if its last axis is contiguous, else a copy."""
    if x.strides[3] == x.itemsize and whole_steps(x.strides, x.itemsize):
        return x
    return np.ascontiguousarray(x, like=x)


def _empty_like_rows(x: np.ndarray, last: int) -> np.ndarray:
    """A new array (B, H, L, last) with the axes B, H, L in the memory order of ``x``."""
    order = sorted(range(3), key=lambda axis: -x.strides[axis])
    memory = np.empty((*(x.shape[axis] for axis in order), last), x.dtype, like=x)
    return memory.transpose(*(order.index(axis) for axis in range(3)), 3)


def _steps(x: np.ndarray) -> tuple[int, ...]:
    return tuple(stride // x.itemsize for stride in x.strides[:3])


def _by_query(bias: np.ndarray | None, q: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """The bias as the kernel reads it, contiguous or broadcast along queries, and its steps; None: four zeros."""
    if bias is None:
        return q, ()
    own = bias[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in bias.strides)]  # without repeats
    if own.shape[2] > 1:
        own = np.ascontiguousarray(own.swapaxes(2, 3), like=own).swapaxes(2, 3)
    elif not whole_steps(own.strides, own.itemsize):
        own = np.ascontiguousarray(own, like=own)
    steps = [
        0 if extent == 1 else stride // own.itemsize for extent, stride in zip(own.shape, own.strides, strict=True)
    ]
    return own, tuple(steps)
