"""SGD and Adam against their formulas, written again here in float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd import nn, optim
from retrograd.engine.tensor import Tensor
from retrograd.nn.parameter import Parameter, empty_weight

SHAPES = [(3, 4), (5,), (), (2, 3, 2, 2), (0, 2)]


def make(dtype: type = np.float64, seed: int = 0) -> list[Parameter]:
    rng = np.random.default_rng(seed)
    return [Parameter(rng.normal(size=shape).astype(dtype)) for shape in SHAPES]


def give_gradients(parameters: list[Parameter], rng: np.random.Generator) -> list[np.ndarray]:
    gradients = [rng.normal(size=parameter.shape) for parameter in parameters]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = Tensor(gradient.astype(parameter.dtype))
    return gradients


def sgd(p: np.ndarray, grads: list[np.ndarray], lr: float, momentum: float, decay: float) -> np.ndarray:
    velocity = np.zeros_like(p)
    for g in grads:
        velocity = momentum * velocity + g + decay * p
        p = p - lr * velocity
    return p


def adam(
    p: np.ndarray, grads: list[np.ndarray], lr: float, betas: tuple[float, float], eps: float, decay: float
) -> np.ndarray:
    m = v = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = g + decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g**2
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)
    return p


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.8, 0.05)])
def test_sgd(dtype: type, momentum: float, decay: float) -> None:
    parameters = make(dtype)
    start = [parameter.data.astype(np.float64) for parameter in parameters]
    optimizer = optim.SGD(parameters, lr=0.1, momentum=momentum, weight_decay=decay)
    rng = np.random.default_rng(1)
    history = []
    for _ in range(4):
        history.append(give_gradients(parameters, rng))
        optimizer.step()
    for i, parameter in enumerate(parameters):
        expected = sgd(start[i], [step[i] for step in history], 0.1, momentum, decay)
        assert parameter.dtype == dtype
        rtol = 1e-12 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(parameter.data, expected, rtol=rtol, atol=rtol)
    assert bool(optimizer.state) == bool(momentum)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("betas", "decay"), [((0.9, 0.999), 0.0), ((0.5, 0.7), 0.1), ((0.0, 0.0), 0.0)])
def test_adam(dtype: type, betas: tuple[float, float], decay: float) -> None:
    parameters = make(dtype)
    start = [parameter.data.astype(np.float64) for parameter in parameters]
    optimizer = optim.Adam(parameters, lr=0.1, betas=betas, eps=1e-3, weight_decay=decay)
    rng = np.random.default_rng(2)
    history = []
    for _ in range(4):
        history.append(give_gradients(parameters, rng))
        optimizer.step()
    for i, parameter in enumerate(parameters):
        expected = adam(start[i], [step[i] for step in history], 0.1, betas, 1e-3, decay)
        rtol = 1e-11 if dtype is np.float64 else 1e-4
        np.testing.assert_allclose(parameter.data, expected, rtol=rtol, atol=rtol)


def test_adam_counts_the_steps_of_every_parameter() -> None:
    a, b = Parameter(np.ones(2)), Parameter(np.ones(2))
    optimizer = optim.Adam([a, b], lr=0.1)
    g = np.array([1.0, -3.0])
    a.grad = Tensor(g)
    optimizer.step()
    b.grad = Tensor(2 * g)
    optimizer.step()
    np.testing.assert_allclose(a.data, adam(np.ones(2), [g, g], 0.1, (0.9, 0.999), 1e-8, 0.0), rtol=1e-12)
    np.testing.assert_allclose(b.data, adam(np.ones(2), [2 * g], 0.1, (0.9, 0.999), 1e-8, 0.0), rtol=1e-12)
    assert (optimizer.state[a]["step"], optimizer.state[b]["step"]) == (2, 1)


def test_groups_have_options_of_their_own() -> None:
    a, b = Parameter(np.ones(2)), Parameter(np.ones(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.1)
    a.grad = b.grad = Tensor(np.ones(2))
    optimizer.step()
    np.testing.assert_allclose(a.data, 0.9)
    np.testing.assert_allclose(b.data, 0.0)
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    np.testing.assert_allclose(a.data, 0.4)


def test_mixed_dtypes_in_one_group() -> None:
    for kind in (optim.SGD, optim.Adam):
        a, b = Parameter(np.ones(2, np.float32)), Parameter(np.ones(2, np.float64))
        optimizer = kind([a, b], lr=0.1)
        a.grad, b.grad = Tensor(np.ones(2, np.float32)), Tensor(np.ones(2, np.float64))
        optimizer.step()
        np.testing.assert_allclose(a.data, b.data, rtol=1e-6)
        assert a.dtype == np.float32 and b.dtype == np.float64


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam])
def test_parameters_without_gradient_or_with_null_request_are_left_alone(kind: type[optim.Optimizer]) -> None:
    moved, without, null = (Parameter(np.ones(2)) for _ in range(3))
    null.grad = Tensor(np.ones(2))
    null.grad_req = "null"
    moved.grad = Tensor(np.ones(2))
    options = {"momentum": 0.9} if kind is optim.SGD else {}
    optimizer = kind([without, null, moved], weight_decay=0.1, **options)  # type: ignore[arg-type]
    optimizer.step()
    np.testing.assert_array_equal(without.data, np.ones(2))
    np.testing.assert_array_equal(null.data, np.ones(2))
    assert null.grad is not None
    np.testing.assert_array_equal(null.grad.data, np.ones(2))
    assert (moved.data != 1).all()
    assert list(optimizer.state) == [moved]


def test_updates_happen_in_place_and_buffers_keep_the_memory_order() -> None:
    weight = empty_weight((4, 3, 2, 5))
    weight.data[...] = 1
    array, strides = weight.data, weight.data.strides
    weight.grad = Tensor(np.ones(weight.shape, np.float32))  # in C order
    for optimizer in (optim.SGD([weight], lr=0.1, momentum=0.9), optim.Adam([weight])):
        optimizer.step()
        assert weight.data is array
        for entry in optimizer.state[weight].values():
            if isinstance(entry, Tensor):
                assert entry.data.strides == strides


def test_closure_runs_with_gradients_and_its_loss_is_returned() -> None:
    parameter = Parameter(np.array([3.0]))
    optimizer = optim.SGD([parameter], lr=0.25)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (parameter * parameter).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9.0
    np.testing.assert_allclose(parameter.data, 3.0 - 0.25 * 6.0)
    assert optim.SGD([parameter]).step() is None


def test_zero_grad() -> None:
    parameters = make()
    optimizer = optim.SGD(parameters)
    give_gradients(parameters, np.random.default_rng(0))
    parameters[1].grad = None
    kept = parameters[0].grad
    assert kept is not None
    before = kept.data.copy()
    optimizer.zero_grad(set_to_none=False)
    assert parameters[0].grad is not None
    np.testing.assert_array_equal(parameters[0].grad.data, np.zeros((3, 4)))
    np.testing.assert_array_equal(kept.data, before)
    assert parameters[1].grad is None
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in parameters)


def test_a_layer_learns() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 0.25
    for make_optimizer in (
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: optim.Adam(p, lr=0.1),
    ):
        layer, loss = nn.Linear(3, 1), nn.MSELoss()
        optimizer = make_optimizer(layer.parameters())
        for _ in range(200):
            optimizer.zero_grad()
            value = loss(layer(Tensor(x)), Tensor(y))
            value.backward()
            optimizer.step()
        assert value.item() < 1e-4
        np.testing.assert_allclose(layer.weight.data, [[1.0, -2.0, 0.5]], atol=0.02)
