"""Special functions near poles, in their tails, at infinity and NaN, compared with values to 60 decimal digits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor

INF, NAN = math.inf, math.nan


def slopes(function: Callable[[Tensor], Tensor], x: float, dtype: str = "float64") -> list[float]:
    """Return the value and the first two derivatives at x, by differentiating the gradient."""
    t = Tensor(np.array(x, dtype)).requires_grad_()
    y = function(t)
    (first,) = rg.autograd.grad(y, t, create_graph=True)
    found = [y.item(), first.item()]
    return [*found, rg.autograd.grad(first, t)[0].item() if first.requires_grad else 0.0]


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (-0.999999733, (-3745317.92929956, 14027409558464.357, -1.0507422890302721e20)),
        (2.67e-07, (-3745318.929275151, 14027409558278.518, -1.0507422890095036e20)),
        (-7.000001, (1000002.0154985433, 999999999723.6008, 1.9999999991613322e18)),
    ],
)
def test_digamma_near_its_poles(x: float, wanted: tuple[float, ...]) -> None:
    np.testing.assert_allclose(slopes(rg.digamma, x), wanted, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_polygamma_at_its_poles(dtype: str) -> None:
    x = Tensor(np.array([0.0, -0.0, -1, -2, -8, -1e6, -1e20, INF, -INF, NAN], dtype))
    for n in (1, 2, 3, 4):
        pole = INF if n % 2 else -INF
        wanted = [pole] * 7 + [0, NAN, NAN]
        np.testing.assert_array_equal(rg.polygamma(n, x).array, np.array(wanted, dtype))
    whole = Tensor(np.array([0, -1, -3]))
    assert rg.polygamma(1, whole).tolist() == [INF] * 3 and rg.polygamma(2, whole).tolist() == [-INF] * 3
    truth = rg.polygamma(2, Tensor(np.array([False, True])))
    assert truth.dtype == np.float32 and truth.tolist()[0] == -INF
    assert truth.tolist()[1] == pytest.approx(-2.4041138063191885)  # -2 zeta(3)
    near = Tensor(np.array(-1.0)).requires_grad_()
    rg.digamma(near).backward()  # rises to infinity on both sides
    assert near.grad is not None and near.grad.item() == INF


@pytest.mark.parametrize(
    ("x", "first", "second"),
    [
        (-1e3, 1000.000999998, -0.999999000006),
        (-1e4, 10000.000099999997, -0.9999999900000006),
        (-100.0, 100.00999800099926, -0.9999000599500517),
        (-20.5, 20.548551052435847, -0.9976537796275292),
        (-3.0, 3.2830986549304364, -0.9294408132147319),
        (5.0, 1.4867199409049056e-06, -7.433601914860711e-06),
        (-1e8, 1e8, -1),
        (-1e20, 1e20, -1),
        (-INF, INF, NAN),
        (INF, 0, 0),
    ],
)
def test_log_ndtr_in_its_tails(x: float, first: float, second: float) -> None:
    np.testing.assert_allclose(slopes(rg.special.log_ndtr, x)[1:], [first, second], rtol=1e-9)
    np.testing.assert_allclose(slopes(rg.special.log_ndtr, x, "float32")[1:], np.float32([first, second]), rtol=1e-5)


@pytest.mark.parametrize(
    ("a", "x", "lower", "upper", "density"),
    [
        (1e6, 1e6, 0.5001329807608725, 0.4998670192391274, 0.00039894224715624404),
        (1e6, 1.002e6, 0.9771959041012301, 0.022804095898769864, 5.402686013678803e-05),
        (1e6, 9.97e5, 0.0013381041673135997, 0.9986618958326864, 4.405267009918558e-06),
        (1e5, 1e5, 0.5004205221103651, 0.4995794778896348, 0.0012615652097053005),
        (2e4, 2.03e4, 0.9827064487220966, 0.017293551277903448, 0.0002995212433265711),
    ],
)
def test_incomplete_gamma_of_large_operands(a: float, x: float, lower: float, upper: float, density: float) -> None:
    for function, value, sign in ((rg.igamma, lower, 1), (rg.igammac, upper, -1)):
        found = slopes(lambda t, f=function: f(Tensor(np.array(a)), t), x)  # type: ignore[misc]
        second = density * ((a - 1) / x - 1)
        np.testing.assert_allclose(found, [value, sign * density, sign * second], rtol=1e-9)


@pytest.mark.parametrize(
    ("a", "x", "wanted"),
    [
        (1e-10, 0.5, 5.597735948054988e-11),
        (1e-300, 1e-10, 2.2448635265138925e-299),
        (1e-3, 1e-3, 0.00631235329113971),
        (0.3, 0.7, 0.13313741449370475),
    ],
)
def test_upper_incomplete_gamma_of_small_operands(a: float, x: float, wanted: float) -> None:
    found = rg.igammac(Tensor(np.array(a)), Tensor(np.array(x))).item()
    assert found == pytest.approx(wanted, rel=1e-11, abs=0)


# a, x, igamma and its gradient to x
ENDS = [
    *((2.0, INF, 1, 0), (INF, 2.0, 0, 0), (INF, INF, NAN, NAN), (INF, 0.0, 0, 0), (0.0, INF, 1, 0), (0.0, 2.0, 1, 0)),
    *((0.0, 0.0, NAN, NAN), (1.0, 0.0, 0, 1), (0.5, 0.0, 0, INF), (2.0, 0.0, 0, 0), (-1.0, 2.0, NAN, NAN)),
    *((2.0, -1.0, NAN, NAN), (NAN, 2.0, NAN, NAN), (2.0, NAN, NAN, NAN), (NAN, INF, NAN, NAN), (INF, NAN, NAN, NAN)),
    *((NAN, 0.0, NAN, NAN), (1e300, 1.0, 0, 0), (1.0, 1e300, 1, 0)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("a", "x", "value", "gradient"), ENDS)
def test_incomplete_gamma_at_the_ends(a: float, x: float, value: float, gradient: float, dtype: str) -> None:
    with np.errstate(over="ignore"):
        order, start = np.array(a).astype(dtype), np.array(x).astype(dtype)
    for function, wanted, sign in ((rg.igamma, value, 1), (rg.igammac, 1 - value, -1)):
        t = Tensor(start.copy()).requires_grad_()
        y = function(Tensor(order), t)
        y.backward()
        assert t.grad is not None
        np.testing.assert_array_equal([y.item(), t.grad.item()], [wanted, sign * gradient])


@pytest.mark.parametrize(
    ("x", "i0e", "i1e"),
    [
        (0.5, -0.4886144672642784, 0.17577286089453498),
        (30.0, -0.0012296158835897392, -0.0011675951363651794),
        (1e3, -6.310198962627116e-06, -6.300731294301514e-06),
        (1e5, -6.307854959639557e-09, -6.307760341578615e-09),
        (1e8, -1.9947114094873313e-13, -1.99471137956666e-13),
        (INF, 0, 0),
    ],
)
def test_scaled_bessel_functions_far_out(x: float, i0e: float, i1e: float) -> None:
    for sign in (1, -1):
        for dtype, rtol in (("float64", 1e-10), ("float32", 1e-5)):
            found = [slopes(f, sign * x, dtype)[1] for f in (rg.special.i0e, rg.special.i1e)]
            np.testing.assert_allclose(found, [sign * i0e, i1e], rtol=rtol)


def test_bessel_functions_that_overflow() -> None:
    for x in (720.0, 1e6, 1.7e308, INF):
        assert slopes(rg.special.i0, x)[:2] == [INF, INF] and slopes(rg.special.i0, -x)[:2] == [INF, -INF]
        assert slopes(rg.special.i1, x)[:2] == [INF, INF] and slopes(rg.special.i1, -x)[:2] == [-INF, INF]
    assert slopes(rg.special.i1, 0.0)[:2] == [0, 0.5]

    top = Tensor(np.array(1.7e308))
    for function in (rg.special.i0e, rg.special.i1e):  # 1 / sqrt(2 pi x)
        assert function(top).item() == pytest.approx(3.0597476163882935e-155, rel=1e-12, abs=0)


def test_inverse_hyperbolic_functions_far_out() -> None:
    for dtype, far in (("float32", 1e20), ("float64", 1e160)):
        for function, x in ((rg.asinh, far), (rg.asinh, -far), (rg.acosh, far)):
            t = Tensor(np.array(x, dtype)).requires_grad_()
            (first,) = rg.autograd.grad(function(t), t, create_graph=True)
            assert first.item() == pytest.approx(1 / far, rel=1e-6, abs=0)
            assert abs(rg.autograd.grad(first, t)[0].item()) <= 1 / far
