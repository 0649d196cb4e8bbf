"""L-BFGS: convergence, state_dict, and errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from retrograd import optim
from retrograd.engine.tensor import Tensor
from retrograd.nn.parameter import Parameter, empty_weight


def quadratic(seed: int = 0) -> tuple[Parameter, Callable[[Any], Tensor], np.ndarray]:
    """Return a parameter, a strictly convex quadratic function of it, and its minimizer."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(6, 6))
    a, b = root @ root.T + np.eye(6), rng.normal(size=(6, 1))

    def loss(p: Any) -> Tensor:
        x = p.reshape(6, 1)
        return (x * (Tensor(a) @ x)).sum() * 0.5 - (x * Tensor(b)).sum()

    return Parameter(rng.normal(size=(2, 3))), loss, np.linalg.solve(a, b).reshape(2, 3)


def closure_of(optimizer: Any, parameter: Any, loss: Any, count: list[int] | None = None) -> Any:
    def closure() -> Tensor:
        optimizer.zero_grad()
        value = loss(parameter)
        value.backward()
        if count is not None:
            count[0] += 1
        return value

    return closure


@pytest.mark.parametrize("options", [{"lr": 0.3}, {"line_search_fn": "strong_wolfe"}], ids=str)
def test_it_finds_the_minimum(options: dict[str, Any]) -> None:
    parameter, loss, lowest = quadratic()
    optimizer = optim.LBFGS([parameter], max_iter=40, tolerance_change=1e-15, **options)
    first = loss(parameter).item()
    assert optimizer.step(closure_of(optimizer, parameter, loss)).item() == first
    optimizer.step(closure_of(optimizer, parameter, loss))
    np.testing.assert_allclose(parameter.array, lowest, atol=1e-5)


def test_float32_and_a_weight_in_another_order() -> None:
    weight = empty_weight((4, 3))
    weight.array[...] = 1
    goal = Tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
    optimizer = optim.LBFGS([weight], line_search_fn="strong_wolfe")
    array = weight.array
    optimizer.step(closure_of(optimizer, weight, lambda w: ((w - goal) ** 2).sum()))
    np.testing.assert_allclose(weight.array, goal.array, atol=1e-4)
    assert weight.array is array


def test_evaluations_are_limited_and_counted() -> None:
    parameter, loss, _ = quadratic()
    for most in (1, 3):
        count = [0]
        optimizer = optim.LBFGS([parameter], lr=0.01, max_eval=most)
        optimizer.step(closure_of(optimizer, parameter, loss, count))
        assert count[0] == optimizer.state[parameter]["func_evals"] <= most + 1


def test_goes_on_from_its_state_bit_for_bit() -> None:
    parameter, loss, _ = quadratic()
    optimizer = optim.LBFGS([parameter], lr=0.1, max_iter=3, history_size=2)
    optimizer.step(closure_of(optimizer, parameter, loss))
    state, array = copy.deepcopy(optimizer.state_dict()), parameter.array.copy()
    optimizer.step(closure_of(optimizer, parameter, loss))
    other = Parameter(array)
    again = optim.LBFGS([other])
    again.load_state_dict(state)
    again.step(closure_of(again, other, loss))
    np.testing.assert_array_equal(other.array, parameter.array)
    assert len(again.state[other]["ro"]) == 2


def test_a_step_that_fails_leaves_everything_as_it_was() -> None:
    for options in ({"lr": 0.1}, {"line_search_fn": "strong_wolfe"}):
        parameter, loss, _ = quadratic()
        optimizer = optim.LBFGS([parameter], max_iter=2, **options)  # type: ignore[arg-type]
        optimizer.step(closure_of(optimizer, parameter, loss))
        before, state = parameter.array.copy(), copy.deepcopy(optimizer.state_dict())
        calls = [0]

        def breaks(p: Any, calls: list[int] = calls, loss: Any = loss) -> Tensor:
            calls[0] += 1
            if calls[0] == 2:
                raise OSError("gone")
            return loss(p)

        with pytest.raises(OSError, match="gone"):
            optimizer.step(closure_of(optimizer, parameter, breaks))
        np.testing.assert_array_equal(parameter.array, before)
        assert calls[0] == 2
        after = optimizer.state_dict()["state"][0]
        assert after.keys() == state["state"][0].keys()
        for name, old in state["state"][0].items():
            if isinstance(old, (int, float)):
                assert after[name] == old


def test_a_parameter_with_null_request_stays() -> None:
    parameter, loss, _ = quadratic()
    still = Parameter(np.ones(2))
    still.grad = Tensor(np.ones(2))
    still.grad_req = "null"
    optimizer = optim.LBFGS([still, parameter], lr=0.1)

    def closure() -> Tensor:
        parameter.grad = None
        value = loss(parameter)
        value.backward()
        return value

    optimizer.step(closure)
    assert (still.array == 1).all()


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda p: optim.LBFGS([{"params": [p]}, {"params": [Parameter(np.ones(1))]}]), ValueError, "only one param"),
        (lambda p: optim.LBFGS([p, Parameter(np.ones(1, np.float32))]), ValueError, "dtypes float32 and float64"),
        (lambda p: optim.LBFGS([p], lr=-1), ValueError, "LBFGS: lr=-1 is invalid"),
        (lambda p: optim.LBFGS([p], max_iter=0), ValueError, "LBFGS: max_iter=0 is invalid"),
        (lambda p: optim.LBFGS([p], max_eval=0), ValueError, "LBFGS: max_eval=0 is invalid"),
        (lambda p: optim.LBFGS([p], history_size=0.5), ValueError, "LBFGS: history_size=0.5 is invalid"),
        (lambda p: optim.LBFGS([p], tolerance_grad=-1), ValueError, "LBFGS: tolerance_grad=-1 is invalid"),
        (lambda p: optim.LBFGS([p], line_search_fn="armijo"), ValueError, "line_search_fn='armijo' is invalid"),
        (lambda p: optim.LBFGS([p]).step(), TypeError, r"LBFGS: closure is missing; step\(closure\)"),
    ],
)
def test_refusals(make: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make(Parameter(np.ones(3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d": np.ones(2)}, r"parameter 0: d has shape \(2,\), the parameters have 6 elements"),
        ({"ro": [1.0, 2.0]}, "old_dirs, old_stps and ro have different lengths"),
        ({"more": 1}, "has the entry 'more', which LBFGS does not use"),
    ],
)
def test_a_state_that_does_not_fit(change: dict[str, Any], message: str) -> None:
    parameter, loss, _ = quadratic()
    optimizer = optim.LBFGS([parameter], lr=0.1, max_iter=2)
    optimizer.step(closure_of(optimizer, parameter, loss))
    state = copy.deepcopy(optimizer.state_dict())
    state["state"][0].update(change)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(state)
