"""Fusion of batch norm in eval mode with the linear layer or convolution before it."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from ...arrays import empty_like
from ...engine.arguments import kind_name
from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ...ops.argument_checks import as_real, as_truth, require_float
from ..arguments import as_module
from ..linear import Linear
from ..module import Module
from ..normalization import _BatchNorm
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

AnyModule = TypeVar("AnyModule", bound=Module)
Weights = tuple[Parameter, Parameter]


def fuse_conv_bn_eval(conv: AnyModule, bn: Module, transpose: bool = False) -> AnyModule:
    """Return a copy of conv that computes bn(conv(x)), both in eval mode; transpose: conv is a transposed convolution.

    Raises:
        TypeError: conv is not a convolution, or bn is not a batch norm.
        ValueError: one of them is in training mode, or bn has no running statistics.
    """
    transpose = as_truth("fuse_conv_bn_eval", "transpose", transpose)
    fused = _copied("fuse_conv_bn_eval", conv, bn)
    if getattr(conv, "weight", None) is None or conv.weight.array.ndim < 3:
        raise TypeError(f"fuse_conv_bn_eval: conv is {kind_name(conv)}, needs a layer such as nn.Conv2d(3, 4, 3)")
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> Weights:
    """Return weight * scale and (bias - mean) * scale + bn_b, scale = bn_w / sqrt(var + eps) per output channel."""
    name = "fuse_conv_bn_weights"
    require_float(name, conv_w, "conv_w")
    channels: tuple[int, ...] = (1, -1) if as_truth(name, "transpose", transpose) else (-1, 1)
    channels += (1,) * (conv_w.array.ndim - 2)
    return _folded(name, conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, channels)


def fuse_linear_bn_eval(linear: AnyModule, bn: Module) -> AnyModule:
    """Return a copy of linear that computes bn(linear(x)), both in eval mode.

    Raises:
        TypeError: linear is not a Linear layer, or bn is not a batch norm.
        ValueError: one of them is in training mode, bn has no running statistics, or its channels do not fit.
    """
    fused = _copied("fuse_linear_bn_eval", linear, bn)
    if not isinstance(linear, Linear):
        raise TypeError(f"fuse_linear_bn_eval: linear is {kind_name(linear)}, needs a Linear layer")
    if bn.num_features not in (1, linear.out_features):
        raise ValueError(
            f"fuse_linear_bn_eval: bn.num_features={bn.num_features} must be linear.out_features="
            f"{linear.out_features}, or 1"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> Weights:
    """As ``fuse_conv_bn_weights``, for a linear layer's weight."""
    return _folded("fuse_linear_bn_weights", linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, (-1, 1))


def _copied(name: str, layer: AnyModule, bn: Any) -> AnyModule:
    as_module(name, "conv" if "conv" in name else "linear", layer)
    if not isinstance(as_module(name, "bn", bn), _BatchNorm):
        raise TypeError(f"{name}: bn is {kind_name(bn)}, needs a batch norm such as nn.BatchNorm2d(3)")
    if layer.training or bn.training:
        raise ValueError(f"{name}: the layer and its batch norm must be in evaluation mode; call eval() on both")
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError(f"{name}: bn has no running statistics; make it with track_running_stats=True")
    return copy.deepcopy(layer)


def _folded(
    name: str,
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    channels: tuple[int, ...],
) -> Weights:
    for label, value in (("weight", weight), ("running mean", mean), ("running variance", var)):
        require_float(name, value, label)
    for label, given in (("bias", bias), ("bn_w", scale), ("bn_b", shift)):
        if given is not None:
            require_float(name, given, label)
    eps = as_real(name, "bn_eps", eps)
    with no_grad():
        factor = (var + eps).rsqrt()
        if scale is not None:
            factor = factor * scale
        centered = -mean if bias is None else bias - mean
        folded = centered * factor if shift is None else centered * factor + shift
        w = weight * factor.reshape(channels)
        ordered = wrap(empty_like(weight.array))  # in the weight's memory order, which the kernels read in place
        kernels.copy(ordered.array, w.array)
    bias_requires_grad = True if bias is None else bias.requires_grad
    return Parameter(ordered, weight.requires_grad), Parameter(folded, bias_requires_grad)
