"""scikit-learn's own estimator checks. Tests of further features are in test_sklearn.py."""

from __future__ import annotations

import contextlib
from typing import Any
from unittest import SkipTest

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
    parametrize_with_checks,
)

from retrograd import nn
from retrograd.interop.sklearn import RetrogradClassifier, RetrogradRegressor

KINDS = RetrogradClassifier, RetrogradRegressor
EXACT = {"dtype": "float64", "batch_size": 100}  # all samples of a check in one batch


def expected_failures(estimator: Any) -> dict[str, str]:
    return {
        "check_sample_weight_equivalence_on_dense_data": (
            "a sample of weight 2 and two samples are the same to seven digits in float64 and one batch only; there it "
            "passes, see below"
        ),
    }


@parametrize_with_checks([kind() for kind in KINDS], expected_failed_checks=expected_failures)
def test_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_of_two_is_two_samples(kind: Any) -> None:
    check_sample_weight_equivalence_on_dense_data(kind.__name__, kind(**EXACT))


class Network(nn.Module):
    def __init__(self, n_features, n_outputs, hidden=50):
        super().__init__()
        self.first, self.second = nn.Linear(n_features, hidden), nn.Linear(hidden, n_outputs)

    def forward(self, x):
        return self.second(self.first(x).relu())


VARIANTS = [
    *(kind(**EXACT) for kind in KINDS),
    *(kind(**EXACT, module=Network, lr=0.003) for kind in KINDS),
    *(
        kind(**EXACT, optimizer="RMSprop", loss=loss)
        for kind, loss in zip(KINDS, ("MultiMarginLoss", nn.HuberLoss), strict=True)
    ),
]


@pytest.mark.nightly
@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_variants(variant: int) -> None:
    for estimator, check in estimator_checks_generator(clone(VARIANTS[variant])):
        with contextlib.suppress(SkipTest):
            check(estimator)
