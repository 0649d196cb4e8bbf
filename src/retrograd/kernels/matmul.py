"""Matrix product through the batch-reduce micro-kernel."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from .launch import get_num_threads, kernel
from .matmul_plan import Product, plan_product
from .microkernel import ROW_SLOTS, tile
from .packing import NO_TAPS, pack_weights, whole_steps, zeros_of

__all__ = ["matmul"]

_multiply = kernel("matmul.multiply")
_SMALL_ROWS = 48  # up to so many rows of A, a copy of B costs more than it saves


@lru_cache(maxsize=4096)
def _plan(
    a_shape: tuple[int, ...],
    a_strides: tuple[int, ...],
    b_shape: tuple[int, ...],
    b_strides: tuple[int, ...],
    size: int,
) -> tuple[tuple[int, ...], bool, tuple[int, int, int], Product]:
    """Batch shape of the result, whether B is packed, (matrices of B, its steps along k and j), and the plan."""
    rows, depth, columns = a_shape[-2], a_shape[-1], b_shape[-1]
    batch = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
    shape = tile("f" if size == 4 else "d")
    direct = b_strides[-1] == size and (rows <= _SMALL_ROWS or columns < shape.lanes) and not b_shape[:-2]
    indices = np.arange(prod(batch)).reshape(batch)

    def offsets(lead: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
        """Offset in elements of the matrix that each product of the batch reads."""
        own = np.zeros(lead, np.int64)
        for axis, (extent, stride) in enumerate(zip(lead, strides, strict=False)):
            own += (np.arange(extent) * (stride // size)).reshape((extent,) + (1,) * (len(lead) - axis - 1))
        return [int(v) for v in np.broadcast_to(own, batch).ravel()]

    panel = -(-columns // shape.width(columns)) * shape.width(columns) * depth
    matrices = prod(b_shape[:-2])
    packed_steps = tuple(size * panel * step for step in _dense_steps(b_shape[:-2]))
    b_offsets = offsets(b_shape[:-2], b_strides[:-2] if direct else packed_steps)
    c_offsets = [int(i) * rows * columns for i in indices.ravel()]
    plan = plan_product(
        rows, columns, depth, (a_strides[-2] // size, a_strides[-1] // size), (b_strides[-2] // size, 1), not direct,
        "f" if size == 4 else "d",
        list(zip(offsets(a_shape[:-2], a_strides[:-2]), b_offsets, c_offsets, strict=True)),
    )  # fmt: skip
    return batch, not direct, (matrices, b_strides[-2] // size, b_strides[-1] // size), plan


def _dense_steps(shape: tuple[int, ...]) -> list[int]:
    steps, step = [], 1
    for extent in reversed(shape):
        steps.append(step)
        step *= extent
    return steps[::-1]


def matmul(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    """c[..., m, n] = bias[n] + sum over k of a[..., m, k] b[..., k, n], leading axes broadcast."""
    rows, depth, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    if depth == 0 or rows == 0 or columns == 0 or a.size == 0 or b.size == 0:
        c = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, columns), a.dtype)
        return c if bias is None else c + bias
    size, dtype = a.itemsize, a.dtype.char
    if not whole_steps(a.strides, size):
        a = np.ascontiguousarray(a)
    if not whole_steps(b.strides, size):
        b = np.ascontiguousarray(b)
    if any(stride < 0 for stride in b.strides[:-2]) or (b.ndim > 2 and not b.flags.c_contiguous):
        b = np.ascontiguousarray(b)
    batch, packs, (matrices, k_step, j_step), plan = _plan(a.shape, a.strides, b.shape, b.strides, size)
    c = np.empty((*batch, rows, columns), a.dtype)
    if packs:
        b = pack_weights(b, NO_TAPS, depth, columns, k_step, j_step, matrices, depth * columns)
    init = zeros_of(columns, dtype) if bias is None else np.ascontiguousarray(bias)
    threads = get_num_threads()
    scratch = np.empty(threads * 2 * ROW_SLOTS, np.int64)
    packed = np.empty(max(1, threads * plan.packed_a), a.dtype)
    _multiply[dtype](plan.tasks, a, b, init, c, packed, plan.words, scratch)
    return c
