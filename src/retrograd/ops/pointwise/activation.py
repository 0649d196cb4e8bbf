"""Smooth and piecewise linear activation functions, with in-place variants."""

from __future__ import annotations

from ...arrays import from_host
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ..argument_checks import (
    as_flag,
    as_float,
    as_int64,
    as_real,
    as_truth,
    require_float,
    require_number,
    require_same,
)
from ..inplace import in_place, relu_
from ..random.random import default_generator
from . import piecewise
from .piecewise import relu, where
from .pointwise import Binary, Pointwise, unary_float

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
    "threshold_",
]


# ---- Smooth and exponential activations (formulas in `formulas/activation.py`) --------------------------------------

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


class Silu(Pointwise, formula="silu"):
    """x sigmoid(x)"""


class Mish(Pointwise, formula="mish"):
    """x tanh(log(1 + exp(x)))"""


class Gelu(Pointwise, formula="gelu"):
    """x (1 + erf(x / sqrt(2))) / 2"""


class GeluTanh(Pointwise, formula="gelu_tanh"):
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) / 2"""


class Softplus(Pointwise, formula="softplus"):
    """log(1 + exp(beta x)) / beta, or x where beta x > limit"""


class LogSigmoid(Pointwise, formula="log_sigmoid"):
    """log(sigmoid(x))"""


class Softsign(Pointwise, formula="softsign"):
    """x / (1 + |x|)"""


class Tanhshrink(Pointwise, formula="tanhshrink"):
    """x - tanh(x)"""


class Elu(Pointwise, formula="elu"):
    """scale x where x > 0, alpha (exp(rate x) - 1) elsewhere: elu, selu and celu"""


@operator(records=Silu)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """input * sigmoid(input), also called swish.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(silu, locals())) is not None:
        return seen
    if inplace is not False and as_truth("silu", "inplace", inplace):
        return in_place(silu)(input)
    return unary_float(Silu, "silu", input)


@operator(records=Mish)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """input * tanh(softplus(input)).

    Source: D. Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(mish, locals())) is not None:
        return seen
    if inplace is not False and as_truth("mish", "inplace", inplace):
        return in_place(mish)(input)
    return unary_float(Mish, "mish", input)


@operator(records=(GeluTanh, Gelu))
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """input * P(X <= input) for a standard normal X: input * (1 + erf(input / sqrt(2))) / 2.

    approximate: "tanh" computes input * (1 + tanh(sqrt(2 / pi) * (input + 0.044715 * input**3))) / 2 instead.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: ``approximate`` is neither "none" nor "tanh".

    Source: D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units", 2016.
    """
    if interpreters and (seen := interpreted(gelu, locals())) is not None:
        return seen
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate={approximate!r}; choose 'none' or 'tanh'")
    return unary_float(GeluTanh if approximate == "tanh" else Gelu, "gelu", input)


@operator(records=Softplus)
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta * input)) / beta, or input itself where beta * input > threshold.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(softplus, locals())) is not None:
        return seen
    require_float("softplus", input)
    return Softplus.apply(input, as_real("softplus", "beta", beta), as_real("softplus", "threshold", threshold))


@operator(records=LogSigmoid)
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(input)), computed without overflow.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(logsigmoid, locals())) is not None:
        return seen
    return unary_float(LogSigmoid, "logsigmoid", input)


@operator(records=Softsign, dtypes="if")
def softsign(input: Tensor) -> Tensor:
    """input / (1 + |input|).

    Raises:
        TypeError: input is not a Tensor of numbers.
    """
    if interpreters and (seen := interpreted(softsign, locals())) is not None:
        return seen
    require_number("softsign", input)
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Softsign.apply(input)
    return Softsign.apply(as_float("softsign", input))


@operator(records=Tanhshrink, dtypes="if")
def tanhshrink(input: Tensor) -> Tensor:
    """input - tanh(input).

    Raises:
        TypeError: input is not a Tensor of numbers.
    """
    if interpreters and (seen := interpreted(tanhshrink, locals())) is not None:
        return seen
    require_number("tanhshrink", input)
    if isinstance(input, Tensor) and input.array.dtype.char in "fd":
        return Tanhshrink.apply(input)
    return Tanhshrink.apply(as_float("tanhshrink", input))


@operator(records=Elu)
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is above 0, alpha * (exp(input) - 1) elsewhere.

    Source: D. Clevert et al., "Fast and Accurate Deep Network Learning by Exponential Linear Units", 2015.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(elu, locals())) is not None:
        return seen
    if inplace is not False and as_truth("elu", "inplace", inplace):
        return in_place(elu)(input, alpha)
    require_float("elu", input)
    return Elu.apply(input, as_real("elu", "alpha", alpha), 1.0, 1.0)


@operator(records=Elu)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """scale * elu(input, alpha) with the fixed alpha = 1.6733 and scale = 1.0507.

    Raises:
        TypeError: input is not a floating-point Tensor.

    Source: G. Klambauer et al., "Self-Normalizing Neural Networks", 2017.
    """
    if interpreters and (seen := interpreted(selu, locals())) is not None:
        return seen
    if inplace is not False and as_truth("selu", "inplace", inplace):
        return in_place(selu)(input)
    require_float("selu", input)
    return Elu.apply(input, _SELU_ALPHA * _SELU_SCALE, _SELU_SCALE, 1.0)


@operator(records=Elu)
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """input where it is above 0, alpha * (exp(input / alpha) - 1) elsewhere.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: alpha is 0.

    Source: J. Barron, "Continuously Differentiable Exponential Linear Units", 2017.
    """
    if interpreters and (seen := interpreted(celu, locals())) is not None:
        return seen
    if inplace is not False and as_truth("celu", "inplace", inplace):
        return in_place(celu)(input, alpha)
    require_float("celu", input)
    alpha = as_real("celu", "alpha", alpha)
    if alpha == 0:
        raise ValueError("celu: alpha=0 divides the input; choose another number")
    return Elu.apply(input, alpha, 1.0, 1.0 / alpha)


# ---- Piecewise linear activations: relu and its variants, and hard limits -------------------------------------------


class Threshold(Pointwise, formula="threshold", straight=True):
    """value where x <= limit, x elsewhere"""


class Hardtanh(Pointwise, formula="hardtanh", value="clamp", straight=True):
    """min(max(x, low), high); NaN is kept"""


class Hardsigmoid(Pointwise, formula="hardsigmoid", straight=True):
    """min(max(x + 3, 0), 6) / 6"""


class Hardswish(Pointwise, formula="hardswish"):
    """x hardsigmoid(x)"""


class Hardshrink(Pointwise, formula="hardshrink", straight=True):
    """0 where |x| <= limit, x elsewhere"""


class Softshrink(Pointwise, formula="softshrink", straight=True):
    """x shrunk toward 0 by limit, but not past 0; NaN is kept"""


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
        ValueError: min_val exceeds max_val, or input contains integers and a limit does not fit in int64.
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
        limits = as_int64("hardtanh", "min_val", min_val), as_int64("hardtanh", "max_val", max_val)
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
        ValueError: input contains integers and a number does not fit in int64.
    """
    if interpreters and (seen := interpreted(_threshold, locals())) is not None:
        return seen
    if inplace is not False and as_truth("threshold", "inplace", inplace):
        return in_place(_threshold)(input, threshold, value)
    require_number("threshold", input)
    if input.array.dtype.kind in "iu":
        limit, rest = as_int64("threshold", "threshold", threshold), as_int64("threshold", "value", value)
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

    weight: shape () or (1,), or (C,) for an input (N, C, ...).

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
    """input where it is above 0, elsewhere input times a slope drawn between lower and upper for each element.

    When not training, the slope is the mean of lower and upper.

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


# ---- In-place activations: PyTorch's functions whose name ends in `_` -----------------------------------------------


@operator(dtypes="bif")
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``celu`` in place.

    Raises: as ``celu``.
    """
    if interpreters and (seen := interpreted(celu_, locals())) is not None:
        return seen
    return celu(input, alpha, True)


@operator(dtypes="bif")
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``elu`` in place.

    Raises: as ``elu``.
    """
    if interpreters and (seen := interpreted(elu_, locals())) is not None:
        return seen
    return elu(input, alpha, True)


@operator(dtypes="bif")
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``hardtanh`` in place.

    Raises: as ``hardtanh``.
    """
    if interpreters and (seen := interpreted(hardtanh_, locals())) is not None:
        return seen
    return hardtanh(input, min_val, max_val, True)


@operator(dtypes="bif")
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``leaky_relu`` in place.

    Raises: as ``leaky_relu``.
    """
    if interpreters and (seen := interpreted(leaky_relu_, locals())) is not None:
        return seen
    return leaky_relu(input, negative_slope, True)


@operator(dtypes="bif")
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """``rrelu`` in place.

    Raises: as ``rrelu``.
    """
    if interpreters and (seen := interpreted(rrelu_, locals())) is not None:
        return seen
    return rrelu(input, lower, upper, training, True)


@operator(dtypes="bif")
def selu_(input: Tensor) -> Tensor:
    """``selu`` in place.

    Raises: as ``selu``.
    """
    if interpreters and (seen := interpreted(selu_, locals())) is not None:
        return seen
    return selu(input, True)


@operator(dtypes="bif")
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """``threshold`` in place: ``value`` where input is not above ``threshold``.

    Raises: as ``threshold``.
    """
    if interpreters and (seen := interpreted(threshold_, locals())) is not None:
        return seen
    return _threshold(input, threshold, value, True)
