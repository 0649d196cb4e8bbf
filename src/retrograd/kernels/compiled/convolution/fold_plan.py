"""The plan of an input gradient with few input channels."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ..machine.microkernel import tile
from ..machine.product import PRODUCT, even_product
from ..machine.record import record
from .plan import Axis

FOLD = record(
    depth=1,
    channels=1,  # channels of g, and of the input
    columns=1,  # taps times input channels
    product=PRODUCT.words,  # of a line of g
    products=1,  # elements of the products of a line
    output=3,
    kernel=3,
    input=3,
    stride=3,
    padding=3,
    dilation=3,
    grad=4,  # strides of g in bytes: N, D, H, W
)


def fold_plan(axes: list[Axis], outputs: int, inputs: int, dtype: str, g: Sequence[int]) -> np.ndarray:
    """The plan for ``outputs`` channels of g and ``inputs`` of the input."""
    columns, positions = prod(axis.kernel for axis in axes) * inputs, axes[2].output
    return FOLD.pack(
        depth=outputs,
        channels=inputs,
        columns=columns,
        product=even_product(dtype, "rows", tile(dtype, "rows", columns), positions),
        products=positions * columns,
        output=[a.output for a in axes],
        kernel=[a.kernel for a in axes],
        input=[a.input for a in axes],
        stride=[a.stride for a in axes],
        padding=[a.low for a in axes],
        dilation=[a.dilation for a in axes],
        grad=g,
    )
