"""Anomaly detection names operator, module path, first index and the user's line, in forward and backward."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor, nn
from retrograd.autograd import (
    Function,
    detect_anomaly,
    grad,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from retrograd.engine.tensor import wrap
from retrograd.utils.checkpoint import checkpoint


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x * 1.0).sqrt()  # the bad line


def model() -> nn.Sequential:
    return nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity(), Root()))


def bad() -> Tensor:
    return Tensor(np.array([[1.0, 4.0], [9.0, -1.0]]), requires_grad=True)


def text_of(error: Any) -> str:
    return str(error.value)


def test_forward() -> None:
    with detect_anomaly(), pytest.raises(RuntimeError) as error:
        model()(bad())
    text = text_of(error)
    assert text.startswith("in 1.1 (Root()): Sqrt: its result contains NaN, the first at ")
    assert "at [1, 1] (1 of 4 elements, float64" in text
    assert "no argument contains any" in text
    assert re.search(r"called at .*test_anomaly\.py:\d+: return \(x \* 1\.0\)\.sqrt\(\)  # the bad line", text)


def test_forward_of_a_layer_names_the_users_line() -> None:
    layer = nn.Sequential(nn.Linear(2, 2))
    x = rg.tensor([[np.nan, 1.0]])
    with detect_anomaly(), pytest.raises(RuntimeError) as error:
        layer(x)  # here
    text = text_of(error)
    assert "argument 0 already contains NaN, the first at [0, 0]" in text
    assert re.search(r"called at .*: layer\(x\)  # here", text)


def test_without_a_graph() -> None:
    with detect_anomaly(), rg.no_grad(), pytest.raises(RuntimeError, match="Log: its result contains NaN"):
        rg.log(bad())
    x = rg.tensor([-1.0])
    with detect_anomaly(), rg.no_grad(), pytest.raises(RuntimeError, match="Div: its result contains NaN"):
        x.mul_(0.0).div_(x)


def test_infinity_is_no_anomaly() -> None:
    with detect_anomaly():
        assert np.isinf(rg.log(rg.tensor([0.0])).array).all()


class Fault(Function):
    """x; backward gives NaN where the gradient is largest."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return wrap(x.array * 1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        g = wrap(g.array.copy())
        g.array.flat[np.argmax(g.array)] = np.nan
        return g


class Faulty(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Fault.apply(x)  # the faulty line


@pytest.mark.parametrize("with_grad", [False, True])
def test_backward(with_grad: bool) -> None:
    net = nn.Sequential(nn.Identity(), nn.Sequential(Faulty()), nn.Tanh())
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    g = wrap(np.array([[0.0, 1.0, 0.0], [3.0, 0.0, 0.0]]))
    with detect_anomaly():
        y = net(x * 2.0)
        with pytest.raises(RuntimeError) as error:
            if with_grad:
                grad(y, x, g)
            else:
                y.backward(g)
    text = text_of(error)
    assert text.startswith("FaultBackward: the gradient of argument 0 contains NaN, the first at ")
    assert "at [1, 0] (1 of 6 elements," in text
    assert "no incoming gradient contains any" in text
    assert re.search(r"the forward of Fault in 1\.0 \(Faulty\(\)\), called at .*: return Fault\.apply\(x\)  #", text)
    assert x.grad is None


def test_an_upstream_gradient_with_nan_is_blamed() -> None:
    x = bad()
    with detect_anomaly():
        y = x * x
        with pytest.raises(RuntimeError, match="MulBackward: .*incoming gradient 0 already contains NaN, the first at"):
            y.backward(wrap(np.full((2, 2), np.nan)))


def test_an_error_in_backward_is_explained() -> None:
    class Broken(Fault):
        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise ZeroDivisionError

    class Layer(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return Broken.apply(x)  # this one

    for check_nan in (True, False):
        with detect_anomaly(check_nan):
            y = nn.Sequential(Layer())(bad())
        with pytest.raises(ZeroDivisionError) as error:
            y.backward(wrap(np.ones((2, 2))))
        (note,) = error.value.__notes__
        assert re.search(r"backward of .*Broken in 0 \(Layer\(\)\), called at .*: return Broken\.apply\(x\)  #", note)


def test_check_nan_false_lets_nan_pass() -> None:
    with detect_anomaly(check_nan=False):
        y = model()(bad())
        y.backward(wrap(np.ones((2, 2))))
    assert np.isnan(y.array[1, 1])


def test_switching() -> None:
    assert not is_anomaly_enabled()
    with detect_anomaly():
        assert is_anomaly_enabled() and is_anomaly_check_nan_enabled()
        with set_detect_anomaly(True, check_nan=False):
            assert is_anomaly_enabled() and not is_anomaly_check_nan_enabled()
            with set_detect_anomaly(False):
                assert not is_anomaly_enabled()
        assert is_anomaly_check_nan_enabled()
    assert not is_anomaly_enabled()
    set_detect_anomaly(True)
    try:
        with pytest.raises(RuntimeError, match="Sqrt"):
            rg.sqrt(bad())
        assert is_anomaly_enabled()
    finally:
        set_detect_anomaly(False)
    for wrong in (lambda: set_detect_anomaly(1), lambda: set_detect_anomaly(True, 0), lambda: detect_anomaly("x")):
        with pytest.raises(TypeError, match="expected True or False"):
            wrong()


def test_results_are_the_same() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x, found = rg.randn(5, 3), []
    for watched in (False, True):
        net.zero_grad()
        with set_detect_anomaly(watched):
            loss = (net(x).reshape(-1) * 2.0).sum()
            loss.backward()
        found.append([loss.array, *(p.grad.array for p in net.parameters())])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_inside_a_checkpoint() -> None:
    x = bad()
    with detect_anomaly(), pytest.raises(RuntimeError, match="Sqrt: its result contains NaN"):
        checkpoint(lambda x: x.sqrt() * 1.0, x)

    def inside(x: Tensor) -> Tensor:
        with detect_anomaly(check_nan=False):
            assert is_anomaly_enabled()
            y = x.exp()
        assert not is_anomaly_enabled()
        return y * y

    np.testing.assert_allclose(grad(checkpoint(inside, x).sum(), x)[0].array, 2 * np.exp(2 * x.array))
