"""Batch and instance normalization, with the statistics of the input or running statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...engine.aliasing import check_memory, mark_changed
from ...engine.function import Function
from ...engine.grad_mode import INFERENCE, thread
from ...engine.node import save_factors
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels, listeners
from ..argument_checks import as_flag, as_real, require_float
from ..pointwise.exponential import sqrt
from ..shape.broadcasting import Sum
from ..shape.shape import Reshape
from .layer_norm import Gradients, GroupNorm, Norm, per_channel, require_channels

__all__ = ["batch_norm", "instance_norm"]


class BatchNorm(Norm):
    """y = (x - mean) / sqrt(variance + eps) * weight + bias with the mean and biased variance of each channel of x.

    x (N, C, *I), weight (C,), bias (C,) -> y like x; mean (C,) and variance (C,) are added to the list ``statistics``.
    Source: S. Ioffe, C. Szegedy, "Batch Normalization", 2015.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, statistics: list[np.ndarray]) -> Tensor:
        y, mean, variance, inverse = kernels.batch_norm(x.array, weight.array, bias.array, eps)
        ctx.save_for_backward(x, weight, mean, inverse)
        N, C, *positions = x.array.shape
        ctx.eps, ctx.centered, ctx.view, ctx.over = eps, True, (N, C, 1, math.prod(positions)), (0, 3)
        statistics += mean, variance
        return wrap(y)

    @staticmethod
    def fused(ctx: Any, g: np.ndarray, x: np.ndarray, weight: np.ndarray, *statistics: np.ndarray) -> Any:
        """The gradients with respect to x, weight and bias."""
        return kernels.batch_norm_grad(g, x, weight, *statistics)


class ChannelAffine(Function):
    """y[:, c] = x[:, c] * scale[c] + shift[c]; x (N, C, *I), scale (C,), shift (C,)"""

    @staticmethod
    def forward(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return wrap(kernels.channel_affine(x.array, scale.array, shift.array))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        save_factors(ctx, inputs[0], inputs[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Gradients:
        (want_x, want_s, want_t), (x, scale) = ctx.needs_input_grad, ctx.saved_tensors
        axes = _all_but_1(g)
        gx = g * _per_channel(scale, g) if want_x else None
        gscale = Sum.apply(g * x, axes, False) if want_s else None
        gshift = Sum.apply(g, axes, False) if want_t else None
        return gx, gscale, gshift


class FixedScale(Function):
    """The scale and shift that make ``ChannelAffine`` normalize with given statistics, all (C,):

    scale = weight / sqrt(variance + eps), shift = bias - mean * scale
    """

    @staticmethod
    def forward(mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        scale, shift = kernels.fixed_scale(mean.array, variance.array, weight.array, bias.array, eps)
        return wrap(scale), wrap(shift)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        mean, variance, weight, _, ctx.eps = inputs
        # running statistics may change before the backward sweep
        statistics = [s if s._requires_grad else kernels.duplicate(s.array) for s in (mean, variance)]
        ctx.save_for_backward(weight, *statistics)
        if not any(ctx.needs_input_grad[:3]):
            ctx.mark_non_differentiable(output[0])

    @staticmethod
    def backward(ctx: Any, gscale: Tensor, gshift: Tensor) -> Gradients:
        want_m, want_v, want_w, want_b, _ = ctx.needs_input_grad
        gb = gshift if want_b else None
        if not (want_m or want_v or want_w):
            return None, None, None, gb, None
        weight, *statistics = ctx.saved_tensors
        mean, variance = (s if isinstance(s, Tensor) else wrap(s) for s in statistics)
        deviation = sqrt(variance + ctx.eps)
        scale = weight / deviation
        gscale = gscale - gshift * mean
        gm = -gshift * scale if want_m else None
        gv = gscale * scale / (variance + ctx.eps) * -0.5 if want_v else None
        return gm, gv, gscale / deviation if want_w else None, gb, None


def channel_affine(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """x * scale + shift per channel; the shapes must fit."""
    return ChannelAffine.apply(x, scale, shift)


def fixed_batch_norm(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias per channel; the shapes must fit."""
    mode, given = thread.mode, (mean, variance, weight, bias)
    if mode.watch is not None or (mode.enabled and any(each._requires_grad for each in given)):
        return ChannelAffine.apply(x, *FixedScale.apply(*given, eps))
    scale, shift = kernels.fixed_scale(mean.array, variance.array, weight.array, bias.array, eps)
    return ChannelAffine.apply(x, wrap(scale), wrap(shift))  # nothing to record for the scale


_FAR = 1 << 17  # bytes from which a pass over memory takes longer than two calls instead of one


def clamped_batch_norm(
    x: Any,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    low: float,
    high: float,
) -> Tensor | None:
    """``fixed_batch_norm`` and then ``clamp`` in one pass over memory, with the same bits.

    None: something records or observes the two, or the kernel does not read x in place, or x is small.
    """
    mode = thread.mode
    if mode.enabled or mode.watch is not None or interpreters or listeners:
        return None
    operands: Any = mean, variance, weight, bias
    if not _fit(x, *operands) or type(x.array) is not np.ndarray or x.array.nbytes < _FAR:
        return None
    axes = x.array.ndim
    if not x.array.transpose(0, *range(2, axes), 1).flags.c_contiguous:
        return None
    m, v, w, b = [each.array for each in operands]
    y = wrap(kernels.channel_affine_clamp(x.array, None, *kernels.fixed_scale(m, v, w, b, eps), low, high))
    if mode.inference:
        y._grad_req = INFERENCE
    return y


@operator(records=(ChannelAffine, BatchNorm))
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias per channel; input (N, C, *I), all others (C,)

    In training, or without running statistics, the mean and (biased) variance of input are used, and running
    statistics are updated in place: r = (1 - momentum)*r + momentum*(mean or unbiased variance). An
    empty vector has no channels and gives an empty vector.

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit, a channel has only one element, or eps is negative, or is 0 with the
            statistics of input.
    """
    if interpreters and (seen := interpreted(batch_norm, locals())) is not None:
        return seen
    if training is not True and training is not False:
        training = as_flag("batch_norm", "training", training)
    if isinstance(input, Tensor) and input.array.shape == (0,):  # no channels, so nothing to normalize
        require_float("batch_norm", input)
        return input.clone()
    own_statistics = training or running_mean is None
    given = eps
    if type(eps) is not float:
        eps = as_real("batch_norm", "eps", eps)
    if eps < 0 or (own_statistics and eps == 0):
        raise ValueError(f"batch_norm: eps={given} must be {'above 0 in training' if own_statistics else 'at least 0'}")
    if not own_statistics and _fit(input, running_mean, running_var, weight, bias):
        return fixed_batch_norm(input, running_mean, running_var, weight, bias, eps)  # type: ignore[arg-type]
    running = _running("batch_norm", input, running_mean, running_var, training)
    weight, bias = per_channel("batch_norm", input, weight=weight, bias=bias)
    if not training and running:
        return fixed_batch_norm(input, *running, weight, bias, eps)
    shape = input.array.shape
    count = shape[0] * math.prod(shape[2:])
    if count == 0:  # no elements for statistics, and nothing to normalize
        return ChannelAffine.apply(input, weight, bias)
    if count == 1:
        raise ValueError(
            f"batch_norm: each channel has 1 element to take statistics over, needs more than 1; "
            f"input.shape={shape}; use a larger batch, or eval mode"
        )
    statistics: list[np.ndarray] = []
    y: Tensor = BatchNorm.apply(input, weight, bias, eps, statistics)
    if running:
        mean, variance = statistics
        update_running_statistics(running, mean, variance, count, momentum)
    return y


@operator(records=(ChannelAffine, GroupNorm))
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """y = (x - mean) / sqrt(variance + eps) * weight + bias per channel of each sample; input (N, C, *I), others (C,)

    Mean and (biased) variance are those of input, or the running ones if ``use_input_stats`` is False. If it is
    True, running statistics are updated in place with the means over the batch, as in ``batch_norm``.
    Source: D. Ulyanov, A. Vedaldi, V. Lempitsky, "Instance Normalization", 2016 (arXiv:1607.08022).

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit, a channel has one position, or the running statistics to use are missing.
    """
    if interpreters and (seen := interpreted(instance_norm, locals())) is not None:
        return seen
    running = _running("instance_norm", input, running_mean, running_var, use_input_stats)
    if type(eps) is not float:
        eps = as_real("instance_norm", "eps", eps)
    weight, bias = per_channel("instance_norm", input, weight=weight, bias=bias)
    if use_input_stats is not True and not as_flag("instance_norm", "use_input_stats", use_input_stats):
        if not running:
            raise ValueError("instance_norm: use_input_stats=False needs running_mean and running_var")
        return fixed_batch_norm(input, *running, weight, bias, eps)
    shape = input.array.shape
    count = math.prod(shape[2:])
    if input.array.size == 0:  # no elements for statistics, and nothing to normalize
        return ChannelAffine.apply(input, weight, bias)
    if count == 1:
        raise ValueError(
            f"instance_norm: each channel has 1 position to take statistics over, needs more than 1; "
            f"input.shape={shape}"
        )
    statistics: list[np.ndarray] = []
    y: Tensor = GroupNorm.apply(input, weight, bias, eps, shape[1], statistics)
    if running:
        mean, inverse = statistics
        update_running_statistics(running, *kernels.instance_statistics(mean, inverse, eps), count, momentum)
    return y


def _fit(x: Tensor, *operands: Tensor | None) -> bool:
    """Whether all are Tensors of one floating-point type, x (N, C, ...) and the operands (C,): the quick check."""
    if not isinstance(x, Tensor):
        return False
    dtype, shape = x.array.dtype, x.array.shape
    if dtype.char not in "fd" or len(shape) < 2:
        return False
    wanted = shape[1:2]
    for each in operands:
        if not isinstance(each, Tensor) or each.array.dtype is not dtype or each.array.shape != wanted:
            return False
    return True


def _running(
    name: str, x: Tensor, mean: Tensor | None, variance: Tensor | None, changes: bool
) -> tuple[Tensor, Tensor] | None:
    """Return the running statistics, checked against x and before they change, or None if none are given."""
    require_float(name, x)
    shape = x.array.shape
    if len(shape) < 2:
        raise ValueError(f"{name}: input.shape={shape} needs at least 2 axes (batch, channels)")
    if mean is None and variance is None:
        return None
    if mean is None or variance is None:
        missing = "running_mean" if mean is None else "running_var"
        raise ValueError(f"{name}: {missing} is missing; give both running statistics or neither")
    require_channels(name, x, running_mean=mean, running_var=variance)
    if changes:
        check_memory(mean.array, name, "running_mean")
        check_memory(variance.array, name, "running_var")
    return mean, variance


def update_running_statistics(
    running: tuple[Tensor, Tensor], mean: np.ndarray, variance: np.ndarray, count: int, momentum: float
) -> None:
    """Update the running statistics; ``variance`` is the biased variance of ``count`` elements."""
    mean_so_far, variance_so_far = running
    statistics = mean_so_far.array, variance_so_far.array
    mark_changed(statistics, "the update of running statistics")
    kernels.running_statistics(statistics, mean, variance, momentum, count / (count - 1))


def _all_but_1(x: Tensor) -> tuple[int, ...]:
    return (0,) + tuple(range(2, x.array.ndim))


def _per_channel(weight: Tensor, x: Tensor) -> Tensor:
    """Reshape weight (C,) to (1, C, 1, ...), so that it broadcasts against x."""
    return Reshape.apply(weight, (1, weight.array.shape[0]) + (1,) * (x.array.ndim - 2))
