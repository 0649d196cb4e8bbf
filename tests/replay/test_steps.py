"""Recorded training steps: the bits of eager mode in parameters, gradients, states, and after every change."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from retrograd import nn, optim
from retrograd.engine import steps
from retrograd.nn import functional
from retrograd.nn.compilation import explain_recording

Make = Callable[[], nn.Module]


def numbers(seed: int, *shape: int) -> rg.Tensor:
    return rg.Tensor(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def codes(seed: int, most: int, *shape: int) -> rg.Tensor:
    return rg.tensor(np.random.default_rng(seed).integers(0, most, shape))


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 5))


def lenet() -> nn.Module:
    convolutions = nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 5), nn.ReLU()
    return nn.Sequential(*convolutions, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 5))


def with_batch_norm() -> nn.Module:
    block = nn.Conv2d(1, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU6(), nn.Dropout(0.3)
    return nn.Sequential(*block, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(24, 5))


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(5, 6), nn.LSTM(6, 7), nn.Linear(7, 5)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return self.head(self.lstm(self.embedding(x))[0]).reshape(-1, 5)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 8), nn.Linear(8, 5)
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.1, batch_first=True)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return self.head(self.layer(self.embedding(x))).reshape(-1, 5)


NETWORKS: dict[str, tuple[Make, Callable[[int], tuple[rg.Tensor, rg.Tensor]]]] = {
    "lenet": (lenet, lambda seed: (numbers(seed, 4, 1, 14, 14), codes(seed, 5, 4))),
    "batch norm": (with_batch_norm, lambda seed: (numbers(seed, 3, 1, 8, 7), codes(seed, 5, 3))),
    "lstm": (Words, lambda seed: (codes(seed, 5, 4, 3), codes(seed + 9, 5, 12))),
    "transformer": (Transformer, lambda seed: (codes(seed, 5, 2, 6), codes(seed + 9, 5, 12))),
}
OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda parameters: optim.SGD(parameters, 0.1),
    "momentum": lambda parameters: optim.SGD(parameters, 0.05, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": lambda parameters: optim.Adam(parameters, 0.01, amsgrad=True),
    "adamw": lambda parameters: optim.AdamW(parameters, 0.01),
    "rmsprop": lambda parameters: optim.RMSprop(parameters, 0.01, momentum=0.5, centered=True),
    "others": lambda parameters: optim.NAdam(parameters, 0.01),
    "counted": lambda parameters: optim.RAdam(parameters, 0.01),
    "averaged": lambda parameters: optim.ASGD(parameters, 0.01),
}


class Run:
    """A network, its optimizer, and the training step, as it is or compiled."""

    def __init__(
        self, make: Make = perceptron, choose: Any = None, compiled: bool = False, to_none: bool | None = True
    ) -> None:
        rg.manual_seed(1)
        self.net = net = make()
        self.optimizer = optimizer = (choose or OPTIMIZERS["momentum"])(net.parameters())

        def step(x: rg.Tensor, labels: rg.Tensor) -> rg.Tensor:
            if to_none is not None:
                optimizer.zero_grad(set_to_none=to_none)
            loss = functional.cross_entropy(net(x), labels)
            loss.backward()
            optimizer.step()
            return loss

        self.step = rg.compile(step) if compiled else step

    def rows(self) -> list[bytes]:
        """The bits of parameters, buffers, gradients and states, and the counters of the optimizer."""
        found = [row for value in self.net.state_dict().values() for row in bits(value.numpy())]
        found += [b"" if p.grad is None else bits(p.grad.numpy())[0] for p in self.net.parameters()]
        for entries in self.optimizer.state_dict()["state"].values():
            found += [bits(v.numpy())[0] if isinstance(v, rg.Tensor) else repr(v).encode() for v in entries.values()]
        return found + bits(rg.rand(1).numpy())


def replays(run: Run) -> int:
    """How many launches the present recordings have."""
    return explain_recording(run.step).count("launches")


def compared(change: Callable[[Run, int], object] | None = None, steps: int = 6, **options: Any) -> Run:
    """Compare the steps of a compiled run with those of an eager one; return the compiled run."""
    found: list[list[bytes]] = []
    data = options.pop("data", lambda seed: (numbers(seed, 4, 6), codes(seed, 5, 4)))
    for compiled in (False, True):
        run = Run(compiled=compiled, **options)
        rows = []
        for seed in range(steps):
            rows += bits(run.step(*data(seed)).detach().numpy()) + run.rows()
            if change is not None:
                change(run, seed)
        found.append(rows)
    assert found[0] == found[1]
    return run


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_steps_have_the_same_bits(name: str, optimizer: str) -> None:
    make, data = NETWORKS[name]
    choose = OPTIMIZERS[optimizer]
    schedules: dict[int, Any] = {}

    def slower(run: Run, seed: int) -> None:
        schedule = schedules.setdefault(id(run), optim.lr_scheduler.ExponentialLR(run.optimizer, 0.8))
        schedule.step()

    assert replays(compared(slower, make=make, choose=choose, data=data)) == 1


def test_a_replay_runs_no_python() -> None:
    """In the steps that are replayed, no module is called."""
    run = Run(compiled=True)
    calls = []
    data = numbers(0, 4, 6), codes(0, 5, 4)
    for _ in range(4):
        run.step(*data)
    with patch.object(nn.Module, "__call__", lambda self, x: calls.append(x)):
        before = bits(run.net[0].weight.array)
        run.step(*data)
    assert not calls and bits(run.net[0].weight.array) != before
    assert explain_recording(run.step).endswith("a training step: 4 gradients, 1 update of SGD")


# ---- What changes between steps --------------------------------------------------------------------------------------


def lower_rate(run: Run, seed: int) -> None:
    run.optimizer.param_groups[0]["lr"] *= 0.5


def momentum_later(run: Run, seed: int) -> None:
    run.optimizer.param_groups[0]["momentum"] = 0.9 if seed >= 2 else 0.0


def another_state(run: Run, seed: int) -> None:
    if seed == 3:
        run.optimizer.load_state_dict(copy.deepcopy(run.optimizer.state_dict()))
        for entries in run.optimizer.state.values():
            entries["momentum_buffer"].mul_(0.5)


def frozen_layer(run: Run, seed: int) -> None:
    run.net[0].requires_grad_(seed not in (2, 3))


def another_request(run: Run, seed: int) -> None:
    run.net[0].weight.grad_req = "null" if seed in (2, 3) else "add"


def limits(run: Run, seed: int) -> None:
    run.net[2].weight.limits = (-0.1, 0.1) if seed >= 2 else None


def replaced_parameter(run: Run, seed: int) -> None:
    if seed == 2:
        run.net[0].weight.data = run.net[0].weight.detach() * 2


def cleared(run: Run, seed: int) -> None:
    run.optimizer.zero_grad()


def own_gradient(run: Run, seed: int) -> None:
    run.net[0].weight.grad = rg.ones(8, 6)


def another_mode(run: Run, seed: int) -> None:
    run.net.train(seed % 2 == 0)


def another_group(run: Run, seed: int) -> None:
    if seed == 2:
        run.extra = nn.Parameter(rg.ones(3))
        run.extra.grad = rg.ones(3)
        run.optimizer.add_param_group({"params": [run.extra], "lr": 0.3})


def hook(run: Run, seed: int) -> None:
    if seed == 2:
        run.handle = run.net[0].weight.register_hook(lambda g: g * 2)
    if seed == 4:
        run.handle.remove()


CHANGES = [lower_rate, momentum_later, another_state, frozen_layer, another_request, limits, replaced_parameter]
CHANGES += [cleared, own_gradient, another_mode, another_group, hook]


@pytest.mark.parametrize("to_none", [True, False, None])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changes_between_steps_are_seen(change: Callable[[Run, int], object], to_none: bool | None) -> None:
    """to_none None: without zero_grad, so that gradients add up."""
    compared(change, steps=8, to_none=to_none)


def test_gradients_that_the_user_keeps_do_not_change() -> None:
    run, kept = Run(compiled=True), []
    for seed in range(8):
        run.step(numbers(seed, 4, 6), codes(seed, 5, 4))
        g = run.net[0].weight.grad
        kept += [(g if seed % 2 else g.numpy(), g.numpy().copy())]
    assert all(np.array_equal(g.numpy() if isinstance(g, rg.Tensor) else g, before) for g, before in kept)
    compared(lambda run, seed: setattr(run, f"kept{seed % 2}", run.net[2].weight.grad))
    compared(lambda run, seed: setattr(run, "view", run.net[2].weight.grad.numpy()[1:]), to_none=None)


@pytest.mark.parametrize("rows", [1, 33])
def test_gradients_of_weights_are_not_copied(rows: int) -> None:
    """Not even those of linear layers, which are a transposed product."""
    rg.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 7))
    other = copy.deepcopy(net)
    optimizers = [optim.SGD(each.parameters(), lr=0.1) for each in (net, other)]

    def step(net: nn.Module, optimizer: optim.SGD, x: rg.Tensor) -> None:
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()

    compiled = rg.compile(lambda x: step(other, optimizers[1], x))
    for seed in range(5):
        step(net, optimizers[0], numbers(seed, rows, 6))
        compiled(numbers(seed, rows, 6))
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            assert bits(p.detach().numpy()) == bits(q.detach().numpy())
            assert bits(p.grad.numpy()) == bits(q.grad.numpy())
    (recording,) = compiled._recorder.found.values()
    copied = [each.result.shape for each in recording.steps if each.kernel == "duplicate"]
    assert all(len(shape) < 2 for shape in copied), copied


def test_accumulated_gradients() -> None:
    """A function without a step adds to the gradients; the step is made outside."""
    found = []
    for compiled in (False, True):
        run, rows = Run(), []
        net = run.net

        def accumulate(x: rg.Tensor, labels: rg.Tensor, net: nn.Module = net) -> rg.Tensor:
            loss = functional.cross_entropy(net(x), labels) / 3
            loss.backward()
            return loss

        call = rg.compile(accumulate) if compiled else accumulate
        for seed in range(12):
            rows += bits(call(numbers(seed, 4, 6), codes(seed, 5, 4)).detach().numpy())
            if seed % 3 == 2:
                nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                rows += run.rows()
                run.optimizer.step()
                run.optimizer.zero_grad()
        found.append(rows + run.rows())
    assert found[0] == found[1]
    assert explain_recording(call).count("launches") == 2  # with and without gradients before


@pytest.mark.parametrize("make", [lenet, perceptron])
def test_a_recording_computes_nothing(make: Make) -> None:
    """Both recorded calls use made-up results, except of indices and of weights of one channel; the call replays."""
    net, labels = make(), codes(2, 5, 3)
    x = numbers(1, 3, 1, 13, 13) if make is lenet else numbers(1, 3, 6)
    optimizer, made = optim.SGD(net.parameters(), lr=0.1), []

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(net(x), labels).backward()
        optimizer.step()

    def noted(*given: Any) -> Any:
        found = original(*given)
        made.append((given[0].kernel, found is not None))
        return found

    compiled, original = rg.compile(step), steps._made_up
    compiled()
    with patch.object(steps, "_made_up", noted):
        compiled()
    assert "launches" in explain_recording(compiled)
    computed = [name for name, is_made in made if not is_made]
    assert {*computed} <= ({"max_pool", "conv_weight_grad", "duplicate"} if make is lenet else set())
    assert len(made) > max(20, 8 * len(computed)) and made == 2 * made[len(made) // 2 :]


class Large(nn.Module):
    """Parameters and activations of which a recording only changes and sets the ends; indices from made-up numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.codes, self.norm = nn.Embedding(90, 300), nn.BatchNorm1d(300)
        self.first, self.last = nn.Linear(300, 90), nn.Linear(300, 5)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        y = self.norm(x)
        return self.last(y + self.codes(self.first(y).argmax(1)))


@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_large_arrays_are_as_in_eager_mode(name: str) -> None:
    x, labels, found = numbers(1, 80, 300), codes(2, 5, 80), []
    for compiled in (False, True):
        rg.manual_seed(0)
        net, rows = Large(), []
        net.first.weight.data = net.first.weight.data.t().contiguous().t()
        optimizer = OPTIMIZERS[name](net.parameters())

        def step(x: rg.Tensor) -> rg.Tensor:
            optimizer.zero_grad()  # noqa: B023
            loss = functional.cross_entropy(net(x), labels)  # noqa: B023
            loss.backward()
            optimizer.step()  # noqa: B023
            return loss

        call = rg.compile(step) if compiled else step
        for _ in range(4):
            rows.append(bits(call(x).detach().numpy()))
            rows += [bits(each.numpy()) for each in net.state_dict().values()]
            rows += [bits(each.grad.numpy()) for each in net.parameters() if each.grad is not None]
        found.append(rows)
    assert found[0] == found[1] and "launches" in explain_recording(call)


def test_decisions_about_products_are_recorded_from_true_results() -> None:
    """The backward of prod asks whether a factor is 0."""
    x, y = numbers(3, 4, 4), numbers(4, 4, 4) + 9
    x.requires_grad_()
    compiled = rg.compile(lambda x, y: ((x @ y) * 2).prod(dim=0))
    rows, exact = [], []

    def counted(*given: Any) -> Any:
        exact.append(given[-1])
        return original(*given)

    original = compiled._recorder._two_calls
    compiled._recorder._two_calls = counted
    for function in (compiled, compiled, compiled, compiled.__wrapped__):
        x.grad = None
        value = function(x, y)
        value.backward(numbers(5, 4))
        rows.append(bits(value.detach().numpy()) + bits(x.grad.numpy()))
    assert all(row == rows[-1] for row in rows)
    (recording,) = compiled._recorder.found.values()
    assert recording.runs == 3 and recording.misses == 0 and exact == [False, True]


# ---- What is not recorded --------------------------------------------------------------------------------------------


class Trainer:
    """A step that is a method; the optimizer is an attribute."""

    def __init__(self, optimizer: Callable[[Any], optim.Optimizer] = OPTIMIZERS["adam"]) -> None:
        rg.manual_seed(0)
        self.net = perceptron()
        self.optimizer = optimizer(self.net.parameters())
        self.schedule = optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.step_of = self.step

    def step(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.net(x), labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def clipped(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.net(x), labels)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
        self.optimizer.step()
        return loss + norm

    def largest(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        self.optimizer.zero_grad()
        functional.cross_entropy(self.net(x), labels).backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 0.2, float("inf"))
        self.optimizer.step()
        return norm

    def limited(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.net(x), labels)
        loss.backward()
        nn.utils.clip_grad_value_(self.net.parameters(), 0.05)
        self.optimizer.step()
        return loss

    def finite(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.net(x), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 0.01, error_if_nonfinite=True)
        self.optimizer.step()
        return loss

    def scheduled(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        loss = self.step(x, labels)
        self.schedule.step()
        return loss

    def decaying(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        loss = self.step(x, labels)
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.9
        return loss

    def container(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        step = next(value for name, value in self.__getstate__().items() if name[-3:] == "_of")  # no name leads to it
        return step(x, labels) * 1.0

    def hidden(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        return self.step(x, labels) * 1.0

    def gradient(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        self.step(x, labels)
        return self.net[0].weight.grad

    def part(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        return self.gradient(x, labels)[1:]

    def cloned(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        return self.gradient(x, labels).clone()

    def graph(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        self.optimizer.zero_grad()
        y = self.net(x)
        functional.cross_entropy(y, labels).backward(retain_graph=True)
        return y

    def argument(self, x: rg.Tensor, labels: rg.Tensor) -> Any:
        functional.cross_entropy(self.net(x.requires_grad_()), labels).backward()
        return x.grad * 1


@pytest.mark.parametrize(
    ("name", "optimizer", "reason"),
    [
        ("step", OPTIMIZERS["adam"], "launches"),
        ("step", lambda parameters: optim.Adafactor(parameters), "Adafactor has a step of its own"),
        ("clipped", OPTIMIZERS["adam"], "launches"),
        ("largest", OPTIMIZERS["momentum"], "launches"),
        ("limited", OPTIMIZERS["momentum"], "launches"),
        ("finite", OPTIMIZERS["adam"], "Python reads a norm"),
        ("scheduled", OPTIMIZERS["adam"], "it refers to ExponentialLR"),
        ("decaying", OPTIMIZERS["adam"], "changes an option of Adam"),
        ("hidden", OPTIMIZERS["momentum"], "launches"),
        ("container", OPTIMIZERS["momentum"], "through another object"),
        ("gradient", OPTIMIZERS["momentum"], "it returns the gradient of a parameter"),
        ("part", OPTIMIZERS["momentum"], "it returns the gradient of a parameter, or a view of one"),
        ("cloned", OPTIMIZERS["momentum"], "launches"),
        ("graph", OPTIMIZERS["momentum"], "can be differentiated"),
    ],
)
def test_methods(name: str, optimizer: Any, reason: str) -> None:
    found = []
    for compiled in (False, True):
        trainer = Trainer(optimizer)
        call = getattr(trainer, name)
        call, rows = rg.compile(call) if compiled else call, []
        for seed in range(6):
            rows += bits(call(numbers(seed, 4, 6), codes(seed, 5, 4)).detach().numpy())
            rows += [row for p in trainer.net.parameters() for row in bits(p.array) + bits(p.grad.numpy())]
        rows += [repr(group["lr"]).encode() for group in trainer.optimizer.param_groups]
        found.append(rows)
    assert found[0] == found[1]
    assert reason in explain_recording(call)


def test_gradients_of_an_argument() -> None:
    found = []
    for compiled in (False, True):
        trainer, rows = Trainer(), []
        call = rg.compile(trainer.argument) if compiled else trainer.argument
        for seed in range(4):
            x = numbers(seed, 4, 6)
            rows += bits(call(x, codes(seed, 5, 4)).numpy()) + bits(x.grad.numpy())
        found.append(rows)
    assert found[0] == found[1]


def test_labels_that_are_no_classes() -> None:
    """An error, after which nothing has changed but what eager mode changes; ignored labels run as usual."""
    for label, error in ((7, IndexError), (-100, None)):
        found = []
        for compiled in (False, True):
            run = Run(compiled=compiled)
            for seed in range(6):
                labels = codes(seed, 5, 4)
                if seed == 4:
                    labels[1] = label
                if seed == 4 and error is not None:
                    with pytest.raises(error, match="is not a class"):
                        run.step(numbers(seed, 4, 6), labels)
                else:
                    run.step(numbers(seed, 4, 6), labels)
            found.append(run.rows())
        assert found[0] == found[1]


def test_labels_selected_after_batch_norm() -> None:
    """They are checked after the running statistics have changed; wrong ones are an error that changes these once."""
    found = []
    for compiled in (False, True):
        rg.manual_seed(0)
        net = with_batch_norm()
        optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x: rg.Tensor, labels: rg.Tensor, net: Any = net, optimizer: Any = optimizer) -> rg.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x)[:3], labels[:3])
            loss.backward()
            optimizer.step()
            return loss

        call, rows = rg.compile(step) if compiled else step, []
        for seed in range(8):
            x, labels = numbers(seed, 4, 1, 6, 6), codes(seed, 5, 4)
            if seed == 5:
                labels[1] = 9
                with pytest.raises(IndexError, match="is not a class"):
                    call(x, labels)
            else:
                rows += bits(call(x, labels).detach().numpy())
            rows += [row for value in net.state_dict().values() for row in bits(value.numpy())]
        found.append(rows)
    assert found[0] == found[1] and "a training step" in explain_recording(call)


def losses_of_closure(compiled: bool) -> list[bytes]:
    """Train by a step without arguments, with other labels and wrong ones in between."""
    rg.manual_seed(0)
    net, images, labels = with_batch_norm(), numbers(1, 4, 1, 6, 6), codes(2, 5, 4)
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def train() -> rg.Tensor:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    step = rg.compile(train) if compiled else train
    found = []
    for at in range(7):
        if at == 4:
            labels.copy_(codes(3, 5, 4))
        if at == 5:
            labels[0] = 7
            with pytest.raises(IndexError, match="is not a class"):
                step()
            labels[0] = 1
        found += bits(step().detach().numpy())
    assert not compiled or "launches" in explain_recording(step)
    return found + [row for x in (*net.parameters(), *net.buffers()) for row in bits(x.detach().numpy())]


def test_labels_that_the_function_refers_to() -> None:
    """They are checked before batch norm changes its statistics, and seen when the user changes them."""
    assert losses_of_closure(False) == losses_of_closure(True)


def test_the_first_step_is_not_kept() -> None:
    """It finds no gradients, and would hold as much memory as the one that is replayed."""
    run = Run(compiled=True)
    for seed in range(4):
        run.step(numbers(seed, 4, 6), codes(seed, 5, 4))
        assert explain_recording(run.step).count("launches") <= 1


def test_a_copied_step_trains_the_same_network() -> None:
    """The fixture of a step is its closure; a deep copy of the compiled function is made of the same function."""
    run = Run(compiled=True)
    other = copy.deepcopy(run.step)
    for seed in range(6):
        (run.step, other)[seed % 2](numbers(seed, 4, 6), codes(seed, 5, 4))
    eager = Run()
    for seed in range(6):
        eager.step(numbers(seed, 4, 6), codes(seed, 5, 4))
    assert run.rows()[:-1] == eager.rows()[:-1]  # but the random number


@pytest.fixture(autouse=True)
def gradients() -> Iterator[None]:
    with rg.enable_grad():
        yield


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam])
def test_parts_of_a_network_that_take_turns(optimizer: Any) -> None:
    """A step that clears the gradients of the part that it does not train leaves none behind."""
    found = []
    for compiled in (False, True):
        rg.manual_seed(1)
        net = nn.ModuleList([perceptron(), perceptron()])
        trained = optimizer(net.parameters(), lr=0.1)

        def step(x: rg.Tensor, part: int, net: nn.ModuleList = net, trained: Any = trained) -> rg.Tensor:
            trained.zero_grad()
            loss = net[part](x).square().mean()
            loss.backward()
            trained.step()
            return loss

        call, rows = rg.compile(step) if compiled else step, []
        for seed in range(14):
            rows += bits(call(numbers(seed, 4, 6), seed // 3 % 2).detach().numpy())
            rows.append([p.grad is None for p in net.parameters()])
        found.append(rows + [bits(p.detach().numpy()) for p in net.parameters()])
        assert not compiled or "launches" in explain_recording(call)
    assert found[0] == found[1]


def test_a_gradient_in_another_memory_order() -> None:
    found = []
    for compiled in (False, True):
        rg.manual_seed(1)
        net = perceptron()

        def accumulate(x: rg.Tensor, net: nn.Module = net) -> rg.Tensor:
            loss = net(x).square().mean()
            loss.backward()
            return loss

        call, rows = rg.compile(accumulate) if compiled else accumulate, []
        weight = net[0].weight
        for seed in range(8):
            call(numbers(seed, 4, 6))
            rows.append((bits(weight.grad.numpy()), weight.grad.numpy().strides))
            if seed in (3, 5):
                weight.grad = rg.ones(*weight.shape[::-1]).T if seed == 3 else rg.ones(*weight.shape)
        found.append(rows)
    assert found[0] == found[1]
