"""Direct convolution: forward, input gradient and weight gradient of each shape as rows of their own.

No autograd on either side: the three operators of retrograd, conv2d and aten.convolution_backward of PyTorch, which is
given contiguous and channels-last arrays. (torch.compile would call the same two kernels.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import retrograd
from retrograd.geometry import conv_window
from retrograd.ops.convolution import conv, conv_input_grad, conv_weight_grad

from .. import libraries as lib
from ..harness import Call, Row, Rows

PASSES = ("forward", "input gradient", "weight gradient")
TARGET = 0.9


@dataclass(frozen=True)
class Shape:
    """N, Ci, H = W -> Co, kernel k, stride s, padding p, groups g."""

    n: int
    ci: int
    size: int
    co: int
    k: int
    s: int = 1
    p: int = 0
    g: int = 1

    def __str__(self) -> str:
        extra = "".join(
            f" {letter}{value}"
            for letter, value, usual in (("s", self.s, 1), ("p", self.p, 0), ("g", self.g, 1))
            if value != usual
        )
        return f"({self.n}, {self.ci}, {self.size}, {self.size}) → {self.co}, k{self.k}{extra}"

    @property
    def flops(self) -> float:
        out = (self.size + 2 * self.p - self.k) // self.s + 1
        return 2.0 * self.n * self.co * out * out * (self.ci // self.g) * self.k * self.k


_SQUARE = ((64, 56), (128, 28), (256, 14), (512, 7))
GROUPS: dict[str, list[Shape]] = {
    "3×3": [Shape(n, c, size, c, 3, p=1) for n in (8, 1) for c, size in _SQUARE],
    "strided": [Shape(8, 128, 56, 128, 3, s=2, p=1), Shape(8, 256, 56, 256, 1, s=2), Shape(8, 3, 224, 64, 7, s=2, p=3)],
    "pointwise": [Shape(8, 64, 56, 256, 1), Shape(8, 256, 56, 64, 1), Shape(8, 512, 28, 128, 1)],
    "grouped": [
        Shape(8, 128, 28, 128, 3, p=1, g=128),
        Shape(8, 64, 56, 64, 3, p=1, g=8),
        Shape(8, 32, 112, 32, 3, p=1, g=32),
    ],
}


def rows(quick: bool, compile: bool) -> Rows:
    for group, shapes in GROUPS.items():
        for shape in shapes[:1] if quick else shapes:
            for kind in PASSES:
                yield _row(group, shape, kind)


def _row(group: str, shape: Shape, kind: str) -> Row:
    window = conv_window((shape.size,) * 2, (shape.k,) * 2, (shape.s,) * 2, ((shape.p, shape.p),) * 2, (1, 1), shape.g)
    x = lib.random(shape.n, shape.ci, shape.size, shape.size)
    w = lib.random(shape.co, shape.ci // shape.g, shape.k, shape.k)
    g = lib.random(shape.n, shape.co, *window.output)
    tx, tw, tg = lib.ours(x), retrograd.Tensor(lib.taps_first(w)), lib.ours(g)
    ours: Call = {
        "forward": lambda: conv(tx, tw, None, window),
        "input gradient": lambda: conv_input_grad(tg, tw, None, window),
        "weight gradient": lambda: conv_weight_grad(tx, tg, window),
    }[kind]
    theirs = {layout: _peer(kind, shape, *arrays) for layout, arrays in lib.layouts([x, w, g]).items()}

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(ours().numpy(), theirs[lib.CONTIGUOUS]().numpy())]

    return Row(f"convolution {group}", f"{shape} {kind}", ours, theirs, TARGET, values)


def _peer(kind: str, shape: Shape, x: Any, w: Any, g: Any) -> Call:
    stride, padding, dilation = [shape.s] * 2, [shape.p] * 2, [1, 1]
    if kind == "forward":
        return lambda: torch.nn.functional.conv2d(x, w, None, stride, padding, dilation, shape.g)
    mask, index = ([True, False, False], 0) if kind == "input gradient" else ([False, True, False], 1)
    backward = torch.ops.aten.convolution_backward
    return lambda: backward(g, x, w, None, stride, padding, dilation, False, [0, 0], shape.g, mask)[index]
