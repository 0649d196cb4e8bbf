"""Every scheduler and every option over 50 steps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_close, normal

Make = Callable[[Any, Any], Any]  # (lr_scheduler module, optimizer) -> scheduler
CASES: dict[str, Make] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda t: 0.9**t),
    "LambdaLR, each group": lambda s, o: s.LambdaLR(o, [lambda t: 1 / (1 + t), lambda t: 0.5 + 0.01 * t]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda t: 0.97),
    "StepLR": lambda s, o: s.StepLR(o, 7),
    "StepLR, gamma": lambda s, o: s.StepLR(o, 5, gamma=0.7),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 10, 10, 30], gamma=0.3),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "ConstantLR, factor": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=20),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "LinearLR, down": lambda s, o: s.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=30),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.93),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o),
    "PolynomialLR, power": lambda s, o: s.PolynomialLR(o, total_iters=40, power=2.5),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, T_max=50),
    "CosineAnnealingLR, up again": lambda s, o: s.CosineAnnealingLR(o, T_max=12, eta_min=0.01),
    "WarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 7),
    "WarmRestarts, T_mult": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, T_mult=2, eta_min=0.02),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=50),
    "OneCycleLR, linear": lambda s, o: s.OneCycleLR(
        o,
        [0.5, 0.3],
        epochs=10,
        steps_per_epoch=6,
        pct_start=0.2,
        anneal_strategy="linear",
        div_factor=10.0,
        final_div_factor=100.0,
        base_momentum=0.7,
        max_momentum=[0.8, 0.9],
    ),
    "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(
        o, 0.5, total_steps=51, three_phase=True, cycle_momentum=False
    ),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.2, step_size_up=6),
    "CyclicLR, triangular2": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], 0.2, step_size_up=4, step_size_down=9, mode="triangular2", base_momentum=0.6, max_momentum=0.7
    ),
    "CyclicLR, exp_range": lambda s, o: s.CyclicLR(
        o, 0.01, 0.2, step_size_up=6, mode="exp_range", gamma=0.98, cycle_momentum=False
    ),
    "CyclicLR, function": lambda s, o: s.CyclicLR(
        o, 0.01, 0.2, step_size_up=6, scale_fn=lambda x: 1 / (5 ** (x * 0.01)), scale_mode="iterations"
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, total_iters=8), s.ExponentialLR(o, 0.9), s.StepLR(o, 5)], milestones=[8, 25]
    ),
    "SequentialLR, restarts": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.5, 4), s.CosineAnnealingWarmRestarts(o, 6), s.LambdaLR(o, lambda t: 0.8**t)], [7, 30]
    ),
    "SequentialLR, cosine": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.01, total_iters=5), s.CosineAnnealingLR(o, T_max=45)], milestones=[5]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, factor=0.1, total_iters=12), s.ExponentialLR(o, 0.95), s.MultiStepLR(o, [20, 40])]
    ),
    "ChainedScheduler, optimizer": lambda s, o: s.ChainedScheduler(
        [s.PolynomialLR(o, 30), s.CosineAnnealingLR(o, 25, 0.01)], optimizer=o
    ),
}
KINDS: dict[str, dict[str, Any]] = {"SGD": {"lr": 0.1, "momentum": 0.9}, "Adam": {"lr": 0.1}}


def _pair(kind: str) -> tuple[Any, Any]:
    def make(library: Any, tensor: Any) -> Any:
        a, b = (library.nn.Parameter(tensor(np.ones(2))) for _ in range(2))
        return getattr(library.optim, kind)([{"params": [a]}, {"params": [b], "lr": 0.04}], **KINDS[kind])

    return make(retrograd, retrograd.tensor), make(torch, torch.tensor)


def _assert_same(mine: Any, yours: Any, step: int) -> None:
    for group, peer in zip(mine.param_groups, yours.param_groups, strict=True):
        assert set(peer) - set(group) <= {"foreach", "fused", "capturable", "differentiable"}
        for key in group.keys() - {"params"}:
            np.testing.assert_allclose(group[key], peer[key], rtol=1e-12, atol=1e-17, err_msg=f"{key} at step {step}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_fifty_steps(name: str, kind: str) -> None:
    mine, yours = _pair(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's about the order of calls
        ours, peer = (CASES[name](retrograd.optim.lr_scheduler, mine), CASES[name](torch.optim.lr_scheduler, yours))
        for step in range(50):
            _assert_same(mine, yours, step)
            np.testing.assert_allclose(ours.get_last_lr(), peer.get_last_lr(), rtol=1e-12, atol=1e-17)
            mine.step()
            yours.step()
            ours.step()
            peer.step()
    if name.split(",")[0] not in ("ChainedScheduler",):
        assert ours.last_epoch == peer.last_epoch == 50


def test_an_epoch_may_be_named() -> None:
    """The deprecated form, which older scripts have: the closed form, whatever the rates were."""
    for name in CASES:
        if name.split(",")[0] in ("SequentialLR", "ChainedScheduler", "WarmRestarts"):
            continue
        mine, yours = _pair("SGD")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the order of calls, and the deprecation
            ours = CASES[name](retrograd.optim.lr_scheduler, mine)
            peer = CASES[name](torch.optim.lr_scheduler, yours)
            for step, epoch in enumerate((0, 1, 2, 9, 4, None, 17)):
                for one in (ours, peer):
                    one.step() if epoch is None else one.step(epoch)
                if name != "CosineAnnealingLR, up again" or step < 3:  # PyTorch's closed form stays at the minimum
                    _assert_same(mine, yours, step)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"factor": 0.5, "patience": 0, "eps": 1e-3},
        {"mode": "max", "patience": 2, "threshold": 0.1, "cooldown": 3, "factor": 0.8},
        {"mode": "min", "patience": 1, "threshold_mode": "abs", "threshold": 0.3, "min_lr": [0.05, 0.001]},
        {"mode": "max", "patience": 1, "threshold_mode": "abs", "threshold": 0.3, "min_lr": 0.01, "factor": 0.3},
    ],
    ids=str,
)
def test_reduce_on_plateau(options: dict[str, Any]) -> None:
    mine, yours = _pair("SGD")
    ours = retrograd.optim.lr_scheduler.ReduceLROnPlateau(mine, **options)
    peer = torch.optim.lr_scheduler.ReduceLROnPlateau(yours, **options)
    metrics = np.abs(normal(50)) + np.linspace(2, 1, 50)
    metrics[17] = np.nan
    for step, metric in enumerate(metrics):
        ours.step(metric)
        peer.step(metric)
        _assert_same(mine, yours, step)
        assert (ours.best, ours.num_bad_epochs, ours.cooldown_counter) == (
            peer.best,
            peer.num_bad_epochs,
            peer.cooldown_counter,
        )


@pytest.mark.parametrize(
    "options", [{}, {"anneal_epochs": 4, "anneal_strategy": "linear"}, {"anneal_epochs": 0}], ids=str
)
def test_swalr(options: dict[str, Any]) -> None:
    mine, yours = _pair("SGD")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = retrograd.optim.swa_utils.SWALR(mine, [0.02, 0.03], **options)
        peer = torch.optim.swa_utils.SWALR(yours, [0.02, 0.03], **options)
        for step in range(20):
            _assert_same(mine, yours, step)
            ours.step()
            peer.step()


def _network(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.mark.parametrize("way", ["swa", "ema", "multi ema", "buffers", "function"])
def test_averaged_model(way: str) -> None:
    """The average after every update, its state, and the statistics of batch norm measured again."""
    model, peer = _network(retrograd.nn).double(), _network(torch.nn).double()
    state = {key: value.numpy().copy() for key, value in model.state_dict().items()}
    peer.load_state_dict({key: torch.tensor(value) for key, value in state.items()})

    def averaged(library: Any, source: Any) -> Any:
        swa = library.optim.swa_utils
        options: dict[str, dict[str, Any]] = {
            "swa": {},
            "ema": {"avg_fn": swa.get_ema_avg_fn(0.8)},
            "multi ema": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.7)},
            "buffers": {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.7), "use_buffers": True},
            "function": {"avg_fn": lambda a, p, n: a + (p - a) / (2 * n + 1)},
        }
        return swa.AveragedModel(source, **options[way])

    mine, yours = averaged(retrograd, model), averaged(torch, peer)
    for step in range(4):
        for index, (p, q) in enumerate(zip(model.parameters(), peer.parameters(), strict=True)):
            change = normal(*q.shape, seed=10 * step + index)
            p.array[...] += change
            q.data += torch.tensor(change)
        x = normal(5, 3, seed=50 + step)
        model(retrograd.tensor(x))
        peer(torch.tensor(x))
        mine.update_parameters(model)
        yours.update_parameters(peer)
        assert list(mine.state_dict()) == list(yours.state_dict())
        for key, value in yours.state_dict().items():
            assert_close(mine.state_dict()[key], value, f"{key} after update {step}", tolerance=1e-12)
    batches = [normal(6, 3, seed=90 + index) for index in range(3)]
    retrograd.optim.swa_utils.update_bn([(retrograd.tensor(batch), 0) for batch in batches], mine)
    torch.optim.swa_utils.update_bn([(torch.tensor(batch), 0) for batch in batches], yours)
    for key, value in yours.state_dict().items():
        assert_close(mine.state_dict()[key], value, f"{key} after update_bn", tolerance=1e-12)
    assert_close(mine(retrograd.tensor(x)).detach(), yours(torch.tensor(x)).detach(), "output", tolerance=1e-12)
