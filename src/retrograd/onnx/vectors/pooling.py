"""Cases of pooling. Maxima have no ties."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case
from .numbers import Apart, Given, Shape


def _max(name: str, x: Shape, kernel: list[int], **attributes: Any) -> Case:
    return case(f"max_pool_{name}", "MaxPool", Apart(x), kernel_shape=kernel, **attributes)


def _average(name: str, x: Shape, kernel: list[int], **attributes: Any) -> Case:
    return case(f"average_pool_{name}", "AveragePool", x, kernel_shape=kernel, **attributes)


def _lp(name: str, x: Shape, kernel: list[int], **attributes: Any) -> Case:
    return case(f"lp_pool_{name}", "LpPool", Apart(x), kernel_shape=kernel, **attributes)


CASES = [
    _max("1d_overlapping", (2, 2, 9), [3], strides=[2]),
    _max("2d", (1, 2, 6, 6), [2, 2], strides=[2, 2]),
    _max("2d_overlapping", (1, 2, 7, 6), [3, 3], strides=[1, 2]),
    _max("2d_padding", (1, 2, 6, 5), [3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    _max("2d_asymmetric_padding", (1, 2, 5, 5), [3, 2], strides=[2, 2], pads=[0, 1, 1, 0]),
    _max("2d_dilation", (1, 1, 8, 9), [3, 2], dilations=[2, 3]),
    _max("2d_ceil_mode", (1, 1, 6, 8), [3, 3], strides=[2, 3], ceil_mode=1),
    case("max_pool_2d_indices", "MaxPool", Apart((1, 2, 5, 6)), kernel_shape=[2, 3], outputs=2, weighted=[0]),
    _max("3d", (1, 1, 5, 4, 5), [3, 2, 3], strides=[2, 1, 2], pads=[1, 0, 1, 1, 1, 1]),
    _average("1d", (2, 2, 9), [4], strides=[2]),
    _average("2d", (1, 2, 7, 6), [3, 2], strides=[2, 1]),
    _average("2d_padding_excluded", (1, 2, 6, 5), [3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=0),
    _average("2d_padding_included", (1, 2, 6, 5), [3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1),
    _average("2d_asymmetric_padding_excluded", (1, 2, 5, 6), [3, 3], pads=[0, 1, 1, 0], count_include_pad=0),
    _average("2d_asymmetric_padding_included", (1, 2, 5, 6), [3, 3], pads=[0, 1, 1, 0], count_include_pad=1),
    _average("2d_ceil_mode", (1, 1, 6, 8), [3, 3], strides=[2, 3], ceil_mode=1),
    _average("2d_dilation", (1, 2, 7, 8), [2, 3], dilations=[3, 2]),
    _average("3d_padding_included", (1, 1, 4, 5, 4), [2, 3, 3], pads=[1, 1, 0, 0, 1, 1], count_include_pad=1),
    _lp("1d_p3", (2, 2, 8), [3], p=3, strides=[2]),
    _lp("2d_p2", (1, 2, 6, 5), [2, 3], p=2, pads=[1, 1, 0, 1]),
    case("global_average_pool", "GlobalAveragePool", (2, 3, 4, 5)),
    case("global_average_pool_3d", "GlobalAveragePool", (1, 2, 3, 2, 4)),
    case("global_max_pool", "GlobalMaxPool", Apart((2, 3, 4, 5))),
    case("global_lp_pool", "GlobalLpPool", Apart((2, 2, 3, 4)), p=2),
    case(
        "max_unpool",
        "MaxUnpool",
        (1, 1, 2, 3),
        Given(np.array([[[[0, 9, 5], [18, 14, 23]]]], np.int64)),
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
]
