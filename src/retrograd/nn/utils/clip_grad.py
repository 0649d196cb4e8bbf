"""Gradient clipping, by norm or element by element."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator

import numpy as np

from ...arrays import from_host, number
from ...engine.aliasing import mark_changed
from ...engine.arguments import kind_name
from ...engine.tensor import Tensor, wrap
from ...formulas import optimizers
from ...kernel_set import kernels
from ...ops.argument_checks import as_list, as_real, as_truth, is_real
from ...ops.signatures import advised

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
]


@advised
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Multiply all gradients, in place, by min(1, max_norm / (norm + 1e-6)); return the old norm, a 0-d Tensor.

    The norm is that of one vector of all elements of all gradients: the norm_type-th root of the sum of their absolute
    values to the power norm_type, or the largest absolute value for inf. Parameters without a gradient are ignored.
    foreach: has no effect here.

    Raises:
        ValueError: max_norm is negative or not a number, or norm_type is not above 0.
        TypeError: one of the parameters is not a Tensor.
        RuntimeError: the norm is NaN or infinite and error_if_nonfinite is set; nothing is changed.
    """
    _check_max_norm("clip_grad_norm_", max_norm, foreach)
    arrays = _gradients("clip_grad_norm_", parameters)
    if (
        is_real(norm_type)
        and norm_type in (2, math.inf)
        and error_if_nonfinite is False
        and len(_by_dtype(arrays)) == 1
    ):
        found = kernels.norm_of_all(arrays, largest=norm_type == math.inf)  # no Python reads it: can be recorded
        kernels.limit_norm(arrays, found, float(max_norm))
        mark_changed(arrays, "clip_grad_norm_")
        return wrap(kernels.cast(found, arrays[0].dtype))
    norm = _total("clip_grad_norm_", arrays, norm_type, error_if_nonfinite)
    _scale_down("clip_grad_norm_", arrays, max_norm, norm)
    return _as_tensor(norm, arrays)


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """``clip_grad_norm_`` under its old name, with a FutureWarning."""
    warnings.warn("nn.utils.clip_grad_norm is now deprecated in favor of clip_grad_norm_.", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the norm of all elements of the tensors as one vector, a 0-d Tensor; see ``clip_grad_norm_``.

    Raises:
        ValueError: norm_type is not above 0.
        TypeError: one of the tensors is not a Tensor.
        RuntimeError: the norm is NaN or infinite and error_if_nonfinite is set.
    """
    _check_max_norm("get_total_norm", 0, foreach)
    arrays = [x.array for x in _all_tensors("get_total_norm", "tensors", tensors)]
    return _as_tensor(_total("get_total_norm", arrays, norm_type, error_if_nonfinite), arrays)


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply all gradients, in place, by min(1, max_norm / (total_norm + 1e-6)).

    Raises:
        ValueError: max_norm is negative or not a number.
        TypeError: one of the parameters is not a Tensor.
    """
    _check_max_norm("clip_grads_with_norm_", max_norm, foreach)
    norm = as_real("clip_grads_with_norm_", "total_norm", total_norm)
    _scale_down("clip_grads_with_norm_", _gradients("clip_grads_with_norm_", parameters), max_norm, norm)


def _check_max_norm(name: str, max_norm: float, foreach: bool | None) -> None:
    if not is_real(max_norm) or not as_real(name, "max_norm", max_norm) >= 0:
        raise ValueError(f"{name}: max_norm={max_norm!r} must be a number of at least 0")
    if foreach is not None:
        as_truth(name, "foreach", foreach)


def _total(name: str, arrays: list[np.ndarray], norm_type: float, error_if_nonfinite: bool) -> float:
    if not is_real(norm_type) or not as_real(name, "norm_type", norm_type) > 0:
        raise ValueError(f"{name}: norm_type={norm_type!r} must be a number above 0, or inf")
    error_if_nonfinite = as_truth(name, "error_if_nonfinite", error_if_nonfinite)
    norm = _norm([_norm_of(group, float(norm_type)) for group in _by_dtype(arrays)], float(norm_type))
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError(
            f"{name}: the norm of the gradients is {norm}; find the non-finite gradient, or pass "
            "error_if_nonfinite=False"
        )
    return norm


def _scale_down(name: str, arrays: list[np.ndarray], max_norm: float, norm: float) -> None:
    factor = max_norm / (norm + 1e-6)
    if not factor >= 1:  # NaN propagates into the gradients
        for group in _by_dtype(arrays):
            kernels.update(optimizers.limit, group, factor=float(factor), most=math.inf)
        mark_changed(arrays, name)


def _as_tensor(norm: float, arrays: list[np.ndarray]) -> Tensor:
    dtype = max((array.dtype for array in arrays), key=lambda dtype: dtype.itemsize, default=np.dtype(np.float32))
    return Tensor(from_host(norm, dtype))


@advised
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clip every element of every gradient, in place, to [-clip_value, clip_value]. NaN stays NaN.

    foreach: has no effect here.

    Raises:
        ValueError: clip_value is negative or not a number.
        TypeError: one of the parameters is not a Tensor.
    """
    if not is_real(clip_value) or not clip_value >= 0:
        raise ValueError(f"clip_grad_value_: clip_value={clip_value!r} must be a number of at least 0")
    if foreach is not None:
        as_truth("clip_grad_value_", "foreach", foreach)
    arrays = _gradients("clip_grad_value_", parameters)
    for group in _by_dtype(arrays):
        kernels.update(optimizers.limit, group, factor=1.0, most=float(clip_value))
    mark_changed(arrays, "clip_grad_value_")


def _gradients(name: str, parameters: Tensor | Iterable[Tensor]) -> list[np.ndarray]:
    """Return the arrays of the gradients; a shared one only once, a read-only one replaced by a copy."""
    unique: dict[int, np.ndarray] = {}
    for parameter in _all_tensors(name, "parameters", parameters):
        gradient = parameter.grad
        if gradient is not None:
            if not gradient.array.flags.writeable:
                gradient.array = kernels.duplicate(gradient.array)
            unique[id(gradient.array)] = gradient.array
    return list(unique.values())


def _all_tensors(name: str, label: str, tensors: Tensor | Iterable[Tensor]) -> Iterator[Tensor]:
    if callable(getattr(tensors, "parameters", None)):
        raise TypeError(f"{name}: {label} is {kind_name(tensors)}, expected Tensors; pass model.parameters()")
    found = [tensors] if isinstance(tensors, Tensor) else as_list(name, label, tensors, "Tensors")
    for position, tensor in enumerate(found):
        if not isinstance(tensor, Tensor):
            hint = "; pass model.parameters()" if hasattr(tensor, "parameters") or isinstance(tensor, str) else ""
            raise TypeError(f"{name}: {label}[{position}] is {kind_name(tensor)}, expected a Tensor{hint}")
        yield tensor


def _by_dtype(arrays: list[np.ndarray]) -> list[list[np.ndarray]]:
    kinds: dict[np.dtype, list[np.ndarray]] = {}
    for array in arrays:
        kinds.setdefault(array.dtype, []).append(array)
    return list(kinds.values())


def _norm_of(arrays: list[np.ndarray], order: float) -> float:
    if order in (2, math.inf):
        return float(number(kernels.norm_of_all(arrays, largest=order == math.inf), "a norm"))
    return kernels.power_norm_of_all(arrays, order)


def _norm(norms: list[float], order: float) -> float:
    """Return the norm of a vector from the norms of its parts."""
    if len(norms) <= 1:
        return norms[0] if norms else 0.0
    return kernels.combined_norm(from_host(norms, np.float64), order)
