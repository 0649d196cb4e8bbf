"""Gradients of RNN, LSTM and GRU: of first and second order, after in-place changes, and in segments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from nn.test_recurrent import KINDS, close, made, normal
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.engine.tensor import Tensor


def test_gradients_to_inputs_states_and_weights() -> None:
    """Through layers, directions, lengths and a projection."""
    layer = made("LSTM", 2, 3, 2, bidirectional=True, proj_size=2)
    inputs = [normal(3, 2, 2), normal(4, 2, 2, seed=1), normal(4, 2, 3, seed=2)]
    leaves = [Tensor(t.array, requires_grad=True) for t in inputs]

    def outputs(x: Tensor, h: Tensor, c: Tensor) -> list[Tensor]:
        y, (h, c) = layer(x, (h, c), [2, 3])
        return [y, h, c]

    def combined(*inputs: Tensor) -> Tensor:
        return sum((t * normal(*t.array.shape, seed=9)).sum() for t in outputs(*inputs))  # type: ignore[return-value]

    gradcheck(combined, leaves)
    ups = [normal(*t.array.shape, seed=9) for t in outputs(*leaves)]
    for name in ("weight_hh_l0", "weight_hr_l1_reverse", "bias_ih_l1"):
        p, loss = getattr(layer, name), lambda: sum((t * u).sum() for t, u in zip(outputs(*inputs), ups, strict=True))
        layer.zero_grad()
        loss().backward()
        direction = normal(*p.array.shape, seed=3).array
        values = []
        for sign in (1, -1):
            p.array += sign * 1e-6 * direction
            values.append(loss().item())
            p.array -= sign * 1e-6 * direction
        slope = (values[0] - values[1]) / 2e-6
        assert abs((p.grad.array * direction).sum() - slope) <= 1e-6 * max(1, abs(slope)), name


def test_second_order() -> None:
    layer = made("LSTM", 2, 3, bidirectional=True, proj_size=2)
    inputs = [normal(2, 2, 2), normal(2, 2, 2, seed=1), normal(2, 2, 3, seed=2)]
    leaves = [Tensor(t.array, requires_grad=True) for t in inputs]
    gradgradcheck(lambda x, h, c: layer(x, (h, c), [2, 1])[0].cos().sum(), leaves)


def test_frozen_weights_do_not_cut_the_gradient() -> None:
    """MXNet's GRU and RNN stopped after one step if the weights were frozen; lower layers got none if x was frozen."""
    for kind in KINDS:
        layer, x = made(kind, 3, 4, 2), normal(5, 2, 3, requires_grad=True)
        y = layer(x)[0]
        g = normal(*y.shape, seed=4)
        y.backward(g)
        wanted, of_weights = x.grad.array.copy(), layer.weight_ih_l0.grad.array.copy()
        x.grad = None
        layer.requires_grad_(False)
        layer(x)[0].backward(g)
        close(x.grad, wanted)
        layer.requires_grad_(True)
        layer.zero_grad()
        layer(x.detach())[0].backward(g)
        close(layer.weight_ih_l0.grad, of_weights)


def test_several_forwards_are_outstanding() -> None:
    layer = made("LSTM", 3, 4).eval()
    one, two = normal(5, 2, 3), normal(4, 3, 3, seed=1)
    a, b = layer(one)[0], layer(two)[0]
    a.backward(normal(*a.shape))
    first = layer.weight_hh_l0.grad.array.copy()
    b.backward(normal(*b.shape))
    both = layer.weight_hh_l0.grad.array.copy()
    layer.zero_grad()
    layer(one)[0].backward(normal(*a.shape))
    close(layer.weight_hh_l0.grad, first)
    layer(two)[0].backward(normal(*b.shape))
    close(layer.weight_hh_l0.grad, both)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_that_failed_behind_the_layer_leaves_no_wrong_gradients(kind: str) -> None:
    """Kernels overwrite saved arrays if the graph is not retained."""
    layer, x = made(kind, 3, 4), normal(5, 2, 3, requires_grad=True)
    y, g = layer(x)[0], normal(5, 2, 4, seed=1)
    g.array[0, 0, 0] = np.nan
    with retrograd.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="contains NaN"):
        y.backward(g)
    with pytest.raises(RuntimeError, match="the saved tensors were freed by an earlier backward"):
        y.backward(normal(5, 2, 4, seed=1))
    assert x.grad is None


CHANGED: list[dict[str, Any]] = [{}, {"bidirectional": True}, {"checkpoint": 2}, {"algorithm": "composed"}]


@pytest.mark.parametrize("options", CHANGED, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_is_changed_in_place(kind: str, options: dict[str, Any]) -> None:
    """The gradient is still correct, or backward raises an error."""
    layer, x = made(kind, 3, 4, **options), normal(5, 2, 3, requires_grad=True)
    leaves = [x, *layer.parameters()]

    def results() -> list[Tensor]:
        y, states = layer(x)
        return [y, *(states if kind == "LSTM" else [states])]

    for place in range(len(results())):
        gs = [normal(*t.shape, seed=n) for n, t in enumerate(results())]
        wanted = retrograd.autograd.grad([t * 3.0 if n == place else t for n, t in enumerate(results())], leaves, gs)
        outputs = results()
        outputs[place].mul_(3.0)
        try:
            found = retrograd.autograd.grad(outputs, leaves, gs)
        except RuntimeError as error:
            assert "was changed in place after it had been saved" in str(error) and place == 0
            continue
        for mine, theirs in zip(found, wanted, strict=True):
            close(mine, theirs.array)


OF_OPERATORS = {
    "RNN": {"zoneout": 0.3},
    "LSTM": {"layer_norm": True, "recurrent_dropout": 0.3, "zoneout": (0.2, 0.0)},
    "GRU": {"reset_after": False, "variational_dropout": 0.4, "dropout": 0.0},
}


@pytest.mark.pairwise
@pytest.mark.parametrize("options", [{}, OF_OPERATORS], ids=["fused", "composed"])
@pytest.mark.parametrize("kind", KINDS)
def test_checkpoint_keeps_values_and_gradients(kind: str, options: dict[str, Any]) -> None:
    """Checkpointed layers give the same values and gradients, with the same random draws."""

    def outcome(**how: Any) -> tuple[np.ndarray, list[np.ndarray]]:
        layer, x = made(kind, 3, 4, 2, bidirectional=True, **options.get(kind, {}), **how), normal(7, 2, 3)
        x.requires_grad = True
        retrograd.manual_seed(5)
        y = layer(x)[0]
        y.backward(normal(*y.shape, seed=2))
        return y.array, [t.grad.array for t in (x, *layer.parameters())]

    y, gs = outcome()
    for every in (1, 3, "auto"):
        z, others = outcome(checkpoint=every)
        np.testing.assert_allclose(z, y, rtol=1e-12, atol=1e-14)  # products of fewer steps may add in another order
        for one, other in zip(gs, others, strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-12)
