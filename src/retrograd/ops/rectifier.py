"""Activations of straight pieces: relu and its kin, and those with hard limits."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.tensor import Tensor, wrap
from . import piecewise
from .broadcasting import sum_to
from .dtype import as_flag, require_float, require_number, require_same, whole
from .inplace import in_place
from .kernel_set import kernels
from .operands import Gradients, recording, unary_float
from .piecewise import WithinGrad, where
from .pointwise import pointwise
from .random import default_generator

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


class Threshold(Function):
    """x where x > limit, value elsewhere"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: float, value: float) -> Tensor:
        ctx.save_for_backward(x.array)
        ctx.limits = -math.inf, limit
        return wrap(kernels.threshold(x.array, limit, value))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return OutsideGrad.apply(g, x, *ctx.limits), None, None


class Hardtanh(Function):
    """min(max(x, low), high); the gradient at the limits is 0"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, low: float, high: float) -> Tensor:
        ctx.save_for_backward(x.array)
        ctx.limits = low, high
        return wrap(kernels.clamp(x.array, low, high))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return HardtanhGrad.apply(g, x, *ctx.limits), None, None


class HardtanhGrad(Function):
    """0 where x <= low or x >= high, otherwise g, also at NaN: linear in g; x only says where"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: np.ndarray, low: float, high: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.limits = low, high
        return wrap(kernels.hardtanh_grad(g.array, x, low, high))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return HardtanhGrad.apply(v, x, *ctx.limits), None, None, None


class Hardsigmoid(Function):
    """min(max(x + 3, 0), 6) / 6"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x.array)
        ctx.limits = _inside(-3.0, 3.0, x.array.dtype)
        return wrap(kernels.hardsigmoid(x.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return (WithinGrad.apply(g, x, *ctx.limits, 1.0 / 6.0),)


class Hardshrink(Function):
    """x where |x| > limit, 0 elsewhere"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: float) -> Tensor:
        ctx.save_for_backward(x.array)
        ctx.limits = -limit, limit
        return wrap(kernels.hardshrink(x.array, limit))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return OutsideGrad.apply(g, x, *ctx.limits), None


class Softshrink(Function):
    """x drawn towards 0 by limit, at most to 0"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: float) -> Tensor:
        ctx.save_for_backward(x.array)
        ctx.limits = -limit, limit
        return wrap(kernels.softshrink(x.array, limit))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return OutsideGrad.apply(g, x, *ctx.limits), None


class OutsideGrad(Function):
    """0 where low <= x <= high, otherwise g: linear in g; x only says where"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: np.ndarray, low: float, high: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.limits = low, high
        return wrap(kernels.outside_grad(g.array, x, low, high))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return OutsideGrad.apply(v, x, *ctx.limits), None, None, None


Hardswish = pointwise("hardswish")


class LeakyRelu(Function):
    """x where x > 0, slope * x elsewhere"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, slope: float) -> Tensor:
        ctx.save_for_backward(x.array)
        ctx.slope = slope
        return wrap(kernels.leaky_relu(x.array, slope))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return LeakyReluGrad.apply(g, x, ctx.slope), None


class LeakyReluGrad(Function):
    """g where x > 0, slope * g elsewhere: linear in g; x only says where"""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: np.ndarray, slope: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.slope = slope
        return wrap(kernels.leaky_relu_grad(g.array, x, slope))

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (x,) = ctx.saved_tensors
        return LeakyReluGrad.apply(v, x, ctx.slope), None, None


class Prelu(Function):
    """x where x > 0, weight * x elsewhere; weight (C,) along axis 1 or (1,)

    Source: K. He et al., "Delving Deep into Rectifiers", 2015.
    """

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return wrap(kernels.prelu(x.array, weight.array))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_weight), (x, weight) = ctx.needs_input_grad, ctx.saved_tensors
        n = weight.array.size
        wide = (n, *(1,) * (x.array.ndim - 2)) if x.array.ndim > 1 else (n,) if x.array.ndim else ()
        gx = gw = None
        if want_x and recording():
            gx = where(x > 0, g, g * weight.reshape(wide))
        elif want_x:
            gx = wrap(kernels.prelu_grad(g.array, x.array, weight.array))
        if want_weight:
            if recording():
                positive = x > 0
                terms = where(positive, 0.0, g * where(positive, 0.0, x))  # the inner one: inf has slope 0, too
            else:
                terms = wrap(kernels.prelu_terms(g.array, x.array))
            gw = sum_to(terms, wide).reshape(n)
        return gx, gw


class Rrelu(Function):
    """x times a slope: 1 where x > 0, drawn between lower and upper elsewhere"""

    piecewise_linear = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, lower: float, upper: float) -> Tensor:
        drawn = default_generator.uniform(lower, upper, x.array.shape)
        slopes = np.asarray(np.where(x.array > 0, 1.0, drawn), x.array.dtype)
        ctx.save_for_backward(slopes)
        return wrap(kernels.mul(x.array, slopes))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (slopes,) = ctx.saved_tensors
        return g * wrap(slopes), None, None


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0)

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    if inplace is not False and as_flag("relu", "inplace", inplace):
        return in_place(piecewise.relu)(input)
    return piecewise.relu(input)


def relu_(input: Tensor) -> Tensor:
    """``relu`` in the memory of input, which is returned."""
    return relu(input, True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(input, 0), 6); the gradient at 0 and at 6 is 0.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    return hardtanh(input, 0.0, 6.0, inplace is not False and as_flag("relu6", "inplace", inplace))


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """min(max(input, min_val), max_val); the gradient at the limits is 0. For integers the limits lose their fractions.

    Raises:
        TypeError: input is no Tensor of numbers.
        ValueError: min_val exceeds max_val, or input holds integers and a limit is beyond them.
    """
    if inplace is not False and as_flag("hardtanh", "inplace", inplace):
        return in_place(hardtanh)(input, min_val, max_val)
    require_number("hardtanh", input)
    if not min_val <= max_val:
        raise ValueError(f"hardtanh: min_val={min_val} exceeds max_val={max_val}")
    if input.array.dtype.kind == "i":
        limits = whole("hardtanh", "min_val", min_val), whole("hardtanh", "max_val", max_val)
        return piecewise.clamp(input, *limits)
    return Hardtanh.apply(input, float(min_val), float(max_val))


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(input + 3, 0), 6) / 6.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    if inplace is not False and as_flag("hardsigmoid", "inplace", inplace):
        return in_place(hardsigmoid)(input)
    return unary_float(Hardsigmoid, "hardsigmoid", input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * hardsigmoid(input).

    Source: A. Howard et al., "Searching for MobileNetV3", 2019.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    if inplace is not False and as_flag("hardswish", "inplace", inplace):
        return in_place(hardswish)(input)
    return unary_float(Hardswish, "hardswish", input)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input where |input| > lambd, 0 elsewhere.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    require_float("hardshrink", input)
    return Hardshrink.apply(input, float(lambd))


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """input - lambd above lambd, input + lambd below -lambd, 0 between.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: lambd is negative.
    """
    require_float("softshrink", input)
    if not lambd >= 0:
        raise ValueError(f"softshrink: lambd={lambd} is negative; use 0 or more")
    return Softshrink.apply(input, float(lambd))


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """input where it is above ``threshold``, ``value`` elsewhere; for integers both numbers lose their fractions.

    Raises:
        TypeError: input is no Tensor of numbers.
        ValueError: input holds integers and a number is beyond them.
    """
    if inplace is not False and as_flag("threshold", "inplace", inplace):
        return in_place(_threshold)(input, threshold, value)
    require_number("threshold", input)
    if input.array.dtype.kind == "i":
        limit, rest = whole("threshold", "threshold", threshold), whole("threshold", "value", value)
        return where(input > limit, input, rest)
    return Threshold.apply(input, float(threshold), float(value))


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """input where it is above 0, negative_slope * input elsewhere.

    Raises:
        TypeError: input is no floating-point Tensor.
    """
    if inplace is not False and as_flag("leaky_relu", "inplace", inplace):
        return in_place(leaky_relu)(input, negative_slope)
    require_float("leaky_relu", input)
    return LeakyRelu.apply(input, float(negative_slope))


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input where it is above 0, weight * input elsewhere.

    weight: () or (1,), or (C,) for an input (N, C, ...) whose axis 1 it belongs to.

    Raises:
        TypeError: an operand is no floating-point Tensor, or their types differ.
        ValueError: weight has another shape.
    """
    require_same("prelu", "input", input, "weight", weight)
    channels = input.array.shape[1] if input.array.ndim > 1 else 1
    if weight.array.shape == ():
        weight = weight.reshape(1)
    if weight.array.shape not in ((1,), (channels,)):
        raise ValueError(
            f"prelu: weight.shape={weight.array.shape}, needs (1,) or one number for each of the {channels} channels, "
            f"axis 1 of input.shape={input.array.shape}"
        )
    return Prelu.apply(input, weight)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """input where it is above 0, elsewhere input times a number drawn between lower and upper for each element.

    When not training, this number is the mean of lower and upper.

    Raises:
        TypeError: input is no floating-point Tensor.
        ValueError: lower exceeds upper.

    Source: B. Xu et al., "Empirical Evaluation of Rectified Activations in Convolution Network", 2015.
    """
    require_float("rrelu", input)
    training, inplace = as_flag("rrelu", "training", training), as_flag("rrelu", "inplace", inplace)
    if not lower <= upper:
        raise ValueError(f"rrelu: lower={lower} exceeds upper={upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    if inplace:
        return in_place(rrelu)(input, lower, upper, training)
    return Rrelu.apply(input, float(lower), float(upper))


_threshold = threshold


@lru_cache(maxsize=256)
def _inside(low: float, high: float, dtype: np.dtype[Any]) -> tuple[float, float]:
    """The least and the largest number between two limits, without these."""
    a, b = (np.asarray(limit, dtype) for limit in (low, high))
    return float(np.nextafter(a, np.asarray(np.inf, dtype))), float(np.nextafter(b, np.asarray(-np.inf, dtype)))
