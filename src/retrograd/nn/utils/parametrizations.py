"""Weight normalization, spectral normalization, and orthogonal weights."""

from __future__ import annotations

import numpy as np

from ...arrays import broadcast_to, diagonal, eye, from_host, zeros
from ...engine.aliasing import mark_changed
from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...kernel_set import exact, kernels
from ...ops.argument_checks import as_flag
from ...ops.linalg.aliases import geqrf
from ...ops.linalg.decompositions import householder_product
from ...ops.linalg.matrix_functions import matrix_exp
from ...ops.linalg.solving import solve
from ...ops.pointwise.comparison import allclose
from ...ops.product.matmul import matmul
from ...ops.random.sampling import randn
from ...ops.reduce.norms import vector_norm_of
from ...ops.shape.join import cat
from ...ops.shape.shape import axis
from .. import functional
from ..arguments import as_module
from ..convolution import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from ..module import Module
from .parametrize import no_parameter, register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a weight (..., M, N) orthogonal: its columns are orthonormal if M >= N, its rows otherwise.

    The weight is computed from ``original``, a tensor X of the same shape, as the first N columns of an orthogonal
    matrix Q (M, M). If M < N, X and the weight are transposed. Maps from X to Q:

    - "matrix_exp": Q = exp(A), where A = L - LT is skew-symmetric, and L is the lower triangle of X
    - "cayley": Q = (1 - A / 2)^-1 (1 + A / 2)
    - "householder": Q is the product of reflections, whose vectors are the columns of X below the diagonal; the
      diagonal of X is not trained, and its signs multiply the columns of Q

    The default is "matrix_exp" for square weights and "householder" for others.

    use_trivialization: multiply Q from the left by the buffer ``base`` (..., M, M), which holds the initial weight,
    and start at X = -I, where Q = I.

    The weight starts at its own value if that is orthogonal, and at the Q of its QR factorization (with a positive
    diagonal of R) otherwise. Without ``use_trivialization``, this holds for "householder" only; the other maps are
    applied to the initial weight as X. A tensor assigned to ``module.<name>`` is made orthogonal in the same way; the
    other two maps without ``use_trivialization`` raise NotImplementedError.

    Sources: M. Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds", 2019
    (arXiv:1909.09501); for the Cayley map, Z. Wen, W. Yin, "A feasible method for optimization with orthogonality
    constraints", 2013.

    Raises:
        ValueError: the module has no such parameter, it has fewer than 2 axes, or there is no such map.

    >>> from retrograd import nn
    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(20, 40))
    >>> bool((layer.weight.T @ layer.weight).allclose(nn.init.eye_(layer.weight[:20].detach()), atol=1e-5))
    True
    """
    as_module("orthogonal", "module", module)
    use_trivialization = as_flag("orthogonal", "use_trivialization", use_trivialization)
    shape = _weight("orthogonal", module, name).array.shape
    if len(shape) < 2:
        raise ValueError(f"orthogonal: {name!r} has shape {shape}; it must be a matrix, or matrices (..., M, N)")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if shape[-2] == shape[-1] else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(f"orthogonal: orthogonal_map={orthogonal_map!r} must be one of {', '.join(map(repr, _MAPS))}")
    return register_parametrization(module, name, _Orthogonal(shape, orthogonal_map, use_trivialization))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """w = g * v / |v|: original0 is the length g of each slice of the weight along axis ``dim``, original1 is v.

    dim None (or -1): one length for the whole weight. Source: T. Salimans, D. Kingma, "Weight Normalization", 2016
    (arXiv:1602.07868).

    Raises:
        ValueError: the module has no such parameter, or it has a parametrization already.
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
        ValueError: the module has no such parameter, or n_power_iterations is below 1.
        IndexError: the parameter has no axis ``dim``.
    """
    as_module("spectral_norm", "module", module)
    if dim is None:
        dim = default_axis(module)
    weight = _weight("spectral_norm", module, name)
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def _weight(caller: str, module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None) if isinstance(name, str) else None
    if not isinstance(weight, Tensor):
        raise no_parameter(caller, module, name)
    return weight


def lengths(weight: Tensor, dim: int | None) -> Tensor:
    """Return the length of each slice along axis ``dim``, or of the whole weight if it is None or -1.

    The other axes are kept with extent 1.

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


class _Orthogonal(Module):
    """Maps an unconstrained matrix to an orthogonal one, see ``orthogonal``."""

    base: Tensor | None

    def __init__(self, shape: tuple[int, ...], orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape, self.orthogonal_map, self.use_trivialization = shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        *_, m, n = self.shape
        tall = x if m >= n else x.mT
        q = _reflected(tall) if self.orthogonal_map == "householder" else _rotated(tall, self.orthogonal_map)
        if self.use_trivialization and self.base is not None:  # a further parametrization has none
            q = matmul(Tensor(kernels.duplicate(self.base.array)), q)  # base may change before backward
        return q if m >= n else q.mT

    @no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        if weight.array.shape != self.shape:
            raise ValueError(f"orthogonal: the weight has shape {self.shape}, it cannot be set to {weight.array.shape}")
        *lead, m, n = self.shape
        tall = weight.array if m >= n else weight.array.swapaxes(-1, -2)
        if self.use_trivialization:
            m, n = max(m, n), min(m, n)
            if m != n:  # complete it to a square matrix
                drawn = from_host(kernels.cast(randn(*lead, m, m - n).array, tall.dtype), like=tall)
                tall = kernels.concatenate((tall, drawn), tall.ndim - 1)
            keeps = m == n and _is_orthogonal(tall)
            self.base = Tensor(kernels.reshaped(tall, tall.shape) if keeps else kernels.orthogonal_factor(tall, 1.0))
            start = kernels.neg(eye(self.shape[-2], self.shape[-1], tall.dtype, like=tall))
            return Tensor(kernels.reshaped(broadcast_to(start, self.shape), self.shape))
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                f"orthogonal: a weight cannot be assigned to the map {self.orthogonal_map!r} without "
                "use_trivialization, because that map has no simple inverse; take use_trivialization=True or the map "
                '"householder"'
            )
        a, tau = (each.array for each in geqrf(Tensor(kernels.reshaped(tall, tall.shape))))
        # a column without a reflection gets the vector 0, which changes the sign
        x = kernels.with_signs(a, tau)
        return Tensor(x if m >= n else kernels.reshaped(x.swapaxes(-1, -2), self.shape))


def _rotated(x: Tensor, kind: str) -> Tensor:
    """Return the first N columns of the exponential or Cayley map of a skew-symmetric matrix; x (..., M, N), M >= N."""
    *lead, m, n = x.array.shape
    lower = x.tril()
    if m != n:
        lower = cat((lower, Tensor(zeros((*lead, m, m - n), x.array.dtype, like=x.array))), -1)
    skew = lower - lower.mT
    if kind == "matrix_exp":
        q = matrix_exp(skew)
    else:
        one = Tensor(eye(m, dtype=x.array.dtype, like=x.array))
        q = solve(one - skew * 0.5, one + skew * 0.5)
    return q[..., :n] if m != n else q


def _reflected(x: Tensor) -> Tensor:
    """Return the first N columns of a product of reflections, times the diagonal's signs; x (..., M, N), M >= N."""
    vectors = x.tril(-1)
    q = householder_product(vectors, 2.0 / (1.0 + (vectors * vectors).sum(-2)))
    entries, one = diagonal(x.array), from_host(1, x.array.dtype)
    signs = kernels.where(kernels.lt(entries, from_host(0, entries.dtype)), kernels.neg(one), one)
    return q * Tensor(signs[..., None, :])


def _is_orthogonal(q: np.ndarray) -> bool:
    """Return whether the columns are orthonormal, up to rounding."""
    m, n = q.shape[-2:]
    tolerance = 10 * m * float(np.finfo(q.dtype).eps)
    product = exact("matmul")(q.swapaxes(-1, -2), q)
    return allclose(Tensor(product), Tensor(broadcast_to(eye(n, dtype=q.dtype, like=q), product.shape)), atol=tolerance)


class _WeightNorm(Module):
    """g * v / |v|"""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = dim

    def legacy_keys(self) -> dict[str, str]:
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
                drawn = from_host(kernels.cast(randn(extent).array, matrix.dtype), like=matrix)
                self.register_buffer(name, Tensor(unit(drawn, eps)))
            self._power_method(matrix, 15)

    def legacy_keys(self) -> dict[str, str]:
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
        """Power iteration: move u and v toward the singular vectors of the largest singular value."""
        u, v = self._u.array, self._v.array
        mark_changed((u, v), "spectral_norm")
        for _ in range(steps):
            kernels.copy(u, unit(times(matrix, v), self.eps))
            kernels.copy(v, unit(times(matrix.T, u), self.eps))


def check_spectral(weight: Tensor, n_power_iterations: int, dim: int) -> int:
    """Return the axis ``dim`` as a non-negative number; raise ValueError or IndexError if an argument is invalid."""
    dim = axis("spectral_norm", "dim", dim, weight.array.ndim)
    if isinstance(n_power_iterations, bool) or not isinstance(n_power_iterations, int) or n_power_iterations < 1:
        raise ValueError(f"spectral_norm: n_power_iterations={n_power_iterations!r} must be an int of at least 1")
    return dim


def default_axis(module: Module) -> int:
    """Return the axis of the output channels in a layer's weight."""
    return int(isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)))


def matrix_of(weight: Tensor, dim: int) -> Tensor:
    """Return the weight as a matrix with axis ``dim`` first."""
    others = (place for place in range(weight.array.ndim) if place != dim)
    return weight.permute(dim, *others).flatten(1) if weight.array.ndim > 1 else weight.reshape(-1, 1)


def times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the product of a matrix and a vector."""
    found: np.ndarray = exact("matmul")(matrix, vector[:, None])[:, 0]
    return found


def unit(vector: np.ndarray, eps: float) -> np.ndarray:
    """Return the vector divided by its length."""
    with no_grad():
        return functional.normalize(Tensor(vector), dim=0, eps=eps).array


def divided(weight: Tensor, matrix: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """weight / uT matrix v"""
    # the buffers may change before backward
    u, v = Tensor(kernels.duplicate(u.array)), Tensor(kernels.duplicate(v.array))
    return weight / matmul(u, matmul(matrix, v))
