"""Max and average pooling in 1, 2 and 3 dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, assert_close, distinct, normal

SIZES = {1: (13,), 2: (9, 7), 3: (6, 5, 7)}
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1},
    {"kernel_size": 2, "stride": 3},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 3, "padding": 1, "ceil_mode": True},
]


def _name(window: dict[str, Any]) -> str:
    return "-".join(f"{key}{value}" for key, value in window.items())


def _pool(library: Any, kind: str, ndim: int, **options: Any) -> Any:
    function = getattr(library, f"{kind}_pool{ndim}d")
    return lambda x: function(x, **options)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("ndim", [1, 2])  # PyTorch refuses it in three axes
def test_ceil_mode_of_a_window_larger_than_the_input(ndim: int, kind: str) -> None:
    options = {"kernel_size": 14, "stride": 12, "padding": 1, "ceil_mode": True}
    x = distinct(2, 3, *SIZES[ndim])
    assert_agree(_pool(ours, kind, ndim, **options), _pool(peer, kind, ndim, **options), x)
    with pytest.raises(ValueError, match="no output on axis 0"):
        _pool(ours, kind, ndim, **options | {"stride": 1})(retrograd.tensor(x[..., :5]))


@pytest.mark.parametrize("ndim", SIZES)
@pytest.mark.parametrize("window", [*WINDOWS, {"kernel_size": 2, "stride": 1, "dilation": 2}], ids=_name)
def test_max_pool(ndim: int, window: dict[str, Any]) -> None:
    x = distinct(2, 3, *SIZES[ndim])
    assert_agree(_pool(ours, "max", ndim, **window), _pool(peer, "max", ndim, **window), x)


@pytest.mark.parametrize("ndim", SIZES)
def test_max_pool_indices(ndim: int) -> None:
    x = distinct(2, 3, *SIZES[ndim])
    mine = _pool(ours, "max", ndim, kernel_size=3, stride=2, padding=1, return_indices=True)(retrograd.tensor(x))
    yours = _pool(peer, "max", ndim, kernel_size=3, stride=2, padding=1, return_indices=True)(torch.tensor(x))
    assert_close(mine[0], yours[0], "value")
    assert_close(mine[1], yours[1], "indices")


@pytest.mark.parametrize("ndim", SIZES)
@pytest.mark.parametrize("window", WINDOWS, ids=_name)
@pytest.mark.parametrize("count_include_pad", [True, False])
def test_avg_pool(ndim: int, window: dict[str, Any], count_include_pad: bool) -> None:
    options = {**window, "count_include_pad": count_include_pad}
    assert_agree(_pool(ours, "avg", ndim, **options), _pool(peer, "avg", ndim, **options), normal(2, 3, *SIZES[ndim]))


@pytest.mark.parametrize("ndim", [2, 3])
def test_divisor_override(ndim: int) -> None:
    options = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "divisor_override": 5}
    assert_agree(_pool(ours, "avg", ndim, **options), _pool(peer, "avg", ndim, **options), normal(2, 3, *SIZES[ndim]))


@pytest.mark.parametrize("ndim", SIZES)
@pytest.mark.parametrize("output_size", [1, 2, 3, 8, None])
def test_adaptive(ndim: int, output_size: int | None) -> None:
    x = distinct(2, 3, *SIZES[ndim])
    given = output_size if output_size is not None or ndim == 1 else (None,) * (ndim - 1) + (2,)
    if given is None:
        given = 13
    for kind, second in (("avg", True), ("max", False)):  # PyTorch has no second derivative of the latter
        mine, yours = (getattr(library, f"adaptive_{kind}_pool{ndim}d") for library in (ours, peer))
        assert_agree(lambda x, f=mine: f(x, given), lambda x, f=yours: f(x, given), x, second=second)
        assert_agree(lambda x, f=mine: f(x, given), lambda x, f=yours: f(x, given), x[0], second=False)
    mine, yours = (getattr(library, f"adaptive_max_pool{ndim}d") for library in (ours, peer))
    places = mine(retrograd.tensor(x), given, return_indices=True)[1]
    assert_close(places, yours(torch.tensor(x), given, return_indices=True)[1], "indices")


@pytest.mark.parametrize("ndim", SIZES)
@pytest.mark.parametrize("norm_type", [1, 2, 3.0, float("inf"), -float("inf")])
@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"stride": 2, "ceil_mode": True}], ids=str)
def test_lp_pool(ndim: int, norm_type: float, options: dict[str, Any]) -> None:
    x = np.abs(distinct(2, 3, *SIZES[ndim])) + 0.1 * normal(2, 3, *SIZES[ndim]) ** 2 + 0.1
    mine, yours = (getattr(library, f"lp_pool{ndim}d") for library in (ours, peer))
    second = not np.isinf(norm_type)
    assert_agree(
        lambda x: mine(x, norm_type, 3, **options), lambda x: yours(x, norm_type, 3, **options), x, second=second
    )


@pytest.mark.parametrize("ndim", SIZES)
def test_max_unpool(ndim: int) -> None:
    x = distinct(2, 3, *SIZES[ndim])
    _, places = _pool(peer, "max", ndim, kernel_size=2, return_indices=True)(torch.tensor(x))
    values = normal(*places.shape, seed=4)
    mine, yours = (getattr(library, f"max_unpool{ndim}d") for library in (ours, peer))
    assert_agree(
        lambda v: mine(v, retrograd.tensor(places.numpy()), 2, output_size=x.shape[2:]),
        lambda v: yours(v, places, 2, output_size=x.shape[2:]),
        values,
        second=False,
    )


@pytest.mark.parametrize("ndim", SIZES)
def test_text_of_the_layers(ndim: int) -> None:
    for name, arguments in (
        ("MaxPool", (2,)),
        ("MaxPool", (3, 2, 1)),
        ("AvgPool", (2,)),
        ("AvgPool", (3, 2, 1)),
        ("LPPool", (2, 3)),
        ("LPPool", (1.5, 3, 2, True)),
        ("AdaptiveAvgPool", (3,)),
        ("AdaptiveMaxPool", ((3,) * ndim,)),
        ("MaxUnpool", (2,)),
        ("MaxUnpool", (3, 2, 1)),
        *([("FractionalMaxPool", (2, 3))] if ndim > 1 else []),
    ):
        mine, yours = (getattr(library.nn, f"{name}{ndim}d")(*arguments) for library in (retrograd, torch))
        assert repr(mine) == repr(yours)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("ndim", "sizes"), [(2, (2, 4)), (2, ((3, 1), (2, 7))), (3, (2, 3)), (3, ((1, 2, 3), 3))])
def test_fractional_max_pool(ndim: int, sizes: tuple[Any, Any], dtype: type) -> None:
    x = distinct(2, 3, *SIZES[ndim]).astype(dtype)
    u = np.random.default_rng(3).uniform(size=(2, 3, ndim)).astype(dtype)
    name = f"fractional_max_pool{ndim}d"

    def pool(library: Any, root: Any) -> Any:
        return lambda x: getattr(library, name)(x, *sizes, return_indices=True, _random_samples=root.tensor(u))

    mine, yours = pool(ours, retrograd), pool(peer, torch)
    assert_close(mine(retrograd.tensor(x))[1], yours(torch.tensor(x))[1], "indices")
    assert_agree(lambda x: mine(x)[0], lambda x: yours(x)[0], x, second=False)  # PyTorch has no second derivative
