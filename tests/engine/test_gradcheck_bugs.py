"""gradcheck on wrong gradients: it must detect every deliberate bug, name it, and report the right input."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine.functions import Exp, MatMul, Mul, Sum, irregular
from retrograd.engine import Function, Tensor, wrap
from retrograd.engine.gradcheck import GradcheckError, gradcheck, gradgradcheck

Change = Callable[[np.ndarray], np.ndarray]


def faulty(change: Change, upstream: Change = lambda g: g) -> type[Function]:
    """Return x * y as a Function; `change` alters its gradient for y, and `upstream` its upstream gradient."""

    class Faulty(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(x, y)
            return wrap(x.array * y.array)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            x, y = ctx.saved_tensors
            return wrap(g.array * y.array), wrap(np.asarray(change(upstream(g.array) * x.array)))

    return Faulty


def zero_first_row(g: np.ndarray) -> np.ndarray:
    result = g.copy()
    result[0] = 0
    return result


def shift_with_zeros(g: np.ndarray) -> np.ndarray:
    result = np.zeros_like(g)
    result[:, 1:] = g[:, :-1]
    return result


def scramble(g: np.ndarray) -> np.ndarray:
    return g.reshape(-1)[[3, 0, 5, 1, 4, 2, 6, 8, 7]].reshape(g.shape)


FAULTS: dict[str, tuple[Change, str]] = {
    "sign": (lambda g: -g, "the sign is flipped"),
    "doubled": (lambda g: 2 * g, "scaled by the constant factor 2$"),
    "averaged": (lambda g: g / 9, "scaled by the constant factor 1/9$"),
    "slightly scaled": (lambda g: 1.001 * g, r"scaled by the constant factor 1\.001"),
    "hardly scaled": (lambda g: 1.0001 * g, r"scaled by the constant factor 1\.0001"),
    "zero": (np.zeros_like, "the gradient is dropped: it is zero everywhere"),
    "NaN": (lambda g: g * np.nan, "NaN or infinity in 81 entries"),
    "row dropped": (zero_first_row, "a part of the gradient is dropped.*index 0 along axis 0 of the input"),
    "transposed": (lambda g: g.T, "the gradient is transposed: axes 0 and 1"),
    "flipped rows": (lambda g: g[::-1], "the gradient is flipped along axis 0"),
    "flipped columns": (lambda g: g[:, ::-1], "the gradient is flipped along axis 1"),
    "flipped kernel": (lambda g: g[::-1, ::-1], r"the gradient is flipped along axes \[0, 1\]"),
    "rolled": (lambda g: np.roll(g, 1, 0), "the gradient is shifted by 1 along axis 0"),
    "rolled back": (lambda g: np.roll(g, -1, 1), "the gradient is shifted by -1 along axis 1"),
    "shifted": (shift_with_zeros, "the gradient is shifted by 1 along axis 1, with zeros"),
    "rolled and flipped sign": (
        lambda g: -np.roll(g, 1, 0),
        "shifted by 1 along axis 0, and the sign is flipped",
    ),
    "scrambled": (scramble, "the values are right, but in the wrong places"),
    "bent": (lambda g: g + 0.1 * np.sin(g), "no common mistake fits; analytic / numeric is between"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_changed_gradient(name: str) -> None:
    change, text = FAULTS[name]
    inputs = (irregular(3, 3), irregular(3, 3, seed=2))
    with pytest.raises(GradcheckError) as caught:
        gradcheck(faulty(change).apply, inputs)
    (fault,) = caught.value.report.faults
    assert fault.input == 1 and fault.output == 0 and fault.total == 81 and 0 < fault.differing <= 81
    assert "<FaultyBackward>" in fault.message and "input 1 (shape (3, 3))" in fault.message
    assert re.search(text, fault.diagnosis), fault.diagnosis


UPSTREAM_FAULTS: dict[str, tuple[Change, str]] = {
    "forgotten": (np.ones_like, "backward ignores the upstream gradient"),
    "transposed": (lambda g: g.T, "the upstream gradient is transposed: axes 0 and 1"),
    "flipped": (lambda g: g[:, ::-1], "the upstream gradient is flipped along axis 1"),
    "shifted": (lambda g: np.roll(g, 1, 0), "the upstream gradient is shifted by 1 along axis 0$"),
    "shifted with zeros": (
        shift_with_zeros,
        "the upstream gradient is shifted by 1 along axis 1, with zeros",
    ),
}


@pytest.mark.parametrize("name", UPSTREAM_FAULTS)
def test_changed_upstream_gradient(name: str) -> None:
    change, text = UPSTREAM_FAULTS[name]
    with pytest.raises(GradcheckError) as caught:
        gradcheck(faulty(lambda g: g, change).apply, (irregular(3, 3), irregular(3, 3, seed=2)))
    assert re.search(text, caught.value.report.faults[0].diagnosis), str(caught.value)


def test_worst_entry() -> None:
    def change(g: np.ndarray) -> np.ndarray:
        result = g.copy()
        result[1, 2] *= 3
        return result

    x, y = irregular(2, 3), irregular(2, 3, seed=2)
    report = gradcheck(faulty(change).apply, (x, y), raise_exception=False)
    (fault,) = report.faults
    assert (fault.output_index, fault.input_index) == ((1, 2), (1, 2)) and fault.differing == 1 and fault.total == 36
    assert fault.analytic == pytest.approx(3 * x.array[1, 2]) and fault.numeric == pytest.approx(x.array[1, 2])
    assert "1 of 36 entries" in str(report) and "d output[1, 2] / d input[1, 2]" in str(report)


def scalar(backward: Callable[[Any, Tensor], Tensor]) -> type[Function]:
    """Return sum(x * x) as a Function. Its Jacobian has one row, so an upstream gradient of 1 misses many bugs."""

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(np.asarray((x.array * x.array).sum()))

    return type("Scalar", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def test_upstream_forgotten_by_a_scalar_function() -> None:
    function = scalar(lambda ctx, g: wrap(2 * ctx.saved_tensors[0].array))
    with pytest.raises(GradcheckError, match="zero upstream gradient.*\n.*backward ignores the upstream gradient"):
        gradcheck(function.apply, irregular(3))


def test_upstream_squared() -> None:
    function = scalar(lambda ctx, g: wrap(2 * ctx.saved_tensors[0].array * g.array**2))
    with pytest.raises(GradcheckError, match="not linear in the upstream gradient"):
        gradcheck(function.apply, irregular(3))


def test_shape_of_a_rectangle_forced() -> None:
    """The transposed gradient is reshaped in memory order, a common way to silence a shape error."""
    for function, text in (
        (faulty(lambda g: g.T.reshape(g.shape)), "the gradient is transposed: axes 0 and 1"),
        (
            faulty(lambda g: g, lambda g: g.T.reshape(g.shape)),
            "the upstream gradient is transposed: axes 0 and 1",
        ),
    ):
        with pytest.raises(GradcheckError, match=text):
            gradcheck(function.apply, (irregular(2, 3), irregular(2, 3, seed=2)))


def test_exchanged_gradients() -> None:
    class Exchanged(Mul):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            x, y = ctx.saved_tensors
            return wrap(g.array * x.array), wrap(g.array * y.array)

    with pytest.raises(GradcheckError, match="exchanged: this is the gradient of input 1") as caught:
        gradcheck(Exchanged.apply, (irregular(3), irregular(3, seed=2)))
    assert [fault.input for fault in caught.value.report.faults] == [0, 1]


def test_none_returned_for_a_needed_gradient() -> None:
    class Lazy(Mul):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return wrap(g.array * ctx.saved_tensors[1].array), None

    with pytest.raises(GradcheckError, match="input 1 .*\n.*\n.*the gradient is dropped"):
        gradcheck(Lazy.apply, (irregular(3), irregular(3, seed=2)))


def test_gradient_where_none_belongs() -> None:
    class Extra(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(np.ones_like(x.array))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g

    with pytest.raises(GradcheckError, match="the output does not depend on this input"):
        gradcheck(Extra.apply, irregular(3))


def test_function_that_is_not_defined_there() -> None:
    class Root(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            with np.errstate(invalid="ignore"):
                return wrap(np.sqrt(x.array))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return g

    with pytest.raises(GradcheckError, match="the numeric gradient is not finite"):
        gradcheck(Root.apply, Tensor(np.zeros(2), requires_grad=True))


def test_infinite_outputs() -> None:
    class Log(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            with np.errstate(all="ignore"):
                return wrap(np.log(x.array * 0 * np.sign(x.array)))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return wrap(np.full_like(g.array, np.inf))

    with pytest.raises(GradcheckError, match="the numeric gradient is not finite"):
        gradcheck(Log.apply, irregular(2))


def test_dropped_group() -> None:
    """A matrix product whose gradient of the left factor omits the second half of the inner axis."""

    class Half(MatMul):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            x, y = ctx.saved_tensors
            gx = g.array @ y.array.T
            gx[:, 2:] = 0
            return wrap(gx), wrap(x.array.T @ g.array)

    with pytest.raises(GradcheckError, match="a part of the gradient is dropped.*index 2, 3 along axis 1 of the input"):
        gradcheck(Half.apply, (irregular(2, 4), irregular(4, 3, seed=2)))


def test_small_deviation_in_one_of_many_terms() -> None:
    """The error is within the tolerances everywhere; only the sharp comparison detects it."""

    class Eps(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return wrap(1 / np.sqrt(x.array**2 + 1e-3))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return wrap(-g.array * x.array / (x.array**2 + 1.1e-3) ** 1.5)

    x = irregular(4)
    with pytest.raises(GradcheckError, match="within the tolerances, but far outside the uncertainty") as caught:
        gradcheck(Eps.apply, x)
    assert caught.value.report.faults[0].check == "precision"
    assert gradcheck(Eps.apply, x, sharp=False)
    assert gradcheck(Eps.apply, x, rtol=1e-2)


# ---- second order ------------------------------------------------------------------------------------------


def second(backward: Callable[..., Any]) -> type[Function]:
    """Return x^3 as a Function with a given backward, which is correct to first order."""

    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return wrap(x.array**3)

    return type("Cube", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


class WrongTwice(Mul):
    """x * y with a wrong gradient, for use in a backward, where only second derivatives need it."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return Mul.apply(g, y), Mul.apply(Mul.apply(g, x), Tensor(np.full(x.shape, 0.5)))


def three(x: Tensor) -> Tensor:
    return Tensor(np.full(x.shape, 3.0))


def right(ctx: Any, g: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return Mul.apply(g, Mul.apply(three(x), Mul.apply(x, x)))


def constant_square(ctx: Any, g: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return Mul.apply(g, wrap(3 * x.array**2))


def one_factor_constant(ctx: Any, g: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return Mul.apply(g, Mul.apply(three(x), Mul.apply(x, x.detach())))


def wrong_operator(ctx: Any, g: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return WrongTwice.apply(g, Mul.apply(three(x), Mul.apply(x, x)))


def test_right_second_order_passes() -> None:
    assert gradgradcheck(second(right).apply, irregular(3))


@pytest.mark.parametrize(
    ("backward", "text"),
    [
        (constant_square, "the gradient is dropped: it is zero everywhere"),
        (one_factor_constant, "scaled by the constant factor 1/2"),
        (wrong_operator, "scaled by the constant factor 1/2"),
    ],
)
def test_wrong_second_order(backward: Callable[..., Any], text: str) -> None:
    function = second(backward)
    assert gradcheck(function.apply, irregular(3))
    with pytest.raises(GradcheckError, match=text) as caught:
        gradgradcheck(function.apply, irregular(3))
    assert "gradgradcheck (outputs are the gradients of the inputs) failed" in str(caught.value)
    assert caught.value.report.faults[0].input == 0


def test_a_fault_in_a_composition_is_found() -> None:
    flipped = faulty(lambda g: -g)
    with pytest.raises(GradcheckError, match="output 0"):
        gradcheck(lambda x, y: Sum.apply(Exp.apply(flipped.apply(x, y))), (irregular(2), irregular(2, seed=2)))
