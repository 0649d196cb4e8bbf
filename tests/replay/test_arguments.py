"""Recorded calls whose arguments are tuples, lists and dicts of tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from retrograd import nn
from retrograd.nn.compilation import explain_recording


class Pair(NamedTuple):
    left: rg.Tensor
    right: Any


def tensor(seed: int, *shape: int, trained: bool = False) -> rg.Tensor:
    return rg.Tensor(np.random.default_rng(seed).standard_normal(shape or (3, 5), dtype=np.float32), trained)


def leaves(value: Any) -> list[rg.Tensor]:
    if isinstance(value, rg.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return [leaf for part in parts for leaf in leaves(part)]


def mixed(pair: Any, *, more: Any) -> Any:
    left, right = pair
    return {
        "sum": left * more["scale"] + right[0].tanh(),
        "rest": [right[1] * left, Pair(right[0].exp(), more["none"])],
    }


def arguments(seed: int, trained: bool = False, kind: type = tuple, scale: float = 0.5) -> tuple[Any, dict[str, Any]]:
    left, first, second = (tensor(3 * seed + at, trained=trained and at != 1) for at in range(3))
    pair = Pair(left, [first, second]) if kind is Pair else kind((left, [first, second]))
    return pair, {"more": {"scale": scale, "none": None}}


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("kind", [tuple, list, Pair])
def test_results_and_gradients_have_the_same_bits(kind: type, trained: bool) -> None:
    compiled = rg.compile(mixed, fullgraph=True)
    for seed in range(4):
        found = []
        for call in (mixed, compiled):
            pair, named = arguments(seed, trained, kind)
            result = call(pair, **named)
            assert type(result["rest"][1]) is Pair and result["rest"][1].right is None
            if trained:
                (result["sum"] * result["rest"][0]).sum().backward(retain_graph=seed == 3)
            grads = [leaf.grad for leaf in leaves(pair)]
            assert [grad is not None for grad in grads] == [trained, False, trained]
            found.append([bits(each.detach().numpy()) for each in (*leaves(result), *grads) if each is not None])
        assert found[0] == found[1]
    assert explain_recording(compiled).count("launches") == 1


def test_another_structure_is_another_recording() -> None:
    x, y = tensor(0), tensor(1)
    compiled = rg.compile(lambda value, other=None: sum(leaves([value, other]), start=rg.zeros(3, 5)) * 2)
    given = [
        ((x, y),),
        ([x, y],),
        (x, y),
        ((x,), y),
        ({"a": x, "b": y},),
        ({"b": x, "a": y},),
        (Pair(x, y),),
        ([x, [y]],),
    ]
    for _ in range(3):
        for args in given:
            assert bits(compiled(*args).numpy()) == bits(((x + y) * 2).numpy())
    assert explain_recording(compiled).count("launches") == len(given)


def test_numbers_in_containers_are_compared() -> None:
    compiled = rg.compile(lambda x, options: x * options["scale"][0])
    x = tensor(0)
    for scale in (2.0, 3.0, 2.0, 2, True, -0.0, 0.0, 2.0):
        assert bits(compiled(x, {"scale": (scale,)}).numpy()) == bits((x * scale).numpy())


def test_the_state_of_a_recurrent_network() -> None:
    rg.manual_seed(0)
    net = nn.LSTM(5, 7, 2)
    compiled = rg.compile(copy.deepcopy(net), fullgraph=True)
    states: list[Any] = [None, None]
    for seed in range(4):
        for at, call in enumerate((net, compiled)):
            if seed == 0:
                states[at] = tensor(50, 2, 3, 7), tensor(51, 2, 3, 7)
            y, states[at] = call(tensor(seed, 4, 3, 5), states[at])
            y.sum().backward()
            states[at] = tuple(each.detach() for each in states[at])
        assert bits(states[0][1].numpy()) == bits(states[1][1].numpy())
    for a, b in zip(net.parameters(), compiled.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None and bits(a.grad.numpy()) == bits(b.grad.numpy())
    assert explain_recording(compiled).count("launches") == 1


def itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def put(x: rg.Tensor, values: Any) -> rg.Tensor:
    values.append(x * 2) if isinstance(values, list) else values.update(more=x * 2)
    return x * 3


def exchanged(x: rg.Tensor, values: list[Any]) -> rg.Tensor:
    values[0], values[1] = values[1], values[0]
    return x * 3


@pytest.mark.parametrize(
    ("function", "make", "reason"),
    [
        (put, list, "it changes a list or dict that is an argument"),
        (put, dict, "it changes a list or dict that is an argument"),
        (exchanged, lambda: [tensor(1), tensor(2)], "it changes a list or dict that is an argument"),
        (lambda x, values: x * 2, itself, "its arguments have more than 256 values"),
        (lambda x, values: x * len(values), lambda: [1] * 300, "its arguments have more than 256 values"),
        (lambda x, values: x * len(values), lambda: {1: 2}, "an argument is dict"),
        (lambda x, values: x * len(values), lambda: [{1}], "an argument is set"),
    ],
)
def test_what_cannot_be_recorded_runs_as_usual(
    function: Callable[..., Any], make: Callable[[], Any], reason: str
) -> None:
    compiled = rg.compile(function)
    for seed in range(4):
        x, (ours, plain) = tensor(seed), (make(), make())
        assert bits(compiled(x, ours).numpy()) == bits(function(x, plain).numpy())
        if function in (put, exchanged):
            assert [bits(each.numpy()) for each in leaves(ours)] == [bits(each.numpy()) for each in leaves(plain)]
    assert explain_recording(compiled).count("launches") == 0
    with pytest.raises(RuntimeError, match=f"compile: with fullgraph=True, this call cannot be recorded: {reason}"):
        rg.compile(function, fullgraph=True)(tensor(0), make())


def codes(seed: int, *shape: int, below: int = 5) -> rg.Tensor:
    return rg.tensor(np.random.default_rng(seed).integers(0, below, shape))


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (lambda w, mask: w[mask], lambda seed: tensor(seed, 7, 3) > 0),
        (lambda w, mask: w[mask], lambda seed: tensor(seed, 7) > 0),
        (lambda w, mask: rg.masked_select(w, mask), lambda seed: tensor(seed, 7, 3) > 0),
        (lambda w, mask: w * len(rg.nonzero(mask)), lambda seed: tensor(seed, 7, 3) > 0),
        (lambda w, mask: w[rg.where(mask)[0]], lambda seed: tensor(seed, 7) > 0),
        (lambda w, i: w[rg.unique(i)], lambda seed: codes(seed, 5)),
        (lambda w, i: w[rg.unique_consecutive(i)], lambda seed: codes(seed, 5, below=2)),
        (lambda w, i: w.repeat_interleave(i, 0), lambda seed: codes(seed, 7)),
        (lambda w, i: w[: i.max().item() + 1], lambda seed: codes(seed, 3)),
        (lambda w, i: rg.bincount(i)[:, None] * w[:1], lambda seed: codes(seed, 3)),
    ],
)
def test_arguments_that_decide_shapes(function: Callable[..., Any], make: Callable[[int], rg.Tensor]) -> None:
    """The elements of bool and integer arguments decide how many elements there are, in each call others."""
    nets = [Weighted(function), Weighted(function)]
    compiled, sizes = rg.compile(nets[1]), set()
    for seed in range(5):
        found = []
        for net, call in zip(nets, (nets[0], compiled), strict=True):
            net.zero_grad()
            y = call(make(seed))
            (y * y).sum().backward()
            assert net.weight.grad is not None
            found.append((y.shape, bits(y.detach().numpy()), bits(net.weight.grad.numpy())))
        assert found[0] == found[1]
        y = function(rg.ones(7, 3), make(seed))
        sizes.add((y.numel(), y.sum().item()))  # how many elements, or the factor, of equal weights
    assert len(sizes) > 1
    assert explain_recording(compiled).count("launches") == 0


class Weighted(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.weight = function, nn.Parameter(tensor(9, 7, 3))

    def forward(self, *args: Any) -> Any:
        return self.function(self.weight, *args)


def test_the_line_of_a_shape_that_depends_on_values_is_named() -> None:
    compiled = rg.compile(lambda mask: rg.nonzero(mask) * 2)
    compiled(tensor(0) > 0)
    assert "argwhere has no plan, and how many elements there are depends on their values, in " in explain_recording(
        compiled
    )


def test_recorded_steps_with_other_shapes_are_an_error() -> None:
    x = rg.tensor([1.0, 0.0, 2.0])
    steps = rg.record_steps(lambda: rg.nonzero(x))
    x.numpy()[1] = 5
    with pytest.raises(ValueError, match=r"run: argwhere returns \(3, 1\) for these values, but \(2, 1\) when it was"):
        steps.run()
