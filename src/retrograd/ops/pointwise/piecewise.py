"""Piecewise operators: where, maximum, minimum, clamp, relu and nan_to_num."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...arrays import from_host, zeros
from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import (
    as_element,
    as_mask,
    as_real,
    as_truth,
    copy_for_backward,
    is_number,
    require_float,
    require_tensor,
)
from ..dtypes.dtype import cast, uint8
from ..dtypes.promotion import promote, promoted_type, with_number
from ..index.indexing import nonzero
from ..shape.broadcasting import broadcast_shape, sum_to
from .pointwise import Binary, Gradients, Pointwise, binary, unary_exact

__all__ = [
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "fmax",
    "fmin",
    "maximum",
    "minimum",
    "nan_to_num",
    "relu",
    "where",
]

_PLAIN = frozenset((float, int, type(None)))  # the usual types of the limits of ``clamp``


class Relu(Pointwise, formula="relu", straight=True):
    """max(x, 0); NaN is kept"""


class Clamp(Pointwise, formula="clamp"):
    """min(max(x, low), high); NaN is kept"""


class NanToNum(Pointwise, formula="nan_to_num"):
    """x with NaN, inf and -inf replaced by given numbers"""


class ClampTensors(Function):
    """min(max(x, low), high) of three tensors; a limit gets the gradient where it replaces x"""

    gradient = "x: g where low <= x <= high; a limit: g where it is the result and x is not"

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        ctx.save_for_backward(x.array, low.array, high.array)
        return wrap(kernels.minimum(kernels.maximum(x.array, low.array), high.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        needs_grad, (x, low, high) = ctx.needs_input_grad, ctx.saved_tensors
        masks = kernels.clamp_masks(x, low, high)
        return tuple(
            sum_to(where(wrap(mask), g, 0.0), operand.shape) if needed else None
            for needed, mask, operand in zip(needs_grad, masks, (x, low, high), strict=True)
        )


class Where(Function):
    """x where the condition holds, y elsewhere"""

    @staticmethod
    def forward(condition: np.ndarray, x: Tensor, y: Tensor) -> Tensor:
        return wrap(kernels.where(condition, x.array, y.array))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        condition, x, y = inputs
        ctx.save_for_backward(copy_for_backward(condition))
        ctx.shapes = x.array.shape, y.array.shape

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (_, want_x, want_y), (condition,), (sx, sy) = ctx.needs_input_grad, ctx.saved_tensors, ctx.shapes
        zero = wrap(zeros((), g.array.dtype, like=g.array))
        gx = sum_to(Where.apply(condition, g, zero), sx) if want_x else None
        return None, gx, sum_to(Where.apply(condition, zero, g), sy) if want_y else None


class Maximum(Pointwise, Binary, formula="maximum"):
    """The larger one; NaN wins."""

    exact = True


@operator(records=Maximum, domains=((-2.0, 2.0), (-2.0, 2.0)), methods="maximum", numpy="maximum", dtypes="bihf")
def maximum(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The larger of the two, element by element; NaN wins; ties share the gradient evenly."""
    if interpreters and (seen := interpreted(maximum, locals())) is not None:
        return seen
    return binary(Maximum, "maximum", input, other)


class Minimum(Pointwise, Binary, formula="minimum"):
    """The smaller one; NaN wins."""

    exact = True


@operator(records=Minimum, domains=((-2.0, 2.0), (-2.0, 2.0)), methods="minimum", numpy="minimum", dtypes="bihf")
def minimum(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The smaller of the two, element by element; NaN wins; ties share the gradient evenly."""
    if interpreters and (seen := interpreted(minimum, locals())) is not None:
        return seen
    return binary(Minimum, "minimum", input, other)


class Fmax(Pointwise, Binary, formula="fmax"):
    """The larger one; numbers win over NaN."""

    exact = True


@operator(records=Fmax, domains=((-2.0, 2.0), (-2.0, 2.0)), methods="fmax", numpy="fmax", dtypes="bihf")
def fmax(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The larger of the two, element by element; numbers win over NaN; for ties, input gets the gradient."""
    if interpreters and (seen := interpreted(fmax, locals())) is not None:
        return seen
    return binary(Fmax, "fmax", input, other)


class Fmin(Pointwise, Binary, formula="fmin"):
    """The smaller one; numbers win over NaN."""

    exact = True


@operator(records=Fmin, domains=((-2.0, 2.0), (-2.0, 2.0)), methods="fmin", numpy="fmin", dtypes="bihf")
def fmin(input: Tensor | float, other: Tensor | float) -> Tensor:
    """The smaller of the two, element by element; numbers win over NaN; for ties, input gets the gradient."""
    if interpreters and (seen := interpreted(fmin, locals())) is not None:
        return seen
    return binary(Fmin, "fmin", input, other)


@operator(records=Relu, methods="relu", dtypes="bif")
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0)

    Raises:
        TypeError: input is not a Tensor of numbers.
    """
    if interpreters and (seen := interpreted(relu, locals())) is not None:
        return seen
    if inplace is not False and as_truth("relu", "inplace", inplace):
        return input.relu_()
    return unary_exact(Relu, "relu", input)


@operator(records=(Clamp, ClampTensors), methods="clamp clip", in_place=True, dtypes="bihf")
def clamp(input: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None) -> Tensor:
    """min(max(input, min), max); a limit is None, a number, or a tensor that broadcasts with input.

    Where min exceeds max, the result is max. From min to max, limits included, the gradient goes to input.
    Outside, it goes to the limit if that is a tensor. NaN is kept.

    Raises:
        ValueError: both limits are missing, or shapes do not broadcast.
        TypeError: input is not a Tensor, a limit is neither a number nor a Tensor, or all operands are boolean, unless
            the only limit is a Tensor.
    """
    if interpreters and (seen := interpreted(clamp, locals())) is not None:
        return seen
    if min is None and max is None:
        raise ValueError("clamp: min and max are both missing; give at least one of them")
    if type(min) in _PLAIN and type(max) in _PLAIN and isinstance(input, Tensor) and input.array.dtype.kind == "f":
        low = -math.inf if min is None else as_real("clamp", "min", min)
        high = math.inf if max is None else as_real("clamp", "max", max)
        if low == low and high == high:  # not NaN
            return Clamp.apply(input, low, high)
    return _clamp(input, min, max)


def _clamp(x: Tensor, low: Any, high: Any) -> Tensor:
    """``clamp`` for mixed limits or types, after converting everything to tensors of one type."""
    require_tensor("clamp", x)
    for label, limit in (("min", low), ("max", high)):
        if not (limit is None or is_number(limit) or isinstance(limit, Tensor)):
            raise TypeError(f"clamp: {label} is {kind_name(limit)}, needs a number or a Tensor")
    tensors = [limit for limit in (low, high) if isinstance(limit, Tensor)]
    for limit in tensors:
        broadcast_shape("clamp", x.array.shape, limit.array.shape)
    dtype = promoted_type(x.array, *[limit.array for limit in tensors])
    for limit in (low, high):
        dtype = with_number(dtype, limit) if is_number(limit) else dtype
    if dtype.kind == "b" and (len(tensors) != 1 or not (low is None or high is None)):
        raise TypeError("clamp: input and limits are bool, needs numbers; convert input with input.long()")
    x = cast(x, dtype)
    low, high = _limit("min", low, dtype), _limit("max", high, dtype)
    if dtype.kind != "f":
        y = x.array if low is None else exact("maximum")(x.array, low.array)
        return wrap(y if high is None else exact("minimum")(y, high.array))
    low = wrap(from_host(-math.inf, dtype, like=x.array)) if low is None else low
    return ClampTensors.apply(x, low, wrap(from_host(math.inf, dtype, like=x.array)) if high is None else high)


def _limit(label: str, limit: Any, dtype: np.dtype[Any]) -> Tensor | None:
    if limit is None or isinstance(limit, Tensor):
        return None if limit is None else cast(limit, dtype)
    return wrap(as_element("clamp", label, limit, dtype))


@operator(methods="clamp_min", in_place=True, dtypes="bihf")
def clamp_min(input: Tensor, min: Tensor | float) -> Tensor:
    """``clamp`` with a lower limit"""
    if interpreters and (seen := interpreted(clamp_min, locals())) is not None:
        return seen
    return clamp(input, min)


@operator(methods="clamp_max", in_place=True, dtypes="bihf")
def clamp_max(input: Tensor, max: Tensor | float) -> Tensor:
    """``clamp`` with an upper limit"""
    if interpreters and (seen := interpreted(clamp_max, locals())) is not None:
        return seen
    return clamp(input, None, max)


@operator(records=Where, dtypes="bihf")
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where the condition holds, other elsewhere: Tensors or numbers, all three broadcast, types promote.

    With the condition alone, return the indices where it is nonzero: ``nonzero(condition, as_tuple=True)``.

    Raises:
        TypeError: condition is not a boolean Tensor, or input and other are neither Tensors nor numbers.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(where, locals())) is not None:
        return seen
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if isinstance(condition, Tensor) and condition.array.dtype is uint8:
        condition = wrap(as_mask("where", condition.array))
    if not isinstance(condition, Tensor) or condition.array.dtype.kind != "b":
        kind = condition.array.dtype if isinstance(condition, Tensor) else type(condition).__name__
        raise TypeError(f"where: condition is {kind}, needs a Tensor of bool; make one with a comparison or .bool()")
    if is_number(input) and is_number(other):
        dtype = with_number(with_number(np.dtype(bool), input), other)
        input = wrap(as_element("where", "input", input, dtype))
    x, y = promote("where", input, other)
    broadcast_shape("where", broadcast_shape("where", x.array.shape, y.array.shape), condition.array.shape)
    if x.array.dtype.kind == "f":
        return Where.apply(condition.array, x, y)
    return wrap(exact("where")(condition.array, x.array, y.array))


@operator(records=NanToNum, methods="nan_to_num", in_place=True, dtypes="bif")
def nan_to_num(
    input: Tensor, nan: float | None = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN and infinities in input: by default with 0 and with the largest and smallest number of its type.

    Replaced elements get a gradient of 0.
    """
    if interpreters and (seen := interpreted(nan_to_num, locals())) is not None:
        return seen
    if isinstance(input, Tensor) and input.array.dtype.kind != "f":
        return wrap(kernels.reshaped(input.array, input.array.shape))
    require_float("nan_to_num", input)
    largest = float(np.finfo(input.array.dtype).max)
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    number = 0.0 if nan is None else as_real("nan_to_num", "nan", nan)
    high, low = as_real("nan_to_num", "posinf", high), as_real("nan_to_num", "neginf", low)
    return NanToNum.apply(input, number, high, low)


clip = clamp
