"""checkpoint gives the gradients of the plain function, keeps less, and repeats random numbers."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from ops.sets import textbook_at_night
from retrograd import Tensor, nn
from retrograd.autograd import Function, grad
from retrograd.engine.tensor import wrap
from retrograd.utils.checkpoint import checkpoint, checkpoint_sequential


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return Tensor(np.random.default_rng(seed).uniform(0.5, 1.5, shape), requires_grad=True)


def block(x: Tensor, w: Tensor, scale: float = 1.0, *, shift: Tensor | None = None) -> Tensor:
    """Saves inputs, results, arrays and intermediates."""
    y = (x * w).sigmoid().exp() * scale
    y = (y.relu() * x).matmul(w.T).softmax(1)
    return y if shift is None else y * shift


def gradients(y: Tensor, *inputs: Tensor) -> list[np.ndarray]:
    g = np.random.default_rng(9).standard_normal(y.shape)
    return [gradient.array for gradient in grad(y, inputs, wrap(g))]


def same(actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, e in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, e)


def test_the_same_bits() -> None:
    x, w, shift = leaf(3, 4), leaf(3, 4, seed=1), leaf(3, 3, seed=2)
    expected = block(x, w, 2.0, shift=shift)
    actual = checkpoint(block, x, w, 2.0, shift=shift)
    np.testing.assert_array_equal(actual.array, expected.array)
    same(gradients(actual, x, w, shift), gradients(expected, x, w, shift))


def test_parameters_and_closures() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x, found = rg.randn(5, 3), []
    for run in (lambda: model(x), lambda: checkpoint(model, x), lambda: checkpoint(lambda: model(x))):
        model.zero_grad()
        (run() * 3.0).sum().backward()
        found.append([p.grad.array.copy() for p in model.parameters()])
    same(found[1], found[0])
    same(found[2], found[0])


def test_nested_and_in_a_row() -> None:
    x, w = leaf(3, 3), leaf(3, 3, seed=1)

    def inner(x: Tensor) -> Tensor:
        return checkpoint(block, x, w, 1.5)

    def outer(x: Tensor, inner: Callable[[Tensor], Tensor]) -> Tensor:
        return (inner(inner(x) * 2.0) * x).tanh()

    expected = gradients(outer(x, lambda x: block(x, w, 1.5)), x, w)
    for run in (lambda: checkpoint(outer, x, inner), lambda: checkpoint(checkpoint, checkpoint, outer, x, inner)):
        same(gradients(run(), x, w), expected)


def test_second_order() -> None:
    x, w = leaf(3, 3), leaf(3, 3, seed=1)

    def second(run: Callable[..., Tensor]) -> list[np.ndarray]:
        (g,) = grad((run(x, w) * run(x * x, w)).sum(), x, create_graph=True)
        return gradients(g * g, x, w)

    same(second(lambda x, w: checkpoint(block, x, w)), second(block))


def test_random_numbers_repeat() -> None:
    x, dropout = leaf(50), nn.Dropout(0.5)

    def noisy(x: Tensor) -> Tensor:
        return dropout(x) * dropout(x) * 2.0

    y = checkpoint(noisy, x)
    after = rg.get_rng_state()
    (g,) = grad(y, x, wrap(np.ones(50)))
    np.testing.assert_allclose(g.array, 2 * y.array / x.array)
    assert rg.get_rng_state() == after
    y = checkpoint(noisy, x, preserve_rng_state=False)
    (g,) = grad(y, x, wrap(np.ones(50)))
    assert not np.allclose(g.array, 2 * y.array / x.array)


def test_what_is_saved_is_dropped() -> None:
    alive: list[Any] = []

    class Watched(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            y = x.array * 2
            alive.append(weakref.ref(y))
            ctx.save_for_backward(y)
            return wrap(x.array * 3)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (y,) = ctx.saved_tensors
            return wrap(g.array * y)

    x = leaf(3)
    gc.disable()
    try:
        y = checkpoint(lambda x: Watched.apply(Watched.apply(x)) * 1.0, x)
        assert [ref() is None for ref in alive] == [True, True]
        (g,) = grad(y, x, wrap(np.ones(3)))
        assert len(alive) == 4 and all(ref() is None for ref in alive)
    finally:
        gc.enable()
    np.testing.assert_allclose(g.array, 2 * x.array * 6 * x.array)


@textbook_at_night
def test_the_inputs_of_an_inner_part_are_dropped_by_the_outer() -> None:
    x, alive = leaf(3), []

    def outer(x: Tensor) -> Tensor:
        y = x * 2.0
        alive.append(weakref.ref(y.array))
        return checkpoint(lambda y: (y * y).exp(), y)

    y = checkpoint(outer, x)
    gc.collect()
    assert alive[0]() is None
    np.testing.assert_allclose(gradients(y, x)[0], gradients(outer(x), x)[0])


def test_a_second_backward() -> None:
    x, w = leaf(3, 3), leaf(3, 3, seed=1)
    y = checkpoint(block, x, w)
    first = [g.array for g in grad(y, (x, w), wrap(np.ones((3, 3))), retain_graph=True)]
    same([g.array for g in grad(y, (x, w), wrap(np.ones((3, 3))))], first)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        grad(y, x, wrap(np.ones((3, 3))))


def test_changes_in_place_inside() -> None:
    x, w = leaf(3, 3), leaf(3, 3, seed=1)

    def f(x: Tensor) -> Tensor:
        y = x * 1.0
        y.mul_(w)
        y[0].exp_()
        return y * 2.0

    same(gradients(checkpoint(f, x), x, w), gradients(f(x), x, w))


@pytest.mark.parametrize("nested", [False, True])
def test_changes_in_place_around_what_is_saved(nested: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)).double()
    x, w = leaf(5, 3), leaf(5, 2, seed=1)

    def in_place(x: Tensor) -> Tensor:
        y = checkpoint(model, x) if nested else model(x)
        y.mul_(w).add_(1.0)
        z = y.exp() * w
        y.zero_()  # nothing needs it any more: exp has saved its result
        return z.mul_(2.0).sigmoid_()

    def plain(x: Tensor) -> Tensor:
        return (((model(x) * w + 1.0).exp() * w) * 2.0).sigmoid()

    inputs = x, w, *model.parameters()
    same(gradients(checkpoint(in_place, x), *inputs), gradients(plain(x), *inputs))


def test_changes_of_tensors_from_outside_are_refused() -> None:
    x, scale = leaf(3), Tensor(np.ones(3))

    def f(x: Tensor) -> Tensor:
        scale.mul_(2.0)  # so the second run computes with other numbers
        return x * scale

    y = checkpoint(f, x)
    with pytest.raises(RuntimeError, match=r"(?s)saved by Mul at .*changed by mul_ at .*scale.mul_\(2.0\)"):
        y.sum().backward()
    y = checkpoint(lambda x: x * scale, x)
    scale.add_(1.0)
    with pytest.raises(RuntimeError, match=r"(?s)saved by Mul at .*changed by add_ at .*scale.add_\(1.0\)"):
        y.sum().backward()


def test_changes_of_arguments_are_refused() -> None:
    x, w = leaf(3), leaf(3, seed=1)
    a = x * 1.0
    y = checkpoint(lambda a: (a * w).exp(), a)
    a.add_(1.0)
    with pytest.raises(RuntimeError, match=r"(?s)saved by Checkpoint at .*y = checkpoint\(.*changed by add_ at"):
        y.sum().backward()
    y = checkpoint(lambda x: (x * w).exp(), x)
    with rg.no_grad():
        w.mul_(2.0)
    with pytest.raises(RuntimeError, match=r"(?s)saved by Mul at .*changed by mul_ at"):
        y.sum().backward()


def test_a_function_that_does_not_repeat_itself() -> None:
    x, calls = leaf(3), []

    def fewer(x: Tensor) -> Tensor:
        calls.append(1)
        return (x * x).exp() if len(calls) == 1 else x * x

    with pytest.raises(RuntimeError, match=r"second run of .*fewer differs .*: 1 operators saved something, 2 did"):
        checkpoint(fewer, x).sum().backward()

    def other(x: Tensor) -> Tensor:
        calls.append(1)
        return (x if len(calls) == 2 else x.reshape(3, 1)).exp().sum()

    calls.clear()
    calls.append(1)
    with pytest.raises(RuntimeError, match="an item saved by Exp has another shape or dtype"):
        checkpoint(other, x).backward()


def test_nothing_is_recorded() -> None:
    x, calls = leaf(3), []
    with rg.no_grad():
        y = checkpoint(lambda x: calls.append(1) or x * 2.0, x)
    assert not y.requires_grad and len(calls) == 1
    assert not checkpoint(lambda x: x * 2.0, x.detach()).requires_grad


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_sequential(segments: int) -> None:
    model = nn.Sequential(*(nn.Linear(3, 3) if i % 2 else nn.Sigmoid() for i in range(5))).double()
    x = leaf(2, 3)
    same(
        gradients(checkpoint_sequential(model, segments, x), x, *model.parameters()),
        gradients(model(x), x, *model.parameters()),
    )


def test_messages() -> None:
    x = leaf(3)
    with pytest.raises(ValueError, match="use_reentrant=True is not supported"):
        checkpoint(block, x, x, use_reentrant=True)
    for wrong in (0, 3, True, 1.0):
        with pytest.raises(ValueError, match="segments=.* must be an int from 1 to 2 functions"):
            checkpoint_sequential([rg.exp, rg.exp], wrong, x)
