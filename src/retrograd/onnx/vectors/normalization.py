"""Cases of normalisation. epsilon is large, so that a wrong place for it is seen."""

from __future__ import annotations

from typing import Any

from .case import Case, case
from .numbers import Apart, Fixed, Shape, Uniform

_EPSILON = 2.0**-7
_DOUBLE = 11  # among ONNX's types; without it the statistics are those of float32


def _batch(name: str, x: Shape, **options: Any) -> Case:
    channels = (x[1],)
    mean, variance = Fixed(Uniform(channels)), Fixed(Uniform(channels, 0.5, 2))
    return case(
        f"batch_normalization_{name}",
        "BatchNormalization",
        x,
        channels,
        channels,
        mean,
        variance,
        epsilon=_EPSILON,
        **options,
    )


def _training(name: str, x: Shape, weighted: list[int]) -> Case:
    return _batch(f"training_{name}", x, outputs=3, weighted=weighted, training_mode=1, momentum=0.75)


def _layer(name: str, x: Shape, axis: int, *, bias: bool = True, **options: Any) -> Case:
    shape = x[axis:]
    more = [shape] if bias else []
    return case(
        f"layer_normalization_{name}",
        "LayerNormalization",
        x,
        shape,
        *more,
        axis=axis,
        epsilon=_EPSILON,
        stash_type=_DOUBLE,
        **options,
    )


def _rms(name: str, x: Shape, axis: int) -> Case:
    return case(
        f"rms_normalization_{name}",
        "RMSNormalization",
        x,
        x[axis:],
        axis=axis,
        epsilon=_EPSILON,
        stash_type=_DOUBLE,
        opset=23,
    )


def _group(name: str, x: Shape, groups: int) -> Case:
    channels = (x[1],)
    return case(
        f"group_normalization_{name}",
        "GroupNormalization",
        x,
        channels,
        channels,
        num_groups=groups,
        epsilon=_EPSILON,
        stash_type=_DOUBLE,
    )


def _instance(name: str, x: Shape) -> Case:
    return case(f"instance_normalization_{name}", "InstanceNormalization", x, (x[1],), (x[1],), epsilon=_EPSILON)


CASES = [
    _batch("inference_1d", (4, 3)),
    _batch("inference_2d", (2, 3, 4, 5)),
    _batch("inference_3d", (2, 2, 2, 3, 2)),
    _training("1d", (5, 3), [0]),
    _training("2d", (2, 3, 4, 3), [0]),
    _training("3d", (2, 2, 2, 3, 2), [0]),
    _training("2d_running_statistics", (2, 3, 3, 4), [0, 1, 2]),
    _instance("1d", (2, 3, 5)),
    _instance("2d", (2, 3, 4, 3)),
    _instance("3d", (1, 2, 2, 3, 4)),
    _layer("last_axis", (2, 3, 5), -1),
    _layer("two_axes", (3, 4, 5), 1),
    _layer("all_axes", (2, 3, 2), 0),
    _layer("no_bias", (3, 6), -1, bias=False),
    _group("2d", (2, 6, 3, 4), 3),
    _group("one_group", (2, 4, 5), 1),
    _group("a_group_for_each_channel", (2, 3, 4, 2), 3),
    _rms("last_axis", (2, 3, 5), -1),
    _rms("two_axes", (2, 3, 4), 1),
    case("lrn", "LRN", (2, 5, 3, 2), size=3, alpha=0.5, beta=0.75, bias=1.5),
    case("lrn_wide", "LRN", (1, 7, 2, 3), size=5, alpha=0.25, beta=0.5, bias=2.0),
    case("lp_normalization_p1", "LpNormalization", Apart((3, 4)), axis=1, p=1),
    case("lp_normalization_p2", "LpNormalization", (2, 3, 4), axis=1, p=2),
]
