"""Arithmetic operators with broadcasting.

Each class defines a forward and its backward. The functions below check the operands once and apply the class.
"""

from __future__ import annotations

from typing import Any, Final

from ...arrays import from_host
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ..argument_checks import (
    are_floats,
    as_int64,
    as_real,
    is_number,
    require_factor,
    require_number,
    require_same,
    require_tensor,
)
from ..dtypes.dtype import cast
from ..dtypes.promotion import promoted_type
from ..shape.broadcasting import broadcast_shape
from ..signatures import scaled_last
from .pointwise import Binary, Pointwise, binary, promoted, unary_exact
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


class Add(Pointwise, Binary, formula="add"):
    """x + y"""

    exact = True


class Sub(Pointwise, Binary, formula="sub"):
    """x - y"""

    exact = True
    booleans = False


class Mul(Pointwise, Binary, formula="mul"):
    """x y"""

    exact = True


class Div(Pointwise, Binary, formula="div"):
    """x / y"""


class Neg(Pointwise, formula="neg"):
    """-x"""


class Scale(Pointwise, formula="scale"):  # by a Python number
    """factor x"""


class Addcmul(Pointwise, formula="addcmul"):
    """x + value y z"""


class Addcdiv(Pointwise, formula="addcdiv"):
    """x + value y / z"""


class Lerp(Pointwise, formula="lerp"):
    """x + weight (y - x), from the nearer end, so that weights of 0 and 1 give x and y themselves"""


class LerpNumber(Pointwise, Binary, formula="lerp_number"):
    """``lerp`` with a single weight for all elements."""


@operator(records=Add, methods="add __add__", in_place=True, numpy="add", dtypes="bihf")
def add(input: Tensor | float, other: Tensor | float, *older: Tensor, alpha: float = 1) -> Tensor:
    """input + alpha * other; shapes broadcast, types promote as in PyTorch.

    Within a category, a Python number takes the tensor's type.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is neither a Tensor nor a number, or alpha is a float and the operands are integers.
    """
    if interpreters and (seen := interpreted(add, locals())) is not None:
        return seen
    if older:
        other, alpha = scaled_last("add", other, older, alpha)
    return binary(Add, "add", input, other if alpha == 1 else _scaled(Add, "add", input, other, alpha))


@operator(records=Sub, methods="sub subtract __sub__", in_place=True, numpy="subtract", dtypes="ihf")
def sub(input: Tensor | float, other: Tensor | float, *older: Tensor, alpha: float = 1) -> Tensor:
    """input - alpha * other; see ``add``. Boolean operands are an error.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is boolean, or is neither a Tensor nor a number, or alpha is a float and the
            operands are integers.
    """
    if interpreters and (seen := interpreted(sub, locals())) is not None:
        return seen
    if older:
        other, alpha = scaled_last("sub", other, older, alpha)
    return binary(Sub, "sub", input, other if alpha == 1 else _scaled(Sub, "sub", input, other, alpha))


def _scaled(operator: type[Binary], name: str, x: Any, y: Any, alpha: Any) -> Tensor:
    """alpha * y in the promoted type of x and y."""
    x, y = promoted(operator, name, x, y)
    require_factor(name, "alpha", alpha, x.array.dtype)
    kind = x.array.dtype.kind
    convert: Any = as_int64 if kind in "iu" else as_real
    return mul(y, bool(alpha) if kind == "b" else convert(name, "alpha", alpha))


@operator(records=(Scale, Mul), methods="mul multiply __mul__", in_place=True, numpy="multiply", dtypes="bihf")
def mul(input: Tensor | float, other: Tensor | float) -> Tensor:
    """input * other; see ``add``."""
    if interpreters and (seen := interpreted(mul, locals())) is not None:
        return seen
    if not isinstance(other, Tensor):
        if isinstance(input, Tensor) and input.array.dtype.kind == "f" and is_number(other):
            return Scale.apply(input, as_real("mul", "other", other))
    elif not isinstance(input, Tensor) and other.array.dtype.kind == "f" and is_number(input):
        return Scale.apply(other, as_real("mul", "input", input))
    return binary(Mul, "mul", input, other)


@operator(records=Div, methods="div divide __truediv__", in_place=True, numpy="divide", dtypes="bihf")
def div(input: Tensor | float, other: Tensor | float, *, rounding_mode: str | None = None) -> Tensor:
    """input / other; see ``add``. Integers give float32.

    rounding_mode: None, or "trunc" to round the quotient toward 0, or "floor" to round it down; rounding makes the
        gradient 0.

    Raises:
        ValueError: ``rounding_mode`` is unknown.
    """
    if interpreters and (seen := interpreted(div, locals())) is not None:
        return seen
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


@operator(records=Neg, methods="neg negative __neg__", in_place=True, numpy="negative", dtypes="if")
def neg(input: Tensor) -> Tensor:
    """-input"""
    if interpreters and (seen := interpreted(neg, locals())) is not None:
        return seen
    return unary_exact(Neg, "neg", input)


@operator(methods="positive __pos__", numpy="positive", dtypes="ihf")
def positive(input: Tensor) -> Tensor:
    """input itself.

    Raises:
        TypeError: input is not a Tensor, or is boolean.
    """
    if interpreters and (seen := interpreted(positive, locals())) is not None:
        return seen
    if not isinstance(input, Tensor) or input.array.dtype.kind == "b":
        kind = "bool" if isinstance(input, Tensor) else type(input).__name__
        raise TypeError(f"positive: input is {kind}, needs a Tensor of numbers")
    return input


@operator(records=(LerpNumber, Lerp), methods="lerp", in_place=True)
def lerp(input: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    """input + weight * (end - input); the three operands broadcast.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is not a floating-point Tensor of input's type, and weight not a number either.
    """
    if interpreters and (seen := interpreted(lerp, locals())) is not None:
        return seen
    require_same("lerp", "input", input, "end", end)
    if is_number(weight):
        weight = as_real("lerp", "weight", weight)
        if input.array.shape == end.array.shape:
            return LerpNumber.apply(input, end, weight)
        weight = wrap(from_host(weight, input.array.dtype))
    require_same("lerp", "input", input, "weight", weight)  # type: ignore[arg-type]
    broadcast_shape("lerp", broadcast_shape("lerp", input.array.shape, end.array.shape), weight.array.shape)  # type: ignore[union-attr]
    return Lerp.apply(input, end, weight)


@operator(records=Addcmul, methods="addcmul", in_place=True, dtypes="ihf")
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *older: Tensor, value: float = 1) -> Tensor:
    """input + value * tensor1 * tensor2; the three operands broadcast, and their types promote.

    For integers, ``value`` is truncated.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is not a Tensor, or all are boolean.
    """
    if interpreters and (seen := interpreted(addcmul, locals())) is not None:
        return seen
    if older:
        tensor1, tensor2, value = scaled_last("addcmul", tensor1, (tensor2, *older), value, 2)
    x, y, z = _three("addcmul", input, tensor1, tensor2)
    if x.array.dtype.kind == "f":
        return Addcmul.apply(x, y, z, as_real("addcmul", "value", value))
    require_number("addcmul", x)
    return x + y * z * as_int64("addcmul", "value", value)


@operator(records=Addcdiv, methods="addcdiv", in_place=True, dtypes="hf")
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *older: Tensor, value: float = 1) -> Tensor:
    """input + value * tensor1 / tensor2; the three operands broadcast, and their types promote.

    Raises:
        ValueError: the shapes do not broadcast.
        TypeError: an operand is not a Tensor, or neither tensor1 nor tensor2 is floating-point.
    """
    if interpreters and (seen := interpreted(addcdiv, locals())) is not None:
        return seen
    if older:
        tensor1, tensor2, value = scaled_last("addcdiv", tensor1, (tensor2, *older), value, 2)
    x, y, z = _three("addcdiv", input, tensor1, tensor2)
    if tensor1.array.dtype.kind != "f" and tensor2.array.dtype.kind != "f":
        raise TypeError(
            f"addcdiv: tensor1 is {tensor1.array.dtype}, tensor2 is {tensor2.array.dtype}; "
            f"one must be float32 or float64: convert it with .float()"
        )
    return Addcdiv.apply(x, y, z, as_real("addcdiv", "value", value))


def _three(name: str, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    """Convert the operands to one type, after checking that they broadcast."""
    if not (are_floats(x, y) and are_floats(x, z)):
        for label, operand in (("input", x), ("tensor1", y), ("tensor2", z)):
            require_tensor(name, operand, label)
    if not x.array.shape == y.array.shape == z.array.shape:
        broadcast_shape(name, broadcast_shape(name, x.array.shape, y.array.shape), z.array.shape)
    if x.array.dtype is y.array.dtype is z.array.dtype:
        return x, y, z
    dtype = promoted_type(x.array, y.array, z.array)
    return cast(x, dtype), cast(y, dtype), cast(z, dtype)


@operator(methods="true_divide", in_place=True, dtypes="bihf")
def true_divide(input: Tensor | float, other: Tensor | float) -> Tensor:
    """``div``"""
    if interpreters and (seen := interpreted(true_divide, locals())) is not None:
        return seen
    return div(input, other)


subtract: Final = sub
multiply: Final = mul
divide: Final = div
negative: Final = neg
