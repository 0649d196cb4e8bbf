"""Never a stale result after something that a recording depends on has changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from replay.small import image, launches, network, same
from retrograd import nn, rules
from retrograd import without_backward_rules as rules_off
from retrograd.nn.compilation import explain_recording

pytestmark = pytest.mark.usefixtures("without_gradients")


def changed_weight(net: Any) -> None:
    net[0].weight.mul_(2)


def replaced_parameter(net: Any) -> None:
    net[0].weight = nn.Parameter(rg.ones(8, 3, 3, 3))


def replaced_data(net: Any) -> None:
    net[5].weight.data = rg.ones(5, 72)


def replaced_buffer(net: Any) -> None:
    net[1].running_mean = rg.full((8,), 0.5)


def replaced_child(net: Any) -> None:
    net[2] = nn.Sigmoid()


def changed_attribute(net: Any) -> None:
    net[1].eps = 0.7


def loaded_state(net: Any) -> None:
    net.load_state_dict(
        {name: value.float() * 0.5 for name, value in net.state_dict().items() if value.is_floating_point()},
        strict=False,
    )


def removed_bias(net: Any) -> None:
    net[5].bias = None


def hooked(net: Any) -> None:
    net[2].register_forward_hook(lambda module, args, result: result * 3)


def another_forward(net: Any) -> None:
    net[2].forward = lambda x: x * 5


CHANGES = [changed_weight, replaced_parameter, replaced_data, replaced_buffer, replaced_child, changed_attribute]


CHANGES += [loaded_state, removed_bias, hooked, another_forward]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_changes_in_a_network_is_seen(change: Callable[[Any], None]) -> None:
    compiled, net, x = rg.compile(network()), network(), image()
    assert same(compiled, net, x)
    before = compiled(x).numpy()
    change(compiled)
    change(net)
    found = compiled(x).numpy()
    assert bits(found) == bits(net(x).numpy()) and not np.array_equal(found, before)
    assert same(compiled, net, x)


def test_training_and_eval_mode() -> None:
    compiled, net, x = rg.compile(network()), network(), image()
    for mode in (False, True, False, True):
        compiled.train(mode), net.train(mode)
        assert same(compiled, net, x)
        assert bits(compiled[1].running_mean.numpy()) == bits(net[1].running_mean.numpy())
        assert launches(compiled) == 1


def test_gradients_are_not_lost() -> None:
    compiled, x = rg.compile(network()), image()
    compiled(x), compiled(x)
    with rg.enable_grad():
        compiled(x).sum().backward()
    assert compiled[0].weight.grad is not None
    with rg.inference_mode():
        assert compiled(x).is_inference()
    assert not compiled(x).requires_grad


def test_the_same_tensor_twice() -> None:
    """An argument that is passed several times, and a parameter as an argument, lead to other steps and gradients."""
    rg.manual_seed(0)
    net = nn.MultiheadAttention(6, 2, batch_first=True)
    other = copy.deepcopy(net)
    compiled = rg.compile(other)
    with rg.enable_grad():
        for seed in range(3):
            found = []
            for module, call in ((net, net), (other, compiled)):
                x, y = image(seed, 2, 5, 6).requires_grad_(), image(seed + 9, 2, 5, 6)
                for given in ((x, x, x), (x, y, y), (x, y, x)):
                    call(*given)[0].square().sum().backward()
                found.append(bits(x.grad.numpy()) + [row for p in module.parameters() for row in bits(p.grad.numpy())])
                module.zero_grad()
            assert found[0] == found[1]
    assert launches(compiled) == 3
    scale = nn.Linear(4, 4)
    again, found = rg.compile(scale), []
    for call in (scale, again, again):
        scale.zero_grad()
        with rg.enable_grad():
            call(scale.weight).sum().backward()
        found.append(bits(scale.weight.grad.numpy()))
    assert found[0] == found[1] == found[2]


def test_decisions_are_made_again() -> None:
    """A call whose values lead to another decision runs as usual, also if only its backward decides."""
    draws = nn.Dropout(0.5)

    def product(x: rg.Tensor) -> rg.Tensor:
        return draws(x).prod(-1) + rg.nn.functional.one_hot((x[:, 0] > 0).long(), 2).sum(-1)

    compiled = rg.compile(product)
    found = []
    for call in (product, compiled):
        rg.manual_seed(5)
        rows = []
        for seed in range(6):
            x = image(seed, 4, 3)
            if seed % 3 == 2:
                x[1, 2] = 0.0  # the product cannot be divided by its factors
            with rg.enable_grad():
                y = call(x.requires_grad_())
                y.square().sum().backward()
            rows += bits(y.detach().numpy()) + bits(x.grad.numpy()) + bits(rg.rand(1).numpy())
        found.append(rows)
    assert found[0] == found[1] and launches(compiled) == 1


def test_upstream_gradients_of_another_order_with_dropout() -> None:
    """The gradients are computed again, with the same elements dropped."""
    net = nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5))
    compiled, found = rg.compile(net), []
    for call in (net, compiled):
        rg.manual_seed(2)
        net.zero_grad()
        for turned in (False, True, True, False):
            with rg.enable_grad():
                y = call(image(1, 3, 5))
            g = image(2, 4, 3).t() if turned else image(2, 3, 4)
            y.backward(g)
        found.append([row for p in net.parameters() for row in bits(p.grad.numpy())])
    assert found[0] == found[1]


def test_settings_are_part_of_a_recording() -> None:
    layer = nn.Conv2d(16, 16, 3, padding=1).eval()
    compiled, x = rg.compile(layer), image(0, 2, 16, 12, 12)
    assert same(compiled, layer, x)
    with rg.exact_convolution():
        assert same(compiled, layer, x)
    before = rg.get_num_threads()
    try:
        rg.set_num_threads(3 - min(before, 2))
        assert same(compiled, layer, x)
    finally:
        rg.set_num_threads(before)
    rg.use_kernels("textbook")
    try:
        assert same(compiled, layer, x)
    finally:
        rg.use_kernels("compiled")


def test_dropout_draws_as_usual() -> None:
    """A replay draws the same random numbers, and leaves the generator where a call as usual does."""
    rg.manual_seed(0)
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(9, 9), nn.Dropout2d(0.3), nn.AlphaDropout(0.2))
    compiled, x = rg.compile(copy.deepcopy(net)), image()
    found = []
    for call in (net, compiled):
        rg.manual_seed(3)
        rows = []
        for mode in (True, True, False, True):
            call.train(mode)
            with rg.enable_grad():
                y = call(x)
                (y * y).sum().backward()
            rows += bits(y.detach().numpy()) + bits(call[1].weight.grad.numpy()) + bits(rg.rand(3).numpy())
        found.append(rows)
    assert found[0] == found[1]


def test_other_random_numbers_are_not_recorded() -> None:
    compiled = rg.compile(nn.RReLU())
    x = image()
    rg.manual_seed(3)
    wanted = [nn.RReLU()(x).numpy() for _ in range(3)]
    rg.manual_seed(3)
    assert bits(tuple(compiled(x).numpy() for _ in range(3))) == bits(tuple(wanted))
    assert "random" in explain_recording(compiled)


SCALE = rg.ones(1) * 2


def test_functions_see_what_they_refer_to() -> None:
    global SCALE
    weight, factor = image(3, 9, 4), 2.0

    def product(x: rg.Tensor) -> rg.Tensor:
        return x @ weight * factor * SCALE

    compiled, x = rg.compile(product), image()
    assert same(compiled, product, x) and launches(compiled) == 1
    weight.mul_(3)
    assert same(compiled, product, x)
    weight, factor = image(4, 9, 4), 5.0
    assert same(compiled, product, x)
    SCALE = rg.ones(1) * 7
    assert same(compiled, product, x)


FACTOR, TABLE = 2.0, {"gains": [2.0, 3.0]}


class Options:
    share = 2.0

    def __init__(self) -> None:
        self.scale, self.inner = 2.0, TABLE

    @property
    def twice(self) -> float:
        return self.share * 2

    def __call__(self, x: rg.Tensor) -> rg.Tensor:
        return x * self.scale

    def __matmul__(self, x: rg.Tensor) -> rg.Tensor:
        return x * FACTOR


OPTIONS = Options()


def scaled(x: rg.Tensor) -> rg.Tensor:
    return x * FACTOR


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.options = Options()

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return self.inner(x) * self.options.scale

    def inner(self, x: rg.Tensor) -> rg.Tensor:
        return scaled(x)


def number(name: str) -> Callable[[], None]:
    def change() -> None:
        globals()[name] = 5.0

    return change


def attribute(owner: Any, name: str) -> Callable[[], None]:
    return lambda: setattr(owner, name, 5.0)


class Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return x * self.factor


class Unregistered(nn.Module):
    """Modules in a list and a tuple, which are not its children."""

    def __init__(self) -> None:
        super().__init__()
        self.listed, self.fixed = [Scale(2.0)], (Scale(2.0),)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return self.fixed[0](self.listed[0](x))


# a function, and what the user changes behind it
READ: dict[str, tuple[Callable[[], Callable[..., Any]], Callable[[Any], Any]]] = {
    "a global of another function": (lambda: lambda x: scaled(x), lambda f: number("FACTOR")()),
    "a global of a module's method": (Scaled, lambda f: number("FACTOR")()),
    "an attribute of a module's options": (Scaled, lambda f: setattr(f.options, "scale", 5.0)),
    "an attribute of an object": (lambda: lambda x: x * OPTIONS.scale, lambda f: attribute(OPTIONS, "scale")()),
    "an attribute of a class": (lambda: lambda x: x * OPTIONS.share, lambda f: attribute(Options, "share")()),
    "a property": (lambda: lambda x: x * OPTIONS.twice, lambda f: attribute(Options, "share")()),
    "an element": (lambda: lambda x: x * TABLE["gains"][0], lambda f: TABLE["gains"].__setitem__(0, 5.0)),
    "an element of an attribute": (
        lambda: lambda x: x * OPTIONS.inner["gains"][1],
        lambda f: TABLE["gains"].__setitem__(1, 5.0),
    ),
    "a module in a list": (Unregistered, lambda f: setattr(f.listed[0], "factor", 5.0)),
    "a module in a tuple": (Unregistered, lambda f: setattr(f.fixed[0], "factor", 5.0)),
    "another tuple of modules": (Unregistered, lambda f: setattr(f, "fixed", (Scale(5.0),))),
    "another function": (
        lambda: lambda x: scaled(x),
        lambda f: globals().__setitem__("scaled", lambda x: x - 1.0),
    ),
    "a partial function": (
        lambda: partial(lambda x, o: x * o.scale, o=OPTIONS),
        lambda f: attribute(OPTIONS, "scale")(),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_other_code_reads_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, key in ((Options, "share"), (OPTIONS, "scale")):
        monkeypatch.setattr(owner, key, 2.0)
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    monkeypatch.setitem(globals(), "scaled", scaled)
    monkeypatch.setitem(TABLE, "gains", [2.0, 3.0])
    make, change = READ[name]
    function = make()
    compiled = rg.compile(function)
    assert same(compiled, function, image()) and launches(compiled) == 1
    change(function)
    assert same(compiled, function, image()) and launches(compiled) == 1


def test_a_counter_of_calls_is_not_recorded_for_ever() -> None:
    class Counter:
        count = 0

    def count(x: rg.Tensor) -> rg.Tensor:
        Counter.count += 1
        return x * Counter.count

    compiled = rg.compile(count)
    for _ in range(12):
        before = Counter.count
        y = compiled(image())
        assert bits(y.numpy()) == bits((image() * Counter.count).numpy()) and Counter.count > before
    before = Counter.count
    compiled(image())
    assert Counter.count == before + 1


def test_large_containers_are_not_compared() -> None:
    many = [*range(2000)]
    compiled = rg.compile(lambda x: x * many[1])
    assert same(compiled, lambda x: x * many[1], image())
    assert "more objects than can be compared" in explain_recording(compiled)


class Drawn(nn.Module):
    """A buffer that each call changes, which an argument may be a view of."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("numbers", rg.ones(3, 4))

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        self.numbers.add_(1.0)
        return x * 2


def test_an_argument_that_is_a_view_of_a_buffer() -> None:
    found = []
    for compiled in (False, True):
        net = Drawn().eval()
        call = rg.compile(net) if compiled else net
        found.append([bits(call(net.numbers[1:]).numpy()) for _ in range(4)])
    assert found[0] == found[1]


def test_more_threads_between_forward_and_backward() -> None:
    """The recording has scratch for the threads of its forward pass."""
    layer = nn.Conv2d(16, 16, 3, padding=1)
    compiled, x, found = rg.compile(layer), image(0, 4, 16, 20, 20), []
    before = rg.get_num_threads()
    try:
        for call in (layer, compiled, compiled):
            layer.zero_grad()
            rg.set_num_threads(1)
            with rg.enable_grad():
                y = call(x)
            rg.set_num_threads(4)
            y.backward(image(1, *y.shape))
            found.append([bits(p.grad.numpy()) for p in layer.parameters()])
    finally:
        rg.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_the_sign_of_zero_and_nan_among_arguments() -> None:
    compiled, x = rg.compile(lambda x, k: 1 / (x * k)), image().abs() + 1
    for k in (0.0, -0.0, 0.0, -0.0):
        assert bits(compiled(x, k).numpy()) == bits((1 / (x * k)).numpy())
    for _ in range(3):
        assert compiled(x, float("nan")).isnan().all().item()
    assert launches(compiled) == 3


def test_arrays_over_memory_that_is_not_numpys() -> None:
    memory = bytearray(64)
    first, second = (np.frombuffer(memory, np.float32, 3, offset) for offset in (0, 4))
    first[...] = 1, 2, 3
    a, b = rg.from_numpy(first), rg.from_numpy(second)

    def function(x: rg.Tensor) -> rg.Tensor:
        a.add_(1.0)
        return b * 2 + x

    compiled = rg.compile(function)
    for _ in range(3):
        first[...] = 1, 2, 3
        assert compiled(rg.zeros(3)).tolist()[:2] == [6.0, 8.0]
    assert "not NumPy's" in explain_recording(compiled)


class Spiking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(9, 7), nn.Linear(7, 4)
        self.cells = nn.ModuleList([rules.LIFCell(0.9), rules.LIFCell(0.8, surrogate="arctan", reset="zero")])

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        v = w = None
        total = None
        for t in range(5):
            s, v = self.cells[0](self.first(x[t]), v)
            s, w = self.cells[1](self.last(s), w)
            total = s + w if total is None else total + s + w
        return total


def test_rules_of_the_library_are_recorded() -> None:
    """Surrogate gradients, and the true ones where ``without_backward_rules`` asks for them."""
    rg.manual_seed(0)
    net, found = Spiking(), []
    compiled = rg.compile(copy.deepcopy(net))
    for call in (net, compiled):
        grads = []
        for seed, true in ((1, False), (2, False), (1, False), (2, True), (1, False)):
            call.zero_grad()
            with rg.enable_grad():
                y = call(image(seed, 5, 3, 9) * 3).square().sum()
            with rules_off() if true else nullcontext():
                y.backward()
            grads.append([bits(p.grad.numpy()) for p in call.parameters()])
        assert grads[1] != grads[3] and grads[0] == grads[2] == grads[4]
        found.append(grads)
    assert found[0] == found[1] and launches(compiled) == 1


def test_gradients_that_a_forward_looks_at() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(rg.ones(3))

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return x if self.scale.grad is None else x * self.scale.grad.sum()

    net, x = Net(), rg.ones(3)
    compiled = rg.compile(net)
    for gradient, expected in ((None, 1), (None, 1), (2.0, 6), (2.0, 6), (3.0, 9), (None, 1)):
        net.scale.grad = None if gradient is None else rg.full((3,), gradient)
        assert compiled(x).tolist() == [expected] * 3
