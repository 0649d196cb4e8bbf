"""The context manager ``per_sample_gradients``: grad_sample follows the same rules as grad."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from nn.test_per_sample import CASES, WEIGHTS, loop, per_row
from ops.sets import textbook_at_night
from retrograd import Tensor, nn, optim
from retrograd.autograd import grad
from retrograd.utils.checkpoint import checkpoint

LOSS = per_row(WEIGHTS)


def network() -> nn.Sequential:
    layers = nn.Conv2d(1, 3, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(3, 2, 2, 2), nn.Flatten(), nn.Linear(72, 2)
    return nn.Sequential(*layers).double()


def images(count: int, seed: int = 2) -> Tensor:
    return Tensor(np.random.default_rng(seed).standard_normal((count, 1, 3, 3)))


def samples(model: nn.Module) -> dict[str, np.ndarray | None]:
    found = {name: p.grad_sample for name, p in model.named_parameters()}
    return {name: None if rows is None else rows.array.copy() for name, rows in found.items()}


def assert_rows(model: nn.Module, expected: dict[str, np.ndarray], factor: float = 1) -> None:
    """Check grad_sample, and that grad is its sum."""
    for name, parameter in model.named_parameters():
        if name not in expected:
            assert parameter.grad_sample is None
            continue
        rows = parameter.grad_sample
        assert rows is not None and not rows.requires_grad
        np.testing.assert_allclose(rows.array, factor * expected[name], rtol=1e-9, atol=1e-11, err_msg=name)
        np.testing.assert_allclose(parameter.grad.array, expected[name].sum(0), rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_against_a_loop(name: str) -> None:
    make, shape = CASES[name]
    model, x = make().double(), Tensor(np.random.default_rng(2).standard_normal(shape))
    expected = loop(model, LOSS, x)
    with rg.per_sample_gradients(model):
        LOSS(model(x)).sum().backward()
    assert_rows(model, expected)


def test_a_mean_gives_the_gradients_of_the_samples_own_losses() -> None:
    model, x = network(), images(5)
    expected = loop(model, LOSS, x)
    with rg.per_sample_gradients(model, loss_reduction="mean"):
        LOSS(model(x)).mean().backward()
    assert_rows(model, {name: rows / 5 for name, rows in expected.items()}, factor=5)


def test_requests() -> None:
    """ "add" adds as grad does, "write" replaces, "null" computes and touches nothing."""
    model, x = network(), images(4)
    expected = loop(model, LOSS, x)
    names = [name for name, _ in model.named_parameters()]
    kept = dict(model.named_parameters())
    kept[names[0]].grad_req, kept[names[1]].grad_req = "write", "null"
    kept[names[1]].grad_sample = before = Tensor(np.ones((4, *kept[names[1]].shape)))
    with rg.per_sample_gradients(model):
        for _ in range(3):
            LOSS(model(x)).sum().backward()
    found = samples(model)
    np.testing.assert_allclose(found[names[0]], expected[names[0]], rtol=1e-9, atol=1e-11)
    assert kept[names[1]].grad is None and kept[names[1]].grad_sample is before
    for name in names[2:]:
        np.testing.assert_allclose(found[name], 3 * expected[name], rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(kept[name].grad.array, 3 * expected[name].sum(0), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("by", ["model", "optimizer", "hand"])
def test_zero_grad_drops_them(by: str, set_to_none: bool) -> None:
    model = network()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with rg.per_sample_gradients(model):
        for count in (4, 3):  # another number of samples, too
            if by == "hand":
                for parameter in model.parameters():
                    parameter.grad = None
            else:
                (model if by == "model" else optimizer).zero_grad(set_to_none)
                assert all(rows is None for rows in samples(model).values())
            expected = loop(copy.deepcopy(model), LOSS, images(count))
            LOSS(model(images(count))).sum().backward()
            assert_rows(model, expected)


def test_batches_of_different_size_cannot_be_added() -> None:
    model = network()
    with rg.per_sample_gradients(model):
        LOSS(model(images(4))).sum().backward()
        before, grads = samples(model), [p.grad.array.copy() for p in model.parameters()]
        message = r"grad_sample of 4\.\w+ holds 4 samples, this batch 3; call zero_grad\(\)"
        with pytest.raises(ValueError, match=message):
            LOSS(model(images(3))).sum().backward()
        for (name, rows), g, p in zip(samples(model).items(), grads, model.parameters(), strict=True):
            np.testing.assert_array_equal(rows, before[name])  # nothing was delivered
            np.testing.assert_array_equal(p.grad.array, g)
        LOSS(model(images(4))).sum().backward()  # and nothing is left of what failed
        for name, rows in samples(model).items():
            np.testing.assert_allclose(rows, 2 * before[name], rtol=1e-9, atol=1e-11)


def test_only_backward_delivers() -> None:
    model, x = network(), images(4)
    expected = loop(model, LOSS, x)
    with rg.per_sample_gradients(model):
        loss = LOSS(model(x)).sum()
        grad(loss, list(model.parameters()), retain_graph=True)
        assert all(rows is None for rows in samples(model).values())
        loss.backward()
    assert_rows(model, expected)


def test_what_a_failed_backward_left_is_not_delivered() -> None:
    model, x = network(), images(4)
    expected = loop(model, LOSS, x)
    with rg.per_sample_gradients(model):
        hidden = model[0](x)

        def fail(g: Tensor) -> None:
            raise ArithmeticError("on purpose")

        handle = hidden.register_hook(fail)
        loss = LOSS(model[4](model[3](model[2](model[1](hidden))))).sum()
        with pytest.raises(ArithmeticError):
            loss.backward(retain_graph=True)
        assert all(rows is None for rows in samples(model).values())
        with pytest.raises(ValueError, match=r"the parameter 4\.weight is used by Pow.*, outside the forward of its"):
            (model[4].weight ** 2).sum().backward()
        assert model[4].weight.grad_sample is None and model[4].weight.grad is None
        model.zero_grad()
        handle.remove()
        LOSS(model(x)).sum().backward()
    assert_rows(model, expected)


def test_layers_without_a_rule_and_frozen_ones() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.s = nn.Parameter(np.array([2.0, 3.0]))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.s

    model, x = nn.Sequential(network(), Scale()), images(4)
    frozen = model[0][2].bias, *[each.weight for each in model.modules() if isinstance(each, nn.Conv2d)]
    for parameter in frozen:
        parameter.requires_grad_(False)
        expected = loop(model, LOSS, x)
        with rg.per_sample_gradients(model):
            LOSS(model(x)).sum().backward()
        assert parameter.grad is None
        assert_rows(model, expected)
        model.zero_grad()


def test_a_lazy_layer_and_an_activation_with_a_parameter() -> None:
    model, x = nn.Sequential(nn.LazyConv2d(3, 2, activation=nn.PReLU())), images(4)
    model.double()
    with rg.per_sample_gradients(model):
        LOSS(model(x)).sum().backward()
    found = samples(model)
    expected = loop(model, LOSS, x)
    for name in ("0.weight", "0.bias", "0.activation.weight"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-11)


def test_a_layer_used_twice_and_outputs_changed_in_place() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv1d(2, 2, 3, padding=1), nn.Conv1d(2, 2, 3, padding=1)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(self.b(x).tanh())
            y.tanh_()
            return self.a(y)

    model, x = Net().double(), Tensor(np.random.default_rng(2).standard_normal((3, 2, 5)))
    expected = loop(model, LOSS, x)
    with rg.per_sample_gradients(model):
        LOSS(model(x)).sum().backward()
    assert_rows(model, expected)


def test_a_checkpointed_part() -> None:
    model, x = network(), images(4)
    expected = loop(model, LOSS, x)
    with rg.per_sample_gradients(model):
        LOSS(model[4](checkpoint(lambda x: model[3](model[2](model[1](model[0](x)))), x))).sum().backward()
    assert_rows(model, expected)


def test_a_recorded_backward_delivers_the_same() -> None:
    model, x = network(), images(4)
    expected = loop(model, LOSS, x)
    with rg.per_sample_gradients(model):
        LOSS(model(x)).sum().backward(create_graph=True)
        assert_rows(model, expected)
        model.zero_grad()  # which breaks the circle of a gradient with a history


@pytest.mark.parametrize("layer", [lambda: nn.Linear(3, 3), lambda: nn.Conv1d(2, 2, 3, padding=1)])
@pytest.mark.parametrize("form", ["context", "function"])
def test_an_input_that_was_changed_is_refused(layer: Callable[[], Any], form: str) -> None:
    model = nn.Sequential(layer()).double()
    x = Tensor(np.ones((4, 2, 3)))

    def losses() -> Tensor:
        y = model(x)
        x.mul_(2)
        return y.sum(2).sum(1)

    with pytest.raises(RuntimeError, match="chang"):
        if form == "function":
            rg.per_sample_gradients(model, losses)
        else:
            with rg.per_sample_gradients(model):
                losses().sum().backward()


def test_the_end_of_the_block_and_the_next_one() -> None:
    model, x = network(), images(3)
    expected = loop(model, LOSS, x)
    context = rg.per_sample_gradients(model)
    with context:
        loss = LOSS(model(x)).sum()
    loss.backward()  # too late
    LOSS(model(x)).sum().backward()
    assert all(rows is None for rows in samples(model).values())
    assert not any(layer._hooks["forward"] for layer in model.modules() if hasattr(layer, "_hooks"))
    model.zero_grad()
    with context:
        LOSS(model(x)).sum().backward()
    assert_rows(model, expected)
    with context, pytest.raises(RuntimeError, match="a parameter of the module is already in such a context"):
        rg.per_sample_gradients(model[0]).__enter__()
    with pytest.raises(KeyError), context:
        raise KeyError
    with context:  # the block ended all the same
        pass


@textbook_at_night
@pytest.mark.parametrize("form", ["context", "function"])
def test_the_graph_is_freed_without_a_collection(form: str) -> None:
    model, x = network(), images(3)
    gc.collect()
    gc.disable()
    try:
        seen: list[Any] = []

        def losses() -> Tensor:
            hidden = model[0](x)
            seen.append(weakref.ref(hidden.grad_fn))
            return LOSS(model[4](model[3](model[2](model[1](hidden)))))

        if form == "function":
            rg.per_sample_gradients(model, losses)
        else:
            with rg.per_sample_gradients(model):
                losses().sum().backward()
                assert seen[0]() is None
        assert seen[0]() is None
    finally:
        gc.enable()


def test_copies_have_none() -> None:
    layer = nn.Linear(2, 2)
    assert layer.weight.grad_sample is None
    layer.weight.grad_sample = rg.ones(3, 2, 2)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other.weight.grad_sample is None
    layer.weight.grad_sample = None
    for value, error, message in (
        (rg.ones(3, 2), ValueError, r"expected float32 of shape \(N, \*\(2, 2\)\), got float32 of shape \(3, 2\)"),
        (rg.ones(3, 2, 2).double(), ValueError, "got float64"),
        (np.ones((3, 2, 2)), TypeError, "expected a Tensor or None, got ndarray"),
    ):
        with pytest.raises(error, match=message):
            layer.weight.grad_sample = value


def test_messages() -> None:
    model, norm = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), nn.BatchNorm1d(3)
    with pytest.raises(ValueError, match='loss_reduction=\'none\' must be "sum" or "mean"'):
        rg.per_sample_gradients(model, loss_reduction="none")
    with pytest.raises(ValueError, match="loss_reduction is for the context manager"):
        rg.per_sample_gradients(model, lambda: model(rg.ones(4, 3)).sum(1), loss_reduction="mean")
    message = r"the input of 0 \(Linear\(.*has shape \(4, 3\), axis 0 must hold the 2 samples"
    with rg.per_sample_gradients(model), pytest.raises(ValueError, match=message):
        model[1](model[0](rg.ones(4, 3)).reshape(2, 2, 2)).sum().backward()
    with rg.per_sample_gradients(norm), pytest.raises(ValueError, match="normalizes over the batch"):
        norm(rg.randn(4, 3))
    with rg.per_sample_gradients(model), pytest.raises(ValueError, match="with its input as the first positional"):
        model[0](input=rg.ones(4, 3))
