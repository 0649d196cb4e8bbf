"""Cases of operators that resize, pad, join and move entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case
from .numbers import Fixed, Given, Shape, Uniform, whole


def _resize(name: str, x: Shape, sizes: list[int], **attributes: Any) -> Case:
    return case(f"resize_{name}", "Resize", x, None, None, whole(*sizes), **attributes)


def _pad(name: str, x: Shape, pads: list[int], mode: str) -> Case:
    return case(f"pad_{name}", "Pad", x, whole(*pads), mode=mode)


CASES = [
    _resize("linear_larger", (1, 2, 3, 4), [1, 2, 6, 7], mode="linear"),
    _resize("linear_smaller", (1, 1, 6, 7), [1, 1, 4, 3], mode="linear"),
    _resize(
        "linear_align_corners",
        (1, 1, 3, 4),
        [1, 1, 5, 7],
        mode="linear",
        coordinate_transformation_mode="align_corners",
    ),
    _resize("linear_asymmetric", (1, 2, 4), [1, 2, 7], mode="linear", coordinate_transformation_mode="asymmetric"),
    _resize("linear_antialias", (1, 1, 7, 8), [1, 1, 3, 5], mode="linear", antialias=1, exclude_outside=1),
    _resize(
        "nearest_larger",
        (1, 2, 3, 2),
        [1, 2, 7, 5],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    ),
    _resize("nearest_smaller", (1, 1, 6, 7), [1, 1, 4, 3], mode="nearest"),
    _resize("cubic", (1, 1, 4, 4), [1, 1, 7, 6], mode="cubic", cubic_coeff_a=-0.75),
    _resize(
        "cubic_align_corners", (1, 1, 4, 5), [1, 1, 6, 3], mode="cubic", coordinate_transformation_mode="align_corners"
    ),
    case(
        "resize_linear_scales",
        "Resize",
        (1, 1, 4, 3),
        None,
        Given(np.array([1, 1, 1.5, 2.5], np.float32)),
        mode="linear",
    ),
    case("pad_constant", "Pad", (2, 3), whole(1, 0, 0, 2), Fixed(Uniform(())), mode="constant"),
    _pad("reflect", (2, 4, 5), [0, 1, 3, 0, 2, 1], "reflect"),
    _pad("edge", (2, 3, 4), [0, 2, 1, 0, 0, 3], "edge"),
    _pad("wrap", (2, 3, 4), [0, 1, 2, 0, 2, 1], "wrap"),
    _pad("negative", (3, 4, 5), [0, -1, 1, 0, 2, -2], "constant"),
    case("concat", "Concat", (2, 2, 3), (2, 1, 3), (2, 3, 3), axis=1),
    case("split", "Split", (2, 6), whole(1, 3, 2), outputs=3, axis=1),
    case("slice_steps", "Slice", (4, 7), whole(3, 1), whole(-5, 6), whole(0, 1), whole(-1, 2)),
    case("expand", "Expand", (3, 1), whole(2, 3, 4)),
    case("tile", "Tile", (2, 3), whole(2, 3)),
    case("reshape", "Reshape", (2, 3, 4), whole(4, -1)),
    case("transpose", "Transpose", (2, 3, 4), perm=[2, 0, 1]),
    case("depth_to_space_dcr", "DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="DCR"),
    case("depth_to_space_crd", "DepthToSpace", (1, 8, 2, 3), blocksize=2, mode="CRD"),
    case("space_to_depth", "SpaceToDepth", (1, 2, 4, 6), blocksize=2),
    case("trilu_lower", "Trilu", (2, 4, 3), Given(np.array(1, np.int64)), upper=0),
    case("cumsum", "CumSum", (3, 4), Given(np.array(1, np.int64))),
    case("cumsum_exclusive_reverse", "CumSum", (3, 4), Given(np.array(0, np.int64)), exclusive=1, reverse=1),
]
