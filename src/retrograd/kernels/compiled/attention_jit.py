# mypy: ignore-errors
"""One task of attention. Its plan is made in attention.py.

Scores, probabilities and slopes (the gradients of the scores) of a block are transposed in scratch memory: a row per
key, the queries contiguous.
"""

from __future__ import annotations

from .attention import ATTENTION, ROW_PRODUCT
from .machine.compiler import Array, Table, helper
from .machine.microkernel import MOST_ROWS, PRODUCT
from .machine.microkernel_jit import NO_FINISH, multiply_panels
from .machine.simd import address, counting, full, lanes, load, load_first, offset, select, store, store_first, total
from .math.elementary_jit import exp_negative, log
from .memory.packing_jit import pack_block

_INFINITY = float("inf")


@helper
def _product(  # type: ignore[no-untyped-def]
    plan, at, table, a, a_step, count, depth, b, b_step, c, c_step, nowhere, init, accumulate
):
    """``C[i, :] (+)= sum over k of A[i, k] B[k, :]`` for ``count`` rows; addresses and steps in bytes.

    ``a_step``: from row to row of A or, in the near form, from k to k. If the last tile has fewer rows than the
    micro-kernel, some are computed twice, or surplus ones go into ``nowhere``.
    """
    product, size = offset(plan, at + ROW_PRODUCT.product), plan[ATTENTION.size]
    rows, near = plan[at + ROW_PRODUCT.rows], plan[at + ROW_PRODUCT.near]
    lda = a_step if near == 1 else 0
    table[1] = 0
    for first in range(0, count, rows):
        for i in range(rows):
            table[MOST_ROWS + i] = c + (first + i) * c_step if first + i < count else nowhere
        if near == 1:
            table[0] = a + first * size
        else:
            for i in range(rows):
                table[i] = a + min(first + i, count - 1) * a_step
        multiply_panels(
            product,
            rows,
            0,
            product[PRODUCT.panels],
            address(table),
            1,
            depth,
            lda,
            b,
            product[PRODUCT.row],
            0,
            b_step,
            address(offset(table, MOST_ROWS)),
            init,
            accumulate,
            NO_FINISH,
        )


@helper
def _start(plan, array, n, head):  # type: ignore[no-untyped-def]
    """Start of the rows of a head of an array, and the step from row to row."""
    return n * plan[array] + head * plan[array + 1], plan[array + 2]


@helper
def _mask(scratch, at, width, bias, plan, n, head, first, count, key, keys):  # type: ignore[no-untyped-def]
    """Add the bias to a block of scores, and -inf where a query must not attend to a key."""
    if plan[ATTENTION.biased] == 1:
        begin = n * plan[ATTENTION.bias] + head * plan[ATTENTION.bias + 1] + first * plan[ATTENTION.bias + 2]
        for row in range(keys):
            source = begin + (key + row) * plan[ATTENTION.bias + 3]
            for j in range(0, width, lanes(scratch)):
                place = at + row * width + j
                if plan[ATTENTION.bias + 2] == 0:
                    store(scratch, place, load(scratch, place) + bias[source])
                elif j < count:
                    store(scratch, place, load(scratch, place) + load_first(bias, source + j, count - j))
    if plan[ATTENTION.causal] == 1 and key + keys - 1 > first:
        for row in range(max(0, first + 1 - key), keys):
            for j in range(0, width, lanes(scratch)):
                place = at + row * width + j
                seen = counting(scratch) >= key + row - first - j
                store(scratch, place, select(seen, load(scratch, place), -_INFINITY))


@helper
def _keys_seen(plan, first, count):  # type: ignore[no-untyped-def]
    """The number of keys that a block of queries attends to."""
    return min(plan[ATTENTION.keys], first + count) if plan[ATTENTION.causal] == 1 else plan[ATTENTION.keys]


@helper
def _pack(x, begin, step, count, depth, factor, scratch, at, width):  # type: ignore[no-untyped-def]
    """The transpose of some rows, times ``factor``."""
    pack_block(x, begin, 1, step, depth, count, scratch, at, width)
    if factor != 1.0:
        for i in range(at, at + depth * width, lanes(scratch)):
            store(scratch, i, load(scratch, i) * factor)


@helper
def _times(x, at, count, factor):  # type: ignore[no-untyped-def]
    for e in range(0, count, lanes(x)):
        store_first(x, at + e, load_first(x, at + e, count - e) * factor, count - e)


def attention(
    task: int,
    worker: int,
    q: Array,
    k: Array,
    v: Array,
    bias: Array,
    y: Array,
    log_sum: Array,
    plan: Table,
    scratch: Array,
    scratch_words: int,
    tables: Table,
    zeros: Array,
    scale: float,
) -> None:
    """One block of queries of one head."""
    size, width, heads = plan[ATTENTION.size], plan[ATTENTION.width], plan[ATTENTION.heads]
    depth, value_depth, queries = plan[ATTENTION.depth], plan[ATTENTION.value_depth], plan[ATTENTION.queries]
    blocks = (queries + width - 1) // width
    place = task // blocks
    first = (task - place * blocks) * width
    n = place // heads
    head = place - n * heads
    count = min(width, queries - first)
    own, table = worker * scratch_words, offset(tables, worker * 2 * MOST_ROWS)
    packed, scores = own + plan[ATTENTION.packed], own + plan[ATTENTION.probability]
    top = own + plan[ATTENTION.rows_of_queries]
    sums, shrunk = top + width, top + 2 * width
    nowhere, init = address(offset(scratch, own + plan[ATTENTION.nowhere])), address(zeros)
    q_at, q_step = _start(plan, ATTENTION.q, n, head)
    k_at, k_step = _start(plan, ATTENTION.k, n, head // plan[ATTENTION.group])
    v_at, v_step = _start(plan, ATTENTION.v, n, head // plan[ATTENTION.group])
    y_at, y_step = _start(plan, ATTENTION.y, n, head)
    y_at += first * y_step
    _pack(q, q_at + first * q_step, q_step, count, depth, scale, scratch, packed, width)
    for j in range(0, width, lanes(q)):
        store(scratch, top + j, full(q, -_INFINITY))
        store(scratch, sums + j, full(q, 0.0))
    seen = _keys_seen(plan, first, count)
    for key in range(0, seen, plan[ATTENTION.key_block]):
        keys = min(plan[ATTENTION.key_block], seen - key)
        _product(
            plan,
            ATTENTION.scores,
            table,
            address(k) + (k_at + key * k_step) * size,
            k_step * size,
            keys,
            depth,
            address(offset(scratch, packed)),
            width * size,
            address(offset(scratch, scores)),
            width * size,
            nowhere,
            init,
            0,
        )
        _mask(scratch, scores, width, bias, plan, n, head, first, count, key, keys)
        changed = 0
        for j in range(0, width, lanes(q)):
            before = load(scratch, top + j)
            largest = before
            end = scores + j + keys * width
            for at in range(scores + j, end, width):
                s = load(scratch, at)
                largest = select(s > largest, s, largest)
            shift = select(largest == -_INFINITY, 0.0, largest)
            less = exp_negative(before - shift)
            s = full(q, 0.0)
            for at in range(scores + j, end, width):
                p = exp_negative(load(scratch, at) - shift)
                store(scratch, at, p)
                s = s + p
            store(scratch, top + j, largest)
            store(scratch, sums + j, load(scratch, sums + j) * less + s)
            store(scratch, shrunk + j, less)
        if key > 0:
            for m in range(count):
                if scratch[shrunk + m] != 1.0:
                    changed += 1
                    _times(y, y_at + m * y_step, value_depth, scratch[shrunk + m])
        _product(
            plan,
            ATTENTION.output,
            table,
            address(offset(scratch, scores)),
            width * size,
            count,
            keys,
            address(v) + (v_at + key * v_step) * size,
            v_step * size,
            address(y) + y_at * size,
            y_step * size,
            nowhere,
            init,
            1 if key > 0 else 0,
        )
    for j in range(0, count, lanes(q)):
        s, largest = load(scratch, sums + j), load(scratch, top + j)
        nothing = s == 0.0
        s = select(nothing, 1.0, s)
        store(scratch, sums + j, select(nothing, 0.0, 1.0 / s))
        at = (n * heads + head) * queries + first + j
        store_first(log_sum, at, select(nothing, 0.0, largest + log(s)), count - j)
    for m in range(count):
        _times(y, y_at + m * y_step, value_depth, scratch[sums + m])


@helper
def _clear_rows(x, at, step, rows, columns):  # type: ignore[no-untyped-def]
    for _ in range(rows):
        for e in range(0, columns, lanes(x)):
            store_first(x, at + e, full(x, 0.0), columns - e)
        at += step


def attention_grad(
    task: int,
    worker: int,
    q: Array,
    k: Array,
    v: Array,
    bias: Array,
    y: Array,
    log_sum: Array,
    g: Array,
    gq: Array,
    gk: Array,
    gv: Array,
    plan: Table,
    scratch: Array,
    scratch_words: int,
    tables: Table,
    zeros: Array,
    scale: float,
) -> None:
    """One head of the keys with all its query heads; blocks of queries, and of keys, in order."""
    size, width = plan[ATTENTION.size], plan[ATTENTION.width]
    heads, group = plan[ATTENTION.heads], plan[ATTENTION.group]
    depth, value_depth, queries = plan[ATTENTION.depth], plan[ATTENTION.value_depth], plan[ATTENTION.queries]
    want_q, want_k, want_v = plan[ATTENTION.want_query], plan[ATTENTION.want_key], plan[ATTENTION.want_value]
    n = task // (heads // group)
    key_head = task - n * (heads // group)
    own, table = worker * scratch_words, offset(tables, worker * 2 * MOST_ROWS)
    packed, upstream = own + plan[ATTENTION.packed], own + plan[ATTENTION.upstream]
    scores, slopes = own + plan[ATTENTION.probability], own + plan[ATTENTION.slope]
    met, logs = own + plan[ATTENTION.rows_of_queries], own + plan[ATTENTION.rows_of_queries] + width
    nowhere, init = address(offset(scratch, own + plan[ATTENTION.nowhere])), address(zeros)
    packed_at, upstream_at = address(offset(scratch, packed)), address(offset(scratch, upstream))
    scores_at, slopes_at = address(offset(scratch, scores)), address(offset(scratch, slopes))
    row = width * size
    k_at, k_step = _start(plan, ATTENTION.k, n, key_head)
    v_at, v_step = _start(plan, ATTENTION.v, n, key_head)
    gk_at, gk_step = _start(plan, ATTENTION.gk, n, key_head)
    gv_at, gv_step = _start(plan, ATTENTION.gv, n, key_head)
    if want_k == 1:
        _clear_rows(gk, gk_at, gk_step, plan[ATTENTION.keys], depth)
    if want_v == 1:
        _clear_rows(gv, gv_at, gv_step, plan[ATTENTION.keys], value_depth)
    for head in range(key_head * group, (key_head + 1) * group):
        for first in range(0, queries, width):
            count = min(width, queries - first)
            q_at, q_step = _start(plan, ATTENTION.q, n, head)
            y_at, y_step = _start(plan, ATTENTION.y, n, head)
            g_at, g_step = _start(plan, ATTENTION.g, n, head)
            gq_at, gq_step = _start(plan, ATTENTION.gq, n, head)
            q_at += first * q_step
            g_at += first * g_step
            gq_at += first * gq_step
            _pack(q, q_at, q_step, count, depth, scale, scratch, packed, width)
            _pack(g, g_at, g_step, count, value_depth, 1.0, scratch, upstream, width)
            for m in range(width):
                scratch[met + m] = 0.0
            for m in range(count):
                s = full(g, 0.0)
                for e in range(0, value_depth, lanes(g)):
                    left = value_depth - e
                    at = y_at + (first + m) * y_step + e
                    s = s + load_first(g, g_at + m * g_step + e, left) * load_first(y, at, left)
                scratch[met + m] = total(s)
            for j in range(0, width, lanes(g)):
                at = (n * heads + head) * queries + first + j
                store(scratch, logs + j, load_first(log_sum, at, max(0, count - j)))
            seen = _keys_seen(plan, first, count)
            for key in range(0, seen, plan[ATTENTION.key_block]):
                keys = min(plan[ATTENTION.key_block], seen - key)
                _product(
                    plan,
                    ATTENTION.scores,
                    table,
                    address(k) + (k_at + key * k_step) * size,
                    k_step * size,
                    keys,
                    depth,
                    packed_at,
                    row,
                    scores_at,
                    row,
                    nowhere,
                    init,
                    0,
                )
                _mask(scratch, scores, width, bias, plan, n, head, first, count, key, keys)
                if want_q + want_k > 0:
                    _product(
                        plan,
                        ATTENTION.scores,
                        table,
                        address(v) + (v_at + key * v_step) * size,
                        v_step * size,
                        keys,
                        value_depth,
                        upstream_at,
                        row,
                        slopes_at,
                        row,
                        nowhere,
                        init,
                        0,
                    )
                for j in range(0, width, lanes(g)):
                    own_sum, own_log = load(scratch, met + j), load(scratch, logs + j)
                    for i in range(j, j + keys * width, width):
                        p = exp_negative(load(scratch, scores + i) - own_log)
                        store(scratch, scores + i, p)
                        store(scratch, slopes + i, p * (load(scratch, slopes + i) - own_sum) * scale)
                if want_v == 1:
                    _product(
                        plan,
                        ATTENTION.into_value,
                        table,
                        scores_at,
                        row,
                        keys,
                        count,
                        address(g) + g_at * size,
                        g_step * size,
                        address(gv) + (gv_at + key * gv_step) * size,
                        gv_step * size,
                        nowhere,
                        init,
                        1,
                    )
                if want_k == 1:
                    _product(
                        plan,
                        ATTENTION.into_key,
                        table,
                        slopes_at,
                        row,
                        keys,
                        count,
                        address(q) + q_at * size,
                        q_step * size,
                        address(gk) + (gk_at + key * gk_step) * size,
                        gk_step * size,
                        nowhere,
                        init,
                        1,
                    )
                if want_q == 1:
                    _product(
                        plan,
                        ATTENTION.into_query,
                        table,
                        slopes_at,
                        row,
                        count,
                        keys,
                        address(k) + (k_at + key * k_step) * size,
                        k_step * size,
                        address(gq) + gq_at * size,
                        gq_step * size,
                        nowhere,
                        init,
                        1 if key > 0 else 0,
                    )
