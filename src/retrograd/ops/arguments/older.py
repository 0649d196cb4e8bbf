"""Forms of calls that PyTorch still takes: numbers before the tensors, and NumPy's names of arguments."""

from __future__ import annotations

import functools
import inspect
import warnings
from typing import Any

from ...engine.tensor import Tensor
from .binding import require_bound

_NAMES = {"axis": "dim", "keepdims": "keepdim"}  # NumPy's name -> PyTorch's


@functools.cache
def with_numpy_names(function: Any) -> Any:
    """A function that takes ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``; itself if it has neither."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return function
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]  # inspect.signature takes longer
    names = {other: name for other, name in _NAMES.items() if name in parameters and other not in parameters}
    if not names:
        return function

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        if given:
            for other, name in names.items():
                if other in given:
                    if name in given:
                        raise TypeError(f"{function.__name__}: {other} and {name} are one argument; give it once")
                    given[name] = given.pop(other)
        try:
            return function(*args, **given)
        except TypeError:
            require_bound(function.__name__, inspect.signature(function), args, given)
            raise

    return call


def scaled_last(name: str, factor: Any, rest: tuple[Any, ...], given: float, count: int = 1) -> tuple[Any, ...]:
    """The operands and the factor of ``add(x, alpha, other)`` or ``addcmul(x, value, tensor1, tensor2)``.

    rest: what came after the factor, ``count`` operands. given: the factor by name, which must be 1 then.

    Raises:
        TypeError: the arguments are not of that form.
    """
    if isinstance(factor, Tensor) or given != 1 or len(rest) != count:
        raise TypeError(f"{name}: takes input, {count} operands and its factor by name, got {2 + len(rest)} arguments")
    _warn(name, "the factor by name, after the tensors")
    return (*rest, factor)


def factors_and_operands(
    name: str, operands: tuple[Any, ...], beta: float, alpha: float
) -> tuple[Tensor, Tensor, Tensor, float, float]:
    """The operands, beta and alpha of ``addmm(beta, x, alpha, a, b)`` or ``x.addmm(beta, alpha, a, b)``.

    alpha may be missing. Raises:
        TypeError: there are not three tensors with one or two numbers before the last two.
    """
    tensors = [value for value in operands if isinstance(value, Tensor)]
    numbers = [value for value in operands if not isinstance(value, Tensor)]
    if len(tensors) != 3 or len(numbers) > 2 or operands[-2:] != (*tensors[1:],) or (beta, alpha) != (1, 1):
        raise TypeError(f"{name}: takes three Tensors, beta and alpha by name; got {len(operands)} arguments")
    _warn(name, "beta and alpha by name, after the tensors")
    x, a, b = tensors
    return x, a, b, numbers[0], numbers[1] if len(numbers) == 2 else 1


def _warn(name: str, form: str) -> None:
    warnings.warn(f"This overload of {name} is deprecated; give {form}", UserWarning, stacklevel=4)
