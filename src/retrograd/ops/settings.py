"""Global settings under PyTorch's names: the default dtype, and settings with only one value here."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..engine.dtype import default_dtype, set_default
from ..engine.printing import set_printoptions as set_printoptions
from .argument_checks import as_flag, as_int
from .dtypes.conversion import named_type
from .dtypes.dtype import as_dtype, float32, float64

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_default_dtype",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_printoptions",
    "use_deterministic_algorithms",
]

_PRECISIONS = ("highest", "high", "medium")
_MODES = ("default", "warn", "error")
_state = {"precision": "highest", "deterministic": "default"}


def get_default_dtype() -> np.dtype[Any]:
    """Return the type of new floating-point tensors: float32 unless changed with ``set_default_dtype``."""
    return default_dtype()


def set_default_dtype(d: Any) -> None:
    """Set the default type, float32 or float64, of Python floats in tensors, of new tensors and of new layers.

    NumPy arrays keep their type.

    Raises:
        TypeError: it is neither of these.
    """
    kind = as_dtype(d)
    if kind not in (float32, float64):
        raise TypeError(f"set_default_dtype: d={kind} must be float32 or float64")
    set_default(kind)


def set_default_tensor_type(t: Any) -> None:
    """Set the default type by a class such as retrograd.DoubleTensor, or its name; deprecated in PyTorch.

    Raises:
        TypeError: it is not float32 or float64.
    """
    warnings.warn(
        "set_default_tensor_type() is deprecated as of PyTorch 2.1, please use set_default_dtype() and "
        "set_default_device() as alternatives",
        UserWarning,
        stacklevel=2,
    )
    set_default_dtype(named_type("set_default_tensor_type", t))


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accept either mode, without effect: the same program always gives the same bits."""
    name = "use_deterministic_algorithms"
    mode, warn_only = as_flag(name, "mode", mode), as_flag(name, "warn_only", warn_only)
    _state["deterministic"] = "default" if not mode else "warn" if warn_only else "error"


def are_deterministic_algorithms_enabled() -> bool:
    """Return True if ``use_deterministic_algorithms`` is on, that is, if the debug mode is not "default"."""
    return _state["deterministic"] != "default"


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return True if ``use_deterministic_algorithms`` was called with ``warn_only``."""
    return _state["deterministic"] == "warn"


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the mode of ``use_deterministic_algorithms``: 0, 1, 2 or "default", "warn", "error".

    Raises:
        RuntimeError: it is none of these.
    """
    known = dict(enumerate(_MODES)) | {mode: mode for mode in _MODES}
    if isinstance(debug_mode, bool) or debug_mode not in known:
        raise RuntimeError(f"set_deterministic_debug_mode: debug_mode={debug_mode!r}; choose 0, 1, 2 or {_MODES}")
    _state["deterministic"] = known[debug_mode]


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2, see ``set_deterministic_debug_mode``."""
    return _MODES.index(_state["deterministic"])


def set_float32_matmul_precision(precision: str) -> None:
    """Accept "highest", "high" or "medium", the least precision allowed; products are always computed in float32.

    Raises:
        ValueError: it is none of these.
    """
    if precision not in _PRECISIONS:
        raise ValueError(f"set_float32_matmul_precision: precision={precision!r}; choose one of {_PRECISIONS}")
    _state["precision"] = precision


def get_float32_matmul_precision() -> str:
    """Return the setting of ``set_float32_matmul_precision``: "highest" unless changed."""
    return _state["precision"]


def set_flush_denormal(mode: bool) -> bool:
    """Return False: denormal numbers are never flushed to zero, and that cannot be changed."""
    as_flag("set_flush_denormal", "mode", mode)
    return False


def set_num_interop_threads(threads: int) -> None:
    """Accept a positive number, without effect: operators run one at a time, each on ``get_num_threads()`` threads.

    Raises:
        RuntimeError: it is not positive.
    """
    if as_int("set_num_interop_threads", "threads", threads) < 1:
        raise RuntimeError(f"set_num_interop_threads: threads={threads} must be at least 1")


def get_num_interop_threads() -> int:
    """Return 1: operators run one at a time."""
    return 1
