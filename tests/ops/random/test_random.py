"""Dropout, the random generator and new tensors."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import retrograd
from ops.battery import kernels_of_backward, numbers
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name


def seeded(function):
    def call(*args):
        retrograd.manual_seed(3)
        return function(*args)

    return call


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 2, 2)], ids=str)
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_dropout(p: float, shape) -> None:
    x = Tensor(numbers(*shape), requires_grad=True)
    y = seeded(F.dropout)(x, p)
    mask = y.array / x.array
    kept = mask != 0
    np.testing.assert_allclose(mask[kept], 1 / (1 - p) if kept.any() else 0)
    if p in (0, 1):
        assert kept.all() == (p == 0) and kept.any() == (p == 0)
    assert F.dropout(x, p, training=False) is x
    function = seeded(lambda t: F.dropout(t, p) * 1.0)
    exact = {"eps": 1.0, "atol": 1e-11, "rtol": 1e-11}
    assert gradcheck(function, [x], **exact) and gradgradcheck(function, [x], **exact)


def test_dropout_keeps_the_mean() -> None:
    y = seeded(F.dropout)(retrograd.ones(200, 500), 0.4)
    assert y.dtype == np.float32
    assert abs(y.mean().item() - 1) < 0.01 and abs((y == 0).float().mean().item() - 0.4) < 0.01


def test_the_mask_does_not_depend_on_strides() -> None:
    x = np.ones((2, 3, 4, 5), np.float32)
    last = np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1)
    first, second = seeded(F.dropout)(Tensor(x), 0.5), seeded(F.dropout)(Tensor(last), 0.5)
    np.testing.assert_array_equal(first.array, second.array)


def test_the_same_mask_in_backward() -> None:
    x = Tensor(np.ones((5, 5)), requires_grad=True)
    y = F.dropout(x, 0.5)
    y.backward(Tensor(np.ones((5, 5))))
    np.testing.assert_array_equal(x.grad.array, y.array)
    assert kernels_of_backward(lambda t: F.dropout(t, 0.5), (numbers(3, 3),), {0}) == ["dropout_grad"]


def test_state_of_the_generator() -> None:
    retrograd.manual_seed(7)
    first = retrograd.randn(3)
    state = json.loads(json.dumps(retrograd.get_rng_state()))
    second = retrograd.randn(3)
    retrograd.set_rng_state(state)
    np.testing.assert_array_equal(retrograd.randn(3).array, second.array)
    retrograd.manual_seed(7)
    np.testing.assert_array_equal(retrograd.randn(3).array, first.array)
    before = retrograd.get_rng_state()
    for wrong in ({}, {"bit_generator": "MT19937"}, {**before, "state": {"state": "x", "inc": 1}}, 3):
        with pytest.raises(ValueError, match="set_rng_state: not a state from get_rng_state"):
            retrograd.set_rng_state(wrong)
        assert retrograd.get_rng_state() == before


def test_one_generator_for_everybody() -> None:
    from retrograd.ops.random.random import default_generator

    assert retrograd.manual_seed(1) is default_generator


def test_random_tensors() -> None:
    retrograd.manual_seed(0)
    x, y = retrograd.rand(1000), retrograd.randn(1000, dtype="float64", requires_grad=True)
    assert x.dtype == np.float32 and x.array.min() >= 0 and x.max().item() < 1 and abs(x.mean().item() - 0.5) < 0.05
    assert y.dtype == np.float64 and y.requires_grad and abs(y.array.std() - 1) < 0.1
    z = retrograd.randint(2, 5, (100,))
    assert z.dtype == np.int64 and set(z.array.tolist()) == {2, 3, 4}
    assert sorted(retrograd.randperm(6).array.tolist()) == list(range(6))
    assert retrograd.rand(()).shape == () and retrograd.randint(0, 2, ()).shape == ()


def test_tensor_copies() -> None:
    a = np.array([1.0, 2.0])
    t = retrograd.tensor(a, requires_grad=True)
    a[0] = 5
    assert t.array.tolist() == [1, 2] and t.dtype == np.float64 and t.requires_grad
    assert retrograd.tensor([1.0]).dtype == np.float32 and retrograd.tensor([1]).dtype == np.int64
    assert retrograd.tensor([True]).dtype == np.bool_ and retrograd.tensor([1], dtype=float).dtype == np.float32
    copy = retrograd.tensor(t)
    assert not np.shares_memory(copy.array, t.array) and not copy.requires_grad
    b = np.zeros(2, np.float32)
    assert np.shares_memory(retrograd.from_numpy(b).array, b)


def test_filled_tensors() -> None:
    assert retrograd.zeros(2, 3).shape == (2, 3) and retrograd.zeros((2, 3)).dtype == np.float32
    assert retrograd.ones(2, dtype="int64").array.tolist() == [1, 1]
    assert retrograd.full((2,), 3).dtype == np.int64 and retrograd.full(2, 3.0).dtype == np.float32
    assert retrograd.full((), True).dtype == np.bool_
    x = retrograd.ones(2, 2, dtype="float64")
    assert retrograd.zeros_like(x).dtype == np.float64 and retrograd.ones_like(x, dtype="float32").dtype == np.float32
    assert retrograd.arange(3).array.tolist() == [0, 1, 2] and retrograd.arange(3).dtype == np.int64
    assert retrograd.arange(1, 2, 0.5).array.tolist() == [1, 1.5] and retrograd.arange(0.5).dtype == np.float32
    assert retrograd.arange(5, 0, -2).array.tolist() == [5, 3, 1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: F.dropout(retrograd.ones(2), 1.5),
            ValueError,
            "dropout: p=1.5 is a probability and must lie in [0, 1]",
        ),
        (lambda: F.dropout(retrograd.ones(2), -1, False), ValueError, "dropout: p=-1 is a probability"),
        (lambda: F.dropout(retrograd.arange(2)), TypeError, "dropout: input is int64"),
        (lambda: retrograd.manual_seed(-1), ValueError, "manual_seed: seed=-1 is negative"),
        (lambda: retrograd.manual_seed(1.0), TypeError, "manual_seed: seed=1.0 is float, needs an int"),
        (lambda: retrograd.randint(2, 2, 1), ValueError, "randint: low=2 must be smaller than high=2"),
        (lambda: retrograd.randperm(-1), ValueError, "randperm: n=-1 must be at least 0"),
        (lambda: retrograd.rand(2, dtype="int64"), TypeError, "rand: dtype=int64 must be float32 or float64"),
        (lambda: retrograd.arange(0, 2, -1), ValueError, "arange: step=-1 does not lead from start=0 to end=2"),
        (lambda: retrograd.arange(0, 2, 0), ValueError, "arange: step=0"),
        (lambda: retrograd.from_numpy([1]), TypeError, "from_numpy: array is list, needs an ndarray"),
        (lambda: retrograd.zeros(2, dtype="float17"), TypeError, "dtype='float17' is not an element type"),
    ],
)
def test_messages(call, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()
