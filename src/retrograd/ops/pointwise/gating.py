"""The gated linear unit, softmin and the Gumbel-softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import from_host
from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...formulas.activation import gated_grad_x, gated_grad_y
from ...kernel_set import kernels
from ..argument_checks import as_truth, require_float, require_tensor
from ..dtypes.dtype import DTypeLike
from ..normalization.softmax import axis_of, softmax
from ..random.random import default_generator
from ..shape.join import cat
from ..shape.shape import apply_to_0d, axis
from ..shape.splitting import chunk
from .pointwise import Gradients, fused_or_composed

__all__ = ["glu", "gumbel_softmax", "softmin"]


class Glu(Function):
    """a * sigmoid(b) of the halves a and b of x along ``axis``"""

    @staticmethod
    def forward(x: Tensor, axis: int) -> Tensor:
        return wrap(kernels.glu(x.array, axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.axis = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (x,), axis = ctx.saved_tensors, ctx.axis
        return fused_or_composed(_glu_grad, kernels.glu_grad, (g, x), (axis,)), None


def _glu_grad(g: Tensor, x: Tensor, axis: int) -> Tensor:
    a, b = chunk(x, 2, axis)
    return cat((gated_grad_x(g, a, b), gated_grad_y(g, a, b)), axis)


class StraightThrough(Function):
    """A straight-through estimator: the value is the array ``y``, the gradient is that of x"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: np.ndarray) -> Tensor:
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return g, None


@operator(records=Glu)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), where a and b are the halves of input along axis ``dim``.

    Raises:
        TypeError: input is not a floating-point Tensor.
        IndexError: input has no axis ``dim``.
        ValueError: the extent of the axis is odd.

    Source: Y. Dauphin et al., "Language Modeling with Gated Convolutional Networks", 2016.
    """
    if interpreters and (seen := interpreted(glu, locals())) is not None:
        return seen
    require_float("glu", input)
    place = axis("glu", "dim", dim, input.array.ndim)
    if input.array.shape[place] % 2:
        raise ValueError(f"glu: dim={dim} of input.shape={input.array.shape} has an odd extent, which cannot be halved")
    return Glu.apply(input, place)


@operator(records=StraightThrough)
def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((logits + noise) / tau) along axis ``dim``, with Gumbel noise: a soft sample.

    hard: return 1 for the largest element and 0 for the others, with the gradient of the soft sample.
    eps: has no effect, as in PyTorch.

    Raises:
        TypeError: logits is not a floating-point Tensor.
        IndexError: logits has no axis ``dim``.
        ValueError: tau is not positive.

    Source: E. Jang et al., "Categorical Reparameterization with Gumbel-Softmax", 2016.
    """
    if interpreters and (seen := interpreted(gumbel_softmax, locals())) is not None:
        return seen
    require_float("gumbel_softmax", logits, "logits")
    hard = as_truth("gumbel_softmax", "hard", hard)
    if not tau > 0:
        raise ValueError(f"gumbel_softmax: tau={tau} must be positive")
    if not logits.array.ndim:
        return apply_to_0d(gumbel_softmax, logits, tau, hard, eps, dim)
    place = axis("gumbel_softmax", "dim", dim, logits.array.ndim)
    noise = from_host(default_generator.gumbel(size=logits.array.shape), logits.array.dtype, like=logits.array)
    soft = softmax((logits + wrap(noise)) * (1.0 / tau), place)
    if not hard:
        return soft
    return StraightThrough.apply(soft, kernels.one_hot_argmax(soft.array, place))


@operator
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None) -> Tensor:
    """softmax(-input) along axis ``dim``; the arguments are those of ``nn.functional.softmax``.

    Raises:
        TypeError: input is not floating-point after the conversion, or is boolean.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(softmin, locals())) is not None:
        return seen
    require_tensor("softmin", input)
    if dtype is None:
        require_float("softmin", input)
    return softmax(-input, axis_of("softmin", input, dim, _stacklevel), dtype)
