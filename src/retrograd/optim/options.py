"""The options of an optimiser: what its arguments hold, and the checks of their values."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..entries import brief

__all__: list[str] = []


def options(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options among the arguments of an optimiser, which are the local variables of its __init__."""
    return {name: value for name, value in arguments.items() if name not in ("self", "params", "__class__")}


def as_number(option: Any) -> Any:
    """An option with Tensors of one element, alone or in a list, converted to numbers; anything else unchanged."""
    if isinstance(option, Tensor) and option.array.size == 1:
        return option.item()
    return tuple(map(as_number, option)) if isinstance(option, (tuple, list)) else option


def require_number(
    name: str, value: Any, low: float = 0.0, below: float = math.inf, upto: float = sys.float_info.max
) -> None:
    """Raise ValueError unless value is a number with low <= value < below and value <= upto (not NaN)."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.number))
        or not (low <= value < below and value <= upto)
    ):
        limit = f"below {below}" if below < math.inf else f"at most {upto}" if upto < sys.float_info.max else "finite"
        raise ValueError(f"{name}={brief(value)} is invalid; it must be a number of at least {low} and {limit}")


def require_betas(name: str, betas: Any) -> None:
    """Raise ValueError unless betas are two numbers in [0, 1)."""
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ValueError(f"{name}={betas!r} is invalid; it must be two numbers")
    for position, beta in enumerate(betas):
        require_number(f"{name}[{position}]", beta, below=1.0)


def require_flag(name: str, value: Any) -> None:
    """Raise ValueError unless value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={value!r} is invalid; it must be True or False")


_NUMBERS = ("lr", "eps", "weight_decay", "momentum", "momentum_decay", "lr_decay", "initial_accumulator_value")
CHECKS: dict[str, Callable[[str, Any], None]] = {  # of options
    **dict.fromkeys(_NUMBERS, require_number),
    "betas": require_betas,
    "alpha": partial(require_number, upto=1.0),
    "rho": partial(require_number, upto=1.0),
    "dampening": partial(require_number, low=-math.inf),
    **dict.fromkeys(("maximize", "nesterov", "amsgrad", "centered", "decoupled_weight_decay"), require_flag),
}
