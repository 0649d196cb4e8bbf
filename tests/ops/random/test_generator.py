"""Generators, random tensors, methods that fill a tensor, and new tensors."""

from __future__ import annotations

import copy
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.engine.tensor import Tensor
from retrograd.ops.random.random import default_generator, spawned_seed


def test_a_generator_of_its_own() -> None:
    g = retrograd.Generator()
    assert g.manual_seed(3) is g and g.initial_seed() == 3
    before = retrograd.get_rng_state()
    first = [retrograd.rand(3, generator=g), retrograd.randperm(5, generator=g), retrograd.normal(0, 1, 4, generator=g)]
    assert retrograd.get_rng_state() == before
    again = retrograd.Generator().manual_seed(3)
    second = [
        retrograd.rand(3, generator=again),
        retrograd.randperm(5, generator=again),
        retrograd.normal(0, 1, 4, generator=again),
    ]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.array, b.array)
    state = g.get_state()
    kept = retrograd.randn(2, generator=g).array
    for other in (
        retrograd.Generator().set_state(state),
        pickle.loads(pickle.dumps(retrograd.Generator().set_state(state))),
    ):
        np.testing.assert_array_equal(retrograd.randn(2, generator=other).array, kept)
    copied = copy.deepcopy(g)
    np.testing.assert_array_equal(retrograd.randn(2, generator=copied).array, retrograd.randn(2, generator=g).array)
    assert copied.initial_seed() == 3
    with pytest.raises(ValueError, match="not a state from get_rng_state"):
        g.set_state({})


def test_seeds_for_other_processes() -> None:
    """Each seed is new and does not advance the stream; their number is part of the state."""
    g = retrograd.Generator().manual_seed(4)
    before = g.bit_generator.state
    seeds = [spawned_seed(g) for _ in range(3)]
    assert len(set(seeds)) == 3 and g.bit_generator.state == before and all(0 <= seed < 2**63 for seed in seeds)
    state = json.loads(json.dumps(g.get_state()))
    following = spawned_seed(g)
    for other in (retrograd.Generator().set_state(state), copy.deepcopy(retrograd.Generator().set_state(state))):
        assert spawned_seed(other) == following
    assert [spawned_seed(g.manual_seed(4)), spawned_seed(g)] == seeds[:2]
    assert spawned_seed(retrograd.Generator().manual_seed(5)) not in seeds
    g.manual_seed(4).random()
    assert spawned_seed(g) not in seeds
    for wrong in (-1, 1.5, True, 2**63):
        with pytest.raises(ValueError, match=r"set_rng_state: .*: state\['spawned'\] is .* must be an integer"):
            g.set_state({**state, "spawned": wrong})
    assert spawned_seed(g.set_state({**state, "spawned": 1})) == seeds[1]
    g.set_state({name: value for name, value in state.items() if name != "spawned"})
    assert spawned_seed(g) == seeds[0]

    retrograd.manual_seed(4)
    with retrograd.fork_rng():
        assert spawned_seed(default_generator) == seeds[0]
    assert spawned_seed(default_generator) == seeds[0]


def test_seeds_for_other_processes_from_a_generator_of_numpy() -> None:
    g = np.random.default_rng(4)
    before = g.bit_generator.state
    seeds = [spawned_seed(g) for _ in range(3)]
    assert len(set(seeds)) == 3 and g.bit_generator.state == before
    again = np.random.default_rng(4)
    assert [spawned_seed(again) for _ in range(3)] == seeds
    old = np.random.Generator(np.random.RandomState(4)._bit_generator)  # has no SeedSequence
    assert len({spawned_seed(old) for _ in range(3)}) == 3


def test_seeds() -> None:
    retrograd.manual_seed(11)
    assert retrograd.initial_seed() == 11
    state = retrograd.get_rng_state()
    try:
        drawn = retrograd.seed()
        assert drawn == retrograd.initial_seed() and drawn >= 0
        first = retrograd.rand(4)
        retrograd.manual_seed(drawn)
        np.testing.assert_array_equal(retrograd.rand(4).array, first.array)
    finally:
        retrograd.set_rng_state(state)


def test_fork_rng() -> None:
    retrograd.manual_seed(2)
    with retrograd.fork_rng():
        inside = retrograd.rand(3)
        retrograd.manual_seed(9)
    assert retrograd.initial_seed() == 2
    np.testing.assert_array_equal(retrograd.rand(3).array, inside.array)
    with retrograd.fork_rng(enabled=False):
        third = retrograd.rand(3)
    assert not np.array_equal(third.array, retrograd.rand(3).array)


def test_moments() -> None:
    retrograd.manual_seed(0)
    n = 20000
    rate = retrograd.full((n,), 3.0)
    for x, mean, spread in (
        (retrograd.normal(2.0, 3.0, (n,)), 2, 3),
        (retrograd.normal(Tensor(np.full(n, 1.0)), 0.5), 1, 0.5),
        (retrograd.bernoulli(retrograd.full((n,), 0.3)), 0.3, 0.46),
        (retrograd.bernoulli(rate, 0.9), 0.9, 0.3),
        (retrograd.poisson(rate), 3, 3**0.5),
        (retrograd.rand_like(rate), 0.5, 12**-0.5),
        (retrograd.randn_like(rate), 0, 1),
        (retrograd.randint_like(rate, 2, 6), 3.5, 1.118),
        (retrograd.zeros(n).uniform_(-1, 3), 1, 4 * 12**-0.5),
        (retrograd.zeros(n).normal_(2, 0.5), 2, 0.5),
        (retrograd.zeros(n).exponential_(2.0), 0.5, 0.5),
        (retrograd.zeros(n).bernoulli_(0.25), 0.25, 0.433),
        (retrograd.zeros(n, dtype="int64").bernoulli_(0.25).float(), 0.25, 0.433),
        (retrograd.zeros(n).random_(4), 1.5, 1.118),
        (retrograd.zeros(n).random_(3, 7), 4.5, 1.118),
    ):
        assert x.dtype in (np.float32, np.float64) and x.shape == (n,)
        assert abs(x.array.mean() - mean) < 5 * spread / n**0.5 and abs(x.array.std() - spread) < 0.06 * spread
    assert retrograd.randint_like(rate, 5).dtype == np.float32 and retrograd.randint(5, (3,)).array.max() < 5
    largest = retrograd.zeros(50).random_().array
    assert largest.max() > 2**22 and largest.max() <= 2**24
    whole = retrograd.zeros(50, dtype="int64").random_().array
    assert whole.max() > 2**60 and whole.min() >= 0


def test_multinomial() -> None:
    retrograd.manual_seed(0)
    weights = Tensor(np.array([[1.0, 0.0, 3.0], [5.0, 5.0, 0.0]]))
    drawn = retrograd.multinomial(weights, 8000, replacement=True).array
    np.testing.assert_allclose(
        [np.bincount(row, minlength=3) / 8000 for row in drawn], [[0.25, 0, 0.75], [0.5, 0.5, 0]], atol=0.03
    )
    once = retrograd.multinomial(weights, 2).array
    assert sorted(once[0].tolist()) == [0, 2] and sorted(once[1].tolist()) == [0, 1]
    first = [retrograd.multinomial(weights, 1).array[0, 0] for _ in range(2000)]
    assert abs(np.mean(np.array(first) == 2) - 0.75) < 0.05
    assert retrograd.multinomial(weights[0], 2).shape == (2,)


def test_filling_a_leaf() -> None:
    x = retrograd.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf that requires a gradient"):
        x.normal_()
    with retrograd.no_grad():
        assert x.uniform_(1, 2) is x and x.array.min() >= 1
    y = x * 2.0
    y.normal_()
    y.backward(retrograd.tensor([0.5, -2.0, 3.0]))
    assert x.grad.array.tolist() == [0, 0, 0]


def test_new_tensors() -> None:
    x = retrograd.ones(2, 3, dtype="float64")
    assert retrograd.empty(2, 3).shape == (2, 3) and retrograd.empty_like(x).dtype == np.float64
    assert retrograd.full_like(x, 7, dtype="int64").array.tolist() == [[7] * 3] * 2
    np.testing.assert_array_equal(retrograd.eye(2, 3).array, np.eye(2, 3, dtype=np.float32))
    np.testing.assert_allclose(retrograd.linspace(1, 3, 5).array, [1, 1.5, 2, 2.5, 3])
    np.testing.assert_allclose(retrograd.logspace(0, 2, 3, base=2, dtype="float64").array, [1, 2, 4])
    assert retrograd.linspace(0, 1, 1).array.tolist() == [0] and retrograd.linspace(0, 1, 0).shape == (0,)
    np.testing.assert_array_equal(retrograd.tril_indices(3, 2, -1).array, [[1, 2, 2], [0, 0, 1]])
    np.testing.assert_array_equal(retrograd.triu_indices(2, 3, 1).array, [[0, 0, 1], [1, 2, 2]])
    assert retrograd.as_tensor(x) is x and retrograd.as_tensor(x, "float32").dtype == np.float32
    a = np.zeros(2)
    assert np.shares_memory(retrograd.as_tensor(a).array, a) and np.shares_memory(retrograd.asarray(a).array, a)
    assert not np.shares_memory(retrograd.asarray(a, copy=True).array, a)
    assert retrograd.asarray([1.0], requires_grad=True).requires_grad


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: retrograd.rand(2, generator=3), TypeError, "rand: generator is int, needs a retrograd.Generator"),
        (lambda: retrograd.Generator().manual_seed(-1), ValueError, "manual_seed: seed=-1 is negative"),
        (lambda: retrograd.randint(3), ValueError, "randint: size is missing"),
        (lambda: retrograd.randint_like(retrograd.ones(2), 3, 3), ValueError, "randint_like: low=3 must be smaller"),
        (lambda: retrograd.normal(0.0, 1.0), ValueError, "normal: give size with numbers"),
        (lambda: retrograd.normal(0.0, -1.0, 3), ValueError, "normal: std=-1.0 must be at least 0"),
        (lambda: retrograd.rand_like(retrograd.arange(3)), TypeError, "rand: dtype=int64 must be float32 or float64"),
        (lambda: retrograd.ones(2).uniform_(2, 1), ValueError, "uniform_: from_=2.0 must not be above to=1.0"),
        (lambda: retrograd.ones(2).normal_(0, -1), ValueError, "normal_: std=-1.0 must be at least 0"),
        (lambda: retrograd.ones(2).exponential_(0), ValueError, "exponential_: lambd=0.0 must be above 0"),
        (lambda: retrograd.ones(2).bernoulli_(2), ValueError, "bernoulli_: p=2 is a probability"),
        (lambda: retrograd.ones(2).random_(3, 3), ValueError, "random_: from_=3 must be smaller than to=3"),
        (lambda: retrograd.arange(2).normal_(), TypeError, "normal_: input is int64, needs float32 or float64"),
        (lambda: retrograd.eye(-1), ValueError, "eye: n=-1 must be at least 0"),
        (lambda: retrograd.linspace(0, 1, -1), ValueError, "linspace: steps=-1 must be at least 0"),
        (lambda: retrograd.asarray([1.0], copy=False), ValueError, "asarray: copy=False, but list cannot become"),
    ],
)
def test_messages(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
