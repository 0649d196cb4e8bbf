"""Functions that cannot be recorded as a whole: the modules in them are, with the bits of eager mode."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from retrograd import nn, optim
from retrograd.nn import functional
from retrograd.nn.compilation import explain_recording


def numbers(seed: int, *shape: int) -> rg.Tensor:
    return rg.Tensor(np.random.default_rng(seed).standard_normal(shape or (3, 8), dtype=np.float32))


class Block(nn.Module):
    """Uses its argument twice, so the order in which gradients are added up matters."""

    def __init__(self, norm: type[nn.Module] = nn.LayerNorm) -> None:
        super().__init__()
        self.one, self.two, self.norm, self.drop = nn.Linear(8, 8), nn.Linear(8, 8), norm(8), nn.Dropout(0.2)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        return x + self.two(self.drop(functional.gelu(self.norm(self.one(x))))) * x


class Outer(nn.Module):
    """Two blocks and a head, between which a subclass does something that cannot be recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(nn.BatchNorm1d), Block()
        self.head = nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 4))

    def between(self, y: rg.Tensor) -> rg.Tensor:
        return y

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        y = self.first(x)
        return self.head(self.second(self.between(y)) + y * x)


class Exit(Outer):
    def between(self, y: rg.Tensor) -> rg.Tensor:
        return y * 2 if y.max() > 2.5 else y


class Printing(Outer):
    def between(self, y: rg.Tensor) -> rg.Tensor:
        print(tuple(y.shape))
        return y


class WithNumPy(Outer):
    def between(self, y: rg.Tensor) -> rg.Tensor:
        return y + rg.Tensor(np.cumsum(y.detach().numpy(), 1))


class Noise(Outer):
    def between(self, y: rg.Tensor) -> rg.Tensor:
        return y + rg.randn_like(y) * np.random.rand()


class Value(Outer):
    def between(self, y: rg.Tensor) -> rg.Tensor:
        return y * y.abs().sum().item()


class Unused(Outer):
    """The piece has two results, and the gradient of one of them is missing."""

    def __init__(self) -> None:
        super().__init__()
        self.both = Both()

    def between(self, y: rg.Tensor) -> rg.Tensor:
        print(tuple(y.shape))
        return self.both(y)[0]


class Both(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = Block(), Block()

    def forward(self, x: rg.Tensor) -> tuple[rg.Tensor, rg.Tensor]:
        return self.one(x), self.two(x)


class Twice(Outer):
    """One piece is called several times before its backward."""

    def between(self, y: rg.Tensor) -> rg.Tensor:
        print(tuple(y.shape))
        return self.second(self.second(y).sin()) + y


class Nested(Outer):
    def __init__(self) -> None:
        super().__init__()
        self.inner = rg.compile(Exit())

    def between(self, y: rg.Tensor) -> rg.Tensor:
        print(tuple(y.shape))
        return self.inner(y).sum() + self.first(y)


class Hooked(Outer):
    """A hook of a module that sees every result."""

    def __init__(self) -> None:
        super().__init__()
        self.second.norm.register_forward_hook(lambda module, args, y: seen.append(y.detach().sum().item()))


seen: list[float] = []
KINDS: dict[str, tuple[type[Outer], str, int]] = {  # the reason, and how many pieces there are at least
    "exit": (Exit, "Python reads whether a tensor is true", 3),
    "print": (Printing, "uses print", 3),
    "numpy": (WithNumPy, "Python reads an array of NumPy", 3),
    "noise": (Noise, "random", 3),
    "value": (Value, "Python reads", 3),
    "unused": (Unused, "uses print", 4),
    "twice": (Twice, "uses print", 3),
    "nested": (Nested, "uses print", 3),
    "hook": (Hooked, "LayerNorm has a hook", 2),
}


def made(kind: Callable[[], nn.Module]) -> nn.Module:
    rg.manual_seed(0)
    return kind()


def trained(call: Any, train: Callable[[Any, int], Any], count: int = 7) -> list[bytes]:
    """The bits of results, gradients, buffers and random numbers of some calls; eval mode in between."""
    rows: list[bytes] = []
    rg.manual_seed(3)
    np.random.seed(3)
    seen.clear()
    for seed in range(count):
        call.train(seed != 4)
        call.zero_grad()
        for each in train(call, seed):
            rows += [b""] if each is None else bits(each.detach().numpy())
        rows += [b"" if p.grad is None else bits(p.grad.numpy())[0] for p in call.parameters()]
        rows += [row for value in call.buffers() for row in bits(value.numpy())]
    return [*rows, *bits(rg.rand(2).numpy()), repr((np.random.rand(), seen)).encode()]


def backward(call: Any, seed: int) -> Any:
    x = numbers(seed).requires_grad_()
    h = x * 1.5
    y = call(h)
    (y * numbers(seed + 50, 3, 4) + h[:, :4].sin()).sum().backward()  # h gets further gradients before and after
    return y, x.grad


@pytest.mark.parametrize("name", KINDS)
def test_pieces_have_the_same_bits(name: str) -> None:
    kind, reason, pieces = KINDS[name]
    net, compiled = made(kind), rg.compile(made(kind))
    assert trained(net, backward) == trained(compiled, backward)
    text = explain_recording(compiled)
    assert "runs as usual, since " in text and reason in text
    assert text.count("launches") >= pieces and "first (Block)" in text and "Dropout" not in text
    with pytest.raises(RuntimeError, match=f"with fullgraph=True, this call cannot be recorded: .*{reason}"):
        whole = rg.compile(made(kind), fullgraph=True)
        for seed in range(2):
            whole(numbers(seed))


@pytest.mark.parametrize("name", KINDS)
def test_pieces_without_gradients(name: str) -> None:
    kind = KINDS[name][0]

    def called(call: Any, seed: int) -> Any:
        with rg.no_grad():
            return (call(numbers(seed)),)

    net, compiled = made(kind), rg.compile(made(kind))
    assert trained(net, called) == trained(compiled, called)
    assert explain_recording(compiled).count("launches") >= 2


def again(call: Any, seed: int) -> Any:
    x = numbers(seed).requires_grad_()
    loss = call(x).square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    return loss, x.grad


def penalty(call: Any, seed: int) -> Any:
    x = numbers(seed).requires_grad_()
    y = call(x)
    (g,) = rg.autograd.grad(y, x, numbers(seed + 9, 3, 4), create_graph=True)
    (g.square().sum() + y.sum()).backward()
    return y, g, x.grad


def half() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 8), nn.Sigmoid(), nn.Dropout(0.3))


class Once(nn.Module):
    """Each argument of a piece is used once: sums of second derivatives then have one order."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = half(), nn.Sequential(half(), nn.Linear(8, 4))

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        print(tuple(x.shape))
        return self.two(self.one(x))


@pytest.mark.parametrize("train", [again, penalty])
def test_further_backward_passes(train: Callable[[Any, int], Any]) -> None:
    net, compiled = made(Once), rg.compile(made(Once))
    assert trained(net, train) == trained(compiled, train)
    text = explain_recording(compiled)
    assert text.count("launches") == 2 or (train is penalty and text.count("it has second derivatives") == 2)


def test_a_training_step_in_pieces() -> None:
    found = []
    for wrap in (lambda step: step, rg.compile):
        net = made(Exit)
        optimizer = optim.SGD(net.parameters(), 0.05, momentum=0.9)

        def step(x: rg.Tensor, net: Any = net, optimizer: Any = optimizer) -> rg.Tensor:
            optimizer.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        call, rows = wrap(step), []
        for seed in range(8):
            rows += bits(call(numbers(seed)).detach().numpy())
        found.append(rows + [row for value in net.state_dict().values() for row in bits(value.numpy())])
    assert found[0] == found[1]
    text = explain_recording(call)
    assert "Exit" in text and "first (Block)" in text and text.count("launches") >= 3


def test_errors_are_those_of_the_module() -> None:
    net, compiled = made(Exit), rg.compile(made(Exit))
    for seed in range(4):
        compiled(numbers(seed))
    messages = []
    for call in (net, compiled):
        for shape in ((3, 7), (8,)):
            with pytest.raises(Exception) as error:
                call(numbers(0, *shape))
            messages.append((type(error.value), str(error.value)))
    assert messages[:2] == messages[2:] and "launches" in explain_recording(compiled)


def test_copies_of_split_modules() -> None:
    compiled = rg.compile(made(Exit).eval())
    for seed in range(4):
        compiled(numbers(seed))
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        with rg.no_grad():
            other.head[0].weight.mul_(2.0)
        for seed in range(4):
            assert bits(other(numbers(seed)).detach().numpy()) != bits(compiled(numbers(seed)).detach().numpy())
        assert explain_recording(other).count("launches") == 3


def test_parameters_and_children_are_replaced() -> None:
    net, compiled = made(Exit).eval(), rg.compile(made(Exit).eval())
    for call in (net, compiled):
        rows = []
        for seed in range(9):
            if seed == 3:
                call.first.one.weight = nn.Parameter(numbers(77, 8, 8))
            if seed == 6:
                call.second = made(Block)
                call.second.eval()
            rows.append(bits(call(numbers(seed)).detach().numpy()))
        call.rows = rows
    assert net.rows == compiled.rows


def test_modules_that_live_for_one_call() -> None:
    @rg.compile
    def call(x: rg.Tensor) -> rg.Tensor:
        if x.sum() > 1e9:
            return x
        rg.manual_seed(5)
        return Block().eval()(x)

    results = [bits(call(numbers(1)).detach().numpy()) for _ in range(300)]
    assert all(each == results[0] for each in results) and "launches" not in explain_recording(call)
    assert len(call._recorder.pieces.recorders) <= 256


def test_a_frozen_network_in_pieces() -> None:
    net = made(Exit).eval()
    frozen = net.freeze()
    for seed in range(5):
        assert np.allclose(frozen(numbers(seed)).numpy(), net(numbers(seed)).detach().numpy(), atol=1e-5)
    assert explain_recording(frozen).count("launches") == 3


def test_threads_call_pieces() -> None:
    net = made(Exit).eval()
    compiled, wrong = rg.compile(net), []
    wanted = [bits(net(numbers(seed)).detach().numpy()) for seed in range(8)]

    def work(offset: int) -> None:
        for turn in range(40):
            seed = (turn + offset) % 8
            x = numbers(seed).requires_grad_()
            y = compiled(x)
            rg.autograd.grad(y.sum(), x)
            if bits(y.detach().numpy()) != wanted[seed]:
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(offset,)) for offset in (0, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong and "launches" in explain_recording(compiled)
