"""gradcheck(surrogate=...): the declared gradient of a function, against differences of another function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor, lowbit
from retrograd.autograd import GradcheckError, gradcheck


def leaf(*values: float) -> Tensor:
    return Tensor(np.array(values), requires_grad=True)


def sign(gradient: str) -> Any:
    return lambda x: lowbit.Sign(gradient).activation(x, {})


X = leaf(-3.0, -0.9, -0.3, 0.2, 0.7, 2.5)
SMOOTH: dict[str, Any] = {
    "identity": lambda x: x * 1.0,
    "clipped": lambda x: x.clamp(-1.0, 1.0),
    "polynomial": lambda x: 2.0 * x.clamp(-1.0, 1.0) - x.clamp(-1.0, 1.0) * x.clamp(-1.0, 1.0).abs(),
    "swish": lambda x: 2.0 * retrograd.sigmoid(5.0 * x) * (1.0 + 5.0 * x * (1.0 - retrograd.sigmoid(5.0 * x))) - 1.0,
}


@pytest.mark.parametrize("declared", SMOOTH)
@pytest.mark.parametrize("other", SMOOTH)
def test_every_sign_has_the_gradient_of_its_own_surrogate(declared: str, other: str) -> None:
    """It does not have the gradient of another surrogate; without one, the derivative of the step function is 0."""
    report = gradcheck(sign(declared), X, surrogate=SMOOTH[other], raise_exception=False)
    assert bool(report) is (declared == other)
    if declared != other:
        assert str(report).startswith("gradcheck against the surrogate failed:")
        assert "numeric (of the surrogate) " in str(report)


def test_a_fault_is_diagnosed() -> None:
    @retrograd.formula
    def hard(x):  # type: ignore[no-untyped-def]
        return retrograd.where(x >= 0.0, x * 0.0 + 1.0, x * 0.0 - 1.0)

    @hard.gradient
    def hard_grad(g, x):  # type: ignore[no-untyped-def]
        return g * 2.0

    with pytest.raises(GradcheckError, match=r"analytic 2, numeric \(of the surrogate\) 1"):
        gradcheck(hard, X, surrogate=SMOOTH["identity"])
    assert gradcheck(hard, X, surrogate=lambda x: 2.0 * x)
    with pytest.raises(GradcheckError, match="numeric 0,"):
        gradcheck(hard, X)


def test_several_inputs_and_outputs() -> None:
    """Learned ranges: the gradient of PACT's limit is that of the clipped function without rounding."""
    alpha, x = leaf(1.25), leaf(-1.0, 0.3, 1.2, 2.0)
    quantizer = lowbit.PACT(4)

    def quantized(x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        return quantizer.activation(x, {"alpha": alpha}), x * 1.0

    def clipped(x: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        return retrograd.where(x > alpha, alpha, x).clamp(0.0), x * 1.0

    assert gradcheck(quantized, (x, alpha), surrogate=clipped)


@pytest.mark.parametrize(
    ("surrogate", "error", "message"),
    [
        (lambda x: x.sum(), ValueError, r"output 0 of func has shape \(6,\), the surrogate returns shape \(\) there"),
        (lambda x: [], ValueError, r"the surrogate returns nothing there; it takes the same inputs"),
        (lambda x: 3.0, TypeError, "gradcheck: output 0 of surrogate is float, expected a Tensor"),
        ("clip", TypeError, "gradcheck: surrogate is str, expected a function of the inputs"),
    ],
)
def test_refusals(surrogate: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        gradcheck(sign("identity"), X, surrogate=surrogate)
