"""Elementwise operators, reductions, shapes and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, distinct, normal, uniform
from retrograd.ops.signatures import OUT

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


# PyTorch's out= that is missing here, or not there although its documentation has it, and why
OTHERWISE = {
    "frexp": "takes a tuple alone",
    "hamming_window": "its documentation alone has it",
    "argsort": "only with stable=",
    "linalg.tensorinv": "needs an invertible tensor of four axes",
    "linalg.cholesky": "needs a positive definite matrix",
    "cholesky": "likewise",
    "histogram": "needs a tuple and bins",
    "linalg.solve_triangular": "needs the keyword upper",
}


def takes_out(function: Any) -> bool | None:
    """Whether a function of PyTorch takes out=, by its answers to calls with it; None if they do not tell."""
    x, places = torch.rand(2, 2), torch.zeros(2, 2, dtype=torch.int64)
    texts = []
    for args in [
        (x,),
        (x, x),
        (x, 0),
        (x, 0, places),
        (x, 0, places, x),
        (x, 0, places[0], x),
        (2,),
        (2, 2),
        ([x],),
        (x, x, x),
        (object(),),
        (0.0, 3.0, 4),
        ((2, 2), 1.0),
        (0, 3, (2,)),
        (x, 2, 0, 1.0),
        (1, x),
        (x, 3),
        (x, 0, places, x, "sum"),
        (x, 0, places[0], x, "mean"),
    ]:
        for out in (
            torch.empty(0),
            torch.empty(0, dtype=torch.int64),
            torch.empty(0, dtype=torch.bool),
            torch.empty(0, dtype=torch.complex64),
            (torch.empty(0), torch.empty(0, dtype=torch.int64)),
            (torch.empty(0),) * 2,
            (torch.empty(0),) * 3,
        ):
            try:
                function(*args, out=out)
                return True
            except Exception as error:
                texts.append(str(error))
    said = [text for text in texts if "Tensor out" in text or "argument 'out'" in text and "unexpected" not in text]
    if said:
        return True
    refused = [text for text in texts if "unexpected keyword argument 'out'" in text or "no keyword arg" in text]
    return False if refused else None


@pytest.mark.filterwarnings("ignore")
def test_the_operators_that_take_out_are_those_of_pytorch() -> None:
    places: dict[str, tuple[Any, Any]] = {
        "": (retrograd, torch),
        "fft": (retrograd.fft, torch.fft),
        "linalg": (retrograd.linalg, torch.linalg),
        "special": (retrograd.special, torch.special),
    }
    different, unclear = [], []
    for namespace, (ours, theirs) in places.items():
        for name, function in vars(ours).items():
            peer = getattr(theirs, name, None)
            if not name.startswith("_") and hasattr(function, "operator") and callable(peer):
                label = f"{namespace}.{name}".strip(".")
                there, here = takes_out(peer), name in OUT[namespace]
                if there is None:
                    unclear += [label] * (here and label not in OTHERWISE)
                elif there != here and label not in OTHERWISE:
                    different.append(label)
    assert not different and not unclear


def test_out_converts_and_refuses_as_in_pytorch() -> None:
    kinds = ["bool", "uint8", "int32", "int64", "float32", "float64"]
    for source in kinds:
        for target in kinds:
            answers = []
            for lib in (retrograd, torch):
                x = lib.ones(3, dtype=getattr(lib, source))
                out = lib.zeros(3, dtype=getattr(lib, target))
                try:
                    answers.append(lib.maximum(x, x, out=out).tolist())
                except RuntimeError:
                    answers.append([])
            assert answers[0] == answers[1], (source, target)
