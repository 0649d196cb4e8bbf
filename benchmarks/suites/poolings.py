"""Pooling: maximum, mean and norm of windows, adaptive pooling, and unpooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as functional

from .. import libraries as lib
from ..harness import Rows
from .jobs import Job, rows_of

SHAPES = {2: (8, 64, 56, 56), 1: (16, 512, 256)}

# name -> the function's name without its number of axes, and its options
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "max 2": ("max_pool", {"kernel_size": 2}),
    "max 3, stride 2, padding 1": ("max_pool", {"kernel_size": 3, "stride": 2, "padding": 1}),
    "max 2, with places": ("max_pool", {"kernel_size": 2, "return_indices": True}),
    "average 2": ("avg_pool", {"kernel_size": 2}),
    "average 3, stride 2, padding 1": ("avg_pool", {"kernel_size": 3, "stride": 2, "padding": 1}),
    "norm 2": ("lp_pool", {"norm_type": 2, "kernel_size": 2}),
    "average to 1": ("adaptive_avg_pool", {"output_size": 1}),
    "average to 7": ("adaptive_avg_pool", {"output_size": 7}),
    "average to 10": ("adaptive_avg_pool", {"output_size": 10}),
    "max to 1": ("adaptive_max_pool", {"output_size": 1}),
    "max to 10": ("adaptive_max_pool", {"output_size": 10}),
}


def rows(quick: bool, compile: bool) -> Rows:
    return rows_of(_jobs(quick), quick, compile)


def _jobs(quick: bool) -> Iterator[Job]:
    for axes, shape in SHAPES.items():
        for name, (operator, options) in list(FORMS.items())[:: 4 if quick else 1]:
            ours, theirs = (_pooling(library, f"{operator}{axes}d", options) for library in (functional, peer))
            yield Job("pooling", f"{name}, {shape}", ours, theirs, (shape,))
    shape = SHAPES[2]
    places = peer.max_pool2d(torch.randn(shape), 2, return_indices=True)[1]
    mine = retrograd.Tensor(lib.channels_last(places.numpy()))  # as our pooling leaves them
    yield Job(
        "pooling",
        f"unpooling to {shape}",
        lambda x: functional.max_unpool2d(x, mine, 2),
        lambda x: peer.max_unpool2d(x, places, 2),
        (tuple(places.shape),),
    )


def _pooling(library: Any, name: str, options: dict[str, Any]) -> Any:
    function = getattr(library, name)

    def pool(x: Any) -> Any:
        y = function(x, **options)
        return y[0] if isinstance(y, tuple) else y

    return pool
