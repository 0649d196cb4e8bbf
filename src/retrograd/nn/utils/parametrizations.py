"""Weight normalisation and spectral normalisation."""

from __future__ import annotations

import numpy as np

from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...ops.product.matmul import matmul
from ...ops.random.sampling import randn
from ...ops.reduce.norms import vector_norm_of
from ...ops.shape.shape import axis
from .. import functional
from ..arguments import as_module
from ..convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module
from .parametrize import register_parametrization

__all__ = ["spectral_norm", "weight_norm"]


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """w = g * v / |v|: original0 is the length g of each slice of the weight along axis ``dim``, original1 is v.

    dim None (or -1): one length for the whole weight. Source: T. Salimans, D. Kingma, "Weight Normalization", 2016
    (arXiv:1602.07868).

    Raises:
        ValueError: the module has no such parameter, or it already has a parametrization.
        IndexError: the parameter has no axis ``dim``.
    """
    as_module("weight_norm", "module", module)
    return register_parametrization(module, name, _WeightNorm(dim))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """w = original / sigma, sigma the largest singular value of original as a matrix with axis ``dim`` first.

    It is estimated by power iteration, ``n_power_iterations`` steps at each use in training, from two vectors stored
    as buffers (_u, _v). dim defaults to 0, and to 1 for transposed convolutions. A vector is divided by its length.
    Source: T. Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018 (arXiv:1802.05957).

    Raises:
        ValueError: the module has no such parameter or a parametrization of it, or n_power_iterations is below 1.
        IndexError: the parameter has no axis ``dim``.
    """
    as_module("spectral_norm", "module", module)
    if dim is None:
        dim = default_axis(module)
    weight = module.__dict__.get(name)
    if not isinstance(weight, Tensor):
        raise ValueError(f"spectral_norm: {type(module).__name__} has no parameter {name!r}")
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def lengths(weight: Tensor, dim: int | None) -> Tensor:
    """The length of each slice along axis ``dim``, other axes kept with extent 1; of the whole weight if None or -1.

    Raises:
        IndexError: there is no such axis.
    """
    ndim = weight.array.ndim
    if dim is None or dim == -1:
        return vector_norm_of("weight_norm", weight, 2, None, False, None)
    kept = axis("weight_norm", "dim", dim, ndim)
    others = tuple(place for place in range(ndim) if place != kept)
    if others:
        return vector_norm_of("weight_norm", weight, 2, others, True, None)
    return vector_norm_of("weight_norm", weight.reshape(-1, 1), 2, 1, False, None)


class _WeightNorm(Module):
    """g * v / |v|"""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def older_keys(self) -> dict[str, str]:
        return {"_g": "original0", "_v": "original1"}

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        return v * (g / lengths(v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return lengths(weight, self.dim), weight


class _SpectralNorm(Module):
    """weight / sigma"""

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        self.dim = check_spectral(weight, n_power_iterations, dim)
        self.eps, self.n_power_iterations = eps, n_power_iterations
        if weight.array.ndim > 1:
            matrix = matrix_of(weight, self.dim).array
            for name, extent in zip(("_u", "_v"), matrix.shape, strict=True):
                self.register_buffer(name, Tensor(unit(randn(extent).array.astype(matrix.dtype), eps)))
            self._power_method(matrix, 15)

    def older_keys(self) -> dict[str, str]:
        vectors = {f"{name}": f"0.{name}" for name in self._buffer_names}
        return {"_orig": "original", **vectors}

    def forward(self, weight: Tensor) -> Tensor:
        if weight.array.ndim == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = matrix_of(weight, self.dim)
        if self.training:
            self._power_method(matrix.array, self.n_power_iterations)
        return divided(weight, matrix, self._u, self._v)

    def _power_method(self, matrix: np.ndarray, steps: int) -> None:
        """Power iteration: move u and v towards the singular vectors of the largest singular value."""
        u, v = self._u.array, self._v.array
        for _ in range(steps):
            u[...] = unit(matrix @ v, self.eps)
            v[...] = unit(matrix.T @ u, self.eps)


def check_spectral(weight: Tensor, n_power_iterations: int, dim: int) -> int:
    """The axis dim, not negative; ValueError, IndexError."""
    dim = axis("spectral_norm", "dim", dim, weight.array.ndim)
    if isinstance(n_power_iterations, bool) or not isinstance(n_power_iterations, int) or n_power_iterations < 1:
        raise ValueError(f"spectral_norm: n_power_iterations={n_power_iterations!r} must be an int of at least 1")
    return dim


def default_axis(module: Module) -> int:
    """The axis of the output channels in a layer's weight."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix with axis ``dim`` first."""
    others = (place for place in range(weight.array.ndim) if place != dim)
    return weight.permute(dim, *others).flatten(1) if weight.array.ndim > 1 else weight.reshape(-1, 1)


def unit(vector: np.ndarray, eps: float) -> np.ndarray:
    """The vector divided by its length."""
    with no_grad():
        return functional.normalize(Tensor(vector), dim=0, eps=eps).array


def divided(weight: Tensor, matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """weight / uT matrix v"""
    u, v = Tensor(u.array.copy()), Tensor(v.array.copy())  # the buffers may change before backward
    return weight / matmul(u, matmul(matrix, v))
