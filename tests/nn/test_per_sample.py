"""Per-sample gradients are those of a loop over the samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor, nn
from retrograd.engine.tensor import wrap
from retrograd.nn.utils import per_sample_gradients, register_per_sample_rule
from retrograd.nn.utils import per_sample_rules as rules


def loop(model: nn.Module, loss: Callable[[Tensor], Tensor], x: Tensor) -> dict[str, np.ndarray]:
    """One sample at a time."""
    rows: dict[str, list[np.ndarray]] = {}
    for n in range(x.shape[0]):
        model.zero_grad()
        loss(model(Tensor(x.array[n : n + 1].copy()))).sum().backward()
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                gradient = np.zeros_like(parameter.array) if parameter.grad is None else parameter.grad.array.copy()
                rows.setdefault(name, []).append(gradient)
    model.zero_grad()
    return {name: np.stack(row) for name, row in rows.items()}


def per_row(weights: np.ndarray) -> Callable[[Tensor], Tensor]:
    """Return a nonlinear loss for each sample with different gradients everywhere."""

    def loss(y: Tensor) -> Tensor:
        z = (y * y * 0.5 + y.sigmoid()).reshape(y.shape[0], -1)
        return (z * wrap(weights[: z.shape[1]])).sum(1)

    return loss


WEIGHTS = np.random.default_rng(5).uniform(-1, 1, 10_000)
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(3, 4), (5, 3)),
    "linear of sequences": (lambda: nn.Linear(3, 2), (4, 2, 5, 3)),
    "no bias": (lambda: nn.Linear(3, 4, bias=False), (5, 3)),
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, padding=1), (4, 2, 7)),
    "conv2d": (lambda: nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), groups=2), (3, 4, 7, 6)),
    "conv2d, same, dilated": (lambda: nn.Conv2d(2, 3, 3, padding="same", dilation=2, bias=False), (3, 2, 6, 5)),
    "conv2d, circular, activation": (
        lambda: nn.Conv2d(2, 3, 3, padding="same", padding_mode="circular", activation="tanh"),
        (3, 2, 4, 5),
    ),
    "transposed, reflect, activation": (
        lambda: nn.ConvTranspose1d(2, 4, 3, 2, groups=2, padding_mode="reflect", activation=nn.SiLU()),
        (3, 2, 4),
    ),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 5, 5)),
    "conv3d": (lambda: nn.Conv3d(2, 2, 2), (2, 2, 3, 4, 3)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), (3, 4, 3, 4)),
    "one sample": (lambda: nn.Conv2d(2, 3, 3), (1, 2, 4, 4)),
    "batch norm": (lambda: _moved(nn.BatchNorm2d(3)).eval(), (4, 3, 2, 2)),
    "a network": (
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 4, 3, padding=1), _moved(nn.BatchNorm2d(4)), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(4, 3, 3), nn.Flatten(), nn.Linear(12, 5), nn.Tanh(), nn.Linear(5, 2)),
        ).eval(),
        (6, 1, 8, 8),
    ),
}


def _moved(layer: Any) -> Any:
    rng = np.random.default_rng(1)
    for tensor in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
        tensor.array[...] = rng.uniform(0.5, 2, tensor.shape)
    return layer


def check(model: nn.Module, x: Tensor) -> None:
    loss = per_row(WEIGHTS)
    expected = loop(model, loss, x)
    actual = per_sample_gradients(model, lambda: loss(model(x)))
    assert list(actual) == list(expected)
    for name, e in expected.items():
        assert actual[name].shape == e.shape and not actual[name].requires_grad
        np.testing.assert_allclose(actual[name].array, e, rtol=1e-9, atol=1e-11, err_msg=name)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", CASES)
def test_against_a_loop(name: str) -> None:
    make, shape = CASES[name]
    check(make().double(), Tensor(np.random.default_rng(2).standard_normal(shape)))


@pytest.mark.parametrize("name", ["LayerNorm", "GroupNorm", "InstanceNorm2d", "RMSNorm"])
def test_other_norms(name: str) -> None:
    arguments = {
        "LayerNorm": ((4, 2),),
        "GroupNorm": (2, 4),
        "InstanceNorm2d": (4, 1e-5, 0.1, True),
        "RMSNorm": ((4, 2),),
    }
    layer = getattr(nn, name)(*arguments[name]).double()
    for parameter in layer.parameters():
        parameter.array[...] = np.random.default_rng(1).uniform(0.5, 2, parameter.shape)
    check(layer, Tensor(np.random.default_rng(2).standard_normal((3, 4, 4, 2))))


def test_embedding() -> None:
    model = nn.Sequential(nn.Embedding(6, 3, padding_idx=2), nn.Linear(3, 2)).double()
    check(model, Tensor(np.random.default_rng(3).integers(0, 6, (5, 4))))
    model[0].scale_grad_by_freq = True
    with pytest.raises(ValueError, match="scale_grad_by_freq counts over the whole batch"):
        check(model, Tensor(np.zeros((2, 2), np.int64)))


def test_a_layer_used_twice_and_a_shared_parameter() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(3, 3)
            self.b = nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.a(self.b(self.a(x).tanh())).tanh()

    check(Net().double(), Tensor(np.random.default_rng(2).standard_normal((4, 3))))


def test_frozen_unused_and_changed_in_place() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.unused = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(2, 2)
            self.a.weight.requires_grad_(False)
            self.b.bias.grad_req = "null"

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            y.tanh_()
            return self.b(y)

    model, x = Net().double(), Tensor(np.random.default_rng(2).standard_normal((4, 3)))
    loss = per_row(WEIGHTS)
    expected = loop(model, loss, x)
    actual = per_sample_gradients(model, lambda: loss(model(x)))
    assert list(actual) == ["a.bias", "b.weight", "unused.weight", "unused.bias"]
    for name, gradient in actual.items():
        np.testing.assert_allclose(gradient.array, expected[name], rtol=1e-9, atol=1e-12)


def test_a_rule_of_ones_own() -> None:
    class Scale(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.s = nn.Parameter(np.array([2.0, 3.0]))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.s

    model, x = Scale(), Tensor(np.random.default_rng(2).standard_normal((4, 2)))
    check(model, x)  # one sample at a time
    register_per_sample_rule(Scale, lambda call, g: {"s": g * call.x})
    try:
        check(model, x)
        rules._RULES[Scale] = (lambda call, g: {"s": g * call.x * 3}), None  # a wrong one, to see which is used
        with pytest.raises(AssertionError):
            check(model, x)

        class Shifted(Scale):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) + self.s

        check(Shifted(), x)
        rules._RULES[Scale] = (lambda call, g: {}), None
        with pytest.raises(ValueError, match=r"the rule of the module \(Scale.*\) returned no gradient"):
            check(model, x)
    finally:
        del rules._RULES[Scale]


def test_messages() -> None:
    model, x = nn.Sequential(nn.Linear(3, 2)), rg.ones(4, 3)
    with pytest.raises(TypeError, match=r"losses returned a Tensor of shape \(\), expected one loss per sample"):
        per_sample_gradients(model, lambda: model(x).sum())
    with pytest.raises(TypeError, match="losses returned float"):
        per_sample_gradients(model, lambda: 1.0)
    with pytest.raises(RuntimeError, match="the losses do not depend on any parameter"):
        per_sample_gradients(model, lambda: x.sum(1))
    with rg.no_grad(), pytest.raises(TypeError, match="gradients are disabled"):
        per_sample_gradients(model, lambda: model(x).sum(1))
    with pytest.raises(ValueError, match=r"input of 0 \(Linear\(.*has shape \(4, 3\), axis 0 must hold the 2 samples"):
        per_sample_gradients(model, lambda: model(x).reshape(2, 4).sum(1))
    norm = nn.BatchNorm1d(3)
    with pytest.raises(ValueError, match="normalizes over the batch, which mixes the samples; call eval"):
        per_sample_gradients(norm, lambda: norm(rg.randn(4, 3)).sum(1))
    conv = nn.Conv2d(1, 2, 2)
    with pytest.raises(ValueError, match="was called without a batch axis"):
        per_sample_gradients(conv, lambda: conv(rg.ones(1, 3, 3)).sum(2).sum(1))
    with pytest.raises(TypeError, match="layer must be a subclass of Module"):
        register_per_sample_rule(int, lambda call, g: {})
    assert not model[0]._hooks["forward"] and model(x).shape == (4, 2)  # the hooks are gone, errors or not
