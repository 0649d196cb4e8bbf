"""Normalization functions and layers, with every option, and normalized weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, normal, uniform

Operator = Callable[[Any, Any], Any]  # gets the library and its tensors
X, ROWS, W, B = normal(3, 4, 2, 3), normal(3, 5), uniform(0.5, 1.5, 4), normal(4)

FUNCTIONS: dict[str, tuple[Operator, tuple[np.ndarray, ...]]] = {
    "layer_norm": (lambda f, t: f.layer_norm(t[0], (5,), t[1], t[2]), (ROWS, normal(5), normal(5, seed=1))),
    "layer_norm plain": (lambda f, t: f.layer_norm(t[0], [4, 2, 3], eps=0.1), (X,)),
    "layer_norm without bias": (lambda f, t: f.layer_norm(t[0], (2, 3), t[1]), (X, normal(2, 3))),
    "layer_norm of a vector": (lambda f, t: f.layer_norm(t[0], (5,)), (normal(5),)),
    "rms_norm": (lambda f, t: f.rms_norm(t[0], (5,), t[1]), (ROWS, normal(5))),
    "rms_norm plain": (lambda f, t: f.rms_norm(t[0], (2, 3), eps=0.3), (X,)),
    "group_norm": (lambda f, t: f.group_norm(t[0], 2, t[1], t[2]), (X, W, B)),
    "group_norm of rows": (lambda f, t: f.group_norm(t[0], 2, t[1], t[2], 0.1), (normal(3, 4), W, B)),
    "group_norm plain": (lambda f, t: f.group_norm(t[0], 4), (X,)),
    "instance_norm": (lambda f, t: f.instance_norm(t[0], weight=t[1], bias=t[2]), (X, W, B)),
    "instance_norm plain": (lambda f, t: f.instance_norm(t[0], eps=0.2), (normal(2, 3, 4),)),
    "normalize": (lambda f, t: f.normalize(t[0]), (ROWS,)),
    "normalize of small ones": (lambda f, t: f.normalize(t[0], 1.0, 0, eps=3.0), (ROWS,)),
    "normalize over axes": (lambda f, t: f.normalize(t[0], 3.0, (1, 2)), (X,)),
    "local_response_norm": (lambda f, t: f.local_response_norm(t[0], 3, 0.5, 0.6, 2.0), (X,)),
    "local_response_norm even": (lambda f, t: f.local_response_norm(t[0], 2), (normal(2, 5, 3),)),
    "local_response_norm wide": (lambda f, t: f.local_response_norm(t[0], 12, 1.0), (normal(2, 5, 3, 2, 2),)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    operator, arrays = FUNCTIONS[name]
    ours, theirs = retrograd.nn.functional, torch.nn.functional
    assert_agree(lambda *t: operator(ours, t), lambda *t: operator(theirs, t), *arrays)


LAYERS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "LayerNorm": (lambda nn: nn.LayerNorm(5), (3, 5)),
    "LayerNorm of several axes": (lambda nn: nn.LayerNorm([4, 3], 0.1, bias=False), (2, 4, 3)),
    "LayerNorm plain": (lambda nn: nn.LayerNorm(3, elementwise_affine=False), (2, 4, 3)),
    "RMSNorm": (lambda nn: nn.RMSNorm(5), (3, 5)),
    "RMSNorm plain": (lambda nn: nn.RMSNorm((4, 3), 0.1, False), (2, 4, 3)),
    "GroupNorm": (lambda nn: nn.GroupNorm(2, 4), (3, 4, 5)),
    "GroupNorm plain": (lambda nn: nn.GroupNorm(4, 4, affine=False), (3, 4, 5, 2)),
    "LocalResponseNorm": (lambda nn: nn.LocalResponseNorm(3, 0.1), (3, 4, 5)),
    "InstanceNorm1d": (lambda nn: nn.InstanceNorm1d(4, affine=True), (3, 4, 5)),
    "InstanceNorm1d without batch": (lambda nn: nn.InstanceNorm1d(4), (4, 5)),
    "InstanceNorm2d": (lambda nn: nn.InstanceNorm2d(4, track_running_stats=True), (3, 4, 5, 2)),
    "InstanceNorm3d": (lambda nn: nn.InstanceNorm3d(4, 0.1, 0.3, True, True), (3, 4, 5, 2, 2)),
    "BatchNorm1d": (lambda nn: nn.BatchNorm1d(4, momentum=None), (3, 4)),
    "BatchNorm2d": (lambda nn: nn.BatchNorm2d(4, affine=False), (3, 4, 5, 2)),
    "BatchNorm3d": (lambda nn: nn.BatchNorm3d(4, track_running_stats=False), (3, 4, 5, 2, 2)),
    "weight_norm": (lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(5, 3)), (3, 5)),
    "weight_norm of another axis": (
        lambda nn: nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 3, 2), dim=1),
        (2, 4, 5),
    ),
    "weight_norm, one length": (lambda nn: nn.utils.parametrizations.weight_norm(nn.Linear(5, 3), dim=None), (3, 5)),
    "spectral_norm": (lambda nn: nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3)), (3, 5)),
    "spectral_norm, transposed": (
        lambda nn: nn.utils.parametrizations.spectral_norm(nn.ConvTranspose1d(4, 3, 2), n_power_iterations=3),
        (2, 4, 5),
    ),
    "weight_norm, old": (lambda nn: nn.utils.weight_norm(nn.Linear(5, 3)), (3, 5)),
    "spectral_norm, old": (lambda nn: nn.utils.spectral_norm(nn.Linear(5, 3)), (3, 5)),
    "spectral_norm, old, transposed": (
        lambda nn: nn.utils.spectral_norm(nn.ConvTranspose1d(4, 3, 2), n_power_iterations=3),
        (2, 4, 5),
    ),
}


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
def test_layer(name: str, train: bool) -> None:
    """Keys, repr, values, gradients and, after three batches, buffers."""
    make, shape = LAYERS[name]
    mine, yours = make(retrograd.nn).double().train(train), make(torch.nn).double().train(train)
    state = {key: value.numpy() for key, value in yours.state_dict().items()}
    for index, (key, value) in enumerate(state.items()):
        if value.dtype.kind == "f" and "._" not in key and "running" not in key:
            state[key] = value + 0.1 * normal(*value.shape, seed=index)
    yours.load_state_dict({key: torch.tensor(value) for key, value in state.items()})
    mine.load_state_dict({key: np.array(value) for key, value in state.items()})
    assert list(mine.state_dict()) == list(state)
    if "weight_norm" not in name and "spectral" not in name:
        assert repr(mine) == repr(yours)
    for seed in range(3):
        x = normal(*shape, seed=seed)
        a, b = retrograd.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
        y, p = mine(a), yours(b)
        assert_close(y, p, "value")
        g = normal(*shape[:0], *p.shape, seed=9)
        mine_g = retrograd.autograd.grad(y, [a, *mine.parameters()], retrograd.tensor(g))
        yours_g = torch.autograd.grad(p, [b, *yours.parameters()], torch.tensor(g))
        for k, (u, v) in enumerate(zip(mine_g, yours_g, strict=True)):
            assert_close(u, v, f"gradient {k}")
    for key, value in yours.state_dict().items():
        assert_close(mine.state_dict()[key], value, key)


@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("kind", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3), (2, 3, 4), (2, 2, 3, 3)], ids=str)
def test_orthogonal(shape: tuple[int, ...], kind: str | None, trivial: bool) -> None:
    """Keys, initial and assigned values; then values and gradients, of second order too, for the same parameters."""

    def make(library: Any) -> Any:
        module = library.nn.Module()
        module.weight = library.nn.Parameter(library.tensor(normal(*shape)))
        return library.nn.utils.parametrizations.orthogonal(
            module, "weight", orthogonal_map=kind, use_trivialization=trivial
        )

    mine, yours = make(retrograd), make(torch)
    assert list(mine.state_dict()) == list(yours.state_dict())
    assert_close(mine.weight, yours.weight, "initial value")
    original = "parametrizations.weight.original"
    assert_close(mine.state_dict()[original], yours.state_dict()[original], original)
    if trivial or yours.parametrizations.weight[0].orthogonal_map.name == "householder":
        mine.weight, yours.weight = retrograd.tensor(normal(*shape, seed=1)), torch.tensor(normal(*shape, seed=1))
        assert_close(mine.weight, yours.weight, "assigned value")
        assert_close(mine.state_dict()[original], yours.state_dict()[original], original)
    state = {key: value.numpy() for key, value in yours.state_dict().items()}
    state[original] = state[original] + 0.3 * normal(*shape, seed=2) * (1 - np.eye(*shape[-2:]))
    mine.load_state_dict(state)
    yours.load_state_dict({key: torch.tensor(value) for key, value in state.items()})
    g, h = normal(*shape, seed=3), normal(*shape, seed=4)
    found = []
    for library, module in ((retrograd, mine), (torch, yours)):
        (x,) = module.parameters()
        (first,) = library.autograd.grad(module.weight, x, library.tensor(g), create_graph=True)
        second = library.autograd.grad(first, x, library.tensor(h), allow_unused=True)[0]
        found.append((module.weight, first, second))
    for place, (ours, theirs) in enumerate(zip(*found, strict=True)):
        assert_close(ours, theirs, ("value", "gradient", "second order")[place])
