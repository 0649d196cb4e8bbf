"""Recurrent layers with segments recomputed in backward: the same values with less memory."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest

from ops.battery import numbers
from ops.recurrent.recurrents import (
    BOTH,
    COMPOSED,
    Case,
    case,
    check_second,
    check_slopes,
    check_values,
    described,
    of,
    upstream,
)
from ops.sets import textbook_at_night
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor
from retrograd.specs.recurrence import GATES


@pytest.mark.pairwise
@pytest.mark.parametrize("every", [1, 2, 5, 9, "auto"])
@pytest.mark.parametrize(
    "options",
    [{"mode": "lstm", "projection": 2, "clip": (-0.4, 0.3)}, {"mode": "gru"}, {"mode": "rnn_tanh"}],
    ids=["lstm", "gru", "tanh"],
)
def test_segments_change_no_bit_of_the_outputs(options: dict[str, Any], every: Any) -> None:
    for lengths in (None, (1, 5, 3)):
        one = of(options, steps=5, lengths=lengths)
        for plain, kept in zip(one.run(one.leaves()), one.run(one.leaves(), checkpoint=every), strict=True):
            np.testing.assert_array_equal(kept.array, plain.array)
        check_slopes(one, checkpoint=every)


@pytest.mark.parametrize(
    "one",
    [
        of({}, steps=5, lengths=(3, 5, 1)),
        # nothing is requested for the other direction, and the first segment begins without states
        case(described("lstm", reverse=BOTH, norm=1e-2), steps=3, states=False),
    ],
    ids=["fused", "operators"],
)
def test_segments_give_each_gradient_alone_and_null_for_the_others(one: Case) -> None:
    leaves = one.leaves()
    outputs = one.run(leaves)
    gs = [Tensor(g) for g in upstream(outputs)]
    expected = grad(outputs, leaves, gs)
    for place in range(len(leaves)):
        again = [Tensor(a, requires_grad=i == place) for i, a in enumerate(one.arrays)]
        (found,) = grad(one.run(again, checkpoint=2), [again[place]], gs)
        np.testing.assert_allclose(found.array, expected[place].array, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("options", [{"norm": 1e-2}, {"projection": 2}], ids=["norm_c", "w_hr"])
@pytest.mark.parametrize("checkpoint", [None, 1])
@pytest.mark.parametrize("create_graph", [False, True])
def test_an_output_that_does_not_depend_on_what_is_wanted(
    options: dict[str, Any], checkpoint: Any, create_graph: bool
) -> None:
    """In a single step, the cell state does not depend on the last weight, which is applied to the output only."""
    one = case(described("lstm", **options), steps=1, states=False)
    gs = [Tensor(g) for g in upstream(one.run(one.leaves()))]
    leaves = one.leaves()
    expected = grad(one.run(leaves), leaves, gs)[-1]
    alone = [Tensor(a, requires_grad=a is one.arrays[-1]) for a in one.arrays]
    outputs = one.run(alone, checkpoint=checkpoint)
    heard = [place for place, y in enumerate(outputs) if y.requires_grad]
    (found,) = grad([outputs[n] for n in heard], [alone[-1]], [gs[n] for n in heard], create_graph=create_graph)
    np.testing.assert_allclose(found.array, expected.array, rtol=1e-11, atol=1e-13)


def test_segments_without_initial_states() -> None:
    for mode in GATES:
        one = case(described(mode, reverse=BOTH), states=False)
        check_slopes(one, checkpoint=3)


@pytest.mark.parametrize("options", COMPOSED.values(), ids=COMPOSED)
def test_segments_of_operators(options: dict[str, Any], every: int = 2) -> None:
    """The recomputation uses the masks that were drawn in the forward pass, in both directions."""
    for masks in (True, False):
        one = of(options, BOTH, steps=5, lengths=(1, 5, 3), masks=masks)
        for plain, kept in zip(one.run(one.leaves()), one.run(one.leaves(), checkpoint=every), strict=True):
            np.testing.assert_allclose(kept.array, plain.array, rtol=1e-13, atol=1e-14)
    one = of(options, BOTH, steps=5, lengths=(1, 5, 3), masks=True)
    check_values(one, checkpoint=every)
    check_slopes(one, checkpoint=every)


@pytest.mark.parametrize(
    "options",
    [{"norm": 1e-2, "zoneout": (0.3, 0.4)}, {"mode": "gru", "reset_after": False, "recurrent_dropout": 0.4}],
    ids=["lstm", "gru"],
)
def test_second_derivatives_of_segments_of_operators(options: dict[str, Any]) -> None:
    one = of(options, BOTH, steps=3, batch=2, lengths=(3, 2), masks=True)
    check_second(one, checkpoint=2)
    leaves = one.leaves()
    gs = [Tensor(g) for g in upstream(one.expected())]
    plain = grad(one.run(leaves, checkpoint=2), leaves, gs)  # whose slopes are tested
    recorded = grad(one.run(leaves, checkpoint=2), leaves, gs, create_graph=True)
    for one_way, other in zip(plain, recorded, strict=True):
        np.testing.assert_allclose(other.array, one_way.array, rtol=1e-11, atol=1e-13)


def test_segments_of_operators_compute_what_is_asked_for() -> None:
    one = of({"norm": 1e-2}, steps=5, lengths=(3, 5, 1))
    leaves = one.leaves()
    outputs = one.run(leaves)
    gs = [Tensor(g) for g in upstream(outputs)]
    expected = grad(outputs, leaves, gs)
    for place in range(len(leaves)):
        again = [Tensor(a, requires_grad=i == place) for i, a in enumerate(one.arrays)]
        (found,) = grad(one.run(again, checkpoint=2), [again[place]], gs)
        np.testing.assert_allclose(found.array, expected[place].array, rtol=1e-11, atol=1e-13)
    without = case(described("lstm", norm=1e-2, reverse=BOTH), states=False)
    check_slopes(without, checkpoint=3)


MEASURED: dict[str, dict[str, Any]] = {
    "fused": {},
    "composed": {"algorithm": "composed"},
    "normalized": {"norm": 1e-5},
    "dropout": {"recurrent_dropout": 0.3},
    "reset before": {"mode": "gru", "reset_after": False},
    "zoneout": {"mode": "gru", "zoneout": (0.0, 0.3)},
}


@textbook_at_night
@pytest.mark.parametrize("options", MEASURED.values(), ids=MEASURED)
def test_segments_take_memory_like_the_square_root_of_the_steps(options: dict[str, Any]) -> None:
    """Apart from y and gx, which are as long as x, four times the steps take about twice the memory."""

    def peak(steps: int, checkpoint: Any) -> int:
        one = of({"input": 16, "hidden": 16, **options}, steps=steps, batch=32, states=False, cells=False, masks=True)
        leaves = one.leaves()
        gc.collect()
        tracemalloc.start()
        y, hn, *_ = one.run(leaves, checkpoint=checkpoint)
        grad(hn, leaves, Tensor(numbers(*hn.shape)))
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most - 2 * y.array.nbytes

    peak(25, "auto"), peak(100, "auto")  # compile kernels, make plans, and allocate scratch memory
    few, many = peak(25, "auto"), peak(100, "auto")
    assert 1.4 * few < many < 2.5 * few and many < peak(100, None) / 3
