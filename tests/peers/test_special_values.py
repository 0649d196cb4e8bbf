"""Values, gradients and second gradients at 0, at infinities, at NaN and at every kink, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours

INF, NAN = math.inf, math.nan
# 0.3, 0.5, 1, 3, 6 and 20 are limits of what is tested below
POINTS = [0.0, -0.0, *(sign * x for x in (0.3, 0.5, 1, 2, 3, 6, 20, 100, INF) for sign in (1, -1)), NAN]
ACTIVATIONS: dict[str, list[tuple[Any, ...]]] = {
    **dict.fromkeys(("relu", "relu6", "hardsigmoid", "hardswish", "selu", "gelu", "silu", "mish", "softsign"), [()]),
    **dict.fromkeys(("logsigmoid", "tanhshrink", "rrelu"), [()]),
    **dict.fromkeys(("leaky_relu", "hardshrink"), [(), (0.3,), (-0.3,), (0.0,)]),
    "elu": [(), (0.3,), (-0.3,), (0.0,)],
    "celu": [(), (0.3,), (2.0,)],
    "softshrink": [(), (0.3,), (0.0,)],
    "hardtanh": [(), (-0.3, 0.5), (0.0, 0.0), (0.0, 6.0)],
    "threshold": [(0.3, -7.0), (0.0, 0.0), (-0.5, NAN)],
    "softplus": [(), (2.0, 0.6), (-1.0, 20.0), (0.5, 1.0)],
}
OPERATORS: dict[str, list[tuple[Any, ...]]] = {
    **dict.fromkeys(("abs", "sign", "ceil", "floor", "trunc", "round", "frac", "nan_to_num", "square"), [()]),
    **dict.fromkeys(("exp", "expm1", "sigmoid", "tanh", "sin", "cos", "atan", "erf", "log", "sqrt"), [()]),
    "reciprocal": [()],
    "clamp": [(-0.3, 0.5), (None, 0.5), (0.0, None), (0.5, -0.5), (-INF, INF)],
    "fmod": [(2.0,), (-1.5,)],
    "remainder": [(2.0,), (-1.5,)],
}
PAIRS = ("maximum", "minimum", "fmax", "fmin", "hypot", "fmod", "remainder", "mul")
LOSSES: dict[str, list[dict[str, Any]]] = {
    **dict.fromkeys(("l1_loss", "mse_loss"), [{}]),
    "smooth_l1_loss": [{}, {"beta": 0.5}, {"beta": 0.0}],
    "huber_loss": [{}, {"delta": 0.5}],
}
Function = Callable[..., Any]


def of(table: dict[str, list[tuple[Any, ...]]]) -> list[tuple[str, tuple[Any, ...]]]:
    return [(name, arguments) for name, calls in table.items() for arguments in calls]


def results(
    library: Any, function: Function, arrays: list[np.ndarray], upstream: np.ndarray, second: bool
) -> list[np.ndarray]:
    """The value, the gradients as they are without and with create_graph, and the derivatives of the latter."""
    xs = [library.tensor(array, requires_grad=True) for array in arrays]
    g = library.tensor(upstream, requires_grad=True)
    y = function(*xs)
    plain = library.autograd.grad(y, xs, g.detach(), retain_graph=True)
    found = [y, *plain]
    for gx in library.autograd.grad(y, xs, g, create_graph=True):
        found.append(gx)
        if second:
            parts: Any = [None] * (len(xs) + 1)
            if gx.requires_grad:
                v = library.ones_like(gx) * 0.7
                parts = library.autograd.grad(gx, [*xs, g], v, retain_graph=True, allow_unused=True)
            found += [library.zeros_like(gx) if part is None else part for part in parts]
    return [np.array(part.detach().numpy(**({"force": True} if library is torch else {}))) for part in found]


def assert_same(mine: Function, yours: Function, *arrays: np.ndarray, second: bool = True) -> None:
    """Where PyTorch has NaN for numbers that are none, a number of ours is right as well."""
    upstream = np.random.default_rng(3).uniform(0.5, 2, arrays[0].shape).astype(arrays[0].dtype)
    numbers = ~np.any([np.isnan(array) for array in arrays], axis=0)
    labels = ["value", *(f"gradient {k}" for k in range(len(arrays)))]
    for k in range(len(arrays)):
        labels.append(f"recorded gradient {k}")
        if second:
            labels += [*(f"gradient {k} by {j}" for j in range(len(arrays))), f"gradient {k} by upstream"]
    found = results(retrograd, mine, list(arrays), upstream, second)
    expected = results(torch, yours, list(arrays), upstream, second)
    if len(arrays) == 1:  # PyTorch's vector code has other gradients at NaN than its definitions: one by one
        for place in np.flatnonzero(~numbers):
            only = slice(place, place + 1)
            single = results(torch, yours, [arrays[0][only]], upstream[only], second)
            for whole, part in zip(expected, single, strict=True):
                whole[only] = part
    for label, x, p in zip(labels, found, expected, strict=True):
        assert x.dtype == p.dtype
        judged = ~(numbers & np.isnan(p))
        # PyTorch rounds constants of elu and its kin
        wrong = judged & ~np.isclose(x, p, rtol=1e-4 if x.itemsize == 4 else 1e-6, atol=1e-6, equal_nan=True)
        at = [(*(float(array[i]) for array in arrays), float(x[i]), float(p[i])) for i in np.flatnonzero(wrong)]
        assert not at, f"{label}: (inputs, ours, PyTorch's) are {at[:5]}"


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def points(request: pytest.FixtureRequest) -> np.ndarray:
    # in another order and repeated, so that each number comes into a whole register and into the rest of one
    return np.random.default_rng(0).permutation(np.array(POINTS * 3, request.param))


@pytest.mark.parametrize(("name", "arguments"), of(ACTIVATIONS), ids=str)
def test_activations(name: str, arguments: tuple[Any, ...], points: np.ndarray) -> None:
    mine, yours = (lambda x: getattr(ours, name)(x, *arguments)), (lambda x: getattr(peer, name)(x, *arguments))
    assert_same(mine, yours, points, second=name != "hardsigmoid")  # theirs has none


@pytest.mark.parametrize(("name", "arguments"), of(OPERATORS), ids=str)
def test_operators(name: str, arguments: tuple[Any, ...], points: np.ndarray) -> None:
    mine, yours = (lambda x: getattr(retrograd, name)(x, *arguments)), (lambda x: getattr(torch, name)(x, *arguments))
    assert_same(mine, yours, points)


def pairs(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.meshgrid(points[:: len(points) // 20], np.unique(points))
    return x.ravel(), y.ravel()


@pytest.mark.parametrize("name", PAIRS)
def test_operators_of_two(name: str, points: np.ndarray) -> None:
    assert_same(getattr(retrograd, name), getattr(torch, name), *pairs(points))


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str, points: np.ndarray) -> None:
    for options in LOSSES[name]:
        functions = [partial(getattr(module, name), reduction="none", **options) for module in (ours, peer)]
        assert_same(*functions, *pairs(points))


@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_ranking(margin: float, points: np.ndarray) -> None:
    x, y = pairs(points)
    for seed in range(3):
        t = np.random.default_rng(seed).choice(points, x.shape)
        functions = [partial(module.margin_ranking_loss, margin=margin, reduction="none") for module in (ours, peer)]
        assert_same(*functions, x, y, t)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("labels", [[-100, -100, -100], [1, -100, 3]], ids=str)
def test_labels_that_do_not_count(labels: list[int], reduction: str) -> None:
    x, weight = np.random.default_rng(1).standard_normal((3, 4)), np.array([0.5, 2.0, 1.0, 0.25])
    for weighted in (False, True):
        for smoothing in (0.0, 0.2):

            def loss(library: Any, functions: Any, x: Any) -> Any:
                options = {"weight": library.tensor(weight)} if weighted else {}  # noqa: B023
                smoothed = {"label_smoothing": smoothing} if smoothing else {}  # noqa: B023
                target = library.tensor(np.array(labels))
                return functions.cross_entropy(x, target, reduction=reduction, **options, **smoothed)

            seconds = []
            for library, functions in ((retrograd, ours), (torch, peer)):
                z = library.tensor(x, requires_grad=True)
                y = loss(library, functions, z)
                upstream = np.random.default_rng(2).standard_normal(tuple(y.shape))
                (gz,) = library.autograd.grad(y, z, library.tensor(upstream), create_graph=True)
                (ggz,) = library.autograd.grad((gz * library.tensor(x[::-1].copy())).sum(), z)
                seconds.append([part.detach().numpy() for part in (y, gz, ggz)])
            for mine, yours in zip(*seconds, strict=True):
                np.testing.assert_allclose(mine, yours, rtol=1e-10, atol=1e-14)
