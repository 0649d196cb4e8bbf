"""Straight-through estimators: gradients for operators whose own derivative is 0, such as sign and round.

x is the argument of the operator, g the gradient of its result.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.rule import register_backward_rule
from ..engine.tensor import Tensor
from ..formulas.quantization import clipped_grad, polynomial_grad, swish_sign_grad
from ..ops.pointwise.pointwise import run
from .options import Options

__all__ = ["Clipped", "SwishSign", "identity", "polynomial"]


def identity(g: Tensor) -> Tensor:
    """g: the operator counts as x.

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
