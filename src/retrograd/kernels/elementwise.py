"""Functions of single numbers, applied to every element; two operands are broadcast by NumPy's rules.

Where all operands fill their memory in the same order of axes, a kernel runs over that memory and the result has that
order, too. Broadcast operands are read in place where their last step in memory is 1 or 0; other arrays are copied.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .arrays import CHUNK, Shape, like, memory_axes, transposition
from .launch import Kernel, kernel

__all__ = [
    "add",
    "div",
    "exp",
    "log",
    "mul",
    "neg",
    "power",
    "relu",
    "relu_grad",
    "scale",
    "sigmoid",
    "sigmoid_grad",
    "sqrt",
    "sub",
    "tanh",
    "tanh_grad",
]

_ADD, _ADD_BROADCAST = kernel("elementwise.add"), kernel("elementwise.add_broadcast")
_SUB, _SUB_BROADCAST = kernel("elementwise.sub"), kernel("elementwise.sub_broadcast")
_MUL, _MUL_BROADCAST = kernel("elementwise.mul"), kernel("elementwise.mul_broadcast")
_DIV, _DIV_BROADCAST = kernel("elementwise.div"), kernel("elementwise.div_broadcast")
_SCALE, _POWER = kernel("elementwise.scale"), kernel("elementwise.power")
_SQRT, _EXP, _LOG = kernel("elementwise.sqrt"), kernel("elementwise.exp"), kernel("elementwise.log")
_RELU, _RELU_GRAD = kernel("elementwise.relu"), kernel("elementwise.relu_grad")
_SIGMOID, _SIGMOID_GRAD = kernel("elementwise.sigmoid"), kernel("elementwise.sigmoid_grad")
_TANH, _TANH_GRAD = kernel("elementwise.tanh"), kernel("elementwise.tanh_grad")

# below _SHORT elements, a row under many is repeated to at most _LONG, if the result has at least _MANY elements
_SHORT, _LONG, _MANY = 64, 256, 8192


def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y"""
    return _broadcast(_ADD, _ADD_BROADCAST, x, y)


def sub(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y"""
    return _broadcast(_SUB, _SUB_BROADCAST, x, y)


def mul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x y"""
    return _broadcast(_MUL, _MUL_BROADCAST, x, y)


def div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y"""
    return _broadcast(_DIV, _DIV_BROADCAST, x, y)


def neg(x: np.ndarray) -> np.ndarray:
    """-x"""
    return scale(x, -1.0)


def scale(x: np.ndarray, factor: float) -> np.ndarray:
    """factor x"""
    y = np.empty_like(x)
    n = x.size
    _SCALE[x.dtype.char](
        1 if n <= CHUNK else -(-n // CHUNK), x if x.strides == y.strides else _copy(x, y), y, n, factor
    )
    return y


def power(x: np.ndarray, exponent: float) -> np.ndarray:
    """x ** exponent"""
    if exponent == 2:
        return mul(x, x)
    if exponent == 1:
        return x.copy(order="K")
    if exponent == 0.5:
        return sqrt(x)
    y = np.empty_like(x)
    n = x.size
    _POWER[x.dtype.char](
        1 if n <= CHUNK else -(-n // CHUNK), x if x.strides == y.strides else _copy(x, y), y, n, exponent
    )
    return y


def sqrt(x: np.ndarray) -> np.ndarray:
    """The square root of x."""
    return _map(_SQRT, x)


def exp(x: np.ndarray) -> np.ndarray:
    """e ** x"""
    return _map(_EXP, x)


def log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm: log(0) = -inf, and NaN below."""
    return _map(_LOG, x)


def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0); relu(NaN) = NaN"""
    return _map(_RELU, x)


def relu_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g where y = relu(x) is above 0, else 0"""
    return _zip(_RELU_GRAD, g, y)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x))"""
    return _map(_SIGMOID, x)


def sigmoid_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g y (1 - y), with y = sigmoid(x)"""
    return _zip(_SIGMOID_GRAD, g, y)


def tanh(x: np.ndarray) -> np.ndarray:
    """The hyperbolic tangent."""
    return _map(_TANH, x)


def tanh_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g (1 - y^2), with y = tanh(x)"""
    return _zip(_TANH_GRAD, g, y)


def _copy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``y`` with the elements of ``x``, for kernels that may read and write the same place."""
    np.copyto(y, x)
    return y


def _map(function: Kernel, x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)  # has the strides of x if and only if x is dense
    n = x.size
    function[x.dtype.char](1 if n <= CHUNK else -(-n // CHUNK), x if x.strides == y.strides else _copy(x, y), y, n)
    return y


def _zip(function: Kernel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two operands of the same shape; the second one gives the order of the axes."""
    z = np.empty_like(y)
    strides = z.strides
    if x.strides != strides or y.strides != strides:
        x, y = like(x, z), like(y, z)
    n = z.size
    function[z.dtype.char](1 if n <= CHUNK else -(-n // CHUNK), x, y, z, n)
    return z


def _broadcast(same: Kernel, rows: Kernel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.shape == y.shape:
        z = np.empty_like(x)
        strides = z.strides
        if x.strides != strides or y.strides != strides:
            x, y = like(x, z), like(y, z)
        n = z.size
        same[z.dtype.char](1 if n <= CHUNK else -(-n // CHUNK), x, y, z, n)
        return z
    plan = _rows(x.shape, x.strides, y.shape, y.strides, x.itemsize)
    if plan is None:
        axes = _result_axes(x.shape, x.strides, y.shape, y.strides)
        x, y = _in_order(x, axes), _in_order(y, axes)
        plan = _rows(x.shape, x.strides, y.shape, y.strides, x.itemsize)
        if plan is None:  # operands that miss several axes in turn
            x, y = np.broadcast_arrays(x, y)
            return _broadcast(same, rows, x.copy(), y.copy())
    shape, back, repeat, tasks, *steps = plan
    if repeat > 0:
        y = np.concatenate((y.ravel(order="K"),) * repeat)
    elif repeat < 0:
        x = np.concatenate((x.ravel(order="K"),) * -repeat)
    z = np.empty(shape, x.dtype)
    rows[z.dtype.char](tasks, x, y, z, *steps)
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
