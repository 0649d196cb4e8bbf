"""Smooth and exponential activations; their formulas are in ``formulas/activation.py``."""

from __future__ import annotations

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..arguments.checks import as_float, as_real, as_truth, require_float, require_number
from ..inplace.inplace import in_place
from .operands import unary_float
from .pointwise import Pointwise

__all__ = [
    "celu",
    "elu",
    "gelu",
    "logsigmoid",
    "mish",
    "selu",
    "silu",
    "softplus",
    "softsign",
    "tanhshrink",
]

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
    """log(1 + exp(beta x)) / beta, and x where beta x > limit"""


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
    """input * P(X <= input) for a normal X: input * (1 + erf(input / sqrt(2))) / 2.

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
    """log(1 + exp(beta * input)) / beta, and input itself where beta * input > threshold.

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
