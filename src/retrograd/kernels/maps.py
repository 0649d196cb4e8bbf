"""How element-wise kernels are launched: one function for each kind of operands of ``compiled/loops.py``.

Where all operands fill their memory in the same order of axes, a kernel runs over that memory and the result has that
order, too. Broadcast operands are read in place where their last step in memory is 1 or 0; other arrays are copied.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .arrays import CHUNK, Shape, dense, is_dense, like, memory_axes, transposition
from .launch import Kernel

# below _SHORT elements, a row under many is repeated to at most _LONG, if the result has at least _MANY elements
_SHORT, _LONG, _MANY = 192, 512, 8192


def copied(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``y`` with the elements of ``x``, for kernels that may read and write the same place."""
    np.copyto(y, x)
    return y


def map_one(function: Kernel, x: np.ndarray) -> np.ndarray:
    """One operand."""
    launch = function[x.dtype.char]
    y: np.ndarray | None = launch(x)  # None if x is not dense
    return launch(x.copy(order="K")) if y is None else y


def map_two(function: Kernel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two operands of the same shape; the second one gives the order of the axes."""
    launch = function[y.dtype.char]
    z: np.ndarray | None = launch(x, y)  # None if they are not dense, or in different orders
    return launch(*_in_order_of_last(x, y)) if z is None else z


def map_one_number(function: Kernel, x: np.ndarray, p: float) -> np.ndarray:
    """An operand and a number."""
    launch = function[x.dtype.char]
    y: np.ndarray | None = launch(x, p)
    return launch(x.copy(order="K"), p) if y is None else y


def map_one_numbers(function: Kernel, x: np.ndarray, p: float, q: float = 0.0, r: float = 0.0) -> np.ndarray:
    """An operand and up to three numbers."""
    launch = function[x.dtype.char]
    y: np.ndarray | None = launch(x, p, q, r)
    return launch(x.copy(order="K"), p, q, r) if y is None else y


def map_to_truth(function: Kernel, x: np.ndarray) -> np.ndarray:
    """One operand; the result holds truth values."""
    x = dense(x)
    y = np.empty_like(x, np.bool_)
    n = x.size
    function[x.dtype.char](1 if n <= CHUNK else -(-n // CHUNK), x, y, n)
    return y


def map_two_numbers(
    function: Kernel, x: np.ndarray, y: np.ndarray, p: float, q: float = 0.0, r: float = 0.0
) -> np.ndarray:
    """As ``map_two`` with up to three numbers."""
    launch = function[y.dtype.char]
    z: np.ndarray | None = launch(x, y, p, q, r)
    return launch(*_in_order_of_last(x, y), p, q, r) if z is None else z


def map_three_numbers(
    function: Kernel, x: np.ndarray, y: np.ndarray, z: np.ndarray, p: float = 0.0, q: float = 0.0, r: float = 0.0
) -> np.ndarray:
    """Three operands of the same shape and up to three numbers; the last operand gives the order of the axes."""
    launch = function[z.dtype.char]
    u: np.ndarray | None = launch(x, y, z, p, q, r)
    return launch(*_in_order_of_last(x, y, z), p, q, r) if u is None else u


def map_three(function: Kernel, x: np.ndarray, y: np.ndarray, z: np.ndarray, p: float = 0.0) -> np.ndarray:
    """Three operands that broadcast, and a number; what has not the shape of the result is spread out first."""
    launch = function[x.dtype.char]
    u: np.ndarray | None = launch(x, y, z, p)
    if u is None:
        model = _result(x, y, z)
        u = launch(_spread(x, model), _spread(y, model), _spread(z, model), p)
        assert u is not None  # dense and alike
    return u


def _in_order_of_last(*arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays, of one shape, as dense ones in the order of axes of the last."""
    model = np.empty_like(arrays[-1])
    return [like(array, model) for array in arrays]


def both_gradients(
    function: Kernel, g: np.ndarray, x: np.ndarray, y: np.ndarray, want_x: bool, want_y: bool
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The gradients that are wanted, of the shape of g: x and y are spread out to it."""
    model = np.empty_like(x) if x.shape == g.shape else np.empty_like(g)
    g, x, y = _spread(g, model), _spread(x, model), _spread(y, model)
    gx = model if want_x else None
    gy = model if not want_x else np.empty_like(model) if want_y else None
    n = model.size
    function[model.dtype.char](
        1 if n <= CHUNK else -(-n // CHUNK), g, x, y, model, model if gy is None else gy, n, int(want_x), int(want_y)
    )
    return gx, gy if want_y else None


def choose(function: Kernel, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x where the condition holds, y elsewhere; x or y of one element is read in place."""
    z = _result(x, y, condition)
    condition = _spread(condition, np.empty_like(z, np.bool_))
    x_step, y_step = int(x.size != 1 or z.size == 1), int(y.size != 1 or z.size == 1)
    if x_step:
        x = _spread(x, z)
    if y_step:
        y = _spread(y, z)
    n = z.size
    if n:
        function[z.dtype.char](1 if n <= CHUNK else -(-n // CHUNK), condition, x, y, z, n, x_step, y_step)
    return z


def _spread(x: np.ndarray, model: np.ndarray) -> np.ndarray:
    """x where it has the shape and the strides of the dense ``model``, else a copy of it that has."""
    if x.shape == model.shape and x.strides == model.strides:
        return x
    y = np.empty_like(model)
    np.copyto(y, x)
    return y


def _result(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Memory of the type of x and the common shape, in the order of the first operand that has this shape."""
    shape = x.shape
    if shape == y.shape == z.shape:
        return np.empty_like(x)
    shape = np.broadcast_shapes(shape, y.shape, z.shape)
    for operand in (x, y, z):
        if operand.shape == shape:
            return np.empty_like(operand, x.dtype)
    return np.empty(shape, x.dtype)


def broadcast(same: Kernel | None, rows: Kernel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two operands that broadcast; ``same`` runs where their shapes are equal, if there is such a kernel."""
    if same is not None:
        launch = same[x.dtype.char]
        z: np.ndarray | None = launch(x, y)
        if z is not None:
            return z
        if x.shape == y.shape:
            return launch(*reversed(_in_order_of_last(y, x)))
    return _in_rows(rows, x, y, x.dtype)


def compare(rows: Kernel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """As ``broadcast``; the result holds truth values."""
    return _in_rows(rows, x, y, np.dtype(np.bool_))


def _in_rows(rows: Kernel, x: np.ndarray, y: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if x.shape == y.shape and x.strides == y.strides:
        z = np.empty_like(x, dtype)
        if is_dense(x.shape, x.strides, x.itemsize):  # nothing is broadcast: rows of CHUNK elements
            count = -(-x.size // CHUNK) or 1
            rows[x.dtype.char](count, x, y, z, x.size, CHUNK, count, 1, 0, CHUNK, 1, 0, CHUNK, 1)
            return z
    plan = _rows(x.shape, x.strides, y.shape, y.strides, x.itemsize)
    if plan is None:
        axes = _result_axes(x.shape, x.strides, y.shape, y.strides)
        x, y = _in_order(x, axes), _in_order(y, axes)
        plan = _rows(x.shape, x.strides, y.shape, y.strides, x.itemsize)
        if plan is None:  # operands that miss several axes in turn
            x, y = np.broadcast_arrays(x, y)
            return _in_rows(rows, x.copy(), y.copy(), dtype)
    shape, back, repeat, tasks, *steps = plan
    if repeat > 0:
        y = np.concatenate((y.ravel(order="K"),) * repeat)
    elif repeat < 0:
        x = np.concatenate((x.ravel(order="K"),) * -repeat)
    z = np.empty(shape, dtype)
    rows[x.dtype.char](tasks, x, y, z, *steps)
    return z.transpose(back) if back else z


@lru_cache(maxsize=4096)
def _result_axes(x_shape: Shape, x_strides: Shape, y_shape: Shape, y_strides: Shape) -> Shape:
    """The order of axes in the memory of the result: that of the operand which has its shape, if there is one."""
    shape = np.broadcast_shapes(x_shape, y_shape)
    if x_shape == shape:
        return memory_axes(x_shape, x_strides)
    if y_shape == shape:
        return memory_axes(y_shape, y_strides)
    return tuple(range(len(shape)))


def _in_order(x: np.ndarray, axes: Shape) -> np.ndarray:
    """``x`` with its own axes dense in the order of the result's ``axes``."""
    missing = len(axes) - x.ndim
    own = tuple(axis - missing for axis in axes if axis >= missing)
    return x.transpose(own).copy().transpose(transposition(own) or own)


@lru_cache(maxsize=4096)
def _rows(x_shape: Shape, x_strides: Shape, y_shape: Shape, y_strides: Shape, size: int) -> tuple[Any, ...] | None:
    """How a broadcast kernel runs: the result's shape in memory, its transposition back, how often y (x if negative) is
    repeated, tasks and the kernel's numbers. None if it cannot: steps that are not 0 or 1 inside, or too many axes.
    """
    axes = _result_axes(x_shape, x_strides, y_shape, y_strides)
    shape = np.broadcast_shapes(x_shape, y_shape)
    if any(step % size for step in (*x_strides, *y_strides)):
        return None
    x_steps = _steps(x_shape, x_strides, len(shape), size)
    y_steps = _steps(y_shape, y_strides, len(shape), size)
    merged: list[tuple[int, int, int]] = []  # extent, step of x, step of y
    for axis in axes:
        extent, p, q = shape[axis], x_steps[axis], y_steps[axis]
        if merged and merged[-1][1:] == (p * extent, q * extent):
            merged[-1] = (merged[-1][0] * extent, p, q)
        elif extent != 1:
            merged.append((extent, p, q))
    if not merged or 0 in shape:
        merged = [(1, 1, 1)]
    if len(merged) > 3 or merged[-1][1:] not in ((1, 1), (1, 0), (0, 1)):
        return None
    n, repeat = prod(shape), 0
    if len(merged) == 1 and n > CHUNK:
        _, p, q = merged[0]
        merged = [(-(-n // CHUNK), CHUNK * p, CHUNK * q), (CHUNK, p, q)]
    elif len(merged) == 2 and merged[1][1:] == (1, 1) and merged[1][0] < _SHORT:
        # a short row under many: repeat it, so that the rows become long enough for registers
        (many, p, q), (extent, _, _) = merged
        repeat = _LONG // extent
        if n >= _MANY and (p, q) in ((extent, 0), (0, extent)):
            merged = [(-(-many // repeat), p * repeat, q * repeat), (extent * repeat, 1, 1)]
            repeat = repeat if q == 0 else -repeat
        else:
            repeat = 0
    merged = [(1, 0, 0)] * (3 - len(merged)) + merged
    (_, x_outer, y_outer), (middle, x_middle, y_middle), (inner, x_inner, y_inner) = merged
    rows_per_task = CHUNK // inner or 1
    tasks = -(-n // (inner * rows_per_task)) if n else 1
    memory = tuple(shape[axis] for axis in axes)
    back = transposition(axes)
    return (
        memory, back, repeat, tasks, n, inner, middle, rows_per_task,
        x_outer, x_middle, x_inner, y_outer, y_middle, y_inner,
    )  # fmt: skip


def _steps(shape: Shape, strides: Shape, ndim: int, size: int) -> list[int]:
    """Steps in elements along the axes of the broadcast shape; 0 where the operand is repeated."""
    steps = [0 if extent == 1 else stride // size for extent, stride in zip(shape, strides, strict=True)]
    return [0] * (ndim - len(shape)) + steps
