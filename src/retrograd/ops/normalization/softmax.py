"""Softmax and log-softmax along one axis, with fused gradients as separate operators."""

from __future__ import annotations

import warnings
from typing import Any

from ...engine.function import Function
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ..argument_checks import as_count, require_float, require_tensor
from ..dtypes.dtype import DTypeLike, cast
from ..pointwise.exponential import exp
from ..shape.broadcasting import Sum
from ..shape.shape import apply_to_0d, axis

__all__ = ["log_softmax", "softmax"]

Gradients = tuple[Tensor | None, ...]


class Softmax(Function):
    """exp(x) / sum(exp(x)) along ``axis``"""

    @staticmethod
    def forward(x: Tensor, axis: int) -> Tensor:
        return wrap(kernels.softmax(x.array, axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.axis = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        return SoftmaxGrad.apply(g, y, ctx.axis), None


class SoftmaxGrad(Function):
    """y * (g - sum(g * y))"""

    @staticmethod
    def forward(g: Tensor, y: Tensor, axis: int) -> Tensor:
        return wrap(kernels.softmax_grad(g.array, y.array, axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        g, y, ctx.axis = inputs
        ctx.save_for_backward(g, y)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_g, want_y, _), (g, y), over = ctx.needs_input_grad, ctx.saved_tensors, (ctx.axis,)
        gg = SoftmaxGrad.apply(v, y, ctx.axis) if want_g else None
        gy = None
        if want_y:
            gy = v * (g - Sum.apply(g * y, over, True)) - g * Sum.apply(v * y, over, True)
        return gg, gy, None


class LogSoftmax(Function):
    """x - log(sum(exp(x))) along ``axis``"""

    @staticmethod
    def forward(x: Tensor, axis: int) -> Tensor:
        return wrap(kernels.log_softmax(x.array, axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.axis = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (y,) = ctx.saved_tensors
        return LogSoftmaxGrad.apply(g, y, ctx.axis), None


class LogSoftmaxGrad(Function):
    """g - exp(y) * sum(g)"""

    @staticmethod
    def forward(g: Tensor, y: Tensor, axis: int) -> Tensor:
        return wrap(kernels.log_softmax_grad(g.array, y.array, axis))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        g, y, ctx.axis = inputs
        ctx.save_for_backward(g, y)

    @staticmethod
    def backward(ctx: Any, v: Tensor) -> Gradients:
        (want_g, want_y, _), (g, y), over = ctx.needs_input_grad, ctx.saved_tensors, (ctx.axis,)
        weighted = v * exp(y)
        gg = v - Sum.apply(weighted, over, True) if want_g else None
        gy = -weighted * Sum.apply(g, over, True) if want_y else None
        return gg, gy, None


@operator(records=Softmax, methods="softmax")
def softmax(input: Tensor, dim: int, dtype: DTypeLike = None) -> Tensor:
    """exp(input) / sum(exp(input)) along axis ``dim``, computed without overflow.

    dtype: if given, convert input to this type first.

    Raises:
        TypeError: input is not floating-point after the conversion.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(softmax, locals())) is not None:
        return seen
    input = _converted("softmax", input, dtype)
    ndim = input.array.ndim
    return Softmax.apply(input, axis("softmax", "dim", dim, ndim)) if ndim else apply_to_0d(softmax, input, dim)


@operator(records=LogSoftmax, methods="log_softmax")
def log_softmax(input: Tensor, dim: int, dtype: DTypeLike = None) -> Tensor:
    """input - log(sum(exp(input))) along axis ``dim``, computed without overflow.

    dtype: if given, convert input to this type first.

    Raises: as ``softmax``.
    """
    if interpreters and (seen := interpreted(log_softmax, locals())) is not None:
        return seen
    input = _converted("log_softmax", input, dtype)
    ndim = input.array.ndim
    return (
        LogSoftmax.apply(input, axis("log_softmax", "dim", dim, ndim)) if ndim else apply_to_0d(log_softmax, input, dim)
    )


def axis_of(name: str, x: Any, dim: int | None, stacklevel: int) -> int:
    """Return ``dim``. None means axis 0 of a tensor with 0, 1 or 3 axes, else axis 1, with PyTorch's warning."""
    if dim is not None:
        return dim
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
        UserWarning,
        stacklevel=as_count(name, "_stacklevel", stacklevel, 0, 1000),
    )
    return 0 if isinstance(x, Tensor) and x.array.ndim in (0, 1, 3) else 1


def _converted(name: str, x: Tensor, dtype: Any) -> Tensor:
    require_tensor(name, x)
    x = x if dtype is None else cast(x, dtype)
    require_float(name, x)
    return x
