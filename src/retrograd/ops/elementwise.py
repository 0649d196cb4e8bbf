"""Arithmetic with broadcasting.

Each class holds a forward and its backward; the functions below them check operands once and apply the class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from .broadcasting import broadcast_shape, sum_to
from .dtype import (
    are_floats,
    as_real,
    cast,
    is_number,
    meeting,
    require_factor,
    require_number,
    require_same,
    require_tensor,
    whole,
)
from .kernel_set import kernels
from .operands import Binary, Gradients, binary, promoted, recording, summed, unary_exact
from .rounding import floor_divide, trunc_divide

__all__ = [
    "add",
    "addcdiv",
    "addcmul",
    "div",
    "divide",
    "lerp",
    "mul",
    "multiply",
    "neg",
    "negative",
    "positive",
    "sub",
    "subtract",
    "true_divide",
]


class Add(Binary):
    """x + y"""

    exact = np.add

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.shapes = x.data.shape, y.data.shape
        return wrap(kernels.add(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (sx, sy) = ctx.needs_input_grad, ctx.shapes
        return sum_to(g, sx) if want_x else None, sum_to(g, sy) if want_y else None


class Sub(Binary):
    """x - y"""

    exact = np.subtract
    truths = False

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.shapes = x.data.shape, y.data.shape
        return wrap(kernels.sub(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (sx, sy) = ctx.needs_input_grad, ctx.shapes
        return sum_to(g, sx) if want_x else None, sum_to(-g, sy) if want_y else None


class Mul(Binary):
    """x * y"""

    exact = np.multiply

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.mul(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        if recording():
            gx = sum_to(g * y, x.data.shape) if want_x else None
            gy = sum_to(g * x, y.data.shape) if want_y else None
            return gx, gy
        if want_x and want_y and x.data.shape == y.data.shape:
            gx, gy = kernels.mul_grad(g.data, x.data, y.data, True, True)
            return wrap(gx), wrap(gy)
        gx = sum_to(wrap(kernels.mul(g.data, y.data)), x.data.shape) if want_x else None
        gy = sum_to(wrap(kernels.mul(g.data, x.data)), y.data.shape) if want_y else None
        return gx, gy


class Div(Binary):
    """x / y"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return wrap(kernels.div(x.data, y.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y), (x, y) = ctx.needs_input_grad, ctx.saved_tensors
        if want_y and x.data.shape == y.data.shape and not recording():
            return summed(kernels.div_grad(g.data, x.data, y.data, want_x, want_y), x.data.shape, y.data.shape)
        gx = g / y
        gy = sum_to(-gx * (x / y), y.data.shape) if want_y else None
        return sum_to(gx, x.data.shape) if want_x else None, gy


class Scale(Function):
    """x * factor for a Python number"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return wrap(kernels.scale(x.data, factor))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return g * ctx.factor, None


class Neg(Function):
    """-x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(kernels.neg(x.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return (-g,)


class Lerp(Function):
    """start + weight * (end - start), three tensors"""

    @staticmethod
    def forward(ctx: Any, start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(start, end, weight)
        return wrap(kernels.lerp(start.data, end.data, weight.data))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_start, want_end, want_weight), (start, end, weight) = ctx.needs_input_grad, ctx.saved_tensors
        gs = sum_to(g * (1.0 - weight), start.data.shape) if want_start else None
        ge = sum_to(g * weight, end.data.shape) if want_end else None
        return gs, ge, sum_to(g * (end - start), weight.data.shape) if want_weight else None


class LerpNumber(Function):
    """start + weight * (end - start) for a Python number, two tensors of one shape"""

    @staticmethod
    def forward(ctx: Any, start: Tensor, end: Tensor, weight: float) -> Tensor:
        ctx.weight = weight
        return wrap(kernels.lerp_number(start.data, end.data, weight))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        want_start, want_end, _ = ctx.needs_input_grad
        return g * (1.0 - ctx.weight) if want_start else None, g * ctx.weight if want_end else None, None


class Addcmul(Function):
    """x + value * y * z"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, z: Tensor, value: float) -> Tensor:
        ctx.save_for_backward(y, z)
        ctx.shape, ctx.value = x.data.shape, value
        return wrap(kernels.addcmul(x.data, y.data, z.data, value))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y, want_z, _), (y, z) = ctx.needs_input_grad, ctx.saved_tensors
        v = g if ctx.value == 1 else g * ctx.value
        gx = sum_to(g, ctx.shape) if want_x else None
        if recording():
            gy = sum_to(v * z, y.data.shape) if want_y else None
            return gx, gy, sum_to(v * y, z.data.shape) if want_z else None, None
        return gx, *summed(kernels.mul_grad(v.data, y.data, z.data, want_y, want_z), y.data.shape, z.data.shape), None


class Addcdiv(Function):
    """x + value * y / z"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, z: Tensor, value: float) -> Tensor:
        ctx.save_for_backward(y, z)
        ctx.shape, ctx.value = x.data.shape, value
        return wrap(kernels.addcdiv(x.data, y.data, z.data, value))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_y, want_z, _), (y, z) = ctx.needs_input_grad, ctx.saved_tensors
        v = g if ctx.value == 1 else g * ctx.value
        gx = sum_to(g, ctx.shape) if want_x else None
        if recording():
            gy = sum_to(v / z, y.data.shape) if want_y else None
            return gx, gy, sum_to(-(v / z) * (y / z), z.data.shape) if want_z else None, None
        return gx, *summed(kernels.div_grad(v.data, y.data, z.data, want_y, want_z), y.data.shape, z.data.shape), None


def add(input: Tensor | float, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    """input + alpha * other; shapes broadcast, types promote as in PyTorch, a Python number takes the tensor's type.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is neither a Tensor nor a number, or alpha is no integer among integers.
    """
    return binary(Add, "add", input, other if alpha == 1 else _scaled(Add, "add", input, other, alpha))


def sub(input: Tensor | float, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    """input - alpha * other; as ``add``, but that truth values have no difference.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand holds truth values, or is neither a Tensor nor a number, or alpha is no integer among
            integers.
    """
    return binary(Sub, "sub", input, other if alpha == 1 else _scaled(Sub, "sub", input, other, alpha))


def _scaled(operator: type[Binary], name: str, x: Any, y: Any, alpha: Any) -> Tensor:
    """alpha * y in the type in which x and y meet."""
    x, y = promoted(operator, name, x, y)
    require_factor(name, "alpha", alpha, x.data.dtype)
    kind = x.data.dtype.kind
    convert: Any = whole if kind == "i" else as_real
    return mul(y, bool(alpha) if kind == "b" else convert(name, "alpha", alpha))


def mul(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input * other; as ``add``."""
    if not isinstance(other, Tensor):
        if isinstance(input, Tensor) and input.data.dtype.kind == "f" and is_number(other):
            return Scale.apply(input, as_real("mul", "other", other))
    elif not isinstance(input, Tensor) and other.data.dtype.kind == "f" and is_number(input):
        return Scale.apply(other, as_real("mul", "input", input))
    return binary(Mul, "mul", input, other)


def div(input: Tensor | float, other: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; as ``add``, and integers divide to float32.

    rounding_mode: None; "trunc" rounds the quotient towards 0, "floor" downwards, and the gradient is 0 then.

    Raises:
        ValueError: ``rounding_mode`` is none of these.
    """
    if rounding_mode is None:
        return binary(Div, "div", input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        return trunc_divide(input, other)
    raise ValueError(f"div: rounding_mode={rounding_mode!r}; choose None, 'trunc' or 'floor'")


def scale(input: Tensor, factor: float) -> Tensor:
    """input * factor in input's floating-point type."""
    return Scale.apply(input, factor)


def neg(input: Tensor) -> Tensor:
    """-input"""
    return unary_exact(Neg, "neg", np.negative, input)


def positive(input: Tensor) -> Tensor:
    """input itself.

    Raises:
        TypeError: input is no Tensor, or holds truth values.
    """
    if not isinstance(input, Tensor) or input.data.dtype.kind == "b":
        what = "bool" if isinstance(input, Tensor) else type(input).__name__
        raise TypeError(f"positive: input is {what}, needs a Tensor of numbers")
    return input


def lerp(input: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    """input + weight * (end - input); three operands are broadcast.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is no floating-point Tensor of input's type, or the weight is no number either.
    """
    require_same("lerp", "input", input, "end", end)
    if is_number(weight):
        weight = as_real("lerp", "weight", weight)
        if input.data.shape == end.data.shape:
            return LerpNumber.apply(input, end, weight)
        weight = wrap(np.array(weight, input.data.dtype))
    require_same("lerp", "input", input, "weight", weight)  # type: ignore[arg-type]
    broadcast_shape("lerp", broadcast_shape("lerp", input.data.shape, end.data.shape), weight.data.shape)  # type: ignore[union-attr]
    return Lerp.apply(input, end, weight)


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value * tensor1 * tensor2; three operands are broadcast, and their types promote.

    For integers the value loses its fraction.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is no Tensor, or all hold truth values.
    """
    x, y, z = _three("addcmul", input, tensor1, tensor2)
    if x.data.dtype.kind == "f":
        return Addcmul.apply(x, y, z, as_real("addcmul", "value", value))
    require_number("addcmul", x)
    return x + y * z * whole("addcmul", "value", value)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """input + value * tensor1 / tensor2; three operands are broadcast, and their types promote.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is no Tensor, or neither tensor1 nor tensor2 is floating-point.
    """
    x, y, z = _three("addcdiv", input, tensor1, tensor2)
    if tensor1.data.dtype.kind != "f" and tensor2.data.dtype.kind != "f":
        raise TypeError(
            f"addcdiv: tensor1 is {tensor1.data.dtype}, tensor2 is {tensor2.data.dtype}; "
            f"one must be float32 or float64: convert it with .float()"
        )
    return Addcdiv.apply(x, y, z, as_real("addcdiv", "value", value))


def _three(name: str, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    """The operands in one type, once they are known to broadcast."""
    if not (are_floats(x, y) and are_floats(x, z)):
        for label, operand in (("input", x), ("tensor1", y), ("tensor2", z)):
            require_tensor(name, operand, label)
    if not x.data.shape == y.data.shape == z.data.shape:
        broadcast_shape(name, broadcast_shape(name, x.data.shape, y.data.shape), z.data.shape)
    if x.data.dtype is y.data.dtype is z.data.dtype:
        return x, y, z
    dtype = meeting(x.data, y.data, z.data)
    return cast(x, dtype), cast(y, dtype), cast(z, dtype)


def subtract(input: Tensor | float, other: Tensor | float, *, alpha: float = 1) -> Tensor:
    """``sub``"""
    return sub(input, other, alpha=alpha)


def multiply(input: Tensor | float, other: Tensor | float) -> Tensor:
    """``mul``"""
    return mul(input, other)


def divide(input: Tensor | float, other: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """``div``"""
    return div(input, other, rounding_mode=rounding_mode)


def true_divide(input: Tensor | float, other: Tensor | float) -> Tensor:
    """``div``"""
    return div(input, other)


def negative(input: Tensor) -> Tensor:
    """``neg``"""
    return neg(input)
