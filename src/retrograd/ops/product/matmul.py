"""Matrix products: matmul, linear and bilinear.

For a matrix w, T(x, w, g) = sum x[n,k] w[m,k] g[n,m] is a trilinear form, as for convolution:

value                        gradient to 1st input (v)       gradient to 2nd input
linear(x, w) = x wT          matmul(v, w)                    linear_weight_grad(x, v)
matmul(g, w) = g w           linear(v, w)                    linear_weight_grad(v, g)
linear_weight_grad(x, g)     matmul(g, v)                    linear(x, v)
             = gT x

Integers are multiplied exactly, modulo 2**64, and have no gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...engine.function import Function
from ...engine.grad_mode import thread
from ...engine.node import save_factors
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import require_same
from ..shape.broadcasting import Sum, broadcast_shape, sum_to
from ..shape.shape import Permute, Reshape, reshaped
from ..sparse import SparseTensor, spmm

__all__ = ["matmul"]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)  # the objects that almost all arrays of these types share


class Linear(Function):
    """x wT + b; x (..., Ci), w (Co, Ci), b (Co,) or None -> (..., Co)"""

    gradient = "x: g w; w: gT x; b: g, the last two summed over all leading axes"

    @staticmethod
    def forward(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        return wrap(_multiplied(x.array, w.array.T, None if b is None else b.array))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        save_factors(ctx, inputs[0], inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_w, want_b), (x, w) = ctx.needs_input_grad, ctx.saved_tensors
        gx = MatMul.apply(g, w) if want_x else None
        gw = LinearWeightGrad.apply(x, g) if want_w else None
        gb = Sum.apply(g, tuple(range(g.array.ndim - 1)), False) if want_b else None
        return gx, gw, gb


class LinearWeightGrad(Function):
    """gT x, summed over all leading axes; x (..., Ci), g (..., Co) -> (Co, Ci)"""

    @staticmethod
    def forward(x: Tensor, g: Tensor) -> Tensor:
        xs, gs = x.array, g.array
        if xs.ndim != 2:
            rows = math.prod(xs.shape[:-1])
            xs, gs = reshaped(xs, (rows, xs.shape[-1])), reshaped(gs, (rows, gs.shape[-1]))
        return wrap(kernels.matmul(xs.T, gs).T)  # in the memory order of a weight, (Ci, Co)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        save_factors(ctx, *inputs)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_g), (x, g) = ctx.needs_input_grad, ctx.saved_tensors
        return MatMul.apply(g, v) if want_x else None, Linear.apply(x, v, None) if want_g else None


class MatMul(Function):
    """x y with broadcast leading axes; x (..., M, K), y (..., K, N) -> (..., M, N); x (K,), y (K, N) -> (N,)"""

    gradient = "x: g yT; y: xT g; each summed over the axes that were broadcast"

    @staticmethod
    def forward(x: Tensor, y: Tensor) -> Tensor:
        a, b = x.array, y.array
        return wrap(kernels.matmul(a, b) if a.dtype.kind == "f" and a.ndim > 1 else _multiplied(a, b))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        if y.array.ndim == 2:
            return Linear.apply(g, y, None) if want_x else None, LinearWeightGrad.apply(g, x) if want_y else None
        gx = sum_to(MatMul.apply(g, swap_last(y)), x.array.shape) if want_x else None
        gy = sum_to(MatMul.apply(swap_last(x), g), y.array.shape) if want_y else None
        return gx, gy


def _multiplied(x: np.ndarray, y: np.ndarray, *bias: np.ndarray | None) -> np.ndarray:
    multiply = kernels.matmul if x.dtype.kind == "f" else exact("matmul")
    return multiply(x, y, *bias) if x.ndim > 1 else multiply(x[np.newaxis], y, *bias)[0]


@operator(records=MatMul, methods="matmul __matmul__", dtypes="if")
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product of input and other; leading axes broadcast.

    input (..., M, K) or (K,), other (..., K, N) or (K,) -> (..., M, N); a vector is a row as input and a column as
    other, and its axis is removed from the result.

    Raises:
        TypeError: the types differ or are bool.
        ValueError: an operand has no axis, the inner extents differ, or the leading axes do not broadcast.
    """
    if interpreters and (seen := interpreted(matmul, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and isinstance(other, Tensor):  # without the time of all checks, for the usual case
        x, y = input.array, other.array
        sx, sy, dtype = x.shape, y.shape, x.dtype
        axes = len(sx)
        if (
            axes == len(sy) > 1
            and sx[-1] == sy[-2]
            and (axes == 2 or sx[:-2] == sy[:-2])
            and (dtype is _F32 or dtype is _F64)
            and dtype is y.dtype
        ):
            mode = thread.mode
            recorded = mode.enabled and (input._requires_grad or other._requires_grad)
            if recorded or mode.inference or mode.watch is not None:
                return MatMul.apply(input, other)
            return wrap(kernels.matmul(x, y))  # as MatMul.apply, without its call
    try:
        require_same("matmul", "input", input, "other", other, True)
    except TypeError:
        if isinstance(input, SparseTensor) or isinstance(other, SparseTensor):
            return spmm(input, other)
        raise
    sx, sy = input.array.shape, other.array.shape
    if len(sx) == 1 and len(sy) == 2 and sx[0] == sy[0]:
        return MatMul.apply(input, other)
    if not sx or not sy:
        raise ValueError(f"matmul: input.shape={sx}, other.shape={sy}; each needs at least one axis; use * for numbers")
    inner = sy[0] if len(sy) == 1 else sy[-2]
    if sx[-1] != inner:
        raise ValueError(
            f"matmul: the last axis of input has {sx[-1]}, the matching axis of other has {inner}; "
            f"input.shape={sx}, other.shape={sy}"
        )
    if len(sx) == 1:
        input = Reshape.apply(input, (1,) + sx)
    if len(sy) == 1:
        other = Reshape.apply(other, sy + (1,))
    if len(sx) > 2 and len(sy) > 2 and sx[:-2] != sy[:-2]:
        broadcast_shape("matmul", sx[:-2], sy[:-2])
    z = MatMul.apply(input, other)
    shape = z.array.shape
    if len(sy) == 1:
        shape = shape[:-1]
    if len(sx) == 1:
        shape = shape[:-1] if len(sy) == 1 else shape[:-2] + shape[-1:]
    return z if shape == z.array.shape else Reshape.apply(z, shape)


def _flattened(input: tuple[int, ...], weight: tuple[int, ...]) -> str:
    """Return what to do about an input with other features, for a message; "" if it is not clear."""
    if len(weight) == 2 and input and input[-1] == weight[0]:
        return f"; weight.T has the shape {weight[::-1]}; for a layer, in_features={input[-1]}"
    if len(input) == 2 and len(weight) == 2:
        return f"; a layer for this input has in_features={input[-1]}"
    features = math.prod(input[1:])
    if len(input) > 2 and len(weight) == 2 and features == weight[-1]:
        return "; flatten it first, with input.flatten(1) or nn.Flatten()"
    return f"; nn.Flatten() before the layer makes {features} features of it" if len(input) == 4 else ""


@operator(records=Linear, dtypes="if")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = input wT + bias.

    input (..., Ci), weight (Co, Ci), bias (Co,) or None -> y (..., Co); weight (Ci,), bias () or None -> y (...)

    Raises:
        TypeError: the types differ or are bool.
        ValueError: the extents do not fit.
    """
    if interpreters and (seen := interpreted(linear, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor)):
        sx, sw, dtype = input.array.shape, weight.array.shape, input.array.dtype
        fits = len(sw) == 2 and sx and sx[-1] == sw[1] and dtype.char in "fd" and weight.array.dtype is dtype
        if fits and (bias is None or (bias.array.shape == sw[:1] and bias.array.dtype is dtype)):
            return Linear.apply(input, weight, bias)  # the usual case
    require_same("linear", "input", input, "weight", weight, True)
    sx, sw = input.array.shape, weight.array.shape
    if not 0 < len(sw) < 3 or not sx or sx[-1] != sw[-1]:
        raise ValueError(
            f"linear: input has {sx[-1] if sx else 'no'} features in its last axis, "
            f"weight expects {sw[-1] if sw else 'none'}; "
            f"input.shape={sx}, weight.shape={sw}, which must be (..., Ci) and (Co, Ci) or (Ci,){_flattened(sx, sw)}"
        )
    if bias is not None:
        require_same("linear", "weight", weight, "bias", bias, True)
        if bias.array.shape != sw[:-1]:
            raise ValueError(f"linear: bias.shape={bias.array.shape}, weight.shape={sw} expects {sw[:-1]}")
    if len(sw) == 1:
        one = None if bias is None else Reshape.apply(bias, (1,))
        return Reshape.apply(linear(input, Reshape.apply(weight, (1, *sw)), one), sx[:-1])
    return Linear.apply(input, weight, bias)


@operator(records=(Linear, MatMul), dtypes="if")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """y[..., o] = sum over i and j of input1[..., i] weight[o, i, j] input2[..., j] + bias[o]

    input1 (..., I), input2 (..., J), weight (Co, I, J), bias (Co,) or None -> y (..., Co)

    Raises:
        TypeError: the types differ or are bool.
        ValueError: the extents do not fit.
    """
    if interpreters and (seen := interpreted(bilinear, locals())) is not None:
        return seen
    for label, value in (("input2", input2), ("weight", weight), ("bias", bias)):
        if value is not None:
            require_same("bilinear", "input1", input1, label, value, True)
    s1, s2, sw = input1.array.shape, input2.array.shape, weight.array.shape
    if len(sw) != 3 or not s1 or s1[:-1] != s2[:-1] or (s1[-1], s2[-1]) != sw[1:]:
        raise ValueError(
            f"bilinear: input1.shape={s1}, input2.shape={s2}, weight.shape={sw} must be (..., I), (..., J) and "
            f"(Co, I, J)"
        )
    if bias is not None and bias.array.shape != sw[:1]:
        raise ValueError(f"bilinear: bias.shape={bias.array.shape}, weight.shape={sw} expects ({sw[0]},)")
    rows, (outputs, i, j) = math.prod(s1[:-1]), sw
    second = Linear.apply(Reshape.apply(input2, (rows, j)), Reshape.apply(weight, (outputs * i, j)), None)
    y = MatMul.apply(Reshape.apply(second, (rows, outputs, i)), Reshape.apply(input1, (rows, i, 1)))
    y = Reshape.apply(y, s1[:-1] + (outputs,))
    return y if bias is None else y + bias


def swap_last(x: Tensor) -> Tensor:
    """Swap the last two axes of x."""
    last = x.array.ndim - 1
    return Permute.apply(x, tuple(range(last - 1)) + (last, last - 1))
