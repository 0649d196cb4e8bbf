"""Cases of deformable convolution, with sampling positions away from the kinks at input positions."""

from __future__ import annotations

from typing import Any

import numpy as np

import naive_deformable as naive
from conformance.table import Layer, Op, Refusal, normal, uniform
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name


def places(*shape: int) -> np.ndarray:
    """Offsets between positions, to both sides."""
    return np.random.default_rng((1, *shape)).integers(-2, 2, shape) + uniform(0.2, 0.8, *shape)


def deformed(
    x: np.ndarray,
    offset: np.ndarray,
    w: np.ndarray,
    b: Any = None,
    stride: int = 1,
    padding: Any = 0,
    dilation: int = 1,
    mask: Any = None,
) -> np.ndarray:
    pairs = padding if isinstance(padding, tuple) else ((padding, padding),) * 2
    return naive.deform_conv(x, offset, mask, w, b, None, (stride,) * 2, pairs, (dilation,) * 2)[0]


def self_deformed(numbers: int, *arrays: np.ndarray) -> np.ndarray:
    """The layers that make their own offsets by a convolution with weights v and bias u."""
    x, w, b, v, u = arrays
    taps, wide = w.shape[2] * w.shape[3], np.zeros((len(x), 2 * w.shape[2] * w.shape[3], *x.shape[2:]))
    made = deformed(x, wide, v, u, 1, ((1, 1), (0, 0)))
    cut = len(v) // numbers * 2
    mask = None if numbers == 2 else 2 / (1 + np.exp(-made[:, cut:]))
    assert cut % (2 * taps) == 0
    return deformed(x, made[:, :cut], w, b, 1, ((1, 1), (0, 0)), 1, mask)


X, OFFSET, MASK = normal(2, 4, 2, 3), places(2, 16, 1, 2), uniform(0.3, 1.5, 2, 8, 1, 2)
LARGE = normal(2, 32, 12, 11), places(2, 36, 10, 9), uniform(0, 1, 2, 18, 10, 9)

OPERATORS = [
    Op(
        "deform_conv2d",
        lambda x, offset, w, b, mask: F.deform_conv2d(x, offset, w, b, mask=mask),
        X,
        OFFSET,
        normal(2, 2, 2, 2),
        normal(2),
        MASK,
        oracle=lambda x, offset, w, b, mask: deformed(x, offset, w, b, mask=mask),
        batch=(0, 1, 4),
        large=(*LARGE[:2], normal(34, 16, 3, 3), normal(34), LARGE[2]),
        rounding=1e-12,
        errors=[
            Refusal(
                ValueError,
                "deform_conv2d: mask.shape=(2, 7, 1, 2) must be (2, 8, 1, 2)",
                X,
                OFFSET,
                normal(2, 2, 2, 2),
                normal(2),
                MASK[:, :7],
            )
        ],
    ),
    Op(
        "deform_conv2d: no mask, options",
        F.deform_conv2d,
        X[:, :3],
        places(2, 8, 1, 3),
        normal(2, 3, 2, 2),
        None,
        2,
        ((0, 1), (2, 1)),
        1,
        oracle=deformed,
        batch=(0, 1),
        rounding=1e-12,
    ),
]

LAYERS = [
    Layer(
        "DeformConv2d",
        lambda: nn.DeformConv2d(4, 2, 2, groups=2),
        X,
        OFFSET,
        MASK,
        oracle=lambda x, offset, mask, w, b: deformed(x, offset, w, b, mask=mask),
        batch=(0, 1, 2),
        rounding=1e-12,
        order=1,
    ),
    *[
        Layer(
            type(made()).__name__,
            made,
            X[:1, :2],
            oracle=lambda *arrays, numbers=numbers: self_deformed(numbers, *arrays),
            rounding=1e-12,
            order=1,
        )
        for numbers, made in (
            (2, lambda: nn.DeformableConvolution(2, 2, (3, 1), padding=((1, 1), (0, 0)))),
            (3, lambda: nn.ModulatedDeformableConvolution(2, 2, (3, 1), padding=((1, 1), (0, 0)))),
        )
    ],
]
