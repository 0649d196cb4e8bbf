"""Matrix product through the batch-reduce micro-kernel."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from .launch import get_num_threads, kernel
from .layout import channels_last
from .matmul_plan import Product, plan_product
from .microkernel import MOST_ROWS
from .packing import whole_steps, zeros_of

__all__ = ["matmul"]

_multiply = kernel("matmul.multiply")
_SMALL_ROWS, _SMALL_BYTES = 48, 1 << 15  # up to so many rows of A or bytes of B, a copy of B costs more than it saves
_LARGE_A = 1 << 18  # bytes from which on a transposed A is copied if it is read often


@lru_cache(maxsize=4096)
def _plan(
    a_shape: tuple[int, ...], a_strides: tuple[int, ...], b_shape: tuple[int, ...], b_strides: tuple[int, ...],
    size: int,
) -> tuple[tuple[int, ...], Product]:  # fmt: skip
    """Batch shape of the result, and the plan."""
    rows, depth, columns = a_shape[-2], a_shape[-1], b_shape[-1]
    batch = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
    dtype = "f" if size == 4 else "d"
    form = "rows" if a_strides[-1] == size or depth == 1 else "dense"
    small = rows <= _SMALL_ROWS or depth * columns * size <= _SMALL_BYTES
    packing = b_strides[-1] != size or not small

    def offsets(lead: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
        """Offset in elements of the matrix that each product of the batch reads."""
        own = np.zeros(lead, np.int64)
        for axis, (extent, stride) in enumerate(zip(lead, strides, strict=False)):
            own += (np.arange(extent) * (stride // size)).reshape((extent,) + (1,) * (len(lead) - axis - 1))
        return [int(v) for v in np.broadcast_to(own, batch).ravel()]

    plan = plan_product(
        rows, columns, depth, form, (a_strides[-2] // size, a_strides[-1] // size),
        (b_strides[-2] // size, b_strides[-1] // size), packing, dtype,
        list(
            zip(
                offsets(a_shape[:-2], a_strides[:-2]), offsets(b_shape[:-2], b_strides[:-2]),
                range(0, prod(batch) * rows * columns, rows * columns), strict=True,
            )
        ),
    )  # fmt: skip
    return batch, plan


def matmul(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """c[..., m, n] = bias[n] + sum over k of a[..., m, k] b[..., k, n], leading axes broadcast."""
    rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    if depth == 0 or rows == 0 or columns == 0 or a.size == 0 or b.size == 0:
        c = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns), a.dtype)
        return c if bias is None else c + bias
    size, dtype = a.itemsize, a.dtype.char
    rows_apart = a.strides[-1] != size and depth > 1
    if rows_apart and a.ndim == 2 and a.nbytes > _LARGE_A and columns > 128 and a.T.flags.c_contiguous:
        a = channels_last(a.T[np.newaxis])[0].T
    elif not whole_steps(a.strides, size) or (rows_apart and rows > 1 and a.strides[-2] != size):
        a = np.ascontiguousarray(a)
    if not whole_steps(b.strides, size):
        b = np.ascontiguousarray(b)
    batch, plan = _plan(a.shape, a.strides, b.shape, b.strides, size)
    c = np.empty((*batch, rows, columns), a.dtype)
    init = zeros_of(columns, dtype) if bias is None else np.ascontiguousarray(bias)
    threads = get_num_threads()
    scratch, packed = np.empty(threads * 2 * MOST_ROWS, np.int64), np.empty(max(1, threads * plan.packed), a.dtype)
    _multiply[dtype](plan.tasks, a, b, init, c, packed, plan.packed, plan.words, scratch)
    return c
