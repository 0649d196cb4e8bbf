"""Every optimizer and every option over many steps, and the layout of state_dicts."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_close, normal

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.05, "maximize": True}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"betas": (0.7, 0.9), "eps": 1e-5, "weight_decay": 0.1, "maximize": True}),
    ("Adam", {"amsgrad": True, "lr": 0.1, "betas": (0.5, 0.6)}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.2, "lr": 0.1}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    ("Adamax", {"lr": 0.05}),
    ("Adamax", {"betas": (0.6, 0.7), "eps": 1e-4, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.05}),
    ("NAdam", {"betas": (0.6, 0.9), "momentum_decay": 0.1, "weight_decay": 0.1, "maximize": True}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.2, "eps": 1e-4, "lr": 0.1}),
    ("RAdam", {"lr": 0.05}),
    ("RAdam", {"lr": 0.05, "betas": (0.7, 0.5)}),  # never rectified
    ("RAdam", {"betas": (0.6, 0.9), "weight_decay": 0.1, "maximize": True}),
    ("RAdam", {"decoupled_weight_decay": True, "weight_decay": 0.2, "eps": 1e-4, "lr": 0.1}),
    ("RMSprop", {}),
    ("RMSprop", {"centered": True, "alpha": 0.9, "eps": 1e-3}),
    ("RMSprop", {"momentum": 0.9, "weight_decay": 0.1, "maximize": True}),
    ("RMSprop", {"momentum": 0.5, "centered": True, "alpha": 0.7, "lr": 0.1}),
    ("Adagrad", {"lr": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True}),
    ("Adagrad", {"eps": 1e-2}),
    ("ASGD", {"lr": 0.1}),
    ("ASGD", {"lr": 0.1, "lambd": 0.05, "alpha": 0.6, "t0": 3, "weight_decay": 0.1, "maximize": True}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.2, "etas": (0.4, 1.5), "step_sizes": (0.01, 0.5), "maximize": True}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.4, "beta2_decay": -0.5, "eps": (1e-4, 0.02), "d": 1.5, "weight_decay": 0.1}),
    ("Adafactor", {"lr": 0.4, "maximize": True}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.7, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}),
]
STEPS = 30
SHAPES = [(4, 3), (3,), (2, 3, 2, 2)]


def _name(value: Any) -> str:
    return str(value).replace(" ", "")


@pytest.fixture(autouse=True)
def doubles() -> Iterator[None]:
    """PyTorch keeps the product of NAdam in its default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def _both() -> tuple[list[Any], list[Any]]:
    arrays = [normal(*shape, seed=index) for index, shape in enumerate(SHAPES)]
    mine = [retrograd.nn.Parameter(retrograd.tensor(array.copy())) for array in arrays]
    return mine, [torch.nn.Parameter(torch.tensor(array.copy())) for array in arrays]


def _step(step: int, mine: Any, yours: Any, optimizers: tuple[Any, Any]) -> None:
    for index, (p, q) in enumerate(zip(mine, yours, strict=True)):
        gradient = normal(*q.shape, seed=1000 + 10 * step + index)
        p.grad, q.grad = retrograd.tensor(gradient), torch.tensor(gradient)
        if (step, index) == (4, 1):  # one parameter without a gradient, which is then a step behind
            p.grad = q.grad = None
    for optimizer in optimizers:
        optimizer.step()


def _compare(step: int, mine: Any, yours: Any) -> None:
    for index, (p, q) in enumerate(zip(mine, yours, strict=True)):
        assert_close(p, q, f"parameter {index} after step {step}", tolerance=1e-11)


@pytest.mark.parametrize(("name", "options"), CASES, ids=_name)
def test_many_steps(name: str, options: dict[str, Any]) -> None:
    """With groups of other options, and the learning rate changed on the way."""
    mine, yours = _both()

    def make(library: Any, parameters: Any) -> Any:
        other = {"lr": 0.03} if name == "Rprop" else {"lr": 0.03, "weight_decay": 0.02}
        return getattr(library, name)([{"params": parameters[:2]}, {"params": parameters[2:], **other}], **options)

    ours, peer = make(retrograd.optim, mine), make(torch.optim, yours)
    for step in range(STEPS):
        if step == 20:
            ours.param_groups[0]["lr"] = peer.param_groups[0]["lr"] = 0.017
        _step(step, mine, yours, (ours, peer))
        _compare(step, mine, yours)


@pytest.mark.parametrize(("name", "options"), CASES, ids=_name)
def test_state_goes_both_ways(name: str, options: dict[str, Any]) -> None:
    """Same entries under the same keys; a state that PyTorch saved goes on here as it does there."""
    mine, yours = _both()
    ours, peer = getattr(retrograd.optim, name)(mine, **options), getattr(torch.optim, name)(yours, **options)
    for step in range(3):
        _step(step, mine, yours, (ours, peer))
    state, peer_state = ours.state_dict(), peer.state_dict()
    assert list(state) == list(peer_state)
    assert list(state["state"]) == list(peer_state["state"])
    for number, entries in peer_state["state"].items():
        assert set(state["state"][number]) == set(entries)
        for key, value in entries.items():
            np.testing.assert_allclose(
                np.asarray(getattr(state["state"][number][key], "data", state["state"][number][key])),
                value.numpy(),
                rtol=1e-11,
                atol=1e-13,
                err_msg=key,
            )
    (group,), (peer_group,) = state["param_groups"], peer_state["param_groups"]
    forms = {"foreach", "fused", "capturable", "differentiable"}
    assert set(group) == set(peer_group) - forms
    assert {key: value for key, value in peer_group.items() if key not in forms} == group
    fresh = getattr(retrograd.optim, name)(mine)
    fresh.load_state_dict(
        {
            "state": {
                number: {key: value.numpy() for key, value in entries.items()}
                for number, entries in peer_state["state"].items()
            },
            "param_groups": peer_state["param_groups"],
        }
    )
    for step in range(5, 8):
        _step(step, mine, yours, (fresh, peer))
        _compare(step, mine, yours)


LBFGS: list[dict[str, Any]] = [
    {"lr": 0.1},
    {"lr": 0.5, "max_iter": 5, "history_size": 3},
    {"lr": 0.1, "max_iter": 10, "max_eval": 4},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 2, "lr": 3.0},
    {"line_search_fn": "strong_wolfe", "tolerance_grad": 1e-2, "tolerance_change": 1e-3, "lr": 0.01},
]


@pytest.mark.parametrize("options", LBFGS, ids=_name)
def test_lbfgs(options: dict[str, Any]) -> None:
    """A curved valley (Rosenbrock's function of pairs), several steps, with the counts of what was computed."""
    start = normal(3, 2, seed=5)
    p, q = retrograd.nn.Parameter(retrograd.tensor(start.copy())), torch.nn.Parameter(torch.tensor(start.copy()))
    other, peer_other = retrograd.nn.Parameter(retrograd.tensor(np.ones(3))), torch.nn.Parameter(torch.ones(3))
    unused, peer_unused = retrograd.nn.Parameter(retrograd.tensor(np.ones(2))), torch.nn.Parameter(torch.ones(2))
    ours = retrograd.optim.LBFGS([p, unused, other], **options)
    peer = torch.optim.LBFGS([q, peer_unused, peer_other], **options)

    def loss_of(p: Any, other: Any, optimizer: Any) -> Any:
        optimizer.zero_grad()
        curve = (other * other * other).exp().sum()
        loss = ((p[:, 1] - p[:, 0] * p[:, 0]) ** 2 * 10 + (1 - p[:, 0]) ** 2).sum() + curve
        loss.backward()
        return loss

    for step in range(4):
        mine, yours = ours.step(lambda: loss_of(p, other, ours)), peer.step(lambda: loss_of(q, peer_other, peer))
        np.testing.assert_allclose(mine.item(), yours.item(), rtol=1e-6)
        for a, b in ((p, q), (other, peer_other), (unused, peer_unused)):
            assert_close(a, b, f"parameter after step {step}", tolerance=1e-6)
        state, peer_state = ours.state[p], peer.state[q]
        assert (state["n_iter"], state["func_evals"]) == (peer_state["n_iter"], peer_state["func_evals"])


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_own_entries_of_groups(name: str) -> None:
    """They are kept as PyTorch keeps them, and a state_dict of PyTorch brings its own."""
    own = {"name": "head", "lr_scale": 0.1, "layers": [1, 2], "scale": None}
    mine, yours = _both()
    both = []
    for library, parameters in ((retrograd.optim, mine), (torch.optim, yours)):
        optimizer = getattr(library, name)([{"params": parameters[:2], **own}])
        optimizer.add_param_group({"params": parameters[2:], "name": "tail"})
        library.lr_scheduler.StepLR(optimizer, 3)
        both.append(optimizer)
    for step in range(3):
        _step(step, mine, yours, (both[0], both[1]))
        _compare(step, mine, yours)
    forms = {"foreach", "fused", "capturable", "differentiable"}
    groups = [each.state_dict()["param_groups"] for each in both]
    assert groups[0] == [{key: value for key, value in group.items() if key not in forms} for group in groups[1]]
    fresh = getattr(retrograd.optim, name)([{"params": mine[:2]}, {"params": mine[2:]}])
    state = both[1].state_dict()
    fresh.load_state_dict(
        {**state, "state": {n: {k: v.numpy() for k, v in e.items()} for n, e in state["state"].items()}}
    )
    assert fresh.state_dict()["param_groups"] == groups[0]


def test_an_optimizer_of_the_users() -> None:
    found = []
    for library in (retrograd, torch):
        required = importlib.import_module(f"{library.__name__}.optim.optimizer").required

        class Scaled(library.optim.Optimizer):  # type: ignore[name-defined, misc]
            def __init__(self, params: Any, lr: Any = required, decay: float = 0.5) -> None:
                super().__init__(params, {"lr": lr, "decay": decay})

            @library.no_grad()  # type: ignore[misc]
            def step(self, closure: Any = None) -> None:
                for group in self.param_groups:
                    for p in group["params"]:
                        state = self.state[p]
                        state["step"] = state.get("step", 0) + 1
                        p.data.add_(p.grad.data, alpha=-group["lr"] * group["decay"] ** state["step"])

        p = library.nn.Parameter(library.ones(3, dtype=library.float64))
        with pytest.raises(ValueError, match="required.* lr|lr.* required"):
            Scaled([p])
        optimizer = Scaled([{"params": [p], "lr": 0.1, "name": "head"}])
        for scale in (1.0, 2.0):
            p.grad = library.arange(3.0, dtype=library.float64) * scale
            optimizer.step()
        found.append((p, optimizer.state_dict()))
    assert_close(found[0][0], found[1][0], "parameter")
    assert found[0][1] == found[1][1]
