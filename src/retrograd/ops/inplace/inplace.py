"""In-place methods: ``x.add_(y)``, ``x += y``, ``x.relu_()``, ``x.copy_(y)``.

Each is the operator without the underscore, with its gradient; ``engine.inplace.modify`` writes the result into memory
and updates the graph. See there for leaves that require gradients, and for backwards that need the old values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays import full_like
from ...engine.inplace import Replaced, modify
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...formulas import optimizers
from ...kernel_set import kernels
from ..arguments.binding import require_bound
from ..arguments.checks import as_element, as_real, is_number, require_tensor
from ..dtypes.dtype import cast, float16
from ..dtypes.promotion import CATEGORY, as_operand
from ..pointwise import piecewise
from ..shape.broadcasting import broadcasts_to, expand


def in_place(function: Callable[..., Tensor], name: str = "", arithmetic: str = "") -> Callable[..., Tensor]:
    """The in-place form of an operator whose result has the shape of its first argument.

    name: for messages; by default the operator's name and an underscore
    arithmetic: of a binary operator, what ``kernels.arithmetic`` calls it, for changes that are not recorded
    """
    name = name or f"{function.__name__}_"
    of_python = not name.isidentifier()  # x += array; functions take Tensors alone

    @functools.wraps(function)
    def change(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if interpreters and (seen := interpreted(change, locals())) is not None:
            return seen
        require_tensor(name, input)
        if of_python and args and type(args[0]) is np.ndarray:
            args = (as_operand(args[0], (input,)),)

        def compute(old: Tensor) -> Tensor:
            try:
                result = function(old, *args, **kwargs)
            except TypeError:
                require_bound(name, inspect.signature(function), (old, *args), kwargs)
                raise
            return _as(name, result, old.array.dtype)

        write = None
        if arithmetic and len(args) == 1 and not kwargs and _fits(input.array, args[0]):
            other = args[0].array if isinstance(args[0], Tensor) else as_real(name, "other", args[0])
            write = lambda array: kernels.arithmetic(array, other, arithmetic)  # noqa: E731
        return modify(input, name, compute, (*args, *kwargs.values()), write)

    change.__name__ = change.__qualname__ = name
    change.__doc__ = f"``{function.__name__}`` in the memory of input, which is returned.\n\nRaises: as ``modify``."
    of = getattr(function, "operator", None)
    made: Callable[..., Tensor] = operator(change)
    if of is not None:
        made.operator.dtypes = of.dtypes  # type: ignore[attr-defined]
    return made


class _RectifiedInPlace(piecewise.Relu):
    """relu, written into the array of x; what is recorded is an ordinary Relu of the same result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.function = piecewise.Relu
        _rectify(x.array)
        y = wrap(x.array)
        ctx.save_for_backward(y)
        return y


def _rectify(array: np.ndarray) -> None:
    kernels.update(optimizers.rectified, [array])


@operator(records=_RectifiedInPlace, methods="relu_", dtypes="bif")
def relu_(input: Tensor) -> Tensor:
    """``relu`` in the memory of input, which is returned.

    Raises:
        TypeError: input is not a floating-point Tensor. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(relu_, locals())) is not None:
        return seen
    require_tensor("relu_", input)
    if input.array.dtype.char not in "fd":
        return _relu_(input)
    return modify(input, "relu_", piecewise.relu, (), _rectify, _RectifiedInPlace.apply)


_relu_ = in_place(piecewise.relu)


@operator(records=Replaced, methods="zero_")
def zero_(input: Tensor) -> Tensor:
    """Set every element to 0; the gradient to the old values is 0.

    Raises: as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(zero_, locals())) is not None:
        return seen
    return _fill("zero_", input, 0)


@operator(records=Replaced, methods="fill_")
def fill_(input: Tensor, value: Any) -> Tensor:
    """Set every element to ``value``, a number or a tensor with one element; the gradient to the old values is 0.

    Raises:
        TypeError: ``value`` is neither of these. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(fill_, locals())) is not None:
        return seen
    if isinstance(value, Tensor) and value.array.size == 1:
        return _copy("fill_", input, value if not value.array.ndim else value.reshape(()))
    if not is_number(value):
        kind = f"a tensor of shape {value.array.shape}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"fill_: value is {kind}, needs a number or a tensor with one element; copy_ takes others")
    return _fill("fill_", input, value)


@operator(records=Replaced, methods="copy_")
def copy_(input: Tensor, src: Tensor) -> Tensor:
    """Set the elements to those of ``src``, broadcast and converted; the gradient goes to ``src``.

    Raises:
        TypeError: ``src`` is not a Tensor.
        ValueError: ``src`` does not broadcast to the shape of input. And as ``engine.modify``.
    """
    if interpreters and (seen := interpreted(copy_, locals())) is not None:
        return seen
    require_tensor("copy_", src, "src")
    return _copy("copy_", input, src)


def _fill(operator: str, input: Tensor, value: Any) -> Tensor:
    require_tensor(operator, input)
    number = as_element(operator, "value", value, input.array.dtype)
    return modify(
        input,
        operator,
        lambda old: Replaced.apply(old, wrap(full_like(old.array, number))),
        write=lambda array: kernels.fill(array, number),
    )


def _copy(operator: str, input: Tensor, src: Tensor) -> Tensor:
    require_tensor(operator, input)
    shape, dtype = input.array.shape, input.array.dtype
    if not broadcasts_to(src.array.shape, shape):
        raise ValueError(f"{operator}: src.shape={src.array.shape} does not broadcast to input.shape={shape}")
    return modify(
        input,
        operator,
        lambda old: Replaced.apply(old, expand(cast(src, dtype), shape)),
        (src,),
        lambda array: kernels.assign(array, src.array),
    )


def _as(operator: str, value: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """``value`` in ``dtype``; TypeError if that is a lower category."""
    if value.array.dtype == dtype:
        return value
    if CATEGORY[value.array.dtype.kind] > CATEGORY[dtype.kind]:
        raise TypeError(
            f"{operator}: the result is {value.array.dtype}, which input of {dtype} cannot hold; convert input first, "
            "for example with input.float()"
        )
    return cast(value, dtype)


def _fits(array: np.ndarray, other: Any) -> bool:
    """Whether ``array op other`` can be computed in place: one type, and the shape of array."""
    if array.dtype.kind != "f" or array.dtype is float16:
        return False
    if isinstance(other, Tensor):
        return other.array.dtype == array.dtype and broadcasts_to(other.array.shape, array.shape)
    return is_number(other) and not isinstance(other, (bool, np.bool_))  # sub refuses bool
