"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ..arrays import eye
from ..engine.tensor import Tensor, wrap
from ..ops.arguments.checks import require_float
from ..ops.linalg.decompositions import cholesky
from ..ops.linalg.matrices import transposed
from ..ops.linalg.solving import inv, solve_triangular
from . import constraints
from .distribution import Distribution
from .utils import standard_normal

__all__ = ["MultivariateNormal"]


class MultivariateNormal(Distribution):
    """The normal distribution of vectors with mean ``loc`` (..., N); one of three matrices (..., N, N) is given:

    covariance_matrix: symmetric positive definite
    precision_matrix: its inverse
    scale_tril: the lower triangle L with a positive diagonal, and L LT the covariance matrix
    validate_args: whether parameters and values are checked

    Raises:
        ValueError: not exactly one is given, shapes do not fit, or a matrix is not as it must be.
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
        self.loc = loc.expand((*batch, n))
        self.__dict__[self._given] = matrix.expand((*batch, n, n))
        super().__init__(batch, (n,), validate_args)
        if scale_tril is not None:
            self._factor = scale_tril
        elif covariance_matrix is not None:
            self._factor = cholesky(covariance_matrix)
        else:  # the inverse of the upper triangle of the precision matrix, whose rows and columns are reversed
            flipped = cholesky(precision_matrix.flip(-2, -1))  # type: ignore[union-attr]
            upper = transposed(flipped.flip(-2, -1))
            unit = standard_unit(upper)
            self._factor = solve_triangular(upper, unit, upper=False)

    def __getattr__(self, name: str) -> Any:
        """The matrices that were not given, computed from the factor when they are first read."""
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
        """With its parameters expanded to another batch_shape."""
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
    """The sum of squares of L^-1 d; L (..., N, N) lower triangles, d (..., N)."""
    n = factor.array.shape[-1]
    if factor.array.ndim == 2:  # one matrix: all vectors as its right sides
        rows = solve_triangular(factor, transposed(d.reshape(-1, n)), upper=False)
        return (rows * rows).sum(0).reshape(d.array.shape[:-1])
    solved = solve_triangular(factor, d.unsqueeze(-1), upper=False).squeeze(-1)
    return (solved * solved).sum(-1)


def standard_unit(like: Tensor) -> Tensor:
    """The unit matrix of the size and type of ``like`` (..., N, N)."""
    return wrap(eye(like.array.shape[-1], dtype=like.array.dtype, like=like.array))
