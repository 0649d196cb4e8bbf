"""Matrix products. For a matrix w, T(x, w, g) = sum x[n,k] w[m,k] g[n,m] is a trilinear form as in convolution.py:

value                        gradient to 1st input (v)       gradient to 2nd input
linear(x, w) = x wT          matmul(v, w)                    linear_weight_grad(x, v)
matmul(g, w) = g w           linear(v, w)                    linear_weight_grad(v, g)
linear_weight_grad(x, g)     matmul(g, v)                    linear(x, v)
             = gT x
"""

from __future__ import annotations

import math
from typing import Any

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import Sum, broadcast_shape, sum_to
from .dtype import require_same
from .kernel_set import kernels
from .shape import Permute, Reshape


class Linear(Function):
    """x wT + b; x (..., Ci), w (Co, Ci), b (Co,) or None -> (..., Co)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, w)
        return wrap(kernels.matmul(x.data, w.data.T, None if b is None else b.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_w, want_b), (x, w) = ctx.needs_input_grad, ctx.saved_tensors
        gx = MatMul.apply(g, w) if want_x else None
        gw = LinearWeightGrad.apply(x, g) if want_w else None
        gb = Sum.apply(g, tuple(range(g.data.ndim - 1)), False) if want_b else None
        return gx, gw, gb


class LinearWeightGrad(Function):
    """gT x, summed over all leading axes; x (..., Ci), g (..., Co) -> (Co, Ci)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, g: Tensor) -> Tensor:
        ctx.save_for_backward(x, g)
        xs, gs = x.data, g.data
        if xs.ndim != 2:
            rows = math.prod(xs.shape[:-1])
            xs, gs = xs.reshape(rows, xs.shape[-1]), gs.reshape(rows, gs.shape[-1])
        return wrap(kernels.matmul(xs.T, gs).T)  # in the memory order of a weight, (Ci, Co)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_g), (x, g) = ctx.needs_input_grad, ctx.saved_tensors
        return MatMul.apply(g, v) if want_x else None, Linear.apply(x, v, None) if want_g else None


class MatMul(Function):
    """x y with broadcast leading axes; x (..., M, K), y (..., K, N) -> (..., M, N)"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.matmul(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        if y.data.ndim == 2:
            return Linear.apply(g, y, None) if want_x else None, LinearWeightGrad.apply(g, x) if want_y else None
        gx = sum_to(MatMul.apply(g, _swap(y)), x.data.shape) if want_x else None
        gy = sum_to(MatMul.apply(_swap(x), g), y.data.shape) if want_y else None
        return gx, gy


def matmul(x: Tensor, y: Tensor) -> Tensor:
    """Matrix product x y: the last axis of x meets the last but one of y; leading axes broadcast.

    x (..., M, K) or (K,), y (..., K, N) or (K,); a vector stands for one row of x or one column of y, and its axis
    is missing from the result.

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: an operand has no axis, the inner extents differ, or the leading axes do not broadcast.
    """
    require_same("matmul", "x", x, "y", y)
    sx, sy = x.data.shape, y.data.shape
    if len(sx) == 2 and len(sy) == 2 and sx[1] == sy[0]:
        return MatMul.apply(x, y)
    if not sx or not sy:
        raise ValueError(f"matmul: x.shape={sx}, y.shape={sy}; each needs at least one axis, a number scales with *")
    inner = sy[0] if len(sy) == 1 else sy[-2]
    if sx[-1] != inner:
        raise ValueError(
            f"matmul: the last axis of x has {sx[-1]}, the axis of y it meets has {inner}; x.shape={sx}, y.shape={sy}"
        )
    if len(sx) == 1:
        x = Reshape.apply(x, (1,) + sx)
    if len(sy) == 1:
        y = Reshape.apply(y, sy + (1,))
    if len(sx) > 2 and len(sy) > 2 and sx[:-2] != sy[:-2]:
        broadcast_shape("matmul", sx[:-2], sy[:-2])
    z = MatMul.apply(x, y)
    shape = z.data.shape
    if len(sy) == 1:
        shape = shape[:-1]
    if len(sx) == 1:
        shape = shape[:-1] if len(sy) == 1 else shape[:-2] + shape[-1:]
    return z if shape == z.data.shape else Reshape.apply(z, shape)


def linear(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    """y = x wT + b.

    x (..., Ci), w (Co, Ci), b (Co,) or None -> y (..., Co)

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the extents do not fit.
    """
    require_same("linear", "x", x, "w", w)
    sx, sw = x.data.shape, w.data.shape
    if len(sw) != 2 or not sx or sx[-1] != sw[1]:
        raise ValueError(
            f"linear: x has {sx[-1] if sx else 'no'} features in its last axis, w expects {sw[-1] if sw else 'none'}; "
            f"x.shape={sx}, w.shape={sw}, which must be (..., Ci) and (Co, Ci)"
        )
    if b is not None:
        require_same("linear", "w", w, "b", b)
        if b.data.shape != sw[:1]:
            raise ValueError(f"linear: b.shape={b.data.shape}, w.shape={sw} expects ({sw[0]},)")
    if len(sx) == 1:
        return Reshape.apply(Linear.apply(Reshape.apply(x, (1,) + sx), w, b), sw[:1])
    return Linear.apply(x, w, b)


def _swap(x: Tensor) -> Tensor:
    """x with its last two axes swapped."""
    last = x.data.ndim - 1
    return Permute.apply(x, tuple(range(last - 1)) + (last, last - 1))
