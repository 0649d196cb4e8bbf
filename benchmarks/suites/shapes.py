"""Drawn shapes: convolutions, matrix products and recurrent layers of the sizes that networks contain.

The judge of kernels, which are never tuned to a list of shapes. A seed draws the same shapes on every machine; runs
with fresh seeds show whether figures hold beyond the shapes that somebody looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from statistics import geometric_mean
from typing import Any

import numpy as np
import torch

import retrograd

from .. import libraries as lib
from ..harness import Result, Row, Rows, summary, worst_tenth
from . import convolution, recurrent
from .convolution import PASSES, Shape

COUNT = {"convolutions": 60, "products": 24, "recurrent": 12}
IMAGES = (1, 1, 2, 4, 8, 16)
PIXELS = (7, 8, 10, 14, 14, 16, 20, 24, 28, 28, 32, 40, 56, 56, 64, 80, 112, 160, 224)
WORK = (1_000_000, 1_500_000_000)  # multiply-adds of a convolution
PRODUCT_WORK = (10_000, 2_000_000_000)
RECURRENT_WORK = (1_000_000, 1_500_000_000)
MOST = 1 << 24  # elements of x or of y
SINGLE = "drawn convolution"
NAMES = ("geometric mean", "worst tenth", "worst")

# the mean, worst tenth and worst ratio to reach: without a restriction, and restricted to AVX2
TARGETS = {
    SINGLE: {"": (1.5, 1.0, 0.8), "avx2": (1.4, 0.95, 0.75)},
    "drawn product": {"": (1.2, 1.0, None), "avx2": (1.05, 0.95, None)},
    "drawn recurrence": {"": (2.0, 1.2, None), "avx2": (1.6, 1.1, None)},
}
FAMILY = {"": 1.1, "avx2": 1.05}  # the mean of every family of convolutions
Draw = np.random.Generator


def _channels(draw: Draw, least: int = 8, most: int = 512) -> int:
    """Mostly multiples of 8, all magnitudes alike; every seventh count is any number."""
    count = int(round(np.exp(draw.uniform(np.log(least), np.log(most)))))
    return max(3, count) if draw.random() < 1 / 7 else max(8, count // 8 * 8)


def _square(draw: Draw, kernel: int, **options: Any) -> Shape:
    size = int(draw.choice(PIXELS))
    images, inputs, outputs = int(draw.choice(IMAGES)), _channels(draw), _channels(draw)
    padding = options.get("d", 1) * (kernel // 2)
    return Shape(images, inputs, (size, size), outputs, kernel, p=padding, **options)


def _first_layer(draw: Draw) -> Shape:
    images, inputs = int(draw.choice(IMAGES)), int(draw.choice((1, 3, 3, 3, 4)))
    kernel, stride = ((3, 1), (3, 2), (5, 1), (7, 2), (7, 2), (11, 4))[draw.integers(6)]
    size = int(draw.choice((28, 32, 64, 96, 128, 224, 224)))
    outputs = int(draw.choice((6, 16, 24, 32, 48, 64, 64, 96)))
    return Shape(images, inputs, (size, size), outputs, kernel, stride, kernel // 2)


def _depthwise(draw: Draw) -> Shape:
    kernel, channels, stride = int(draw.choice((3, 3, 5, 7))), _channels(draw), int(draw.choice((1, 1, 2)))
    images, size = int(draw.choice(IMAGES)), (int(draw.choice(PIXELS)),) * 2
    return Shape(images, channels, size, channels, kernel, stride, kernel // 2, g=channels)


def _groups(draw: Draw) -> Shape:
    groups = int(draw.choice((2, 4, 8, 16, 32)))
    of_inputs = int(draw.integers(4, 41))
    of_outputs = of_inputs if draw.random() < 0.6 else int(draw.integers(4, 41))
    size = (int(draw.choice(PIXELS)),) * 2
    stride = int(draw.choice((1, 1, 2)))
    return Shape(int(draw.choice(IMAGES)), groups * of_inputs, size, groups * of_outputs, 3, stride, 1, g=groups)


def _line(draw: Draw) -> Shape:
    length, kernel = int(draw.choice((64, 100, 250, 500, 1000))), int(draw.choice((3, 5, 7, 9)))
    images, inputs, outputs = int(draw.choice((1, 4, 8, 16, 32))), _channels(draw, most=256), _channels(draw, most=256)
    if draw.random() < 0.4:
        return Shape(images, inputs, (length,), outputs, kernel, d=int(draw.choice((1, 2, 4))), causal=True)
    return Shape(images, inputs, (length,), outputs, kernel, int(draw.choice((1, 1, 2))), kernel // 2)


def _volume(draw: Draw) -> Shape:
    size = int(draw.choice((8, 12, 16, 24, 32)))
    inputs, outputs = _channels(draw, 3, 128), _channels(draw, most=128)
    return Shape(int(draw.choice((1, 2, 4))), inputs, (size,) * 3, outputs, 3, int(draw.choice((1, 1, 2))), 1)


def _transposed(draw: Draw) -> Shape:
    kernel, stride, padding = ((4, 2, 1), (2, 2, 0), (3, 2, 1), (3, 1, 1))[draw.integers(4)]
    size = int(draw.choice(PIXELS[:12]))
    images, inputs, outputs = int(draw.choice(IMAGES)), _channels(draw), _channels(draw, 3, 256)
    return Shape(images, inputs, (size, size), outputs, kernel, stride, padding, transposed=True)


# family -> how many of 60, and how one is drawn
FAMILIES: dict[str, tuple[int, Callable[[Draw], Shape]]] = {
    "3×3": (10, lambda draw: _square(draw, 3)),
    "3×3 stride 2": (6, lambda draw: _square(draw, 3, s=2)),
    "pointwise": (9, lambda draw: _square(draw, 1)),
    "pointwise stride 2": (2, lambda draw: _square(draw, 1, s=2)),
    "5×5": (4, lambda draw: _square(draw, 5)),
    "dilation 2": (3, lambda draw: _square(draw, 3, d=2)),
    "first layer": (5, _first_layer),
    "depthwise": (6, _depthwise),
    "groups": (5, _groups),
    "1-D": (4, _line),
    "3-D": (3, _volume),
    "transposed": (3, _transposed),
}


def work(shape: Shape) -> int:
    """Multiply-adds of each pass of a convolution."""
    window = shape.window
    positions = window.input if shape.transposed else window.output
    read = prod(shape.size) if shape.transposed else prod(positions)
    return shape.n * read * window.taps * shape.ci * shape.co // shape.g


def convolutions(seed: int, count: int = COUNT["convolutions"]) -> Iterator[tuple[str, Shape]]:
    """``count`` convolutions with the names of their families, each family with its share; the same for each seed."""
    for place, (family, (share, make)) in enumerate(FAMILIES.items()):
        draw = np.random.default_rng([seed, place])
        found: list[Shape] = []
        while len(found) < max(1, share * count // 60):
            shape = make(draw)
            largest = max(shape.n * shape.ci * prod(shape.size), shape.n * shape.co * prod(shape.size))
            least = WORK[0] // 8 if shape.g > 1 else WORK[0]
            if least <= work(shape) <= WORK[1] and largest <= MOST:
                found.append(shape)
        yield from ((family, shape) for shape in found)


def products(seed: int, count: int = COUNT["products"]) -> Iterator[tuple[int, int, int, int, str]]:
    """``count`` products: matrices, rows, terms, columns, and the form: which operand is a transposed view."""
    draw = np.random.default_rng([seed, 100])
    found = 0
    while found < count:
        m, k, n = (int(round(np.exp(draw.uniform(0, np.log(4096))))) for _ in range(3))
        batch = int(draw.choice((1, 1, 1, 8, 64)))
        form = str(draw.choice(("nn", "nn", "nt", "tn")))
        if PRODUCT_WORK[0] <= batch * m * k * n <= PRODUCT_WORK[1] and batch * max(m * k, k * n, m * n) <= MOST:
            found += 1
            yield batch, m, k, n, form


def layers(seed: int, count: int = COUNT["recurrent"]) -> Iterator[tuple[str, recurrent.Shape]]:
    """``count`` recurrent layers: LSTM, GRU and RNN in turns, as (steps, batch, inputs, units)."""
    draw = np.random.default_rng([seed, 200])
    found = 0
    while found < count:
        steps, batch = int(draw.integers(5, 101)), int(draw.choice((1, 4, 8, 12, 16, 20, 32, 40, 64)))
        inputs, units = _channels(draw), _channels(draw, 16)
        inputs = 1 if draw.random() < 0.15 else inputs
        if RECURRENT_WORK[0] <= 4 * steps * batch * units * (inputs + units) <= RECURRENT_WORK[1]:
            yield recurrent.MODES[found % 3], recurrent.Shape(steps, batch, inputs, units)
            found += 1


def rows(quick: bool, compile: bool, seed: int = 0) -> Rows:
    for family, shape in convolutions(seed, 12 if quick else COUNT["convolutions"]):
        for kind in PASSES[:1] if quick else PASSES:
            yield convolution.row(f"{SINGLE}: {family}", shape, kind, None)
    for product in products(seed, 2 if quick else COUNT["products"]):
        yield _product(*product)
    for mode, layer in layers(seed, 1 if quick else COUNT["recurrent"]):
        for row in recurrent.pair(mode, layer, {}):
            row.group, row.target = f"drawn recurrence: {row.group.partition(' ')[2]}", None
            yield row


def _product(batch: int, m: int, k: int, n: int, form: str) -> Row:
    lead = () if batch == 1 else (batch,)
    a = lib.random(*lead, *((k, m) if form == "tn" else (m, k)))
    b = lib.random(*lead, *((n, k) if form == "nt" else (k, n)), seed=1)

    def operands(make: Callable[[np.ndarray], Any]) -> tuple[Any, Any]:
        x, y = make(a), make(b)
        return (x.swapaxes(-1, -2) if form == "tn" else x), (y.swapaxes(-1, -2) if form == "nt" else y)

    (ra, rb), (pa, pb) = operands(retrograd.Tensor), operands(lib.theirs)
    na, nb = operands(np.copy)
    theirs = {lib.CONTIGUOUS: lambda: torch.matmul(pa, pb), "NumPy": lambda: np.matmul(na, nb)}
    letters = {"nn": "", "nt": ", second transposed", "tn": ", first transposed"}[form]
    name = f"{f'{batch} × ' if batch > 1 else ''}({m}, {k}) @ ({k}, {n}){letters}"
    values = lambda: [((ra @ rb).numpy(), np.matmul(na.astype(np.float64), nb.astype(np.float64)))]  # noqa: E731
    return Row("drawn product", name, lambda: ra @ rb, theirs, None, values)


def summaries(found: list[Result], threads: int, level: str) -> Iterator[Result]:
    """Yield the figures that are judged: those of all shapes of a kind, and the mean of every family."""
    for kind, targets in TARGETS.items():
        some = [result for result in found if result.group.startswith(kind)]
        for name, figure, goal in zip(NAMES, (geometric_mean, worst_tenth, min), targets[level], strict=True):
            yield from summary(f"{kind}s: {name}", some, threads, goal, figure)
    for group in dict.fromkeys(result.group for result in found if result.group.startswith(SINGLE)):
        yield from summary(group, [result for result in found if result.group == group], threads, FAMILY[level])
