"""What cannot be recorded runs as usual, and is explained."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from replay.small import image, launches, network, same
from retrograd import nn
from retrograd.nn import recorded_call
from retrograd.nn.compilation import explain_recording

pytestmark = pytest.mark.usefixtures("without_gradients")


class Holder:
    def __init__(self) -> None:
        self.weight = image(3, 9, 9)


class Counting(nn.Module):
    calls = 0

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        self.calls += 1
        return x * 2


class Printing(nn.Module):
    def forward(self, x: rg.Tensor) -> rg.Tensor:
        print("forward")
        return x * 2


holder = Holder()


coins, dice = np.random.default_rng(3), random.Random(3)


seen: list[Any] = []
elements_of = attrgetter("array")  # not seen in the code that calls it


def seed_all(seed: int) -> None:
    rg.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    coins.bit_generator.state = np.random.PCG64(seed).state
    dice.seed(seed)


def one_of(x: Any, y: Any, first: Any) -> Any:
    return x if first else y


UNRECORDED: dict[str, tuple[Any, str]] = {
    "a decision": (lambda x: x * 2 if x.sum().item() > 0 else x - 1, "Python reads"),
    "a count": (lambda x: x * float((x.numpy() > 0).sum()), "Python reads an array of NumPy"),
    "a choice": (lambda x: (x * 2 if np.asarray(x)[0, 0, 0, 0] == 1.7640524 else x * 3).exp(), "an array of NumPy"),
    "a choice of operands": (lambda x: one_of(x * 2, x + 1, x.numpy()[0, 0, 0, 0] < 1.76).exp(), "an array of NumPy"),
    "elements": (lambda x: one_of(x * 2, x + 1, x.array[0, 0, 0, 0] < 1.76).exp(), "uses .array, in line"),
    "DLPack": (lambda x: one_of(x * 2, x + 1, np.from_dlpack(x)[0, 0, 0, 0] < 1.76).exp(), "an array of DLPack"),
    "NumPy": (lambda x: x + rg.Tensor(np.cumsum(x.numpy(), 1)), "Python reads an array of NumPy"),
    "in place": (lambda x: x.add_(1), "in place"),
    "itself": (lambda x: x, "returns an argument"),
    "a view": (lambda x: x[:, :, 0], "returns an argument"),
    "noise": (lambda x: x + rg.randn(9), "draws random numbers other than dropout's"),
    "a coin": (lambda x: x * 2 if random.random() < 0.5 else x - 1, "draws random numbers of Python"),
    "a coin of NumPy": (lambda x: (x * 2, x * 3)[np.random.randint(2)], "draws random numbers of NumPy"),
    "a coin of a generator": (lambda x: (x * 2, x * 3)[coins.integers(2)], "draws random numbers of a generator"),
    "a coin of another generator": (lambda x: (x * 2, x * 3)[dice.randint(0, 1)], "random numbers of a generator"),
    "an array that no name leads to": (
        lambda x: x @ [*holder.__getstate__().values()][0],
        "no argument, parameter or buffer",
    ),
    "a changed array": (lambda x: [*holder.__getstate__().values()][0].add_(0) @ x, "no argument"),
    "an object": (lambda x: [x * 2, Holder()], "contains"),
    "a count of calls": (Counting(), "sets an attribute"),
    "a list that grows": (lambda x: seen.append(x.shape) or x * 2, "it changes something that it refers to"),
    "a line of output": (Printing(), "uses print"),
    "an argument": (lambda x, y=None: x * 2, ""),
}


@pytest.mark.parametrize("name", UNRECORDED)
def test_what_cannot_be_recorded_runs_as_usual(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, reason = UNRECORDED[name]
    compiled = rg.compile(copy.deepcopy(function) if isinstance(function, nn.Module) else function)
    for seed in range(4):
        x, y = image(seed), image(seed)
        given = (x, slice(1)) if name == "an argument" else (x,)
        seed_all(seed)
        found = compiled(*given)
        seed_all(seed)
        wanted = function(y)
        assert type(found) is type(wanted)
        for a, b in zip(*((each if isinstance(each, list) else [each]) for each in (found, wanted)), strict=True):
            assert not isinstance(a, rg.Tensor) or bits(a.numpy()) == bits(b.numpy())
        assert bits(x.numpy()) == bits(y.numpy())
    assert launches(compiled) == 0
    if reason:
        assert reason in explain_recording(compiled)
        with pytest.raises(
            RuntimeError, match=f"compile: with fullgraph=True, this call cannot be recorded: .*{reason}"
        ):
            rg.compile(function, fullgraph=True)(image())
    if name == "a count of calls":
        assert compiled.calls >= 4
    if name == "a line of output":
        assert capsys.readouterr().out.count("forward") == 8


def test_what_a_recording_consists_of_is_explained() -> None:
    def chosen(x: rg.Tensor) -> rg.Tensor:
        y = x * 2
        return y if y.sum().item() > 0 else y + 1  # this line

    def read(x: rg.Tensor) -> rg.Tensor:
        return x @ [*holder.__getstate__().values()][0]  # the line that reads

    def made(x: rg.Tensor) -> rg.Tensor:
        return rg.zeros(9).add_(1.0) * x  # the line that changes

    for function, line in ((chosen, "# this line"), (read, "# the line that reads"), (made, "# the line that changes")):
        compiled = rg.compile(function)
        for _ in range(3):  # an array that NumPy makes begins at zero in each call
            assert bits(compiled(image()).numpy()) == bits(function(image()).numpy())
        assert explain_recording(compiled).endswith(line)
    net = nn.Sequential(nn.Embedding(5, 6), nn.Linear(6, 6), nn.ReLU(), nn.BatchNorm1d(6), nn.ReLU())
    compiled = rg.compile(net)
    with rg.enable_grad():
        for _ in range(2):  # the second time for the strides of the gradient of a sum
            compiled(rg.tensor([0, 1, 2])).sum().backward()
    assert re.fullmatch(
        r"\(3,\), \(8,\): \d+ steps, \d+ launches; \d+ arrays of .* arena of .* bytes\n"
        r"  in 2 segments, between which Python checks whether indices are in range\n"
        r"  fused: 1 batch_norm_clamp, 1 batch_norm_clamp_grad, 1 matmul_clamp\n"
        r"  called, since they have no plan: 1 csr_transpose",
        explain_recording(compiled),
    )


def test_lists_and_hooks_of_modules() -> None:
    """Changes of a list or dict in a module are seen, and so is a hook that is removed."""

    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factors, self.input = [2.0, {"third": [3.0]}], nn.Linear(9, 9)

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return self.input(x) * self.factors[0] * self.factors[1]["third"][0]

    net, x = Listed(), image()
    compiled = rg.compile(net)
    assert same(compiled, net, x) and launches(compiled) == 1  # ``self.input`` is not the function input
    net.factors[0] = 5.0
    assert same(compiled, net, x)
    net.factors[1]["third"].append(0.0)
    net.factors[1]["third"][0] = 7.0
    assert same(compiled, net, x)
    hook = net.input.register_forward_hook(lambda module, args, result: result * 3)
    assert same(compiled, net, x) and launches(compiled) == 0
    hook.remove()
    assert same(compiled, net, x) and launches(compiled) == 1


def halved(x: rg.Tensor, ends: Callable[[rg.Tensor], bool]) -> rg.Tensor:
    """Products until one ends the loop, which made-up numbers would never do."""
    half = rg.Tensor(np.eye(4, dtype=np.float32) / 2)
    for _ in range(100):
        x = x @ half
        if ends(x):
            return x
    raise AssertionError("a loop without an end")


def sign(x: rg.Tensor) -> rg.Tensor:
    y = x @ x
    try:
        return y * 2 if (y > 0).all() else -y
    except Exception:
        return y


@pytest.mark.parametrize(
    "function",
    [
        lambda x: halved(x, lambda y: y.abs().max().item() < 1e-3),
        lambda x: halved(x, lambda y: bool((y.abs() < 1e-3).all())),
        lambda x: halved(x, lambda y: float(y.numpy().max()) < 1e-3),
        sign,
    ],
)
def test_computed_values_that_end_a_loop(function: Callable[[rg.Tensor], rg.Tensor]) -> None:
    compiled = rg.compile(function)
    for seed in range(6):
        x = image(seed, 4, 4)
        x = x.abs() if seed % 2 else x
        assert bits(compiled(x).numpy()) == bits(function(x).numpy())


def test_a_parameter_that_values_choose_is_not_recorded() -> None:
    class Choosing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Parameter(image(1, 9)), nn.Parameter(image(2, 9))

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return x * (self.one if elements_of(x)[0, 0, 0, 0] == 2 else self.two)

    net, compiled = Choosing(), rg.compile(Choosing())
    for value in (2, 3, 2, 1):
        x = image()
        x[0, 0, 0, 0] = value
        assert bits(compiled(x).numpy()) == bits(net(x).numpy())
    assert "another parameter" in explain_recording(compiled)


def test_what_numpy_computes_from_a_parameter_is_not_recorded() -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(image(1, 9))

        def forward(self, x: rg.Tensor) -> rg.Tensor:
            return x * rg.Tensor(elements_of(self.weight) * 2)

    net, x = Doubled(), image()
    compiled = rg.compile(net)
    for factor in (1, 3, 5):
        net.weight.mul_(factor)
        assert bits(compiled(x).numpy()) == bits(net(x).numpy())
    assert "NumPy computes" in explain_recording(compiled)


@pytest.mark.parametrize("most", [1 << 20, 0])
def test_a_change_before_a_decision_is_undone(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the decision is another one in a replay, the call as usual makes the change again; not recorded if large."""
    monkeypatch.setattr(recorded_call, "_MOST_UNDONE", most)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.embedding = nn.BatchNorm1d(6), nn.Embedding(5, 6)

        def forward(self, x: rg.Tensor, codes: rg.Tensor) -> rg.Tensor:
            return self.norm(x) + self.embedding(codes * 1)

    net, x, codes = Both(), image(0, 4, 6), rg.tensor([0, 1, 2, 3])
    compiled = rg.compile(copy.deepcopy(net))
    for _ in range(3):
        assert bits(compiled(x, codes).numpy()) == bits(net(x, codes).numpy())
    with pytest.raises(IndexError):
        compiled(x, codes + 4)
    with pytest.raises(IndexError):
        net(x, codes + 4)
    assert bits(compiled(x + 1, codes).numpy()) == bits(net(x + 1, codes).numpy())
    assert [*map(bits, (each.numpy() for each in compiled.buffers()))] == [
        *map(bits, (each.numpy() for each in net.buffers()))
    ]
    assert launches(compiled) == (most > 0)
    assert ("has changed a parameter or buffer" in explain_recording(compiled)) == (most == 0)
    compiled.eval(), net.eval()
    assert bits(compiled(x, codes).numpy()) == bits(net(x, codes).numpy()) and launches(compiled) == 1


def test_an_error_is_that_of_the_function() -> None:
    compiled = rg.compile(network())
    with pytest.raises(ValueError, match="input has 4 channels"):
        compiled(image(0, 2, 4, 9, 9))
    assert same(compiled, network(), image())


def test_an_error_that_only_recording_has() -> None:
    """The argument is the result of an operator, which may change in place; in a recording it is a leaf."""
    found = []
    for call in (lambda x: x.mul_(2) + 1, rg.compile(lambda x: x.mul_(2) + 1)):
        with rg.enable_grad():
            for seed in range(7):
                x = image(seed).requires_grad_()
                y = call(x * 1)
                y.square().sum().backward()
                found.append(bits(y.detach().numpy()) + bits(x.grad.numpy()))
    assert found[:7] == found[7:] and "it fails while it is recorded" in explain_recording(call)


def test_a_result_without_a_gradient() -> None:
    compiled = rg.compile(lambda x: rg.unique(x) * 1.0)
    with rg.enable_grad():
        y = compiled(image().requires_grad_())
    assert y.requires_grad and "its backward fails: NotImplementedError" in explain_recording(compiled)
