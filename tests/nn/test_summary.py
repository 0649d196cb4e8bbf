"""summary(): the table of a model's layers, which leaves the model unchanged."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import nn
from retrograd.engine.tensor import Tensor


class Net(nn.Module):
    """A shared layer, a layer that is never called, a product without a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.shared = nn.Linear(64, 64)
        self.head = nn.Linear(64, 10)
        self.spare = nn.Linear(2, 2)
        self.dropout = nn.Dropout()
        self.head.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x).flatten(1)
        x = self.shared(self.shared(x))
        x = x + x @ self.shared.weight
        return self.head(self.dropout(x))


TABLE = """\
Layer       Type         Output        Parameters  Multiply-adds   Memory
-------------------------------------------------------------------------
(model)     Net          (2, 10)                -          8,192        -
features    Sequential   (2, 4, 4, 4)           -              -        -
features.0  Conv2d       (2, 4, 8, 8)          36          4,608  2.0 KiB
features.1  BatchNorm2d  (2, 4, 8, 8)           8              -  2.0 KiB
features.2  ReLU         (2, 4, 8, 8)           -              -  2.0 KiB
features.3  MaxPool2d    (2, 4, 4, 4)           -              -    512 B
shared      Linear       (2, 64)            4,160          8,192    512 B
shared      Linear       (2, 64)            again          8,192    512 B
dropout     Dropout      (2, 64)                -              -        -
head        Linear       (2, 10)              650          1,280     80 B
-------------------------------------------------------------------------
Parameters: 4,860 (4,210 trainable), with buffers 19.0 KiB
Multiply-adds: 30,464
Outputs: 7.6 KiB
Not called: spare"""


def test_the_table() -> None:
    table = retrograd.summary(Net(), (2, 1, 8, 8))
    lines = [line.rstrip() for line in str(table).splitlines()]
    assert lines == TABLE.splitlines()
    assert repr(table) == str(table)
    assert table.multiply_adds == sum(row.multiply_adds for row in table.rows)
    assert table.rows[0].path == "" and table.rows[0].output == [(2, 10)]


def test_the_model_is_as_before() -> None:
    net = Net().train()
    net.features[3].eval()
    forward = net.shared.forward
    net.shared.forward = forward  # an instance may have its own
    before = {key: value.numpy().copy() for key, value in net.state_dict().items()}
    members = [dict(module.__dict__) for module in net.modules()]
    state = retrograd.get_rng_state()
    kernel = retrograd.kernels.compiled.matmul
    retrograd.summary(net, (2, 1, 8, 8))
    assert net.training and not net.features[3].training
    assert [dict(module.__dict__) for module in net.modules()] == members
    assert str(retrograd.get_rng_state()) == str(state)
    assert all(p.grad is None for p in net.parameters())
    for key, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[key])
    assert retrograd.kernels.compiled.matmul is kernel


def test_a_model_that_fails_is_as_before_too() -> None:
    net = Net().train()
    with pytest.raises(ValueError, match=r"in features.0 .*input has 3 channels"):
        retrograd.summary(net, (2, 3, 8, 8))
    assert net.training and "forward" not in net.__dict__ and "forward" not in net.features[0].__dict__


class Counter(nn.Module):
    """Changes its buffer in eval mode, and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", Tensor(np.zeros(1)))

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        self.calls.array += 1
        return x + retrograd.rand(*x.shape), {"y": y}


def test_several_inputs_and_outputs() -> None:
    net = Counter()
    state = str(retrograd.get_rng_state())
    x, y = retrograd.zeros(2, 3), retrograd.zeros(4)
    for table in (
        retrograd.summary(net, [(2, 3), (4,)]),
        retrograd.summary(net, inputs=(x, y)),
        retrograd.summary(net, inputs={"y": y, "x": x}),
    ):
        (row,) = table.rows
        assert row.output == [(2, 3), (4,)] and row.memory == 24  # y is no new memory
    assert net.calls.array[0] == 0 and str(retrograd.get_rng_state()) == state
    retrograd.summary(nn.ReLU(), inputs=x)


@pytest.mark.parametrize(
    ("make", "size", "expected"),
    [
        (lambda: nn.Conv2d(4, 6, 3, stride=2, groups=2), (2, 4, 9, 9), 2 * 6 * 16 * 2 * 9),
        (lambda: nn.ConvTranspose1d(4, 6, 5), (2, 4, 7), 2 * 4 * 7 * 6 * 5),
        (lambda: nn.Linear(3, 5), (2, 7, 3), 2 * 7 * 3 * 5),
    ],
)
def test_multiply_adds(make: Any, size: tuple[int, ...], expected: int) -> None:
    assert retrograd.summary(make(), size).multiply_adds == expected


@pytest.mark.parametrize("need_weights", [True, False])
def test_multiply_adds_of_attention(need_weights: bool) -> None:
    x = retrograd.zeros(5, 2, 8)
    inputs = {"query": x, "key": x, "value": x, "need_weights": need_weights}
    table = retrograd.summary(nn.MultiheadAttention(8, 2), inputs=inputs)
    assert table.multiply_adds == 4 * 10 * 8 * 8 + 2 * 2 * 2 * 5 * 5 * 4


def test_float64() -> None:
    assert retrograd.summary(nn.Linear(2, 3, dtype=np.float64), (4, 2)).rows[0].memory == 4 * 3 * 8


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((3, (1,)), {}, TypeError, "summary: model must be a Module, got int"),
        ((nn.ReLU(),), {}, ValueError, "summary: give either input_size (a shape, or a list of shapes) or inputs"),
        ((nn.ReLU(), (1,)), {"inputs": 1}, ValueError, "give either input_size"),
        ((nn.ReLU(), 3), {}, ValueError, "summary: input_size=3 must be a shape"),
        ((nn.ReLU(), (2, "a")), {}, ValueError, "input_size=(2, 'a') must be a shape"),
    ],
)
def test_messages(arguments: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        retrograd.summary(*arguments, **options)
