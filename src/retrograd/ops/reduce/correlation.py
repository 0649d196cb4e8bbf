"""Covariances and correlations of variables, distances, and slices of a limited norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.tensor import Tensor, wrap
from ..arguments.checks import as_int, as_real, is_number, require_float, require_tensor
from ..dtypes.dtype import cast
from ..dtypes.promotion import floats
from ..pointwise.piecewise import where
from ..shape.broadcasting import broadcast_shape
from ..shape.shape import axis, reshape
from .norms import vector_norm_of

__all__ = ["corrcoef", "cov", "dist", "renorm"]


def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance matrix (M, M) of M variables, the rows of input (M, N); the variance of a vector or number.

    correction: what is subtracted from the number of observations N. fweights (N,): how often each observation counts,
    int64. aweights (N,): how important it is.

    Raises:
        TypeError: input is not a Tensor, or fweights does not hold int64.
        ValueError: input has more than 2 axes, or weights do not have the shape (N,) or are negative.
    """
    require_tensor("cov", input)
    if input.array.ndim > 2:
        raise ValueError(f"cov: input.shape={input.array.shape} must have at most 2 axes")
    x = input if input.array.dtype.kind == "f" else cast(input, np.dtype(np.float32))
    rows = reshape(x, 1, x.array.size) if x.array.ndim < 2 else x
    count = rows.array.shape[1]
    weights: Any = None
    for label, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        require_tensor("cov", given, label)
        if label == "fweights" and given.array.dtype.kind not in "iu":
            raise TypeError(f"cov: fweights is {given.array.dtype}, needs integers")
        if given.array.shape != (count,) or (given.array < 0).any():
            raise ValueError(f"cov: {label}.shape={given.array.shape} must be ({count},), its elements at least 0")
        part = cast(given, x.array.dtype)
        weights = part if weights is None else weights * part
    correction = as_int("cov", "correction", correction)
    if weights is None:
        apart = rows - rows.mean(1, True)
        total: Any = count - correction
        found = apart @ apart.transpose(0, 1)
    else:
        norm = weights.sum()
        apart = rows - (rows * weights).sum(1, True) / norm
        found = (apart * weights) @ apart.transpose(0, 1)
        total = norm - correction
        if aweights is not None:
            total = norm - correction * (weights * cast(aweights, x.array.dtype)).sum() / norm
    divisor = total if isinstance(total, Tensor) else wrap(np.asarray(total, x.array.dtype))
    found = found / divisor.clamp(min=0)
    return found if input.array.ndim == 2 else reshape(found, ())


def corrcoef(input: Tensor) -> Tensor:
    """The matrix (M, M) of the correlations of M variables, the rows of input (M, N), from -1 to 1; see ``cov``.

    Raises: as ``cov``.
    """
    require_tensor("corrcoef", input)
    found = cov(input)
    if not found.array.ndim:
        return found / found
    spread = found.diagonal().sqrt()
    return (found / spread.unsqueeze(1) / spread).clamp(-1, 1)


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other over all elements; shapes broadcast.

    Raises:
        TypeError: neither operand is floating-point, or one is not a Tensor.
        ValueError: the shapes do not broadcast.
    """
    x, y = floats("dist", input=input, other=other)
    broadcast_shape("dist", x.array.shape, y.array.shape)
    return vector_norm_of("dist", x - y, p, None, False, None)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """input with each slice along ``dim`` whose p-norm is above ``maxnorm`` scaled to that norm.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: input has fewer than 2 axes, p is not above 0 or maxnorm is negative.
        IndexError: input has no axis ``dim``.
    """
    require_float("renorm", input)
    if input.array.ndim < 2:
        raise ValueError(f"renorm: input.shape={input.array.shape} needs at least 2 axes")
    for label, value in (("p", p), ("maxnorm", maxnorm)):
        if not is_number(value) or not value >= 0 or (label == "p" and not value):
            least = "above 0" if label == "p" else "of at least 0"
            raise ValueError(f"renorm: {label}={value!r} must be a number {least}")
    kept = axis("renorm", "dim", dim, input.array.ndim)
    over = tuple(i for i in range(input.array.ndim) if i != kept)
    norms = vector_norm_of("renorm", input, p, over, True, None)
    most = as_real("renorm", "maxnorm", maxnorm)
    return input * where(norms > most, most / (norms + 1e-7), 1.0)
