"""Batch norm for inference: a scale and a shift of each channel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import nn
from ..arrays import ones_like, zeros_like
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor, wrap
from ..nn.module import Module
from ..ops.arguments.checks import as_int
from ..ops.normalization.normalization import FixedScale, channel_affine
from .packed import refuse_training

__all__ = ["PackedNorm"]

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class PackedNorm(Module):
    """y[:, c] = x[:, c] * scale[c] + shift[c]: what a batch norm computes in eval mode, to the bit.

    x (N, C, *S) with ``ndim`` axes S, or one and none if ndim is 1. scale, shift (C,).

    Raises, when it is called:
        TypeError: input is no Tensor of the type of scale.
        ValueError: input has other axes or channels.
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, scale: np.ndarray, shift: np.ndarray, ndim: int) -> None:
        for label, value in (("scale", scale), ("shift", shift)):
            if not isinstance(value, np.ndarray):
                raise TypeError(f"PackedNorm: {label} is {type(value).__name__}, needs an array; pack(model) makes one")
        super().__init__()
        self.ndim, self.training = as_int("PackedNorm", "ndim", ndim), False
        self.register_buffer("scale", wrap(scale))
        self.register_buffer("shift", wrap(shift))

    def train(self, mode: bool = True) -> PackedNorm:
        refuse_training(mode)
        return self

    def forward(self, input: Tensor) -> Tensor:
        dtype, channels = self.scale.array.dtype, len(self.scale.array)
        if not isinstance(input, Tensor) or input.array.dtype != dtype:
            kind = input.array.dtype if isinstance(input, Tensor) else type(input).__name__
            raise TypeError(f"PackedNorm: input is {kind}, needs {dtype}")
        shape = input.array.shape
        axes = len(shape) - 2
        if (axes != self.ndim and (axes, self.ndim) != (0, 1)) or shape[1] != channels:
            extents = ", ".join("DHW"[-self.ndim :])
            raise ValueError(f"PackedNorm: input.shape={shape} must be (N, {channels}, {extents})")
        return channel_affine(input, self.scale, self.shift)

    def extra_repr(self) -> str:
        return f"{len(self.scale.array)}, ndim={self.ndim}"


def packed_norm(norm: Any) -> PackedNorm | None:
    """A batch norm for inference; None for another module, or one without running statistics or with hooks."""
    if type(norm) not in _NORMS or norm.running_mean is None or any(norm.__dict__.get("_hooks", {}).values()):
        return None
    mean, variance = norm.running_mean, norm.running_var
    ones = ones_like(mean.array)
    weight = wrap(ones) if norm.weight is None else norm.weight.detach()
    bias = wrap(zeros_like(ones)) if norm.bias is None else norm.bias.detach()
    with no_grad():
        scale, shift = FixedScale.apply(mean, variance, weight, bias, norm.eps)
    return PackedNorm(scale.array, shift.array, norm.ndim)
