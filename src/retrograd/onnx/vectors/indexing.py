"""Cases of operators that read and write at indices, some of which occur twice, and of sampling at points."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case
from .numbers import Apart, Given, Uniform, whole


def _indices(values: Any) -> Given:
    return Given(np.array(values, np.int64))


_TWICE = _indices([[0, 2, 0], [1, 1, -1]])
_ONCE = _indices([[0, 2, 1], [2, 0, 3]])


def _sampled(name: str, **attributes: Any) -> Case:
    """The points are inside of the image, and not at the middle of a pixel, where the interpolation has kinks."""
    points = np.array([-0.8125, -0.4375, 0.1875, 0.5625, -0.1875, 0.8125])
    grid = np.stack([np.tile(points, (2, 1)), np.array([[0.3125] * 6, [-0.6875] * 6])], -1)[None]
    return case(f"grid_sample_{name}", "GridSample", (1, 2, 4, 5), Given(grid), **attributes)


CASES = [
    case("gather_axis_0", "Gather", (4, 3), _indices([1, -1, 1, 0]), axis=0),
    case("gather_axis_1", "Gather", (2, 5, 2), _indices([[4, 0], [0, -2]]), axis=1),
    case("gather_elements", "GatherElements", (2, 3), _TWICE, axis=1),
    case("gather_nd", "GatherND", (2, 3, 4), _indices([[0, 1], [1, 2], [0, 1]])),
    case("gather_nd_batch_dims", "GatherND", (2, 3, 4), _indices([[2], [0]]), batch_dims=1),
    case("scatter_elements", "ScatterElements", (2, 4), _ONCE, (2, 3), axis=1),
    case("scatter_elements_add", "ScatterElements", (2, 4), _TWICE, (2, 3), axis=1, reduction="add"),
    case("scatter_elements_mul", "ScatterElements", (2, 4), _ONCE, (2, 3), axis=1, reduction="mul"),
    case("scatter_elements_max", "ScatterElements", Apart((2, 4)), _ONCE, (2, 3), axis=1, reduction="max"),
    case("scatter_nd", "ScatterND", (4, 3), _indices([[2], [0]]), (2, 3)),
    case("scatter_nd_add", "ScatterND", (4, 3), _indices([[2], [0], [2]]), (3, 3), reduction="add"),
    case("top_k", "TopK", Apart((3, 5)), whole(2), outputs=2, weighted=[0], axis=1),
    case("top_k_smallest", "TopK", Apart((5, 3)), whole(3), outputs=2, weighted=[0], axis=0, largest=0),
    _sampled("linear", mode="linear", padding_mode="zeros", align_corners=0),
    _sampled("linear_align_corners", mode="linear", padding_mode="border", align_corners=1),
    case(
        "grid_sample_grid",
        "GridSample",
        (1, 2, 3, 4),
        Uniform((1, 2, 2, 2), 0.0625, 0.1875),
        mode="linear",
        padding_mode="zeros",
        align_corners=1,
    ),
]
