"""inference_mode: nothing is recorded, and tensors created inside stay out of every graph."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from engine.functions import Exp, Identity, Mul, leaf, values
from retrograd.engine import (
    Function,
    Tensor,
    View,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    modify,
    no_grad,
    set_grad_enabled,
    wrap,
)


class Part(View):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(x.array[:1])


def test_nothing_is_recorded() -> None:
    x = leaf(1, 2)
    with inference_mode():
        y = Exp.apply(x)
        assert is_inference_mode_enabled() and not is_grad_enabled()
        for inner in (enable_grad, lambda: set_grad_enabled(True)):
            with inner():
                assert not is_grad_enabled() and not Exp.apply(x).requires_grad
    assert is_grad_enabled() and not is_inference_mode_enabled()
    assert y.is_inference() and not y.requires_grad and not x.is_inference()
    np.testing.assert_array_equal(y.array, np.exp([1, 2]))


def test_what_is_made_inside() -> None:
    x = leaf(1, 2)
    with inference_mode():
        assert Tensor([1.0]).is_inference() and Identity.apply(x).is_inference()
        assert not Tensor([1.0], requires_grad=True).is_inference()  # as in the construction of a Module
        assert not Part.apply(x).is_inference()  # a view of an ordinary tensor
        y = Exp.apply(x)
        assert Part.apply(y).is_inference() and y.detach().is_inference()
        with inference_mode(False):
            assert is_grad_enabled() and Exp.apply(x).requires_grad
        assert is_inference_mode_enabled()
    assert not Exp.apply(y).is_inference()


def test_outside() -> None:
    x = leaf(3)
    with inference_mode():
        y = Exp.apply(Tensor(np.array([0.0])))
    assert values(Exp.apply(y)) == [np.e]  # ordinary use works
    with pytest.raises(RuntimeError, match=r"Mul: a tensor made in inference_mode cannot be saved .*clone"):
        Mul.apply(x, y)
    with pytest.raises(RuntimeError, match="requires_grad: a tensor made in inference_mode"):
        y.requires_grad_()
    with pytest.raises(RuntimeError, match="grad_req: a tensor made in inference_mode"):
        y.grad_req = "add"
    with pytest.raises(RuntimeError, match="twice_: a tensor made in inference_mode cannot change outside"):
        modify(y, "twice_", lambda old: wrap(old.array * 2))
    with inference_mode():
        modify(y, "twice_", lambda old: wrap(old.array * 2))
    assert values(y) == [2]
    with inference_mode():
        y.requires_grad_()
    assert not y.is_inference() and y.requires_grad


def test_copies_are_ordinary() -> None:
    with inference_mode():
        y = Tensor([1.0])
    for other in (copy.deepcopy(y), pickle.loads(pickle.dumps(y))):
        assert not other.is_inference() and other.requires_grad_().grad_req == "add"


def test_a_change_in_place_of_an_ordinary_tensor_is_seen() -> None:
    x, y = leaf(2), Tensor(np.array([3.0]))
    z = Mul.apply(x, y)
    with inference_mode():
        modify(y, "twice_", lambda old: wrap(old.array * 2))
        modify(x, "twice_", lambda old: wrap(old.array * 2))
    assert not y.is_inference()
    with pytest.raises(RuntimeError, match=r"(?s)was changed in place.*changed by twice_"):
        z.backward()


def test_as_a_decorator() -> None:
    @inference_mode()
    def plain(x: Tensor) -> Tensor:
        """Its text."""
        return Exp.apply(x)

    @inference_mode
    def bare(x: Tensor) -> Tensor:
        return Exp.apply(x)

    @inference_mode(mode=False)
    def off(x: Tensor) -> Tensor:
        return Exp.apply(x)

    @inference_mode()
    def generator(x: Tensor) -> Any:
        yield Exp.apply(x)
        yield is_inference_mode_enabled()

    x = leaf(1)
    assert plain(x).is_inference() and bare(x).is_inference() and plain.__doc__ == "Its text."
    assert off(x).requires_grad
    results = generator(x)
    assert next(results).is_inference() and is_grad_enabled() and next(results) is True
    assert not is_inference_mode_enabled()
    with pytest.raises(TypeError, match="inference_mode: mode=2 must be True or False, not int"):
        inference_mode(2)


def test_it_ends_with_an_error_and_can_be_entered_again() -> None:
    mode = inference_mode()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), mode, no_grad(), mode:
            raise ZeroDivisionError
        assert is_grad_enabled() and not is_inference_mode_enabled()


def test_tuples() -> None:
    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return wrap(x.array * 2), x

    x = leaf(1)
    with inference_mode():
        assert all(y.is_inference() for y in Pair.apply(x))
    assert not x.is_inference()
