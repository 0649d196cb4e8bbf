"""Gradients as functions and per-sample gradients, against torch.nn.grad, aten.convolution_backward and torch.func."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_close, normal
from retrograd import nn

# size, kernel, options of convolution; those of PyTorch are positional: stride, padding, dilation
CASES: list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, int, int], int]] = [
    ((7,), (3,), (2, 1, 1), 1),
    ((6, 7), (3, 2), (1, 1, 2), 2),
    ((5, 8), (2, 3), (3, 0, 1), 1),  # positions that nothing reads
    ((4, 4), (3, 3), (1, 1, 1), 4),
    ((3, 4, 5), (2, 3, 2), (2, 1, 1), 2),
]
TABLE = pytest.mark.parametrize("case", CASES, ids=str)


def tensors(*arrays: np.ndarray) -> tuple[list[Any], list[Any]]:
    return [retrograd.tensor(a) for a in arrays], [torch.tensor(a) for a in arrays]


@TABLE
@pytest.mark.parametrize("per_sample", [False, True])
def test_input_and_weight(case: Any, per_sample: bool) -> None:
    size, kernel, options, groups = case
    ndim = len(size)
    x, w = normal(3, 4, *size), normal(8, 4 // groups, *kernel, seed=1)
    y = getattr(torch, f"conv{ndim}d")(*map(torch.tensor, (x, w)), None, *options, groups)
    (ox, ow, og), (tx, tw, tg) = tensors(x, w, normal(*y.shape, seed=2))
    name = f"conv{ndim}d_input"
    assert_close(
        getattr(nn.grad, name)(x.shape, ow, og, *options, groups),
        getattr(torch.nn.grad, name)(x.shape, tw, tg, *options, groups),
        name,
    )
    name = f"conv{ndim}d_weight"
    theirs = getattr(torch.nn.grad, name)
    rows = [theirs(tx[n : n + 1], w.shape, tg[n : n + 1], *options, groups) for n in range(3)]
    assert_close(
        getattr(nn.grad, name)(ox, w.shape, og, *options, groups, per_sample=per_sample),
        torch.stack(rows) if per_sample else theirs(tx, w.shape, tg, *options, groups),
        name,
    )


@TABLE
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mask", [(True, True, True), (True, False, True), (False, True, False)])
def test_all_in_one_call(case: Any, transposed: bool, mask: tuple[bool, bool, bool]) -> None:
    size, kernel, options, groups = case
    ndim = len(size)
    extra = (options[0] - 1,) * ndim if transposed else (0,) * ndim
    stride, padding, dilation = ((n,) * ndim for n in options)
    x, w = normal(3, 4, *size), normal(*((4, 8 // groups) if transposed else (8, 4 // groups)), *kernel, seed=1)
    forward = (stride, padding, dilation, transposed, extra, groups)
    y = torch.convolution(torch.tensor(x), torch.tensor(w), None, *forward)
    (ox, ow, og), (tx, tw, tg) = tensors(x, w, normal(*y.shape, seed=2))
    found = nn.grad.conv_backward(og, ox, ow, *forward, mask)
    wanted = torch.ops.aten.convolution_backward(tg, tx, tw, [8], *forward, list(mask))
    for ours, theirs, flag, what in zip(found, wanted, mask, ("input", "weight", "bias"), strict=True):
        if flag:
            assert_close(ours, theirs, what)
        else:
            assert ours is None


def test_grad_sample() -> None:
    """What vmap over grad makes there."""
    ours = nn.Sequential(nn.Conv2d(2, 4, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(4, 3, 2, 2), nn.Flatten()).double()
    layers = torch.nn.Conv2d(2, 4, 3, 2, 1), torch.nn.ReLU(), torch.nn.ConvTranspose2d(4, 3, 2, 2), torch.nn.Flatten()
    theirs = torch.nn.Sequential(*layers).double()
    theirs.load_state_dict({name: torch.tensor(value.array) for name, value in ours.state_dict().items()})
    x = normal(5, 2, 6, 6)
    parameters = {name: p.detach() for name, p in theirs.named_parameters()}

    def loss(parameters: Any, x: Any) -> Any:
        return (torch.func.functional_call(theirs, parameters, (x[None],)) ** 2).sum()

    wanted = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, torch.tensor(x))
    with retrograd.per_sample_gradients(ours):
        (ours(retrograd.tensor(x)) ** 2).sum().backward()
    for name, parameter in ours.named_parameters():
        assert_close(parameter.grad_sample, wanted[name], name)
