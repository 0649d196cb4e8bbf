"""A recurrent layer compared with loops over its units, to second order, on both kernel sets; see recurrents.py."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ops.battery import kernels_of_backward, numbers, recorded_kernels
from ops.recurrent.recurrents import (
    BACK,
    BOTH,
    FORWARD,
    FUSED,
    Case,
    case,
    check_slopes,
    check_values,
    described,
    of,
    upstream,
)
from retrograd.autograd import grad
from retrograd.engine.grad_mode import no_grad
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import use_kernels
from retrograd.ops.recurrent.composed import composed
from retrograd.ops.recurrent.recurrent import recurrent_layer
from retrograd.specs.recurrence import GATES, Weights


@pytest.mark.pairwise
@pytest.mark.parametrize("lengths", [None, (2, 4, 1)], ids=["whole", "lengths"])
@pytest.mark.parametrize("reverse", [FORWARD, BACK, BOTH], ids=["forward", "back", "both"])
@pytest.mark.parametrize("mode", GATES)
def test_values_and_gradients(mode: str, reverse: Any, lengths: Any) -> None:
    one = case(described(mode, reverse=reverse), lengths=lengths)
    check_values(one)
    check_slopes(one, alone=True)


@pytest.mark.parametrize("options", FUSED.values(), ids=FUSED)
def test_values_and_gradients_of_options(options: dict[str, Any]) -> None:
    one = of(options, BOTH, lengths=(2, 4, 1))
    check_values(one)
    check_slopes(one)
    for found, expected in zip(one.run(one.leaves(np.float32)), one.expected(), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found.array, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", FUSED.values(), ids=FUSED)
def test_the_composed_layer_equals_the_kernel(options: dict[str, Any]) -> None:
    """Compared are the outputs and the gradient with create_graph=True."""
    one = of(options, BOTH, lengths=(3, 1, 4))
    check_values(one, layer=composed)
    leaves = one.leaves()
    outputs = one.run(leaves)
    gs = [Tensor(g) for g in upstream(outputs)]
    fused = grad(outputs, leaves, gs, retain_graph=True)
    again = grad(outputs, leaves, gs, create_graph=True)
    for found, expected in zip(again, fused, strict=True):
        assert found.requires_grad and not expected.requires_grad
        np.testing.assert_allclose(found.array, expected.array, rtol=1e-10, atol=1e-12)


def test_states_are_zeros_where_none_are_given() -> None:
    for mode in GATES:
        without = case(described(mode, reverse=BOTH), states=False)
        check_values(without)
        check_slopes(without)


# ---------------------------------------------------------------- what is asked for


@pytest.mark.parametrize("mode", GATES)
def test_one_kernel_per_backward_and_nothing_saved_without_one(mode: str) -> None:
    one = case(described(mode))
    arrays = tuple(one.arrays)
    everything = {*range(len(arrays))}
    for wanted in ({0}, {1}, {len(arrays) - 1}, everything):
        ran = kernels_of_backward(lambda *leaves: one.run(leaves)[0], arrays, wanted)
        assert [name for name in ran if name.startswith("recurrent")] == ["recurrent_grad"]
    with recorded_kernels() as ran:
        with no_grad():
            one.run(one.leaves())
        one.run(one.leaves(wanted=False))
    assert set(ran) == {"recurrent"}


@pytest.mark.parametrize("mode", GATES)
def test_requests(mode: str) -> None:
    """ "add" adds to the old gradient, "null" leaves it unchanged, and no other gradient changes."""
    one = case(described(mode, reverse=BOTH), lengths=(4, 2, 3))
    leaves = one.leaves()
    outputs = one.run(leaves)
    gs = [Tensor(g) for g in upstream(outputs)]
    written = grad(outputs, leaves, gs)
    rng = np.random.default_rng(4)
    mixed = rng.choice(("add", "write", "null"), (6, len(leaves)))
    for wishes in [["add"] * len(leaves), ["null"] * len(leaves), *mixed]:
        previous = [rng.standard_normal(leaf.shape) for leaf in leaves]
        again = one.leaves()
        for leaf, wish, before in zip(again, wishes, previous, strict=True):
            leaf.grad_req, leaf.grad = str(wish), Tensor(before.copy())
        outputs = one.run(again)
        if outputs[0].requires_grad:
            sum((y * g).sum() for y, g in zip(outputs, gs, strict=True)).backward()
        for leaf, wish, before, new in zip(again, wishes, previous, written, strict=True):
            expected = {"add": before + new.array, "write": new.array, "null": before}[str(wish)]
            np.testing.assert_allclose(leaf.grad.array, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("mode", GATES)
def test_several_forward_passes_and_two_backward_passes(mode: str) -> None:
    one, other = case(described(mode), seed=1), case(described(mode), steps=6, batch=2, seed=2)
    first, second = one.leaves(), other.leaves()
    y1, y2 = one.run(first)[0], other.run(second)[0]
    g1, g2 = Tensor(numbers(*y1.shape)), Tensor(numbers(*y2.shape))
    kept = [g.array for g in grad(y1, first, g1, retain_graph=True)]
    grad(y2, second, g2)
    for again, before in zip(grad(y1, first, g1), kept, strict=True):
        np.testing.assert_array_equal(again.array, before)
    with pytest.raises(RuntimeError, match="freed"):
        grad(y1, first, g1)


def test_backward_on_another_kernel_set_is_refused(kernel_set: str) -> None:
    """Each kernel set saves the forward pass in its own format."""
    one = case(described("lstm"))
    leaves = one.leaves()
    y = one.run(leaves)[0]
    with (
        use_kernels({"textbook": "compiled", "compiled": "textbook"}[kernel_set]),
        pytest.raises(TypeError, match="recurrent_grad: the forward pass ran on another kernel set"),
    ):
        grad(y, leaves, Tensor(y.array), allow_unused=True)


# ---------------------------------------------------------------- awkward inputs


@pytest.mark.parametrize("mode", GATES)
def test_what_is_beyond_a_sequence_does_not_matter(mode: str) -> None:
    """Even NaN has no effect there: outputs and gx are 0, and upstream gradients are not read."""
    lengths = (2, 4, 1)
    one = case(described(mode, reverse=BOTH), lengths=lengths)
    beyond = np.arange(4)[:, None] >= np.array(lengths)
    leaves = one.leaves()
    expected = one.run(leaves)
    gs = upstream(expected)
    wanted = grad(expected, leaves, [Tensor(g) for g in gs], retain_graph=True)
    for bad in (np.nan, np.inf):
        one.x[beyond] = bad
        for index in [0, 3][: 1 + int(one.cells)]:
            gs[index][beyond] = bad
        spoiled = one.leaves()
        outputs = one.run(spoiled)
        for y, same in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(y.array, same.array)
        for y in outputs[:: 3 if one.cells else 2]:
            assert not y.array[beyond].any()
        for create in (False, True):
            found = grad(outputs, spoiled, [Tensor(g) for g in gs], create_graph=create, retain_graph=True)
            assert not found[0].array[beyond].any()
            for g, same in zip(found, wanted, strict=True):
                np.testing.assert_allclose(g.array, same.array, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("mode", GATES)
def test_any_memory_order_and_inputs_unchanged(mode: str) -> None:
    one = case(described(mode, reverse=BOTH))
    expected = one.expected()
    turned = [np.moveaxis(np.repeat(np.moveaxis(a, 0, -1), 2, 0)[::2], -1, 0) for a in one.arrays]
    before = [a.copy() for a in turned]
    leaves = [Tensor(a, requires_grad=True) for a in turned]
    outputs = one.run(leaves)
    gs = [np.asfortranarray(g) for g in upstream(outputs)]
    copies = [g.copy() for g in gs]
    strided = grad(outputs, leaves, [Tensor(g) for g in gs])
    plain_leaves = one.leaves()
    plain = grad(one.run(plain_leaves), plain_leaves, [Tensor(g) for g in copies])
    for y, same in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(y.array, same, rtol=1e-12, atol=1e-13)
    for g, same_g in zip(strided, plain, strict=True):
        np.testing.assert_allclose(g.array, same_g.array, rtol=1e-12, atol=1e-13)
    for a, b in zip([*turned, *gs], [*before, *copies], strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_empty_batch() -> None:
    for mode in GATES:
        one = case(described(mode, reverse=BOTH), batch=0)
        leaves = one.leaves()
        outputs = one.run(leaves)
        assert outputs[0].shape == (4, 0, 8) and outputs[1].shape == (2, 0, 4)
        for leaf, g in zip(leaves, grad(outputs, leaves, [Tensor(y.array) for y in outputs]), strict=True):
            assert g.shape == leaf.shape and not g.array.any()


def test_nan_in_a_cell_is_clipped_to_the_upper_end() -> None:
    """A forget gate of 0 times an infinite state is NaN."""
    for clip_nan in (False, True):
        what = described("lstm", input=1, hidden=2, clip=(-3.0, 2.0), clip_nan=clip_nan)
        one = case(what, steps=2, batch=1)
        one.weights[0].b_ih[2:4] = -1e4
        assert one.c0 is not None
        one.c0[...] = [[[np.inf, 0.5]]]
        leaves = one.leaves()
        y, _, cn, cells = one.run(leaves)
        if not clip_nan:
            assert np.isnan(cn.array[0, 0, 0]) and np.isnan(y.array).any()
            continue
        assert cells.array[0, 0, 0] == 2.0 and np.isfinite(y.array).all()
        for create in (False, True):
            gs = [Tensor(y.array), Tensor(cn.array)]
            (gc0,) = grad([y, cn], [leaves[2]], gs, create_graph=create, retain_graph=True)
            assert (gc0.array == 0.0).all()


def test_nan_stays_where_it_is_not_clipped() -> None:
    for options in ({}, {"clip": (-1.0, 1.0)}):
        one = of(options, steps=2, batch=2)
        one.x[0, 0] = np.nan
        y, hn, *_ = one.run(one.leaves())
        assert np.isnan(y.array[:, 0]).all() and np.isfinite(y.array[:, 1]).all() and np.isnan(hn.array[:, 0]).all()


def test_saturated_gates_are_finite() -> None:
    for mode in GATES:
        one = case(described(mode, reverse=BOTH), steps=3)
        one.x[...] *= 1e4 if mode != "rnn_relu" else 1.0
        leaves = one.leaves(np.float32)
        y = one.run(leaves)[0]
        assert np.isfinite(y.array).all()
        assert all(np.isfinite(g.array).all() for g in grad(y, leaves, Tensor(numbers(*y.shape).astype(np.float32))))


# ---------------------------------------------------------------- by hand


def test_one_unit_by_hand() -> None:
    """With weights of 0, the biases determine every gate."""
    what = described("lstm", input=1, hidden=1)
    w = Weights(*[Tensor(np.zeros(shape)) for shape in ((4, 1), (4, 1), (4,), (4,))])
    w.b_ih.array[:] = [0, np.log(3), 50, 0]  # i = 1/2, f = 3/4, g = 1, o = 1/2
    c0 = Tensor(np.full((1, 1, 1), 2.0))
    y, hn, cn, cells = recurrent_layer(Tensor(np.zeros((2, 1, 1))), None, c0, [w], what, cells=True)
    assert cn is not None and cells is not None
    np.testing.assert_allclose(cells.array.ravel(), [2.0, 2.0], rtol=1e-15)
    np.testing.assert_allclose(y.array.ravel(), [np.tanh(2.0) / 2] * 2, rtol=1e-15)
    assert hn.array.item() == y.array[1, 0, 0] and cn.array.item() == cells.array[1].item()


# ---------------------------------------------------------------- refusals

ONE = case(described("lstm", reverse=BOTH))
GRU = case(described("gru"))
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "length 0": (lambda: again(lengths=[1, 0, 4]), ValueError, "named: lengths[1]=0; a length must be 1 to 4"),
    "length 5": (lambda: again(lengths=Tensor(np.array([5, 1, 4]))), ValueError, "named: lengths[0]=5; a length"),
    "two lengths": (lambda: again(lengths=[1, 2]), ValueError, "named: lengths.shape=(2,), needs (3,)"),
    "lengths of floats": (lambda: again(lengths=[1.0, 2.0, 3.0]), TypeError, "named: lengths is float64"),
    "h0": (lambda: again(h0=ONE.h0[:1]), ValueError, "named: h0.shape=(1, 3, 4), needs (2, 3, 4)"),
    "c0": (lambda: again(c0=ONE.h0[:, :2]), ValueError, "named: c0.shape=(2, 2, 4), needs (2, 3, 4)"),
    "type of h0": (lambda: again(h0=ONE.h0.astype(np.float32)), TypeError, "named: input is float64, h0 is float32"),
    "features": (lambda: again(x=ONE.x[..., :2]), ValueError, "named: input.shape=(4, 3, 2), needs (T, N, 3)"),
    "axes": (lambda: again(x=ONE.x[0]), ValueError, "named: input.shape=(3, 3), needs (T, N, 3)"),
    "no steps": (lambda: again(x=ONE.x[:0]), ValueError, "named: input.shape=(0, 3, 3) has no steps"),
    "ints": (lambda: again(x=ONE.x.astype(np.int64)), TypeError, "named: input"),
    "c0 of a gru": (lambda: again(GRU, c0=GRU.h0), ValueError, "named: c0 is given, but mode 'gru' has no"),
    "one direction": (lambda: again(weights=ONE.weights[:1]), ValueError, "named: weights of 1 directions, but"),
    "no bias": (lambda: changed(b_hh=None), ValueError, "named: b_hh is missing; the layer is Recurrence("),
    "peephole": (lambda: changed(peephole=ONE.x), ValueError, "named: peephole is given, but the layer has none"),
    "w_hh": (lambda: changed(w_hh=ONE.x), ValueError, "named: w_hh.shape=(4, 3, 3), needs (16, 4)"),
    "every 0": (lambda: again(checkpoint=0), ValueError, "named: checkpoint=0 must be an int of"),
    "every True": (lambda: again(checkpoint=True), ValueError, "named: checkpoint=True must be an int"),
    "every sqrt": (lambda: again(checkpoint="sqrt"), ValueError, "named: checkpoint='sqrt' must be an int"),
}


def again(one: Case = ONE, checkpoint: Any = None, **changes: Any) -> None:
    given = {"x": one.x, "h0": one.h0, "c0": one.c0, "weights": one.weights, "lengths": one.lengths, **changes}
    x, h0, c0 = (None if given[k] is None else Tensor(given[k]) for k in ("x", "h0", "c0"))
    assert x is not None
    weights = [Weights(*[None if piece is None else Tensor(piece) for piece in w]) for w in given["weights"]]
    recurrent_layer(x, h0, c0, weights, one.what, given["lengths"], checkpoint=checkpoint, name="named")


def changed(**pieces: Any) -> None:
    again(weights=[ONE.weights[0], ONE.weights[1]._replace(**pieces)])


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_lengths_of_any_integer_type_are_copied() -> None:
    one = case(described("lstm", reverse=BOTH), lengths=(2, 4, 3))
    expected = one.expected()
    for dtype in (np.int8, np.uint64, np.int32):
        lengths = np.array((2, 4, 3), dtype)
        one.lengths = lengths
        leaves = one.leaves()
        y = one.run(leaves)[0]
        np.testing.assert_allclose(y.array, expected[0], rtol=1e-12, atol=1e-13)
        before = grad(y, leaves, Tensor(numbers(*y.shape)), retain_graph=True)
        lengths[:] = 1  # backward uses its own copy
        for g, same in zip(grad(y, leaves, Tensor(numbers(*y.shape))), before, strict=True):
            np.testing.assert_array_equal(g.array, same.array)
