"""Optimizer options: parsing of the arguments and checks of their values."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypedDict

import numpy as np

from .._files.state import brief
from ..engine.tensor import Tensor
from ..ops.signatures import suggestion

__all__: list[str] = []


class ImplementationOptions(TypedDict, total=False):
    """PyTorch's options that choose the implementation of a step, not its result; here one kernel does all updates.

    ``foreach``, ``fused`` and ``capturable`` change nothing; ``differentiable=True`` is refused.
    """

    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool


IMPLEMENTATION_OPTIONS = tuple(ImplementationOptions.__annotations__)


def options(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return an optimizer's options without ImplementationOptions; arguments: the local variables of its __init__.

    Raises:
        TypeError: an unknown keyword.
        ValueError: an implementation option is not True, False or None, or ``differentiable`` is True.
    """
    own = {
        option: value
        for option, value in arguments.items()
        if option not in ("self", "params", "implementation", "__class__")
    }
    check_implementation_options(name, arguments.get("implementation", {}), own)
    return own


def check_implementation_options(name: str, given: Any, others: Iterable[str] = ()) -> None:
    """Raise unless the keywords are those of ``ImplementationOptions``, with values that change nothing here.

    others: the optimizer's own options, of which one may be meant.
    """
    for option, value in given.items():
        if option not in IMPLEMENTATION_OPTIONS:
            hint = suggestion(option, (*others, *IMPLEMENTATION_OPTIONS))
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}{hint}")
        if value is not None:
            require_flag(f"{name}: {option}", value)
    if given.get("differentiable"):
        raise ValueError(
            f"{name}: differentiable=True is not supported: a step changes parameters in place; for gradients through "
            "an update, write it with operators of tensors"
        )


def as_number(option: Any) -> Any:
    """Return an option with Tensors of one element and NumPy scalars, alone or in a list, as Python numbers.

    Anything else is returned unchanged. A NumPy scalar would narrow the Python numbers combined with it to its type.
    """
    if isinstance(option, Tensor) and option.array.size == 1:
        return option.item()
    if isinstance(option, np.bool_):
        return bool(option)
    if isinstance(option, np.integer):
        return int(option)
    if isinstance(option, np.floating):
        return float(option)
    return tuple(map(as_number, option)) if isinstance(option, (tuple, list)) else option


def require_number(
    name: str, value: Any, low: float = 0.0, below: float = math.inf, upto: float = sys.float_info.max
) -> float:
    """Return value as a Python number; raise ValueError unless low <= value < below and value <= upto (not NaN)."""
    found: float = as_number(value) if isinstance(value, np.number) else value
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not (low <= found < below and found <= upto):
        limit = f"below {below}" if below < math.inf else f"at most {upto}" if upto < sys.float_info.max else "finite"
        raise ValueError(f"{name}={brief(value)} is invalid; it must be a number of at least {low} and {limit}")
    return found


def require_betas(name: str, betas: Any) -> None:
    """Raise ValueError unless betas are two numbers in [0, 1)."""
    for position, beta in enumerate(_two_numbers(name, betas)):
        require_number(f"{name}[{position}]", beta, below=1.0)


def require_flag(name: str, value: Any) -> bool:
    """Return value as a bool; raise ValueError unless it is True, False, 1 or 0."""
    if isinstance(value, np.bool_) or type(value) is int and value in (0, 1):
        return bool(value)
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r} is invalid; it must be True or False")
    return value


def _require_etas(name: str, etas: Any) -> None:
    """Raise ValueError unless etas are two numbers, 0 < etas[0] < 1 < etas[1]."""
    low, high = _two_numbers(name, etas)
    if not 0 < low < 1 < high:
        raise ValueError(f"{name}={etas!r} is invalid; it must be a factor from 0 to 1 and one above 1")


def _require_step_sizes(name: str, sizes: Any) -> None:
    """Raise ValueError unless these are two numbers in ascending order."""
    low, high = _two_numbers(name, sizes)
    if low > high:
        raise ValueError(f"{name}={sizes!r} is invalid; the smallest step must not be above the largest")


def _two_numbers(name: str, values: Any) -> Any:
    if not isinstance(values, (tuple, list)) or len(values) != 2:
        raise ValueError(f"{name}={values!r} is invalid; it must be two numbers")
    for position, value in enumerate(values):
        require_number(f"{name}[{position}]", value)
    return values


_NUMBERS = (
    *("lr", "eps", "weight_decay", "momentum", "momentum_decay", "lr_decay", "initial_accumulator_value"),
    *("lambd", "t0"),
)
CHECKS: dict[str, Callable[[str, Any], Any]] = {  # of options
    **dict.fromkeys(_NUMBERS, require_number),
    "betas": require_betas,
    "etas": _require_etas,
    "step_sizes": _require_step_sizes,
    "beta2_decay": partial(require_number, low=-math.inf, upto=0.0),
    "d": partial(require_number, low=1.0),
    "alpha": partial(require_number, upto=1.0),
    "rho": partial(require_number, upto=1.0),
    "dampening": partial(require_number, low=-math.inf),
    **dict.fromkeys(("maximize", "nesterov", "amsgrad", "centered", "decoupled_weight_decay"), require_flag),
}
