"""Elementwise operators, reductions, shapes and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, distinct, normal, uniform

Operator = Callable[..., Any]

UNARY: dict[str, tuple[Operator, np.ndarray]] = {
    "neg": (lambda x: -x, normal(3, 4)),
    "exp": (lambda x: x.exp(), normal(3, 4)),
    "log": (lambda x: x.log(), uniform(0.1, 5, 3, 4)),
    "sqrt": (lambda x: x.sqrt(), uniform(0.1, 5, 3, 4)),
    "relu": (lambda x: x.relu(), normal(3, 4)),
    "sigmoid": (lambda x: x.sigmoid(), normal(3, 4) * 4),
    "tanh": (lambda x: x.tanh(), normal(3, 4) * 2),
    "pow": (lambda x: x**3, normal(3, 4)),
    "fractional pow": (lambda x: x**-1.5, uniform(0.5, 3, 3, 4)),
    "scalars": (lambda x: 2.0 - 3.0 * x / 4.0 + 1.0 / x, uniform(0.5, 3, 3, 4)),
    "sum": (lambda x: x.sum(), normal(3, 4, 5)),
    "sum of axes": (lambda x: x.sum((0, -1)), normal(3, 4, 5)),
    "sum kept": (lambda x: x.sum(1, keepdim=True), normal(3, 4, 5)),
    "mean": (lambda x: x.mean(), normal(3, 4, 5)),
    "mean of axes": (lambda x: x.mean((1, 2), keepdim=True), normal(3, 4, 5)),
    "max": (lambda x: x.max(), distinct(3, 4, 5)),
    "max of axis": (lambda x: x.max(1)[0], distinct(3, 4, 5)),
    "max of axis kept": (lambda x: x.max(-1, keepdim=True)[0], distinct(3, 4, 5)),
    "reshape": (lambda x: x.reshape(6, -1), normal(3, 4, 5)),
    "permute": (lambda x: x.permute(2, 0, 1), normal(3, 4, 5)),
    "transpose": (lambda x: x.transpose(0, -1), normal(3, 4, 5)),
    "expand": (lambda x: x.expand(3, 4, 5), normal(3, 1, 5)),
    "slices": (lambda x: x[1:, ::2, None, -1], normal(3, 4, 5)),
    "ellipsis": (lambda x: x[..., 1:3], normal(3, 4, 5)),
    "single": (lambda x: x[2], normal(3, 4, 5)),
}

BINARY: dict[str, Operator] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}

BROADCASTS = [
    ((3, 4), (3, 4)),
    ((3, 4), (4,)),
    ((3, 1, 5), (4, 1)),
    ((), (2, 3)),
    ((2, 3, 4), (2, 3, 4)),
    ((0, 3), (3,)),
]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    operator, x = UNARY[name]
    assert_agree(operator, operator, x)


@pytest.mark.parametrize("name", ["exp", "log", "relu", "sigmoid", "tanh", "sqrt"])
def test_values_over_the_whole_range_float32(name: str) -> None:
    span = np.concatenate([np.linspace(-110, 110, 20001), np.logspace(-44, 38, 4001), [0, np.inf, -np.inf, np.nan]])
    x = span.astype(np.float32)
    mine = getattr(retrograd, name)(retrograd.tensor(x))
    assert_close(mine, getattr(torch, name)(torch.tensor(x)), name, tolerance=2e-6)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", BROADCASTS, ids=str)
def test_binary(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    x, y = normal(*shapes[0]), np.asarray(uniform(0.5, 2, *shapes[1], seed=1))
    assert_agree(BINARY[name], BINARY[name], np.asarray(x), y)


@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 5))],
    ids=str,
)
def test_matmul(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    assert_agree(lambda x, y: x @ y, lambda x, y: x @ y, normal(*shapes[0]), normal(*shapes[1], seed=1))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (17, 33, 65), (128, 64, 96), (5, 300, 2)], ids=str)
def test_matmul_float32(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = normal(m, k, dtype=np.float32), normal(k, n, seed=1, dtype=np.float32)
    assert_agree(lambda x, y: x @ y, lambda x, y: x @ y, a, b)


def test_indices_of_the_maximum() -> None:
    x = np.array([[1.0, 5.0, 5.0], [np.nan, 2.0, np.nan], [3.0, 2.0, 1.0]])
    mine, yours = retrograd.tensor(x).max(1), torch.tensor(x).max(1)
    assert_close(mine[1], yours[1], "indices")
    np.testing.assert_array_equal(mine[0].numpy(), yours[0].numpy())
