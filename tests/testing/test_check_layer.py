"""check_layer detects each deliberate bug."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.testing import ConformanceError, Refusal, check_layer

X = np.array([[0.3, -1.2, 0.8], [1.1, 0.4, -0.7]])


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.ones(3, np.float32))

    def forward(self, input: Any) -> Any:
        return input * self.weight


class Forgets(Scale):
    """A layer that computes with a random number missing from its state_dict."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = float(retrograd.rand(1).item())

    def forward(self, input: Any) -> Any:
        return super().forward(input) * self.noise


class Shares(Scale):
    def __deepcopy__(self, memo: Any) -> Any:
        copy = type(self)()
        copy.__dict__.update(self.__dict__)
        return copy


class Thaws(Scale):
    def forward(self, input: Any) -> Any:
        self.weight.requires_grad = True
        return super().forward(input)


class Nameless(Scale):
    def __repr__(self) -> str:
        return "layer"


def test_what_is_right_passes_all_checks() -> None:
    report = check_layer(Scale, X, oracle=np.multiply, batch=(0,), integers=True)
    assert report.passed[-5:] == ["state_dict", "copy", "to", "frozen", "repr"]


@pytest.mark.parametrize(
    ("layer", "fault"),
    [
        (Forgets, "state_dict: value 0: the loaded layer and the one it was saved from differ"),
        (Shares, "copy: value 0: the layer after a change of its copy"),
        (Thaws, "frozen: a parameter with requires_grad=False got a gradient"),
        (Nameless, "repr: repr is layer"),
    ],
)
def test_planted_faults(layer: Any, fault: str) -> None:
    with pytest.raises(ConformanceError, match=fault):
        check_layer(layer, X, integers=True, order=0)


def test_a_wrong_gradient_to_a_parameter_is_found() -> None:
    class Detached(Scale):
        def forward(self, input: Any) -> Any:
            return input * self.weight.detach()

    with pytest.raises(ConformanceError, match="first derivative"):
        check_layer(Detached, X, integers=True)


def test_refusals_can_be_checked_again() -> None:
    errors = [Refusal(ValueError, "features", np.ones((4, 2)))]
    for _ in range(2):
        assert "refusals" in check_layer(lambda: nn.Linear(3, 2), np.ones((4, 3)), linear=True, errors=errors).passed
