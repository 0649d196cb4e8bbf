"""Normal distributions: Normal, HalfNormal, LogNormal and MultivariateNormal."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ..arrays import eye
from ..engine.tensor import Tensor, wrap
from ..ops.argument_checks import require_float
from ..ops.linalg.decompositions import cholesky
from ..ops.linalg.solving import inv, solve_triangular, transposed
from ..ops.special import ndtr, ndtri, normal_log_density
from . import constraints
from .composite import TransformedDistribution
from .distribution import Distribution, broadcast_all, standard_normal
from .location_scale import LocationScale
from .transforms import ExpTransform

__all__ = ["HalfNormal", "LogNormal", "MultivariateNormal", "Normal"]


# ---- The normal distribution ----------------------------------------------------------------------------------------

_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


class Normal(LocationScale):
    """The normal distribution with mean ``loc`` and standard deviation ``scale``: Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    @property
    def mean(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """scale"""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """scale**2"""
        return self.scale * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * a standard normal number"""
        return self.loc + self.scale * standard_normal(self._extended_shape(sample_shape), self.loc)

    def log_prob(self, value: Tensor) -> Tensor:
        """-(value - loc)**2 / (2 scale**2) - log(scale) - log(2 pi) / 2"""
        self._validate_sample(value)
        return normal_log_density(value, self.loc, self.scale)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to ``value``."""
        self._validate_sample(value)
        return ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability."""
        return self.loc + self.scale * ndtri(value)

    def entropy(self) -> Tensor:
        """1/2 + log(2 pi) / 2 + log(scale)"""
        return self.scale.log() + (0.5 + _HALF_LOG_TAU)


# ---- The distribution of the absolute value of a normal variable ----------------------------------------------------


class HalfNormal(Distribution):
    """The absolute value of a normal variable with mean 0 and standard deviation ``scale``.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive.
    """

    scale: Tensor

    arg_constraints: ClassVar[dict[str, Any]] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.array.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """scale sqrt(2 / pi)"""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """0"""
        return self.scale * 0

    @property
    def variance(self) -> Tensor:
        """scale**2 (1 - 2 / pi)"""
        return self.scale * self.scale * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """|scale * a standard normal number|"""
        return (self.scale * standard_normal(self._extended_shape(sample_shape), self.scale)).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        """log(2) plus the logarithm of the normal density; -inf below 0"""
        self._validate_sample(value)
        z = value / self.scale
        found = z * z * -0.5 - self.scale.log() + 0.5 * math.log(2 / math.pi)
        return found.masked_fill(value < 0, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """erf(value / (scale sqrt(2)))"""
        self._validate_sample(value)
        return (value / self.scale * math.sqrt(0.5)).erf()

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability."""
        return self.scale * ndtri((value + 1) * 0.5)

    def entropy(self) -> Tensor:
        """(log(pi / 2) + 1) / 2 + log(scale)"""
        return self.scale.log() + 0.5 * (math.log(math.pi / 2) + 1)


# ---- The distribution of the exponential of a normal variable -------------------------------------------------------


class LogNormal(TransformedDistribution):
    """exp(x) of a normal x with mean ``loc`` and standard deviation ``scale``: Tensors or numbers, broadcast.

    validate_args: whether parameters and values are checked

    Raises:
        ValueError: scale is not positive, or the shapes do not broadcast.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the normal variable."""
        return self.base_dist.loc  # type: ignore[attr-defined]

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the normal variable."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mean(self) -> Tensor:
        """exp(loc + scale**2 / 2)"""
        return (self.loc + self.scale * self.scale * 0.5).exp()

    @property
    def mode(self) -> Tensor:
        """exp(loc - scale**2)"""
        return (self.loc - self.scale * self.scale).exp()

    @property
    def variance(self) -> Tensor:
        """(exp(scale**2) - 1) exp(2 loc + scale**2)"""
        square = self.scale * self.scale
        return square.expm1() * (self.loc * 2 + square).exp()

    def entropy(self) -> Tensor:
        """The entropy of the normal variable, plus loc."""
        return self.base_dist.entropy() + self.loc


# ---- The normal distribution of vectors -----------------------------------------------------------------------------


class MultivariateNormal(Distribution):
    """The normal distribution of vectors with mean ``loc`` (..., N); pass exactly one of these matrices (..., N, N):

    covariance_matrix: symmetric positive definite
    precision_matrix: its inverse
    scale_tril: the lower triangular Cholesky factor L of the covariance matrix L LT, with a positive diagonal
    validate_args: whether parameters and values are checked

    Raises:
        ValueError: not exactly one matrix is given, the shapes do not match, or a matrix violates its constraint.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        matrices = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = {label: matrix for label, matrix in matrices.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError(f"MultivariateNormal: give one of {', '.join(matrices)}, not {len(given)} of them")
        ((self._given, matrix),) = given.items()
        require_float("MultivariateNormal", loc, "loc")
        require_float("MultivariateNormal", matrix, self._given)
        n = loc.array.shape[-1] if loc.array.ndim else 0
        if loc.array.ndim < 1 or matrix.array.ndim < 2 or matrix.array.shape[-2:] != (n, n):
            raise ValueError(
                f"MultivariateNormal: loc.shape={loc.array.shape} and {self._given}.shape={matrix.array.shape} must be "
                "(..., N) and (..., N, N)"
            )
        batch = np.broadcast_shapes(loc.array.shape[:-1], matrix.array.shape[:-2])
        self.loc: Tensor = loc.expand((*batch, n))
        self.__dict__[self._given] = matrix.expand((*batch, n, n))
        super().__init__(batch, (n,), validate_args)
        if scale_tril is not None:
            self._factor = scale_tril
        elif covariance_matrix is not None:
            self._factor = cholesky(covariance_matrix)
        else:  # the inverse of the precision matrix's upper factor, from a Cholesky with rows and columns reversed
            flipped = cholesky(precision_matrix.flip(-2, -1))  # type: ignore[union-attr]
            upper = transposed(flipped.flip(-2, -1))
            unit = standard_unit(upper)
            self._factor = solve_triangular(upper, unit, upper=False)

    def __getattr__(self, name: str) -> Any:
        """The matrices other than the given one, computed from the factor when they are first read."""
        factor = self.__dict__.get("_factor")
        if factor is None or name not in ("covariance_matrix", "precision_matrix", "scale_tril"):
            raise AttributeError(f"{type(self).__name__} has no {name}", name=name)
        if name == "scale_tril":
            found = factor
        else:
            found = factor @ transposed(factor)
            found = found if name == "covariance_matrix" else inv(found)
        return found.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    def _expanded(self) -> Any:
        return "loc", self._given

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded to another batch_shape."""
        new = super().expand(batch_shape, _instance)
        new._factor = self._factor
        return new

    @property
    def mean(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """loc"""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance matrix."""
        return (self._factor * self._factor).sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + L times standard normal numbers"""
        drawn = standard_normal(self._extended_shape(sample_shape), self.loc)
        return self.loc + (self._factor @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """-(d C^-1 d + log det(2 pi C)) / 2 with d = value - loc and the covariance matrix C"""
        self._validate_sample(value)
        squares = squared_distance(self._factor, value - self.loc)
        half = self._factor.diagonal(0, -2, -1).log().sum(-1)
        return (squares + self._event_shape[0] * math.log(2 * math.pi)) * -0.5 - half

    def entropy(self) -> Tensor:
        """N (1 + log(2 pi)) / 2 + log det(L)"""
        half = self._factor.diagonal(0, -2, -1).log().sum(-1)
        found = half + 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi))
        return found.expand(self._batch_shape)


def squared_distance(factor: Tensor, d: Tensor) -> Tensor:
    """Compute the sum of squares of L^-1 d; L (..., N, N) lower triangles, d (..., N)."""
    n = factor.array.shape[-1]
    if factor.array.ndim == 2:  # one matrix: all vectors as its right sides
        rows = solve_triangular(factor, transposed(d.reshape(-1, n)), upper=False)
        return (rows * rows).sum(0).reshape(d.array.shape[:-1])
    solved = solve_triangular(factor, d.unsqueeze(-1), upper=False).squeeze(-1)
    return (solved * solved).sum(-1)


def standard_unit(like: Tensor) -> Tensor:
    """Return the identity matrix with the size and type of ``like`` (..., N, N)."""
    return wrap(eye(like.array.shape[-1], dtype=like.array.dtype, like=like.array))
