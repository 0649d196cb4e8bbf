"""Clipping of gradients, by their norm or element by element."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...engine.changes import mark
from ...engine.tensor import Tensor
from ...formulas import optimizers
from ...ops.dtype import as_flag
from ...ops.kernel_set import kernels

__all__ = ["clip_grad_norm_", "clip_grad_value_"]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Multiply all gradients, in place, by min(1, max_norm / (norm + 1e-6)); return the old norm, a 0-d Tensor.

    The norm is that of one vector of all elements of all gradients: the norm_type-th root of the sum of their absolute
    values to the power norm_type, or the largest absolute value for inf. Parameters without a gradient do not count.

    Raises:
        ValueError: max_norm is negative or not a number, or norm_type is not above 0.
        TypeError: one of the parameters is not a Tensor.
        RuntimeError: the norm is NaN or infinite and error_if_nonfinite is set; nothing is changed.
    """
    if not _is_number(max_norm) or not max_norm >= 0:
        raise ValueError(f"clip_grad_norm_: max_norm={max_norm!r} must be a number of at least 0")
    if not _is_number(norm_type) or not norm_type > 0:
        raise ValueError(f"clip_grad_norm_: norm_type={norm_type!r} must be a number above 0, or inf")
    error_if_nonfinite = as_flag("clip_grad_norm_", "error_if_nonfinite", error_if_nonfinite)
    arrays = _gradients("clip_grad_norm_", parameters)
    norm = _norm([_norm_of(group, float(norm_type)) for group in _by_dtype(arrays)], float(norm_type))
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError(
            f"clip_grad_norm_: the norm of the gradients is {norm}; find the non-finite gradient, "
            "or pass error_if_nonfinite=False"
        )
    factor = max_norm / (norm + 1e-6)
    if not factor >= 1:  # NaN propagates into the gradients
        for group in _by_dtype(arrays):
            kernels.update(optimizers.limit, group, factor=float(factor), most=math.inf)
        mark(arrays, "clip_grad_norm_")
    dtype = max((array.dtype for array in arrays), key=lambda dtype: dtype.itemsize, default=np.dtype(np.float32))
    return Tensor(np.array(norm, dtype))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip every element of every gradient, in place, to [-clip_value, clip_value]. NaN stays NaN.

    Raises:
        ValueError: clip_value is negative or not a number.
        TypeError: one of the parameters is not a Tensor.
    """
    if not _is_number(clip_value) or not clip_value >= 0:
        raise ValueError(f"clip_grad_value_: clip_value={clip_value!r} must be a number of at least 0")
    arrays = _gradients("clip_grad_value_", parameters)
    for group in _by_dtype(arrays):
        kernels.update(optimizers.limit, group, factor=1.0, most=float(clip_value))
    mark(arrays, "clip_grad_value_")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _gradients(name: str, parameters: Tensor | Iterable[Tensor]) -> list[np.ndarray]:
    """The arrays of the gradients; a shared one only once, a read-only one replaced by a copy."""
    unique: dict[int, np.ndarray] = {}
    for position, parameter in enumerate([parameters] if isinstance(parameters, Tensor) else parameters):
        if not isinstance(parameter, Tensor):
            raise TypeError(f"{name}: parameters[{position}] is {type(parameter).__name__}, expected a Tensor")
        gradient = parameter.grad
        if gradient is not None:
            if not gradient.array.flags.writeable:
                gradient.array = gradient.array.copy(order="K")
            unique[id(gradient.array)] = gradient.array
    return list(unique.values())


def _by_dtype(arrays: list[np.ndarray]) -> list[list[np.ndarray]]:
    kinds: dict[np.dtype, list[np.ndarray]] = {}
    for array in arrays:
        kinds.setdefault(array.dtype, []).append(array)
    return list(kinds.values())


def _norm_of(arrays: list[np.ndarray], order: float) -> float:
    if order in (2, math.inf):
        return float(kernels.norm_of_all(arrays, largest=order == math.inf))
    with np.errstate(all="ignore"):
        total = sum(float((np.abs(array) ** order).sum(dtype=np.float64)) for array in arrays)
        return float(np.float64(total) ** (1 / order))


def _norm(norms: list[float], order: float) -> float:
    """The norm of a vector from those of its parts."""
    if len(norms) <= 1:
        return norms[0] if norms else 0.0
    if order == math.inf:
        return float(np.max(norms))
    with np.errstate(all="ignore"):
        return float(np.sum(np.array(norms) ** order) ** (1 / order))
