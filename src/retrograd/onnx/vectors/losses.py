"""Cases of softmax and of the losses of classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import Case, case
from .numbers import Fixed, Given, Shape, Uniform

_LABELS = Given(np.array([3, 0, 2, 2], np.int64))
_IMAGE_LABELS = Given(np.array([[[0, 2, 1], [1, 1, 2]], [[2, 0, 0], [1, 2, 1]]], np.int64))
_IMAGES = (2, 3, 2, 3)
_SCORES = (4, 5)


def _cross_entropy(name: str, x: Shape, labels: Given, *, weights: bool = False, **options: Any) -> Case:
    more = [Fixed(Uniform((x[1],), 0.5, 2))] if weights else []
    return case(f"softmax_cross_entropy_{name}", "SoftmaxCrossEntropyLoss", x, labels, *more, **options)


def _likelihood(name: str, x: Shape, labels: Given, *, weights: bool = False, **options: Any) -> Case:
    more = [Fixed(Uniform((x[1],), 0.5, 2))] if weights else []
    return case(f"negative_log_likelihood_{name}", "NegativeLogLikelihoodLoss", x, labels, *more, **options)


CASES = [
    case("softmax_last_axis", "Softmax", (3, 5), axis=-1),
    case("softmax_axis_0", "Softmax", (4, 2, 3), axis=0),
    case("softmax_axis_1", "Softmax", (2, 4, 3), axis=1),
    case("softmax_large_scores", "Softmax", Uniform((2, 4), 496, 504), axis=-1),
    case("log_softmax_last_axis", "LogSoftmax", (3, 5), axis=-1),
    case("log_softmax_axis_1", "LogSoftmax", (2, 4, 3), axis=1),
    case("log_softmax_large_scores", "LogSoftmax", Uniform((2, 4), 496, 504), axis=-1),
    _cross_entropy("mean", _SCORES, _LABELS, reduction="mean"),
    _cross_entropy("sum", _SCORES, _LABELS, reduction="sum"),
    _cross_entropy("none", _SCORES, _LABELS, reduction="none"),
    _cross_entropy("weights", _SCORES, _LABELS, weights=True, reduction="mean"),
    _cross_entropy("ignore_index", _SCORES, _LABELS, reduction="mean", ignore_index=2),
    _cross_entropy("weights_ignore_index", _SCORES, _LABELS, weights=True, reduction="mean", ignore_index=2),
    _cross_entropy("log_prob", _SCORES, _LABELS, outputs=2, reduction="mean"),
    _cross_entropy("images", _IMAGES, _IMAGE_LABELS, reduction="mean"),
    _cross_entropy("images_none_weights", _IMAGES, _IMAGE_LABELS, weights=True, reduction="none"),
    _likelihood("mean", _SCORES, _LABELS, reduction="mean"),
    _likelihood("sum_weights", _SCORES, _LABELS, weights=True, reduction="sum"),
    _likelihood("images_none", _IMAGES, _IMAGE_LABELS, reduction="none"),
    _likelihood("images_weights_ignore_index", _IMAGES, _IMAGE_LABELS, weights=True, reduction="mean", ignore_index=1),
]
