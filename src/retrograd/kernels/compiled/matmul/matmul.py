"""Matrix product through the batch-reduce micro-kernel."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from ..machine.launch import Launch, kernel
from ..machine.microkernel import MOST_ROWS
from ..machine.scratch import per_thread
from ..memory.channels_last import channels_last
from ..memory.packing import whole_steps, zeros_of
from .matmul_plan import Product, plan_product

__all__ = ["matmul"]

_multiply = kernel("matmul.matmul.multiply")
_SMALL_ROWS, _SMALL_BYTES = 48, 1 << 15  # rows of A or bytes of B up to which a copy of B costs more than it saves
_LARGE_A = 1 << 18  # bytes from which a transposed A is copied if it is read often
_NO_PLAN = Product(np.empty(0, np.int64), 0, 0)


class _Call(NamedTuple):
    """A prepared product of matrices of given shapes and strides."""

    shape: tuple[int, ...]  # of the result
    launch: Launch | None  # None: the kernel cannot read them as they are
    plan: Product
    init: np.ndarray  # the initial row without bias


@lru_cache(maxsize=4096)
def _call(
    a_shape: tuple[int, ...],
    a_strides: tuple[int, ...],
    b_shape: tuple[int, ...],
    b_strides: tuple[int, ...],
    size: int,
) -> _Call:
    rows, depth, columns = a_shape[-2], a_shape[-1], b_shape[-1]
    batch = np.broadcast_shapes(a_shape[:-2], b_shape[:-2])
    dtype = "f" if size == 4 else "d"
    rows_apart = a_strides[-1] != size and depth > 1
    form = "dense" if rows_apart else "rows"
    small = rows <= _SMALL_ROWS or depth * columns * size <= _SMALL_BYTES
    packing = b_strides[-1] != size or not small
    ready = (
        whole_steps(a_strides, size)
        and whole_steps(b_strides, size)
        and not (rows_apart and rows > 1 and a_strides[-2] != size)
        and not (rows_apart and len(a_shape) == 2 and rows * depth * size > _LARGE_A and columns > 128)
        and 0 not in (*batch, rows, depth, columns)
    )
    if not ready:
        return _Call((*batch, rows, columns), None, _NO_PLAN, zeros_of(1, dtype))

    def offsets(lead: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
        """Offset in elements of the matrix of each product of the batch."""
        own = np.zeros(lead, np.int64)
        for axis, (extent, stride) in enumerate(zip(lead, strides, strict=False)):
            own += (np.arange(extent) * (stride // size)).reshape((extent,) + (1,) * (len(lead) - axis - 1))
        return [int(v) for v in np.broadcast_to(own, batch).ravel()]

    plan = plan_product(
        rows,
        columns,
        depth,
        form,
        (a_strides[-2] // size, a_strides[-1] // size),
        (b_strides[-2] // size, b_strides[-1] // size),
        packing,
        dtype,
        list(
            zip(
                offsets(a_shape[:-2], a_strides[:-2]),
                offsets(b_shape[:-2], b_strides[:-2]),
                range(0, prod(batch) * rows * columns, rows * columns),
                strict=True,
            )
        ),
    )
    return _Call((*batch, rows, columns), _multiply[dtype], plan, zeros_of(columns, dtype))


def matmul(a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
    shape, launch, plan, init = _call(a.shape, a.strides, b.shape, b.strides, a.itemsize)
    c = np.empty(shape, a.dtype, like=a)
    if launch is None:
        if c.size == 0 or a.shape[-1] == 0:
            c[...] = 0 if bias is None else bias
            return c
        a, b = _readable(a, b)
        shape, launch, plan, init = _call(a.shape, a.strides, b.shape, b.strides, a.itemsize)
        assert launch is not None
    if bias is not None:
        init = np.ascontiguousarray(bias, like=bias)
    tasks, packed = plan.tasks, plan.packed
    panels = per_thread(packed, c.dtype.char) if packed else c
    launch(tasks, a, b, init, c, panels, packed, plan.words, per_thread(2 * MOST_ROWS, "i8"))
    return c


def _readable(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Copies where the kernel cannot read the matrices, or would read ``a`` slowly."""
    transposed = a.ndim == 2 and a.T.flags.c_contiguous
    a = channels_last(a.T[np.newaxis])[0].T if transposed else np.ascontiguousarray(a, like=a)
    return a, b if whole_steps(b.strides, b.itemsize) else np.ascontiguousarray(b, like=b)
