"""SyncBatchNorm: batch normalization by the statistics of the batches of all processes together.

Each shard provides the number of its elements, their mean, and the sum of squared deviations from it. These triples are
merged in the fixed tree, without cancellation (Chan, Golub and LeVeque 1979). So y, the gradients and the running
statistics are bitwise identical for any number of processes, as long as each has whole shards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine.arguments import kind_name
from ..engine.function import Function
from ..engine.grad_mode import is_grad_enabled
from ..engine.tensor import Tensor, wrap
from ..kernel_set import kernels
from ..nn.module import Module
from ..nn.normalization import _BatchNorm
from ..ops.argument_checks import require_float
from ..ops.normalization.batch_norm import _all_but_1, _per_channel, update_running_statistics
from ..ops.normalization.layer_norm import per_channel
from ..ops.pointwise.exponential import sqrt
from ..ops.shape.broadcasting import Sum
from ..ops.shape.join import stack
from .batch_shards import ShardGroup, current, current_shard_group
from .process_group import ProcessGroup
from .world import is_initialized, member

__all__ = ["SyncBatchNorm"]

_NAME = "SyncBatchNorm"
SHARDS = 8  # default number of shards, unless there are more processes

Gradients = tuple[Tensor | None, ...]


class TotalOverShards(Function):
    """The sum of arrays (k, C) over all shards of all processes; ``pieces`` are the arrays of the local shards.

    Every shard uses the result, so the gradient of each piece is the sum of the gradients in all shards.
    """

    @staticmethod
    def forward(ctx: Any, shard_group: ShardGroup, what: str, *pieces: Tensor) -> Tensor:
        ctx.group, ctx.shards, ctx.what, ctx.count = shard_group.group, shard_group.shards, what, len(pieces)
        total = shard_group.total(what, [piece.array.astype(np.float64) for piece in pieces])
        return wrap(total.astype(pieces[0].array.dtype))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        zeros = [wrap(np.zeros_like(g.array))] * (ctx.count - 1)  # g is the gradient of all local shards
        found = TotalOverShards.apply(current_shard_group(ctx.group, ctx.shards), f"{ctx.what}, again", g, *zeros)
        return None, None, *[found] * ctx.count


class SynchronizedNorm(Function):
    """Normalize with the mean and biased variance of each channel over the batches of all processes.

    y = (x - mean) / sqrt(variance + eps) * weight + bias

    x (N, C, *I), weight (C,), bias (C,) -> y like x; mean (C,), variance (C,) and the number of elements of a channel
    are appended to the list ``statistics``.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, shard_group: ShardGroup, statistics: list[Any]
    ) -> Tensor:
        count, mean, variance = _moments(x.array, shard_group)
        if count < 2:
            raise ValueError(
                f"{_NAME}: each channel has {count:.0f} elements in all processes to take statistics over, needs more "
                f"than 1; input.shape={x.array.shape}; use a larger batch, or eval mode"
            )
        kind = x.array.dtype
        inverse = 1 / np.sqrt(variance + eps)
        ctx.save_for_backward(x, weight)
        ctx.eps, ctx.count, ctx.group, ctx.shards = eps, count, shard_group.group, shard_group.shards
        ctx.mean, ctx.inverse = mean.astype(kind), inverse.astype(kind)
        statistics += ctx.mean, variance.astype(kind), count
        factor = (inverse * weight.array).astype(kind)
        return wrap(kernels.channel_affine(x.array, factor, bias.array, ctx.mean))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        """With M elements of a channel in all processes together, and z = (x - mean) / deviation:

            gx = (g - sum(g) / M - z * sum(g * z) / M) * weight / deviation
            gweight = sum(g * z),  gbias = sum(g)

        Every x contributes to the mean and deviation with which all elements are normalized, in all processes. So both
        sums in gx are over all shards of all processes. The sums in gweight and gbias are over this process's part, as
        for all parameters; DistributedDataParallel adds them up.
        """
        (want_x, want_w, want_b), (x, weight) = ctx.needs_input_grad[:3], ctx.saved_tensors
        shard_group, M = current_shard_group(ctx.group, ctx.shards), ctx.count
        if not is_grad_enabled():
            return SynchronizedNorm.fused(ctx, g.array, x.array, weight.array, shard_group)
        # a second derivative also differentiates the statistics
        mean, inverse = _composed_statistics(x, M, ctx.eps, shard_group)
        z = (x - _per_channel(mean, x)) * _per_channel(inverse, x)
        pieces = _sums_of_shards(shard_group, g, g * z)
        gb, gw = _sum(pieces)
        gx = None
        if want_x:
            sum_g, sum_gz = TotalOverShards.apply(shard_group, _backward_call(x.array), *pieces)
            centered = g - _per_channel(sum_g / M, x) - z * _per_channel(sum_gz / M, x)
            gx = centered * _per_channel(weight * inverse, x)
        return gx, gw if want_w else None, gb if want_b else None, None, None, None

    @staticmethod
    def fused(ctx: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, shard_group: ShardGroup) -> Gradients:
        """Compute the same gradients in two passes over memory: one for the sums of each shard, and one for gx."""
        (want_x, want_w, want_b), M, kind = ctx.needs_input_grad[:3], ctx.count, x.dtype
        pieces = np.array(
            [kernels.batch_norm_sums(g[cut], x[cut], ctx.mean, ctx.inverse) for cut in shard_group.cuts(len(x))]
        )
        gb, gw = pieces.sum(0)
        gx = None
        if want_x:
            sum_g, sum_gz = shard_group.total(_backward_call(x), list(pieces.astype(np.float64)))
            inverse = ctx.inverse.astype(np.float64)
            factor = weight * inverse
            numbers = factor, -factor * inverse * sum_gz / M, -factor * sum_g / M
            gx = wrap(kernels.batch_norm_input_grad(g, x, ctx.mean, *[number.astype(kind) for number in numbers]))
        return gx, wrap(gw) if want_w else None, wrap(gb) if want_b else None, None, None, None


class SyncBatchNorm(_BatchNorm):
    """Batch normalization of x (N, C, ...) by the statistics of the batches of all processes together.

    y = (x - mean) / sqrt(variance + eps) * weight + bias per channel (axis 1); y has x's shape. In training, mean and
    biased variance are taken over the batches of all processes in ``process_group`` (None means all), which may differ
    in size. The running statistics follow them as in BatchNorm2d, and are the same in all processes. All processes must
    be in training mode, or none: a process in eval mode exchanges nothing and uses the running statistics. Without
    init_process_group, the layer is a plain BatchNorm. With one process it equals BatchNorm2d up to rounding. Sums are
    exchanged in float64.

    num_features, eps, momentum, affine, track_running_stats, bias: as for BatchNorm2d.
    shards: number of shards that the batches of all processes are split into. The bits of y, the gradients and the
        running statistics depend on this number, but not on the number of processes. None: 8, or the number of
        processes if there are more. Within DistributedDataParallel and ShardedTrainer, their group and shards apply.

    Parameters: weight, bias (C,) with C = num_features; None if affine (both) or bias is False. Buffers: running_mean,
    running_var (C,), num_batches_tracked ().

    Sources: Ioffe and Szegedy 2015 (arXiv:1502.03167); T. F. Chan, G. H. Golub,
    R. J. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.

    Raises:
        ValueError: an argument is out of range, input has the wrong number of axes or channels, or only one element
            per channel in training, over all processes; there are fewer shards than processes, or process_group is not
            that of the DistributedDataParallel around the layer.
        TypeError: input and weight have different dtypes. DistError: the processes have different layers.
        DistNetworkError: a process did not come in time. WorkerLostError: one has died.
    """

    process_group: ProcessGroup | None
    shards: int | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: ProcessGroup | None = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
        shards: int | None = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        if shards is not None and (isinstance(shards, bool) or not isinstance(shards, int) or shards < 1):
            raise ValueError(f"{_NAME}: shards={shards!r} must be a positive int, or None")
        self.process_group, self.shards = process_group, shards

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) < 2:
            raise ValueError(f"input has shape {shape}, needs 2 axes or more (batch, channels)")
        if shape[1] != self.num_features:
            raise ValueError(
                f"input has {shape[1]} channels, needs num_features={self.num_features}; input.shape={shape}"
            )

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not is_initialized():
            return super().forward(input)
        require_float(_NAME, input)
        self._check(input.array.shape)
        weight, bias = per_channel(_NAME, input, weight=self.weight, bias=self.bias)
        shard_group = self._shard_group()
        if not self.eps > 0:
            raise ValueError(f"{_NAME}: eps={self.eps} must be above 0 in training")
        statistics: list[Any] = []
        y: Tensor = SynchronizedNorm.apply(input, weight, bias, self.eps, shard_group, statistics)
        if self.track_running_stats and shard_group.updates_state and self.running_mean is not None:
            assert self.running_var is not None and self.num_batches_tracked is not None
            mean, variance, count = statistics
            update_running_statistics((self.running_mean, self.running_var), mean, variance, count, self._momentum())
            self.num_batches_tracked.array[...] += 1
        return y

    def _shard_group(self) -> ShardGroup:
        outer = current.shard_group
        if outer is not None:
            if self.process_group not in (None, outer.group, outer.first_group):
                raise ValueError(
                    f"{_NAME}: process_group is {self.process_group}, that of the model is {outer.group}; pass the "
                    "same to both, or None to the layer"
                )
            return outer
        group = member(self.process_group, _NAME)
        shards = max(SHARDS, group.size()) if self.shards is None else self.shards
        if shards < group.size():
            raise ValueError(f"{_NAME}: shards={shards} must be at least {group.size()}, the number of processes")
        return ShardGroup(group, shards)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: ProcessGroup | None = None) -> Module:
        """Replace every BatchNorm1d, 2d and 3d in the module with a SyncBatchNorm.

        A replacement has the same parameter and buffer objects. The module itself is changed and returned; if it is a
        BatchNorm, its replacement is returned. Hooks of the layers are dropped, as in PyTorch.

        Raises:
            TypeError: module is not a Module. ValueError: a lazy layer has not seen a batch yet.
        """
        if not isinstance(module, Module):
            raise TypeError(f"convert_sync_batchnorm: module must be a Module, got {kind_name(module)}")
        made: dict[int, SyncBatchNorm] = {}
        for path, each in module.named_modules():
            if isinstance(each, _BatchNorm) and not each.num_features:
                raise ValueError(f"convert_sync_batchnorm: {path or 'module'} is lazy; give the module a batch first")
            if isinstance(each, _BatchNorm):
                made[id(each)] = cls._of(each, process_group)
        for each in list(module.modules()):
            for name, child in list(each._members()):
                if id(child) in made:
                    each.add_module(name, made[id(child)])
        return made.get(id(module), module)

    @classmethod
    def _of(cls, layer: _BatchNorm, process_group: ProcessGroup | None) -> SyncBatchNorm:
        made = cls(
            layer.num_features,
            layer.eps,
            layer.momentum,
            layer.affine,
            layer.track_running_stats,
            process_group,
            bias=layer.bias is not None,
        )
        for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
            setattr(made, name, getattr(layer, name))
        made.training = layer.training
        return made


def _moments(x: np.ndarray, shard_group: ShardGroup) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the number of elements per channel, and the mean and biased variance of each channel, in float64."""
    axes = (0, *range(2, x.ndim))
    pieces = []
    for cut in shard_group.cuts(len(x)):
        part = x[cut]
        piece = np.zeros((3, x.shape[1]))
        if part.size:
            mean, squares = kernels.moments(part, axes)
            piece[0], piece[1], piece[2] = part.size / x.shape[1], mean.reshape(-1), squares.reshape(-1)
        pieces.append(piece)
    count, mean, squares = shard_group.total(_call(x), pieces, _merge)
    with np.errstate(all="ignore"):
        return float(count[0]), mean, squares / count


def _merge(left: np.ndarray, right: np.ndarray) -> None:
    """Merge the counts, means and sums of squared deviations of two sets of elements into the first."""
    with np.errstate(all="ignore"):  # as in the kernels, numbers may be infinite or NaN
        count = left[0] + right[0]
        share = right[0] / np.maximum(count, 1)
        centered = right[1] - left[1]
        left[2] += right[2] + centered * centered * left[0] * share
        left[1] += centered * share
        left[0] = count


def _composed_statistics(x: Tensor, count: float, eps: float, shard_group: ShardGroup) -> tuple[Tensor, Tensor]:
    """Compute mean and 1 / deviation of each channel (C,) with differentiable operators."""
    call = _call(x.array)
    (mean,) = TotalOverShards.apply(shard_group, f"{call}.mean", *_sums_of_shards(shard_group, x)) / count
    centered = x - _per_channel(mean, x)
    (variance,) = (
        TotalOverShards.apply(shard_group, f"{call}.variance", *_sums_of_shards(shard_group, centered * centered))
        / count
    )
    return mean, 1.0 / sqrt(variance + eps)


def _sums_of_shards(shard_group: ShardGroup, *operands: Tensor) -> list[Tensor]:
    """Return for each local shard the sums of the operands per channel, (number of operands, C)."""
    axes = _all_but_1(operands[0])
    cuts = shard_group.cuts(operands[0].array.shape[0])
    return [stack([Sum.apply(each[cut], axes, False) for each in operands]) for cut in cuts]


def _sum(pieces: list[Tensor]) -> Tensor:
    found = pieces[0]
    for piece in pieces[1:]:
        found = found + piece
    return found


def _backward_call(x: np.ndarray) -> str:
    return f"{_call(x)}.backward"


def _call(x: np.ndarray) -> str:
    return f"{_NAME}({x.shape[1]} channels, {x.dtype})"
