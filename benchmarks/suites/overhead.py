"""Overhead of one operator: forward and backward on 4 elements, including the graph and the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as functional

from .. import libraries as lib
from ..harness import Call, Row, Rows

TARGET = 1.0
Operator = Callable[..., Any]

# name -> the operator in both libraries and the shapes of its inputs
OPERATORS: dict[str, tuple[Operator, Operator, tuple[tuple[int, ...], ...]]] = {
    "add": (retrograd.add, torch.add, ((4,), (4,))),
    "mul": (retrograd.mul, torch.mul, ((4,), (4,))),
    "mul, broadcast": (retrograd.mul, torch.mul, ((2, 2), (2,))),
    "exp": (retrograd.exp, torch.exp, ((4,),)),
    "relu": (retrograd.relu, torch.relu, ((4,),)),
    "sum": (retrograd.sum, torch.sum, ((4,),)),
    "mean of an axis": (lambda x: x.mean(1), lambda x: x.mean(1), ((2, 2),)),
    "softmax": (lambda x: x.softmax(0), lambda x: x.softmax(0), ((4,),)),
    "reshape": (lambda x: x.reshape(2, 2), lambda x: x.reshape(2, 2), ((4,),)),
    "transpose": (lambda x: x.transpose(0, 1), lambda x: x.transpose(0, 1), ((2, 2),)),
    "slice": (lambda x: x[1:3], lambda x: x[1:3], ((4,),)),
    "matmul": (retrograd.matmul, torch.matmul, ((2, 2), (2, 2))),
    "linear": (functional.linear, peer.linear, ((2, 2), (2, 2), (2,))),
    "mse_loss": (functional.mse_loss, peer.mse_loss, ((4,), (4,))),
    "conv2d": (functional.conv2d, peer.conv2d, ((1, 1, 2, 2), (1, 1, 1, 1))),
}


def rows(quick: bool, compile: bool) -> Rows:
    for name, (ours, theirs, shapes) in OPERATORS.items():
        yield _row(name, ours, theirs, [lib.random(*shape, seed=seed) for seed, shape in enumerate(shapes)])


def _row(name: str, ours: Operator, theirs: Operator, arrays: list[np.ndarray]) -> Row:
    inputs = [lib.ours(array, requires_grad=True) for array in arrays]
    peers = lib.layouts(arrays, requires_grad=True)[lib.CONTIGUOUS]
    upstream = lib.random(*ours(*inputs).shape, seed=9)
    mine = _step(ours, inputs, lib.ours(upstream), retrograd.autograd.grad)
    yours = _step(theirs, peers, torch.tensor(upstream), torch.autograd.grad)

    def values() -> list[tuple[np.ndarray, np.ndarray]]:
        return [(a.numpy(), b.numpy()) for a, b in zip(mine(), yours(), strict=True)]

    return Row("4 elements", name, mine, {lib.CONTIGUOUS: yours}, TARGET, values)


def _step(operator: Operator, inputs: list[Any], g: Any, grad: Callable[..., Any]) -> Call:
    return lambda: grad(operator(*inputs), inputs, g)
