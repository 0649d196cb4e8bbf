"""Base classes and operand checks of the element-wise operators."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...arrays import from_host, zeros
from ...engine.function import Function
from ...engine.grad_mode import is_grad_enabled as recording
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact
from ..arguments.checks import as_float, require_float
from ..dtypes.dtype import default_dtype
from ..dtypes.promotion import promote
from ..shape.broadcasting import broadcast_shape

__all__ = [
    "Binary",
    "Constant",
    "Gradients",
    "WithoutGradient",
    "binary",
    "promoted",
    "recording",
    "unary_exact",
    "unary_float",
]

Gradients = tuple[Tensor | None, ...]


class Binary(Function):
    """An operator of two broadcast operands; ``exact``: of integers, too, which carry no gradient."""

    formula: Any  # its value
    exact: ClassVar[bool] = False  # False: integers become float32
    integers: ClassVar[bool] = True  # False: one operand at least must be floating-point
    truths: ClassVar[bool] = True  # False: no operand may hold truth values


class Constant(Function):
    """y, piecewise constant in x, such as a count of elements: the gradient to x is 0"""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: np.ndarray) -> Tensor:
        ctx.shape, ctx.dtype = x.array.shape, x.array.dtype
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        return wrap(zeros(ctx.shape, ctx.dtype, like=g.array)), None


class WithoutGradient(Function):
    """y, computed from x by the operator ``name``, which has no gradient: a backward through it is an error."""

    gradient = "none: a backward through it is an error"

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: np.ndarray, name: str) -> Tensor:
        ctx.operator = name
        return wrap(y)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        raise NotImplementedError(f"{ctx.operator}: it has no gradient; use input.detach()")


def unary_float(operator: type[Function], name: str, x: Tensor) -> Tensor:
    """The operator of a floating-point Tensor.

    Raises:
        TypeError: x is not a floating-point Tensor.
    """
    if not (isinstance(x, Tensor) and x.array.dtype.char in "fd"):
        require_float(name, x)
    return operator.apply(x)


@operator
def unary_exact(operator: type[Function], name: str, x: Tensor) -> Tensor:
    """The operator of a floating-point Tensor, or of integers, which carry no gradient; ``name`` is its kernel, too.

    Raises:
        TypeError: x is not a Tensor, or holds truth values.
    """
    if interpreters and (seen := interpreted(unary_exact, locals())) is not None:
        return seen
    if isinstance(x, Tensor):
        dtype = x.array.dtype
        if dtype.char in "fd":
            return operator.apply(x)
        if dtype.kind in "iu":
            return wrap(exact(name)(x.array))
    return unary_float(operator, name, x)


@operator
def binary(operator: type[Binary], name: str, x: Any, y: Any) -> Tensor:
    """The operator of two Tensors, or of a Tensor and a number: shapes broadcast, types promote.

    Raises:
        ValueError: the shapes do not broadcast, or a number does not fit the type.
        TypeError: an operand is neither a Tensor nor a number, or of a type that the operator does not support.
    """
    if interpreters and (seen := interpreted(binary, locals())) is not None:
        return seen
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        dtype = x.array.dtype
        if y.array.dtype is dtype and dtype.kind == "f":
            if x.array.shape != y.array.shape:
                broadcast_shape(name, x.array.shape, y.array.shape)
            return operator.apply(x, y)
    given = x, y
    if not isinstance(y, Tensor) and getattr(y, "__array_ufunc__", x) is None:  # it computes itself, as sparse ones do
        reflected = getattr(y, f"__r{name}__", None)
        if reflected is not None:
            return reflected(x)
    x, y = promoted(operator, name, x, y)
    if not operator.exact and x.array.dtype.kind != "f":  # before a number wraps in a small type of integers
        x, y = (as_float(name, v) if isinstance(v, Tensor) else wrap(from_host(v, default_dtype())) for v in given)
    broadcast_shape(name, x.array.shape, y.array.shape)
    if x.array.dtype.kind == "f":
        return operator.apply(x, y)
    return Tensor(exact(operator.formula.kernel)(x.array, y.array))


def promoted(operator: type[Binary], name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Both operands as Tensors of one type that the operator supports; see ``promote``.

    Raises:
        TypeError: an operand is neither a Tensor nor a number, or of a type that the operator does not support.
        ValueError: a number does not fit the type.
    """
    if not operator.truths:
        # 1.0 - mask is allowed: scripts make masks by Tensor(array of truth values), where PyTorch makes numbers
        number = _is_floating(x) or _is_floating(y)
        for label, value in (("input", x), ("other", y)):
            if isinstance(value, (bool, np.bool_)) or (isinstance(value, Tensor) and value.array.dtype.kind == "b"):
                if number and isinstance(value, Tensor):
                    continue
                raise TypeError(
                    f"{name}: {label} is bool, needs numbers; convert it to integers, "
                    f"or use ~x to invert a mask and x ^ y for where two differ"
                )
    x, y = promote(name, x, y)
    if not operator.integers and x.array.dtype.kind != "f":
        raise TypeError(
            f"{name}: input and other promote to {x.array.dtype}, needs float32 or float64; convert one with .float()"
        )
    return x, y


def _is_floating(value: Any) -> bool:
    """Whether it is a floating-point number or Tensor."""
    return value.array.dtype.kind == "f" if isinstance(value, Tensor) else isinstance(value, (float, np.floating))
