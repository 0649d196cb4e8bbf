"""gradcheck and gradgradcheck on correct gradients, and their options; test_gradcheck_bugs.py has wrong gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.functions import Add, DivMod, Exp, MatMul, Mul, OnceSquare, Sum, Transpose, irregular, leaf
from retrograd.engine import Function, Tensor, no_grad, wrap
from retrograd.engine.gradcheck import GradcheckError, GradcheckReport, gradcheck, gradgradcheck


class MulNumPy(Mul):
    """x * y with a NumPy backward: the first derivative is right, the second one is missing."""

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return wrap(g.array * y.array), wrap(g.array * x.array)


CASES = {
    "mul": (Mul.apply, (irregular(2, 3), irregular(2, 3, seed=2))),
    "exp": (Exp.apply, (irregular(3),)),
    "matmul": (MatMul.apply, (irregular(2, 3), irregular(3, 4, seed=2))),
    "sum": (lambda x: Sum.apply(Mul.apply(x, x)), (irregular(2, 2),)),
    "view": (Transpose.apply, (irregular(2, 3),)),
    "no axes": (lambda x: Mul.apply(x, x), (Tensor(np.array(1.5), requires_grad=True),)),
    "empty": (Exp.apply, (Tensor(np.zeros((0, 3)), requires_grad=True),)),
    "one input without gradient": (Mul.apply, (irregular(2), Tensor(np.array([2.0, 3.0])))),
    "several outputs": (
        lambda x, y: [Mul.apply(x, y), Exp.apply(y), Tensor(np.array([1]))],
        (irregular(2), irregular(2, seed=2)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_right_gradients_pass(name: str) -> None:
    func, inputs = CASES[name]
    report = gradcheck(func, inputs)
    assert isinstance(report, GradcheckReport) and report and str(report) == "gradcheck: passed"
    assert gradgradcheck(func, inputs)


def test_non_differentiable_outputs_are_skipped() -> None:
    assert gradcheck(DivMod.apply, irregular(3))


def test_a_linear_function_with_step_one_is_exact() -> None:
    x = irregular(2, 3)
    assert gradcheck(
        lambda x: MatMul.apply(Transpose.apply(x), Tensor(np.arange(4.0).reshape(2, 2))),
        x,
        eps=1,
        atol=1e-12,
        rtol=0,
    )


def test_same_tensor_twice_and_a_closure() -> None:
    x, w = irregular(3), irregular(3, seed=2)
    assert gradcheck(Mul.apply, (x, x))
    assert gradcheck(lambda *_: Mul.apply(x, w), (x, w))


def test_under_no_grad_and_with_a_result_as_input() -> None:
    x = Exp.apply(irregular(2))
    with no_grad():
        assert gradcheck(Exp.apply, x)
        assert gradgradcheck(Exp.apply, irregular(2))


def test_the_callers_tensors_stay_as_they_are() -> None:
    array = np.linspace(1, 2, 6).reshape(3, 2).T
    before = array.copy()
    array.flags.writeable = False
    x = Tensor(array, requires_grad=True)
    x.grad = marker = Tensor(np.zeros((2, 3)))
    gradcheck(Exp.apply, x)
    gradgradcheck(Exp.apply, x)
    with pytest.raises(ZeroDivisionError):
        gradcheck(lambda x: 1 / 0, x)
    assert x.array is array and x.grad is marker and not marker.array.any()
    np.testing.assert_array_equal(array, before)


def test_grad_outputs_of_gradgradcheck() -> None:
    x = irregular(2)
    assert gradgradcheck(Exp.apply, x, Tensor(np.array([2.0, 3.0])))
    with pytest.raises(ValueError, match="2 grad_outputs for 1 outputs"):
        gradgradcheck(Exp.apply, x, [Tensor(np.ones(2)), Tensor(np.ones(2))])


def test_float64_is_required() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(ValueError, match=r"inputs\[0\] is float32; central differences need float64: Tensor\("):
            check(Exp.apply, x)

    class Narrow(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.astype(np.float32))

    with pytest.raises(ValueError, match="output 0 is float32"):
        gradcheck(Narrow.apply, irregular(2))


def test_nothing_to_check() -> None:
    x = leaf(1)
    with pytest.raises(ValueError, match="no input requires a gradient"):
        gradcheck(Exp.apply, Tensor(np.ones(2)))
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(ValueError, match="no output of func requires a gradient"):
            check(lambda x: x.detach(), x)
    with pytest.raises(TypeError, match="output 0 of func is ndarray"):
        gradcheck(lambda x: x.array, x)
    x.grad_req = "null"
    with pytest.raises(ValueError, match=r'inputs\[0\] has grad_req "null"'):
        gradcheck(Exp.apply, x)


def test_raise_exception_false_returns_the_report() -> None:
    class Flipped(Exp):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            (y,) = ctx.saved_tensors
            return wrap(-g.array * y.array)

    report = gradcheck(Flipped.apply, irregular(3), raise_exception=False)
    assert not report and len(report.faults) == 1
    with pytest.raises(GradcheckError) as caught:
        gradcheck(Flipped.apply, irregular(3))
    assert str(caught.value) == str(report) == str(caught.value.report)


def test_random_functions_are_found() -> None:
    random = np.random.default_rng(0)

    class Noise(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array * random.random())

    with pytest.raises(GradcheckError, match="two calls with the same inputs differ in output 0.*manual_seed"):
        gradcheck(Noise.apply, irregular(2))


def test_random_backward_is_found() -> None:
    random = np.random.default_rng(0)

    class Noise(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(x.array.copy())

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return wrap(g.array * (1 + 1e-12 * random.random()))

    with pytest.raises(GradcheckError, match="two sweeps from output 0"):
        gradcheck(Noise.apply, irregular(2))
    assert gradcheck(Noise.apply, irregular(2), nondet_tol=1e-11)


@pytest.mark.parametrize("which", ["forward", "backward", "upstream"])
def test_modified_inputs_are_found(which: str) -> None:
    class Careless(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            y = wrap(x.array * 2)
            if which == "forward":
                x.array[...] = 0
            return y

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            if which == "backward":
                x.array += 1
            result = wrap(g.array * 2)
            if which == "upstream":
                g.array[...] = 0
            return result

    x = irregular(3)
    before = x.array.copy()
    text = {"upstream": "backward modified its upstream gradient"}.get(which, f"{which} modified input 0")
    with pytest.raises(GradcheckError, match=text):
        gradcheck(Careless.apply, x, check_layouts=False)
    np.testing.assert_array_equal(x.array, before)


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_code_that_assumes_contiguous_arrays_is_found(which: str) -> None:
    class Flat(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            order = "A" if which == "forward" else "C"
            weights = np.arange(1.0, 1 + x.array.size)
            return wrap((x.array.reshape(-1, order=order) * weights).reshape(x.shape, order="C"))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            order = "A" if which == "backward" else "C"
            weights = np.arange(1.0, 1 + g.array.size)
            return wrap((g.array.reshape(-1, order=order) * weights).reshape(g.shape, order="C"))

    text = "output 0 .*other strides" if which == "forward" else "gradient of output 0 .*other strides"
    with pytest.raises(GradcheckError, match=text):
        gradcheck(Flat.apply, irregular(2, 3))
    assert gradcheck(Flat.apply, irregular(2, 3), check_layouts=False)


def test_a_kink_at_the_input_is_not_hidden() -> None:
    class Abs(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return wrap(np.abs(x.array))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return wrap(g.array * np.sign(ctx.saved_tensors[0].array + 1e-300))

    assert gradcheck(Abs.apply, irregular(4))
    assert not gradcheck(Abs.apply, leaf(0, 1), raise_exception=False)


def _rectified(wrong: float = 1.0) -> type[Function]:
    """Return max(x, 0) as a Function, with slope 0 at 0 and its gradient scaled by ``wrong``."""

    class Rectified(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return wrap(np.maximum(x.array, 0.0))

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return wrap(g.array * (x.array > 0) * wrong)

    return Rectified


def test_a_kink_is_called_a_kink() -> None:
    for values in ([0.0], [0.0, 1.0, -1.0]):
        with pytest.raises(GradcheckError) as caught:
            gradcheck(_rectified().apply, Tensor(np.array(values), requires_grad=True))
        assert "func has a kink at input[0]: its slope is 0 below and 1 above" in str(caught.value)
        assert "choose inputs away from such points" in str(caught.value) and "dropped" not in str(caught.value)


def test_a_kink_does_not_hide_a_wrong_gradient() -> None:
    with pytest.raises(GradcheckError, match="scaled by the constant factor 2; in addition, func has a kink at input"):
        gradcheck(_rectified(2.0).apply, Tensor(np.array([0.0, 1.5, 2.5]), requires_grad=True))
    # a dropped gradient of a smooth function is not mistaken for a kink, even at high curvature
    for factor in (1.0, 1e4):
        with pytest.raises(GradcheckError, match="the gradient is dropped"):
            gradcheck(_dropped(factor).apply, Tensor(np.array([1.0, 2.0]), requires_grad=True))


def _dropped(factor: float) -> type[Function]:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap(factor * x.array**2)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return wrap(np.zeros_like(g.array))

    return Square


def test_a_jump_is_called_a_jump() -> None:
    class Step(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return wrap((x.array > 0) * 1.0)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return wrap(np.zeros_like(g.array))

    with pytest.raises(GradcheckError, match=r"func jumps at input\[1\]: its slope is 0 below and 1e\+06 above"):
        gradcheck(Step.apply, Tensor(np.array([2.0, 0.0]), requires_grad=True))


def test_ill_conditioned_but_right() -> None:
    """Cancellation makes the numeric gradient inaccurate; within the tolerances this is not reported as a fault."""

    class Offset(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, slope: float, back: float) -> Tensor:
            ctx.slope = slope
            return wrap((x.array * slope + 1e4) - back)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            return wrap(g.array * ctx.slope), None, None

    for slope, back in ((1e-2, 1e4), (1e-2, 0.0), (1e-7, 0.0)):
        for seed in range(20):
            assert gradcheck(Offset.apply, (irregular(1, seed=seed), slope, back), check_layouts=False)


def test_gradgradcheck_of_a_lost_second_derivative() -> None:
    inputs = (irregular(2), irregular(2, seed=2))
    assert gradcheck(MulNumPy.apply, inputs)
    with pytest.raises(GradcheckError, match="not recorded, so its derivative is lost.*once_differentiable"):
        gradgradcheck(MulNumPy.apply, inputs)


def test_gradgradcheck_of_a_refused_second_derivative() -> None:
    assert gradcheck(OnceSquare.apply, irregular(2))
    with pytest.raises(RuntimeError, match="OnceSquare: .*no second derivative"):
        gradgradcheck(OnceSquare.apply, irregular(2))


def test_a_function_of_the_sum_of_its_inputs() -> None:
    assert gradgradcheck(lambda x, y: Exp.apply(Add.apply(x, y)), (irregular(2), irregular(2, seed=2)))


def test_a_function_class_in_place_of_its_apply() -> None:
    with pytest.raises(TypeError, match="func is the Function Exp, expected a function; pass Exp.apply"):
        gradcheck(Exp, irregular(2))
