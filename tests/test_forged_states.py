"""Inconsistent states raise the documented error, or load; in bounded time and memory.

A failed call changes nothing; an accepted state is usable. A few cases of each kind run with fixed seeds. The nightly
run draws thousands of new ones and prints its seed; RETROGRAD_FORGED_SEED repeats them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from forging import Random, cases_of, outcome, run_cases, run_fresh_cases
from mutation import array_lies, forged, frozen
from retrograd import nn, optim
from retrograd.data import DataLoader, TensorDataset
from retrograd.kernel_set import use_kernels
from retrograd.ops.random.random import default_generator, set_rng_state
from retrograd.optim import lr_scheduler as schedulers
from retrograd.optim.swa_utils import SWALR, AveragedModel
from retrograd.train.callbacks import EarlyStopping, LRScheduler

_OPTIMIZERS: list[tuple[Any, dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (optim.Adam, {"lr": 0.1, "amsgrad": True}),
    (optim.AdamW, {"lr": 0.1}),
    (optim.NAdam, {"lr": 0.1}),
    (optim.RAdam, {"lr": 0.1}),
    (optim.Adamax, {"lr": 0.1}),
    (optim.Adagrad, {"lr": 0.1}),
    (optim.Adadelta, {"lr": 0.1}),
    (optim.ASGD, {"lr": 0.1}),
    (optim.Rprop, {"lr": 0.1}),
    (optim.Adafactor, {"lr": 0.1}),
    (optim.RMSprop, {"lr": 0.1, "momentum": 0.5, "centered": True}),
    (optim.LBFGS, {"lr": 0.1, "max_iter": 3}),
]


def _optimizer(which: int) -> tuple[Any, Callable[[], None]]:
    kind, options = _OPTIMIZERS[which]
    parameters = [rg.ones(3, requires_grad=True), rg.ones(2, 2, requires_grad=True)]
    optimizer = kind(parameters, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = sum((p * p).sum() for p in parameters) * 0.5
        loss.backward()
        return loss

    return optimizer, lambda: optimizer.step(closure)


def case_optimizer(_: Any, random: Random, folder: Path) -> str:
    which = int(random.integers(len(_OPTIMIZERS)))
    optimizer, step = _optimizer(which)
    step()
    step()
    lie = forged(random, _plain(optimizer.state_dict()))
    again, step = _optimizer(which)
    before = frozen(again.state_dict())
    found, _ = outcome(lambda: again.load_state_dict(lie), ValueError)
    if found == "refused":
        assert frozen(again.state_dict()) == before
    else:
        with np.errstate(all="ignore"):  # numbers may overflow
            step()
            step()
    return found


def _plain(state: Any) -> Any:
    """Return the state with arrays in place of Tensors, as a checkpoint restores it."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    if isinstance(state, (list, tuple)):
        return [_plain(value) for value in state]
    return np.array(state.array) if isinstance(state, rg.Tensor) else state


class _Half:
    """A callable object with state."""

    def __init__(self) -> None:
        self.rate = 0.5

    def __call__(self, epoch: float) -> float:
        return 0.5


_SCHEDULERS: list[Callable[[Any], Any]] = [
    lambda o: schedulers.StepLR(o, 2),
    lambda o: schedulers.MultiStepLR(o, [2, 5]),
    lambda o: schedulers.ConstantLR(o),
    lambda o: schedulers.LinearLR(o),
    lambda o: schedulers.ExponentialLR(o, 0.9),
    lambda o: schedulers.PolynomialLR(o),
    lambda o: schedulers.CosineAnnealingLR(o, 10),
    lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3, 2),
    lambda o: schedulers.OneCycleLR(o, 0.3, total_steps=100),
    lambda o: schedulers.CyclicLR(o, 0.01, 0.1, 4),
    lambda o: schedulers.ReduceLROnPlateau(o),
    lambda o: schedulers.LambdaLR(o, _Half()),
    lambda o: schedulers.MultiplicativeLR(o, lambda epoch: 0.9),
    lambda o: SWALR(o, 0.05),
    lambda o: schedulers.ChainedScheduler([schedulers.StepLR(o, 2), schedulers.ExponentialLR(o, 0.9)]),
    lambda o: schedulers.SequentialLR(o, [schedulers.ConstantLR(o), schedulers.StepLR(o, 2)], [4]),
]


def case_scheduler(_: Any, random: Random, folder: Path) -> str:
    make = _SCHEDULERS[random.integers(len(_SCHEDULERS))]

    def made() -> tuple[Any, Callable[[], None]]:
        scheduler = make(optim.SGD([rg.ones(2, requires_grad=True)], lr=0.1, momentum=0.9))
        metric = [1.0] * isinstance(scheduler, schedulers.ReduceLROnPlateau)
        return scheduler, lambda: scheduler.step(*metric)

    scheduler, step = made()
    step()
    lie = forged(random, dict(scheduler.state_dict()))
    again, step = made()
    target = LRScheduler(again) if random.random() < 0.2 else again
    before = frozen(again.state_dict())
    found, _ = outcome(lambda: target.load_state_dict(lie), ValueError)
    if found == "refused":
        assert frozen(again.state_dict()) == before
    else:
        for _ in range(3):  # the end of a cycle; a power beyond a float, as of a rate that grows for 10**9 epochs
            outcome(step, ValueError, OverflowError)
    return found


def case_loader(_: Any, random: Random, folder: Path) -> str:
    bits = (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64)[random.integers(4)]
    data = TensorDataset(np.arange(10.0))

    def made() -> DataLoader:
        own = None if random.random() < 0.3 else np.random.Generator(bits(1))
        return DataLoader(data, 3, shuffle=True, generator=own)

    loader = made()
    batches = iter(loader)
    next(batches)
    lie = forged(random, _plain(loader.state_dict()))
    again = made()
    before = frozen(again.state_dict())
    found, _ = outcome(lambda: again.load_state_dict(lie), ValueError)
    if found == "refused":
        assert frozen(again.state_dict()) == before
    else:
        assert sum(1 for _ in again) <= 4
    return found


def case_random(_: Any, random: Random, folder: Path) -> str:
    lie = forged(random, rg.get_rng_state())
    before = frozen(rg.get_rng_state())
    found, _ = outcome(lambda: set_rng_state(lie), ValueError)
    if found == "refused":
        assert frozen(rg.get_rng_state()) == before
    else:
        default_generator.permutation(1000)
    return found


def case_module(_: Any, random: Random, folder: Path) -> str:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, momentum=None))
    module = (model, AveragedModel(model))[random.integers(2)]
    state = _plain(module.state_dict())
    if random.random() < 0.3:
        key = list(state)[random.integers(len(state))]
        state[key] = array_lies(random, state[key])
    else:
        state = forged(random, state)
    before = frozen(module.state_dict())
    found, _ = outcome(lambda: module.load_state_dict(state, strict=random.random() < 0.7), RuntimeError, TypeError)
    if found == "refused":
        assert frozen(module.state_dict()) == before
    else:
        with np.errstate(all="ignore"):
            module(rg.ones(4, 3))
    return found


def case_callback(_: Any, random: Random, folder: Path) -> str:
    callback = EarlyStopping()
    lie = forged(random, {"best": 0.5, "best_epoch": 3, "weights": {"0.weight": np.ones((2, 3))}})
    before = frozen(callback.state_dict())
    found, _ = outcome(lambda: callback.load_state_dict(lie), ValueError)
    if found == "refused":
        assert frozen(callback.state_dict()) == before
    else:
        callback.improved({"epoch": 4, "held_out_loss": 0.1})
    return found


CASES = cases_of(globals())


@pytest.mark.parametrize("name", CASES)
def test_a_lie_ends_in_the_documented_error(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = run_cases(CASES, name, range(150), None, tmp_path)
    assert counts["refused"], counts
    shown = capsys.readouterr()
    assert not set(shown.out + shown.err) & {"\x1b", "\x07", "\ud800"}


@pytest.mark.nightly
def test_fresh_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def say(text: str) -> None:
        capsys.readouterr()
        with capsys.disabled():
            print(text, flush=True)

    run_fresh_cases(CASES, 8_000, None, tmp_path, say)


def test_honest_states_are_accepted() -> None:
    """The checks accept every state that the library produces."""
    with use_kernels("textbook"):
        for which in range(len(_OPTIMIZERS)):
            optimizer, step = _optimizer(which)
            step()
            again, _ = _optimizer(which)
            again.load_state_dict(_plain(optimizer.state_dict()))
            assert frozen(_plain(again.state_dict())["state"]) == frozen(_plain(optimizer.state_dict())["state"])
        for make in _SCHEDULERS:
            state = make(optim.SGD([rg.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)).state_dict()
            make(optim.SGD([rg.ones(2, requires_grad=True)], lr=0.1, momentum=0.9)).load_state_dict(state)
