"""Generated recurrent layers: all properties of each, on both kernel sets.

Modes, directions, projection, lengths, clipping, peepholes, coupled gates, biases, states, cell states, checkpoints,
normalization, zoneout and recurrent dropout in training and evaluation, the reset gate before or after: all allowed
combinations occur. For every layer, the tests compare the outputs, fused if supported and composed, with the oracle;
the requested fused gradients, for the outputs that have an upstream gradient, with the composed ones; and the slope
along a random direction with the oracle. They also check the contract of ``grad_req``. 60 layers per kernel set run in
"make test" and 2,500 in "make nightly".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.recurrent.recurrents import BACK, BOTH, FORWARD, Case, case, described, upstream
from retrograd.autograd import grad
from retrograd.engine.tensor import Tensor
from retrograd.ops.recurrent.composed import composed
from retrograd.specs.recurrence import GATES
from strategies import examples, many_examples

SIZES = (1, 2, 3, 5, 9)


@st.composite
def layers(draw: Any) -> tuple[Case, Any, int]:
    """Return a layer with its arguments, its checkpoint interval, and the seed that selects the requests."""
    mode, hidden = draw(st.sampled_from(sorted(GATES))), draw(st.sampled_from(SIZES))
    options: dict[str, Any] = {"reverse": draw(st.sampled_from((FORWARD, BACK, BOTH))), "bias": draw(st.booleans())}
    if mode == "lstm":
        options["projection"] = draw(st.one_of(st.just(0), st.integers(1, hidden)))
        options["clip"] = draw(st.sampled_from((None, (-0.3, 0.3), (-0.1, 0.5), (0.0, 0.0))))
        options["clip_nan"] = options["clip"] is not None and draw(st.booleans())
        options["peephole"], options["coupled"] = draw(st.booleans()), draw(st.booleans())
    if draw(st.booleans()):  # computed by operators
        if not options.get("peephole"):
            options["norm"] = draw(st.sampled_from((0.0, 1e-2)))
        of_cell = draw(st.sampled_from((0.0, 0.4))) if mode == "lstm" else 0.0
        options["zoneout"] = (of_cell, draw(st.sampled_from((0.0, 0.3))))
        options["recurrent_dropout"] = draw(st.sampled_from((0.0, 0.5)))
        options["reset_after"] = mode != "gru" or draw(st.booleans())
    steps, batch = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    lengths = draw(st.none() | st.lists(st.integers(1, steps), min_size=batch, max_size=batch))
    seed = draw(st.integers(0, 10_000))
    what = described(mode, draw(st.sampled_from(SIZES)), hidden, **options)
    one = case(what, steps, batch, lengths, draw(st.booleans()), draw(st.booleans()), seed, draw(st.booleans()))
    return one, draw(st.sampled_from((None, None, 1, 2, "auto"))), seed


def check(one: Case, checkpoint: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves = one.leaves()
    fused, slow = one.run(leaves, checkpoint=checkpoint), one.run(leaves, composed)
    for y, same, expected in zip(fused, slow, one.expected(), strict=True):
        np.testing.assert_allclose(y.array, expected, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(same.array, expected, rtol=1e-11, atol=1e-12)
    gs = upstream(fused, seed)
    heard = [bool(h) for h in rng.integers(0, 2, len(gs))]
    heard[rng.integers(len(gs))] = True
    chosen = [i for i, h in enumerate(heard) if h]
    given_gs = [Tensor(gs[i]) for i in chosen]
    of_fused = grad([fused[i] for i in chosen], leaves, given_gs, retain_graph=True, allow_unused=True)
    of_slow = grad([slow[i] for i in chosen], leaves, given_gs, allow_unused=True)
    slope = 0.0
    directions = [rng.standard_normal(leaf.shape) for leaf in leaves]
    for found, expected, direction in zip(of_fused, of_slow, directions, strict=True):
        if expected is None:
            assert found is None or not found.array.any()
            continue
        np.testing.assert_allclose(found.array, expected.array, rtol=1e-9, atol=1e-11)
        slope += float((found.array * direction).sum())
    wanted = one.slope(directions, [g if h else None for g, h in zip(gs, heard, strict=True)])
    np.testing.assert_allclose(slope, wanted, rtol=1e-9, atol=1e-10)
    check_requests(one, checkpoint, rng, chosen, given_gs, of_fused)


def check_requests(
    one: Case, checkpoint: Any, rng: np.random.Generator, chosen: list[int], gs: list[Tensor], written: Any
) -> None:
    """ "add" adds to the old gradient, "null" leaves it unchanged, and no other gradient changes."""
    leaves = one.leaves()
    wishes = [str(wish) for wish in rng.choice(("add", "write", "null"), len(leaves))]
    previous = [rng.standard_normal(leaf.shape) for leaf in leaves]
    for leaf, wish, before in zip(leaves, wishes, previous, strict=True):
        leaf.grad_req, leaf.grad = wish, Tensor(before.copy())
    outputs = one.run(leaves, checkpoint=checkpoint)
    if not outputs[0].requires_grad:
        return
    sum((outputs[i] * g).sum() for i, g in zip(chosen, gs, strict=True)).backward()
    for leaf, wish, before, new in zip(leaves, wishes, previous, written, strict=True):
        assert leaf.grad is not None
        if wish == "null" or new is None:
            if wish == "null":
                np.testing.assert_array_equal(leaf.grad.array, before)
            continue
        expected = new.array + before if wish == "add" else new.array
        np.testing.assert_allclose(leaf.grad.array, expected, rtol=1e-10, atol=1e-12)


@given(layers())
@examples(60)
def test_layers(drawn: tuple[Case, Any, int]) -> None:
    check(*drawn)


@pytest.mark.nightly
@given(layers())
@many_examples(2500)
def test_more_layers(drawn: tuple[Case, Any, int]) -> None:
    check(*drawn)
