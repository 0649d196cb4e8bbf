"""Reductions, scans and sorting: values, gradients of first and second order, and positions of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, distinct, normal, uniform

Operator = Callable[..., Any]
X = normal(3, 4, 5)
ZEROS = np.array([[1.0, 0.0, 3.0, -2.0], [0.0, 2.0, 0.0, 5.0], [1.5, 2.0, -0.5, 1.0]])
TIES = np.array([[1.0, 3.0, 3.0, -2.0], [0.0, 3.0, -2.0, 5.0], [5.0, 5.0, -2.0, 5.0]])

BOTH: dict[str, tuple[Operator, np.ndarray]] = {
    "sum of another type": (lambda x: x.sum(1, dtype=x.dtype), X),
    "var": (lambda x: x.var(), X),
    "var of axes": (lambda x: x.var((0, -1), keepdim=True), X),
    "var, biased": (lambda x: x.var(1, unbiased=False), X),
    "var, correction": (lambda x: x.var(1, correction=2), X),
    "var, bool for dim": (lambda x: x.var(False), X),
    "std": (lambda x: x.std(), X),
    "std of axes": (lambda x: x.std((0, 2)), X),
    "prod": (lambda x: x.prod(), uniform(0.5, 1.5, 3, 4)),
    "prod of axis": (lambda x: x.prod(1, keepdim=True), X),
    "prod of zeros": (lambda x: x.prod(1), ZEROS),
    "prod of zeros, first axis": (lambda x: x.prod(0), ZEROS),
    "prod of all, one zero": (lambda x: x.prod(), ZEROS[0]),
    "prod of all, zeros": (lambda x: x.prod(), ZEROS),
    "logsumexp": (lambda x: x.logsumexp(1), X),
    "logsumexp of axes": (lambda x: x.logsumexp((0, 2), keepdim=True), X * 30),
    "amax": (lambda x: x.amax(), distinct(3, 4)),
    "amax of axes": (lambda x: x.amax((0, 2)), distinct(3, 4, 5)),
    "amin kept": (lambda x: x.amin(1, keepdim=True), distinct(3, 4, 5)),
    "amax of ties": (lambda x: x.amax(1), TIES),
    "amin of ties": (lambda x: x.amin((0, 1)), TIES),
    "max of ties": (lambda x: x.max(), TIES),
    "min": (lambda x: x.min(), distinct(3, 4, 5)),
    "min of ties": (lambda x: x.min(), TIES),
    "min of axis": (lambda x: x.min(1)[0], distinct(3, 4, 5)),
    "aminmax": (lambda x: x.aminmax(dim=1)[0] * 2 + x.aminmax(dim=1).max, TIES),
    "norm": (lambda x: x.norm(), X),
    "norm 1": (lambda x: x.norm(p=1, dim=1), X),
    "norm 3": (lambda x: x.norm(3, (0, 1), keepdim=True), X),
    "norm inf": (lambda x: x.norm(float("inf"), 1), TIES),
    "norm -inf": (lambda x: x.norm(-float("inf"), 1), distinct(3, 4)),
    "norm 0.5": (lambda x: x.norm(0.5, 1), X),
    "norm -1": (lambda x: x.norm(-1, 1), X),
    "norm of zeros": (lambda x: (x * 0).norm(dim=1), X),
    "nansum": (lambda x: x.nansum(1), X),
    "nanmean": (lambda x: x.nanmean((0, 1)), X),
    "cumsum": (lambda x: x.cumsum(1), X),
    "cumsum of the last axis": (lambda x: x.cumsum(-1), X),
    "cumprod": (lambda x: x.cumprod(1), X),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), X),
    "cummax": (lambda x: x.cummax(1)[0], X),
    "cummin": (lambda x: x.cummin(2)[0], X),
    "cummax of ties": (lambda x: x.cummax(1).values, TIES),
    "diff": (lambda x: x.diff(), X),
    "diff, twice": (lambda x: x.diff(2, 1), X),
    "diff with more": (lambda x: x.diff(1, 1, x[:, :1], x), X),
    "sort": (lambda x: x.sort()[0], X),
    "sort descending": (lambda x: x.sort(1, descending=True).values, X),
    "topk": (lambda x: x.topk(3, 1)[0], X),
    "topk, smallest": (lambda x: x.topk(2, largest=False)[0], X),
    "kthvalue": (lambda x: x.kthvalue(2, 1, keepdim=True)[0], X),
    "median": (lambda x: x.median(), X),
    "median of ties": (lambda x: x.median(), TIES),
    "median of axis": (lambda x: x.median(1)[0], X),
    "nanmedian": (lambda x: x.nanmedian(), X),
    "nanmedian of axis": (lambda x: x.nanmedian(1, keepdim=True)[0], X),
    "quantile": (lambda x: x.quantile(0.3), X),
    "quantile of axis": (lambda x: x.quantile(0.7, 1, keepdim=True), X),
    "mode": (lambda x: x.mode(1)[0], TIES),
}
BOTH |= {
    f"quantile, {way}": (lambda x, way=way: x.quantile(0.6, 1, interpolation=way), X)
    for way in ("lower", "higher", "midpoint", "nearest")
}


@pytest.mark.parametrize("name", BOTH)
def test_reduction(name: str) -> None:
    operator, x = BOTH[name]
    assert_agree(operator, operator, x, second=not name.startswith(("norm of zeros",)))


def test_functions_of_the_module() -> None:
    for name, call in {
        "var_mean": lambda library, x: sum(library.var_mean(x, 1)),
        "std_mean": lambda library, x: sum(library.std_mean(x, (0, 1), correction=0)),
        "matrix_norm nuc": lambda library, x: library.linalg.matrix_norm(x[0], "nuc"),
        "matrix_norm 2": lambda library, x: library.linalg.norm(x, -2, (2, 0), keepdim=True),
        "matrix_norm inf": lambda library, x: library.linalg.matrix_norm(x, float("inf"), (0, 1)),
        "vector_norm": lambda library, x: library.linalg.vector_norm(x, 2.5, (0, 1)),
        "linalg.norm": lambda library, x: library.linalg.norm(x),
        "linalg.norm of vectors": lambda library, x: library.linalg.norm(x, 1, 2),
        "linalg.norm of matrices": lambda library, x: library.linalg.norm(x, "fro", (0, 1), keepdim=True),
        "trapezoid": lambda library, x: library.trapezoid(x, dx=0.3, dim=1),
        "trapezoid, places": lambda library, x: library.trapezoid(x, x * x, dim=1),
    }.items():
        try:
            assert_agree(lambda x, f=call: f(retrograd, x), lambda x, f=call: f(torch, x), X)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


SPECIAL = np.array(
    [
        [1.0, np.nan, 2.0, np.nan],
        [np.inf, -np.inf, 1.0, 0.0],
        [-np.inf, -np.inf, -np.inf, -np.inf],
        [np.nan, np.nan, np.nan, np.nan],
        [0.0, -0.0, 0.0, -0.0],
        [np.inf, np.inf, 1.0, 1.0],
        [7.0, 7.0, 7.0, 7.0],
    ]
)


@pytest.mark.parametrize(
    "operator",
    [
        lambda x: x.sum(1),
        lambda x: x.prod(1),
        lambda x: x.mean(1),
        lambda x: x.amax(1),
        lambda x: x.amin(1),
        lambda x: x.max(1)[0],
        lambda x: x.min(1)[0],
        lambda x: x.argmax(1),
        lambda x: x.argmin(1),
        lambda x: x.logsumexp(1),
        lambda x: x.var(1),
        lambda x: x.std(1),
        lambda x: x.norm(dim=1),
        lambda x: x.norm(1, 1),
        lambda x: x.nansum(1),
        lambda x: x.nanmean(1),
        lambda x: x.cumsum(1),
        lambda x: x.cumprod(1),
        lambda x: x.cummax(1)[0],
        lambda x: x.cummin(1)[0],
        lambda x: x.cummax(1)[1],
        lambda x: x.sort(1)[0],
        lambda x: x.sort(1, descending=True)[0],
        lambda x: x.sort(dim=1, stable=True)[1],
        lambda x: x.sort(dim=1, stable=True, descending=True)[1],
        lambda x: x.topk(2)[0],
        lambda x: x.topk(2, largest=False)[0],
        lambda x: x.median(1)[0],
        lambda x: x.nanmedian(1)[0],
        lambda x: x.median(),
        lambda x: x.nanmedian(),
        lambda x: x.kthvalue(2, 1)[0],
        lambda x: x.all(1),
        lambda x: x.any(1),
        lambda x: x.all(1, keepdim=True),
        lambda x: x.count_nonzero(1),
        lambda x: x.logcumsumexp(1),
        lambda x: x.amax(),
        lambda x: x.argmax(),
        lambda x: x.argmin(),
    ],
    ids=range(40),
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_numbers(operator: Operator, dtype: type) -> None:
    """Long rows too: their vectors and their ends go different ways."""
    with np.errstate(all="ignore"):
        for x in (SPECIAL, np.concatenate([SPECIAL] * 5 + [SPECIAL[:, :3]], 1)):
            x = x.astype(dtype)
            assert_close(operator(retrograd.tensor(x)), operator(torch.tensor(x)), "value")


@pytest.mark.parametrize(
    "call",
    [
        lambda library, x: x.unique(),
        lambda library, x: x.unique(return_inverse=True, return_counts=True),
        lambda library, x: x.unique(dim=1, return_inverse=True, return_counts=True),
        lambda library, x: library.searchsorted(x[0].sort()[0], x),
        lambda library, x: library.searchsorted(x.sort()[0], x, right=True),
        lambda library, x: library.bucketize(x, x[1].sort()[0]),
        lambda library, x: library.bucketize(x, x[1].sort()[0], right=True),
        lambda library, x: library.histc(x, 4, -2, 3),
        lambda library, x: x.histc(5),
        lambda library, x: (x + 2).long().reshape(-1).bincount(),
        lambda library, x: (x + 2).long().reshape(-1).bincount(x.reshape(-1), 9),
        lambda library, x: x.sort(stable=True),
        lambda library, x: x.argsort(dim=0, descending=True, stable=True),
        lambda library, x: x.aminmax(),
        lambda library, x: x.long().sum(0),
        lambda library, x: x.long().prod(1),
        lambda library, x: x.long().cumsum(1),
        lambda library, x: x.long().cumprod(1),
        lambda library, x: x.long().diff(dim=0),
        lambda library, x: (x > 0).diff(),
        lambda library, x: x.long().max(1)[0],
        lambda library, x: x.long().amin((0, 1)),
        lambda library, x: x.long().median(),
        lambda library, x: x.sum(dtype=library.int64),
        lambda library, x: x.long().mean(1, dtype=library.float64),
        lambda library, x: (x > 0).any(0),
        lambda library, x: (x > 0).prod(0),
        lambda library, x: library.linalg.vector_norm(x, 0, 1),
        lambda library, x: x[0, 0].sum(0),
        lambda library, x: x[0, 0].var(correction=0),
        lambda library, x: x[:, :1].var(1),
        lambda library, x: x[:0].sum(0),
        lambda library, x: x[:0].prod(0),
        lambda library, x: x[:0].logsumexp(0),
        lambda library, x: x[:0].var(0),
    ],
    ids=range(35),
)
@pytest.mark.filterwarnings("ignore:(var|std)")
def test_results_without_gradient(call: Callable[[Any, Any], Any]) -> None:
    mine, yours = call(retrograd, retrograd.tensor(TIES)), call(torch, torch.tensor(TIES))
    if not isinstance(mine, tuple):
        mine, yours = (mine,), (yours,)
    assert len(mine) == len(yours)
    for k, (a, b) in enumerate(zip(mine, yours, strict=True)):
        assert_close(a, b, f"result {k}")
