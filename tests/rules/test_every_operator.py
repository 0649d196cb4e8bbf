"""Rules that call the true backward, for every operator and layer of the conformance tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from conformance.table import Op
from conformance.test_conformance import LAYERS, OPERATORS
from retrograd import Tensor, override_backward
from retrograd.autograd import grad
from retrograd.nn import functional

# these return their argument, or the method of the same name is another operator
WITHOUT_A_NODE = {"atleast_1d", "positive", "contiguous", "unfold: along an axis"}


def tensors(value: Any) -> Any:
    """Convert arrays to Tensors, which require a gradient if they are floating-point."""
    if isinstance(value, np.ndarray):
        return retrograd.tensor(value, requires_grad=value.dtype.kind == "f")
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], np.ndarray):
        return type(value)(map(tensors, value))
    return value


def within(value: Any) -> list[Tensor]:
    """Return the Tensors that require a gradient."""
    if isinstance(value, Tensor):
        return [value] if value.requires_grad else []
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for item in values for tensor in within(item)]


def derived(entry: Op, call: Callable[..., Any], own: Any = ()) -> list[Tensor | None]:
    """Return the gradients of a call with the arguments of an entry; empty if it has none."""
    args = [tensors(value) for value in entry.args]
    kwargs = {name: tensors(value) for name, value in (entry.options.get("kwargs") or {}).items()}
    retrograd.manual_seed(0)
    results = within(call(*args, **kwargs))
    leaves = within([*args, kwargs]) + list(own)
    rng = np.random.default_rng(0)
    upstream = [retrograd.tensor(rng.standard_normal(y.shape), dtype=y.dtype) for y in results]
    return [*grad(results, leaves, upstream, allow_unused=True)] if results and leaves else []


class Counted:
    """A rule that calls the true backward and counts its calls."""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, true, *g):
        self.runs += 1
        return true(*g)


def check(found: list[Tensor | None], expected: list[Tensor | None], rule: Counted) -> None:
    if expected:
        assert rule.runs
    for one, other in zip(found, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("entry", OPERATORS, ids=lambda entry: entry.name)
@pytest.mark.filterwarnings("ignore:override_backward. no call:UserWarning")
def test_operator(entry: Op) -> None:
    if entry.name in WITHOUT_A_NODE or entry.options.get("order") == 0:
        return
    name = entry.name.partition(":")[0]
    room, _, own = name.rpartition(".")  # as in linalg.inv
    places = (getattr(retrograd, room),) if room else (retrograd, functional, retrograd.nn.grad)
    operator = next(getattr(place, own) for place in places if hasattr(place, own))
    expected = derived(entry, entry.function)
    rule = Counted()
    with override_backward(operator, rule):
        found = derived(entry, entry.function)
    check(found, expected, rule)


@pytest.mark.parametrize("entry", LAYERS, ids=lambda entry: entry.name)
def test_layer(entry: Op) -> None:
    def run(rule: Counted | None) -> list[Tensor | None]:
        retrograd.manual_seed(0)
        layer = entry.function().double()
        layer.backward_rule = rule
        return derived(entry, layer, layer.parameters())

    expected = run(None)
    rule = Counted()
    check(run(rule), expected, rule)
