"""Cases of operators on spatial axes: padding, windows, resampling, convolution."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import retrograd
from conformance.shape import linear
from conformance.table import Layer, Op, Refusal, normal, uniform
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

X1, X2, X3 = normal(2, 3, 5), normal(2, 2, 4, 5), normal(2, 1, 3, 3, 4)
BIG = normal(2, 20, 30, 31)
MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}  # NumPy's names


def padded(x: np.ndarray, pad: tuple[int, ...], mode: str = "constant", value: float | None = None) -> np.ndarray:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    keep = tuple(slice(max(0, -b), n - max(0, -a)) for n, (b, a) in zip(x.shape, pairs, strict=True))
    options = {"constant_values": value or 0} if mode == "constant" else {}
    grown = [(max(0, b), max(0, a)) for b, a in pairs]
    if not x.size:
        return np.zeros([n + b + a for n, (b, a) in zip(x.shape, pairs, strict=True)])
    return np.pad(x[keep], grown, MODES[mode], **options)


def columns(x: np.ndarray, kernel: int, dilation: int = 1, padding: int = 0, stride: int = 1) -> np.ndarray:
    """im2col, window by window."""
    p = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    reach = dilation * (kernel - 1) + 1
    found = [
        p[:, :, i : i + reach : dilation, j : j + reach : dilation].reshape(len(x), x.shape[1] * kernel * kernel)
        for i in range(0, p.shape[2] - reach + 1, stride)
        for j in range(0, p.shape[3] - reach + 1, stride)
    ]
    return np.stack(found, -1)


def image(y: np.ndarray, size: tuple[int, int], kernel: int, dilation: int, padding: int, stride: int) -> np.ndarray:
    """col2im: the transpose of ``columns``, one element of the image at a time."""
    channels = y.shape[1] // (kernel * kernel)
    x = np.zeros((len(y), channels, *size))
    for place in itertools.product(*map(range, (channels, *size))):
        unit = np.zeros((1, channels, *size))
        unit[(0, *place)] = 1
        x[(slice(None), *place)] = (y * columns(unit, kernel, dilation, padding, stride)).sum((1, 2))
    return x


def shuffled(x: np.ndarray, r: int) -> np.ndarray:
    n, c, h, w = x.shape
    y = np.empty((n, c // (r * r), h * r, w * r))
    for k, i, j in itertools.product(range(c // (r * r)), range(h * r), range(w * r)):
        y[:, k, i, j] = x[:, k * r * r + (i % r) * r + j % r, i // r, j // r]
    return y


def unshuffled(x: np.ndarray, r: int) -> np.ndarray:
    n, c, h, w = x.shape
    y = np.empty((n, c * r * r, h // r, w // r))
    for k, i, j in itertools.product(range(c), range(h), range(w)):
        y[:, k * r * r + (i % r) * r + j % r, i // r, j // r] = x[:, k, i, j]
    return y


def dealt(x: np.ndarray, groups: int) -> np.ndarray:
    each = x.shape[1] // groups
    return x[:, [g * each + k for k in range(each) for g in range(groups)]]


def keys(t: float, a: float = -0.75) -> float:
    t = abs(t)
    if t <= 1:
        return (a + 2) * t**3 - (a + 3) * t**2 + 1
    return a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a if t < 2 else 0.0


def weights(mode: str, extent: int, target: int, align: bool, step: float) -> np.ndarray:
    """The matrix (target, extent) of one axis, from the definition."""
    matrix = np.zeros((target, extent))
    for o in range(target):
        if mode == "nearest":
            matrix[o, int(o * step)] = 1
        elif mode == "nearest-exact":
            matrix[o, int((o + 0.5) * step)] = 1
        elif mode == "area":
            first, last = int(np.floor(o * extent / target)), int(np.ceil((o + 1) * extent / target))
            matrix[o, first:last] = 1 / (last - first)
        else:
            at = o * (extent - 1) / max(target - 1, 1) if align else (o + 0.5) * step - 0.5
            cubic = mode == "bicubic"
            at = at if cubic else min(max(at, 0.0), extent - 1.0)
            base = int(np.floor(at))
            for k in (-1, 0, 1, 2) if cubic else (0, 1):
                share = keys(at - base - k) if cubic else max(0.0, 1 - abs(at - base - k))
                matrix[o, min(max(base + k, 0), extent - 1)] += share
    return matrix


def resampled(
    x: np.ndarray, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> np.ndarray:
    count = x.ndim - 2
    factors = np.broadcast_to(scale_factor, count) if scale_factor is not None else None
    for k in range(count):
        extent = x.shape[2 + k]
        target = int(np.broadcast_to(size, count)[k]) if factors is None else int(extent * factors[k])
        step = extent / target if factors is None else 1 / factors[k]
        x = np.moveaxis(np.tensordot(weights(mode, extent, target, bool(align_corners), step), x, (1, 2 + k)), 0, 2 + k)
    return x


def shrunk(x: np.ndarray, size: tuple[int, ...], *_: Any) -> np.ndarray:
    """Bilinear with antialias: tents as wide as the step, each scaled to a sum of 1."""
    for k, target in enumerate(size):
        extent = x.shape[2 + k]
        step = extent / target
        centers = (np.arange(target)[:, None] + 0.5) * step
        tents = np.maximum(0, 1 - np.abs(np.arange(extent) + 0.5 - centers) / step)
        x = np.moveaxis(np.tensordot(tents / tents.sum(1, keepdims=True), x, (1, 2 + k)), 0, 2 + k)
    return x


def inside(at: float, extent: int, padding: str, align: bool) -> float:
    """A position with "border" or "reflection" applied to it."""
    if padding == "reflection":
        low, high = (0.0, extent - 1.0) if align else (-0.5, extent - 0.5)
        while not low <= at <= high:
            at = 2 * low - at if at < low else 2 * high - at
    return at if padding == "zeros" else min(max(at, 0.0), extent - 1.0)


def read(
    x: np.ndarray, grid: np.ndarray, mode: str = "bilinear", padding: str = "zeros", align: bool = False
) -> np.ndarray:
    """grid_sample, from the weights of all elements along each axis."""
    extents = x.shape[2:]
    y = np.zeros((*x.shape[:2], *grid.shape[1:-1]))
    for place in itertools.product(*map(range, (len(x), *grid.shape[1:-1]))):
        part = x[place[0]]
        for k in reversed(range(len(extents))):
            extent, u = extents[k], grid[place][len(extents) - 1 - k]
            at = (u + 1) / 2 * (extent - 1) if align else ((u + 1) * extent - 1) / 2
            share = np.zeros(extent)
            if mode == "bicubic":
                base = int(np.floor(at))
                for tap in range(base - 1, base + 3):  # each tap is brought inside
                    share[int(inside(tap, extent, padding, align))] += keys(at - tap)
            else:
                share = np.maximum(0, 1 - np.abs(np.arange(extent) - inside(at, extent, padding, align)))
            part = np.tensordot(part, share, (1 + k, 0))
        y[(place[0], slice(None), *place[1:])] = part
    return y


def affine(theta: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    _, _, h, w = size
    y = np.zeros((len(theta), h, w, 2))
    for i, j in itertools.product(range(h), range(w)):
        y[:, i, j] = theta @ np.array([(2 * j + 1) / w - 1, (2 * i + 1) / h - 1, 1.0])
    return y


PADDING = [
    *[
        linear(f"pad: {mode} {pad}", F.pad, x, pad, mode, oracle=padded)
        for mode in MODES
        for x, pad in ((X1, (2, 1)), (X2, (1, 0, 2, 1)), (X3, (1, 1, 0, 1, 2, 0)), (X1, (-1, 2)))
    ],
    linear(
        "constant_pad_nd",
        retrograd.constant_pad_nd,
        X2,
        (1, 0, -1, 2),
        0.5,
        oracle=lambda x, pad, value: padded(x, pad, "constant", value),
        errors=[
            Refusal(ValueError, "constant_pad_nd: pad=(1,) must have two numbers for each of the last axes", X1, (1,)),
            Refusal(TypeError, "constant_pad_nd: value is str, needs a number", X1, (1, 1), "a"),
        ],
    ),
    linear("constant_pad_nd: zeros", retrograd.constant_pad_nd, X1, (1, 2), oracle=padded),
    linear("pad: any axes", F.pad, X1, (0, 1, -1, 1, 2, 0), "constant", 0.5, oracle=padded, batch=()),
    linear(
        "pad",
        F.pad,
        X2,
        (1, 2),
        oracle=padded,
        errors=[
            Refusal(
                ValueError,
                "pad: mode='mirror' must be one of constant, reflect, replicate, circular",
                X1,
                (1, 1),
                "mirror",
            ),
            Refusal(ValueError, "pad: pad=(1,) must have two numbers for each of the last axes", X1, (1,)),
            Refusal(TypeError, "pad: pad=(1.5, 2) must be a sequence of ints", X1, (1.5, 2)),
            Refusal(TypeError, "pad: value is str, needs a number", X1, (1, 1), "constant", "a"),
            Refusal(ValueError, "pad: value=1.0 is for mode='constant'", X1, (1, 1), "reflect", 1.0),
            Refusal(ValueError, "pads the last 1, 2 or 3 axes", X2, (1, 1), "reflect"),
            Refusal(
                ValueError,
                "pad: (5, 0) does not fit axis 2 of input.shape=(2, 3, 5): mode='reflect' adds at most 4",
                X1,
                (5, 0),
                "reflect",
            ),
            Refusal(ValueError, "pad: pad cuts off more than input.shape=(2, 3, 5) has", X1, (-3, -3)),
        ],
    ),
]

WINDOWS = [
    linear(
        "unfold",
        F.unfold,
        X2,
        2,
        1,
        1,
        2,
        oracle=columns,
        errors=[
            Refusal(ValueError, "unfold: input.shape=(5,), needs (N, C, H, W) or (C, H, W)", X1[0, 0], 2),
            Refusal(TypeError, "unfold: kernel_size=(1, 2, 3) must be an int or a pair of ints", X2, (1, 2, 3)),
            Refusal(ValueError, "unfold: stride=0 must be at least 1", X2, 2, stride=0),
            Refusal(ValueError, "unfold: no window fits: the padded extents are (4, 5), kernel_size=(6, 6)", X2, 6),
        ],
    ),
    linear("unfold: dilated", F.unfold, X2, 2, 2, 0, 1, oracle=columns),
    linear(
        "unfold: along an axis",
        lambda x: x.unfold(2, 3, 2),
        X1,
        arrays=True,
        oracle=lambda x: np.stack([x[:, :, i : i + 3] for i in (0, 2)], 2),
        errors=[],
    ),
    linear(
        "fold",
        F.fold,
        normal(2, 8, 9),
        (4, 5),
        2,
        1,
        1,
        2,
        oracle=image,
        errors=[
            Refusal(
                ValueError,
                "fold: input.shape=(2, 7, 9) must have a multiple of 4 rows and 3 * 3 = 9 columns",
                normal(2, 7, 9),
                (4, 5),
                2,
                1,
                1,
                2,
            ),
            Refusal(ValueError, "fold: input.shape=(5,), needs (N, C*R, L) or (C*R, L)", X1[0, 0], 4, 2),
        ],
    ),
    linear(
        "pixel_shuffle",
        F.pixel_shuffle,
        normal(2, 8, 2, 3),
        2,
        oracle=shuffled,
        errors=[
            Refusal(
                ValueError,
                "pixel_shuffle: input.shape=(2, 2, 4, 5) must be (..., C*r*r, H, W) for upscale_factor r=2",
                X2,
                2,
            )
        ],
    ),
    linear(
        "pixel_unshuffle",
        F.pixel_unshuffle,
        normal(2, 2, 4, 6),
        2,
        oracle=unshuffled,
        errors=[Refusal(ValueError, "pixel_unshuffle: input.shape=(2, 2, 4, 5) must be (..., C, H*r, W*r)", X2, 2)],
    ),
    linear(
        "channel_shuffle",
        F.channel_shuffle,
        normal(2, 6, 2, 3),
        3,
        oracle=dealt,
        errors=[
            Refusal(
                ValueError,
                "channel_shuffle: input.shape=(2, 2, 4, 5) must be (N, C, *I) with C a multiple of groups=3",
                X2,
                3,
            )
        ],
    ),
]

RESAMPLING = [
    *[
        Op(
            f"interpolate: {mode} {x.ndim - 2}d {size} {align}",
            F.interpolate,
            x,
            size,
            None,
            mode,
            align,
            oracle=resampled,
            linear=True,
        )
        for mode, x, align in (
            ("nearest", X1, None),
            ("nearest", X3, None),
            ("nearest-exact", X2, None),
            ("area", X2, None),
            ("linear", X1, None),
            ("linear", X1, True),
            ("bilinear", X2, False),
            ("bilinear", X2, True),
            ("trilinear", X3, None),
            ("bicubic", X2, None),
            ("bicubic", X2, True),
        )
        for size in (3, 7)
    ],
    Op(
        "interpolate",
        F.interpolate,
        X2,
        None,
        (1.5, 0.7),
        "bilinear",
        oracle=resampled,
        linear=True,
        large=(BIG, None, (1.7, 1.3), "bicubic"),
        errors=[
            Refusal(ValueError, "interpolate: mode='cubic' must be one of nearest", X2, 3, None, "cubic"),
            Refusal(
                ValueError,
                "interpolate: mode='bilinear' is for inputs (N, C, *I) with 2 axes in I",
                X1,
                3,
                None,
                "bilinear",
            ),
            Refusal(
                ValueError,
                "interpolate: align_corners=True is not available for mode='nearest'",
                X2,
                3,
                align_corners=True,
            ),
            Refusal(
                ValueError,
                "interpolate: antialias=True needs mode='bilinear' or 'bicubic'",
                X2,
                3,
                antialias=True,
            ),
            Refusal(ValueError, "interpolate: give either size or scale_factor; got size=None, scale_factor=None", X2),
            Refusal(TypeError, "interpolate: size=1.5 must be an int or several", X2, 1.5),
            Refusal(TypeError, "interpolate: scale_factor='a' must be a number or several", X2, None, "a"),
            Refusal(
                ValueError,
                "interpolate: size=(1, 2, 3) must be one number or one for each of the 2 axes",
                X2,
                (1, 2, 3),
            ),
            Refusal(ValueError, "interpolate: scale_factor=-1.0 must be above 0", X2, None, -1.0),
            Refusal(ValueError, "recompute_scale_factor=True needs scale_factor", X2, 3, recompute_scale_factor=True),
            Refusal(ValueError, "and the new extents (0, 3) must be at least 1", X2, (0, 3)),
        ],
    ),
    Op(
        "interpolate: shrunk by a lot",
        F.interpolate,
        normal(1, 2, 9, 11),
        (2, 3),
        None,
        "bilinear",
        None,
        None,
        True,
        oracle=shrunk,
        linear=True,
        batch=(0,),
        large=(BIG, (7, 9), None, "bicubic", None, None, True),
    ),
    *[
        Op(
            f"upsample_{mode}",
            getattr(F, f"upsample_{mode}"),
            X2,
            None,
            2,
            linear=True,
            oracle=lambda x, size, factor, mode=mode, align=align: resampled(x, size, factor, mode, align),
        )
        for mode, align in (("nearest", None), ("bilinear", True))
    ],
    Op("upsample", F.upsample, X2, None, 2, oracle=resampled, linear=True, large=(BIG, None, 2)),
    Op(
        "grid_sample",
        F.grid_sample,
        X2,
        uniform(-1.3, 1.3, 2, 1, 3, 2),
        oracle=read,
        batch=(0, 1),
        errors=[
            Refusal(ValueError, "grid_sample: mode='cubic' must be one of bilinear, nearest, bicubic", X2, X2, "cubic"),
            Refusal(
                ValueError,
                "grid_sample: padding_mode='wrap' must be one of zeros, border, reflection",
                X2,
                X2,
                padding_mode="wrap",
            ),
            Refusal(ValueError, "grid_sample: input.shape=(2, 2, 4, 5), grid.shape=(2, 2, 4, 5) must be", X2, X2),
        ],
    ),
    *[
        Op(
            f"grid_sample: {mode} {padding}",
            F.grid_sample,
            x,
            uniform(-1.7, 1.7, 2, *[1] * (x.ndim - 3), 2, x.ndim - 2),
            mode,
            padding,
            align,
            oracle=read,
            batch=(0, 1),
        )
        for x, mode, padding, align in (
            (X2[:, :1], "bicubic", "reflection", False),
            (X2, "bilinear", "border", True),
            (X3[:, :, :2], "bilinear", "reflection", True),
        )
    ],
    Op(
        "affine_grid",
        F.affine_grid,
        normal(2, 2, 3),
        (2, 1, 2, 3),
        oracle=affine,
        batch=(),
        linear=True,
        errors=[
            Refusal(
                ValueError,
                "affine_grid: theta.shape=(2, 3, 5), size=(2, 1, 3, 4) must be (N, 2, 3) and (N, C, H, W)",
                X1,
                (2, 1, 3, 4),
            )
        ],
    ),
]


def convolved(
    x: np.ndarray, w: np.ndarray, b: Any, stride: int, padding: int, dilation: int, groups: int
) -> np.ndarray:
    """The definition, tap by tap, through the oracle of the kernels."""
    axes = x.ndim - 2
    p = np.pad(x, ((0, 0), (0, 0), *((padding, padding),) * axes))
    out = [(n - dilation * (r - 1) - 1) // stride + 1 for n, r in zip(p.shape[2:], w.shape[2:], strict=True)]
    y = np.zeros((len(x), len(w), *out))
    per = w.shape[1]
    each = len(w) // groups
    for o in range(len(w)):
        chosen = p[:, o // each * per : (o // each + 1) * per]
        for tap in np.ndindex(*w.shape[2:]):
            box = tuple(
                slice(t * dilation, t * dilation + (n - 1) * stride + 1, stride) for t, n in zip(tap, out, strict=True)
            )
            y[:, o] += np.einsum("nc...,c->n...", chosen[(slice(None), slice(None), *box)], w[(o, slice(None), *tap)])
    return y + b.reshape(-1, *[1] * axes)


def transposed(x: np.ndarray, w: np.ndarray, b: Any, stride: int, padding: int) -> np.ndarray:
    axes = x.ndim - 2
    full = [(n - 1) * stride + r for n, r in zip(x.shape[2:], w.shape[2:], strict=True)]
    y = np.zeros((len(x), w.shape[1], *full))
    for tap in np.ndindex(*w.shape[2:]):
        box = tuple(slice(t, t + (n - 1) * stride + 1, stride) for t, n in zip(tap, x.shape[2:], strict=True))
        y[(slice(None), slice(None), *box)] += np.einsum("nc...,co->no...", x, w[(slice(None), slice(None), *tap)])
    keep = tuple(slice(padding, n - padding) for n in full)
    return y[(slice(None), slice(None), *keep)] + b.reshape(-1, *[1] * axes)


CONVOLUTIONS = [
    *[
        Op(
            f"conv{n}d",
            getattr(F, f"conv{n}d"),
            x,
            normal(4, x.shape[1] // groups, *[2] * n),
            normal(4),
            2,
            1,
            1,
            groups,
            oracle=convolved,
            batch=(0,),
        )
        for n, x, groups in ((1, X1[:, :2], 2), (2, X2, 1), (3, X3, 1))
    ],
    *[
        Op(
            f"conv_transpose{n}d",
            getattr(F, f"conv_transpose{n}d"),
            x,
            normal(x.shape[1], 2, *[3] * n),
            normal(2),
            2,
            1,
            oracle=transposed,
            batch=(0,),
        )
        for n, x in ((1, X1), (2, X2), (3, X3))
    ],
    Op(
        "conv2d: reflect",
        F.conv2d,
        X2,
        normal(2, X2.shape[1], 3, 2),
        normal(2),
        kwargs={"padding": ((1, 2), (0, 1)), "padding_mode": "reflect", "stride": 2},
        oracle=lambda x, w, b, **_: convolved(np.pad(x, ((0, 0), (0, 0), (1, 2), (0, 1)), "reflect"), w, b, 2, 0, 1, 1),
        batch=(0,),
    ),
    Op(
        "conv_transpose2d: circular",
        F.conv_transpose2d,
        X2,
        normal(X2.shape[1], 2, 3, 3),
        normal(2),
        kwargs={"padding": "same", "padding_mode": "circular", "stride": 2},
        # one position more on each side of x, two more of y: they are cut off with what "same" cuts off, 0 and 1
        oracle=lambda x, w, b, **_: transposed(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "wrap"), w, b, 2, 2)[
            :, :, :-1, :-1
        ],
        batch=(0,),
    ),
]

OPERATORS = [*PADDING, *WINDOWS, *RESAMPLING, *CONVOLUTIONS]

LAYERS = [
    *[
        Layer(
            f"{kind}Pad{n}d",
            lambda kind=kind, n=n: getattr(nn, f"{kind}Pad{n}d")(1, *([2.5] if kind == "Constant" else [])),
            x,
            oracle=lambda x, n=n, mode=mode, kind=kind: padded(
                x, (1,) * 2 * n, mode, 2.5 if kind == "Constant" else None
            ),
            integers=True,
            linear=True,
            errors=[Refusal(ValueError, f"{kind}Pad{n}d: input has 1 axes, needs {n + 1} or {n + 2}", X1[0, 0])],
        )
        for kind, mode in (
            ("Constant", "constant"),
            ("Zero", "constant"),
            ("Reflection", "reflect"),
            ("Replication", "replicate"),
            ("Circular", "circular"),
        )
        for n, x in ((1, X1), (2, X2), (3, X3 if kind != "Circular" else X3))
    ],
    *[
        Layer(
            f"Conv{n}d",
            lambda n=n, x=x: getattr(nn, f"Conv{n}d")(x.shape[1], 2, 3, padding=1),
            x,
            oracle=lambda x, w, b: convolved(x, w, b, 1, 1, 1, 1),
        )
        for n, x in ((1, X1), (2, X2), (3, X3))
    ],
    Layer(
        "Conv1d: activation",
        lambda: nn.Conv1d(X1.shape[1], 2, 3, padding="causal", activation="softsign"),
        X1,
        oracle=lambda x, w, b: (y := convolved(np.pad(x, ((0, 0), (0, 0), (2, 0))), w, b, 1, 0, 1, 1)) / (1 + abs(y)),
    ),
    *[
        Layer(
            f"ConvTranspose{n}d",
            lambda n=n, x=x: getattr(nn, f"ConvTranspose{n}d")(x.shape[1], 2, 2, stride=2),
            x,
            oracle=lambda x, w, b: transposed(x, w, b, 2, 0),
        )
        for n, x in ((1, X1), (2, X2), (3, X3))
    ],
    Layer(
        "Upsample",
        lambda: nn.Upsample(scale_factor=2, mode="bilinear"),
        X2,
        linear=True,
        oracle=lambda x: resampled(x, None, 2, "bilinear"),
    ),
    Layer("UpsamplingNearest2d", lambda: nn.UpsamplingNearest2d(7), X2, linear=True, oracle=lambda x: resampled(x, 7)),
    Layer(
        "UpsamplingBilinear2d",
        lambda: nn.UpsamplingBilinear2d(scale_factor=2),
        X2,
        linear=True,
        oracle=lambda x: resampled(x, None, 2, "bilinear", True),
    ),
    Layer(
        "PixelShuffle",
        lambda: nn.PixelShuffle(2),
        normal(2, 8, 2, 3),
        linear=True,
        integers=True,
        oracle=lambda x: shuffled(x, 2),
    ),
    Layer(
        "PixelUnshuffle",
        lambda: nn.PixelUnshuffle(2),
        normal(2, 2, 4, 2),
        linear=True,
        integers=True,
        oracle=lambda x: unshuffled(x, 2),
    ),
    Layer(
        "ChannelShuffle",
        lambda: nn.ChannelShuffle(3),
        normal(2, 6, 2, 3),
        linear=True,
        integers=True,
        oracle=lambda x: dealt(x, 3),
    ),
    Layer(
        "Unfold", lambda: nn.Unfold(2, padding=1, stride=2), X2, linear=True, oracle=lambda x: columns(x, 2, 1, 1, 2)
    ),
    Layer(
        "Fold",
        lambda: nn.Fold((4, 5), 2, padding=1, stride=2),
        normal(2, 8, 9),
        linear=True,
        oracle=lambda y: image(y, (4, 5), 2, 1, 1, 2),
    ),
]
