"""Recurrent defects of other libraries: each test fails in a library that has the defect.

The libraries are MXNet, SINGA and numpy-ml. Each test runs on both kernel sets. The docstrings describe the defect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import naive_recurrent
from ops.battery import numbers
from ops.recurrent.recurrents import BACK, BOTH, FORWARD, Case, case, described, upstream
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor
from retrograd.ops.random.dropout import dropout
from retrograd.ops.random.random import manual_seed
from retrograd.ops.recurrent.recurrent import recurrent_layer
from retrograd.specs.recurrence import GATES, Weights

MODES = pytest.mark.parametrize("mode", GATES)


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual.array, expected, rtol=1e-10, atol=1e-12)


def stacked(mode: str, layers: int, reverse: tuple[bool, ...], **how: Any) -> list[Case]:
    """Stack layers with separate weights; the first one reads the input."""
    width = 4 * len(reverse)
    return [
        case(described(mode, 3 if layer == 0 else width, 4, reverse=reverse), states=False, seed=20 * layer, **how)
        for layer in range(layers)
    ]


def run(cases: Sequence[Case], x: Tensor, weights: Sequence[Sequence[Weights]], p: float = 0.0) -> Tensor:
    for one, own in zip(cases, weights, strict=True):
        x = recurrent_layer(dropout(x, p) if p and one is not cases[0] else x, None, None, own, one.what)[0]
    return x


def leaves_of(cases: Sequence[Case]) -> tuple[list[list[Weights]], list[Tensor]]:
    """Return the weights of all layers as leaves, and all of them in one vector."""
    weights = [
        [Weights(*[p if p is None else Tensor(p, requires_grad=True) for p in w]) for w in one.weights] for one in cases
    ]
    return weights, [piece for own in weights for w in own for piece in w if piece is not None]


# ---------------------------------------------------------------- MXNet


@MODES
def test_mxnet_add_adds_once_and_not_at_every_step(mode: str) -> None:
    """MXNet used beta = 2 for "add" in the product of every step: after four steps, the old gradient counted 16 times
    (rnn_impl.h:468, 530; GRU 1333; RNN 2245).
    """
    one = case(described(mode), steps=4)
    leaves = one.leaves()
    y, *_ = one.run(leaves)
    written = [g.array for g in grad(y, leaves, Tensor(numbers(*y.shape)), retain_graph=True, allow_unused=True)]
    for start in (0.0, 3.0):
        added = one.leaves()
        for leaf in added:
            leaf.grad_req, leaf.grad = "add", Tensor(np.full(leaf.shape, start))
        one.run(added)[0].backward(Tensor(numbers(*y.shape)))
        for leaf, wanted in zip(added, written, strict=True):
            assert leaf.grad is not None
            close(leaf.grad, start + wanted)


@MODES
def test_mxnet_frozen_weights_do_not_cut_the_gradient_through_time(mode: str) -> None:
    """MXNet computed W_hhT gah only if the parameters required a gradient: with frozen weights, x and h0 got only the
    gradient of the last step (rnn_impl.h:1324, 2236).
    """
    for reverse in (FORWARD, BACK, BOTH):
        one = case(described(mode, reverse=reverse), steps=5)
        leaves = one.leaves()
        frozen = [Tensor(a, requires_grad=i < 1 + 1 + int(one.what.cells)) for i, a in enumerate(one.arrays)]
        states = 2 + int(one.what.cells)
        g = Tensor(numbers(*one.run(leaves)[0].shape))
        wanted = grad(one.run(leaves)[0], leaves[:states], g)
        for found, expected in zip(grad(one.run(frozen)[0], frozen[:states], g), wanted, strict=True):
            close(found, expected.array)
        gx = wanted[0].array
        assert np.abs(gx).min(axis=(1, 2)).min() > 0  # every step contributes
    for alone in range(len(leaves)):  # and no gradient depends on which others are requested
        some = [Tensor(a, requires_grad=i == alone) for i, a in enumerate(one.arrays)]
        (found,) = grad(one.run(some)[0], [some[alone]], g)
        close(found, grad(one.run(leaves)[0], [leaves[alone]], g)[0].array)


@pytest.mark.parametrize("p", [0.0, 0.5], ids=["plain", "dropout"])
@MODES
def test_mxnet_lower_layers_learn_when_the_data_wants_no_gradient(mode: str, p: float) -> None:
    """MXNet computed the gradient between two layers, and the backward of the dropout between them, only if the data
    required a gradient: otherwise, lower layers got uninitialized memory (rnn_impl.h:540, 703, 1390, 1624, 2301, 2521).
    """
    cases = stacked(mode, 3, BOTH)
    found = []
    for wanted in (True, False):
        weights, flat = leaves_of(cases)
        manual_seed(3)
        y = run(cases, Tensor(cases[0].x, requires_grad=wanted), weights, p)
        found.append(grad(y, flat, Tensor(numbers(*y.shape))))
    for with_x, without in zip(*found, strict=True):
        close(without, with_x.array)
        assert without.array.any()


@MODES
def test_mxnet_lengths_of_backward_are_those_of_forward(mode: str) -> None:
    """MXNet's backward read the lengths from an output's memory, which could have been overwritten since."""
    one = case(described(mode, reverse=BOTH))
    expected = case(described(mode, reverse=BOTH), lengths=(2, 4, 1))
    lengths = Tensor(np.array([2, 4, 1]))
    leaves = one.leaves()
    x, h0, c0, weights = one.regrouped(leaves)
    y, hn, *_ = recurrent_layer(x, h0, c0, weights, one.what, lengths)
    lengths.array[:] = 4
    hn.array.fill(7.0)
    same = expected.leaves()
    g = Tensor(numbers(*y.shape))
    for found, wanted in zip(grad(y, leaves, g), grad(expected.run(same)[0], same, g), strict=True):
        close(found, wanted.array)


def test_mxnet_a_sum_of_many_gradients_with_add() -> None:
    """MXNet lost some of more than four summands with "add" (#17989): here one layer is called six times."""
    one = case(described("gru", reverse=BOTH))
    leaves = one.leaves()
    y = one.run(leaves)[0]
    g = Tensor(numbers(*y.shape))
    wanted = grad(y, leaves, g, retain_graph=True)
    for leaf in leaves:
        leaf.grad_req, leaf.grad = "add", Tensor(np.ones(leaf.shape))
    total = sum((one.run(leaves)[0] * (g * float(factor))).sum() for factor in range(1, 7))
    assert isinstance(total, Tensor)
    total.backward()
    for leaf, each in zip(leaves, wanted, strict=True):
        assert leaf.grad is not None
        close(leaf.grad, 1 + 21 * each.array)


@pytest.mark.pairwise
@pytest.mark.parametrize("reverse", [FORWARD, BOTH], ids=["forward", "both"])
@MODES
def test_mxnet_every_layer_of_a_stack_has_its_gradients(mode: str, reverse: tuple[bool, ...]) -> None:
    """In MXNet, biases above the first layer got 0 (#17818), biases of an LSTM exploded (#17086), the upstream gradient
    was overwritten with more than two bidirectional layers, and W in the middle layers of a GRU was wrong (#18203).
    """
    cases = stacked(mode, 3, reverse)
    weights, flat = leaves_of(cases)
    y = run(cases, Tensor(cases[0].x), weights)
    g = numbers(*y.shape)
    gradients = grad(y, flat, Tensor(g))
    rng = np.random.default_rng(2)
    for place, found in enumerate(gradients):
        move = rng.standard_normal(found.shape)
        close(wrapped((found.array * move).sum()), slope_of_stack(cases, place, move, g))
        assert found.array.any()


def wrapped(value: Any) -> Tensor:
    return Tensor(np.asarray(value))


def slope_of_stack(cases: Sequence[Case], place: int, move: np.ndarray, g: np.ndarray) -> float:
    """Return the derivative of sum(g * y) along one array of the joint weight vector, by complex steps."""
    at, y = 0, cases[0].x
    for one in cases:
        moved = []
        for w in one.weights:
            pieces = []
            for piece in w:
                here = piece is not None and at == place
                pieces.append(piece + 1j * naive_recurrent.TINY * move if here else piece)
                at += piece is not None
            moved.append(Weights(*pieces))
        y = naive_recurrent.layer(y, None, None, moved, one.what)[0]
    return float((g * y.imag).sum() / naive_recurrent.TINY)


@MODES
def test_mxnet_gradients_where_nothing_is_trained(mode: str) -> None:
    """The gradient of the data in a network for inference: all weights frozen, no state given (#13264)."""
    one = case(described(mode, reverse=BOTH), states=False)
    leaves = one.leaves()
    x = Tensor(one.x, requires_grad=True)
    y = one.run([x, *one.leaves(wanted=False)[1:]])[0]
    g = Tensor(numbers(*y.shape))
    close(grad(y, [x], g)[0], grad(one.run(leaves)[0], leaves[:1], g)[0].array)


# ---------------------------------------------------------------- SINGA


@pytest.mark.parametrize("options", [{"reverse": BACK}, {"reverse": BOTH}, {"bias": False}, {"projection": 2}], ids=str)
def test_singa_no_option_is_accepted_and_ignored(options: dict[str, Any]) -> None:
    """In SINGA, num_layers, bidirectional, dropout, bias and batch_first had no effect."""
    plain, other = case(described("lstm")), case(described("lstm", **options))
    y, same = plain.run(plain.leaves())[0].array, other.run(other.leaves())[0].array
    assert y.shape != same.shape or np.abs(y - same).max() > 1e-2


@MODES
def test_singa_the_final_states_pass_their_gradients_on(mode: str) -> None:
    """SINGA treated dhy and dcy as 0."""
    one = case(described(mode, reverse=BOTH))
    leaves = one.leaves()
    for state in one.run(leaves)[1 : 2 + int(one.what.cells)]:
        gradients = grad(state, leaves, Tensor(numbers(*state.shape)), retain_graph=True)
        assert all(g.array.any() for g in gradients)


@MODES
def test_singa_the_last_output_is_that_of_the_last_step_that_counts(mode: str) -> None:
    """y[-1] of a padded sequence is padding."""
    lengths = (2, 4, 1)
    one = case(described(mode), lengths=lengths)
    y, hn, *_ = one.run(one.leaves())
    for n, length in enumerate(lengths):
        np.testing.assert_array_equal(hn.array[0, n], y.array[length - 1, n])


@MODES
def test_singa_backward_runs_twice(mode: str) -> None:
    one = case(described(mode))
    leaves = one.leaves()
    y = one.run(leaves)[0]
    g = Tensor(numbers(*y.shape))
    first = grad(y, leaves, g, retain_graph=True, allow_unused=True)
    for again, before in zip(grad(y, leaves, g, allow_unused=True), first, strict=True):
        np.testing.assert_array_equal(again.array, before.array)


# ---------------------------------------------------------------- numpy-ml


@pytest.mark.parametrize("reverse", [FORWARD, BOTH], ids=["forward", "both"])
@MODES
def test_numpy_ml_a_second_sequence_after_an_update(mode: str, reverse: tuple[bool, ...]) -> None:
    """In numpy-ml, the accumulated arrays of the first sequence were flushed into a list, the second sequence failed,
    and BidirectionalLSTM ran once. Here a layer keeps nothing of a sequence: for another length and batch, it gives the
    result of fresh weights.
    """
    what = described(mode, reverse=reverse)
    one, other = case(what, states=False), case(what, steps=6, batch=2, states=False, seed=9)
    weights, flat = leaves_of([one])
    y = run([one], Tensor(one.x), weights)
    y.backward(Tensor(numbers(*y.shape)))
    for leaf in flat:
        assert leaf.grad is not None
        leaf.array -= 0.1 * leaf.grad.array
        leaf.grad = None
    other.weights = [Weights(*[p if p is None else p.array.copy() for p in w]) for w in weights[0]]
    outputs = run([other], Tensor(other.x), weights)
    outputs.backward(Tensor(upstream([outputs])[0]))
    close(outputs, other.expected()[0])
    fresh = other.leaves()
    wanted = grad(other.run(fresh)[0], fresh[1:], Tensor(upstream([outputs])[0]))
    for leaf, expected in zip(flat, wanted, strict=True):
        assert leaf.grad is not None
        close(leaf.grad, expected.array)


@MODES
def test_numpy_ml_float32_stays_float32(mode: str) -> None:
    one = case(described(mode, reverse=BOTH), lengths=(1, 2, 3))
    leaves = one.leaves(np.float32)
    outputs = one.run(leaves)
    assert all(y.dtype == np.float32 for y in outputs)
    gradients = grad(outputs, leaves, [Tensor(g.astype(np.float32)) for g in upstream(outputs)], create_graph=True)
    assert all(g.dtype == np.float32 for g in gradients)
