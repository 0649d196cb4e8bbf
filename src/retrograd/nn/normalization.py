"""Normalization layers: batch, instance, layer, group, RMS and local response."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

import numpy as np

from ..arrays import empty, from_host, moveaxis, ones, zeros
from ..engine.aliasing import check_memory
from ..engine.arithmetic import accumulate
from ..engine.grad_mode import thread
from ..engine.tensor import Tensor
from ..kernel_set import kernels
from ..ops.argument_checks import as_real, require_tensor
from ..ops.device import DeviceLike
from ..ops.dtypes.dtype import DTypeLike
from ..ops.normalization.batch_norm import clamped_batch_norm
from . import functional, init
from .activation import ReLU, ReLU6
from .arguments import as_epsilon, check_ints
from .functional import instance_norm
from .layer import Described, OverAxes, layer
from .module import Module
from .parameter import Parameter, as_float_dtype

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


# ---- Batch and instance normalization layers: one class each for any number of axes ---------------------------------


class _ChannelNorm(OverAxes, Module):
    """Base of batch and instance norm: a weight, a bias and running statistics per channel."""

    momentum: float | None
    num_features: int
    affine: bool
    track_running_stats: bool

    ndims: ClassVar[tuple[int, ...]]  # allowed numbers of axes of the input
    unbatched: ClassVar[bool] = False  # whether the input may lack the batch axis
    _version = 2  # as in PyTorch since 0.4.1: the state includes num_batches_tracked
    fewest_features: ClassVar[int] = 1  # a lazy layer starts at 0
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init_subclass__(cls, ndim: int = 0, **kwargs: Any) -> None:
        super().__init_subclass__(ndim=ndim, **kwargs)
        if ndim:  # BatchNorm1d may lack the last axis instead
            cls.ndims = (ndim + 1, ndim + 2) if cls.unbatched or ndim == 1 else (ndim + 2,)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_ints(name, self.fewest_features, num_features=num_features)
        self.eps: float = as_epsilon(name, eps)
        if momentum is not None and not 0 <= as_real(name, "momentum", momentum) <= 1:
            raise ValueError(f"{name}: momentum={momentum!r} must be between 0 and 1, or None")
        self.num_features, self.momentum = num_features, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        kind = as_float_dtype(dtype)
        for member, exists in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(member, Parameter(empty(num_features, kind)) if exists else None)
        for member in ("running_mean", "running_var"):
            values = Tensor(empty(num_features, kind)) if track_running_stats else None
            self.register_buffer(member, values)
        count = Tensor(zeros((), np.int64)) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset to mean 0, variance 1 and no batches seen."""
        for buffer, start in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                kernels.copy(buffer.array, from_host(start, buffer.array.dtype))

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        """Keep this layer's batch count if the state predates it, or lacks it and a momentum makes it unnecessary."""
        version, key = local_metadata.get("version"), f"{prefix}num_batches_tracked"
        if self.num_batches_tracked is not None and (version in (None, 1) or self.momentum is not None):
            state_dict.setdefault(key, self.num_batches_tracked.detach())
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def reset_parameters(self) -> None:
        """Set weight to 1 and bias to 0, and reset the running statistics."""
        self.reset_running_stats()
        for parameter, start in ((self.weight, 1), (self.bias, 0)):
            if parameter is not None:
                init.constant_(parameter, start)

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) not in self.ndims:
            expected = " or ".join(f"{ndim} axes" for ndim in self.ndims)
            raise ValueError(f"input has shape {shape}, needs {expected}: batch, channels, and the positions if any")

    def _momentum(self) -> float:
        """Return the momentum of this step; None makes the running statistics the mean over all batches."""
        if self.momentum is not None:
            return self.momentum
        count = self.num_batches_tracked
        return 0.0 if count is None else 1.0 / (count.item() + 1)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_ChannelNorm):
    """Batch normalization of x (N, C, {extents}); BatchNorm1d also accepts (N, C).

    y = (x - mean) / sqrt(variance + eps) * weight + bias per channel (axis 1); y has x's shape.

    In training, mean and biased variance are those of the batch, and

        running_mean = (1 - momentum) * running_mean + momentum * mean
        running_var = (1 - momentum) * running_var + momentum * variance * M / (M - 1)

    where M counts the elements of a channel; momentum None makes them the mean over all batches so far. In
    eval mode the running statistics replace the batch's, unless track_running_stats is False.

    weight, bias (C,), C num_features; None if affine (both) or bias is False. running_mean, running_var (C,) and
    num_batches_tracked () are buffers. Source: Ioffe and Szegedy 2015 (arXiv:1502.03167).

    Raises:
        ValueError: an argument is out of range, input has the wrong number of axes or channels, or only one
            element per channel in training.
        TypeError: input and weight have different dtypes.
    """

    def forward(self, input: Tensor) -> Tensor:
        require_tensor(type(self).__name__, input)
        self._check(input.array.shape)
        training = self.training
        mean, variance, count = self.running_mean, self.running_var, self.num_batches_tracked
        if training and not self.track_running_stats:
            mean = variance = count = None
        y = functional.batch_norm(
            input, mean, variance, self.weight, self.bias, training or mean is None, self._momentum(), self.eps
        )
        if training and count is not None:  # after the operator: a failed call is not counted
            check_memory(count.array, type(self).__name__, "num_batches_tracked")
            accumulate(count.array, ones((), count.array.dtype, like=count.array))
        return y


class _InstanceNorm(_ChannelNorm):
    """Instance normalization of x (N, C, {extents}) or (C, {extents}).

    y = (x - mean) / sqrt(variance + eps) * weight + bias per channel of each sample; y has x's shape.

    Mean and biased variance are those of one channel of one sample. With track_running_stats, running statistics are
    updated in training as in batch norm, with the means over the batch (num_batches_tracked stays 0, as in PyTorch),
    and are used in eval mode.

    weight, bias (C,) where affine; running_mean, running_var (C,) and num_batches_tracked () with track_running_stats.
    Source: Ulyanov et al. 2016 (arXiv:1607.08022).

    Raises:
        ValueError: an argument is out of range, input has the wrong number of axes or channels, or one position.
        TypeError: input and weight have different dtypes.
    """

    unbatched = True

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias=bias, dtype=dtype)

    def forward(self, input: Tensor) -> Tensor:
        require_tensor(type(self).__name__, input)
        shape = input.array.shape
        self._check(shape)
        single = len(shape) == self.ndims[0]
        channels = shape[0 if single else 1]
        if channels != self.num_features:
            raise ValueError(
                f"input has {channels} channels, needs num_features={self.num_features}; input.shape={shape}"
            )
        y = instance_norm(
            input.reshape(1, *shape) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self._momentum(),
            self.eps,
        )
        return y.reshape(shape) if single else y


class BatchNorm1d(_BatchNorm, ndim=1):
    """Batch normalization of x (N, C, I) or (N, C)."""


class BatchNorm2d(_BatchNorm, ndim=2):
    """Batch normalization of x (N, C, H, W)."""


class BatchNorm3d(_BatchNorm, ndim=3):
    """Batch normalization of x (N, C, D, H, W)."""


BATCH_NORMS = frozenset((BatchNorm1d, BatchNorm2d, BatchNorm3d))
_CLAMPS: dict[type, tuple[float, float]] = {ReLU: (0.0, inf), ReLU6: (0.0, 6.0)}


def clamped(norm: Any, activation: Module, x: Any) -> Tensor | None:
    """Run a batch norm in eval mode and the ReLU or ReLU6 after it in one pass over memory, without a graph.

    None: they have to run one after the other.
    """
    mode, bounds = thread.mode, _CLAMPS.get(type(activation))
    if bounds is None or norm.training or mode.running is not None or mode.pieces is not None:
        return None
    if not (norm._is_plain and activation._is_plain and isinstance(x, Tensor) and x.array.ndim in norm.ndims):
        return None
    if "forward" in norm.__dict__ or "forward" in activation.__dict__:
        return None
    return clamped_batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps, *bounds)


class InstanceNorm1d(_InstanceNorm, ndim=1):
    """Instance normalization of x (N, C, I) or (C, I)."""


class InstanceNorm2d(_InstanceNorm, ndim=2):
    """Instance normalization of x (N, C, H, W) or (C, H, W)."""


class InstanceNorm3d(_InstanceNorm, ndim=3):
    """Instance normalization of x (N, C, D, H, W) or (C, D, H, W)."""


# ---- Layers that normalize each sample separately: over its last axes, groups of channels, or neighboring channels --


class _Affine(Described, Module):
    """Base of layers with a weight that starts at 1 and a bias that starts at 0."""

    weight: Parameter | None
    bias: Parameter | None

    def _start(self, shape: tuple[int, ...], dtype: DTypeLike, **members: bool) -> None:
        kind = as_float_dtype(dtype)
        for member, exists in members.items():
            # parameters of shape (C, H, W) are channels-last in memory, like images, to avoid a copy at every call
            memory = (*shape[1:], shape[0]) if len(shape) > 2 else shape
            values = empty(memory, kind)
            values = moveaxis(values, -1, 0) if len(shape) > 2 else values
            self.register_parameter(member, Parameter(values) if exists else None)
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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _extents("LayerNorm", normalized_shape)
        self.eps: float = as_epsilon("LayerNorm", eps)
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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.normalized_shape: tuple[int, ...] = _extents("RMSNorm", normalized_shape)
        self.eps: float | None = None if eps is None else as_epsilon("RMSNorm", eps)
        self.elementwise_affine = elementwise_affine
        self._start(self.normalized_shape, dtype, weight=elementwise_affine)

    def forward(self, input: Tensor) -> Tensor:
        return functional.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """A layer with the parameters weight and bias, None where affine or bias is False.

    C is num_channels, a multiple of num_groups; eps is at least 0. Other values raise a ValueError.

    {functional.group_norm}
    """

    num_channels: int
    num_groups: int

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_ints("GroupNorm", num_groups=num_groups, num_channels=num_channels)
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels={num_channels} must be divisible by num_groups={num_groups}")
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps: float = as_epsilon("GroupNorm", eps)
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
