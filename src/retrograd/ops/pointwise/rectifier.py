"""Piecewise linear activations: relu and its variants, and hard limits."""

from __future__ import annotations

from ...arrays import from_host
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_flag, as_real, as_truth, require_float, require_number, require_same, whole
from ..inplace.inplace import in_place, relu_
from ..random.random import default_generator
from . import piecewise
from .operands import Binary, unary_float
from .piecewise import relu, where
from .pointwise import Pointwise

__all__ = [
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "softshrink",
    "threshold",
]


class Threshold(Pointwise, formula="threshold", straight=True):
    """value where x <= limit, x elsewhere"""


class Hardtanh(Pointwise, formula="hardtanh", value="clamp", straight=True):
    """min(max(x, low), high); NaN stays"""


class Hardsigmoid(Pointwise, formula="hardsigmoid", straight=True):
    """min(max(x + 3, 0), 6) / 6"""


class Hardswish(Pointwise, formula="hardswish"):
    """x hardsigmoid(x)"""


class Hardshrink(Pointwise, formula="hardshrink", straight=True):
    """0 where |x| <= limit, x elsewhere"""


class Softshrink(Pointwise, formula="softshrink", straight=True):
    """x shrunk towards 0 by limit, at most to 0; NaN stays"""


class LeakyRelu(Pointwise, formula="leaky_relu", straight=True):
    """x where x > 0, slope x elsewhere"""


class Prelu(Pointwise, Binary, formula="prelu", straight=True):
    """x where x > 0, x y elsewhere; y is the weight"""


@operator(dtypes="if")
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(input, 0), 6); the gradient at 0 and at 6 is 0.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(relu6, locals())) is not None:
        return seen
    return hardtanh(input, 0.0, 6.0, inplace is not False and as_truth("relu6", "inplace", inplace))


@operator(records=Hardtanh, dtypes="if")
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """min(max(input, min_val), max_val); the gradient at the limits is 0. For integers the limits are truncated.

    Raises:
        TypeError: input is not a Tensor of numbers.
        ValueError: min_val exceeds max_val, or input holds integers and a limit does not fit int64.
    """
    if interpreters and (seen := interpreted(hardtanh, locals())) is not None:
        return seen
    if inplace is not False and as_truth("hardtanh", "inplace", inplace):
        return in_place(hardtanh)(input, min_val, max_val)
    require_number("hardtanh", input)
    low, high = as_real("hardtanh", "min_val", min_val), as_real("hardtanh", "max_val", max_val)
    if not low <= high:
        raise ValueError(f"hardtanh: min_val={min_val} exceeds max_val={max_val}")
    if input.array.dtype.kind in "iu":
        limits = whole("hardtanh", "min_val", min_val), whole("hardtanh", "max_val", max_val)
        return piecewise.clamp(input, *limits)
    return Hardtanh.apply(input, low, high)


@operator(records=Hardsigmoid)
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(input + 3, 0), 6) / 6.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(hardsigmoid, locals())) is not None:
        return seen
    if inplace is not False and as_truth("hardsigmoid", "inplace", inplace):
        return in_place(hardsigmoid)(input)
    return unary_float(Hardsigmoid, "hardsigmoid", input)


@operator(records=Hardswish)
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * hardsigmoid(input).

    Source: A. Howard et al., "Searching for MobileNetV3", 2019.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(hardswish, locals())) is not None:
        return seen
    if inplace is not False and as_truth("hardswish", "inplace", inplace):
        return in_place(hardswish)(input)
    return unary_float(Hardswish, "hardswish", input)


@operator(records=Hardshrink)
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input where |input| > lambd, 0 elsewhere.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(hardshrink, locals())) is not None:
        return seen
    require_float("hardshrink", input)
    return Hardshrink.apply(input, as_real("hardshrink", "lambd", lambd))


@operator(records=Softshrink)
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input - lambd above lambd, input + lambd below -lambd, 0 between.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: lambd is negative.
    """
    if interpreters and (seen := interpreted(softshrink, locals())) is not None:
        return seen
    require_float("softshrink", input)
    lambd = as_real("softshrink", "lambd", lambd)
    if not lambd >= 0:
        raise ValueError(f"softshrink: lambd={lambd:g} is negative; use 0 or more")
    return Softshrink.apply(input, lambd)


@operator(records=Threshold, dtypes="if")
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """input where it is above ``threshold``, ``value`` elsewhere; for integers both numbers are truncated.

    Raises:
        TypeError: input is not a Tensor of numbers.
        ValueError: input holds integers and a number does not fit int64.
    """
    if interpreters and (seen := interpreted(_threshold, locals())) is not None:
        return seen
    if inplace is not False and as_truth("threshold", "inplace", inplace):
        return in_place(_threshold)(input, threshold, value)
    require_number("threshold", input)
    if input.array.dtype.kind in "iu":
        limit, rest = whole("threshold", "threshold", threshold), whole("threshold", "value", value)
        return where(input > limit, input, rest)
    return Threshold.apply(input, as_real("threshold", "threshold", threshold), as_real("threshold", "value", value))


@operator(records=LeakyRelu)
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is above 0, negative_slope * input elsewhere.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(leaky_relu, locals())) is not None:
        return seen
    if inplace is not False and as_truth("leaky_relu", "inplace", inplace):
        return in_place(leaky_relu)(input, negative_slope)
    require_float("leaky_relu", input)
    return LeakyRelu.apply(input, as_real("leaky_relu", "negative_slope", negative_slope))


@operator(records=Prelu)
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where it is above 0, weight * input elsewhere.

    weight: () or (1,), or (C,) for an input (N, C, ...).

    Raises:
        TypeError: an operand is not a floating-point Tensor, or their types differ.
        ValueError: weight has another shape.

    Source: K. He et al., "Delving Deep into Rectifiers", 2015.
    """
    if interpreters and (seen := interpreted(prelu, locals())) is not None:
        return seen
    require_same("prelu", "input", input, "weight", weight)
    channels = input.array.shape[1] if input.array.ndim > 1 else 1
    if weight.array.shape == ():
        weight = weight.reshape(1)
    if weight.array.shape not in ((1,), (channels,)):
        raise ValueError(
            f"prelu: weight.shape={weight.array.shape}, needs (1,) or one number for each of the {channels} channels, "
            f"axis 1 of input.shape={input.array.shape}"
        )
    ndim = input.array.ndim
    if ndim not in (1, 2):
        weight = weight.reshape((-1, *(1,) * (ndim - 2)) if ndim else ())
    return Prelu.apply(input, weight)


@operator(records=Prelu)
def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """input where it is above 0, elsewhere input times a number drawn between lower and upper for each element.

    When not training, this number is the mean of lower and upper.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: lower exceeds upper.

    Source: B. Xu et al., "Empirical Evaluation of Rectified Activations in Convolution Network", 2015.
    """
    if interpreters and (seen := interpreted(rrelu, locals())) is not None:
        return seen
    require_float("rrelu", input)
    training, inplace = as_flag("rrelu", "training", training), as_truth("rrelu", "inplace", inplace)
    lower, upper = as_real("rrelu", "lower", lower), as_real("rrelu", "upper", upper)
    if not lower <= upper:
        raise ValueError(f"rrelu: lower={lower} exceeds upper={upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    if inplace:
        return in_place(rrelu)(input, lower, upper, training)
    slopes = default_generator.uniform(lower, upper, input.array.shape)
    return Prelu.apply(input, wrap(from_host(slopes, input.array.dtype, like=input.array)))


_threshold = threshold
