"""Comparison, test, logical and bitwise operators; they have no gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...arrays import all_true, from_host, ones, same, zeros, zeros_like
from ...engine.arguments import kind_name
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact, kernels
from ..argument_checks import as_element, as_flag, as_real, is_number
from ..dtypes.dtype import float16
from ..dtypes.promotion import promote
from ..shape.broadcasting import broadcast_shape

__all__ = [
    "allclose",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "eq",
    "equal",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "le",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "ne",
    "not_equal",
    "signbit",
]


@operator(methods="eq", in_place=True, numpy="equal", dtypes="bihf")
def eq(input: Tensor, other: Tensor | float) -> Tensor:
    """input == other, element by element; other is a Tensor or a number."""
    if interpreters and (seen := interpreted(eq, locals())) is not None:
        return seen
    return _compare("eq", "eq", input, other)


@operator(methods="ne not_equal", in_place=True, numpy="not_equal", dtypes="bihf")
def ne(input: Tensor, other: Tensor | float) -> Tensor:
    """input != other, element by element; other is a Tensor or a number."""
    if interpreters and (seen := interpreted(ne, locals())) is not None:
        return seen
    return _compare("ne", "ne", input, other)


@operator(methods="lt less", in_place=True, numpy="less", dtypes="bihf")
def lt(input: Tensor, other: Tensor | float) -> Tensor:
    """input < other, element by element; other is a Tensor or a number."""
    if interpreters and (seen := interpreted(lt, locals())) is not None:
        return seen
    return _compare("lt", "lt", input, other)


@operator(methods="le less_equal", in_place=True, numpy="less_equal", dtypes="bihf")
def le(input: Tensor, other: Tensor | float) -> Tensor:
    """input <= other, element by element; other is a Tensor or a number."""
    if interpreters and (seen := interpreted(le, locals())) is not None:
        return seen
    return _compare("le", "le", input, other)


@operator(methods="gt greater", in_place=True, numpy="greater", dtypes="bihf")
def gt(input: Tensor, other: Tensor | float) -> Tensor:
    """input > other, element by element; other is a Tensor or a number."""
    if interpreters and (seen := interpreted(gt, locals())) is not None:
        return seen
    return _compare("gt", "lt", input, other, swapped=True)


@operator(methods="ge greater_equal", in_place=True, numpy="greater_equal", dtypes="bihf")
def ge(input: Tensor, other: Tensor | float) -> Tensor:
    """input >= other, element by element; other is a Tensor or a number."""
    if interpreters and (seen := interpreted(ge, locals())) is not None:
        return seen
    return _compare("ge", "le", input, other, swapped=True)


@operator(methods="isnan", numpy="isnan", dtypes="bihf")
def isnan(input: Tensor) -> Tensor:
    """True where input is NaN."""
    if interpreters and (seen := interpreted(isnan, locals())) is not None:
        return seen
    return _test("isnan", input, False)


@operator(methods="isinf", numpy="isinf", dtypes="bihf")
def isinf(input: Tensor) -> Tensor:
    """True where input is inf or -inf."""
    if interpreters and (seen := interpreted(isinf, locals())) is not None:
        return seen
    return _test("isinf", input, False)


@operator(methods="isfinite", numpy="isfinite", dtypes="bihf")
def isfinite(input: Tensor) -> Tensor:
    """True where input is neither NaN nor infinite."""
    if interpreters and (seen := interpreted(isfinite, locals())) is not None:
        return seen
    return _test("isfinite", input, True)


@operator(methods="isposinf", dtypes="bihf")
def isposinf(input: Tensor) -> Tensor:
    """True where input is inf."""
    if interpreters and (seen := interpreted(isposinf, locals())) is not None:
        return seen
    return _equal_to("isposinf", input, math.inf)


@operator(methods="isneginf", dtypes="bihf")
def isneginf(input: Tensor) -> Tensor:
    """True where input is -inf."""
    if interpreters and (seen := interpreted(isneginf, locals())) is not None:
        return seen
    return _equal_to("isneginf", input, -math.inf)


@operator(methods="isreal", dtypes="bihf")
def isreal(input: Tensor) -> Tensor:
    """True everywhere, since no tensor is complex."""
    if interpreters and (seen := interpreted(isreal, locals())) is not None:
        return seen
    x = _pair("isreal", input, input)[0]
    return wrap(ones(x.shape, np.bool_, like=x))


@operator(methods="signbit", numpy="signbit", dtypes="bihf")
def signbit(input: Tensor) -> Tensor:
    """True where the sign bit of input is set: for negative numbers and for -0.0."""
    if interpreters and (seen := interpreted(signbit, locals())) is not None:
        return seen
    return wrap(kernels.signbit(_pair("signbit", input, input)[0]))


@operator(methods="isclose", dtypes="bihf")
def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """True where |input - other| <= atol + rtol * |other|; an infinity is close only to itself.

    equal_nan: whether NaN is close to NaN.

    Raises:
        TypeError: an operand is not a Tensor, or their types differ.
        ValueError: the shapes do not broadcast, or rtol or atol is negative or NaN.
    """
    if interpreters and (seen := interpreted(isclose, locals())) is not None:
        return seen
    x, y = _pair("isclose", input, other)
    equal_nan = as_flag("isclose", "equal_nan", equal_nan)
    for label, value in (("rtol", rtol), ("atol", atol)):
        if not as_real("isclose", label, value) >= 0:
            raise ValueError(f"isclose: {label}={value!r} must be at least 0")
    rtol, atol = as_real("isclose", "rtol", rtol), as_real("isclose", "atol", atol)
    if x.dtype != y.dtype:
        raise TypeError(f"isclose: input is {x.dtype}, other is {y.dtype}; convert one with .to()")
    return wrap(kernels.isclose(x, y, rtol, atol, equal_nan))


@operator(methods="allclose", dtypes="bihf")
def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Return whether all elements are close; see ``isclose``."""
    if interpreters and (seen := interpreted(allclose, locals())) is not None:
        return seen
    equal_nan = as_flag("allclose", "equal_nan", equal_nan)
    return all_true(isclose(input, other, rtol, atol, equal_nan).array, "whether all elements are close")


@operator(methods="equal", dtypes="bihf")
def equal(input: Tensor, other: Tensor) -> bool:
    """Return whether both Tensors have the same shape and the same elements. NaN is not equal to anything.

    Raises:
        TypeError: an operand is not a Tensor.
    """
    if interpreters and (seen := interpreted(equal, locals())) is not None:
        return seen
    for label, value in (("input", input), ("other", other)):
        if not isinstance(value, Tensor):
            raise TypeError(f"equal: {label} is {kind_name(value)}, needs a Tensor")
    return input.array.shape == other.array.shape and same(input.array, other.array, "whether tensors are equal")


@operator(methods="logical_and", in_place=True, numpy="logical_and", dtypes="bihf")
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """True where both are nonzero; shapes broadcast."""
    if interpreters and (seen := interpreted(logical_and, locals())) is not None:
        return seen
    return wrap(kernels.logical_and(*_pair("logical_and", input, other)))


@operator(methods="logical_or", in_place=True, numpy="logical_or", dtypes="bihf")
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """True where at least one is nonzero; shapes broadcast."""
    if interpreters and (seen := interpreted(logical_or, locals())) is not None:
        return seen
    return wrap(kernels.logical_or(*_pair("logical_or", input, other)))


@operator(methods="logical_xor", in_place=True, numpy="logical_xor", dtypes="bihf")
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """True where exactly one is nonzero; shapes broadcast."""
    if interpreters and (seen := interpreted(logical_xor, locals())) is not None:
        return seen
    return wrap(kernels.logical_xor(*_pair("logical_xor", input, other)))


@operator(methods="logical_not", in_place=True, numpy="logical_not", dtypes="bihf")
def logical_not(input: Tensor) -> Tensor:
    """True where input is 0."""
    if interpreters and (seen := interpreted(logical_not, locals())) is not None:
        return seen
    return wrap(kernels.logical_not(_pair("logical_not", input, input)[0]))


@operator(methods="bitwise_and __and__", in_place=True, numpy="bitwise_and", dtypes="bi")
def bitwise_and(input: Tensor | int, other: Tensor | int) -> Tensor:
    """Bitwise AND of integers or booleans; shapes broadcast."""
    if interpreters and (seen := interpreted(bitwise_and, locals())) is not None:
        return seen
    return _bitwise("bitwise_and", kernels.bitwise_and, input, other)


@operator(methods="bitwise_or __or__", in_place=True, numpy="bitwise_or", dtypes="bi")
def bitwise_or(input: Tensor | int, other: Tensor | int) -> Tensor:
    """Bitwise OR of integers or booleans; shapes broadcast."""
    if interpreters and (seen := interpreted(bitwise_or, locals())) is not None:
        return seen
    return _bitwise("bitwise_or", kernels.bitwise_or, input, other)


@operator(methods="bitwise_xor __xor__", in_place=True, numpy="bitwise_xor", dtypes="bi")
def bitwise_xor(input: Tensor | int, other: Tensor | int) -> Tensor:
    """Bitwise XOR of integers or booleans; shapes broadcast."""
    if interpreters and (seen := interpreted(bitwise_xor, locals())) is not None:
        return seen
    return _bitwise("bitwise_xor", kernels.bitwise_xor, input, other)


@operator(methods="bitwise_left_shift __lshift__", in_place=True, numpy="left_shift", dtypes="i")
def bitwise_left_shift(input: Tensor | int, other: Tensor | int) -> Tensor:
    """input * 2**other for integers; bits beyond the type are lost. Shapes broadcast.

    Raises:
        TypeError: both are boolean, or one is floating-point.
    """
    if interpreters and (seen := interpreted(bitwise_left_shift, locals())) is not None:
        return seen
    return _shifted("bitwise_left_shift", kernels.bitwise_left_shift, input, other)


@operator(methods="bitwise_right_shift __rshift__", in_place=True, numpy="right_shift", dtypes="i")
def bitwise_right_shift(input: Tensor | int, other: Tensor | int) -> Tensor:
    """input / 2**other for integers, rounded down; shapes broadcast.

    Raises:
        TypeError: both are boolean, or one is floating-point.
    """
    if interpreters and (seen := interpreted(bitwise_right_shift, locals())) is not None:
        return seen
    return _shifted("bitwise_right_shift", kernels.bitwise_right_shift, input, other)


def _shifted(name: str, shift: Callable[..., Any], input: Any, other: Any) -> Tensor:
    kinds = [x.array.dtype.kind if isinstance(x, Tensor) else "b" * isinstance(x, bool) for x in (input, other)]
    if kinds == ["b", "b"]:
        raise TypeError(f"{name}: input and other are bool, needs integers; convert one with .long()")
    return _bitwise(name, shift, input, other)


@operator(methods="bitwise_not __invert__", in_place=True, numpy="invert", dtypes="bi")
def bitwise_not(input: Tensor) -> Tensor:
    """Bitwise NOT: ``not x`` for booleans, -x - 1 for integers.

    Raises:
        TypeError: input is floating-point.
    """
    if interpreters and (seen := interpreted(bitwise_not, locals())) is not None:
        return seen
    if not isinstance(input, Tensor) or input.array.dtype.kind == "f":
        kind = input.array.dtype if isinstance(input, Tensor) else type(input).__name__
        raise TypeError(f"bitwise_not: input is {kind}, needs a Tensor of int64 or bool")
    return wrap(kernels.bitwise_not(input.array))


def _compare(name: str, kernel: str, x: Any, y: Any, swapped: bool = False) -> Tensor:
    """Apply ``kernel`` to (x, y), or to (y, x) if ``swapped``."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: input is {kind_name(x)}, needs a Tensor; make one with retrograd.tensor(input)")
    if isinstance(y, Tensor):
        broadcast_shape(name, x.array.shape, y.array.shape)
        if x.array.dtype is not y.array.dtype and x.array.dtype.kind in "iu" and y.array.dtype.kind in "iu":
            x, y = promote(name, x, y)  # NumPy compares numbers before they wrap
        other = y.array
    elif is_number(y):
        other = as_element(name, "other", y, x.array.dtype) if x.array.dtype.kind == "f" else from_host(y)
    else:
        raise TypeError(f"{name}: other is {kind_name(y)}, needs a Tensor or a number")
    fits = x.array.dtype.kind == "f" and other.dtype == x.array.dtype and other.dtype is not float16
    run = getattr(kernels, kernel) if fits else exact(kernel)
    return wrap(run(other, x.array) if swapped else run(x.array, other))


def _test(name: str, x: Tensor, of_integers: bool) -> Tensor:
    _pair(name, x, x)
    if x.array.dtype.kind == "f":
        return wrap(getattr(kernels, name)(x.array))
    return wrap((ones if of_integers else zeros)(x.array.shape, np.bool_, like=x.array))


def _equal_to(name: str, x: Tensor, infinity: float) -> Tensor:
    array = _pair(name, x, x)[0]
    if array.dtype.kind != "f":
        return wrap(zeros_like(array, np.bool_))
    run = exact("eq") if array.dtype is float16 else kernels.eq
    return wrap(run(array, from_host(infinity, array.dtype, like=array)))


def _pair(name: str, x: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    for label, value in (("input", x), ("other", y)):
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: {label} is {kind_name(value)}, needs a Tensor")
    broadcast_shape(name, x.array.shape, y.array.shape)
    return x.array, y.array


def _bitwise(name: str, operator: Callable[..., Any], x: Any, y: Any) -> Tensor:
    a, b = promote(name, x, y)
    if a.array.dtype.kind == "f":
        raise TypeError(f"{name}: input and other promote to {a.array.dtype}, needs int64 or bool")
    broadcast_shape(name, a.array.shape, b.array.shape)
    return wrap(operator(a.array, b.array))


greater: Final = gt
greater_equal: Final = ge
less: Final = lt
less_equal: Final = le
not_equal: Final = ne
