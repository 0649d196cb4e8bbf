"""Recorded calls and hooks on tensors; results that share memory; settings that change before a backward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from retrograd import nn
from retrograd.nn.compilation import explain_recording


def tensor(seed: int, *shape: int, trained: bool = False) -> rg.Tensor:
    return rg.Tensor(np.random.default_rng(seed).standard_normal(shape or (3, 5), dtype=np.float32), trained)


def network() -> nn.Sequential:
    rg.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))


def gradients(net: nn.Module) -> list[Any]:
    return [bits(p.grad.numpy()) for p in net.parameters()]


def doubled(seen: list[Any]) -> Callable[[rg.Tensor], rg.Tensor]:
    """A hook that doubles the gradient and keeps it."""
    return lambda g: (seen.append(bits(g.detach().numpy())), g * 2)[1]


def kept(seen: list[Any]) -> Callable[[rg.Tensor], None]:
    """A hook on a leaf that keeps its accumulated gradient."""
    return lambda leaf: seen.append(leaf.grad.tolist())


@pytest.mark.parametrize("again", [False, True], ids=["first order", "second order"])
@pytest.mark.parametrize("place", ["parameter", "argument", "result of an operator"])
def test_hooks_run_once(place: str, again: bool) -> None:
    """Neither the backward pass of a trial, nor that of a call which runs again, calls the hooks of its leaves."""
    found = []
    for compiled in (False, True):
        net, seen = network(), []
        call = rg.compile(net) if compiled else net
        if place == "parameter":
            net[0].weight.register_hook(doubled(seen))
        for seed in range(4):
            leaf = tensor(seed, trained=True)
            x = leaf if place != "result of an operator" else leaf * 1
            if place != "parameter":
                x.register_hook(doubled(seen))
            y = call(x).sin()
            if again:
                (slope,) = rg.autograd.grad(y.sum(), leaf, create_graph=True)
                y = slope * slope
            y.sum().backward()
            found.append((bits(leaf.grad.numpy()), gradients(net), [*seen]))
    assert found[:4] == found[4:] and found[3][2]


def test_hooks_within_a_recorded_call() -> None:
    """Where a call itself runs hooks, it runs as usual, and so after one is added."""
    found = []
    for compiled in (False, True):
        w, seen = tensor(9, 5, trained=True), []

        def slope(x: rg.Tensor, w: rg.Tensor = w) -> rg.Tensor:
            return rg.autograd.grad((x * w).sin().sum(), [w, x] if x.requires_grad else w)[0]

        call = rg.compile(slope) if compiled else slope
        handle = None
        for seed in range(9):
            if seed == 3:
                handle = w.register_hook(doubled(seen))
            if seed == 6:
                handle.remove()
            found.append(bits(call(tensor(seed)).numpy()))
        for seed in range(3):
            x = tensor(seed, trained=True)
            x.register_hook(doubled(seen))
            found.append(bits(call(x).numpy()))
        found.append(seen)
        if compiled:
            assert "launches" in explain_recording(call) and "a hook of a tensor runs" in explain_recording(call)
    assert found[:13] == found[13:]


def test_hooks_of_a_training_step() -> None:
    found = []
    for compiled in (False, True):
        net, seen = network(), []
        optimizer = rg.optim.SGD(net.parameters(), lr=0.1)

        def step(x: rg.Tensor, net: nn.Module = net, optimizer: Any = optimizer) -> rg.Tensor:
            optimizer.zero_grad()
            loss = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        call = rg.compile(step) if compiled else step
        handles: list[Any] = []
        for seed in range(9):
            if seed == 3:
                handles = [net[0].weight.register_hook(doubled(seen))]
                handles += [net[2].bias.register_post_accumulate_grad_hook(kept(seen))]
            if seed == 6:
                for handle in handles:
                    handle.remove()
            loss = call(tensor(seed)).detach()
            found.append((bits(loss.numpy()), gradients(net), [bits(p.detach().numpy()) for p in net.parameters()]))
        found.append(seen)
        if compiled:
            assert "launches" in explain_recording(call)
    assert found[:10] == found[10:] and len(seen) == 6


def test_a_result_that_is_returned_twice() -> None:
    def several(x: rg.Tensor) -> Any:
        y = (x * 2).sin()
        return {"y": y, "all": [y, y * 2]}

    compiled, found = rg.compile(several), []
    for call in (several, compiled):
        for trained in (False, False, True, True, True):
            x = tensor(1, trained=trained)
            result = call(x)
            assert result["y"] is result["all"][0]
            if trained:
                (result["y"].sum() + (result["all"][0] * result["all"][1]).sum()).backward()
                found.append(bits(x.grad.numpy()))
            else:
                found.append(bits(result["y"].add_(1).numpy()))
    assert found[:5] == found[5:] and "launches" in explain_recording(compiled)


@pytest.mark.parametrize(
    ("function", "is_recorded"),
    [
        (lambda x: ((y := (x * 2).sin()), y[0]), False),
        (lambda x: ((y := (x * 2).sin()), y.detach()), False),
        (lambda x: (x * 2).sin().chunk(2, 1), True),
        (lambda x: ((y := (x * 2).sin())[:, ::2], y[:, 1::2]), True),
    ],
)
def test_results_that_share_memory(function: Callable[[rg.Tensor], Any], is_recorded: bool) -> None:
    compiled, found = rg.compile(function), []
    for call in (function, function, compiled, compiled):
        a, b = call(tensor(2, 4, 6))
        a.add_(1)
        found.append((bits(a.numpy()), bits(b.numpy())))
    assert found[0] == found[1] == found[2] == found[3]
    reason = "launches" if is_recorded else "two of its results share memory"
    assert reason in explain_recording(compiled)


def test_other_kernels_for_the_backward_pass() -> None:
    net = nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3))
    compiled = rg.compile(copy.deepcopy(net))
    for seed in range(4):
        for call in (net, compiled):
            call.zero_grad()
            y = call(tensor(seed))
            with rg.use_kernels("textbook" if seed % 2 else "compiled"):
                (y * y).sum().backward()
        assert gradients(net) == gradients(compiled)
    assert "launches" in explain_recording(compiled)


def test_a_backward_pass_whose_steps_are_recorded() -> None:
    net = network()
    call, g = rg.compile(net), tensor(5, 3, 3)
    for seed in range(4):
        call(tensor(seed)).backward(g)
    y = call(tensor(7))
    net.zero_grad()
    steps = rg.record_steps(lambda: y.backward(g))
    assert len(steps) > 3 and "launches" in explain_recording(call)
    wanted = copy.deepcopy(gradients(net))
    net.zero_grad()
    net(tensor(7)).backward(g)
    assert gradients(net) == wanted


def test_the_line_of_a_call_is_the_users() -> None:
    norm = rg.compile(nn.Sequential(nn.BatchNorm1d(5, momentum=None), nn.Linear(5, 3), nn.Tanh()))
    norm(tensor(0))
    assert "norm(tensor(0))" in explain_recording(norm)


# ---------------------------------------------------------------- what a call changes


@pytest.mark.parametrize("again", ["another layout", "second order", "second backward"])
def test_running_again_starts_from_the_same_buffers(again: str) -> None:
    """Where a backward pass runs the call again, it finds the buffers that the call has changed as they were."""
    rg.manual_seed(1)
    net = nn.Sequential(nn.utils.spectral_norm(nn.Linear(5, 7)), nn.BatchNorm1d(7), nn.Tanh(), nn.Linear(7, 3))
    compiled = rg.compile(copy.deepcopy(net))
    for seed in range(4):
        for call in (net, compiled):
            call.zero_grad()
            x = tensor(seed, trained=True)
            y = call(x)
            if again == "second order":
                (slope,) = rg.autograd.grad(y.square().sum(), x, create_graph=True)
                slope.square().sum().backward()
            elif again == "second backward":
                y.square().sum().backward(retain_graph=True)
                y.square().sum().backward()
            else:
                y.sum().backward()
        assert gradients(net) == gradients(compiled)
        states = [[bits(value.numpy()) for value in each.state_dict().values()] for each in (net, compiled)]
        assert states[0] == states[1]


def test_a_parameter_changed_before_the_call_runs_again() -> None:
    """A bias is not saved for backward; a call that would read it again notices that it has changed."""
    net = rg.compile(network())
    g = tensor(4, 3, 3)
    for seed in range(3):
        net(tensor(seed)).backward(g)
    y = net(tensor(5))
    y.backward(g, retain_graph=True)
    with rg.no_grad():
        net[2].bias.add_(1)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward(g)


def test_changes_by_a_replay_are_noticed() -> None:
    w = tensor(1, 5, trained=True)

    @rg.compile(fullgraph=True)
    def step(x: rg.Tensor) -> rg.Tensor:
        w.grad = None
        loss = (x * w).sin().sum()
        loss.backward()
        with rg.no_grad():
            w.sub_(w.grad, alpha=0.1)
        return loss

    for seed in range(4):
        step(tensor(seed))
    y = (w * w).sum()
    step(tensor(5))
    with pytest.raises(RuntimeError, match="changed in place"):
        y.backward()


@pytest.mark.parametrize("kind", ["data", "requires_grad", "history"])
def test_tensors_that_a_call_assigns_to(kind: str) -> None:
    found = []
    for compiled in (False, True):
        net = network()
        held = tensor(8, 3, 3)

        def step(x: rg.Tensor, net: nn.Module = net, held: rg.Tensor = held) -> rg.Tensor:
            net.zero_grad()
            if kind == "history":
                held.mul_(net(x)).detach_()
            if kind == "requires_grad":
                net[0].requires_grad_(not net[0].weight.requires_grad)
            loss = (net(x) * held).square().mean()
            loss.backward()
            if kind == "data":
                for p in net.parameters():
                    p.data = p.data - 0.1 * p.grad
            return loss

        call = rg.compile(step) if compiled else step
        losses = [bits(call(tensor(seed)).detach().numpy()) for seed in range(5)]
        found.append((losses, [bits(p.detach().numpy()) for p in (*net.parameters(), held)]))
        assert [p.requires_grad for p in net.parameters()] == [kind != "requires_grad"] * 2 + [True] * 2
    assert found[0] == found[1]
