"""Low-bit convolutions and linear layers compared with PyTorch in float32, and with 8-bit PyTorch and onnxruntime.

Rows "from numbers to numbers" include all the work of a layer: float32 inputs are quantized to codes, and the sums
become float32 results. Rows "codes" are layers inside a quantized network, from 8-bit codes to 8-bit codes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from retrograd.kernel_set import kernels
from retrograd.specs.geometry import Window, conv_window
from retrograd.specs.low_bit import Requantized, Scaled

from .. import libraries as lib
from ..harness import Call, Row, Rows
from . import quantized_peers as peers

SCALE, ZERO_POINT, STEP, RESULT_STEP = 0.02, 128, 0.01, 0.5  # of codes, of filters, of codes that are written


@dataclass(frozen=True)
class Shape:
    """N, C, *size -> C, kernel 3, padding 1; without size N rows, a linear layer."""

    n: int
    c: int
    size: tuple[int, ...] = ()

    def __str__(self) -> str:
        if not self.size:
            return f"({self.n}, {self.c}) → {self.c}"
        return f"({', '.join(map(str, (self.n, self.c, *self.size)))}) → {self.c}, k3"

    @cached_property
    def window(self) -> Window:
        return conv_window(self.size, 3, 1, 1) if self.size else conv_window((), 1)

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return x and w."""
        return lib.random(self.n, self.c, *self.size), lib.random(self.c, self.c, *(3,) * len(self.size))

    @property
    def group(self) -> str:
        return "convolution" if self.size else "linear"


SHAPES = (Shape(8, 256, (14, 14)), Shape(8, 128, (28, 28)), Shape(16, 4096), Shape(1, 4096))
TARGETS = {"binary": {"convolution": 15.0, "linear": 12.0}, "int8": {"convolution": 2.5, "linear": 2.5}}


def rows(quick: bool, compile: bool) -> Rows:
    for shape in SHAPES[:1] if quick else SHAPES:
        for element in ("binary", "int8", "int16"):
            yield _numbers(shape, element)
        yield _codes(shape)


def _numbers(shape: Shape, element: str) -> Row:
    """Return the row from float32 inputs to float32 results."""
    x, w = shape.arrays()
    if element == "binary":
        values, steps = np.where(w >= 0, 1, -1), (1.0, 1.0)
    elif element == "int8":
        values, steps = np.clip(np.rint(w / STEP), -127, 127).astype(np.int64), (SCALE, STEP)
    else:  # shifts: +-2**p, in fixed point with 8 bits after the point; inputs have 5, so that no sum exceeds int32
        shifts = np.rint(np.log2(np.clip(np.abs(w), 2.0**-7, 1)))
        values, steps = (np.sign(w) * 2 ** (8 + shifts)).astype(np.int64), (2.0**-5, 2.0**-8)
    filters = kernels.lowbit_filters(element, values, 1, most=127 if element == "int16" else None)
    inputs = lib.channels_last(x) if shape.size else x
    then = Scaled(np.full(shape.c, steps[0] * steps[1], np.float32))

    def ours() -> np.ndarray:
        if element == "binary":
            return kernels.lowbit_conv(kernels.sign_bits(inputs), filters, shape.window, then)
        if element == "int8":
            codes = kernels.quantize_codes(inputs, SCALE, ZERO_POINT)
            return kernels.lowbit_conv(codes, filters, shape.window, then, ZERO_POINT)
        codes = kernels.quantize_codes(inputs, steps[0], 0, -127, 127, "int16")
        return kernels.lowbit_conv(codes, filters, shape.window, then)

    def check() -> list[tuple[np.ndarray, np.ndarray]]:
        """Compute PyTorch's float32 result on the values that the codes represent."""
        if element == "binary":
            seen = np.where(x >= 0, 1.0, -1.0)
        elif element == "int8":
            seen = (np.clip(np.rint(x / np.float32(SCALE)) + ZERO_POINT, 0, 255) - ZERO_POINT) * SCALE
        else:
            seen = np.clip(np.rint(x / steps[0]), -127, 127) * steps[0]
        expected = _float(shape, torch.tensor(seen).float(), torch.tensor(values * steps[1]).float())()
        return [(ours(), expected.numpy())]

    theirs: dict[str, Call] = {name: _float(shape, *pair) for name, pair in lib.layouts([x, w]).items()}
    target = TARGETS.get(element, {}).get(shape.group)
    name = f"{shape} from numbers to numbers"
    return Row(f"low bits: {element} {shape.group}", name, ours, theirs, target, check)


def _float(shape: Shape, x: Any, w: Any) -> Call:
    if shape.size:
        return lambda: torch.conv2d(x, w, None, 1, 1)
    return lambda: torch.nn.functional.linear(x, w)


def _codes(shape: Shape) -> Row:
    """Return the rows from 8-bit codes to 8-bit codes, compared with every library that supports them."""
    x, w = shape.arrays()
    values = np.clip(np.rint(w / STEP), -127, 127).astype(np.int8)
    codes = kernels.quantize_codes(lib.channels_last(x) if shape.size else x, SCALE, ZERO_POINT)
    filters = kernels.lowbit_filters("int8", values, 1)
    step = np.full(shape.c, SCALE * STEP / RESULT_STEP, np.float32)
    then = Requantized(step, None, ZERO_POINT)

    def ours() -> np.ndarray:
        return kernels.lowbit_conv(codes, filters, shape.window, then, ZERO_POINT)

    first = np.ascontiguousarray(np.moveaxis(codes, -1, 1))  # (N, C, *S)
    found = peers.calls(first, values, peers.Steps(SCALE, ZERO_POINT, STEP, RESULT_STEP))

    def check() -> list[tuple[np.ndarray, np.ndarray]]:
        mine = np.moveaxis(ours(), -1, 1).astype(np.float32) - ZERO_POINT
        return [(mine, peers.numbers(call()).astype(np.float32) - ZERO_POINT) for call in found.values()]

    # where a product of two steps is rounded, another code may come out next to a half
    return Row(f"low bits: int8 {shape.group}", f"{shape} from codes to codes", ours, found, 1.0, check, tolerance=0.1)
