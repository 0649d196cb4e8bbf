"""Products of square float32 matrices."""

from __future__ import annotations

import torch

import retrograd

from .. import libraries as lib
from ..harness import Row, Rows

TARGET = 0.9


def rows(quick: bool, compile: bool) -> Rows:
    for size in (128,) if quick else (128, 512, 2048):
        yield _row(size)


def _row(size: int) -> Row:
    a, b = lib.random(size, size), lib.random(size, size, seed=1)
    ra, rb = retrograd.Tensor(a), retrograd.Tensor(b)
    pa, pb = lib.theirs(a), lib.theirs(b)
    return Row(
        "matmul",
        f"({size}, {size}) @ ({size}, {size})",
        lambda: ra @ rb,
        {lib.CONTIGUOUS: lambda: torch.matmul(pa, pb)},
        TARGET,
        lambda: [((ra @ rb).numpy(), torch.matmul(pa, pb).numpy())],
    )
