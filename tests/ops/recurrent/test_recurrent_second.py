"""Second derivatives of recurrent layers: the composed layer computes them on both kernel sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ops.recurrent.recurrents import BACK, COMPOSED, FUSED, case, check_second, described, of
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor
from retrograd.kernel_set import use_kernels
from retrograd.ops.recurrent.recurrent import recurrent_layer
from retrograd.specs.recurrence import GATES, Weights


@pytest.fixture(autouse=True)
def kernel_set() -> Iterator[None]:
    with use_kernels("compiled"):
        yield


@pytest.mark.parametrize("options", COMPOSED.values(), ids=COMPOSED)
def test_second_derivatives(options: dict[str, Any]) -> None:
    check_second(of(options, BACK, steps=3, batch=2, lengths=(3, 2), masks=True))


@pytest.mark.nightly
@pytest.mark.parametrize("options", FUSED.values(), ids=FUSED)
def test_second_derivatives_of_fused_options(options: dict[str, Any]) -> None:
    check_second(of(options, BACK, steps=3, batch=2, lengths=(3, 2), masks=True))


@pytest.mark.parametrize("mode", GATES)
def test_of_segments(mode: str) -> None:
    check_second(of({"mode": mode}, BACK, lengths=(4, 2, 3)), checkpoint=2)


def test_of_every_number() -> None:
    one = case(described("lstm", reverse=BACK, input=1, hidden=2), steps=2, batch=1, cells=False)
    assert gradcheck(lambda *leaves: tuple(one.run(leaves)), one.leaves())
    assert gradgradcheck(lambda *leaves: tuple(one.run(leaves)), one.leaves())


def test_states_made_of_the_input_have_their_own_gradient() -> None:
    """In the composed gradient too, the part that reaches x through h0 is counted only once, in h0's gradient."""
    what = described("lstm", input=2, hidden=2)
    one = case(what, steps=2, batch=1)

    def layer(x: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        w = Weights(*weights)
        y, hn, cn, _ = recurrent_layer(x, x[:1] * 2, x[1:2], [w], what)
        assert cn is not None
        return y, hn, cn

    inputs = [t for t, a in zip(one.leaves(), one.arrays, strict=True) if a is not one.h0 and a is not one.c0]
    assert gradcheck(layer, inputs) and gradgradcheck(layer, inputs)
