"""Normalisation of each sample separately: over its last axes, groups of channels, or neighbouring channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import empty, moveaxis
from ..engine.tensor import Tensor
from ..ops.arguments.checks import require_tensor
from . import functional, init
from .arguments import as_epsilon, check_ints
from .layer import Described, layer
from .module import Module
from .parameter import Parameter, as_float_dtype

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Described, Module):
    """A weight that starts at 1 and a bias that starts at 0."""

    weight: Parameter | None
    bias: Parameter | None

    def _start(self, shape: tuple[int, ...], dtype: Any, **wanted: bool) -> None:
        kind = as_float_dtype(dtype)
        for member, want in wanted.items():
            # parameters of shape (C, H, W) are channels-last in memory, like images, to avoid a copy at every call
            memory = (*shape[1:], shape[0]) if len(shape) > 2 else shape
            values = empty(memory, kind)
            values = moveaxis(values, -1, 0) if len(shape) > 2 else values
            self.register_parameter(member, Parameter(values) if want else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0."""
        for name, parameter in self.named_parameters(recurse=False):
            init.constant_(parameter, int(name == "weight"))


class LayerNorm(_Affine):
    """A layer with the parameters weight and bias, None where elementwise_affine or bias is False; eps is at least 0.

    {functional.layer_norm}
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _extents("LayerNorm", normalized_shape)
        self.eps = as_epsilon("LayerNorm", eps)
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
    """A layer with the parameter weight, None where elementwise_affine is False; eps is at least 0, or None.

    {functional.rms_norm}
    """

    def __init__(
        self,
        normalized_shape: int | tuple[int, ...] | list[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _extents("RMSNorm", normalized_shape)
        self.eps = None if eps is None else as_epsilon("RMSNorm", eps)
        self.elementwise_affine = elementwise_affine
        self._start(self.normalized_shape, dtype, weight=elementwise_affine)

    def forward(self, input: Tensor) -> Tensor:
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """A layer with the parameters weight and bias, None where affine or bias is False.

    C is num_channels, a multiple of num_groups; eps is at least 0. Other arguments are a ValueError.

    {functional.group_norm}
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_ints("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels={num_channels} must be divisible by num_groups={num_groups}")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps = as_epsilon("GroupNorm", eps)
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


@layer
class LocalResponseNorm(Described, Module):
    """{functional.local_response_norm}"""

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def _set_up(self) -> None:
        check_ints("LocalResponseNorm", size=self.size)

    def forward(self, input: Tensor) -> Tensor:
        return functional.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


def _extents(name: str, shape: Any) -> tuple[int, ...]:
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if not extents or any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1 for n in extents):
        raise ValueError(f"{name}: normalized_shape={shape!r} must be an int of at least 1, or a tuple of such ints")
    return tuple(int(n) for n in extents)
