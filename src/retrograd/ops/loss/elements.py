"""What losses share: the reduction, the checks of operands, and the Function of a loss of single elements."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np

from ...engine.function import Function
from ...engine.grad_mode import is_grad_enabled
from ...engine.tensor import Tensor, wrap
from ..broadcasting import broadcast_shape, expand
from ..dtype import are_floats, cast, floats, require_float, require_same
from ..kernel_set import kernels
from ..reduction import mean, sum

Gradients = tuple[Tensor | None, ...]
_REDUCTIONS = ("mean", "sum", "none")


class ElementLoss(Function):
    """A loss of each element of operands of one shape, or its sum or mean in the same pass.

    A subclass names a kernel and has ``slope``, the derivatives composed of operators, with a derivative of their own;
    ``gate`` goes before them.
    The kernel gives the gradient to operand 0, and to ``others``, where no second derivative is asked for.
    """

    kernel: ClassVar[str]
    others: ClassVar[dict[int, str]] = {}  # operand -> kernel of its gradient
    opposite: ClassVar[bool] = False  # the gradient to operand 1 is minus that to operand 0

    @classmethod
    def forward(cls, ctx: Any, reduction: str, numbers: tuple[float, ...], *operands: Tensor) -> Tensor:
        size = operands[0].data.size
        ctx.factor = None if reduction == "none" else 1.0 if reduction == "sum" else 1.0 / size if size else np.nan
        ctx.numbers = numbers
        ctx.save_for_backward(*operands)
        return wrap(kernels.element_loss(cls.kernel, tuple([x.data for x in operands]), numbers, ctx.factor))

    @classmethod
    def backward(cls, ctx: Any, g: Tensor) -> Gradients:
        wanted, operands, factor = ctx.needs_input_grad[2:], ctx.saved_tensors, ctx.factor
        found: list[Tensor | None] = [None] * len(operands)
        fused = {} if is_grad_enabled() else {0: cls.kernel, **cls.others}
        spread: Tensor | None = None
        for k in range(len(operands)):
            first = found[0]
            if not wanted[k]:
                continue
            if k == 1 and cls.opposite and first is not None:
                found[k] = -first
            elif k in fused or (k == 1 and cls.opposite and fused):
                arrays = tuple([x.data for x in operands])
                gx = wrap(kernels.element_loss_grad(fused.get(k, cls.kernel), g.data, arrays, ctx.numbers, factor))
                found[k] = gx if k in fused else -gx
            else:
                if spread is None:
                    spread = g if factor is None else expand(g * factor, operands[0].data.shape)
                    spread = cls.gate(spread, ctx.numbers, *operands)
                found[k] = spread * cls.slope(k, ctx.numbers, *operands)
        return None, None, *found

    @staticmethod
    def gate(g: Tensor, numbers: tuple[float, ...], *operands: Tensor) -> Tensor:
        """The upstream gradient of each loss, without those of losses cut off to a constant."""
        return g

    @staticmethod
    def slope(of: int, numbers: tuple[float, ...], *operands: Tensor) -> Tensor:
        """The derivative of the loss by operand ``of``, element by element."""
        raise NotImplementedError


def choice(x: np.ndarray, mask: Any, yes: float, no: float) -> Tensor:
    """``yes`` where the mask is set and ``no`` elsewhere, in x's type, without gradient."""
    return wrap(np.asarray(np.where(mask, yes, no), x.dtype))


def check_reduction(name: str, reduction: str, *more: str) -> None:
    """Refuse what is no reduction.

    Raises:
        ValueError: the reduction is none of "mean", "sum", "none", or of ``more``.
    """
    if reduction not in _REDUCTIONS and reduction not in more:
        allowed = ", ".join(map(repr, (*more, "mean", "sum")))
        raise ValueError(f"{name}: reduction={reduction!r} must be {allowed} or 'none'")


def reduce(name: str, losses: Tensor, reduction: str) -> Tensor:
    """The mean or sum of the losses, or all of them.

    Raises:
        ValueError: the reduction is none of "mean", "sum", "none".
    """
    if reduction == "mean":
        return mean(losses)
    if reduction == "sum":
        return sum(losses)
    check_reduction(name, reduction)
    return losses


def matched(name: str, input: Tensor, target: Tensor, *, warn: bool = False, stacklevel: int = 3) -> tuple[Any, Any]:
    """Both operands in one floating-point type and shape: broadcast to each other, with a warning if ``warn``.

    Raises:
        TypeError: an operand is no Tensor, or neither is floating-point.
        ValueError: the shapes do not broadcast.
    """
    if not are_floats(input, target):
        input, target = floats(name, input=input, target=target)
    return of_one_shape(name, input, target, warn, stacklevel + 1)


def of_one_shape(
    name: str, input: Tensor, target: Tensor, warn: bool = False, stacklevel: int = 3
) -> tuple[Tensor, Tensor]:
    """Both operands, broadcast to each other if their shapes differ, with a warning if ``warn``.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    if input.data.shape == target.data.shape:
        return input, target
    shape = broadcast_shape(name, input.data.shape, target.data.shape)
    if warn:
        warnings.warn(
            f"{name}: input.shape={input.data.shape} and target.shape={target.data.shape} differ and are broadcast; "
            f"reshape one if this is not meant",
            stacklevel=stacklevel,
        )
    return expand(input, shape), expand(target, shape)


def same_shape(name: str, input: Tensor, target: Tensor) -> None:
    """Refuse operands that are not of one floating-point type and one shape.

    Raises:
        TypeError: they are no floating-point Tensors of one type.
        ValueError: the shapes differ.
    """
    for label, value in (("input", input), ("target", target)):
        require_float(name, value, label)
    require_same(name, "input", input, "target", target)
    if input.data.shape != target.data.shape:
        raise ValueError(
            f"{name}: input.shape={input.data.shape} and target.shape={target.data.shape} must be equal; "
            f"expand or reshape one"
        )


def constant(name: str, label: str, value: Tensor | None, x: Tensor) -> Tensor | None:
    """``value`` of x's type, which must not ask for a gradient: the loss gives it none.

    Raises:
        TypeError: it is no floating-point Tensor of x's type.
        ValueError: it requires a gradient.
    """
    if value is not None:
        require_same(name, "input", x, label, value)
        if value.requires_grad:
            raise ValueError(
                f"{name}: {label} requires a gradient, which this loss does not give; use {label}.detach()"
            )
    return value


def signs(name: str, target: Any, x: Tensor) -> Tensor:
    """A target of 1 and -1 in x's type; integers and truth values are welcome.

    Raises:
        TypeError: it is no Tensor, or floating-point of another type.
    """
    if isinstance(target, Tensor) and target.data.dtype.kind != "f":
        return cast(target, x.data.dtype)
    require_same(name, "input", x, "target", target)
    return target


def weighted(name: str, losses: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """The losses times the weight, which broadcasts to them, reduced.

    Raises:
        ValueError: the weight is larger than the losses, or does not broadcast to them.
    """
    shape = losses.data.shape
    if broadcast_shape(name, shape, weight.data.shape) != shape:
        raise ValueError(f"{name}: weight.shape={weight.data.shape} does not broadcast to input.shape={shape}")
    return reduce(name, losses * weight, reduction)
