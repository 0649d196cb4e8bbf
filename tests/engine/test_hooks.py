"""Hooks on tensors: when they run, what they see and what they may change."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

from engine.functions import Add, DivMod, Exp, Mul, leaf, values
from retrograd.engine import Tensor, grad, is_grad_enabled, wrap


def times(factor: float) -> Any:
    return lambda g: wrap(g.array * factor)


def test_on_a_result() -> None:
    x, seen = leaf(2, 3), []
    y = Mul.apply(x, x)
    y.register_hook(lambda g: seen.append(values(g)))
    y.backward(wrap(np.array([5.0, 7.0])))
    assert seen == [[5, 7]] and values(x.grad) == [20, 42]


def test_the_whole_gradient_is_seen_once() -> None:
    x, seen = leaf(2), []
    y = Mul.apply(x, x)
    y.register_hook(lambda g: seen.append(values(g)))
    Add.apply(Mul.apply(y, y), Add.apply(y, y)).backward()
    assert seen == [[10]]
    x.register_hook(lambda g: seen.append(values(g)))
    Mul.apply(x, x).backward()
    assert seen[1:] == [[4]]


@pytest.mark.parametrize("deep", [False, True])
def test_each_hook_gets_what_the_one_before_it_left(deep: bool) -> None:
    x, seen = leaf(1), []
    y = Mul.apply(x, x) if deep else x
    for factor in (2.0, 3.0):
        y.register_hook(times(factor))
        y.register_hook(lambda g: seen.append(values(g)))
    y.register_hook(lambda g: None)
    Mul.apply(y, y).backward()
    assert seen == [[4], [12]] and values(x.grad) == [24 if deep else 12]


def test_with_grad() -> None:
    x = leaf(3)
    y = Mul.apply(x, x)
    x.register_hook(times(10))
    y.register_hook(times(2))
    gx, gy = grad(Mul.apply(y, y), (x, y))
    assert values(gy) == [36] and values(gx) == [36 * 6 * 10] and x.grad is None


def test_a_retained_gradient_is_the_one_after_the_hooks() -> None:
    x = leaf(3)
    y = Exp.apply(x)
    y.retain_grad()
    y.register_hook(times(2))
    y.backward(wrap(np.array([5.0])))
    assert values(y.grad) == [10]


def test_of_several_outputs() -> None:
    x, seen = leaf(1), []
    half, triple, _ = DivMod.apply(x)
    half.register_hook(lambda g: seen.append(("half", values(g))))
    triple.register_hook(times(2))
    triple.backward()
    assert seen == [] and values(x.grad) == [6]  # the output `half` received no gradient
    half, triple, _ = DivMod.apply(x)
    half.register_hook(lambda g: seen.append(("half", values(g))))
    Add.apply(half, triple).backward()
    assert seen == [("half", [1])]


def test_removing() -> None:
    x, seen = leaf(2), []
    first = x.register_hook(lambda g: seen.append(1))
    with x.register_hook(lambda g: seen.append(2)):
        Exp.apply(x).backward()
    Exp.apply(x).backward()
    first.remove()
    first.remove()
    Exp.apply(x).backward()
    assert seen == [1, 2, 1]
    y = Exp.apply(x)
    y.register_hook(lambda g: seen.append(3)).remove()
    y.backward()
    assert seen == [1, 2, 1]


def test_post_accumulate() -> None:
    x, y, seen = leaf(2), leaf(3), []
    x.register_hook(lambda g: seen.append(("before", None if x.grad is None else values(x.grad))))
    handle = x.register_post_accumulate_grad_hook(lambda t: seen.append((t is x, values(t.grad), values(y.grad))))
    for _ in range(2):
        Mul.apply(x, y).backward()
    assert seen == [("before", None), (True, [3], [2]), ("before", [3]), (True, [6], [4])]
    handle.remove()
    Mul.apply(x, y).backward()
    grad(Mul.apply(x, y), x)
    assert len(seen) == 6


def test_an_optimizer_in_the_hook_may_drop_the_gradient() -> None:
    x = leaf(2)

    def step(t: Tensor) -> None:
        t.array -= 0.5 * t.grad.array
        t.grad = None

    x.register_post_accumulate_grad_hook(step)
    Mul.apply(x, x).backward()
    assert x.array[0] == 0 and x.grad is None


def test_a_kept_gradient_is_not_the_leafs_own() -> None:
    """A gradient that a hook stores does not change when gradients accumulate."""
    x, kept = leaf(1), []
    x.register_hook(kept.append)
    for _ in range(2):
        Mul.apply(x, x).backward()
    assert values(kept[0]) == [2] and values(x.grad) == [4]
    fixed = wrap(np.array([7.0]))
    x.register_hook(lambda g: fixed)
    x.grad = None
    for _ in range(2):
        Mul.apply(x, x).backward()
    assert values(fixed) == [7] and values(x.grad) == [14]


def test_recording_follows_create_graph() -> None:
    x, seen = leaf(3), []

    def square(g: Tensor) -> Tensor:
        seen.append(is_grad_enabled())
        return Mul.apply(g, g)

    x.register_hook(square)
    y = Mul.apply(x, Mul.apply(x, x))
    (g,) = grad(y, x, create_graph=True)  # (3 x^2)^2
    assert values(g) == [27**2] and seen == [True]
    x._hooks.clear()
    assert values(grad(g, x)[0]) == [36 * 27]
    x.register_hook(square)
    Mul.apply(x, x).backward()
    assert seen == [True, False] and not x.grad.requires_grad


def test_an_error_in_a_hook_changes_no_leaf() -> None:
    x, y = leaf(2), leaf(3)
    z = Mul.apply(x, y)

    def fail(g: Tensor) -> None:
        raise ZeroDivisionError

    y.register_hook(fail)
    with pytest.raises(ZeroDivisionError):
        z.backward()
    assert x.grad is None and y.grad is None and is_grad_enabled()


@pytest.mark.parametrize("deep", [False, True])
def test_messages(deep: bool) -> None:
    x = leaf(2, 3)
    for wrong, error, text in (
        (np.ones(2), TypeError, "hook returned ndarray, expected a Tensor"),
        (wrap(np.ones(3)), RuntimeError, r"hook returned float64 of shape \(3,\), the gradient is float64 of shape"),
        (wrap(np.ones(2, np.float32)), RuntimeError, "hook returned float32"),
    ):
        y = Exp.apply(x) if deep else x
        with y.register_hook(lambda g, wrong=wrong: wrong), pytest.raises(error, match=text):
            Exp.apply(y).backward(wrap(np.ones(2)))
    with pytest.raises(RuntimeError, match="register_hook: the tensor does not require a gradient"):
        Tensor([1.0]).register_hook(print)
    with pytest.raises(TypeError, match="register_hook: hook is int, expected a function"):
        x.register_hook(1)
    for tensor in (Tensor([1.0]), Exp.apply(x)):
        with pytest.raises(RuntimeError, match="only a leaf that requires a gradient"):
            tensor.register_post_accumulate_grad_hook(print)


def test_copies_have_no_hooks() -> None:
    x, seen = leaf(2), []
    x.register_hook(lambda g: seen.append(1))
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        Exp.apply(other).backward()
    assert seen == []


def test_a_hook_keeps_no_graph_alive() -> None:
    y = Exp.apply(leaf(2))
    y.register_hook(lambda g: None)
    node = weakref.ref(y.grad_fn)
    gc.disable()
    try:
        del y
        assert node() is None
    finally:
        gc.enable()
