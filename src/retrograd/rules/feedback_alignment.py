"""Rules without transposed weights: feedback alignment, its direct variant, and sign-symmetric weights.

They apply to layers and operators with an input x, a weight w and optionally a bias: Linear, convolutions and
transposed convolutions. The gradients of w and of the bias are the true ones. Only the gradient of x is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ..engine.backward_rules import register_backward_rule
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..ops.pointwise.rounding import sign
from ..ops.product.matmul import matmul
from .base import Options

__all__ = ["DirectFeedbackAlignment", "FeedbackAlignment", "SignSymmetric"]


def fixed_matrix(seed: int, shape: tuple[int, ...], fan: int, dtype: Any) -> Tensor:
    """Return normally distributed numbers with variance 1 / fan, determined by the seed and the shape."""
    return wrap(kernels.seeded_normal(seed, shape, fan, dtype))


def with_weight(true: Any, g: Tensor, other: Callable[[Tensor], Tensor]) -> tuple[Any, ...]:
    """Return the true gradients, except that the input's gradient is computed with another weight.

    Raises:
        TypeError: the call has no weight.
    """
    if len(true.inputs) < 2 or true.inputs[1].ndim < 2:
        raise TypeError(f"{true.name}: the rule {true.rule.name} is for calls with an input and a weight")
    x, w, *rest = true.inputs
    gx, *others = true(g)
    return None if gx is None else true.at(x, other(w), *rest)(g)[0], *others


@dataclass(frozen=True, repr=False)
class FeedbackAlignment(Options):
    """gx is computed with a fixed random matrix B in place of w; its entries have the variance 1 / fan-in of w.

    seed: the seed of B, which otherwise depends only on the shape of w. Layers with the same shape need different seeds
        to get different matrices.

    Source: T. P. Lillicrap et al., "Random synaptic feedback weights support error backpropagation for deep learning",
    2016 (arXiv:1411.0247); for convolutions T. H. Moskovitz et al., 2018 (arXiv:1812.06488).
    """

    seed: int = 0

    def __post_init__(self) -> None:
        self._integer("seed", 0, 2**63 - 1)

    def __call__(self, true: Any, g: Tensor) -> Any:
        return with_weight(true, g, lambda w: fixed_matrix(self.seed, w.shape, prod(w.shape[1:]), w.dtype))


@dataclass(frozen=True, repr=False)
class SignSymmetric(Options):
    """gx is computed with sign(w) times the mean of \\|w\\| in place of w.

    Source: Q. Liao et al., "How Important is Weight Symmetry in Backpropagation?", 2016 (arXiv:1510.05067).
    """

    def __call__(self, true: Any, g: Tensor) -> Any:
        return with_weight(true, g, lambda w: sign(w) * w.abs().mean())


@dataclass(repr=False)
class DirectFeedbackAlignment(Options):
    """gx = e B, where e is the gradient of the last layer's result and B a fixed random matrix for each layer.

    Use one object per network: set ``layer.backward_rule = rule`` for every layer except the first, whose gx is not
    used, and ``rule.last`` for the last layer, whose backward provides e. x (N, ...), e (N, ...).

    seed: the seed of the matrices, which also depend on the shapes.

    Source: A. Nøkland, "Direct Feedback Alignment Provides Learning in Deep Neural Networks", 2016 (arXiv:1609.01596).
    """

    seed: int = 0
    error: Any = field(default=None, init=False, compare=False)

    def __post_init__(self) -> None:
        self._integer("seed", 0, 2**63 - 1)

    def last(self, true: Any, g: Tensor) -> Any:
        self.error = g
        return self(true, g)

    def __call__(self, true: Any, g: Tensor) -> Any:
        gx, *others = true(g)
        if gx is None:
            return None, *others
        e, rest = error_of(self, true, len(gx.array)), gx.shape[1:]
        b = fixed_matrix(self.seed, (e.shape[1], prod(rest)), e.shape[1], gx.dtype)
        return matmul(e, b).reshape(gx.shape), *others


def error_of(rule: DirectFeedbackAlignment, true: Any, count: int) -> Tensor:
    """Return the gradient of the last layer's result, one row for each of ``count`` samples.

    Raises:
        RuntimeError: there is none for this batch.
    """
    e: Tensor | None = rule.error
    if e is None or len(e.array) != count:
        raise RuntimeError(
            f"{true.name}: DirectFeedbackAlignment has no gradient of the last layer for this batch; give the last "
            "layer its own rule: model[-1].backward_rule = rule.last"
        )
    return e.reshape(count, -1)


register_backward_rule("feedback_alignment", FeedbackAlignment())
register_backward_rule("sign_symmetric", SignSymmetric())
