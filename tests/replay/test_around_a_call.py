"""Recorded calls amid other code: tensors that older operators made, and changes between a call and its backward."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from retrograd import nn
from retrograd.engine.aliasing import recorded_changes

BACKWARDS = ["another layout", "second order", "second backward"]


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def gradients(y: rg.Tensor, g: np.ndarray, tensors: list[rg.Tensor], backward: str) -> list[Any]:
    """The gradients of tensors by a backward that runs the call again; None where there is none."""
    if backward == "second order":
        found = rg.autograd.grad(y, tensors, rg.Tensor(g), create_graph=True, allow_unused=True)
    else:
        if backward == "second backward":
            rg.autograd.grad(y, tensors, rg.Tensor(g), retain_graph=True, allow_unused=True)
        g = np.asfortranarray(g) if backward == "another layout" else g
        found = rg.autograd.grad(y, tensors, rg.Tensor(g), allow_unused=True)
    return [None if each is None else each.detach().numpy() for each in found]


# ---------------------------------------------------------------- tensors that older operators made


@pytest.mark.parametrize("rule", ["feedback_alignment", "reversal"])
def test_second_derivatives_of_pieces_with_a_rule(rule: str) -> None:
    """The nodes of a call that has run again take the place of its own, also those whose backward is a rule."""

    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 4))
            self.b = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            y = self.a(x)
            return self.b(y) + y if y.sum().item() < 1e9 else y

    found: list[Any] = []
    for compiled in (False, True):
        rg.manual_seed(0)
        net = Parts()
        net.a[0].backward_rule = net.b[2].backward_rule = rule
        call = rg.compile(net) if compiled else net
        for seed in range(3):
            y = call(rg.Tensor(numbers(seed, 3, 4)))
            slopes = rg.autograd.grad(y, [*net.parameters()], rg.Tensor(numbers(9, 3, 4)), create_graph=True)
            net.zero_grad()
            sum([each.square().sum() for each in slopes if each.requires_grad]).backward()
            found.append([None if p.grad is None else p.grad.numpy() for p in net.parameters()])
    for one, other in zip(found[:3], found[3:], strict=True):
        for a, b in zip(one, other, strict=True):
            assert (a is None) == (b is None)
            np.testing.assert_allclose(0 if a is None else a, 0 if b is None else b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", ["first", "second"])
def test_an_argument_made_from_a_parameter_of_the_call(order: str) -> None:
    """d sin(exp(p) p) / dp = cos(exp(p) p) exp(p) (1 + p), of which exp(p) is made outside of the call."""
    p = rg.Tensor(numbers(0, 4), True)
    call = rg.compile(lambda x: (x * p).sin())
    value = p.detach().numpy().astype(np.float64)
    x, g = np.exp(value), numbers(1, 4)
    for _ in range(3):
        (found,) = rg.autograd.grad(call(p.exp()), p, rg.Tensor(g), create_graph=order == "second")
        np.testing.assert_allclose(found.detach().numpy(), g * np.cos(x * value) * x * (1 + value), rtol=1e-4)


def test_a_module_called_with_its_own_result() -> None:
    rg.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))
    found = []
    for call in (net, rg.compile(net)):
        y = call(call(rg.Tensor(numbers(1, 4, 3))))
        first = rg.autograd.grad(y, [*net.parameters()], rg.Tensor(numbers(2, 4, 3)), create_graph=True)
        sum([each.square().sum() for each in first]).backward()
        found.append([each.detach().numpy() for each in first] + [p.grad.numpy() for p in net.parameters()])
        net.zero_grad()
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_second_derivatives_of_a_call_that_changes_arrays_in_place() -> None:
    """d (sum of (d (6 x^2 w^2 r) / dw)^2) / dw = 2 (12 x^2 w r) (12 x^2 r), with a running r that the call doubles."""
    x, w, r = numbers(0, 5), rg.Tensor(numbers(1, 5), True), rg.Tensor(numbers(2, 5))

    def six(x: rg.Tensor) -> rg.Tensor:
        r.mul_(2)
        y = x * w
        h = y * 2
        h.add_(y)
        z = h.clone()
        z.mul_(2)
        return z * y * r

    call, running = rg.compile(six), r.numpy().astype(np.float64)
    for _ in range(3):
        running, w.grad = running * 2, None
        (slope,) = rg.autograd.grad(call(rg.Tensor(x)).sum(), w, create_graph=True)
        np.testing.assert_allclose(slope.detach().numpy(), 12 * x**2 * w.detach().numpy() * running, rtol=1e-5)
        slope.square().sum().backward()
        assert w.grad is not None
        np.testing.assert_allclose(w.grad.numpy(), 2 * (12 * x**2 * running) ** 2 * w.detach().numpy(), rtol=1e-5)


def test_arrays_that_are_collected_while_changes_are_listed() -> None:
    threshold = gc.get_threshold()
    gc.set_threshold(5, 1, 1)
    try:
        for _ in range(100):
            for _ in range(20):
                cycle: list[Any] = [rg.ones(2).add_(1)]
                cycle.append(cycle)
            recorded_changes()
    finally:
        gc.set_threshold(*threshold)


def test_second_derivatives_need_values_that_the_call_has_overwritten() -> None:
    w = rg.ones(3, requires_grad=True)

    def overwritten(x: rg.Tensor) -> rg.Tensor:
        y = x * 2
        z = y * w  # keeps y
        y.mul_(3)
        return z

    with pytest.raises(RuntimeError, match="was changed in place after it had been saved"):
        (slope,) = rg.autograd.grad(rg.compile(overwritten)(rg.ones(3)).pow(2).sum(), w, create_graph=True)
        slope.sum().backward()


def test_the_graph_of_a_tensor_that_the_call_refers_to_is_kept() -> None:
    """d sum(x exp(w) w) / dw = x exp(w) (1 + w): through the older exp once, for each call."""
    w = rg.Tensor(numbers(0, 2), True)
    s, value = w.exp(), w.detach().numpy().astype(np.float64)
    call = rg.compile(lambda x: x * s * w, fullgraph=True)
    for seed in range(4):
        x, g = numbers(seed, 2), numbers(seed + 9, 2)
        (found,) = rg.autograd.grad(call(rg.Tensor(x)), w, rg.Tensor(g), retain_graph=True)
        np.testing.assert_allclose(found.numpy(), g * x * np.exp(value) * (1 + value), rtol=1e-5)


def test_an_in_place_change_of_a_tensor_that_the_call_refers_to() -> None:
    """d sum(x 6 w) / dw = 6 x, also in a recording for another shape that is made later."""
    w = rg.Tensor(numbers(0, 2), True)
    s = w * 2
    call = rg.compile(lambda x: x * s)
    rg.autograd.grad(call(rg.ones(2)).sum(), w, retain_graph=True)
    s.mul_(3)
    for shape in ((2,), (3, 2), (3, 2)):
        x = numbers(len(shape), *shape)
        (found,) = rg.autograd.grad(call(rg.Tensor(x)).sum(), w, retain_graph=True)
        np.testing.assert_allclose(found.numpy(), 6 * x.reshape(-1, 2).sum(0), rtol=1e-5)


class Remembering(nn.Module):
    """A layer with its state in an attribute, as in truncated backpropagation through time."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.state = nn.Linear(3, 4), None

    def forward(self, x: rg.Tensor) -> Any:
        before = 0.0 if self.state is None else self.state * 0.9
        self.state = before + self.layer(x)
        return self.state.sin()


def test_a_state_with_a_graph_in_an_attribute() -> None:
    found: list[Any] = []
    for compiled in (False, True):
        rg.manual_seed(0)
        net = Remembering()
        call = rg.compile(net) if compiled else net
        for step in range(9):
            y = call(rg.Tensor(numbers(step, 2, 3)))
            if step % 3 == 2:
                net.zero_grad()
                y.backward(rg.Tensor(numbers(step + 20, 2, 4)))
                found.append(bits(net.layer.weight.grad.numpy()))
                net.state = net.state.detach()
    assert found[:3] == found[3:]


def test_a_step_that_goes_back_into_an_older_graph() -> None:
    """Its trial must not free the graph, which the call as usual needs."""
    rg.manual_seed(0)
    first, last = nn.Linear(3, 4), nn.Linear(4, 2)

    def step(t: rg.Tensor) -> rg.Tensor:
        loss = (last(h) * t).sum()
        loss.backward()
        return loss.detach()

    found: list[Any] = []
    for call in (step, rg.compile(step)):
        for seed in range(3):
            h = first(rg.Tensor(numbers(seed, 2, 3)))
            for layer in (first, last):
                layer.zero_grad()
            call(rg.Tensor(numbers(seed + 5, 2, 2)))
            found.append([bits(p.grad.numpy()) for layer in (first, last) for p in layer.parameters()])
    assert found[:3] == found[3:]


# ---------------------------------------------------------------- changes between a call and its backward


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer, self.scale = nn.BatchNorm1d(3), nn.Linear(3, 2), 2.0

    def forward(self, x: rg.Tensor) -> Any:
        return (self.layer(self.norm(x)) * self.scale).sin()


def _replace(net: Any) -> None:
    net.layer = nn.Linear(3, 2)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "mode": lambda net: net.eval(),
    "number": lambda net: setattr(net, "scale", 5.0),
    "layer": _replace,
    "requires_grad": lambda net: net.layer.bias.requires_grad_(False),
    "types": lambda net: net.double().float(),
}


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("backward", BACKWARDS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_before_the_backward(change: str, backward: str, called: bool) -> None:
    """A backward that runs the call again has the modules as they were, and leaves them as they are."""
    found: list[Any] = []
    for compiled in (False, True):
        rg.manual_seed(0)
        net = Scaled()
        tensors = [net.layer.weight, net.norm.bias]
        call = rg.compile(net) if compiled else net
        x, g = rg.Tensor(numbers(1, 4, 3)), numbers(2, 4, 2)
        y = call(x)
        CHANGES[change](net)
        if called:
            call(x)
        found.append(gradients(y, g, tensors, backward))
        found.append([net.training, net.norm.training, net.scale, *[p.requires_grad for p in net.parameters()]])
        found.append([call(x).detach().numpy()])
    for one, other in zip(found[:3], found[3:], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("backward", BACKWARDS)
def test_a_variable_changed_before_the_backward(backward: str) -> None:
    """d sin(2 x) / dx = 2 cos(2 x)."""
    scale = 2.0
    call = rg.compile(lambda x: (x * scale).sin())
    x, g = rg.Tensor(numbers(0, 3, 2), True), numbers(1, 3, 2)
    y = call(x)
    scale = 5.0
    (found,) = gradients(y, g, [x], backward)
    np.testing.assert_allclose(found, g * 2 * np.cos(2 * x.detach().numpy()), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(call(x).detach().numpy(), np.sin(5 * x.detach().numpy()), rtol=1e-4, atol=1e-6)


def test_a_list_changed_before_the_backward() -> None:
    scales = [2.0]
    call = rg.compile(lambda x: (x * scales[0]).sin())
    x = rg.Tensor(numbers(0, 3, 2), True)
    y = call(x)
    scales[0] = 5.0
    with pytest.raises(RuntimeError, match="something that the call reads has changed since"):
        gradients(y, numbers(1, 3, 2), [x], "another layout")


def test_the_default_type_changed_before_the_backward() -> None:
    call = rg.compile(lambda x: x * rg.full((2,), 3.0))
    x, g = rg.Tensor(numbers(0, 3, 2), True), numbers(1, 3, 2)
    y = call(x)
    rg.set_default_dtype(rg.float64)
    try:
        (found,) = gradients(y, g, [x], "another layout")
    finally:
        rg.set_default_dtype(rg.float32)
    assert bits(found) == bits(g * np.float32(3))
