"""Max and average pooling in 1, 2 and 3 dimensions."""

from __future__ import annotations

from typing import Any

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
]


def _name(window: dict[str, Any]) -> str:
    return "-".join(f"{key}{value}" for key, value in window.items())


def _pool(library: Any, kind: str, ndim: int, **options: Any) -> Any:
    function = getattr(library, f"{kind}_pool{ndim}d")
    return lambda x: function(x, **options)


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
