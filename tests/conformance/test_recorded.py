"""Every operator and layer of the tables by ``compile``: the bits of eager mode, in results and gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from comparison import bits
from conformance.test_conformance import LAYERS, OPERATORS
from retrograd import nn
from retrograd.testing.function_call import Call, outputs_of

CALLS = 4  # the first is recorded; one of the others has the first one's numbers again


def given(call: Call, turn: int) -> list[rg.Tensor]:
    """The arrays of a call in float32, those of later turns with the same elements in other places."""
    found = []
    for array in call.arrays:
        is_float = array.dtype.kind == "f"
        moved = np.roll(array, turn % 3).astype(np.float32) if is_float else array.copy()
        found.append(rg.Tensor(moved, requires_grad=is_float))
    return found


def rows(function: Callable[..., Any], call: Call, turn: int) -> list[Any]:
    """The bits of results, gradients and the next random number, or the error."""
    rg.manual_seed(turn)
    tensors = given(call, turn)
    draw = np.random.default_rng(turn)
    try:
        results = [y for y in outputs_of(function(*tensors)) if isinstance(y, rg.Tensor)]
        found: list[Any] = [bits(y.detach().numpy()) for y in results]
        if trained := [y for y in results if y.requires_grad]:
            upstream = [rg.Tensor(np.asarray(draw.standard_normal(y.shape), y.numpy().dtype)) for y in trained]
            rg.autograd.backward(trained, upstream)
    except Exception as error:
        return [type(error), str(error)]
    found += [None if x.grad is None else bits(x.grad.numpy()) for x in tensors]
    return [*found, bits(rg.rand(2).numpy())]


def compared(plain: Callable[..., Any], compiled: Callable[..., Any], call: Call) -> None:
    for turn in range(CALLS):
        wanted, found = rows(plain, call, turn), rows(compiled, call, turn)
        assert found == wanted, turn


def parameters(module: nn.Module) -> list[Any]:
    """The bits of gradients, parameters and buffers."""
    found = [None if each.grad is None else bits(each.grad.numpy()) for each in module.parameters()]
    return found + [bits(each.detach().numpy()) for each in module.state_dict().values()]


@pytest.mark.parametrize("entry", OPERATORS, ids=[entry.name for entry in OPERATORS])
def test_operators(entry: Any) -> None:
    call = Call(entry.function, entry.args, entry.options.get("kwargs") or {}, entry.options.get("random", False))

    def plain(*tensors: rg.Tensor) -> Any:
        return call.with_values([*tensors])

    compared(plain, rg.compile(plain), call)


@pytest.mark.parametrize("is_trained", [True, False])
@pytest.mark.parametrize("entry", LAYERS, ids=[entry.name for entry in LAYERS])
def test_layers(entry: Any, is_trained: bool) -> None:
    rg.manual_seed(1)
    module = entry.function().float().train(is_trained)
    other = copy.deepcopy(module)
    call = Call(entry.function, entry.args, entry.options.get("kwargs") or {})

    def by(called: Any) -> Callable[..., Any]:
        return lambda *tensors: call.with_values([*tensors], called)

    compared(by(module), by(rg.compile(other)), call)
    assert parameters(module) == parameters(other)
