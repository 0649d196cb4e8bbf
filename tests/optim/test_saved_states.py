"""Inconsistent states of optimizers, schedulers and callbacks raise with a message, and change nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from mutation import frozen
from retrograd import optim
from retrograd.optim import lr_scheduler as schedulers
from retrograd.optim.swa_utils import SWALR
from retrograd.train.callbacks import EarlyStopping, LRScheduler

State = dict[str, Any]


def stepped(kind: Any, **options: Any) -> Any:
    parameters = [rg.ones(3, requires_grad=True), rg.ones(2, requires_grad=True)]
    optimizer = kind(parameters, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (parameters[0] * parameters[0]).sum() + parameters[1].sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return optimizer


def put(state: State, *path: Any, value: Any) -> State:
    lie: Any = copy.deepcopy(state)
    holder = lie
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return lie


@pytest.mark.parametrize(
    ("kind", "path", "value", "message"),
    [
        (optim.Adam, ("param_groups",), 3, "param_groups is 3; it must be a list"),
        (optim.Adam, ("param_groups", 0), 3, r"param_groups\[0\] is 3; it must be a dict"),
        (optim.Adam, ("param_groups", 0, "params"), None, "params of group 0 is None; it must be a list"),
        (optim.Adam, ("param_groups", 0, "params"), [0, [1]], "it must be the index of a parameter"),
        (optim.Adam, ("param_groups", 0, "params"), [0, 0], "group 0 lists a parameter twice"),
        (optim.Adam, ("param_groups", 0, 7), 1, r"group 0 has the options \['7', 'amsgrad'"),
        (optim.Adam, ("param_groups", 0, "lr"), 10**400, "Adam: lr=.* is invalid; it must be a number"),
        (optim.Adam, ("param_groups", 0, "initial_lr"), "x", "initial_lr of group 0 is 'x'; it must be a finite"),
        (optim.Adam, ("state",), [1], r"state is \[1\]; it must be a dict"),
        (optim.Adam, ("state", 0), 5, "state of parameter 0 is 5; it must be a dict"),
        (optim.Adam, ("state", 0, "step"), 10**400, "step=.* is not a count"),
        (optim.Adam, ("state", 0, "step"), 2**60, "step=1152921504606846976 is not a count"),
        (optim.Adam, ("state", 0, "step"), {}, "step is {}; it must be a Tensor or an array"),
        (optim.Adam, ("state", 0, "exp_avg"), "x", "exp_avg is 'x'; it must be a Tensor or an array"),
        (optim.Adam, ("state", 9), {}, "state of parameter 9, which is in no group"),
        (optim.LBFGS, ("state", 0, "old_dirs"), 3, "old_dirs is 3; it must be a list"),
        (optim.LBFGS, ("state", 0, "d"), ["x"] * 5, "d has shape .5,., the parameters have 5 elements; it holds <U1"),
        (optim.LBFGS, ("state", 0, "n_iter"), float("inf"), "'n_iter'=inf is not a count"),
        (optim.LBFGS, ("state", 0, "prev_loss"), "x", "'prev_loss' is 'x'; it must be a Tensor or an array"),
        (optim.LBFGS, ("param_groups", 0, "history_size"), 1, "it has 3 old_dirs, more than history_size=1"),
        (optim.LBFGS, ("state", 0), {"n_iter": 3}, "after 3 iterations it must have 'd'"),
    ],
)
def test_an_optimizer_refuses(kind: Any, path: tuple[Any, ...], value: Any, message: str) -> None:
    options = {"lr": 0.1, "max_iter": 4} if kind is optim.LBFGS else {"lr": 0.1}
    optimizer = stepped(kind, **options)
    before = frozen(optimizer.state_dict())
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(put(optimizer.state_dict(), *path, value=value))
    assert frozen(optimizer.state_dict()) == before


def test_a_buffer_beyond_its_type_is_infinite() -> None:
    optimizer = stepped(optim.SGD, lr=0.1, momentum=0.9)
    optimizer.load_state_dict(put(optimizer.state_dict(), "state", 0, "momentum_buffer", value=np.full(3, 1e300)))
    assert np.isinf(optimizer.state_dict()["state"][0]["momentum_buffer"].array).all()


@pytest.mark.parametrize(
    ("make", "path", "value", "message"),
    [
        (lambda o: schedulers.StepLR(o, 2), ("step_size",), 0, "StepLR state_dict: step_size is 0; it must be an int"),
        (lambda o: schedulers.StepLR(o, 2), ("last_epoch",), -2, "last_epoch is -2; it must be .* of at least -1"),
        (lambda o: schedulers.StepLR(o, 2), ("base_lrs",), 3, "base_lrs is 3; it must be a list"),
        (lambda o: schedulers.StepLR(o, 2), ("base_lrs",), ["x"], r"base_lrs\[0\] is 'x'; it must be a finite number"),
        (lambda o: schedulers.StepLR(o, 2), (7,), 3, "it has the entries .'7', "),
        (lambda o: schedulers.MultiStepLR(o, [2]), ("milestones",), [2], r"milestones is \[2\]; it must be a dict"),
        (lambda o: schedulers.MultiStepLR(o, [2]), ("milestones", "x"), 1, "milestones is 'x'; it must be an integer"),
        (lambda o: schedulers.ConstantLR(o), ("factor",), 0, "factor is 0; it must be a finite number of above 0"),
        (lambda o: schedulers.LinearLR(o), ("total_iters",), 0, "total_iters is 0"),
        (lambda o: schedulers.CosineAnnealingLR(o, 3), ("T_max",), 0, "T_max is 0"),
        (lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3), ("T_i",), 0, "T_i is 0"),
        (lambda o: schedulers.OneCycleLR(o, 0.1, 9), ("_schedule_phases",), [], "has 0 items, expected 2"),
        (lambda o: schedulers.OneCycleLR(o, 0.1, 9), ("_schedule_phases", 0, "end_lr"), "lr", "end_lr'. is 'lr'; it"),
        (lambda o: schedulers.CyclicLR(o, 0.1, 0.2), ("total_size",), 0.0, "total_size is 0.0; it must be .* above 0"),
        (lambda o: schedulers.CyclicLR(o, 0.1, 0.2), ("use_beta1",), True, "use_beta1 is True; it must be False"),
        (lambda o: schedulers.ReduceLROnPlateau(o), ("mode",), "x", "mode is 'x'; it must be 'min' or 'max'"),
        (lambda o: schedulers.ReduceLROnPlateau(o), ("best",), float("nan"), "best is nan; it must be a finite number"),
        (lambda o: schedulers.LambdaLR(o, lambda t: 0.5), ("lr_lambdas",), [3], r"lr_lambdas\[0\] is 3; it must"),
        (lambda o: SWALR(o, 0.1), ("anneal_epochs",), -1, "anneal_epochs is -1"),
        (
            lambda o: schedulers.SequentialLR(o, [schedulers.StepLR(o, 1)] * 3, [2, 4]),
            ("_milestones",),
            [4, 2],
            r"_milestones is \[4, 2\]; its numbers must increase",
        ),
    ],
)
def test_a_scheduler_refuses(make: Callable[[Any], Any], path: tuple[Any, ...], value: Any, message: str) -> None:
    scheduler = make(optim.SGD([rg.ones(2, requires_grad=True)], lr=0.1, momentum=0.9))
    before = frozen(scheduler.state_dict())
    with pytest.raises(ValueError, match=message):
        scheduler.load_state_dict(put(dict(scheduler.state_dict()), *path, value=value))
    assert frozen(scheduler.state_dict()) == before


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1], r"EarlyStopping state_dict is \[1\]; it must be a dict"),
        ({"best": 1.0}, r"has the entries \['best'\], expected \['best', 'best_epoch', 'weights'\]"),
        ({"best": "x", "best_epoch": 1, "weights": {}}, "'best'. is 'x'; it must be a finite number"),
        ({"best": 1.0, "best_epoch": -1, "weights": {}}, "'best_epoch'. is -1"),
        ({"best": 1.0, "best_epoch": 1, "weights": [1]}, r"'weights'. is \[1\]; it must be a dict"),
        ({"best": 1.0, "best_epoch": 1, "weights": {"a": 1}}, "'a'. is 1; it must be an array"),
    ],
)
def test_a_callback_refuses(state: Any, message: str) -> None:
    callback = EarlyStopping()
    with pytest.raises(ValueError, match=message):
        callback.load_state_dict(state)
    assert callback.state_dict() == {"best": None, "best_epoch": 0, "weights": {}}
    watcher = LRScheduler(schedulers.StepLR(optim.SGD([rg.ones(2, requires_grad=True)], lr=0.1), 2))
    with pytest.raises(ValueError, match="LRScheduler state_dict is 3; it must be a dict"):
        watcher.load_state_dict(3)  # type: ignore[arg-type]
