from __future__ import annotations

import numpy as np

from conformance.table import Layer, Op, Refusal, normal, uniform
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

X, ROWS = normal(3, 4, 2, 3), normal(3, 5)
W, B = uniform(0.5, 1.5, 4), normal(4)
IMAGES, SEQUENCES = normal(2, 24, 23, 22), normal(9, 47, 65)  # more than one task
ROUNDING = 1e-12


def standard(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    count = np.prod([x.shape[a] for a in axes])
    mean = x.sum(axes, keepdims=True) / count
    return (x - mean) / np.sqrt(((x - mean) ** 2).sum(axes, keepdims=True) / count + eps)


def column(w: np.ndarray, x: np.ndarray) -> np.ndarray:
    return w.reshape((-1,) + (1,) * (x.ndim - 2))


def batch(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return standard(x, (0, *range(2, x.ndim))) * column(w, x) + column(b, x)


def fixed(x: np.ndarray, mean: np.ndarray, var: np.ndarray, *affine: np.ndarray) -> np.ndarray:
    w, b = affine or (np.ones_like(mean), np.zeros_like(mean))
    return (x - column(mean, x)) / np.sqrt(column(var, x) + 1e-5) * column(w, x) + column(b, x)


def grouped(groups: int, x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    parts = [standard(part, tuple(range(1, x.ndim))) for part in np.split(x, groups, 1)]
    return np.concatenate(parts, 1) * column(w, x) + column(b, x)


def instance(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return standard(x, tuple(range(2, x.ndim))) * column(w, x) + column(b, x)


def root_mean_square(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    axes = tuple(range(x.ndim - w.ndim, x.ndim))
    return x / np.sqrt((x * x).mean(axes, keepdims=True) + 1e-3) * w


def neighbors(x: np.ndarray, size: int, alpha: float, beta: float, k: float) -> np.ndarray:
    y = np.empty_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(0, c - size // 2) : c + (size - 1) // 2 + 1]
        y[:, c] = x[:, c] / (k + alpha / size * (near**2).sum(1)) ** beta
    return y


OPERATORS = [
    Op(
        "batch_norm",
        lambda x, w, b: F.batch_norm(x, None, None, w, b),
        X,
        W,
        B,
        oracle=batch,
        batch=(),
        rounding=ROUNDING,
        large=(IMAGES, normal(24), normal(24)),
    ),
    Op("batch_norm: fixed", F.batch_norm, X, B, W, oracle=fixed, rounding=ROUNDING),
    Op(
        "instance_norm",
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        X,
        W,
        B,
        oracle=instance,
        rounding=ROUNDING,
        large=(IMAGES, normal(24), normal(24)),
        errors=[
            Refusal(ValueError, "each channel has 1 position", X[:, :, :1, :1], W, B),
            Refusal(ValueError, "instance_norm: weight.shape=(3,), needs (4,)", X, W[:3], B),
        ],
    ),
    Op(
        "instance_norm: fixed",
        lambda x, m, v, w, b: F.instance_norm(x, m, v, w, b, use_input_stats=False),
        X,
        B,
        W,
        W,
        B,
        oracle=fixed,
        rounding=ROUNDING,
    ),
    Op(
        "group_norm",
        lambda x, w, b, groups=2: F.group_norm(x, groups, w, b),
        X,
        W,
        B,
        oracle=lambda x, w, b: grouped(2, x, w, b),
        rounding=ROUNDING,
        large=(IMAGES, normal(24), normal(24)),
        errors=[
            Refusal(ValueError, "num_groups=3 must be an int that divides the 4 channels", X, W, B, groups=3),
            Refusal(ValueError, "num_groups=0 must be an int", X, W, B, groups=0),
            Refusal(ValueError, "group_norm: bias.shape=(3,), needs (4,)", X, W, B[:3]),
            Refusal(ValueError, "input.shape=(4,) needs at least 2 axes", B, W, B),
            Refusal(ValueError, "has 1 element to take statistics over", X[:1, :, :1, :1], W, B, groups=4),
        ],
    ),
    Op(
        "group_norm: rows",
        lambda x, w, b: F.group_norm(x, 2, w, b),
        normal(3, 4),
        W,
        B,
        oracle=lambda x, w, b: grouped(2, x, w, b),
        rounding=ROUNDING,
        large=(normal(600, 64), normal(64), normal(64)),
    ),
    Op(
        "layer_norm",
        lambda x, w, b: F.layer_norm(x, w.shape, w, b),
        ROWS,
        normal(5),
        normal(5, seed=1),
        oracle=lambda x, w, b: standard(x, tuple(range(x.ndim - w.ndim, x.ndim))) * w + b,
        rounding=ROUNDING,
        large=(SEQUENCES, normal(65), normal(65)),
        errors=[
            Refusal(ValueError, "normalized_shape=(4,) must be the last extents of input.shape=(3, 5)", ROWS, W, B),
            Refusal(ValueError, "layer_norm: bias.shape=(4,) must be normalized_shape=(5,)", ROWS, normal(5), B),
        ],
    ),
    Op(
        "layer_norm: several axes",
        lambda x, w, b: F.layer_norm(x, (4, 2, 3), w, b),
        X,
        normal(4, 2, 3),
        normal(4, 2, 3),
        oracle=lambda x, w, b: standard(x, (1, 2, 3)) * w + b,
        rounding=ROUNDING,
    ),
    Op(
        "layer_norm: plain",
        lambda x: F.layer_norm(x, 5, eps=1e-3),
        ROWS,
        oracle=lambda x: standard(x, (1,), 1e-3),
        rounding=ROUNDING,
        large=(normal(7000, 5),),
        errors=[Refusal(ValueError, "normalized_shape=(5,) must be the last extents of", ROWS[:, 1:])],
    ),
    Op(
        "rms_norm",
        lambda x, w: F.rms_norm(x, w.shape, w, 1e-3),
        ROWS,
        normal(5),
        oracle=root_mean_square,
        rounding=ROUNDING,
        large=(SEQUENCES, normal(65)),
        errors=[Refusal(ValueError, "rms_norm: normalized_shape=(4,) must be the last", ROWS, W)],
    ),
    Op(
        "rms_norm: several axes",
        lambda x, w: F.rms_norm(x, (2, 3), w, 1e-3),
        X,
        normal(2, 3),
        oracle=root_mean_square,
        rounding=ROUNDING,
    ),
    Op(
        "local_response_norm",
        lambda x, size=3: F.local_response_norm(x, size, 0.5, 0.75, 2.0),
        X,
        oracle=lambda x: neighbors(x, 3, 0.5, 0.75, 2.0),
        large=(IMAGES,),
        integers=True,
        errors=[
            Refusal(ValueError, "size=0 must be an int of at least 1", X, size=0),
            Refusal(ValueError, "needs at least 3 axes", ROWS),
        ],
    ),
    Op(
        "local_response_norm: even size",
        lambda x: F.local_response_norm(x, 4),
        X[:, :, 0],
        oracle=lambda x: neighbors(x, 4, 1e-4, 0.75, 1.0),
    ),
    Op(
        "normalize",
        F.normalize,
        ROWS,
        oracle=lambda x: x / np.sqrt((x**2).sum(1, keepdims=True)),
        errors=[Refusal(IndexError, "normalize: dim=2 is out of range", ROWS, dim=2)],
    ),
    Op(
        "normalize: small",
        lambda x: F.normalize(x, p=1.0, dim=0, eps=3.0),
        ROWS,
        oracle=lambda x: x / np.maximum(np.abs(x).sum(0, keepdims=True), 3.0),
        batch=(),
    ),
]

LAYERS = [
    Layer("BatchNorm1d", lambda: nn.BatchNorm1d(5), ROWS, oracle=batch, batch=(), rounding=ROUNDING),
    Layer(
        "BatchNorm1d: plain",
        lambda: nn.BatchNorm1d(5, affine=False),
        normal(3, 5, 2),
        batch=(),
        rounding=ROUNDING,
        oracle=lambda x: standard(x, (0, 2)),
    ),
    Layer(
        "BatchNorm1d: eval",
        lambda: nn.BatchNorm1d(5),
        ROWS,
        train=False,
        rounding=ROUNDING,
        oracle=lambda x, w, b: x / np.sqrt(1 + 1e-5) * w + b,
    ),
    Layer("BatchNorm2d", lambda: nn.BatchNorm2d(4, momentum=None), X, oracle=batch, batch=(), rounding=ROUNDING),
    Layer(
        "BatchNorm2d: no statistics",
        lambda: nn.BatchNorm2d(4, track_running_stats=False),
        X,
        train=False,
        oracle=batch,
        batch=(),
        rounding=ROUNDING,
    ),
    Layer(
        "BatchNorm3d",
        lambda: nn.BatchNorm3d(4, bias=False),
        X[:, :, None],
        batch=(),
        rounding=ROUNDING,
        oracle=lambda x, w: batch(x, w, 0 * w),
    ),
    Layer("InstanceNorm1d", lambda: nn.InstanceNorm1d(4, affine=True), X[:, :, 0], oracle=instance, rounding=ROUNDING),
    Layer(
        "InstanceNorm1d: one sample",
        lambda: nn.InstanceNorm1d(4),
        X[0, :, 0],
        batch=(),
        rounding=ROUNDING,
        oracle=lambda x: standard(x, (1,)),
    ),
    Layer(
        "InstanceNorm2d",
        lambda: nn.InstanceNorm2d(4, track_running_stats=True),
        X,
        rounding=ROUNDING,
        oracle=lambda x: standard(x, (2, 3)),
    ),
    Layer(
        "InstanceNorm2d: eval",
        lambda: nn.InstanceNorm2d(4, track_running_stats=True),
        X,
        train=False,
        rounding=ROUNDING,
        oracle=lambda x: x / np.sqrt(1 + 1e-5),
    ),
    Layer(
        "InstanceNorm3d", lambda: nn.InstanceNorm3d(4, affine=True), X[:, :, None], oracle=instance, rounding=ROUNDING
    ),
    Layer(
        "GroupNorm",
        lambda: nn.GroupNorm(2, 4),
        X,
        oracle=lambda x, w, b: grouped(2, x, w, b),
        rounding=ROUNDING,
        errors=[Refusal(ValueError, "needs (N, 4, ...): num_channels in axis 1", X[:, :2])],
    ),
    Layer(
        "GroupNorm: plain",
        lambda: nn.GroupNorm(1, 4, affine=False),
        X,
        rounding=ROUNDING,
        oracle=lambda x: standard(x, (1, 2, 3)),
    ),
    Layer(
        "LayerNorm", lambda: nn.LayerNorm(5), ROWS, oracle=lambda x, w, b: standard(x, (1,)) * w + b, rounding=ROUNDING
    ),
    Layer(
        "LayerNorm: no bias",
        lambda: nn.LayerNorm((2, 3), bias=False),
        X,
        rounding=ROUNDING,
        oracle=lambda x, w: standard(x, (2, 3)) * w,
    ),
    Layer(
        "LayerNorm: plain",
        lambda: nn.LayerNorm(3, elementwise_affine=False),
        X,
        rounding=ROUNDING,
        oracle=lambda x: standard(x, (3,)),
    ),
    Layer("RMSNorm", lambda: nn.RMSNorm(5, eps=1e-3), ROWS, oracle=root_mean_square, rounding=ROUNDING),
    Layer(
        "LocalResponseNorm",
        lambda: nn.LocalResponseNorm(3, 0.5, 0.6, 2.0),
        X,
        oracle=lambda x: neighbors(x, 3, 0.5, 0.6, 2.0),
        integers=True,
    ),
]
