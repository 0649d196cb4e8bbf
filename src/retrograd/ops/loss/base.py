"""Shared parts of the losses: elementwise base class, reductions, operand checks, `size_average` and `reduce`."""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ...engine.function import Function
from ...engine.tensor import Tensor, wrap
from ...formulas.losses import LOSSES, minus_first
from ...kernel_set import kernels
from ..argument_checks import are_floats, as_truth, require_float, require_same, require_tensor
from ..direct import calls_direct, direct_of
from ..dtypes.dtype import cast
from ..dtypes.promotion import floats
from ..pointwise.pointwise import Gradients, fused_or_composed
from ..reduce.reduction import mean, sum
from ..shape.broadcasting import broadcast_shape, expand
from ..signatures import require_bound

__all__ = ["accepts_size_average", "reduction_of"]


# ---- Deprecated options `size_average` and `reduce` ------------------------------------------------------------------

AnyLoss = TypeVar("AnyLoss", bound=Callable[..., Any])


def accepts_size_average(loss: AnyLoss) -> AnyLoss:
    """Let a loss accept ``size_average`` and ``reduce``, and its options by position in PyTorch's order.

    In that order ``size_average`` is the first option, and ``reduce`` comes before ``reduction``.
    """
    signature = inspect.signature(loss)
    positional = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    options = [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    before = next(index for index, p in enumerate(options) if p.name == "reduction")
    average, reduce_option = (
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="bool | None")
        for name in ("size_average", "reduce")
    )
    order = [average, *options[:before], reduce_option, *options[before:]]
    names = [p.name for p in order]
    direct: Any = direct_of(loss)

    @functools.wraps(loss)
    def call(*args: Any, size_average: Any = None, reduce: Any = None, **given: Any) -> Any:
        if direct is not None and size_average is None and reduce is None:
            found = direct(*args, **given)
            if found is not NotImplemented:
                return found
        if len(args) > len(positional):
            more = dict(zip(names, args[len(positional) :], strict=False))
            if len(args) > len(positional) + len(names) or more.keys() & given.keys():
                raise TypeError(
                    f"{loss.__name__}: too many arguments, or one given twice; the signature is {call_form}"
                )
            args, given = args[: len(positional)], more | given
            size_average, reduce = given.pop("size_average", size_average), given.pop("reduce", reduce)
        if size_average is not None or reduce is not None:
            given["reduction"] = reduction_of(loss.__name__, size_average, reduce)
        try:
            return loss(*args, **given)
        except TypeError:
            require_bound(loss.__name__, signature, args, given)
            raise

    parameters: list[inspect.Parameter] = [*positional, *(p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in order)]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call_form = f"{loss.__name__}{call.__signature__}"  # type: ignore[attr-defined]
    calls_direct(call, direct)
    call.has_forms = True  # type: ignore[attr-defined]
    result: Any = call
    return result


def reduction_of(name: str, size_average: bool | None, reduce: bool | None) -> str:
    """Return the ``reduction`` equivalent to ``size_average`` and ``reduce``, with PyTorch's warning.

    Raises:
        TypeError: one is neither a bool nor None; pass ``reduction`` by name.
    """
    average = size_average is None or as_truth(name, "size_average", size_average)
    reduced = reduce is None or as_truth(name, "reduce", reduce)
    found = "none" if not reduced else "mean" if average else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction={found!r} instead.",
        UserWarning,
        stacklevel=3,
    )
    return found


# ---- Helpers shared by the losses -----------------------------------------------------------------------------------

_REDUCTIONS = ("mean", "sum", "none")


class ElementLoss(Function):
    """Base class of elementwise losses: ``class Huber(ElementLoss, term="huber")``.

    ``apply(reduction, numbers, *operands)`` computes the loss of each element, or their sum or mean in the same pass.
    All operands have the same shape.
    term: the name of the loss in ``formulas/losses.py``
    """

    formulas: tuple[Any, ...]  # shown by the documentation and backward_source

    def __init_subclass__(cls, term: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        value, gradients = LOSSES[term]
        cls.formulas, cls.__doc__ = (value, *gradients), cls.__doc__ or value.__doc__
        for name, function in zip(("forward", "setup_context", "backward"), _passes(term, gradients), strict=True):
            setattr(cls, name, staticmethod(function))
        cls._takes_ctx, cls._pure = False, (cls.forward, cls.setup_context)


def _passes(name: str, gradients: Any) -> tuple[Any, Any, Any]:
    """Return forward, setup_context and backward of the loss ``name``."""

    def forward(reduction: str, numbers: tuple[float, ...], *operands: Tensor) -> Tensor:
        arrays = tuple([x.array for x in operands])
        return wrap(kernels.element_loss(name, arrays, numbers, _factor(reduction, arrays[0].size)))

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.factor, ctx.numbers = _factor(inputs[0], inputs[2].array.size), inputs[1]
        ctx.save_for_backward(*inputs[2:])

    def backward(ctx: Any, g: Tensor) -> Gradients:
        numbers, factor, operands = ctx.numbers, ctx.factor, ctx.saved_tensors

        def gradient(of: int) -> Tensor:
            return fused_or_composed(
                lambda g, *operands: gradients[of](_element_gradients(g, factor, operands[0]), *operands, *numbers),
                lambda g, *arrays: kernels.element_loss_grad(name, of, g, arrays, numbers, factor),
                (g, *operands),
            )

        found: list[Tensor | None] = []
        for of, needs_grad in enumerate(ctx.needs_input_grad[2:]):
            if needs_grad and gradients[of] is minus_first:
                found.append(minus_first(gradient(0) if found[0] is None else found[0]))
            else:
                found.append(gradient(of) if needs_grad else None)
        return None, None, *found

    return forward, setup_context, backward


def _factor(reduction: str, size: int) -> float | None:
    """Return the factor of the sum of so many losses; None if they are not summed."""
    return None if reduction == "none" else 1.0 if reduction == "sum" else 1.0 / size if size else math.nan


def _element_gradients(g: Tensor, factor: float | None, x: Tensor) -> Tensor:
    """Return the upstream gradient of each element of x: g, or for a sum, g times the factor."""
    return g if factor is None else expand(g * factor, x.array.shape)


def choice(x: np.ndarray, mask: np.ndarray, yes: float, no: float) -> Tensor:
    """Return ``yes`` where the mask is True and ``no`` elsewhere, in x's type, without gradient."""
    return wrap(kernels.choose(mask, yes, no, x.dtype))


def check_reduction(name: str, reduction: str, *more: str) -> None:
    """Reject an unknown reduction.

    Raises:
        ValueError: the reduction is not "mean", "sum", "none" or one of ``more``.
    """
    if not isinstance(reduction, str) or (reduction not in _REDUCTIONS and reduction not in more):
        allowed = ", ".join(map(repr, (*more, "mean", "sum")))
        raise ValueError(f"{name}: reduction={reduction!r} must be {allowed} or 'none'")


def reduce(name: str, losses: Tensor, reduction: str) -> Tensor:
    """Reduce the losses to their mean or sum, or return them unchanged.

    Raises:
        TypeError: the losses are integers and the reduction is "mean".
        ValueError: the reduction is not "mean", "sum" or "none".
    """
    if reduction == "mean":
        require_float(name, losses)
        return mean(losses)
    if reduction == "sum":
        return sum(losses)
    check_reduction(name, reduction)
    return losses


def matched(name: str, input: Tensor, target: Tensor, *, warn: bool = False, stacklevel: int = 3) -> tuple[Any, Any]:
    """Convert both operands to one floating-point type and shape, broadcast with a warning if ``warn``.

    Raises:
        TypeError: an operand is not a Tensor, or neither is floating-point.
        ValueError: the shapes do not broadcast.
    """
    if not are_floats(input, target):
        input, target = floats(name, input=input, target=target)
    return of_one_shape(name, input, target, warn, stacklevel + 1)


def of_one_shape(
    name: str, input: Tensor, target: Tensor, warn: bool = False, stacklevel: int = 3
) -> tuple[Tensor, Tensor]:
    """Broadcast both operands to each other if their shapes differ, with a warning if ``warn``.

    Raises:
        ValueError: the shapes do not broadcast.
    """
    if input.array.shape == target.array.shape:
        return input, target
    shape = broadcast_shape(name, input.array.shape, target.array.shape)
    if warn:
        warnings.warn(
            f"{name}: input.shape={input.array.shape} and target.shape={target.array.shape} differ and are broadcast; "
            f"reshape one if this is not intended",
            stacklevel=stacklevel,
        )
    return expand(input, shape), expand(target, shape)


def same_shape(name: str, input: Tensor, target: Tensor) -> None:
    """Reject operands that differ in floating-point type or shape.

    Raises:
        TypeError: they are not floating-point Tensors of one type.
        ValueError: the shapes differ.
    """
    for label, value in (("input", input), ("target", target)):
        require_float(name, value, label)
    require_same(name, "input", input, "target", target)
    if input.array.shape != target.array.shape:
        raise ValueError(
            f"{name}: input.shape={input.array.shape} and target.shape={target.array.shape} must be equal; "
            f"expand or reshape one"
        )


def constant(name: str, label: str, value: Tensor | None, x: Tensor) -> Tensor | None:
    """Check that ``value`` has x's type and requires no gradient (the loss does not compute one), and return it.

    Raises:
        TypeError: it is not a floating-point Tensor of x's type.
        ValueError: it requires a gradient.
    """
    if value is not None:
        require_same(name, "input", x, label, value)
        refuse_gradient(name, label, value)
    return value


def refuse_gradient(name: str, label: str, value: Tensor) -> Tensor:
    """Check that ``value`` requires no gradient (the loss does not compute one), and return it.

    Raises:
        ValueError: it requires a gradient.
    """
    if value.requires_grad:
        raise ValueError(f"{name}: {label} requires a gradient, which this loss does not compute; use {label}.detach()")
    return value


def signs(name: str, target: Any, x: Tensor) -> Tensor:
    """Convert a target of 1 and -1 to x's type; integers and bool are accepted.

    Raises:
        TypeError: it is not a Tensor, or floating-point of another type.
    """
    if isinstance(target, Tensor) and target.array.dtype.kind != "f":
        return cast(target, x.array.dtype)
    require_same(name, "input", x, "target", target)
    return target


def weighted(name: str, losses: Tensor, weight: Tensor, reduction: str) -> Tensor:
    """Multiply the losses by the weight, which broadcasts to them, and reduce them.

    Raises:
        ValueError: the weight is larger than the losses, or does not broadcast to them.
    """
    require_tensor(name, weight, "weight")
    shape = losses.array.shape
    if broadcast_shape(name, shape, weight.array.shape) != shape:
        raise ValueError(f"{name}: weight.shape={weight.array.shape} does not broadcast to input.shape={shape}")
    return reduce(name, losses * weight, reduction)
