"""Covariance and correlation matrices, dist and renorm."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import any_true, from_host, zeros
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import exact
from ..argument_checks import as_int, as_real, is_number, require_float, require_tensor
from ..dtypes.dtype import cast, default_dtype
from ..dtypes.promotion import floats, promoted_type
from ..pointwise.piecewise import where
from ..shape.broadcasting import broadcast_shape
from ..shape.shape import axis, reshape
from .norms import vector_norm_of

__all__ = ["corrcoef", "cov", "dist", "renorm"]


@operator(methods="cov", dtypes="bihf")
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """The covariance matrix (M, M) of M variables, the rows of input (M, N).

    A vector, a number or a single row gives the variance (). Integers and booleans become the default type.

    correction: subtracted from the number of observations N. fweights (N,): integers, how often each observation
    counts. aweights (N,): floating-point numbers or integers, the importance of each observation. A type wider than
    input's widens the result.

    Raises:
        TypeError: input is not a Tensor, or fweights does not contain integers.
        ValueError: input has more than 2 axes, or weights do not have the shape (N,) or are negative.
    """
    if interpreters and (seen := interpreted(cov, locals())) is not None:
        return seen
    require_tensor("cov", input)
    if input.array.ndim > 2:
        raise ValueError(f"cov: input.shape={input.array.shape} must have at most 2 axes")
    given = [y.array for y in (input, aweights) if isinstance(y, Tensor) and y.array.dtype.kind == "f"]
    x = cast(input, promoted_type(*given) if given else default_dtype())
    rows = reshape(x, 1, x.array.size) if x.array.ndim < 2 else x
    count = rows.array.shape[1]
    weights: Any = None
    for label, weight in (("fweights", fweights), ("aweights", aweights)):
        if weight is None:
            continue
        require_tensor("cov", weight, label)
        if not input.array.ndim and not weight.array.ndim:
            weight = reshape(weight, 1)
        if label == "fweights" and weight.array.dtype.kind not in "iu":
            raise TypeError(f"cov: fweights is {weight.array.dtype}, needs integers")
        if weight.array.shape != (count,) or _any_negative(weight.array):
            raise ValueError(f"cov: {label}.shape={weight.array.shape} must be ({count},), its elements at least 0")
        part = cast(weight, x.array.dtype)
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
    divisor = total if isinstance(total, Tensor) else wrap(from_host(total, x.array.dtype, like=x.array))
    found = found / divisor.clamp(min=0)
    return reshape(found, ()) if found.array.size == 1 else found


def _any_negative(weight: np.ndarray) -> bool:
    return any_true(exact("lt")(weight, zeros((), weight.dtype, like=weight)), "whether a weight is negative")


@operator(methods="corrcoef", dtypes="bif")
def corrcoef(input: Tensor) -> Tensor:
    """The matrix (M, M) of the correlations of M variables, the rows of input (M, N), from -1 to 1; see ``cov``.

    For a vector, a number or a single row it is 1, or NaN if the variance is 0 or NaN.

    Raises: as ``cov``.
    """
    if interpreters and (seen := interpreted(corrcoef, locals())) is not None:
        return seen
    require_tensor("corrcoef", input)
    found = cov(input)
    if not found.array.ndim:
        return found / found
    spread = found.diagonal().sqrt()
    return (found / spread.unsqueeze(1) / spread).clamp(-1, 1)


@operator(methods="dist")
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other over all elements; shapes broadcast.

    Raises:
        TypeError: neither operand is floating-point, or one is not a Tensor.
        ValueError: the shapes do not broadcast.
    """
    if interpreters and (seen := interpreted(dist, locals())) is not None:
        return seen
    x, y = floats("dist", input=input, other=other)
    broadcast_shape("dist", x.array.shape, y.array.shape)
    return vector_norm_of("dist", x - y, p, None, False, None)


@operator(methods="renorm", in_place=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Scale each slice of input along ``dim`` whose p-norm is above ``maxnorm`` down to that norm.

    Raises:
        TypeError: input is not a floating-point Tensor.
        ValueError: input has fewer than 2 axes, p is not above 0 or maxnorm is negative.
        IndexError: input has no axis ``dim``.
    """
    if interpreters and (seen := interpreted(renorm, locals())) is not None:
        return seen
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
