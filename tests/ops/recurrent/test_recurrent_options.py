"""Options that only the composed layer supports, recomputed segments, and cells."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import naive_recurrent
from ops.battery import numbers, recorded_kernels
from ops.recurrent.recurrents import BOTH, COMPOSED, FORWARD, case, check_slopes, check_values, described, of
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor, wrap
from retrograd.ops.random.random import manual_seed
from retrograd.ops.recurrent.composed import draw_masks
from retrograd.ops.recurrent.recurrent import gru_cell, lstm_cell, recurrent_layer, rnn_relu_cell, rnn_tanh_cell
from retrograd.specs.recurrence import Recurrence, Weights


@pytest.mark.pairwise
@pytest.mark.parametrize("masks", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("options", COMPOSED.values(), ids=COMPOSED)
def test_values_and_gradients(options: dict[str, Any], masks: bool) -> None:
    one = of(options, lengths=(2, 4, 1), masks=masks)
    if not masks:  # the mean of the dropout's mask is 1
        expected = of({**options, "recurrent_dropout": 0.0}, lengths=(2, 4, 1))
        for found, wanted in zip(one.run(one.leaves()), expected.expected(), strict=True):
            np.testing.assert_allclose(found.array, wanted, rtol=1e-12, atol=1e-13)
    else:
        check_values(one)
    check_slopes(one)


@pytest.mark.parametrize("options", COMPOSED.values(), ids=COMPOSED)
def test_every_option_changes_the_result(options: dict[str, Any]) -> None:
    """No option is accepted and then ignored."""
    if options.get("algorithm"):
        return
    one = of(options, masks=True)
    for name in set(options) - {"mode"}:
        other = of({**options, name: Recurrence.__dataclass_fields__[name].default}, masks=True).expected()[0]
        y = one.run(one.leaves())[0].array
        assert y.shape != other.shape or np.abs(y - other).max() > 1e-3, name


# ---------------------------------------------------------------- what is drawn


def test_masks_have_the_chances_that_are_asked_for() -> None:
    what = described("lstm", hidden=50, reverse=BOTH, zoneout=(0.2, 0.6), recurrent_dropout=0.25, projection=40)
    manual_seed(1)
    masks = draw_masks(Tensor(np.zeros((30, 20, 3), np.float32)), what)
    assert masks is not None and masks.recurrent is not None and masks.cell is not None and masks.hidden is not None
    assert masks.recurrent.shape == (2, 20, 40) and masks.recurrent.dtype == np.float32
    assert set(np.unique(masks.recurrent.array)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((masks.recurrent.array == 0).mean() - 0.25) < 0.05
    assert masks.cell.shape == (2, 30, 20, 50) and abs(masks.cell.array.mean() - 0.2) < 0.01
    assert masks.hidden.shape == (2, 30, 20, 40) and abs(masks.hidden.array.mean() - 0.6) < 0.01
    manual_seed(1)
    again = draw_masks(Tensor(np.zeros((30, 20, 3), np.float32)), what)
    assert again is not None and again.cell is not None and (again.cell.array == masks.cell.array).all()
    assert draw_masks(Tensor(np.zeros((3, 2, 3))), described("gru")) is None


def test_dropout_is_fused_when_nothing_is_dropped() -> None:
    one = of({"recurrent_dropout": 0.5}, masks=False)
    with recorded_kernels() as ran:
        one.run(one.leaves(wanted=False))
    assert ran == ["recurrent"]


# ---------------------------------------------------------------- cells

CELLS = {"rnn_tanh": rnn_tanh_cell, "rnn_relu": rnn_relu_cell, "gru": gru_cell, "lstm": lstm_cell}


@pytest.mark.parametrize("biases", [(), (0,), (1,), (0, 1)], ids=str)
@pytest.mark.parametrize("mode", CELLS)
def test_cells(mode: str, biases: tuple[int, ...]) -> None:
    one = case(described(mode), steps=1)
    w = one.weights[0]
    given = [b if i in biases else None for i, b in enumerate((w.b_ih, w.b_hh))]
    full = w._replace(b_ih=w.b_ih * (0 in biases), b_hh=w.b_hh * (1 in biases))
    one.weights = [full]
    assert one.h0 is not None
    h = Tensor(one.h0[0], requires_grad=True)
    c = Tensor(one.c0[0], requires_grad=True) if one.c0 is not None else None
    tensors = [None if p is None else Tensor(p, requires_grad=True) for p in (w.w_ih, w.w_hh, *given)]
    x = Tensor(one.x[0], requires_grad=True)
    found = CELLS[mode](x, h if c is None else (h, c), *tensors)
    outputs = found if isinstance(found, tuple) else (found,)
    _, *expected, _ = naive_recurrent.values(*one.plain())
    for y, wanted in zip(outputs, expected, strict=False):
        np.testing.assert_allclose(y.array, wanted[0], rtol=1e-12, atol=1e-13)
    inputs = [t for t in (x, h, c, *tensors) if t is not None]
    gs = [Tensor(numbers(*y.shape)) for y in outputs]
    leaves = one.leaves()
    same = grad(one.run(leaves)[1 : 1 + len(outputs)], leaves, [Tensor(g.array[None]) for g in gs])
    kept = [g.array for g, a in zip(same, one.arrays, strict=True)]
    gx, gh, *rest = (g.array for g in grad(outputs, inputs, gs))
    np.testing.assert_allclose(gx, kept[0][0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(gh, kept[1][0], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(rest[-1 - len(biases)], kept[-3], rtol=1e-11, atol=1e-13)  # w_hh
    assert len(inputs) == len(rest) + 2


X, H = Tensor(numbers(3, 2)), Tensor(numbers(3, 4))
W_IH, W_HH = Tensor(numbers(16, 2)), Tensor(numbers(16, 4))
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "one state": (lambda: lstm_cell(X, H, W_IH, W_HH), TypeError, "lstm_cell: hx must be a pair"),
    "c": (lambda: lstm_cell(X, (H, X), W_IH, W_HH), ValueError, "lstm_cell: hx[1].shape=(3, 2), needs (N, H) = (3, 4)"),
    "h": (lambda: gru_cell(X, X, W_IH[:12], W_HH[:12]), ValueError, "gru_cell: hx.shape=(3, 2), needs (N, H)"),
    "rows": (lambda: gru_cell(X, H, W_IH, W_HH), ValueError, "gru_cell: input.shape=(3, 2), w_ih.shape=(16, 2)"),
    "axes": (lambda: rnn_tanh_cell(X[0], H, W_IH[:4], W_HH[:4]), ValueError, "rnn_tanh_cell: input.shape=(2,)"),
    "w_ih": (lambda: rnn_relu_cell(X, H, W_IH[:3], W_HH[:4]), ValueError, "rnn_relu_cell: w_ih.shape=(3, 2), needs"),
    "numbers": (lambda: rnn_relu_cell(X.array, H, W_IH, W_HH), TypeError, "rnn_relu_cell: input"),  # type: ignore[arg-type]
    "type": (lambda: rnn_relu_cell(X.float(), H, W_IH[:4], W_HH[:4]), TypeError, "rnn_relu_cell: input is float32, h0"),
}


@pytest.mark.parametrize(("call", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_cells_refuse(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_masks_are_no_part_of_the_layer() -> None:
    """Two calls with one spec, one with masks and one without."""
    what = described("rnn_tanh", zoneout=(0.0, 0.5), reverse=FORWARD)
    one = case(what, masks=True)
    x, h0, _, weights = one.regrouped(one.leaves())
    drawn = recurrent_layer(x, h0, None, weights, what, masks=one.masks)[0]
    kept = wrap(np.ones((1, 4, 3, 4), bool))
    assert one.masks is not None
    still = recurrent_layer(x, h0, None, weights, what, masks=one.masks._replace(hidden=kept))[0]
    np.testing.assert_array_equal(still.array, np.broadcast_to(h0.array, still.shape))
    assert not np.allclose(drawn.array, recurrent_layer(x, h0, None, weights, what)[0].array)
    assert isinstance(weights[0], Weights)
