"""Scaled dot-product attention, all positions and causal, and MultiheadAttention around it.

Inputs and results are matrices (batch, heads and positions, features), so that both libraries read and write rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as functional

from ..harness import Rows
from .jobs import Job, Operator, rows_of

SHAPES = ((4, 8, 512, 64), (16, 8, 128, 32), (1, 8, 1024, 64))  # batch, heads, positions, features
LAYER = (16, 128, 256)  # batch, positions, features


def rows(quick: bool, compile: bool) -> Rows:
    return rows_of(_jobs(SHAPES[1:2] if quick else SHAPES), quick, compile)


def _jobs(shapes: tuple[tuple[int, ...], ...]) -> Iterator[Job]:
    for shape in shapes:
        flat = (shape[0] * shape[1] * shape[2], shape[3])
        for causal in (False, True):
            name = f"{shape}{', causal' if causal else ''}"
            ours, theirs = (_attention(library, shape, causal) for library in (functional, peer))
            yield Job("attention", name, ours, theirs, (flat,) * 3)
    mine, yours = _layers()
    flat = (LAYER[0] * LAYER[1], LAYER[2])
    yield Job("attention", f"MultiheadAttention {LAYER}", _self_attention(mine), _self_attention(yours), (flat,))


def _attention(library: Any, shape: tuple[int, ...], causal: bool) -> Operator:
    def attend(q: Any, k: Any, v: Any) -> Any:
        y = library.scaled_dot_product_attention(*(x.reshape(shape) for x in (q, k, v)), is_causal=causal)
        return y.reshape(-1, shape[3])

    return attend


def _layers() -> tuple[Any, Any]:
    """Return MultiheadAttention in both libraries, with the same weights."""
    mine, yours = (library.nn.MultiheadAttention(LAYER[2], 8, batch_first=True) for library in (retrograd, torch))
    yours.load_state_dict({key: torch.tensor(value.numpy().copy()) for key, value in mine.state_dict().items()})
    return mine, yours


def _self_attention(module: Any) -> Operator:
    def attend(x: Any) -> Any:
        x = x.reshape(LAYER)
        return module(x, x, x, need_weights=False)[0].reshape(-1, LAYER[2])

    return attend
