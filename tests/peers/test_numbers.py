"""Operators along an axis, of tensors without axes: PyTorch counts these as lines of one element, with axis 0 or -1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, normal

Along = Callable[[Any, Any, Any], Any]  # of the library, x and the axis
X = np.array(1.7)


def of(name: str, *args: Any, **options: Any) -> Along:
    return lambda lib, x, dim: getattr(lib, name)(x, *args, dim=dim, **options)


def functional(name: str, *args: Any, **options: Any) -> Along:
    return lambda lib, x, dim: getattr(lib.nn.functional, name)(x, *args, dim=dim, **options)


def ints(lib: Any, value: Any) -> Any:
    return lib.tensor(value, dtype=lib.int64)


def like(lib: Any, x: Any, value: Any) -> Any:
    return lib.tensor(value, dtype=x.dtype)


ALONG: dict[str, Along] = {
    **{
        name: of(name)
        for name in (
            "sum",
            "mean",
            "prod",
            "nansum",
            "nanmean",
            "amax",
            "amin",
            "max",
            "min",
            "aminmax",
            "median",
            "nanmedian",
            "mode",
            "sort",
            "argsort",
            "argmax",
            "argmin",
            "cumsum",
            "cumprod",
            "cummax",
            "cummin",
            "logcumsumexp",
            "logsumexp",
            "softmax",
            "log_softmax",
            "squeeze",
            "all",
            "any",
            "count_nonzero",
        )
    },
    **{
        f"{name}, kept": of(name, keepdim=True)
        for name in (
            "sum",
            "mean",
            "prod",
            "nansum",
            "nanmean",
            "amax",
            "amin",
            "max",
            "min",
            "aminmax",
            "median",
            "nanmedian",
            "mode",
            "argmax",
            "argmin",
            "logsumexp",
            "all",
            "any",
        )
    },
    "topk": of("topk", 1),
    "topk of none": of("topk", 0),
    "kthvalue": of("kthvalue", 1),
    "kthvalue, kept": of("kthvalue", 1, keepdim=True),
    "sort, descending": of("sort", descending=True),
    "quantile": of("quantile", 0.3),
    "quantile, kept": of("quantile", 0.3, keepdim=True),
    "quantile, several": lambda lib, x, dim: lib.quantile(x, like(lib, x, [0.3, 0.5]), dim=dim),
    "quantile, several, kept": lambda lib, x, dim: lib.quantile(x, like(lib, x, [0.3, 0.5]), dim=dim, keepdim=True),
    "norm": lambda lib, x, dim: lib.norm(x, 3, dim),
    "vector_norm": lambda lib, x, dim: lib.linalg.vector_norm(x, 6, dim),
    "vector_norm, kept": lambda lib, x, dim: lib.linalg.vector_norm(x, -2, dim, keepdim=True),
    "linalg.norm": lambda lib, x, dim: lib.linalg.norm(x, None, dim),
    "softmin": functional("softmin"),
    "normalize": functional("normalize", 2.0),
    "normalize, 3": functional("normalize", 3.0),
    "cosine_similarity": lambda lib, x, dim: lib.nn.functional.cosine_similarity(x, x * 2 + 1, dim=dim),
    "transpose": lambda lib, x, dim: lib.transpose(x, dim, 0),
    "swapaxes": lambda lib, x, dim: lib.swapaxes(x, 0, dim),
    "movedim": lambda lib, x, dim: lib.movedim(x, dim, 0),
    "flip": lambda lib, x, dim: lib.flip(x, (dim,)),
    "flatten": lambda lib, x, dim: lib.flatten(x, dim, -1),
    "unfold": lambda lib, x, dim: x.unfold(dim, 1, 1),
    "gather": lambda lib, x, dim: lib.gather(x, dim, ints(lib, 0)),
    "gather, several": lambda lib, x, dim: lib.gather(x, dim, ints(lib, [0, 0, 0])),
    "gather, none": lambda lib, x, dim: lib.gather(x, dim, ints(lib, [])),
    "index_select": lambda lib, x, dim: lib.index_select(x, dim, ints(lib, [0])),
    "index_fill": lambda lib, x, dim: lib.index_fill(x, dim, ints(lib, [0]), 5.0),
    "index_fill, none": lambda lib, x, dim: lib.index_fill(x, dim, ints(lib, []), 5.0),
    "index_add": lambda lib, x, dim: lib.index_add(x, dim, ints(lib, 0), x * x),
    "index_copy": lambda lib, x, dim: lib.index_copy(x, dim, ints(lib, 0), x * x),
    "index_copy, a line": lambda lib, x, dim: lib.index_copy(x, dim, ints(lib, [0]), (x * x).reshape(1)),
    "scatter": lambda lib, x, dim: lib.scatter(x, dim, ints(lib, 0), x * x),
    "scatter, a line": lambda lib, x, dim: lib.scatter(x, dim, ints(lib, [0]), (x * x).reshape(1)),
    "scatter, a number": lambda lib, x, dim: lib.scatter(x, dim, ints(lib, [0]), 5.0),
    "scatter_add": lambda lib, x, dim: lib.scatter_add(x, dim, ints(lib, [0, 0]), lib.stack([x, x * x])),
    "scatter_reduce, amax": lambda lib, x, dim: lib.scatter_reduce(x, dim, ints(lib, [0]), x * x, "amax"),
    "scatter_reduce, prod": lambda lib, x, dim: lib.scatter_reduce(x, dim, ints(lib, [0]), x * x, "prod"),
    "scatter_reduce, mean": lambda lib, x, dim: lib.scatter_reduce(
        x, dim, ints(lib, [0, 0]), lib.stack([x, x * x]), "mean"
    ),
}
NO_AXIS: dict[str, Along] = {
    **{name: of(name) for name in ("unbind", "diff", "trapezoid")},
    **{name: of(name, 1) for name in ("chunk", "split", "tensor_split")},
    "select": lambda lib, x, dim: lib.select(x, dim, 0),
    "narrow": lambda lib, x, dim: lib.narrow(x, dim, 0, 1),
    "roll": lambda lib, x, dim: lib.roll(x, 1, dim),
    "index_select, two": lambda lib, x, dim: lib.index_select(x, dim, ints(lib, [0, 0])),
}


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", ALONG)
def test_axis_of_a_number(name: str, dim: int) -> None:
    function = ALONG[name]
    ours, theirs = function(retrograd, retrograd.tensor(X), dim), function(torch, torch.tensor(X), dim)
    if isinstance(theirs, torch.Tensor):
        ours, theirs = (ours,), (theirs,)
    assert len(ours) == len(theirs)
    for k, (y, peer) in enumerate(zip(ours, theirs, strict=True)):
        assert_close(y, peer, f"{name}, result {k}")
        if peer.is_floating_point():

            def part(lib: Any, x: Any, k: int = k) -> Any:
                found = function(lib, x, dim)
                return found[k] if isinstance(found, tuple) else found

            assert_agree(lambda x: part(retrograd, x), lambda x: part(torch, x), X)


@pytest.mark.parametrize("dim", [1, -2])
@pytest.mark.parametrize("name", ALONG)
def test_other_axes_of_a_number(name: str, dim: int) -> None:
    with pytest.raises(IndexError):
        ALONG[name](torch, torch.tensor(X), dim)
    with pytest.raises(IndexError, match="is out of range; 1 axes allow -1 to 0"):
        ALONG[name](retrograd, retrograd.tensor(X), dim)


@pytest.mark.parametrize("name", NO_AXIS)
def test_what_needs_an_axis(name: str) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        NO_AXIS[name](torch, torch.tensor(X), 0)
    message = "the tensor has no axis|has no axis, needs|but a 0-d input has only one element to select"
    with pytest.raises((IndexError, ValueError), match=message):
        NO_AXIS[name](retrograd, retrograd.tensor(X), 0)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_no_index_at_all_fits_everything(shape: tuple[int, ...]) -> None:
    x, src = normal(*shape), normal(2, 3, seed=1)
    for lib in (retrograd, torch):
        assert lib.gather(lib.tensor(x), 0, ints(lib, [])).shape == (0,)
    for function in ("scatter", "scatter_add"):
        own = retrograd.tensor(src, requires_grad=True)  # PyTorch's backward refuses this source
        y = getattr(retrograd, function)(retrograd.tensor(x), 0, ints(retrograd, []), own)
        assert_close(y, getattr(torch, function)(torch.tensor(x), 0, ints(torch, []), torch.tensor(src)), function)
        np.testing.assert_array_equal(retrograd.autograd.grad(y.sum(), own)[0].numpy(), np.zeros((2, 3)))


@pytest.mark.parametrize("dims", [(0,), (-1,), ()])
@pytest.mark.parametrize("name", ["sum", "mean", "nansum", "nanmean", "amax", "amin", "logsumexp", "squeeze"])
def test_axes_of_a_number(name: str, dims: tuple[int, ...]) -> None:
    assert_agree(lambda x: getattr(retrograd, name)(x, dims), lambda x: getattr(torch, name)(x, dims), X)
    with pytest.raises(ValueError, match="names an axis"):
        getattr(retrograd, name)(retrograd.tensor(X), (0, -1))


ORDERS = (0.5, 1, 2, 3, 6, -1, -3, float("inf"), -float("inf"))


@pytest.mark.parametrize("value", [1.7, -0.3, 0.0])
@pytest.mark.parametrize("order", ORDERS)
def test_norms_of_a_number(order: float, value: float) -> None:
    x = np.array(value)
    assert_agree(lambda x: x.norm(order), lambda x: x.norm(order), x, second=value != 0 or order == 1)
    assert_agree(
        lambda x: retrograd.linalg.vector_norm(x, order),
        lambda x: torch.linalg.vector_norm(x, order),
        x,
        second=value != 0 or order == 1,  # at 0 that of 2 is 0, PyTorch's NaN
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nothing_counts_as_zero_in_a_number(dtype: Any) -> None:
    for value in (1.7, float("nan")):
        x = np.array(value, dtype)
        assert_agree(lambda x: x.nansum(), lambda x: x.nansum(), x)
        assert_agree(lambda x: x.nanmean(), lambda x: x.nanmean(), x)
