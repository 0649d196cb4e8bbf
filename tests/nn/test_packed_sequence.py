"""Packing, padding and unpacking sequences, and the pieces of truncated backpropagation."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.nn.utils.rnn import (
    PackedSequence,
    detached,
    invert_permutation,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    truncated,
    unpack_sequence,
    unpad_sequence,
)


def normal(*shape: int, seed: int = 0, **options: Any) -> Tensor:
    return Tensor(np.random.default_rng((seed, *shape)).standard_normal(shape), **options)


LENGTHS = [2, 4, 1, 4, 3]


def by_hand(x: np.ndarray, lengths: list[int]) -> tuple[np.ndarray, list[int], list[int]]:
    """x (T, N, *): rows, batch_sizes and the order of the sequences, step by step."""
    order = sorted(range(len(lengths)), key=lambda n: -lengths[n])
    rows, sizes = [], []
    for t in range(max(lengths)):
        there = [n for n in order if lengths[n] > t]
        rows += [x[t, n] for n in there]
        sizes.append(len(there))
    return np.array(rows), sizes, order


@pytest.mark.parametrize("features", [(), (3,), (2, 3)])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("kind", [list, np.array, lambda v: Tensor(np.array(v)), lambda v: np.array(v, np.int16)])
def test_pack_and_pad(features: tuple[int, ...], batch_first: bool, kind: Callable[..., Any]) -> None:
    x = normal(6, 5, *features)
    given = x.transpose(0, 1) if batch_first else x
    packed = pack_padded_sequence(given, kind(LENGTHS), batch_first, enforce_sorted=False)
    rows, sizes, order = by_hand(x.array, LENGTHS)
    np.testing.assert_array_equal(packed.data.array, rows)
    assert packed.batch_sizes.tolist() == sizes
    assert packed.sorted_indices.tolist() == order
    assert packed.lengths.tolist() == LENGTHS
    padded, lengths = pad_packed_sequence(packed, batch_first, padding_value=-2.5, total_length=7)
    assert lengths.tolist() == LENGTHS and lengths.dtype == np.int64
    expected = np.full((7, 5, *features), -2.5)
    for n, length in enumerate(LENGTHS):
        expected[:length, n] = x.array[:length, n]
    np.testing.assert_array_equal(padded.array.swapaxes(0, 1) if batch_first else padded.array, expected)
    assert pad_packed_sequence(packed, batch_first)[0].shape[1 if batch_first else 0] == 4


def test_sorted_lengths_keep_their_order() -> None:
    x = normal(4, 3, 2)
    packed = pack_padded_sequence(x, [4, 2, 2])
    assert packed.sorted_indices is None and packed.unsorted_indices is None
    np.testing.assert_array_equal(packed.data.array, by_hand(x.array, [4, 2, 2])[0])
    assert packed.lengths.tolist() == [4, 2, 2]


def test_equal_lengths_keep_their_order_when_sorted() -> None:
    packed = pack_padded_sequence(normal(3, 4), [2, 3, 2, 3], enforce_sorted=False)
    assert packed.sorted_indices.tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["right", "left"])
def test_lists_of_sequences(batch_first: bool, side: str) -> None:
    many = [normal(length, 3, seed=n) for n, length in enumerate(LENGTHS)]
    padded = pad_sequence(many, batch_first, 1.5, side)
    rows = padded.array if batch_first else padded.array.swapaxes(0, 1)
    for n, one in enumerate(many):
        own = slice(0, LENGTHS[n]) if side == "right" else slice(4 - LENGTHS[n], 4)
        np.testing.assert_array_equal(rows[n, own], one.array)
        assert (np.delete(rows[n], np.arange(4)[own], 0) == 1.5).all()
    if side == "right":
        for one, again in zip(many, unpad_sequence(padded, LENGTHS, batch_first), strict=True):
            np.testing.assert_array_equal(one.array, again.array)
    for one, again in zip(many, unpack_sequence(pack_sequence(many, enforce_sorted=False)), strict=True):
        np.testing.assert_array_equal(one.array, again.array)


def test_gradients() -> None:
    x, g = normal(4, 5, 2, requires_grad=True), normal(5, 4, 2, seed=1)
    through = lambda x: pad_packed_sequence(pack_padded_sequence(x, LENGTHS, enforce_sorted=False), True)[0]  # noqa: E731
    through(x).backward(g)
    mask = (np.arange(4)[:, None] < LENGTHS)[..., None]
    np.testing.assert_array_equal(x.grad.array, g.array.swapaxes(0, 1) * mask)
    many = [normal(length, 2, seed=n, requires_grad=True) for n, length in enumerate((1, 3))]
    for function, inputs in (
        (lambda x: through(x * x), [x]),
        (lambda *s: pack_sequence(s, enforce_sorted=False).data ** 2, many),
        (lambda *s: pad_sequence([a * a for a in s], padding_side="left"), many),
    ):
        gradcheck(function, inputs)
        gradgradcheck(function, inputs)


def test_a_packed_sequence_is_a_value() -> None:
    packed = pack_padded_sequence(normal(4, 5, 2), LENGTHS, enforce_sorted=False)
    for other in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed)), packed.cpu(), packed.to("cpu")):
        for mine, yours in zip(packed, other, strict=True):
            np.testing.assert_array_equal(mine.array, yours.array)
    assert packed.float().data.dtype == np.float32 and packed.float().double().data.dtype == np.float64
    assert packed.with_data(normal(14, 7)).data.shape == (14, 7)
    assert isinstance(packed, tuple) and len(packed) == 4 and not packed.is_cuda
    data, sizes, *_ = packed
    assert sizes is packed.batch_sizes and data is packed.data
    alone = PackedSequence(packed.data, packed.batch_sizes, packed.sorted_indices)
    assert alone.unsorted_indices.tolist() == packed.unsorted_indices.tolist()
    assert invert_permutation(None) is None
    assert invert_permutation(Tensor(np.array([2, 0, 1]))).tolist() == [1, 2, 0]


def sizes(*values: int) -> Tensor:
    return Tensor(np.array(values, np.int64))


X = normal(4, 3, 2)


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda: pack_padded_sequence(X, [4, 2]), ValueError, "pack_padded_sequence: 2 lengths for 3 sequences"),
        (lambda: pack_padded_sequence(X, [4, 2, 0]), ValueError, "lengths are 0 to 4, but must be 1 to 4"),
        (lambda: pack_padded_sequence(X, [5, 2, 1]), ValueError, "lengths are 1 to 5, but must be 1 to 4"),
        (lambda: pack_padded_sequence(X, [2, 4, 1]), ValueError, "lengths=[2, 4, 1] must be in descending order"),
        (lambda: pack_padded_sequence(X, [1.0, 1.0, 1.0]), TypeError, "lengths[0]=1.0 must be an int, not float"),
        (lambda: pack_padded_sequence(X[0, 0], [1]), ValueError, "input.shape=(2,), needs (T, N, *)"),
        (lambda: pack_padded_sequence(X[:, :0], []), ValueError, "0 lengths for 0 sequences"),
        (lambda: pack_padded_sequence(X.array, [1, 1, 1]), TypeError, "input is ndarray, needs a Tensor"),
        (lambda: pad_packed_sequence(X), TypeError, "expected a PackedSequence, got Tensor"),
        (
            lambda: pad_packed_sequence(pack_padded_sequence(X, [4, 2, 1]), total_length=3),
            ValueError,
            "total_length=3 must be at least 4",
        ),
        (lambda: pad_sequence([]), ValueError, "pad_sequence: sequences is empty"),
        (lambda: pad_sequence(X), TypeError, "sequences must be a list of Tensors, got Tensor"),
        (lambda: pad_sequence([X, 1]), TypeError, "sequences[1] must be a Tensor, got int"),
        (lambda: pad_sequence([X, X[:, :1]]), ValueError, "sequences[1] is float64 (4, 1, 2), sequences[0]"),
        (lambda: pad_sequence([X], padding_side="both"), ValueError, "padding_side='both' must be"),
        (lambda: pack_sequence([X[:1], X]), ValueError, "pack_sequence: lengths=[1, 4] must be in descending order"),
        (lambda: pack_sequence([X, X[:0]]), ValueError, "pack_sequence: lengths are 0 to 4"),
        (lambda: unpack_sequence([X]), TypeError, "unpack_sequence: expected a PackedSequence, got list"),
        (lambda: unpad_sequence(X, [1, 5, 2]), ValueError, "must be 3 numbers from 0 to 4"),
        (lambda: unpad_sequence(X, [1, 2], True), ValueError, "must be 4 numbers from 0 to 3"),
        (lambda: unpad_sequence(X[0, 0], [1]), ValueError, "padded_sequences.shape=(2,), needs (T, N, *)"),
        (lambda: PackedSequence(X, sizes(2, 3)), ValueError, "positive numbers that never increase"),
        (lambda: PackedSequence(X, sizes(3, 2)), ValueError, "batch_sizes adds up to 5 rows"),
        (lambda: PackedSequence(X, X), TypeError, "batch_sizes is float64, needs int64"),
        (lambda: PackedSequence(X.array, sizes(4)), TypeError, "data is ndarray, needs a Tensor"),
        (lambda: invert_permutation([1, 0]), TypeError, "permutation is list, needs an int64 Tensor"),
        (lambda: detached({"h": X}), TypeError, "detached: states hold dict"),
        (lambda: truncated(None, X, 2.0), TypeError, "steps=2.0 must be an int"),
        (lambda: truncated(None, X, 0), ValueError, "steps=0 must be at least 1"),
        (lambda: truncated(None, X.array, 1), TypeError, "x is ndarray, needs a Tensor"),
    ],
)
def test_refusals(function: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        function()


def test_detached() -> None:
    h = normal(2, 3, requires_grad=True) * 2
    one, (two, nothing) = detached((h, [h, None]))
    assert not one.requires_grad and not two.requires_grad and nothing is None
    np.testing.assert_array_equal(one.array, h.array)


class Sum(retrograd.nn.Module):
    """h[t] = w x[t] + h[t-1]: the gradient shows each step's contribution."""

    def __init__(self, **options: bool) -> None:
        super().__init__()
        self.w = retrograd.nn.Parameter(np.ones(()))
        self.__dict__.update(options)

    def forward(self, x: Tensor, h: Tensor | None) -> tuple[Tensor, Tensor]:
        time = 1 if getattr(self, "batch_first", False) and x.ndim > 2 else 0
        ys = []
        for one in x.unbind(time):
            h = self.w * one if h is None else self.w * one + h
            ys.append(h)
        return retrograd.stack(ys, time), h


@pytest.mark.parametrize(("shape", "first"), [((5, 2, 3), False), ((2, 5, 3), True), ((5, 3), False), ((5, 3), True)])
def test_truncated(shape: tuple[int, ...], first: bool) -> None:
    layer, x = Sum(batch_first=first), normal(*shape)
    time = 1 if first and len(shape) > 2 else 0
    whole = layer(x, None)[0].array
    ys = []
    for y, h in truncated(layer, x, 2):
        h.sum().backward()
        ys.append(y.array)
    np.testing.assert_allclose(np.concatenate(ys, time), whole, rtol=1e-12)
    assert [y.shape[time] for y in ys] == [2, 2, 1]
    np.testing.assert_allclose(layer.w.grad.array, x.array.sum())  # each step once


def test_truncated_begins_with_states_and_refuses_what_reads_from_the_end() -> None:
    x = normal(3, 2, 1)
    y, _ = next(truncated(Sum(), x, 3, hx=x[0]))
    np.testing.assert_allclose(y.array[0], 2 * x.array[0])
    for options in ({"bidirectional": True}, {"reverse": True}):
        with pytest.raises(ValueError, match="reads from the end"):
            truncated(Sum(**options), x, 2)
    with pytest.raises(ValueError, match="returns no states to continue from"):
        truncated(Sum(return_states=False), x, 2)


@pytest.mark.parametrize("enforce_sorted", [True, False])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_a_layer_on_a_packed_sequence(kind: str, enforce_sorted: bool) -> None:
    """Values, states and gradients are those of one padded batch with lengths."""
    rng = np.random.default_rng(3)
    lengths = np.array([1, 1, 20, 2, 9, 1, 19, 18, 20, 3, 2, 1, 1, 19, 17, 20, 2, 1, 8, 1, 2, 20, 1, 3])
    if enforce_sorted:
        lengths = np.sort(lengths)[::-1].copy()
    options: dict[str, Any] = {"proj_size": 2, "return_cells": True} if kind == "LSTM" else {}
    layer = getattr(retrograd.nn, kind)(3, [4, 3], 2, bidirectional=True, dtype=np.float64, **options)
    x = Tensor(np.where(np.arange(20)[:, None, None] < lengths[:, None], rng.standard_normal((20, 24, 3)), 0))
    x.requires_grad = True
    widths = [(2, 2), (4, 3)] if kind == "LSTM" else [(4, 3)]
    states = [tuple(Tensor(rng.standard_normal((2, 24, w)), requires_grad=True) for w in of) for of in widths]
    hx: Any = tuple(states) if kind == "LSTM" else states[0]
    leaves = [x, *(s for state in states for s in state), *layer.parameters()]

    def outputs(result: Any) -> list[Tensor]:
        y, last, *cells = result
        return [y, *cells, *(s for state in (last if kind == "LSTM" else [last]) for s in state)]

    y, last, *cells = layer(pack_padded_sequence(x, lengths, enforce_sorted=enforce_sorted), hx)
    found = outputs((pad_packed_sequence(y)[0], last, *[pad_packed_sequence(c)[0] for c in cells]))
    expected = outputs(layer(x, hx, lengths))
    gs = [Tensor(rng.standard_normal(one.shape)) for one in expected]
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.array, wanted.array, rtol=1e-12, atol=1e-14)
    pairs = zip(retrograd.autograd.grad(found, leaves, gs), retrograd.autograd.grad(expected, leaves, gs), strict=True)
    for one, wanted in pairs:
        np.testing.assert_allclose(one.array, wanted.array, rtol=1e-10, atol=1e-12)


def test_other_values_for_the_same_sequences() -> None:
    packed = pack_padded_sequence(normal(3, 2, 1), [3, 1])
    with pytest.raises(ValueError, match=re.escape("with_data got data.shape=(3, 1), needs 4 rows")):
        packed.with_data(normal(3, 1))


@pytest.mark.parametrize("value", [10**9, 2**62, -1, 0, 7])
@pytest.mark.parametrize("use", [pad_packed_sequence, unpack_sequence, retrograd.nn.LSTM(3, 2), lambda p: p.lengths])
def test_batch_sizes_are_checked_again(use: Callable[..., Any], value: int) -> None:
    packed = pack_padded_sequence(normal(6, 5, 3).float(), LENGTHS, enforce_sorted=False)
    packed.batch_sizes.numpy()[...] = value
    with pytest.raises(ValueError, match="PackedSequence: batch_sizes"):
        use(packed)


@pytest.mark.parametrize("value", [-1, 5])
def test_sorted_indices_are_checked_again(value: int) -> None:
    packed = pack_padded_sequence(normal(6, 5, 3), LENGTHS, enforce_sorted=False)
    assert packed.sorted_indices is not None
    packed.sorted_indices.numpy()[2] = value
    with pytest.raises(IndexError, match=rf"sorted_indices\[2\]={value} is out of range.* allows 0 to 4"):
        pad_packed_sequence(packed)


@pytest.mark.parametrize(
    "use", [lambda p: pad_packed_sequence(p)[0], lambda p: retrograd.nn.GRU(3, 2).double()(p)[0].data]
)
def test_packed_sequence_may_change_after_forward(use: Callable[..., Tensor]) -> None:
    found = []
    for change in (False, True):
        retrograd.manual_seed(0)
        x = normal(6, 5, 3, requires_grad=True)
        packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
        y = use(packed)
        for tensor in (packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices) if change else ():
            assert tensor is not None
            tensor.numpy()[...] = 10**9
        y.backward(normal(*y.shape, seed=1))
        assert x.grad is not None
        found.append(x.grad.array)
    np.testing.assert_array_equal(found[1], found[0])
