"""What the library computes for an explanation: results and gradients by both kernel sets, and numerical gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from ..engine.grad_mode import no_grad
from ..engine.sweep import grad
from ..engine.tensor import Tensor
from ..ops.kernel_set import active_kernels, use_kernels

__all__ = ["Arrays", "Call", "gradients", "numerical", "ulps"]

Arrays = dict[str, np.ndarray]
Call = Callable[..., Tensor]  # takes the Tensors of the inputs in their order


def gradients(call: Call, inputs: Mapping[str, np.ndarray], gy: np.ndarray | None, kernels: str) -> Arrays:
    """y, and the gradient of <gy, y> to each floating-point input as "g" and its name, with one kernel set.

    Without gy only y is computed.
    """
    with _set(kernels):
        tensors = {name: Tensor(array.copy(), requires_grad=array.dtype.kind == "f") for name, array in inputs.items()}
        y = call(*tensors.values())
        found = {"y": y.numpy(force=True).copy()}
        if gy is None:
            return found
        wanted = {name: tensor for name, tensor in tensors.items() if tensor.requires_grad}
        results = grad(y, [*wanted.values()], Tensor(gy.astype(y.array.dtype)), allow_unused=True)
        for (name, tensor), result in zip(wanted.items(), results, strict=True):
            found[f"g{name}"] = np.zeros_like(tensor.array) if result is None else result.array.copy()
    return found


def _set(kernels: str) -> AbstractContextManager[Any]:
    return nullcontext() if active_kernels() == kernels else use_kernels(kernels)


def numerical(
    call: Call, inputs: Mapping[str, np.ndarray], gy: np.ndarray, name: str, entries: np.ndarray, step: float
) -> np.ndarray:
    """The central differences of <gy, y> at some entries of one input, in float64:

        (L(v + step) - L(v - step)) / (2 step)     for each entry v, with L = sum gy * y
    """
    wide = {each: array.astype(np.float64) if array.dtype.kind == "f" else array for each, array in inputs.items()}
    values = wide[name] = np.array(wide[name], order="C")
    flat, upstream = values.reshape(-1), gy.astype(np.float64)

    def loss() -> float:
        return float((upstream * call(*map(Tensor, wide.values())).array).sum())

    found = np.empty(len(entries))
    with no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing is recorded is meant here
        for j, entry in enumerate(entries):
            before = flat[entry]
            flat[entry] = before + step
            above = loss()
            flat[entry] = before - step
            found[j] = (above - loss()) / (2 * step)
            flat[entry] = before
    return found


def ulps(a: np.ndarray, b: np.ndarray, least: float = 0.0) -> float:
    """The largest difference of two arrays in units of the last place of their largest entry; 0 if they are equal.

    least: the size of an entry whose units are taken at least
    """
    same = (a == b) | ((a != a) & (b != b))
    if same.all():
        return 0.0
    difference = float(np.abs(a.astype(np.float64) - b.astype(np.float64))[~same].max())
    largest = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0), a.dtype.type(least))
    return difference / float(np.spacing(largest))
