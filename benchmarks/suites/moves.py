"""Dropout, small products, and operators that move elements: joining, padding, indexing, windows, resampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as functional

from ..harness import Rows
from .jobs import Job, on_all_shapes, rows_of

IMAGE = (8, 64, 56, 56)
_PLACES = np.random.default_rng(0).integers(0, 1000, (16, 512))


def _embedding(library: Any, function: Any) -> Callable[..., Any]:
    places = library.tensor(_PLACES)
    return lambda w: function.embedding(places, w)


def _rows_of(library: Any) -> Callable[..., Any]:
    places = library.tensor(_PLACES.reshape(-1))
    return lambda w: w[places]


def _taps_first(w: Any) -> Any:
    return w.permute(2, 3, 1, 0).contiguous()


def _jobs() -> Iterator[Job]:
    both = ((retrograd, functional), (torch, peer))
    for name, call in (
        ("cat channels", lambda library, _: lambda x, y: library.cat([x, y], 1)),
        ("stack", lambda library, _: lambda x, y: library.stack([x, y])),
    ):
        yield Job("shapes", name, call(*both[0]), call(*both[1]), (IMAGE, IMAGE))
    for name, operator in {
        "pad 1": lambda library, f: lambda x: f.pad(x, (1, 1, 1, 1)),
        "pad 1 reflect": lambda library, f: lambda x: f.pad(x, (1, 1, 1, 1), "reflect"),
        "interpolate nearest x2": lambda library, f: lambda x: f.interpolate(x, scale_factor=2),
        "interpolate bilinear x2": lambda library, f: lambda x: f.interpolate(x, scale_factor=2, mode="bilinear"),
        "interpolate bicubic x0.5": lambda library, f: lambda x: f.interpolate(x, scale_factor=0.5, mode="bicubic"),
        "pixel_shuffle 2": lambda library, f: lambda x: f.pixel_shuffle(x, 2),
        "unfold 3": lambda library, f: lambda x: f.unfold(x, 3, padding=1),
        "flip": lambda library, f: lambda x: library.flip(x, (3,)),
    }.items():
        yield Job("shapes", name, operator(*both[0]), operator(*both[1]), (IMAGE,))
    # its time once depended on whether pages behind the result were present
    yield Job("shapes", "weights to taps first", _taps_first, _taps_first, ((256, 400, 3, 3),), rows=True)
    yield Job("shapes", "rows by index", _rows_of(retrograd), _rows_of(torch), ((1000, 256),))
    ours, theirs = _embedding(retrograd, functional), _embedding(torch, peer)
    yield Job("shapes", "embedding", ours, theirs, ((1000, 256),), rows=True)
    for batch, m, k, n in ((512, 8, 8, 8), (1024, 16, 16, 16), (128, 64, 64, 64), (32, 128, 64, 128)):
        shapes = ((batch, m, k), (batch, k, n))
        yield Job("products", f"bmm {batch} x {m}x{k}x{n}", retrograd.bmm, torch.bmm, shapes, rows=True)
    equation = "bhqd,bhkd->bhqk"
    yield Job(
        "products",
        f"einsum {equation}",
        lambda q, k: retrograd.einsum(equation, q, k),
        lambda q, k: torch.einsum(equation, q, k),
        ((4, 8, 128, 64), (4, 8, 128, 64)),
        rows=True,
    )


def rows(quick: bool, compile: bool) -> Rows:
    # their random numbers differ, so there are no values to compare
    for job in on_all_shapes("dropout", "dropout 0.3", _dropout(functional), _dropout(peer)):
        for row in rows_of([job], quick, compile):
            yield replace(row, values=None)
    yield from rows_of(_jobs(), quick, compile)


def _dropout(library: Any) -> Callable[..., Any]:
    return lambda x: library.dropout(x, 0.3)
