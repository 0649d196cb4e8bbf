"""Cases of retrograd.nn.grad: the gradients of convolution and transposed convolution as functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import naive
from conformance.table import Op, Refusal, normal
from retrograd.nn import grad

SIZES = {1: (4,), 2: (3, 2), 3: (2, 1, 3)}
N, CI, CO = 2, 2, 4


def geometry(n: int) -> Any:
    """stride, padding, dilation and groups of the entries here, as the oracle takes them."""
    return (2,) * n, ((1, 1),) * n, (1,) * n, 2


def to_input(x: tuple[int, ...], w: np.ndarray, g: np.ndarray, *_: Any) -> np.ndarray:
    return naive.conv_input_grad(g, w, None, x[2:], *geometry(len(x) - 2))


def to_weight(x: np.ndarray, w: tuple[int, ...], g: np.ndarray, *_: Any) -> np.ndarray:
    return naive.conv_weight_grad(x, g, w[2:], *geometry(len(w) - 2))


def each(x: np.ndarray, w: tuple[int, ...], g: np.ndarray, *_: Any) -> np.ndarray:
    rows = [to_weight(x[n : n + 1], w, g[n : n + 1]) for n in range(len(x))]
    return np.stack(rows) if rows else np.zeros((0, *w))


def transposed_to_input(x: tuple[int, ...], w: np.ndarray, g: np.ndarray, *_: Any) -> np.ndarray:
    return naive.conv(g, w, None, *geometry(len(x) - 2))


def transposed_to_weight(x: np.ndarray, w: tuple[int, ...], g: np.ndarray, *_: Any) -> np.ndarray:
    return naive.conv_weight_grad(g, x, w[2:], *geometry(len(w) - 2))


def to_bias(g: np.ndarray) -> np.ndarray:
    return np.array([g[:, k].sum() for k in range(g.shape[1])])


def all_three(g: np.ndarray, x: np.ndarray, w: np.ndarray, *_: Any) -> tuple[np.ndarray, ...]:
    return to_input(x.shape, w, g), to_weight(x, w.shape, g), to_bias(g)


def entries(n: int) -> list[Op]:
    """Kernels of 3, stride 2, padding 1 and 2 groups: of convolution, O = (I - 1)//2 + 1."""
    size, taps = SIZES[n], (3,) * n
    x, w, g = normal(N, CI, *size), normal(CO, CI // 2, *taps), normal(N, CO, *((i - 1) // 2 + 1 for i in size))
    wt, gt = normal(CI, CO // 2, *taps, seed=1), normal(N, CO, *(2 * i - 1 for i in size), seed=1)
    f, t = f"conv{n}d", f"conv_transpose{n}d"
    options = 2, 1, 1, 2  # stride, padding, dilation, groups
    turned = 2, 1, 0, 2  # stride, padding, output_padding, groups
    per_sample = {"per_sample": True}
    fixed: dict[str, Any] = {"linear": True, "batch": ()}
    return [
        Op(f"{f}_input", getattr(grad, f"{f}_input"), x.shape, w, g, *options, oracle=to_input, **fixed),
        Op(
            f"{f}_weight",
            getattr(grad, f"{f}_weight"),
            x,
            w.shape,
            g,
            *options,
            oracle=to_weight,
            linear=True,
            batch=(0, 1),
        ),
        Op(
            f"{f}_weight: per sample",
            getattr(grad, f"{f}_weight"),
            x,
            w.shape,
            g,
            *options,
            kwargs=per_sample,
            oracle=lambda x, w, g, *_, **__: each(x, w, g),
            linear=True,
            batch=(0, 1),
        ),
        Op(f"{f}_bias", getattr(grad, f"{f}_bias"), g, oracle=to_bias, linear=True),
        Op(f"{t}_input", getattr(grad, f"{t}_input"), x.shape, wt, gt, *turned, oracle=transposed_to_input, **fixed),
        Op(
            f"{t}_weight",
            getattr(grad, f"{t}_weight"),
            x,
            wt.shape,
            gt,
            *turned,
            oracle=transposed_to_weight,
            linear=True,
            batch=(0, 1),
        ),
        Op(f"{t}_bias", getattr(grad, f"{t}_bias"), gt, oracle=to_bias, linear=True),
    ]


X, W, G = normal(2, 2, 3, 3), normal(4, 1, 3, 3), normal(2, 4, 2, 2)

OPERATORS = [
    *[entry for n in SIZES for entry in entries(n)],
    Op(
        "conv_backward",
        grad.conv_backward,
        G,
        X,
        W,
        2,
        1,
        1,
        False,
        0,
        2,
        oracle=all_three,
        batch=(0, 1),
        errors=[
            Refusal(ValueError, "conv_backward: output_mask=(True,) must be three bools", G, X, W, output_mask=(True,)),
            Refusal(
                ValueError, "grad_output.shape=(2, 4, 2, 2), needs (2, 4, 1, 1), the output shape", G, X, W, groups=2
            ),
        ],
    ),
]
