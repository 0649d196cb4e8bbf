"""Schedulers against their closed forms, resuming, and errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd import optim
from retrograd.nn.parameter import Parameter
from retrograd.optim import lr_scheduler as schedulers
from retrograd.optim.swa_utils import SWALR
from retrograd.train.checkpoint import load_checkpoint, save_checkpoint

BASES = (0.4, 0.1)
Make = Callable[[Any], Any]


def make_optimizer(kind: str = "SGD", **options: Any) -> optim.Optimizer:
    a, b = Parameter(np.ones(2)), Parameter(np.ones(3))
    return getattr(optim, kind)([{"params": [a]}, {"params": [b], "lr": BASES[1]}], lr=BASES[0], **options)


def rates(optimizer: Any, scheduler: Any, steps: int) -> np.ndarray:
    found = []
    for _ in range(steps):
        found.append([group["lr"] for group in optimizer.param_groups])
        assert scheduler.get_last_lr() == found[-1]
        scheduler.step()
    return np.array(found)


class Halving:
    """A function of the epoch that is an object with state."""

    def __init__(self) -> None:
        self.floor = 0.1

    def __call__(self, epoch: int) -> float:
        return max(self.floor, 0.5**epoch)


CLOSED: dict[str, tuple[Make, Callable[[float, int], float]]] = {
    "LambdaLR": (lambda o: schedulers.LambdaLR(o, lambda t: 1 / (1 + t)), lambda base, t: base / (1 + t)),
    "MultiplicativeLR": (lambda o: schedulers.MultiplicativeLR(o, lambda t: 0.9), lambda base, t: base * 0.9**t),
    "StepLR": (lambda o: schedulers.StepLR(o, 4, gamma=0.3), lambda base, t: base * 0.3 ** (t // 4)),
    "MultiStepLR": (
        lambda o: schedulers.MultiStepLR(o, [2, 5, 5]),
        lambda base, t: base * 0.1 ** (0 if t < 2 else 1 if t < 5 else 3),
    ),
    "ConstantLR": (lambda o: schedulers.ConstantLR(o, 0.5, 6), lambda base, t: base * (0.5 if t < 6 else 1)),
    "LinearLR": (
        lambda o: schedulers.LinearLR(o, 0.2, 0.8, 10),
        lambda base, t: base * (0.2 + 0.6 * min(t, 10) / 10),
    ),
    "ExponentialLR": (lambda o: schedulers.ExponentialLR(o, 0.8), lambda base, t: base * 0.8**t),
    "PolynomialLR": (
        lambda o: schedulers.PolynomialLR(o, 9, power=2.0),
        lambda base, t: base * (1 - min(t, 9) / 9) ** 2,
    ),
    "CosineAnnealingLR": (
        lambda o: schedulers.CosineAnnealingLR(o, 7, eta_min=0.01),
        lambda base, t: 0.01 + (base - 0.01) * (1 + math.cos(math.pi * t / 7)) / 2,
    ),
    "CosineAnnealingWarmRestarts": (
        lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.02),
        lambda base, t: 0.02 + (base - 0.02) * (1 + math.cos(math.pi * _since_restart(t, 3))) / 2,
    ),
    "OneCycleLR": (
        lambda o: schedulers.OneCycleLR(o, 1.0, total_steps=21, pct_start=0.25, anneal_strategy="linear"),
        lambda base, t: float(np.interp(t, [0, 0.25 * 21 - 1, 20], [1 / 25, 1, 1 / 25 / 1e4])),
    ),
    "CyclicLR": (
        lambda o: schedulers.CyclicLR(o, 0.1, 0.5, step_size_up=4, step_size_down=2),
        lambda base, t: float(np.interp(t % 6, [0, 4, 6], [0.1, 0.5, 0.1])),
    ),
    "SequentialLR": (
        lambda o: schedulers.SequentialLR(
            o, [schedulers.LinearLR(o, 0.25, total_iters=3), schedulers.ExponentialLR(o, 0.9)], [4]
        ),
        lambda base, t: base * ((0.25 + 0.75 * min(t, 3) / 3) if t < 4 else 0.9 ** (t - 4)),
    ),
    "ChainedScheduler": (
        lambda o: schedulers.ChainedScheduler([schedulers.ExponentialLR(o, 0.9), schedulers.StepLR(o, 5, 0.5)]),
        lambda base, t: base * 0.9**t * 0.5 ** (t // 5),
    ),
    "SWALR": (
        lambda o: SWALR(o, 0.05, anneal_epochs=8, anneal_strategy="linear"),
        lambda base, t: base + (0.05 - base) * min(t, 8) / 8,
    ),
}
each = pytest.mark.parametrize("name", CLOSED)


def _since_restart(t: int, length: int) -> float:
    while t >= length:
        t, length = t - length, 2 * length
    return t / length


@each
def test_closed_form(name: str) -> None:
    make, form = CLOSED[name]
    optimizer = make_optimizer(momentum=0.9)
    found = rates(optimizer, make(optimizer), 20)
    np.testing.assert_allclose(found, [[form(base, t) for base in BASES] for t in range(20)], rtol=1e-9, atol=1e-12)


@each
@pytest.mark.parametrize("done", [0, 1, 4, 11])
def test_resumed_in_the_middle_as_if_never_stopped(name: str, done: int, tmp_path: Path) -> None:
    """Optimizer and scheduler are saved in a checkpoint on disk and restored from it."""
    make, _ = CLOSED[name]
    straight = make_optimizer(momentum=0.9)
    scheduler = make(straight)
    rates(straight, scheduler, done)
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, {"optimizer": straight.state_dict(), "scheduler": scheduler.state_dict()})
    expected = rates(straight, scheduler, 8)

    state = load_checkpoint(path)
    resumed = make_optimizer(momentum=0.9)
    other = make(resumed)
    resumed.load_state_dict(state["optimizer"])
    other.load_state_dict(state["scheduler"])
    np.testing.assert_array_equal(rates(resumed, other, 8), expected)
    assert resumed.param_groups[1].keys() == straight.param_groups[1].keys()
    assert resumed.param_groups[1]["momentum"] == straight.param_groups[1]["momentum"]


def test_last_epoch_resumes_as_well() -> None:
    """Schedulers that compute from the base rate are right immediately; the others continue from the current rate."""
    for make in (
        lambda o, last: schedulers.LambdaLR(o, lambda t: 0.9**t, last_epoch=last),
        lambda o, last: schedulers.CosineAnnealingWarmRestarts(o, 20, last_epoch=last),
    ):
        optimizer, again = make_optimizer(), make_optimizer()
        expected = rates(optimizer, make(optimizer, -1), 12)
        rates(again, make(again, -1), 6)
        other = make(again, 6)
        assert other.last_epoch == 7
        np.testing.assert_allclose(rates(again, other, 5), expected[7:], rtol=1e-12)
    found = schedulers.ExponentialLR(again, 0.5, last_epoch=3)
    before = found.get_last_lr()
    found.step()
    np.testing.assert_allclose(found.get_last_lr(), np.array(before) / 2)


def test_momentum_goes_the_other_way() -> None:
    for kind, options in (("SGD", {"momentum": 0.5}), ("Adam", {})):
        optimizer = make_optimizer(kind, **options)
        scheduler = schedulers.OneCycleLR(optimizer, 1.0, total_steps=10, anneal_strategy="linear", pct_start=0.5)
        found = []
        for _ in range(10):
            group = optimizer.param_groups[0]
            found.append(group["momentum"] if kind == "SGD" else group["betas"][0])
            scheduler.step()
        np.testing.assert_allclose(found, np.interp(range(10), [0, 4, 9], [0.95, 0.85, 0.95]), rtol=1e-12)
        if kind == "Adam":
            assert optimizer.param_groups[0]["betas"][1] == 0.999


def test_warm_restarts_take_a_fraction_of_an_epoch() -> None:
    optimizer = make_optimizer()
    scheduler = schedulers.CosineAnnealingWarmRestarts(optimizer, 4, T_mult=2)
    for epoch, since in ((0.5, 0.5 / 4), (3.75, 3.75 / 4), (4.0, 0.0), (9.0, 5 / 8), (12.5, 0.5 / 16)):
        scheduler.step(epoch)
        expected = BASES[0] * (1 + math.cos(math.pi * since)) / 2
        assert scheduler.get_last_lr()[0] == pytest.approx(expected, rel=1e-12)
        assert scheduler.last_epoch == math.floor(epoch)
    with pytest.raises(ValueError, match="CosineAnnealingWarmRestarts: epoch=-1 is invalid"):
        scheduler.step(-1)


def test_functions_stay_out_of_the_state_and_objects_keep_theirs() -> None:
    optimizer = make_optimizer()
    halving = Halving()
    scheduler = schedulers.LambdaLR(optimizer, [halving, lambda t: 1.0])
    halving.floor = 0.3
    state = scheduler.state_dict()
    assert state["lr_lambdas"] == [{"floor": 0.3}, None]
    other = schedulers.LambdaLR(make_optimizer(), [Halving(), lambda t: 1.0])
    other.load_state_dict(state)
    assert other.lr_lambdas[0].floor == 0.3  # type: ignore[attr-defined]
    assert state["lr_lambdas"] == [{"floor": 0.3}, None]
    cyclic = schedulers.CyclicLR(optimizer, 0.1, 0.5, scale_fn=lambda x: 1.0, cycle_momentum=False)
    assert cyclic.state_dict()["_scale_fn_custom"] is None


def test_the_rate_of_a_schedule_is_that_of_the_step() -> None:
    parameter = Parameter(np.zeros(1))
    optimizer = optim.SGD([parameter], lr=1.0)
    scheduler = schedulers.ExponentialLR(optimizer, 0.5)
    for _ in range(4):
        parameter.grad = Parameter(np.ones(1)).detach()
        optimizer.step()
        scheduler.step()
    np.testing.assert_allclose(parameter.array, -(1 + 0.5 + 0.25 + 0.125))


# ---------------------------------------------------------------- plateau


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("StepLR", {"step_size": 2, "gamma": 0.3}),
        ("MultiStepLR", {"milestones": [1, 3], "gamma": 0.3}),
        ("ConstantLR", {"factor": 0.3, "total_iters": 3}),
        ("LinearLR", {"start_factor": 0.3, "end_factor": 0.7, "total_iters": 3}),
        ("ExponentialLR", {"gamma": 0.7}),
        ("PolynomialLR", {"total_iters": 4, "power": 1.3}),
        ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
        ("CosineAnnealingWarmRestarts", {"T_0": 3, "eta_min": 0.01}),
        ("OneCycleLR", {"max_lr": 0.7, "total_steps": 9, "pct_start": 0.3, "div_factor": 7.1, "max_momentum": 0.9}),
        ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.3, "step_size_up": 3, "gamma": 0.9, "base_momentum": 0.7}),
        ("ReduceLROnPlateau", {"factor": 0.3, "patience": 1, "min_lr": 0.01, "eps": 1e-5, "threshold": 0.01}),
    ],
)
def test_numpy_scalars_are_python_numbers_in_a_scheduler(name: str, options: dict[str, Any]) -> None:
    """np.float32(0.3) becomes 0.30000001192092896, and computations with it are in double precision."""

    def convert(value: Any, real: type[Any], whole: type[Any]) -> Any:
        if isinstance(value, list):
            return [convert(entry, real, whole) for entry in value]
        return real(np.float32(value)) if isinstance(value, float) else whole(value)

    found = []
    for real, whole in ((np.float32, np.int32), (float, int)):
        optimizer = make_optimizer(momentum=0.5)
        given = {option: convert(value, real, whole) for option, value in options.items()}
        scheduler = getattr(schedulers, name)(optimizer, **given)  # a warning is an error
        seen = []
        for _ in range(6):
            scheduler.step(*([1.0] if name == "ReduceLROnPlateau" else []))
            seen.append([(group["lr"], group["momentum"]) for group in optimizer.param_groups])
        found.append(repr((seen, scheduler.state_dict(), optimizer.state_dict())))
    assert found[0] == found[1]


def test_plateau() -> None:
    optimizer = make_optimizer()
    scheduler = schedulers.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1, min_lr=[0.0, 0.08])
    found = []
    for loss in [1.0, 0.9, 0.9, 0.95, 0.96, 0.97, 0.98, math.nan, 0.99]:
        scheduler.step(loss)
        found.append(scheduler.get_last_lr())
    first = [0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1]
    np.testing.assert_allclose(found, [[rate, max(rate / 4, 0.08)] for rate in first])
    assert scheduler.best == 0.9


def test_plateau_before_its_first_metric_can_be_saved(tmp_path: Path) -> None:
    scheduler = schedulers.ReduceLROnPlateau(make_optimizer(), mode="max")
    save_checkpoint(tmp_path / "c.npz", scheduler.state_dict())
    other = schedulers.ReduceLROnPlateau(make_optimizer(), mode="max")
    other.step(5.0)
    other.load_state_dict(load_checkpoint(tmp_path / "c.npz"))
    assert other.best == -math.inf and other.last_epoch == 0


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda o: schedulers.StepLR([], 3), TypeError, "StepLR: optimizer must be an Optimizer"),
        (lambda o: schedulers.StepLR(o, 0), ValueError, "StepLR: step_size=0 is invalid; .* integer of at least 1"),
        (lambda o: schedulers.StepLR(o, 2.5), ValueError, "StepLR: step_size=2.5 is invalid"),
        (lambda o: schedulers.StepLR(o, 2, gamma=-1), ValueError, "StepLR: gamma=-1 is invalid"),
        (lambda o: schedulers.StepLR(o, 2, last_epoch=-3), TypeError, "StepLR: last_epoch=-3 is invalid"),
        (lambda o: schedulers.StepLR(o, 2, last_epoch=4), KeyError, r'last_epoch=4, but param_groups\[0\] has no "in'),
        (lambda o: schedulers.MultiStepLR(o, [3, -1]), ValueError, "MultiStepLR: milestone=-1 is invalid"),
        (lambda o: schedulers.MultiStepLR(o, [3], gamma=None), ValueError, "MultiStepLR: gamma=None is invalid"),
        (lambda o: schedulers.ConstantLR(o, factor=1.5), ValueError, "ConstantLR: factor=1.5 .* at most 1.0"),
        (lambda o: schedulers.ConstantLR(o, factor=0), ValueError, "ConstantLR: factor=0 is invalid"),
        (lambda o: schedulers.ConstantLR(o, total_iters=-1), ValueError, "ConstantLR: total_iters=-1 is invalid"),
        (lambda o: schedulers.LinearLR(o, start_factor=0), ValueError, "LinearLR: start_factor=0 is invalid"),
        (lambda o: schedulers.LinearLR(o, start_factor=2), ValueError, "LinearLR: start_factor=2 is invalid"),
        (lambda o: schedulers.LinearLR(o, end_factor=-1), ValueError, "LinearLR: end_factor=-1 is invalid"),
        (lambda o: schedulers.LinearLR(o, total_iters=0), ValueError, "LinearLR: total_iters=0 is invalid"),
        (lambda o: schedulers.ExponentialLR(o, -0.1), ValueError, "ExponentialLR: gamma=-0.1 is invalid"),
        (lambda o: schedulers.PolynomialLR(o, 0), ValueError, "PolynomialLR: total_iters=0 is invalid"),
        (lambda o: schedulers.PolynomialLR(o, power=-1), ValueError, "PolynomialLR: power=-1 is invalid"),
        (lambda o: schedulers.CosineAnnealingLR(o, 0), ValueError, "CosineAnnealingLR: T_max=0 is invalid"),
        (lambda o: schedulers.CosineAnnealingLR(o, 5, -1), ValueError, "CosineAnnealingLR: eta_min=-1 is invalid"),
        (lambda o: schedulers.CosineAnnealingWarmRestarts(o, 0), ValueError, "WarmRestarts: T_0=0 is invalid"),
        (lambda o: schedulers.CosineAnnealingWarmRestarts(o, 2, 0), ValueError, "WarmRestarts: T_mult=0 is invalid"),
        (lambda o: schedulers.CosineAnnealingWarmRestarts(o, 2, 1, -1), ValueError, "eta_min=-1 is invalid"),
        (lambda o: schedulers.LambdaLR(o, [abs]), ValueError, "LambdaLR: lr_lambda holds 1 functions for 2 parameter"),
        (lambda o: schedulers.LambdaLR(o, 0.5), TypeError, "LambdaLR: lr_lambda=0.5 is not a function"),
        (lambda o: schedulers.MultiplicativeLR(o, [abs, 1]), TypeError, "MultiplicativeLR: lr_lambda=1 is not"),
        (lambda o: schedulers.OneCycleLR(o, 1.0), ValueError, "OneCycleLR: the length is missing"),
        (lambda o: schedulers.OneCycleLR(o, 1.0, total_steps=0), ValueError, "OneCycleLR: total_steps=0 is invalid"),
        (lambda o: schedulers.OneCycleLR(o, 1.0, epochs=0, steps_per_epoch=1), ValueError, "epochs=0 is invalid"),
        (lambda o: schedulers.OneCycleLR(o, 1.0, epochs=1, steps_per_epoch=0), ValueError, "steps_per_epoch=0 is inv"),
        (lambda o: schedulers.OneCycleLR(o, 1.0, 5, pct_start=2), ValueError, "OneCycleLR: pct_start=2 is invalid"),
        (lambda o: schedulers.OneCycleLR(o, 1.0, 5, anneal_strategy="up"), ValueError, "anneal_strategy='up' is inv"),
        (lambda o: schedulers.OneCycleLR(o, 1.0, 5, three_phase=2), ValueError, "OneCycleLR: three_phase=2 is invalid"),
        (lambda o: schedulers.OneCycleLR(o, 1.0, 5, div_factor=0), ValueError, "OneCycleLR: div_factor=0 is invalid"),
        (lambda o: schedulers.OneCycleLR(o, [1.0], 5), ValueError, "OneCycleLR: max_lr holds 1 numbers for 2"),
        (lambda o: schedulers.OneCycleLR(o, -1.0, 5), ValueError, "OneCycleLR: max_lr=-1.0 is invalid"),
        (
            lambda o: schedulers.OneCycleLR(make_optimizer("Adagrad"), 1.0, 5),
            ValueError,
            "OneCycleLR: cycle_momentum=True, but Adagrad has neither momentum nor betas; set cycle_momentum=False",
        ),
        (lambda o: schedulers.CyclicLR(o, 0.1, 0.5, 0), ValueError, "CyclicLR: step_size_up=0 is invalid"),
        (lambda o: schedulers.CyclicLR(o, 0.1, 0.5, 1, 0), ValueError, "CyclicLR: step_size_down=0 is invalid"),
        (lambda o: schedulers.CyclicLR(o, 0.1, 0.5, mode="up"), ValueError, "CyclicLR: mode='up' is invalid"),
        (lambda o: schedulers.CyclicLR(o, 0.1, 0.5, scale_mode="x"), ValueError, "CyclicLR: scale_mode='x' is invalid"),
        (lambda o: schedulers.CyclicLR(o, [0.1], 0.5), ValueError, "CyclicLR: base_lr holds 1 numbers"),
        (lambda o: schedulers.ReduceLROnPlateau(o, factor=1.0), ValueError, "OnPlateau: factor=1.0 .* below 1.0"),
        (lambda o: schedulers.ReduceLROnPlateau(o, mode="low"), ValueError, "ReduceLROnPlateau: mode='low' is invalid"),
        (lambda o: schedulers.ReduceLROnPlateau(o, threshold_mode="x"), ValueError, "threshold_mode='x' is invalid"),
        (lambda o: schedulers.ReduceLROnPlateau(o, patience=-1), ValueError, "patience=-1 is invalid"),
        (lambda o: schedulers.ReduceLROnPlateau(o, cooldown=-1), ValueError, "cooldown=-1 is invalid"),
        (lambda o: schedulers.ReduceLROnPlateau(o, min_lr=[0]), ValueError, "min_lr holds 1 numbers for 2 parameter"),
        (lambda o: schedulers.SequentialLR(o, [], []), ValueError, r"SequentialLR: schedulers=\[\] must be a list"),
        (lambda o: schedulers.SequentialLR(o, [3], []), TypeError, r"schedulers\[0\] must be an LRScheduler"),
        (lambda o: schedulers.SequentialLR(o, [schedulers.StepLR(o, 2)], [4]), ValueError, "1 milestones for 1 sched"),
        (
            lambda o: schedulers.SequentialLR(o, [schedulers.StepLR(o, 2) for _ in range(3)], [4, 4]),
            ValueError,
            r"SequentialLR: milestones=\[4, 4\] must increase",
        ),
        (
            lambda o: schedulers.SequentialLR(o, [schedulers.StepLR(make_optimizer(), 2)], []),
            ValueError,
            r"SequentialLR: schedulers\[0\] belongs to another optimizer",
        ),
        (
            lambda o: schedulers.ChainedScheduler([schedulers.ReduceLROnPlateau(o)]),
            ValueError,
            r"ChainedScheduler: schedulers\[0\] is ReduceLROnPlateau, whose step needs a metric",
        ),
        (lambda o: SWALR(o, 0.1, anneal_epochs=-1), ValueError, "SWALR: anneal_epochs=-1 is invalid"),
        (lambda o: SWALR(o, 0.1, anneal_strategy="x"), ValueError, "SWALR: anneal_strategy='x' is invalid"),
    ],
)
def test_options_are_checked(make: Make, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make(make_optimizer())


def test_a_cycle_that_is_over() -> None:
    scheduler = schedulers.OneCycleLR(make_optimizer(), 1.0, total_steps=2)
    scheduler.step()
    scheduler.step()
    with pytest.raises(ValueError, match="OneCycleLR: step 3 of 2: the cycle is over"):
        scheduler.step()


def test_groups_that_came_later() -> None:
    optimizer = make_optimizer()
    scheduler = schedulers.ExponentialLR(optimizer, 0.5)
    plateau = schedulers.ReduceLROnPlateau(optimizer, min_lr=[0, 0])
    by_base = schedulers.LambdaLR(optimizer, lambda t: 1.0)
    optimizer.add_param_group({"params": [Parameter(np.ones(1))]})
    scheduler.step()
    assert scheduler.get_last_lr() == [0.2, 0.05, 0.2]
    with pytest.raises(ValueError, match="LambdaLR: it has rates for 2 parameter groups, but the optimizer now has 3"):
        by_base.step()
    with pytest.raises(RuntimeError, match="ReduceLROnPlateau: min_lr holds 2 numbers, but the optimizer now has 3"):
        plateau.step(1.0)


def test_a_scheduler_without_rates_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"LRScheduler has no get_lr\(\)"):
        schedulers.LRScheduler(make_optimizer())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: [1], "StepLR state_dict: expected a dict, got list"),
        (lambda s: {**s, "more": 1}, "StepLR state_dict: it has the entries .*more.* StepLR needs"),
        (lambda s: {"gamma": 1}, r"it has the entries \['gamma'\]"),
        (lambda s: {**s, "base_lrs": [1.0]}, "base_lrs is for 1 parameter groups, this optimizer has 2"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change: Callable[[Any], Any], message: str) -> None:
    scheduler = schedulers.StepLR(make_optimizer(), 3)
    before = dict(scheduler.state_dict())
    with pytest.raises(ValueError, match=message):
        scheduler.load_state_dict(change(before))
    assert scheduler.state_dict() == before
    chain = schedulers.ChainedScheduler([schedulers.ExponentialLR(scheduler.optimizer, 0.5), scheduler])
    whole = chain.state_dict()
    with pytest.raises(ValueError, match=message):
        chain.load_state_dict({**whole, "_schedulers": [{**whole["_schedulers"][0], "gamma": 9.0}, change(before)]})
    assert chain.state_dict() == whole
    with pytest.raises(ValueError, match="ChainedScheduler state_dict: it has 1 schedulers, expected 2"):
        chain.load_state_dict({**whole, "_schedulers": whole["_schedulers"][:1]})


def test_naming_an_epoch_warns_and_sets_its_rate() -> None:
    optimizer = make_optimizer()
    scheduler = schedulers.StepLR(optimizer, 2, gamma=0.5)
    scheduler.step()
    with pytest.warns(UserWarning, match="the argument epoch of scheduler.step.. is deprecated; leave it out"):
        scheduler.step(5)
    assert scheduler.last_epoch == 5 and scheduler.get_last_lr() == [base / 4 for base in BASES]
    with pytest.raises(ValueError, match="StepLR: epoch=-1 is invalid; it must be an integer of at least 0"):
        scheduler.step(-1)
    plateau = schedulers.ReduceLROnPlateau(optimizer)
    with pytest.warns(UserWarning, match="the argument epoch"):
        plateau.step(1.0, 7)
    assert plateau.last_epoch == 7
    assert schedulers._LRScheduler is schedulers.LRScheduler
