"""ONNX's operators of the gradient vectors in PyTorch: name -> f(*inputs, **attributes), None for omitted inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from peers.vector_recurrent import recurrent

F = torch.nn.functional
_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


# ---- windows ---------------------------------------------------------------------------------------------------------


def _padded(x: Any, pads: Any, value: float = 0.0) -> Any:
    """pads: ONNX's, of the last axes; negative ones cut."""
    axes = len(pads) // 2
    return F.pad(x, [pads[axis + side * axes] for axis in reversed(range(axes)) for side in (0, 1)], value=value)


def _same(x: Any, kernel: Any, strides: Any, upper: bool) -> list[int]:
    totals = [max(0, (-(-i // s) - 1) * s + k - i) for i, k, s in zip(x.shape[2:], kernel, strides, strict=True)]
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return less + more if upper else more + less


def conv(x, w, b=None, strides=None, pads=None, dilations=None, group=1, auto_pad="NOTSET"):
    axes = x.ndim - 2
    strides = strides or [1] * axes
    if auto_pad != "NOTSET":
        pads = _same(x, w.shape[2:], strides, auto_pad == "SAME_UPPER")
    return _CONV[axes](_padded(x, pads or [0] * 2 * axes), w, b, strides, 0, dilations or 1, group)


def conv_transpose(
    x, w, b=None, strides=None, pads=None, dilations=None, group=1, output_padding=None, output_shape=None
):
    axes = x.ndim - 2
    y = _CONV_TRANSPOSE[axes](x, w, None, strides or 1, 0, 0, group, dilations or 1)
    y = _padded(y, [0] * axes + (output_padding or [0] * axes))
    if output_shape:
        totals = [o - wanted for o, wanted in zip(y.shape[2:], output_shape, strict=True)]
        pads = [t - t // 2 for t in totals] + [t // 2 for t in totals]
    y = _padded(y, [-side for side in pads or [0] * 2 * axes])
    return y if b is None else y + b.reshape(-1, *[1] * axes)


def col2im(x, image, block, strides, pads, dilations):
    sizes = [i + low + high for i, low, high in zip(image.tolist(), pads[:2], pads[2:], strict=True)]
    y = F.fold(x, sizes, block.tolist(), dilations, 0, strides)
    return _padded(y, [-side for side in pads])


def max_pool(x, kernel_shape, strides=None, pads=None, dilations=None, ceil_mode=0):
    axes = x.ndim - 2
    strides, pads, dilations = strides or [1] * axes, pads or [0] * 2 * axes, dilations or 1
    return _MAX_POOL[axes](_padded(x, pads, -math.inf), kernel_shape, strides, 0, dilations, bool(ceil_mode))


def average_pool(x, kernel_shape, strides=None, pads=None, dilations=None, ceil_mode=0, count_include_pad=0):
    axes = x.ndim - 2
    strides, pads = strides or [1] * axes, pads or [0] * 2 * axes
    if dilations:
        w = torch.full((x.shape[1], 1, *kernel_shape), 1 / math.prod(kernel_shape), dtype=x.dtype)
        return _CONV[axes](x, w, None, strides, 0, dilations, x.shape[1])
    mean = _AVERAGE_POOL[axes](_padded(x, pads), kernel_shape, strides, 0, bool(ceil_mode))
    if count_include_pad or not any(pads):
        return mean
    return mean / _AVERAGE_POOL[axes](_padded(torch.ones_like(x), pads), kernel_shape, strides, 0)


def lp_pool(x, kernel_shape, p, strides=None, pads=None):
    means = average_pool(x.abs() ** p, kernel_shape, strides, pads, count_include_pad=1)
    return (means * math.prod(kernel_shape)) ** (1 / p)


def max_unpool(x, indices, kernel_shape, strides):
    return F.max_unpool2d(x, indices, kernel_shape, strides)


def _global(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, **more: f(x, tuple(range(2, x.ndim)), **more)


# ---- normalization, losses, attention -------------------------------------------------------------------------------


def batch_normalization(x, scale, b, mean, variance, epsilon, training_mode=0, momentum=None):
    if not training_mode:
        return F.batch_norm(x, mean, variance, scale, b, False, 0.0, epsilon)
    axes = (0, *range(2, x.ndim))
    means, variances = x.mean(axes), x.var(axes, correction=0)
    y = F.batch_norm(x, None, None, scale, b, True, 0.0, epsilon)
    return y, mean * momentum + means * (1 - momentum), variance * momentum + variances * (1 - momentum)


def layer_normalization(x, scale, b=None, *, axis, epsilon, stash_type):
    return F.layer_norm(x, x.shape[axis:], scale, b, epsilon)


def rms_normalization(x, scale, *, axis, epsilon, stash_type):
    return F.rms_norm(x, x.shape[axis:], scale, epsilon)


def group_normalization(x, scale, b, *, num_groups, epsilon, stash_type):
    return F.group_norm(x, num_groups, scale, b, epsilon)


def cross_entropy(x, labels, weights=None, *, reduction, ignore_index=-100):
    return (F.cross_entropy(x, labels, weights, reduction=reduction, ignore_index=ignore_index), F.log_softmax(x, 1))


def likelihood(x, labels, weights=None, *, reduction, ignore_index=-100):
    return F.nll_loss(x, labels, weights, reduction=reduction, ignore_index=ignore_index)


def _heads(x, count):
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)


def attention(
    q,
    k,
    v,
    mask=None,
    past_k=None,
    past_v=None,
    *,
    scale=None,
    is_causal=0,
    softcap=0.0,
    q_num_heads=0,
    kv_num_heads=0,
):
    if q_num_heads:
        q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    if past_k is not None:
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    if softcap:
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        y = torch.softmax(softcap * torch.tanh(scores / softcap), -1) @ v
    else:
        y = F.scaled_dot_product_attention(q, k, v, mask, 0.0, bool(is_causal), scale=scale, enable_gqa=True)
    return (y.transpose(1, 2).flatten(2) if q_num_heads else y), k, v


# ---- entry by entry, products -------------------------------------------------------------------------------------


def gemm(a, b, c=None, alpha=1.0, beta=1.0, transA=0, transB=0):
    y = alpha * ((a.T if transA else a) @ (b.T if transB else b))
    return y if c is None else y + beta * c


def shrink(x, lambd, bias):
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, 0 * x))


def hard_sigmoid(x, alpha, beta):
    return torch.clamp(alpha * x + beta, 0, 1)


_UNARY = {
    name: getattr(torch, name.lower())
    for name in (
        "Abs",
        "Acos",
        "Acosh",
        "Asin",
        "Asinh",
        "Atan",
        "Atanh",
        "Cos",
        "Cosh",
        "Erf",
        "Exp",
        "Log",
        "Neg",
        "Reciprocal",
        "Relu",
        "Sigmoid",
        "Sin",
        "Sinh",
        "Sqrt",
        "Tan",
        "Tanh",
    )
}


def _folded(f: Callable[..., Any]) -> Callable[..., Any]:
    def of_all(first, *others):
        for each in others:
            first = f(first, each)
        return first

    return of_all


# ---- shapes and indices -------------------------------------------------------------------------------------------


def resize(
    x,
    roi,
    scales=None,
    sizes=None,
    *,
    mode,
    coordinate_transformation_mode="half_pixel",
    antialias=0,
    nearest_mode="round_prefer_floor",
    cubic_coeff_a=-0.75,
    exclude_outside=0,
):
    axes = x.ndim - 2
    corners = coordinate_transformation_mode == "align_corners"
    size = None if sizes is None else sizes.tolist()[2:]
    factors = None if scales is None else scales.tolist()[2:]
    if mode == "nearest":
        return F.interpolate(x, size, mode="nearest" if nearest_mode == "floor" else "nearest-exact")
    name = {("linear", 1): "linear", ("linear", 2): "bilinear", ("cubic", 2): "bicubic"}[mode, axes]
    return F.interpolate(x, size, factors, name, align_corners=corners, antialias=bool(antialias))


def pad(x, pads, value=None, *, mode):
    sides = pads.tolist()
    name = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    if mode == "constant":
        return _padded(x, sides, 0.0 if value is None else value.item())
    assert sides[0] == sides[x.ndim] == 0
    return F.pad(x, [sides[axis + side] for axis in range(x.ndim - 1, 0, -1) for side in (0, x.ndim)], name)


def slice_(x, starts, ends, axes, steps):
    for start, end, axis, step in zip(*(each.tolist() for each in (starts, ends, axes, steps)), strict=True):
        places = range(x.shape[axis])[slice(start, end, step)]
        x = x.index_select(axis, torch.tensor(list(places)))
    return x


def depth_to_space(x, blocksize, mode):
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    n, c, h, w = x.shape
    y = x.reshape(n, blocksize, blocksize, -1, h, w).permute(0, 3, 4, 1, 5, 2)
    return y.reshape(n, -1, h * blocksize, w * blocksize)


def space_to_depth(x, blocksize):
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize).permute(0, 3, 5, 1, 2, 4)
    return y.reshape(n, -1, h // blocksize, w // blocksize)


def cumsum(x, axis, exclusive=0, reverse=0):
    axis = int(axis)
    x = x.flip(axis) if reverse else x
    y = x.cumsum(axis) - (x if exclusive else 0)
    return y.flip(axis) if reverse else y


def gather(x, indices, axis):
    y = x.index_select(axis, (indices % x.shape[axis]).flatten())
    return y.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def gather_nd(x, indices, batch_dims=0):
    if batch_dims:
        return torch.stack([gather_nd(each, at) for each, at in zip(x, indices, strict=True)])
    return x[tuple(indices.unbind(-1))]


def scatter_elements(x, indices, updates, axis, reduction=None):
    indices = indices % x.shape[axis]
    if reduction is None:
        return x.scatter(axis, indices, updates)
    return x.scatter_reduce(axis, indices, updates, {"add": "sum", "mul": "prod", "max": "amax"}[reduction])


def scatter_nd(x, indices, updates, reduction=None):
    return x.index_put(tuple(indices.unbind(-1)), updates, accumulate=reduction == "add")


def top_k(x, k, axis, largest=1):
    return tuple(torch.topk(x, int(k), axis, bool(largest)))


def grid_sample(x, grid, mode, padding_mode, align_corners):
    return F.grid_sample(x, grid, {"linear": "bilinear"}[mode], padding_mode, bool(align_corners))


def _reduced(f: Callable[..., Any]) -> Callable[..., Any]:
    def along(x, axes=None, keepdims=1):
        return f(x, tuple(range(x.ndim)) if axes is None else tuple(axes.tolist()), keepdim=bool(keepdims))

    return along


def _product(x, axes, keepdim):
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keepdim)
    return x


OPERATORS: dict[str, Callable[..., Any]] = _UNARY | {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Col2Im": col2im,
    "RNN": lambda *inputs, **more: recurrent("RNN", *inputs, **more),
    "GRU": lambda *inputs, **more: recurrent("GRU", *inputs, **more),
    "LSTM": lambda *inputs, **more: recurrent("LSTM", *inputs, **more),
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "LpPool": lp_pool,
    "MaxUnpool": max_unpool,
    "GlobalAveragePool": _global(lambda x, axes: x.mean(axes, keepdim=True)),
    "GlobalMaxPool": _global(lambda x, axes: x.amax(axes, keepdim=True)),
    "GlobalLpPool": _global(lambda x, axes, p: (x.abs() ** p).sum(axes, keepdim=True) ** (1 / p)),
    "BatchNormalization": batch_normalization,
    "LayerNormalization": layer_normalization,
    "InstanceNormalization": lambda x, scale, b, epsilon: F.instance_norm(x, None, None, scale, b, eps=epsilon),
    "GroupNormalization": group_normalization,
    "RMSNormalization": rms_normalization,
    "LRN": lambda x, size, alpha, beta, bias: F.local_response_norm(x, size, alpha, beta, bias),
    "LpNormalization": lambda x, axis, p: x / x.norm(p, axis, keepdim=True),
    "Softmax": lambda x, axis: torch.softmax(x, axis),
    "LogSoftmax": lambda x, axis: torch.log_softmax(x, axis),
    "SoftmaxCrossEntropyLoss": cross_entropy,
    "NegativeLogLikelihoodLoss": likelihood,
    "Attention": attention,
    "Gemm": gemm,
    "MatMul": torch.matmul,
    "Einsum": lambda *x, equation: torch.einsum(equation, *x),
    "LeakyRelu": lambda x, alpha: F.leaky_relu(x, alpha),
    "PRelu": lambda x, slope: torch.where(x < 0, slope * x, x),
    "Elu": lambda x, alpha: F.elu(x, alpha),
    "Selu": lambda x, alpha, gamma: gamma * F.elu(x, alpha),
    "Gelu": lambda x, approximate="none": F.gelu(x, approximate=approximate),
    "HardSigmoid": hard_sigmoid,
    "HardSwish": F.hardswish,
    "Mish": F.mish,
    "Softplus": F.softplus,
    "Softsign": F.softsign,
    "Swish": lambda x, alpha: x * torch.sigmoid(alpha * x),
    "ThresholdedRelu": lambda x, alpha: F.threshold(x, alpha, 0.0),
    "Shrink": shrink,
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "Pow": torch.pow,
    "Max": _folded(torch.maximum),
    "Min": _folded(torch.minimum),
    "Sum": _folded(torch.add),
    "Mean": lambda *x: _folded(torch.add)(*x) / len(x),
    "Where": torch.where,
    "Clip": torch.clamp,
    "Resize": resize,
    "Pad": pad,
    "Concat": lambda *x, axis: torch.cat(x, axis),
    "Split": lambda x, sizes, axis: torch.split(x, sizes.tolist(), axis),
    "Slice": slice_,
    "Expand": lambda x, shape: x + torch.zeros(shape.tolist(), dtype=x.dtype),
    "Tile": lambda x, repeats: x.repeat(repeats.tolist()),
    "Reshape": lambda x, shape: x.reshape(shape.tolist()),
    "Transpose": lambda x, perm: x.permute(perm),
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Trilu": lambda x, k, upper: torch.tril(x, int(k)),
    "CumSum": cumsum,
    "Gather": gather,
    "GatherElements": lambda x, indices, axis: torch.gather(x, axis, indices % x.shape[axis]),
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
    "GridSample": grid_sample,
    "ReduceSum": _reduced(torch.sum),
    "ReduceMean": _reduced(torch.mean),
    "ReduceMax": _reduced(torch.amax),
    "ReduceMin": _reduced(torch.amin),
    "ReduceProd": _reduced(_product),
    "ReduceL1": _reduced(lambda x, axes, keepdim: x.abs().sum(axes, keepdim)),
    "ReduceL2": _reduced(lambda x, axes, keepdim: torch.linalg.vector_norm(x, 2, axes, keepdim)),
    "ReduceLogSum": _reduced(lambda x, axes, keepdim: x.sum(axes, keepdim).log()),
    "ReduceLogSumExp": _reduced(torch.logsumexp),
    "ReduceSumSquare": _reduced(lambda x, axes, keepdim: x.square().sum(axes, keepdim)),
}
