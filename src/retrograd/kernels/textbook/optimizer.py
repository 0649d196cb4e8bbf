"""Optimizers' updates: the formulas, run on the arrays themselves, which are changed in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .ieee import ieee

__all__ = [
    "adafactor_update",
    "add_scaled",
    "clip_in_place",
    "combined_norm",
    "curvature_pair",
    "limit_norm",
    "norm_of_all",
    "power_norm_of_all",
    "scale_in_place",
    "update",
    "weighted_average",
]

Arrays = Sequence[np.ndarray]


@ieee
def update(formula: Callable[..., Any], *columns: Arrays, keep: dict[str, Any] | None = None, **numbers: float) -> None:
    """Run an optimizer's update over lists of arrays: parameters, gradients and, for each state, a list.

    The results overwrite parameters and states; an update of one list overwrites it. ``keep`` is unused here; the
    compiled set caches in it what it finds out about the arrays.
    """
    for arrays in zip(*columns, strict=True):
        results = formula(*arrays, **numbers)
        changed = arrays[:1] + arrays[2:]
        for array, result in zip(changed, results if isinstance(results, tuple) else (results,), strict=True):
            array[...] = result


@ieee
def norm_of_all(arrays: Arrays, *, largest: bool) -> np.ndarray:
    """The Euclidean norm of all elements of all arrays, or the largest absolute value; NaN if one of them is NaN."""
    found: Any = np.float64(0)
    for x in arrays:
        found = np.maximum(found, np.abs(x).max(initial=0)) if largest else found + np.square(x).sum(dtype=np.float64)
    return found if largest else np.sqrt(found)


@ieee
def limit_norm(arrays: Arrays, norm: np.ndarray, most: float) -> None:
    """x = min(1, most / (norm + 1e-6)) x in place, unless the factor is 1; NaN propagates"""
    factor = most / (norm.item() + 1e-6)
    if not factor >= 1:
        for x in arrays:
            x *= factor


@ieee
def clip_in_place(y: np.ndarray, low: float, high: float) -> None:
    """y = min(max(y, low), high) in place"""
    np.clip(y, low, high, out=y)


@ieee
def scale_in_place(y: np.ndarray, factor: float) -> None:
    """y = factor y in place"""
    y *= factor


@ieee
def add_scaled(y: np.ndarray, x: np.ndarray, factor: float) -> None:
    """y = y + factor x in place, of one shape and type"""
    y += factor * x


@ieee
def weighted_average(y: np.ndarray, x: np.ndarray, weight: float) -> None:
    """y = (1 - weight) y + weight x in place; integers are truncated"""
    y[...] = y * (1 - weight) + x * weight


@ieee
def curvature_pair(
    g: np.ndarray, previous: np.ndarray, direction: np.ndarray, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """The curvature pair of L-BFGS: y = g - previous, the gradient's change, and s = step * direction, the update"""
    return g - previous, direction * g.dtype.type(step)


@ieee
def adafactor_update(
    columns: Arrays,
    step: int,
    lr: float,
    beta2_decay: float,
    least: float,
    floor: float,
    d: float,
    weight_decay: float,
    maximize: bool,
) -> None:
    """Adafactor's update of one parameter, in place; ``optim.Adafactor`` states the formulas.

    columns: parameter and gradient (*S, m, n), and the mean squares of rows (*S, m, 1) and of columns (*S, 1, n); or
    parameter and gradient (n,) or (), and the mean squares in the same shape. least and floor are eps there.
    """
    p, g, *states = columns
    if maximize:
        g = -g
    size = max(floor, _root_mean_square(p)) * min(lr, step**-0.5)
    if weight_decay:
        p *= 1 - lr * weight_decay
    weight, squares = step**beta2_decay, g * g
    if len(states) == 2:
        rows, along = states
        rows += weight * (squares.mean(-1, keepdims=True) - rows)
        along += weight * (squares.mean(-2, keepdims=True) - along)
        variance = rows * along / np.maximum(rows.mean(-2, keepdims=True), least)
    else:
        (variance,) = states
        variance += weight * (squares - variance)
    update = g / np.sqrt(np.maximum(variance, least * least))
    p -= size / max(1.0, _root_mean_square(update) / d) * update


def _root_mean_square(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x), dtype=np.float64))) if x.size else 0.0


@ieee
def power_norm_of_all(arrays: Arrays, order: float) -> float:
    """(sum |x|**order)**(1 / order) over all elements of all arrays."""
    total = sum(float((np.abs(x) ** order).sum(dtype=np.float64)) for x in arrays)
    return float(np.float64(total) ** (1 / order))


@ieee
def combined_norm(norms: np.ndarray, order: float) -> float:
    """The norm of a vector from the norms (n,) of its parts; the largest of them for an infinite order."""
    return float(np.max(norms)) if order == np.inf else float(np.sum(norms**order) ** (1 / order))
