"""SGD and Adam compared with their formulas in float64 NumPy, and properties of all optimizers."""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import naive
import retrograd
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
    start = [parameter.array.astype(np.float64) for parameter in parameters]
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
        np.testing.assert_allclose(parameter.array, expected, rtol=rtol, atol=rtol)
    assert bool(optimizer.state) == bool(momentum)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("betas", "decay"), [((0.9, 0.999), 0.0), ((0.5, 0.7), 0.1), ((0.0, 0.0), 0.0)])
def test_adam(dtype: type, betas: tuple[float, float], decay: float) -> None:
    parameters = make(dtype)
    start = [parameter.array.astype(np.float64) for parameter in parameters]
    optimizer = optim.Adam(parameters, lr=0.1, betas=betas, eps=1e-3, weight_decay=decay)
    rng = np.random.default_rng(2)
    history = []
    for _ in range(4):
        history.append(give_gradients(parameters, rng))
        optimizer.step()
    for i, parameter in enumerate(parameters):
        expected = adam(start[i], [step[i] for step in history], 0.1, betas, 1e-3, decay)
        rtol = 1e-11 if dtype is np.float64 else 1e-4
        np.testing.assert_allclose(parameter.array, expected, rtol=rtol, atol=rtol)


def test_adam_counts_the_steps_of_every_parameter() -> None:
    a, b = Parameter(np.ones(2)), Parameter(np.ones(2))
    optimizer = optim.Adam([a, b], lr=0.1)
    g = np.array([1.0, -3.0])
    a.grad = Tensor(g)
    optimizer.step()
    b.grad = Tensor(2 * g)
    optimizer.step()
    np.testing.assert_allclose(a.array, adam(np.ones(2), [g, g], 0.1, (0.9, 0.999), 1e-8, 0.0), rtol=1e-12)
    np.testing.assert_allclose(b.array, adam(np.ones(2), [2 * g], 0.1, (0.9, 0.999), 1e-8, 0.0), rtol=1e-12)
    assert (optimizer.state[a]["step"], optimizer.state[b]["step"]) == (2, 1)


def test_groups_have_options_of_their_own() -> None:
    a, b = Parameter(np.ones(2)), Parameter(np.ones(2))
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 1.0}], lr=0.1)
    a.grad = b.grad = Tensor(np.ones(2))
    optimizer.step()
    np.testing.assert_allclose(a.array, 0.9)
    np.testing.assert_allclose(b.array, 0.0)
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.step()
    np.testing.assert_allclose(a.array, 0.4)


def test_mixed_dtypes_in_one_group() -> None:
    for kind in (optim.SGD, optim.Adam):
        a, b = Parameter(np.ones(2, np.float32)), Parameter(np.ones(2, np.float64))
        optimizer = kind([a, b], lr=0.1)
        a.grad, b.grad = Tensor(np.ones(2, np.float32)), Tensor(np.ones(2, np.float64))
        optimizer.step()
        np.testing.assert_allclose(a.array, b.array, rtol=1e-6)
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
    np.testing.assert_array_equal(without.array, np.ones(2))
    np.testing.assert_array_equal(null.array, np.ones(2))
    assert null.grad is not None
    np.testing.assert_array_equal(null.grad.array, np.ones(2))
    assert (moved.array != 1).all()
    assert list(optimizer.state) == [moved]


def test_updates_happen_in_place_and_buffers_keep_the_memory_order() -> None:
    weight = empty_weight((4, 3, 2, 5))
    weight.array[...] = 1
    array, strides = weight.array, weight.array.strides
    weight.grad = Tensor(np.ones(weight.shape, np.float32))  # in C order
    for optimizer in (optim.SGD([weight], lr=0.1, momentum=0.9), optim.Adam([weight])):
        optimizer.step()
        assert weight.array is array
        for entry in optimizer.state[weight].values():
            if isinstance(entry, Tensor):
                assert entry.array.strides == strides


def test_closure_runs_with_gradients_and_its_loss_is_returned() -> None:
    parameter = Parameter(np.array([3.0]))
    optimizer = optim.SGD([parameter], lr=0.25)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (parameter * parameter).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9.0
    np.testing.assert_allclose(parameter.array, 3.0 - 0.25 * 6.0)
    assert optim.SGD([parameter]).step() is None


def test_zero_grad() -> None:
    parameters = make()
    optimizer = optim.SGD(parameters)
    give_gradients(parameters, np.random.default_rng(0))
    parameters[1].grad = None
    kept = parameters[0].grad
    assert kept is not None
    before = kept.array.copy()
    optimizer.zero_grad(set_to_none=False)
    assert parameters[0].grad is not None
    np.testing.assert_array_equal(parameters[0].grad.array, np.zeros((3, 4)))
    np.testing.assert_array_equal(kept.array, before)
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
        np.testing.assert_allclose(layer.weight.array, [[1.0, -2.0, 0.5]], atol=0.02)


# ---------------------------------------------------------------- caches between steps


MOVING: list[Callable[[Any], optim.Optimizer]] = [
    lambda p: optim.SGD(p, lr=0.1),
    lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
    lambda p: optim.AdamW(p, lr=0.1, amsgrad=True),
    lambda p: optim.NAdam(p, lr=0.1),
]


def replaced(turn: int, parameters: list[Parameter], optimizer: optim.Optimizer) -> None:
    """Do something that a user may do between steps and that invalidates the cached arrays."""
    first = parameters[0]
    if turn == 2:
        first.array = first.array.copy()
    elif turn == 3:
        first.array = np.asfortranarray(first.array)
    elif turn == 4:
        for entries in optimizer.state.values():
            for name, entry in entries.items():
                if isinstance(entry, Tensor):
                    entries[name] = Tensor(entry.array.copy() * 0.5)
    elif turn == 5:
        parameters[1].grad = None
    elif turn == 6:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    elif turn == 7:
        optimizer.param_groups[0]["params"].reverse()
    elif turn == 8:
        optimizer.state.pop(first, None)
    elif turn == 9 and isinstance(optimizer, optim.SGD):
        optimizer.param_groups[0]["momentum"] = 0.3
    gradient = parameters[2].grad
    if turn == 10:
        parameters[2].array = parameters[2].array.astype(np.float32)
        assert gradient is not None
        parameters[2].grad = Tensor(gradient.array.astype(np.float32))


@pytest.mark.parametrize("make", MOVING)
def test_no_step_uses_what_was_there_before(make: Callable[[Any], optim.Optimizer]) -> None:
    """The result equals that of an optimizer which is created anew for every step and loads the state."""
    ours, theirs = (make_parameters() for _ in range(2))
    optimizer = make(ours)
    fresh = make(theirs)
    for turn in range(13):
        for parameters in (ours, theirs):
            rng = np.random.default_rng(turn)
            for parameter in parameters:
                parameter.grad = Tensor(rng.normal(size=parameter.shape).astype(parameter.dtype))
        replaced(turn, ours, optimizer)
        replaced(turn, theirs, fresh)
        optimizer.step()
        state, order = fresh.state_dict(), list(fresh.param_groups[0]["params"])
        fresh = make(order)
        fresh.load_state_dict(state)
        fresh.step()
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(a.array, b.array, err_msg=f"turn {turn}")


def make_parameters() -> list[Parameter]:
    rng = np.random.default_rng(3)
    return [Parameter(rng.normal(size=shape)) for shape in ((4, 3), (5,), (2, 2))]


def test_a_copy_of_an_optimizer_goes_its_own_way() -> None:
    parameters = make_parameters()
    optimizer = optim.Adam(parameters, lr=0.1)
    for _ in range(3):
        give_gradients(parameters, np.random.default_rng(0))
        optimizer.step()
    other = copy.deepcopy(optimizer)
    before = [p.array.copy() for p in parameters]
    assert all(p.grad is None for p in other.param_groups[0]["params"])
    give_gradients(other.param_groups[0]["params"], np.random.default_rng(0))
    other.step()
    for ours, theirs, old in zip(parameters, other.param_groups[0]["params"], before, strict=True):
        np.testing.assert_array_equal(ours.array, old)
        assert (theirs.array != old).all()


def test_gradients_are_not_kept_alive() -> None:
    parameter = Parameter(np.ones(1000))
    optimizer = optim.Adam([parameter])
    for _ in range(4):
        parameter.grad = Tensor(np.ones(1000))
        reference = weakref.ref(parameter.grad.array)
        optimizer.step()
        optimizer.zero_grad()
        assert reference() is None


def test_a_gradient_of_another_shape_or_dtype_is_seen_after_many_steps() -> None:
    a, b = Parameter(np.ones(4)), Parameter(np.ones(6))
    optimizer = optim.SGD([a, b], lr=0.1)
    for _ in range(3):
        a.grad, b.grad = Tensor(np.ones(4)), Tensor(np.ones(6))
        optimizer.step()
    before = a.array.copy()
    for wrong in (np.ones(5), np.ones(6, np.float32), np.ones((6, 1))):
        b.grad.array = wrong
        with pytest.raises(RuntimeError, match="SGD: a parameter has shape .* but its grad has"):
            optimizer.step()
        np.testing.assert_array_equal(a.array, before)


def test_a_buffer_that_no_longer_fits_stops_the_step_before_any_update() -> None:
    a, b = Parameter(np.ones(4)), Parameter(np.ones(6))
    optimizer = optim.Adam([{"params": [a]}, {"params": [b]}], lr=0.1)
    give_gradients([a, b], np.random.default_rng(0))
    optimizer.step()
    before = a.array.copy()
    b.grad, b.array = None, np.ones(7)
    give_gradients([a, b], np.random.default_rng(0))
    with pytest.raises(RuntimeError, match=r"Adam: a parameter has shape \(7,\), but its exp_avg has"):
        optimizer.step()
    np.testing.assert_array_equal(a.array, before)


def test_the_first_momentum_is_not_dampened() -> None:
    """As in PyTorch, also for a parameter that comes later."""
    a, b = Parameter(np.zeros(1)), Parameter(np.zeros(1))
    optimizer = optim.SGD([a, b], lr=1.0, momentum=0.5, dampening=0.75)
    a.grad = Tensor(np.array([1.0]))
    optimizer.step()  # m = 1
    b.grad = Tensor(np.array([2.0]))
    optimizer.step()  # a: m = 0.5 + 0.25; b: m = 2
    optimizer.step()  # a: m = 0.375 + 0.25; b: m = 1 + 0.5
    np.testing.assert_array_equal([a.array[0], b.array[0]], [-(1 + 0.75 + 0.625), -(2 + 1.5)])


def test_adagrad_begins_with_what_it_was_given() -> None:
    a, b = Parameter(np.zeros(2, np.float32)), Parameter(np.zeros(1))
    optimizer = optim.Adagrad([a], lr=1.0, initial_accumulator_value=3.0, eps=0.0, lr_decay=1.0)
    assert optimizer.state[a]["step"] == 0 and (optimizer.state[a]["sum"].array == 3).all()
    optimizer.add_param_group({"params": [b], "initial_accumulator_value": 8.0})
    for _ in range(2):
        a.grad, b.grad = Tensor(np.ones(2, np.float32)), Tensor(np.ones(1))
        optimizer.step()
    np.testing.assert_allclose(a.array, -(1 / 2 + 0.5 / math.sqrt(5)), rtol=1e-6)
    np.testing.assert_allclose(b.array, -(1 / 3 + 0.5 / math.sqrt(10)), rtol=1e-12)


def test_a_graph_that_needs_the_old_values_refuses_to_run() -> None:
    for make in (lambda p: optim.SGD(p, lr=0.1), lambda p: optim.LBFGS(p, lr=0.1, max_iter=1)):
        parameter = Parameter(np.array([3.0, -2.0]))
        optimizer = make([parameter])
        held = (parameter * parameter).sum()

        def closure(optimizer: Any = optimizer, parameter: Any = parameter) -> Tensor:
            optimizer.zero_grad()
            loss = (parameter * parameter).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        with pytest.raises(RuntimeError, match=rf"changed by {type(optimizer).__name__}.step at"):
            held.backward()


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(("name", "buffer"), [("Rprop", "prev"), ("Adam", "exp_avg"), ("Adafactor", "row_var")])
def test_a_graph_that_needs_the_old_state_refuses_to_run(name: str, buffer: str, recorded: bool) -> None:
    parameter = Parameter(np.ones((2, 3), np.float32))
    optimizer = getattr(optim, name)([parameter], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        (parameter * parameter).sum().backward()
        optimizer.step()

    train = retrograd.compile(step) if recorded else step
    for _ in range(3):
        train()
    held = (parameter.detach().requires_grad_() * optimizer.state[parameter][buffer]).sum()
    train()
    with pytest.raises(RuntimeError, match=rf"changed by {name}.step at"):
        held.backward()


@pytest.mark.parametrize("name", ["AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta"])
def test_each_of_them_goes_down(name: str) -> None:
    parameter = Parameter(np.array([3.0, -2.0]))
    optimizer = getattr(optim, name)([parameter], lr=1.0 if name == "Adadelta" else 0.05)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = (parameter * parameter).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(later < earlier for earlier, later in zip(losses, losses[1:], strict=False))


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2), (5,), ()])
def test_adafactor_follows_the_paper(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    options: dict[str, Any] = {"lr": 0.3, "beta2_decay": -0.6, "eps": (1e-5, 0.01), "d": 1.3, "weight_decay": 0.1}
    expected, row, column, full = rng.normal(size=shape), 0.0, 0.0, 0.0
    parameter = Parameter(expected.copy())
    optimizer = optim.Adafactor([parameter], **options)
    for step in range(1, 5):
        gradient = rng.normal(size=shape)
        parameter.grad = Tensor(np.array(gradient))
        optimizer.step()
        expected, row, column, full = naive.adafactor_step(expected, gradient, row, column, full, step=step, **options)
        np.testing.assert_allclose(parameter.array, expected, rtol=1e-12)


@pytest.mark.parametrize("where", ["parameter", "state"])
def test_memory_that_cannot_change_is_refused(where: str) -> None:
    parameter = Parameter(np.ones(4, np.float32))
    optimizer = optim.SGD([parameter], lr=1.0, momentum=0.9)
    parameter.grad = Tensor(np.ones(4, np.float32))
    optimizer.step()
    values = np.full(4, 5, np.float32)
    values.flags.writeable = False
    if where == "parameter":
        parameter.data = Tensor(values)
    else:
        optimizer.state[parameter]["momentum_buffer"] = Tensor(values)
    with pytest.raises(RuntimeError, match=f"memory of {where} is read-only"):
        optimizer.step()
    assert (values == 5).all()
    parameter.data = Tensor(np.ones(1, np.float32)).expand(4)
    with pytest.raises(RuntimeError, match="share one memory location"):
        optimizer.step()
