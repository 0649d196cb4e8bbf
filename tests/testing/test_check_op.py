"""check_op detects each deliberate bug, under the name of the expected check."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd.autograd import Function
from retrograd.kernel_set import active_kernels
from retrograd.testing import ConformanceError, Refusal, check_op

X, Y = np.array([[0.3, -1.2, 0.8], [1.1, 0.4, -0.7]]), np.array([[1.3, 0.9, -0.5], [0.2, -1.4, 0.6]])


def square(x: Any) -> Any:
    return x * x


def product(x: Any, y: Any) -> Any:
    return x * y


def test_what_is_right_passes_all_checks() -> None:
    report = check_op(product, X, Y, oracle=np.multiply, batch=(0, 1), broadcast=(0, 1), integers=True)
    assert report and report.name == "product"
    assert report.passed == [
        "values",
        "float32",
        "strides",
        "inputs unchanged",
        "first derivative",
        "second derivative",
        "grad_req",
        "data replaced",
        "empty batch",
        "broadcasting",
        "kernel sets",
        "threads",
        "refusals",
    ]
    assert str(report).startswith("product: passed values, float32")


class Wrong(Function):
    """x * x; each subclass has one bug."""

    @staticmethod
    def forward(ctx: Any, x: retrograd.Tensor) -> retrograd.Tensor:
        ctx.save_for_backward(x)
        return retrograd.Tensor(x.array * x.array)

    @staticmethod
    def backward(ctx: Any, g: retrograd.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * 2.0


class Scaled(Wrong):
    @staticmethod
    def backward(ctx: Any, g: retrograd.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * 1.999


class NotSecond(Wrong):
    @staticmethod
    def backward(ctx: Any, g: retrograd.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * retrograd.Tensor(2.0 * x.array)


class Double(Wrong):
    @staticmethod
    def forward(ctx: Any, x: retrograd.Tensor) -> retrograd.Tensor:
        ctx.save_for_backward(x)
        return retrograd.Tensor((x.array * x.array).astype(np.float64))

    @staticmethod
    def backward(ctx: Any, g: retrograd.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return (g * x * 2.0).to(x.dtype)


class Order(Wrong):
    @staticmethod
    def forward(ctx: Any, x: retrograd.Tensor) -> retrograd.Tensor:
        ctx.save_for_backward(x)
        y = x.array * x.array
        return retrograd.Tensor(y if x.array.flags.c_contiguous else np.abs(x.array))


class Writes(Wrong):
    @staticmethod
    def forward(ctx: Any, x: retrograd.Tensor) -> retrograd.Tensor:
        x.array[...] = np.abs(x.array)
        ctx.save_for_backward(x)
        return retrograd.Tensor(x.array * x.array)


class Holds(Wrong):
    @staticmethod
    def forward(ctx: Any, x: retrograd.Tensor) -> retrograd.Tensor:
        ctx.x = x
        return retrograd.Tensor(x.array * x.array)

    @staticmethod
    def backward(ctx: Any, g: retrograd.Tensor) -> Any:
        return g * ctx.x * 2.0


class NoSum(Function):
    """x * y whose gradients keep the shape of the result"""

    @staticmethod
    def forward(ctx: Any, x: retrograd.Tensor, y: retrograd.Tensor) -> retrograd.Tensor:
        ctx.save_for_backward(x, y)
        return retrograd.Tensor(np.asarray(x.array * y.array))

    @staticmethod
    def backward(ctx: Any, g: retrograd.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return g * y, g * x


class Neighbor(Function):
    """x * y whose gradient for x is right only if y also requires one"""

    @staticmethod
    def forward(ctx: Any, x: retrograd.Tensor, y: retrograd.Tensor) -> retrograd.Tensor:
        ctx.save_for_backward(x, y)
        return retrograd.Tensor(x.array * y.array)

    @staticmethod
    def backward(ctx: Any, g: retrograd.Tensor) -> Any:
        x, y = ctx.saved_tensors
        return g * y * (1.0 if ctx.needs_input_grad[1] else 2.0), g * x


def of_kernels(x: Any) -> Any:
    return square(x) * (1.0 if active_kernels() == "compiled" else 1.1)


def of_threads(x: Any) -> Any:
    return square(x) * (1.0 if retrograd.get_num_threads() == 1 else 1.0000002)


def of_size(x: Any) -> Any:
    return square(x) / float(1 // x.shape[0] + 1)


def mistakes_arrays(x: Any) -> Any:
    return square(x if isinstance(x, retrograd.Tensor) else retrograd.Tensor(x + 1.0))


def takes_arrays_apart(x: Any) -> Any:
    return square(x) if isinstance(x, retrograd.Tensor) else x * x


def more_of_integers(x: Any) -> Any:
    return square(x) + int(x.dtype == np.int64)


def no_integers(x: Any) -> Any:
    if x.dtype == np.int64:
        raise ValueError("no")
    return square(x)


@pytest.mark.parametrize(
    ("function", "args", "options", "fault"),
    [
        (square, (X,), {"oracle": lambda x: x * x + 1e-6}, "values: value 0: retrograd and the oracle differ"),
        (square, (X,), {"oracle": lambda x: (x * x)[0]}, r"values: value 0: retrograd has shape \(2, 3\)"),
        (Double.apply, (X,), {"oracle": np.square}, "float32: float32 inputs give float64"),
        (Order.apply, (X,), {}, "strides: value 0: Fortran order and C order differ"),
        (Writes.apply, (X,), {}, "inputs unchanged: input 0 was changed"),
        (Scaled.apply, (X,), {}, r"first derivative: GradcheckError: .*scale"),
        (NotSecond.apply, (X,), {}, "second derivative: GradcheckError"),
        (Neighbor.apply, (X, Y), {}, 'grad_req: input 0 with grad_req="null" of input 1: the gradient differs'),
        (Holds.apply, (X,), {}, "data replaced: "),
        (of_size, (X,), {"integers": True}, "empty batch: ZeroDivisionError"),
        (NoSum.apply, (X, Y), {"broadcast": (0, 1)}, "broadcasting: .*wrong shape"),
        (of_kernels, (X,), {"integers": True}, "kernel sets: value 0: compiled and textbook differ in 6 of 6"),
        (of_threads, (X,), {"integers": True}, "threads: value: 1 and 2 threads give different bits"),
        (mistakes_arrays, (X,), {"integers": True}, "refusals: value 0: an array for input 0"),
        (takes_arrays_apart, (X,), {"integers": True}, "refusals: an array for input 0: accepted, expected TypeError"),
        (square, (X,), {"integers": False}, "refusals: int64 inputs: accepted, expected TypeError"),
        (more_of_integers, (X,), {}, "integers: value 0: int64 and float64 differ in 6 of 6"),
        (no_integers, (X,), {}, r"integers: int64 inputs: ValueError \(no\) instead of TypeError"),
        (
            retrograd.exp,
            (X,),
            {"errors": [Refusal(TypeError, "needs a number", X)]},
            "refusals: .* accepted, expected TypeError with 'needs a number'",
        ),
        (
            retrograd.softmax,
            (X, 0),
            {"errors": [Refusal(TypeError, "dim", X, 7)]},
            r"refusals: .*IndexError \(softmax: dim=7 is out of range.*\) instead of TypeError",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_planted_faults(function: Any, args: Any, options: Any, fault: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_op(function, *args, **options)
    assert any(re.search(fault, text, re.DOTALL) for text in caught.value.report.faults), str(caught.value)


def test_a_fault_does_not_hide_the_rest() -> None:
    with pytest.raises(ConformanceError) as caught:
        check_op(square, X, oracle=lambda x: 2 * x)
    assert {text.partition(":")[0] for text in caught.value.report.faults} == {"values", "refusals"}
    assert "first derivative" in caught.value.report.passed


def test_random_functions_draw_the_same_numbers() -> None:
    state = retrograd.get_rng_state()
    assert check_op(retrograd.nn.functional.dropout, X, 0.5, random=True)
    assert retrograd.get_rng_state() == state


def test_lists_of_arrays_are_inputs() -> None:
    def total(tensors: Any) -> Any:
        return tensors[0] + tensors[1] * 2.0

    assert check_op(total, [X, Y], oracle=lambda t: t[0] + 2 * t[1], linear=True, batch=(0, 1), integers=True)
    with pytest.raises(ConformanceError, match="inputs unchanged|first derivative"):
        check_op(lambda tensors: Scaled.apply(tensors[1]), [X, Y])


def test_arguments_with_which_nothing_would_be_checked() -> None:
    class Own(Function):
        pass

    for function, args, message in (
        (Own, [np.ones(2)], "got the Function Own, expected a function; Own.apply"),
        (retrograd.exp, [[(4, 3)]], r"args\[0\] is \[\(4, 3\)\], shapes; it checks NumPy arrays"),
        (retrograd.exp, [retrograd.ones(2)], r"args\[0\] is a Tensor; it checks NumPy arrays"),
    ):
        with pytest.raises(TypeError, match=message):
            check_op(function, *args)
