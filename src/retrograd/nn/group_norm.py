"""Normalisation of each sample separately: over its last axes, groups of channels, or neighbouring channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.tensor import Tensor
from ..ops.dtype import require_tensor
from . import functional, init
from .module import Module
from .parameter import Parameter, as_float_dtype

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Module):
    """A weight that starts at 1 and a bias that starts at 0."""

    weight: Parameter | None
    bias: Parameter | None

    def _start(self, shape: tuple[int, ...], dtype: Any, **wanted: bool) -> None:
        kind = as_float_dtype(dtype)
        for member, want in wanted.items():
            # parameters of shape (C, H, W) are channels-last in memory, like images, to avoid a copy at every call
            memory = (*shape[1:], shape[0]) if len(shape) > 2 else shape
            values = np.empty(memory, kind)
            values = np.moveaxis(values, -1, 0) if len(shape) > 2 else values
            self.register_parameter(member, Parameter(values) if want else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0."""
        for name, parameter in self.named_parameters(recurse=False):
            init.constant_(parameter, int(name == "weight"))


class LayerNorm(_Affine):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, with the statistics of each sample over its last axes.

    x (*M, *L) -> (*M, *L), L normalized_shape. weight and bias (*L) with elementwise_affine; bias None if False.
    Source: Ba, Kiros and Hinton 2016 (arXiv:1607.06450).

    Raises:
        ValueError: an argument is out of range, or the last axes of input are not normalized_shape.
        TypeError: input and weight have different dtypes.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _extents("LayerNorm", normalized_shape)
        self.eps = _epsilon("LayerNorm", eps)
        self.elementwise_affine = elementwise_affine
        self._start(self.normalized_shape, dtype, weight=elementwise_affine, bias=elementwise_affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        return functional.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """y = x / sqrt(mean(x^2) + eps) * weight, with the mean of each sample over its last axes.

    x (*M, *L) -> (*M, *L), L normalized_shape. weight (*L) with elementwise_affine. eps None: the machine epsilon
    of x's dtype. Source: Zhang and Sennrich 2019 (arXiv:1910.07467).

    Raises:
        ValueError: an argument is out of range, or the last axes of input are not normalized_shape.
        TypeError: input and weight have different dtypes.
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _extents("RMSNorm", normalized_shape)
        self.eps = None if eps is None else _epsilon("RMSNorm", eps)
        self.elementwise_affine = elementwise_affine
        self._start(self.normalized_shape, dtype, weight=elementwise_affine)

    def forward(self, input: Tensor) -> Tensor:
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, with mean and biased variance of each channel group.

    x (N, C, *I) -> (N, C, *I), C num_channels, each sample separately. weight and bias (C,) with affine; bias None if
    False. Source: Wu and He 2018 (arXiv:1803.08494).

    Raises:
        ValueError: an argument is out of range, or input has the wrong number of channels.
        TypeError: input and weight have different dtypes.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        for label, value in (("num_groups", num_groups), ("num_channels", num_channels)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"GroupNorm: {label}={value!r} must be an int of at least 1")
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels={num_channels} must be divisible by num_groups={num_groups}")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps = _epsilon("GroupNorm", eps)
        self.affine = affine
        self._start((num_channels,), dtype, weight=affine, bias=affine and bias)

    def forward(self, input: Tensor) -> Tensor:
        require_tensor("GroupNorm", input)
        shape = input.array.shape
        if len(shape) < 2 or shape[1] != self.num_channels:
            raise ValueError(f"input has shape {shape}, needs (N, {self.num_channels}, ...): num_channels in axis 1")
        return functional.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """y = x / (k + alpha/size * sum x^2)^beta, the sum over the ``size`` channels around each one.

    x (N, C, *I) -> (N, C, *I). Source: Krizhevsky, Sutskever and Hinton 2012, section 3.3.

    Raises:
        ValueError: size is below 1, or input has fewer than 3 axes.
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"LocalResponseNorm: size={size!r} must be an int of at least 1")
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _extents(name: str, shape: Any) -> tuple[int, ...]:
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not extents or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in extents):
        raise ValueError(f"{name}: normalized_shape={shape!r} must be an int of at least 1, or a tuple of such ints")
    return extents


def _epsilon(name: str, eps: Any) -> float:
    if not eps >= 0:
        raise ValueError(f"{name}: eps={eps!r} must be a number of at least 0")
    return float(eps)
