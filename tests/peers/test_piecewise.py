"""Gradients that depend on the input only through signs and positions: second derivative 0 or missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, assert_close, distinct, normal

X, IMAGES = distinct(3, 4) + 0.06, distinct(2, 3, 8, 8) + 0.06
UNARY: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("relu", "relu6", "hardtanh", "hardshrink", "softshrink", "leaky_relu", "rrelu"), ()),
    **dict.fromkeys(("elu", "selu", "celu", "hardswish", "softplus", "glu"), ()),
    "threshold": (0.3, -7.0),
    "normalize": (1.0,),
}
PLAIN: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("abs", "sign", "nan_to_num", "square", "amax", "max", "median", "frac"), ()),
    "clamp": (-0.5, 0.5),
    "norm": (1,),
    "pow": (1,),
    "quantile": (0.3, 1),
    "cumsum": (1,),
}
POOLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), (3, 2, 1)),
    **dict.fromkeys(("adaptive_max_pool2d", "adaptive_avg_pool2d"), (3,)),
    "lp_pool2d": (1.0, 2),
    "interpolate": (3, None, "area"),
}
PAIRS = ("l1_loss", "smooth_l1_loss", "huber_loss", "pairwise_distance")


def assert_connected(function: Callable[..., Any], theirs: Callable[..., Any], *arrays: np.ndarray) -> None:
    """For a constant upstream gradient: where PyTorch has a second derivative, ours is the same, also if it is 0."""
    results = []
    for library, call in ((retrograd, function), (torch, theirs)):
        xs = [library.tensor(array, requires_grad=True) for array in arrays]
        y = call(*xs)
        first = library.autograd.grad(y, xs, library.tensor(normal(*y.shape, seed=1)), create_graph=True)
        results.append([_second(library, xs, gx, 2 + k) for k, gx in enumerate(first)])
    for index, (mine, yours) in enumerate(zip(*results, strict=True)):
        for other, (a, b) in enumerate(zip(mine, yours, strict=True)):
            what = f"gradient to input {index}, differentiated by input {other}"
            if b is not None:
                assert a is not None, what
                assert_close(a, b, what)
            else:
                assert a is None or not a.array.any(), what


def _second(library: Any, xs: Sequence[Any], gx: Any, seed: int) -> Sequence[Any]:
    if not gx.requires_grad:
        return [None] * len(xs)
    total = (gx * library.tensor(normal(*gx.shape, seed=seed))).sum()
    return library.autograd.grad(total, xs, retain_graph=True, allow_unused=True)


@pytest.mark.parametrize("name", UNARY)
def test_activations(name: str) -> None:
    arguments = UNARY[name]
    assert_connected(lambda x: getattr(ours, name)(x, *arguments), lambda x: getattr(peer, name)(x, *arguments), X)


@pytest.mark.parametrize("name", PLAIN)
def test_operators(name: str) -> None:
    arguments = PLAIN[name]
    assert_connected(
        lambda x: getattr(retrograd, name)(x, *arguments), lambda x: getattr(torch, name)(x, *arguments), X
    )


@pytest.mark.parametrize("order", [0.5, 1, 2, np.inf, -np.inf])
def test_norms(order: float) -> None:
    assert_connected(
        lambda x: retrograd.linalg.vector_norm(x, order, 1), lambda x: torch.linalg.vector_norm(x, order, 1), X
    )


@pytest.mark.parametrize("name", POOLS)
def test_pooling(name: str) -> None:
    arguments = POOLS[name]
    assert_connected(lambda x: getattr(ours, name)(x, *arguments), lambda x: getattr(peer, name)(x, *arguments), IMAGES)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding(mode: str) -> None:
    for pads in ([1, 2, 2, 0], [-1, -1, 0, -1], [0, 0, -1, 1], [0, 0, 0, 0]):
        assert_connected(lambda x, p=pads: ours.pad(x, p, mode), lambda x, p=pads: peer.pad(x, p, mode), IMAGES)


@pytest.mark.parametrize(("name", "other"), [*product(PAIRS, (0.3, 2.0))])
def test_of_two(name: str, other: float) -> None:
    assert_connected(getattr(ours, name), getattr(peer, name), X, other * X[::-1])


def test_prelu_and_labels() -> None:
    assert_connected(ours.prelu, peer.prelu, X, np.abs(X[0]))
    labels = np.array([0, 3, 1])
    assert_connected(
        lambda x: ours.nll_loss(x, retrograd.tensor(labels)), lambda x: peer.nll_loss(x, torch.tensor(labels)), X
    )


def test_recurrent_layer_of_relu() -> None:
    x, *weights = normal(3, 2, 4), *(normal(*shape, seed=5) / 2 for shape in ((5, 4), (5, 5), (5,), (5,)))
    h = np.abs(normal(2, 5))
    assert_connected(retrograd.rnn_relu_cell, torch.rnn_relu_cell, x[0], h, *weights)
    mine = retrograd.nn.RNN(4, 5, nonlinearity="relu").double()
    theirs = torch.nn.RNN(4, 5, nonlinearity="relu").double()
    theirs.load_state_dict({name: torch.tensor(value.array) for name, value in mine.state_dict().items()})
    assert_connected(lambda x: mine(x)[0], lambda x: theirs(x)[0], x)


def test_hessian_of_a_network_and_a_penalty_on_gradients() -> None:
    images, kernel, w = normal(2, 1, 6, 6), normal(3, 1, 3, 3, seed=1), normal(2, 12, seed=2)

    def network(library: Any, functions: Any) -> Callable[[Any], Any]:
        def scores(x: Any) -> Any:
            y = functions.max_pool2d(functions.relu(functions.conv2d(x, library.tensor(kernel))), 2)
            return functions.linear(y.reshape(2, -1), library.tensor(w)).sum()

        return scores

    mine, yours = network(retrograd, ours), network(torch, peer)
    hessian = retrograd.autograd.functional.hessian(mine, retrograd.tensor(images))
    assert_close(hessian, torch.autograd.functional.hessian(yours, torch.tensor(images)), "hessian")
    penalties = []
    for library, scores in ((retrograd, mine), (torch, yours)):
        x = library.tensor(images, requires_grad=True)
        (gx,) = library.autograd.grad(scores(x), x, create_graph=True)
        (gx * gx).sum().backward()
        penalties.append(x.grad)
    assert_close(*penalties, "penalty")


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("parts", [0.0, 0.3, 0.5, 1.0, [0.1, 0.5, 0.85, 0.1]], ids=str)
def test_quantiles_have_a_gradient_to_the_part(parts: Any, interpolation: str) -> None:
    x, spoiled = distinct(3, 5), distinct(3, 5, seed=1)
    spoiled[1, 2] = np.nan
    for dim, keepdim, (values, second) in product((None, 0, 1), (False, True), ((x, True), (spoiled, False))):
        call = [
            lambda x, q, library=library, dim=dim, keepdim=keepdim: library.quantile(
                x, q, dim, keepdim, interpolation=interpolation
            )
            for library in (retrograd, torch)
        ]
        if interpolation == "linear":
            assert_agree(*call, values, np.asarray(parts), second=second)
        else:  # a jump has none
            q = np.asarray(parts)
            assert_agree(lambda x: call[0](x, retrograd.tensor(q)), lambda x: call[1](x, torch.tensor(q)), values)  # noqa: B023


def test_what_changes_in_steps_has_a_gradient_of_0() -> None:
    grid = normal(2, 3, 3, 2) / 2
    assert_agree(
        lambda x, g: ours.grid_sample(x, g, "nearest", align_corners=False),
        lambda x, g: peer.grid_sample(x, g, "nearest", align_corners=False),
        IMAGES,
        grid,
        second=False,
    )
    for name in ("bernoulli", "poisson"):
        x = retrograd.tensor([0.2, 0.7], requires_grad=True)
        y = getattr(retrograd, name)(x)
        (gx,) = retrograd.autograd.grad(y, x, retrograd.tensor([0.5, 0.3]))
        assert y.requires_grad and gx.tolist() == [0, 0]
    for norm in (retrograd.norm, retrograd.linalg.vector_norm):
        x = retrograd.tensor([[2.0, 0.0, -1.0]], requires_grad=True)
        count = norm(x, 0, 1)
        (gx,) = retrograd.autograd.grad(count, x, retrograd.tensor([0.7]))
        assert count.tolist() == [2] and gx.tolist() == [[0, 0, 0]]
