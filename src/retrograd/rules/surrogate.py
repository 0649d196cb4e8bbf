"""Surrogate gradients: straight-through estimators and spiking neurons.

x is the argument of the operator and g the gradient of its result. For a spike, x is the potential of a neuron minus
its threshold; the spike's own derivative is 0 wherever it exists.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..arrays import from_host, zeros
from ..engine.backward_rules import register_backward_rule
from ..engine.operator import interpreted, interpreters, operator
from ..engine.tensor import Tensor
from ..formulas.activation import arctan_grad, fast_sigmoid_grad, triangle_grad
from ..formulas.quantization import clipped_grad, polynomial_grad, swish_sign_grad
from ..kernel_set import kernels
from ..nn.module import Module
from ..nn.parameter import Parameter, as_float_dtype
from ..ops.argument_checks import as_truth, is_real, require_float
from ..ops.dtypes.dtype import DTypeLike
from ..ops.pointwise.exponential import sigmoid
from ..ops.pointwise.pointwise import Pointwise, run
from .base import Options

__all__ = ["Arctan", "Clipped", "FastSigmoid", "LIFCell", "SwishSign", "Triangle", "identity", "polynomial", "spike"]


# ---- Spiking networks: surrogate gradients of a spike, and a leaky integrate-and-fire cell --------------------------


class SpikeStep(Pointwise, formula="spike"):
    """1 where x >= 0, 0 below; NaN stays NaN; the gradient is ``fast_sigmoid_grad`` with slope 25"""


@operator(records=SpikeStep)
def spike(input: Tensor) -> Tensor:
    """1 where input >= 0, 0 elsewhere; the gradient is that of ``FastSigmoid(slope=25)``.

    Raises:
        TypeError: input is not a floating-point Tensor.
    """
    if interpreters and (seen := interpreted(spike, locals())) is not None:
        return seen
    require_float("spike", input)
    result: Tensor = SpikeStep.apply(input)
    return result


@dataclass(frozen=True, repr=False)
class _Surrogate(Options):
    slope: float = 25.0

    formula: ClassVar[Callable[..., Any]]

    def __post_init__(self) -> None:
        self._positive("slope")

    def __call__(self, g: Tensor, x: Tensor) -> Tensor:
        return run(type(self).formula, (g, x), (float(self.slope),))


class FastSigmoid(_Surrogate):
    """g / (1 + slope \\|x\\|)**2: the gradient of x / (1 + slope \\|x\\|).

    Source: F. Zenke, S. Ganguli, "SuperSpike", 2018 (arXiv:1705.11146).
    """

    formula = fast_sigmoid_grad


class Arctan(_Surrogate):
    """g / (1 + (slope x)**2): the gradient of atan(slope x) / slope.

    Source: W. Fang et al., 2021 (arXiv:2007.05785).
    """

    formula = arctan_grad


class Triangle(_Surrogate):
    """g max(0, 1 - slope \\|x\\|).

    Source: G. Bellec et al., 2018 (arXiv:1803.09574).
    """

    formula = triangle_grad


class LIFCell(Module):
    """One time step of a leaky integrate-and-fire neuron for each element of x:

    v' = decay v + x,  s = spike(v' - threshold),  v = v' - threshold s ("subtract") or v' (1 - s) ("zero")

    forward(x, v=None) -> (s, v), both of the shape of x; v is the potential after the step, None means 0.
    ``nn.Unroll(LIFCell())`` runs a whole sequence (T, N, ...).

    decay: factor of the potential per step, 0 to 1. reset: the effect of a spike on the potential; no gradient flows
    through it. surrogate: the rule for the backward of the spike, an object or a name.
    learn_decay: decay is the initial value of sigmoid(decay_logit); decay_logit, a number, is a Parameter. It follows
        the gradient, and the decay stays between 0 and 1.
    dtype: that of decay_logit, so it needs learn_decay=True.

    Raises:
        ValueError: decay is not in [0, 1], or with learn_decay rounds to 0 or 1 in dtype; threshold is not above 0;
            reset is neither "subtract" nor "zero"; dtype is given without learn_decay.
        TypeError: learn_decay is not a bool, dtype is not a floating-point type.

    Source: E. O. Neftci et al., "Surrogate Gradient Learning in Spiking Neural Networks", 2019 (arXiv:1901.09948); the
    learned decay: W. Fang et al., "Incorporating Learnable Membrane Time Constant", 2021 (arXiv:2007.05785).
    """

    output_apart: ClassVar[bool] = True  # for nn.Unroll: s is the output, and v the whole state
    threshold: float
    decay_logit: Parameter | None

    def __init__(
        self,
        decay: float = 0.9,
        threshold: float = 1.0,
        reset: str = "subtract",
        surrogate: Callable[..., Any] | str = "fast_sigmoid",
        learn_decay: bool = False,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        if not is_real(threshold) or not 0 < threshold < math.inf:
            raise ValueError(f"LIFCell: threshold={threshold!r} must be a number above 0")
        if reset not in ("subtract", "zero"):
            raise ValueError(f'LIFCell: reset={reset!r} must be "subtract" or "zero"')
        is_learned = as_truth("LIFCell", "learn_decay", learn_decay)
        kind = as_float_dtype(dtype)
        if dtype is not None and not is_learned:
            raise ValueError(f"LIFCell: dtype={kind} is that of a learned decay; pass learn_decay=True or no dtype")
        logit = Parameter(zeros((), kind)) if is_learned else None
        self.register_parameter("decay_logit", logit)
        self.decay = decay
        self.threshold, self.reset = float(threshold), reset
        self.surrogate: Spike = Spike(surrogate)

    @property
    def decay(self) -> float | Tensor:
        """The factor of the potential: a number, or a Tensor computed from ``decay_logit``; set it to a number."""
        return self._decay if self.decay_logit is None else sigmoid(self.decay_logit)

    @decay.setter
    def decay(self, value: Any) -> None:
        if not is_real(value) or not 0 <= value <= 1:
            raise ValueError(f"LIFCell: decay={value!r} must be a number from 0 to 1")
        decay = float(value)
        if self.decay_logit is not None:
            array = self.decay_logit.array
            logit = from_host(math.log(decay / (1 - decay)) if 0 < decay < 1 else math.inf, array.dtype)
            if not 0 < sigmoid(Tensor(logit)).item() < 1:
                rule = f"must be between 0 and 1 for learn_decay=True, and not round to 0 or 1 in {array.dtype}"
                raise ValueError(f"LIFCell: decay={value!r} {rule}")
            kernels.copy(array, logit)
        self._decay = decay

    def forward(self, input: Tensor, v: Tensor | None = None) -> tuple[Tensor, Tensor]:
        v = input if v is None else v * self.decay + input
        s = self.surrogate(v - self.threshold)
        fired = s.detach()
        return s, v - fired * self.threshold if self.reset == "subtract" else v * (1.0 - fired)

    def extra_repr(self) -> str:
        text = f"threshold={self.threshold}, reset={self.reset!r}"
        if self.decay_logit is None:
            return f"decay={self._decay}, {text}"
        return f"decay={sigmoid(self.decay_logit).item():.4g}, {text}, learn_decay=True"


class Spike(Module):
    """The operator ``spike`` as a module, with a rule for its backward."""

    def __init__(self, rule: Callable[..., Any] | str) -> None:
        super().__init__()
        self.backward_rule = rule

    def forward(self, input: Tensor) -> Tensor:
        return spike(input)


register_backward_rule("fast_sigmoid", FastSigmoid())
register_backward_rule("arctan", Arctan())
register_backward_rule("triangle", Triangle())


# ---- Straight-through estimators for operators whose own derivative is 0, such as sign and round --------------------


def identity(g: Tensor) -> Tensor:
    """g: the operator is treated as the identity.

    Source: Y. Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons", 2013 (arXiv:1308.3432).
    """
    return g


@dataclass(frozen=True, repr=False)
class Clipped(Options):
    """g where -limit <= x <= limit, 0 elsewhere.

    Source: I. Hubara et al., "Binarized Neural Networks", 2016 (arXiv:1602.02830).
    """

    limit: float = 1.0

    def __post_init__(self) -> None:
        self._positive("limit")

    def __call__(self, g: Tensor, x: Tensor) -> Tensor:
        return run(clipped_grad, (g, x if self.limit == 1.0 else x / self.limit))


def polynomial(g: Tensor, x: Tensor) -> Tensor:
    """g (2 - 2 |x|) where -1 < x < 1, 0 elsewhere: the gradient of 2 x - x |x|, which is closer to the sign.

    Source: Z. Liu et al., "Bi-Real Net", 2018 (arXiv:1808.00278).
    """
    return run(polynomial_grad, (g, x))


@dataclass(frozen=True, repr=False)
class SwishSign(Options):
    """g beta (2 - z tanh(z / 2)) / (1 + cosh(z)), z = beta x: the gradient of 2 s (1 + z (1 - s)) - 1, s = sigmoid(z).

    Source: S. Darabi et al., "BNN+: Improved Binary Network Training", 2018 (arXiv:1812.11800).
    """

    beta: float = 5.0

    def __post_init__(self) -> None:
        self._positive("beta")

    def __call__(self, g: Tensor, x: Tensor) -> Tensor:
        return run(swish_sign_grad, (g, x), (float(self.beta),))


register_backward_rule("identity", identity)
register_backward_rule("clipped", Clipped())
register_backward_rule("polynomial", polynomial)
register_backward_rule("swish_sign", SwishSign())
