# mypy: ignore-errors
"""Kernels that combine arrays with the results of a reduction: gradients of reductions, normalization.

g and x are dense and seen as (outer, middle, inner); a, b, c and d belong to some of these axes and have step 0 along
the others. One loop is compiled for each function: operands that it does not use are not read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...formulas.normalization import about_mean, about_mean_grad
from .machine.compiler import Array, helper
from .machine.simd import ahead, both, either, full, lanes, load, load_first, select, store, store_first, until_aligned
from .math.elementary_jit import exp
from .pointwise_jit import register

Body = Callable[..., None]


@helper
def from_end(task: int, tasks: int, shares: int) -> int:
    """The task to run in place of this one: each thread's share is taken from its end.

    There the pass before ended, so that the cache still has what it read or wrote, and the same thread ran that part.
    """
    share = ((task + 1) * shares - 1) // tasks
    return share * tasks // shares + (share + 1) * tasks // shares - 1 - task


def _row(function: Callable[..., Any], large: int, moving: bool) -> Callable[..., None]:
    """z[k:last] = function(g, x, a, b, c, d); ``moving``: a to d have step 1 along the row, else 0."""

    @helper
    def part(g: Array, x: Array, a: Array, b: Array, c: Array, d: Array, z: Array, k: int, q: int, n: int) -> None:
        v_a, v_b, v_c, v_d = full(z, a[q]), full(z, b[q]), full(z, c[q]), full(z, d[q])
        if moving:
            v_a, v_b = load_first(a, q, n), load_first(b, q, n)
            v_c, v_d = load_first(c, q, n), load_first(d, q, n)
        store_first(z, k, function(load_first(g, k, n), load_first(x, k, n), v_a, v_b, v_c, v_d), n)

    @helper
    def row(g: Array, x: Array, a: Array, b: Array, c: Array, d: Array, z: Array, k: int, last: int, q: int) -> None:
        v_a, v_b, v_c, v_d = full(z, a[q]), full(z, b[q]), full(z, c[q]), full(z, d[q])
        if large == 0:  # stores across two cache lines are slower
            few = min(last - k, until_aligned(z, k))
            if few > 0:
                part(g, x, a, b, c, d, z, k, q, few)
            k += few
            q += few * moving
        while k + lanes(z) <= last:
            if large == 2:
                ahead(g, k)
            if large > 0:
                ahead(x, k)
            ahead(z, k)
            if moving:
                v_a, v_b, v_c, v_d = load(a, q), load(b, q), load(c, q), load(d, q)
                q += lanes(z)
            store(z, k, function(load(g, k), load(x, k), v_a, v_b, v_c, v_d))
            k += lanes(z)
        if k < last:
            part(g, x, a, b, c, d, z, k, q, last - k)

    return row


def _over_rows(function: Callable[..., Any], large: int = 1) -> Body:
    """z = function(g, x, a, b, c, d) of ``large`` large operands; the last row may be shorter than ``inner``."""
    moving, fixed = _row(function, large, True), _row(function, large, False)

    def body(
        task: int,
        worker: int,
        g: Array,
        x: Array,
        a: Array,
        b: Array,
        c: Array,
        d: Array,
        z: Array,
        n: int,
        inner: int,
        middle: int,
        rows_per_task: int,
        outer_step: int,
        middle_step: int,
        inner_step: int,
        shares: int,
    ) -> None:
        rows = (n + inner - 1) // inner
        row = from_end(task, (rows + rows_per_task - 1) // rows_per_task, shares) * rows_per_task
        last_row = min(rows, row + rows_per_task)
        o = row // middle
        m = row - o * middle
        while row < last_row:
            q = o * outer_step + m * middle_step
            k = row * inner
            if inner_step == 1:
                moving(g, x, a, b, c, d, z, k, min(n, k + inner), q)
            else:
                fixed(g, x, a, b, c, d, z, k, min(n, k + inner), q)
            row += 1
            m += 1
            if m == middle:
                m = 0
                o += 1

    return body


register(about_mean_grad)  # and what it calls
register(about_mean)


@helper
def _about_mean(g: Any, x: Any, mean: Any, factor: Any, shift: Any, d: Any) -> Any:
    return about_mean(x, mean, factor, shift)


@helper
def _ties(g: Any, x: Any, y: Any, gy: Any, c: Any, d: Any) -> Any:
    return select(either(x == y, both(x != x, y != y)), gy, 0.0)


@helper
def _exponential(g: Any, x: Any, y: Any, gy: Any, c: Any, d: Any) -> Any:
    return gy * exp(x - y)


@helper
def _signed(g: Any, x: Any, gy: Any, b: Any, c: Any, d: Any) -> Any:
    return select(x > 0.0, gy, select(x < 0.0, -gy, x * gy))  # the last is for 0 and NaN


@helper
def _first_reduced(g: Any, x: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    return a


normalize: Final = helper(_over_rows(_about_mean))
normalize_grad: Final = helper(_over_rows(about_mean_grad, 2))
ties: Final = _over_rows(_ties)
logsumexp_grad: Final = _over_rows(_exponential)
signed: Final = _over_rows(_signed)
spread: Final = _over_rows(_first_reduced, 0)
