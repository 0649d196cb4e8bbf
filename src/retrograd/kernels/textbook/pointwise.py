"""The kernels of all formulas, and of the primitives that are operators: they run on the arrays themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...formulas import FUSED, POINTWISE, form
from .ieee import ieee


def _truncated_quotient(x: np.ndarray, y: np.ndarray) -> Any:
    down = np.floor_divide(x, y)  # one too low where the quotient is negative and inexact
    return down + ((down < 0) & (down * y != x))


# NumPy's functions of integers and truth values, which are exact and take no steps between
_OF_INTEGERS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
    "ceil": np.positive,
    "floor": np.positive,
    "trunc": np.positive,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "where": np.where,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "floor_divide": np.floor_divide,
    "trunc_divide": _truncated_quotient,
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
}


def _kind(arrays: tuple[Any, ...]) -> Any:
    """An array of the kind of the result: that of another library, if there is one, else NumPy's."""
    return next((each for each in arrays if type(each) is not np.ndarray), arrays[-1])


def on_arrays(formula: Callable[..., Any], of_integers: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The kernel of a formula: the formula itself, in the type of its operands.

    Of several results, the last arguments say which are wanted; the others are None. of_integers: what computes
    integers and truth values instead.
    """
    one = form(formula)
    last = len(one.operands) - 1

    @ieee
    def run(*values: Any) -> np.ndarray:
        dtype = np.bool_ if one.truth else values[last].dtype
        return np.asarray(formula(*values), dtype, like=_kind(values[: last + 1]))

    exactly: Any = of_integers

    def run_one(x: np.ndarray) -> np.ndarray:
        return run(x) if x.dtype.kind == "f" else np.asarray(exactly(x), like=x)

    def run_two(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if y.dtype.kind == "f" and x.dtype.kind not in "iu":
            return run(x, y)
        return np.asarray(exactly(x, y), like=_kind((x, y)))

    def run_three(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return run(condition, x, y) if y.dtype.kind == "f" else np.asarray(exactly(condition, x, y), like=condition)

    @ieee
    def run_several(*values: Any) -> tuple[np.ndarray | None, ...]:
        wanted, dtype = values[-one.results :], values[last].dtype
        like = _kind(values[: last + 1])
        pairs = zip(formula(*values[: -one.results]), wanted, strict=True)
        return tuple([np.asarray(result, dtype, like=like) if want else None for result, want in pairs])

    if of_integers is not None:
        return wraps(formula)((run_one, run_two, run_three)[last])
    return wraps(formula)(run if one.results == 1 else run_several)


KERNELS: dict[str, Callable[..., Any]] = {
    name: on_arrays(formula, _OF_INTEGERS.get(name)) for name, formula in (POINTWISE | FUSED).items()
}
