"""Second derivatives along random directions: every fault that gradgradcheck finds is also found here."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor
from retrograd.autograd import Function
from retrograd.testing import ConformanceError, check_op

X = np.array([[0.3, -1.2, 0.8], [1.1, 0.4, -0.7]])


class Gradient(Function):
    """2 g x, the gradient of x * x; each subclass has a bug in its backward."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(g, x)
        return Tensor(2 * g.array * x.array)

    @classmethod
    def backward(cls, ctx: Any, gg: Tensor) -> Any:
        g, x = ctx.saved_tensors
        return cls.second(gg.array, g.array, x.array)

    @staticmethod
    def second(gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        return Tensor(2 * gg * x), Tensor(2 * gg * g)


class OneEntry(Gradient):
    @staticmethod
    def second(gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        factor = np.full(x.shape, 2.0)
        factor[-1, -1] *= 1.0001
        return Tensor(2 * gg * x), Tensor(factor * gg * g)


class NoneForUpstream(Gradient):
    @staticmethod
    def second(gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        return None, Tensor(2 * gg * g)


class Exchanged(Gradient):
    @staticmethod
    def second(gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        return Tensor(2 * gg * g), Tensor(2 * gg * x)


class Shifted(Gradient):
    @staticmethod
    def second(gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        return Tensor(2 * gg * x + 1e-3), Tensor(2 * gg * g)


class Magnitude(Gradient):
    @staticmethod
    def second(gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        return Tensor(2 * np.abs(gg) * x), Tensor(2 * gg * g)


class InMemoryOrder(Gradient):
    @staticmethod
    def second(gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        turned = gg if gg.flags.c_contiguous else gg.ravel(order="K").reshape(gg.shape)
        return Tensor(2 * turned * x), Tensor(2 * gg * g)


class Writes(Gradient):
    @staticmethod
    def second(gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        result = Tensor(2 * gg * x), Tensor(2 * gg * g)
        gg[...] = 0
        return result


class OtherEveryTime(Gradient):
    calls = 0

    @classmethod
    def second(cls, gg: np.ndarray, g: np.ndarray, x: np.ndarray) -> Any:
        cls.calls += 1
        return Tensor(2 * gg * x * (1 + 1e-9 * cls.calls)), Tensor(2 * gg * g)


def square(of: type[Gradient]) -> Any:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return Tensor(x.array * x.array)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return of.apply(g, x)

    return Square.apply


def test_what_is_right_passes() -> None:
    assert "second derivative" in check_op(retrograd.sigmoid, X, full=False).passed
    assert "second derivative" in check_op(retrograd.matmul, X.T, X, batch=(), linear=True, full=False).passed


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (OneEntry, "input 0: along a random direction the gradients change by .*, the second derivatives say"),
        (NoneForUpstream, "upstream gradient 0: along a random direction"),
        (Exchanged, "upstream gradient 0: along a random direction"),
        (Shifted, "upstream gradient 0: an upstream gradient of zeros gives 0.001 instead of 0"),
        (Magnitude, "upstream gradient 0: second derivatives are not linear in the upstream gradient"),
        (InMemoryOrder, "upstream gradient 0: second derivatives are different with arrays in Fortran order"),
        (Writes, "an input or an upstream gradient was changed"),
        (OtherEveryTime, "upstream gradient 0: second derivatives are different in a second sweep"),
    ],
)
def test_planted_faults(fault: type[Gradient], text: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_op(square(fault), X, full=False)
    faults = [line for line in caught.value.report.faults if line.startswith("second derivative: ")]
    assert any(re.search(text, line) for line in faults), str(caught.value)
