"""Initial values: ranges and spreads of every function, and the defaults of the layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor
from retrograd.nn import init
from retrograd.nn.parameter import empty_weight

SHAPE = (60, 50, 3, 2)
FAN_IN, FAN_OUT = 300, 360


@pytest.fixture(autouse=True)
def seed() -> None:
    retrograd.manual_seed(0)


def weight() -> Tensor:
    return Tensor(np.full(SHAPE, np.nan))


@pytest.mark.parametrize(
    ("fill", "bound"),
    [
        (lambda t: init.uniform_(t, -2.0, 2.0), 2.0),
        (lambda t: init.xavier_uniform_(t), math.sqrt(6 / (FAN_IN + FAN_OUT))),
        (lambda t: init.xavier_uniform_(t, gain=3.0), 3 * math.sqrt(6 / (FAN_IN + FAN_OUT))),
        (lambda t: init.kaiming_uniform_(t), math.sqrt(2) * math.sqrt(3 / FAN_IN)),
        (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), 1 / math.sqrt(FAN_IN)),
        (lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="linear"), math.sqrt(3 / FAN_OUT)),
    ],
)
def test_uniform_functions(fill: Callable[[Tensor], Tensor], bound: float) -> None:
    tensor = weight()
    assert fill(tensor) is tensor
    values = tensor.array
    assert np.abs(values).max() <= bound
    assert np.abs(values).max() > 0.999 * bound
    assert abs(values.mean()) < 5 * bound / math.sqrt(3 * values.size)
    assert abs(values.std() / (bound / math.sqrt(3)) - 1) < 0.03


@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (lambda t: init.normal_(t, 5.0, 0.5), 5.0, 0.5),
        (lambda t: init.xavier_normal_(t, gain=2.0), 0.0, 2 * math.sqrt(2 / (FAN_IN + FAN_OUT))),
        (lambda t: init.kaiming_normal_(t), 0.0, math.sqrt(2 / FAN_IN)),
        (lambda t: init.kaiming_normal_(t, 0, "fan_out", "tanh"), 0.0, 5 / 3 / math.sqrt(FAN_OUT)),
    ],
)
def test_normal_functions(fill: Callable[[Tensor], Tensor], mean: float, std: float) -> None:
    values = fill(weight()).array
    assert abs(values.mean() - mean) < 5 * std / math.sqrt(values.size)
    assert abs(values.std() / std - 1) < 0.03
    assert abs(((values - mean) ** 4).mean() / std**4 - 3) < 0.2  # a normal distribution's fourth moment


@pytest.mark.parametrize(
    ("options", "mean", "std"),
    [  # of N(mean, std**2) on [a, b], by the formulas of the truncated normal distribution
        ({}, 0.0, 0.8796),
        ({"std": 0.02}, 0.0, 0.02),
        ({"mean": 1.0, "std": 2.0, "a": -1.0, "b": 1.0}, 0.0803, 0.5644),
        ({"mean": 0.0, "std": 1.0, "a": 2.0, "b": 3.0}, 2.3158, 0.2490),
    ],
)
def test_truncated_normal(options: dict[str, float], mean: float, std: float) -> None:
    values = init.trunc_normal_(weight(), **options).array
    assert options.get("a", -2.0) <= values.min() and values.max() <= options.get("b", 2.0)
    assert abs(values.mean() - mean) < 5 * std / math.sqrt(values.size)
    assert abs(values.std() / std - 1) < 0.03


def test_truncated_normal_far_from_its_mean_warns() -> None:
    with pytest.warns(UserWarning, match=r"mean is more than 2 std from \[a, b\]"):
        values = init.trunc_normal_(Tensor(np.empty(500, np.float32)), 0.0, 0.1, 1.0, 2.0).array
    assert values.min() >= 1.0 and abs(values.mean() - 1.0098) < 0.004  # the tail falls off with std**2 / a


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 3, 2), (6, 2, 2), (1, 1)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    matrix = init.orthogonal_(Tensor(np.empty(shape)), gain=2.0).array.reshape(shape[0], -1)
    small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)


def test_orthogonal_is_uniform() -> None:
    draws = np.stack([init.orthogonal_(Tensor(np.empty((2, 2)))).array for _ in range(2000)])
    assert np.abs(draws.mean(0)).max() < 5 * math.sqrt(0.5 / 2000)  # a QR factor with fixed signs has other means


def test_identities() -> None:
    np.testing.assert_array_equal(init.eye_(Tensor(np.empty((3, 5)))).array, np.eye(3, 5))
    for taps in ((3,), (3, 5), (1, 3, 2)):
        kernel = init.dirac_(Tensor(np.empty((6, 2, *taps))), groups=2).array
        wanted = np.zeros((6, 2, *taps))
        for output, channel in ((0, 0), (1, 1), (3, 0), (4, 1)):
            wanted[(output, channel, *(extent // 2 for extent in taps))] = 1
        np.testing.assert_array_equal(kernel, wanted)


def test_sparse() -> None:
    matrix = init.sparse_(Tensor(np.empty((50, 40))), 0.31, std=0.5).array
    assert ((matrix == 0).sum(0) == 16).all()
    assert abs(matrix[matrix != 0].std() / 0.5 - 1) < 0.1


@pytest.mark.parametrize("name", ["uniform", "constant", "kaiming_normal", "orthogonal"])
def test_old_names_warn(name: str) -> None:
    arguments = (0.5,) if name == "constant" else ()
    tensor = weight()
    with pytest.warns(FutureWarning, match=rf"nn.init.{name} is now deprecated in favor of nn.init.{name}_."):
        assert getattr(init, name)(tensor, *arguments) is tensor
    assert np.isfinite(tensor.array).all()


def test_constants() -> None:
    tensor = weight()
    assert (init.constant_(tensor, 2.5).array == 2.5).all()
    assert (init.ones_(tensor).array == 1).all()
    assert (init.zeros_(tensor).array == 0).all()


@pytest.mark.parametrize(
    ("nonlinearity", "param", "gain"),
    [
        ("linear", None, 1.0),
        ("conv2d", None, 1.0),
        ("conv_transpose3d", None, 1.0),
        ("sigmoid", None, 1.0),
        ("tanh", None, 5 / 3),
        ("relu", None, math.sqrt(2)),
        ("selu", None, 0.75),
        ("leaky_relu", None, math.sqrt(2 / (1 + 0.01**2))),
        ("leaky_relu", 0.2, math.sqrt(2 / 1.04)),
        ("leaky_relu", 1, 1.0),
    ],
)
def test_gains(nonlinearity: str, param: float | None, gain: float) -> None:
    assert init.calculate_gain(nonlinearity, param) == pytest.approx(gain, rel=1e-15)


def test_refusals_change_nothing() -> None:
    tensor = init.ones_(weight())
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: init.uniform_(tensor, 1.0, 0.0), ValueError, "uniform_: a=1.0 must be at most b=0.0"),
        (lambda: init.normal_(tensor, 0.0, -1.0), ValueError, "normal_: std=-1.0 must be at least 0"),
        (lambda: init.trunc_normal_(tensor, std=0.0), ValueError, "trunc_normal_: std=0.0 must be above 0"),
        (lambda: init.trunc_normal_(tensor, a=1.0, b=1.0), ValueError, "trunc_normal_: a=1.0 must be below b=1.0"),
        (lambda: init.eye_(tensor), ValueError, r"eye_: tensor.shape=.* has 4 dimensions, needs 2"),
        (lambda: init.dirac_(tensor[0, 0]), ValueError, "dirac_: .* has 2 dimensions, needs 3 or 4 or 5"),
        (lambda: init.dirac_(tensor, 7), ValueError, "groups=7 must be an int that divides the 60 output channels"),
        (lambda: init.orthogonal_(tensor[0, 0, 0]), ValueError, "orthogonal_: .* needs at least 2 dimensions"),
        (lambda: init.sparse_(tensor[0, 0], 1.5), ValueError, "sparsity=1.5 is a fraction"),
        (lambda: init.kaiming_normal_(tensor, mode="in"), ValueError, "mode='in' must be 'fan_in'"),
        (
            lambda: init.kaiming_uniform_(tensor, nonlinearity="swish"),
            ValueError,
            "unsupported nonlinearity 'swish'; use one of linear, conv1d",
        ),
        (lambda: init.calculate_gain("leaky_relu", True), ValueError, "slope param=True is not a number"),
        (
            lambda: init.xavier_normal_(Tensor(np.ones(3))),
            ValueError,
            r"at least 2 dimensions, got shape \(3,\); use uniform_ or normal_",
        ),
        (lambda: init.uniform_(Tensor(np.array([1, 2]))), TypeError, "tensor must be float32 or float64, got int64"),
        (lambda: init.zeros_(np.ones(3)), TypeError, "tensor must be a Tensor, got ndarray"),  # type: ignore[type-var]
    ]
    for call, kind, message in cases:
        with pytest.raises(kind, match=message):
            call()
    assert (tensor.array == 1).all()


def test_values_do_not_depend_on_memory_order_or_dtype() -> None:
    retrograd.manual_seed(1)
    plain = init.kaiming_uniform_(Tensor(np.empty((4, 3, 2, 5))))
    retrograd.manual_seed(1)
    strided = init.kaiming_uniform_(empty_weight((4, 3, 2, 5)))
    assert plain.array.strides != strided.array.strides
    np.testing.assert_array_equal(strided.array, plain.array.astype(np.float32))


def test_a_generator_of_ones_own() -> None:
    state = retrograd.get_rng_state()
    one = init.normal_(weight(), generator=np.random.default_rng(4))
    two = init.normal_(weight(), generator=np.random.default_rng(4))
    np.testing.assert_array_equal(one.array, two.array)
    assert retrograd.get_rng_state() == state


def test_the_same_seed_gives_the_same_network() -> None:
    def build() -> dict[str, Tensor]:
        retrograd.manual_seed(5)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Linear(8, 2)).state_dict()

    for (name, ours), theirs in zip(build().items(), build().values(), strict=True):
        np.testing.assert_array_equal(ours.array, theirs.array, err_msg=name)


@pytest.mark.parametrize(
    ("layer", "fan_in"),
    [
        (lambda: nn.Linear(400, 30), 400),
        (lambda: nn.Conv1d(64, 40, 5), 320),
        (lambda: nn.Conv2d(32, 40, 3, groups=2), 144),
        (lambda: nn.Conv3d(8, 40, (1, 2, 3)), 48),
        (lambda: nn.ConvTranspose2d(40, 32, 3), 288),
    ],
)
def test_default_values_of_layers(layer: Callable[[], Any], fan_in: int) -> None:
    retrograd.manual_seed(0)  # a bias has few values: an unlucky draw stays far below the bound
    built = layer()
    bound = 1 / math.sqrt(fan_in)
    for parameter in built.parameters():
        values = np.abs(parameter.array)
        assert values.max() <= bound * (1 + 1e-6)
        assert values.max() > 0.9 * bound
        assert abs(parameter.array.mean()) < 5 * bound / math.sqrt(3 * values.size)
    before = built.weight.array.copy()
    built.reset_parameters()
    assert (built.weight.array != before).any()


@pytest.mark.parametrize("fill", [init.ones_, init.normal_, init.trunc_normal_, init.eye_, init.orthogonal_])
def test_a_backward_that_needs_the_values_from_before_is_refused(fill: Callable[[Tensor], Tensor]) -> None:
    w, x = Tensor(np.ones((3, 2))), Tensor(np.ones((3, 2)), requires_grad=True)
    loss = (x * w).sum()
    fill(w)
    with pytest.raises(RuntimeError, match=r"changed by nn\.init"):
        loss.backward()


def test_memory_that_cannot_change_is_refused() -> None:
    values = np.ones((3, 2))
    values.flags.writeable = False
    with pytest.raises(RuntimeError, match=r"nn\.init: the memory of tensor is read-only"):
        init.zeros_(Tensor(values))
    with pytest.raises(RuntimeError, match="share one memory location"):
        init.zeros_(Tensor(np.ones(2)).expand(3, 2))
