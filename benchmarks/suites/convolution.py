"""Convolution: separate rows for forward, input gradient and weight gradient of each shape.

No autograd on either side: the three operators of retrograd, aten.convolution and aten.convolution_backward of PyTorch,
which gets contiguous and channels-last arrays. (torch.compile would call the same two kernels.) The rows of memory
are in convolution_memory.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

import retrograd
from retrograd.ops.convolution.convolution import conv, conv_input_grad, conv_weight_grad
from retrograd.specs.convolution_options import AUTO
from retrograd.specs.geometry import Window, conv_transpose_window, conv_window

from .. import libraries as lib
from ..harness import Call, Result, Row, Rows, summary

PASSES = ("forward", "input gradient", "weight gradient")
GROUP = "convolution"


@dataclass(frozen=True)
class Shape:
    """N, Ci, *size -> Co, kernel k, stride s, padding p, dilation d, groups g.

    causal: all padding, d*(k - 1) zeros, is in front. target: the ratio that each pass should reach.
    """

    n: int
    ci: int
    size: tuple[int, ...]
    co: int
    k: int
    s: int = 1
    p: int = 0
    d: int = 1
    g: int = 1
    transposed: bool = False
    causal: bool = False
    target: float = 1.0

    def __str__(self) -> str:
        extra = "".join(
            f" {letter}{value}"
            for letter, value, usual in (("s", self.s, 1), ("p", self.p, 0), ("d", self.d, 1), ("g", self.g, 1))
            if value != usual
        )
        extents = ", ".join(map(str, (self.n, self.ci, *self.size)))
        return f"({extents}) → {self.co}, k{self.k}{extra}{' causal' if self.causal else ''}"

    @property
    def low(self) -> int:
        """The number of zeros in front, for which PyTorch needs a padded copy."""
        return self.d * (self.k - 1) if self.causal else 0

    @cached_property
    def window(self) -> Window:
        axes = len(self.size)
        kernel, stride, dilation = (self.k,) * axes, (self.s,) * axes, (self.d,) * axes
        padding = ((self.low, 0) if self.causal else (self.p, self.p),) * axes
        if self.transposed:
            return conv_transpose_window(self.size, kernel, stride, padding, (0,) * axes, dilation, self.g)
        return conv_window(self.size, kernel, stride, padding, dilation, self.g)

    def arrays(self) -> list[np.ndarray]:
        """Return x, w and the gradient of the output."""
        first, second = (self.ci, self.co) if self.transposed else (self.co, self.ci)
        output = self.window.input if self.transposed else self.window.output
        shapes = (self.n, self.ci, *self.size), (first, second // self.g, *(self.k,) * len(self.size))
        return [*(lib.random(*shape) for shape in shapes), lib.random(self.n, self.co, *output)]


_SQUARE = ((64, 56, 2.2), (128, 28, 2.2), (256, 14, 1.6), (512, 7, 1.0))
SHAPES: dict[str, list[Shape]] = {
    "3×3": [
        Shape(n, c, (size,) * 2, c, 3, p=1, target=target if n > 1 else 1.0)
        for n in (8, 1)
        for c, size, target in _SQUARE
    ],
    "strided": [
        Shape(8, 128, (56, 56), 128, 3, s=2, p=1),
        Shape(8, 256, (56, 56), 256, 1, s=2),
        Shape(8, 3, (224, 224), 64, 7, s=2, p=3),
    ],
    "pointwise": [
        Shape(8, 64, (56, 56), 256, 1),
        Shape(8, 256, (56, 56), 64, 1),
        Shape(8, 512, (28, 28), 128, 1),
    ],
    "grouped": [
        Shape(8, 128, (28, 28), 128, 3, p=1, g=128),
        Shape(8, 64, (56, 56), 64, 3, p=1, g=8),
        Shape(8, 32, (112, 112), 32, 3, p=1, g=32),
    ],
    "transposed": [
        Shape(8, 64, (28, 28), 32, 4, s=2, p=1, transposed=True),
        Shape(8, 128, (14, 14), 64, 2, s=2, transposed=True),
        Shape(8, 16, (56, 56), 3, 9, p=4, transposed=True),
    ],
    "1-D": [Shape(16, 64, (1000,), 64, 9, p=4), Shape(16, 64, (1000,), 64, 3, d=4, causal=True)],
    "3-D": [Shape(2, 16, (16, 32, 32), 32, 3, p=1)],
}
MEANS = {  # targets of the geometric means of several groups together
    "strided, pointwise, grouped": (("strided", "pointwise", "grouped"), 1.2),
    "transposed, 1-D, 3-D": (("transposed", "1-D", "3-D"), 1.3),
    "all": (tuple(SHAPES), 1.5),
}


def rows(quick: bool, compile: bool) -> Rows:
    for group, shapes in SHAPES.items():
        for shape in shapes[:1] if quick else shapes:
            for kind in PASSES:
                yield row(f"{GROUP} {group}", shape, kind, shape.target)


def summaries(found: list[Result], threads: int, level: str) -> Iterator[Result]:
    """Yield the geometric means of MEANS."""
    for label, (groups, goal) in MEANS.items():
        names = tuple(f"{GROUP} {group}" for group in groups)
        yield from summary(f"{GROUP}: {label}", [each for each in found if each.group in names], threads, goal)


def row(group: str, shape: Shape, kind: str, target: float | None) -> Row:
    """Return the row of one pass."""
    arrays = shape.arrays()
    call = ours(shape, kind, arrays)
    theirs = {layout: peer(shape, kind, *tensors) for layout, tensors in lib.layouts(arrays).items()}

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(call().numpy(), theirs[lib.CONTIGUOUS]().numpy())]

    name = f"{shape}{' transposed' if shape.transposed else ''} {kind}"
    return Row(group, name, call, theirs, target, values)


def ours(shape: Shape, kind: str, arrays: list[np.ndarray]) -> Call:
    """Return the pass in retrograd, whose transposed convolution is the input gradient of the convolution."""
    x, w, g = lib.ours(arrays[0]), retrograd.Tensor(lib.taps_first(arrays[1])), lib.ours(arrays[2])
    window = shape.window
    forward, gradient = (conv_input_grad, conv) if shape.transposed else (conv, conv_input_grad)
    calls: dict[str, Call] = {
        "forward": lambda: forward(x, w, None, window, AUTO),
        "input gradient": lambda: gradient(g, w, None, window, AUTO),
        "weight gradient": lambda: conv_weight_grad(*((g, x) if shape.transposed else (x, g)), window, AUTO),
    }
    return calls[kind]


def peer(shape: Shape, kind: str, x: Any, w: Any, g: Any) -> Call:
    """Return the pass in PyTorch. Its causal convolution uses a padded copy of x, made in forward and kept."""
    axes, low = len(shape.size), shape.low
    options = [shape.s] * axes, [shape.p] * axes, [shape.d] * axes, shape.transposed, [0] * axes, shape.g
    pad, convolution = torch.nn.functional.pad, torch.ops.aten.convolution
    if kind == "forward":
        if low:
            return lambda: convolution(pad(x, (low, 0)), w, None, *options)
        return lambda: convolution(x, w, None, *options)
    padded = pad(x, (low, 0)) if low else x
    backward = torch.ops.aten.convolution_backward
    if kind == "input gradient":
        mask = [True, False, False]
        return lambda: backward(g, padded, w, None, *options, mask)[0][..., low:]
    return lambda: backward(g, padded, w, None, *options, [False, True, False])[1]
