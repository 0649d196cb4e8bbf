"""Parameter.limits: every optimizer keeps the values within them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from retrograd import optim
from retrograd.engine.tensor import Tensor
from retrograd.nn import Parameter


class Jump(optim.Optimizer):
    """A user's optimizer, which overrides step."""

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.array[...] -= group["lr"] * parameter.grad.array


def optimizers() -> list[Any]:
    return [getattr(optim, name) for name in optim.__all__ if name[0].isupper() and name != "Optimizer"]


@pytest.mark.parametrize("kind", [*optimizers(), Jump], ids=lambda kind: kind.__name__)
def test_values_stay_within_the_limits(kind: Any) -> None:
    """Many steps in both directions, compared with an unlimited oracle and clipping; other parameters do not change."""
    values = np.array([0.3, -0.4, 0.9])
    limited, free, still, null = (Parameter(values.copy()) for _ in range(4))
    for parameter in (limited, still, null):
        parameter.limits = (-0.5, 0.5)
    null.grad_req = "null"
    params = [limited, free, still, null]
    optimizer = kind(params, {"lr": 0.5}) if kind is Jump else kind(params, lr=0.5)
    slopes = np.array([-3.0, 2.0, 0.0])

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = ((limited * Tensor(slopes)).sum() + (free * Tensor(slopes)).sum()) ** 2.0
        loss.backward()
        return loss

    for step in range(4):
        if step == 2:
            limited.limits = (-0.25, 0.5)  # also during training
        if kind is optim.LBFGS:
            optimizer.step(closure)
        else:
            limited.grad = free.grad = Tensor(slopes.copy())
            optimizer.step()
        low, high = limited.limits
        assert limited.array.min() >= low and limited.array.max() <= high
        if step == 0 and kind is not optim.LBFGS:
            np.testing.assert_array_equal(limited.array, free.array.clip(low, high))
    np.testing.assert_array_equal(still.array, values)  # without a gradient nothing is clipped
    np.testing.assert_array_equal(null.array, values)


def test_limits_are_checked_and_copied() -> None:
    parameter = Parameter(np.zeros(2, np.float32))
    assert parameter.limits is None
    for wrong in ((1, -1), (0.0,), "ab", 3, (0, None), (float("nan"), 1.0)):
        with pytest.raises(ValueError, match=r"limits=.* must be two numbers, \(low, high\) with low <= high, or None"):
            parameter.limits = wrong
    parameter.limits = (-1, float("inf"))
    for copied in (copy.deepcopy(parameter), pickle.loads(pickle.dumps(parameter))):
        assert copied.limits == (-1.0, float("inf"))
    parameter.limits = None
    assert parameter.limits is None
