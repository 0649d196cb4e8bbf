"""Overhead of backward rules: the same work without rules, and with the true backward as the rule of each layer.

The ratio is the time without rules to the time with them.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import retrograd
from retrograd import nn
from retrograd.nn import functional

from .. import libraries as lib
from ..harness import Call, Row, Rows
from ..models import lenet

TARGET = 0.97
WITHOUT = "retrograd without rules"


def true_backward(true: Any, g: Any) -> Any:
    return true(g)


def rows(quick: bool, compile: bool) -> Rows:
    for n, channels, extent in ((8, 64, 56), (8, 128, 28)) if not quick else ((8, 64, 28),):
        yield _convolution(n, channels, extent)
    for batch in (64,) if quick else (16, 64, 256):
        yield _network(batch)


def _convolution(n: int, channels: int, extent: int) -> Row:
    plain = nn.Conv2d(channels, channels, 3, padding=1)
    ruled = copy.deepcopy(plain)
    ruled.backward_rule = true_backward
    shape = (n, channels, extent, extent)
    x, g = lib.ours(lib.random(*shape), requires_grad=True), lib.ours(lib.random(*shape, seed=1))

    def step(layer: nn.Module) -> list[Any]:
        return [*retrograd.autograd.grad(layer(x), (x, *layer.parameters()), g)]

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(a.numpy(), b.numpy()) for a, b in zip(step(ruled), step(plain), strict=True)]

    name = f"Conv2d k3, {channels} channels of {extent}x{extent}, batch {n}"
    return Row("a rule that changes nothing", name, lambda: step(ruled), {WITHOUT: lambda: step(plain)}, TARGET, values)


def _network(batch: int) -> Row:
    retrograd.manual_seed(0)
    plain = lenet(nn)
    ruled = copy.deepcopy(plain)
    for layer in ruled.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            layer.backward_rule = true_backward
    images = retrograd.Tensor(lib.random(batch, 1, 28, 28))
    labels = retrograd.Tensor(np.arange(batch, dtype=np.int64) % 10)

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        pairs = zip(_gradients(ruled, images, labels), _gradients(plain, images, labels), strict=True)
        return [(a.numpy(), b.numpy()) for a, b in pairs]

    calls: list[Call] = [lambda net=net: _gradients(net, images, labels) for net in (ruled, plain)]
    name = f"LeNet, each layer, batch {batch}"
    return Row("a rule that changes nothing", name, calls[0], {WITHOUT: calls[1]}, TARGET, values)


def _gradients(net: Any, images: Any, labels: Any) -> list[Any]:
    net.zero_grad()
    functional.cross_entropy(net(images), labels).backward()
    return [parameter.grad for parameter in net.parameters()]
