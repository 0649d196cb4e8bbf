"""Normalization: batch, layer, group, instance, root mean square, and local response norm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch.nn.functional as peer

import retrograd.nn.functional as functional

from ..harness import Rows
from .jobs import SHAPES, Job, rows_of

IMAGES, FEATURES, SEQUENCES = SHAPES


def _jobs() -> Iterator[Job]:
    for shape in SHAPES:
        channels = (shape[1],)
        yield _job("batch norm", shape, lambda f, x, w, b: f.batch_norm(x, None, None, w, b, True), channels)
        yield _job("group norm, 8 groups", shape, lambda f, x, w, b: f.group_norm(x, 8, w, b), channels)
        if len(shape) > 2:
            yield _job("instance norm", shape, lambda f, x, w, b: f.instance_norm(x, None, None, w, b), channels)
            yield _job("local response norm, size 5", shape, lambda f, x: f.local_response_norm(x, 5))
        last = shape[1:] if shape == IMAGES else shape[-1:]
        yield _job("layer norm", shape, lambda f, x, w, b: f.layer_norm(x, w.shape, w, b), last, rows=shape != IMAGES)
        yield _job("rms norm", shape, lambda f, x, w: f.rms_norm(x, w.shape, w), last, affine=1, rows=shape != IMAGES)
    yield _job("layer norm, plain", SEQUENCES, lambda f, x: f.layer_norm(x, (256,)), rows=True)
    yield _job("normalize", FEATURES, lambda f, x: f.normalize(x), rows=True)


def _job(
    name: str,
    shape: tuple[int, ...],
    norm: Callable[..., Any],
    affine_shape: tuple[int, ...] | None = None,
    affine: int = 2,
    rows: bool = False,
) -> Job:
    inputs = (shape,) if affine_shape is None else (shape, *(affine_shape,) * affine)
    return Job(
        "normalization",
        f"{name} {shape}",
        lambda *tensors: norm(functional, *tensors),
        lambda *tensors: norm(peer, *tensors),
        inputs,
        rows=rows,
        parameters=len(inputs) - 1,
    )


def rows(quick: bool, compile: bool) -> Rows:
    return rows_of(_jobs(), quick, compile)
