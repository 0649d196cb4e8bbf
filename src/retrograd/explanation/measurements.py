"""Results, gradients and curves measured by running a call, as arrays and as JSON numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.backward_pass import grad
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..kernel_set import active_kernels, use_kernels

__all__ = ["Arrays", "Call", "Curve", "gradients", "jacobians", "lines", "number", "numbers", "numerical", "ulps"]


# ---- Arrays as lists of JSON numbers --------------------------------------------------------------------------------


def numbers(values: np.ndarray) -> list[Any]:
    """Return the entries as JSON numbers; "NaN", "Infinity" and "-Infinity" as strings."""
    flat: list[Any] = values.ravel().tolist()
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return [number(each) for each in flat]
    return flat


def number(value: float) -> Any:
    """Return the value as a number, or as one of these strings."""
    return value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]


# ---- Measurements for an explanation --------------------------------------------------------------------------------

_MOST_RESULTS = 4096
_MOST_ENTRIES = 1 << 20  # of one Jacobian

Arrays = dict[str, np.ndarray]
Call = Callable[..., Tensor]  # takes the Tensors of the inputs in order


def gradients(call: Call, inputs: Mapping[str, np.ndarray], gy: np.ndarray | None, kernels: str) -> Arrays:
    """Return y, and the gradient of <gy, y> to each floating-point input under "g" and its name, with one kernel set.

    Without gy, compute only y.
    """
    with _set(kernels):
        tensors = {name: Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for name, array in inputs.items()}
        y = call(*tensors.values())
        found = {"y": y.numpy(force=True).copy()}
        if gy is None:
            return found
        differentiated = {name: tensor for name, tensor in tensors.items() if tensor.requires_grad}
        results = grad(y, [*differentiated.values()], Tensor(gy.astype(y.array.dtype)), allow_unused=True)
        for (name, tensor), result in zip(differentiated.items(), results, strict=True):
            found[f"g{name}"] = np.zeros_like(tensor.array) if result is None else result.array.copy()
    return found


def jacobians(name: str, call: Call, inputs: Mapping[str, np.ndarray]) -> tuple[Tensor, Arrays]:
    """Return the result and its Jacobian for each floating-point input, computed by the backward: (results, entries).

    Raises:
        TypeError: the result is not a Tensor.
        ValueError: the result does not depend on an input, or there are too many entries.
    """
    tensors = {each: Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for each, array in inputs.items()}
    y = call(*tensors.values())
    if not isinstance(y, Tensor):
        raise TypeError(f"explain: {name} returns {type(y).__name__}, needs one Tensor; choose one with a lambda")
    if not y.requires_grad:
        raise ValueError(f"explain: the result of {name} has no gradient to any input; give floating-point arrays")
    differentiated = {each: tensor for each, tensor in tensors.items() if tensor.requires_grad}
    results, entries = y.array.size, max(tensor.array.size for tensor in differentiated.values())
    if results > _MOST_RESULTS or results * entries > _MOST_ENTRIES:
        raise ValueError(
            f"explain: {name} has {results} results for up to {entries} entries; its gradient can be explained for at "
            f"most {_MOST_RESULTS} results and {_MOST_ENTRIES} pairs; give smaller inputs"
        )
    matrices = {
        each: np.zeros((results, tensor.array.size), tensor.array.dtype) for each, tensor in differentiated.items()
    }
    upstream = np.zeros_like(y.array, order="C")
    flat = upstream.reshape(-1)
    for o in range(results):
        flat[o] = 1
        found = grad(y, [*differentiated.values()], Tensor(upstream.copy()), retain_graph=True, allow_unused=True)
        flat[o] = 0
        for each, gradient in zip(differentiated, found, strict=True):
            if gradient is not None:
                matrices[each][o] = gradient.array.ravel()
    return y, matrices


def _set(kernels: str) -> AbstractContextManager[Any]:
    return nullcontext() if active_kernels() == kernels else use_kernels(kernels)


def numerical(
    call: Call, inputs: Mapping[str, np.ndarray], gy: np.ndarray, name: str, entries: np.ndarray, step: float
) -> np.ndarray:
    """Return the central differences of <gy, y> at some entries of one input, in float64:

    (L(v + step) - L(v - step)) / (2 step)     for each entry v, with L = sum gy * y
    """
    wide = {each: array.astype(np.float64) if array.dtype.kind == "f" else array for each, array in inputs.items()}
    values = wide[name] = np.array(wide[name], order="C")
    flat, upstream = values.reshape(-1), gy.astype(np.float64)

    def loss() -> float:
        return float((upstream * call(*map(Tensor, wide.values())).array).sum())

    found = np.empty(len(entries))
    with no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ignores the warning that nothing is recorded, which is intended here
        for j, entry in enumerate(entries):
            before = flat[entry]
            flat[entry] = before + step
            above = loss()
            flat[entry] = before - step
            found[j] = (above - loss()) / (2 * step)
            flat[entry] = before
    return found


def ulps(a: np.ndarray, b: np.ndarray, least: float = 0.0) -> float:
    """Return the largest difference of two arrays in units of the last place of their largest entry; 0 if equal.

    least: the smallest magnitude used for the unit
    """
    same = (a == b) | ((a != a) & (b != b))
    if same.all():
        return 0.0
    difference = float(np.abs(a.astype(np.float64) - b.astype(np.float64))[~same].max())
    largest = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0), a.dtype.type(least))
    return difference / float(np.spacing(largest))


# ---- Curves of elementwise functions ------------------------------------------------------------------------------

_POINTS = 240
_STEP = 1e-6


@dataclass(frozen=True)
class Curve:
    """An elementwise function of one Tensor, (1, n) in and out, and the range that is drawn."""

    call: Call
    low: float
    high: float


def lines(curve: Curve, name: str) -> dict[str, Any]:
    """``{"x": [...], "lines": [{"name", "kind": "function" | "derivative" | "declared", "values": [...]}, ...]}``

    The points are the centers of equal pieces of the range, which avoid kinks at round numbers. A function of a whole
    Tensor, such as a quantizer whose step depends on the largest weight, sees all points and their neighbors together.

    Raises:
        ValueError: the function changes the shape.
    """
    at = curve.low + (np.arange(_POINTS) + 0.5) * ((curve.high - curve.low) / _POINTS)
    x = Tensor(np.concatenate([at, at + _STEP, at - _STEP])[np.newaxis], requires_grad=True)
    y = curve.call(x)
    if y.array.shape != x.array.shape:
        raise ValueError(f"curve: {name} maps the shape {x.array.shape} to {y.array.shape}; it is not elementwise")
    value, above, below = y.numpy(force=True).reshape(3, _POINTS)
    upstream = np.zeros_like(y.array)
    upstream[0, :_POINTS] = 1
    (declared,) = grad(y, [x], Tensor(upstream), allow_unused=True, materialize_grads=True)
    found = {
        "function": (name, value),
        "derivative": ("derivative", (above - below) / (2 * _STEP)),
        "declared": ("declared", declared.array[0, :_POINTS]),
    }
    return {
        "x": at.tolist(),
        "lines": [{"name": text, "kind": kind, "values": values} for kind, (text, values) in found.items()],
    }
