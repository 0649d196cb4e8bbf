"""Normalization: statistics of the input, running statistics, and what they are checked for."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ...ops.creation import ones, zeros
from ...ops.dtype import require_float, require_same
from ...ops.normalization import batch_norm as _batch_norm
from ...ops.normalization import elements_per_channel, fixed_batch_norm

__all__ = ["batch_norm"]


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

    In training, or without running statistics, mean and (biased) variance are those of x, and running statistics that
    are given move towards them in place: r = (1 - momentum)*r + momentum*(mean or unbiased variance).

    Raises:
        TypeError: the types differ or are not floating point.
        ValueError: the shapes do not fit, or a channel has not more than one element to take statistics over.
    """
    require_float("batch_norm", input)
    shape = input.data.shape
    if len(shape) < 2:
        raise ValueError(f"batch_norm: x has {len(shape)} axes, needs at least 2 (batch, channels); x.shape={shape}")
    others = {"running_mean": running_mean, "running_var": running_var, "weight": weight, "bias": bias}
    for label, value in others.items():
        if value is not None:
            require_same("batch_norm", "x", input, label, value)
            if value.data.shape != shape[1:2]:
                raise ValueError(
                    f"batch_norm: {label}.shape={value.data.shape}, needs ({shape[1]},), one per channel; "
                    f"x.shape={shape}"
                )
    if (running_mean is None) != (running_var is None):
        missing = "running_mean" if running_mean is None else "running_var"
        raise ValueError(f"batch_norm: {missing} is missing; give both running statistics or neither")
    if weight is None:
        weight = ones(shape[1], dtype=input.data.dtype)
    if bias is None:
        bias = zeros(shape[1], dtype=input.data.dtype)
    if not training and running_mean is not None and running_var is not None:
        return fixed_batch_norm(input, running_mean, running_var, weight, bias, eps)

    count = elements_per_channel(shape)
    if count <= 1:
        raise ValueError(
            f"batch_norm: each channel has {count} elements to take statistics over, needs more than 1; "
            f"x.shape={shape}; use a larger batch, or eval mode"
        )
    y, mean, variance = _batch_norm(input, weight, bias, eps)
    if running_mean is not None and running_var is not None:
        running_mean.data += momentum * (mean.data - running_mean.data)
        running_var.data += momentum * (variance.data * (count / (count - 1)) - running_var.data)
    return y
