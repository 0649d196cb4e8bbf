"""Losses, averaged: elements on the three shapes, classes on rows and on images, distances of rows, and CTC.

Operands without a gradient (targets, labels, weights) are created once for each library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as functional

from .. import libraries as lib
from ..harness import Rows
from .jobs import SHAPES, Job, rows_of

ROWS, IMAGES = (64, 1024), (8, 64, 56, 56)


def _signs(shape: tuple[int, ...]) -> np.ndarray:
    return np.where(lib.random(*shape, seed=5) > 0, 1, -1).astype(np.float32)


def _goals(shape: tuple[int, ...]) -> np.ndarray:
    return (0.5 + 0.4 * np.sin(lib.random(*shape, seed=5))).astype(np.float32)


def _normal(shape: tuple[int, ...]) -> np.ndarray:
    return lib.random(*shape, seed=5)


# loss -> its target; the range of its input, if it is not normal; options
_ELEMENTS: dict[str, tuple[Any, float | None, dict[str, Any]]] = {
    "mse_loss": (_normal, None, {}),
    "l1_loss": (_normal, None, {}),
    "smooth_l1_loss": (_normal, None, {}),
    "huber_loss": (_normal, None, {}),
    "binary_cross_entropy": (_goals, 0.1, {}),
    "binary_cross_entropy_with_logits": (_goals, None, {}),
    "kl_div": (_goals, None, {"reduction": "batchmean"}),
    "poisson_nll_loss": (_goals, None, {}),
    "soft_margin_loss": (_signs, None, {}),
    "hinge_embedding_loss": (_signs, None, {}),
    "multilabel_soft_margin_loss": (_goals, None, {}),
}


def _elements() -> Iterator[Job]:
    for name, (make, low, options) in _ELEMENTS.items():
        for shape in SHAPES:
            yield _job(name, shape, (make(shape),), (shape,), low=low, high=0.9, **options)
    for shape in SHAPES:
        yield _job("margin_ranking_loss", shape, (_signs(shape),), (shape, shape))
    for shape in SHAPES:  # variances are not random inputs, because they must not be negative
        yield _job("gaussian_nll_loss", shape, (_normal(shape), _goals(shape)), (shape,))


def _rows() -> Iterator[Job]:
    labels = np.random.default_rng(0).integers(0, ROWS[1], ROWS[0])
    yield _job("cross_entropy", ROWS, (labels,), (ROWS,))
    yield _job("cross_entropy", ROWS, (labels,), (ROWS,), label="smoothing 0.1", label_smoothing=0.1)
    pixels = np.random.default_rng(0).integers(0, IMAGES[1], (IMAGES[0], *IMAGES[2:]))
    yield _job("cross_entropy", IMAGES, (pixels,), (IMAGES,))
    ignored = np.where(np.random.default_rng(1).random(pixels.shape) < 0.1, 255, pixels)
    weight = (0.5 + np.random.default_rng(2).random(IMAGES[1])).astype(np.float32)
    yield _job("cross_entropy", IMAGES, (ignored, weight), (IMAGES,), label="weight, ignore_index", ignore_index=255)
    yield _job("nll_loss", ROWS, (labels,), (ROWS,))
    yield _nll_of_images(pixels)
    yield _job("multi_margin_loss", ROWS, (labels,), (ROWS,))
    several = np.full(ROWS, -1)
    several[:, :5] = np.random.default_rng(0).permuted(np.tile(np.arange(ROWS[1]), (ROWS[0], 1)), axis=1)[:, :5]
    yield _job("multilabel_margin_loss", ROWS, (several,), (ROWS,))
    yield _job("cosine_embedding_loss", ROWS, (_signs(ROWS[:1]),), (ROWS, ROWS))
    yield _job("triplet_margin_loss", ROWS, (), (ROWS, ROWS, ROWS))
    yield _job("triplet_margin_loss", ROWS, (), (ROWS, ROWS, ROWS), label="swap", swap=True)


def _nll_of_images(pixels: np.ndarray) -> Job:
    ours, theirs = retrograd.tensor(pixels), torch.tensor(pixels)
    return Job(
        "losses",
        f"nll_loss {IMAGES}",
        lambda x: functional.nll_loss(x, ours),
        lambda x: peer.nll_loss(x.contiguous(), theirs),  # PyTorch has no gradient of it in channels-last
        (IMAGES,),
    )


def _ctc() -> Iterator[Job]:
    T, N, C, S = 200, 16, 64, 30
    targets = np.random.default_rng(0).integers(1, C, (N, S))
    lengths = [np.full(N, T), np.random.default_rng(1).integers(S // 2, S + 1, N)]

    def call(library: Any, tensor: Any) -> Any:
        fixed = [tensor(a) for a in (targets, *lengths)]
        # rows of classes in memory, as a linear layer makes them
        return lambda x: library.ctc_loss(x.log_softmax(2), *fixed)

    ours, theirs = call(functional, retrograd.tensor), call(peer, torch.tensor)
    # float32 logarithms of 200 factors: both libraries are off by this much in places
    yield Job("losses", f"ctc_loss T={T} N={N} C={C} S={S}", ours, theirs, ((T, N, C),), tolerance=1e-2)


def _job(
    name: str,
    shape: tuple[int, ...],
    constants: tuple[np.ndarray, ...],
    inputs: tuple[tuple[int, ...], ...],
    label: str = "",
    low: float | None = None,
    high: float = 2.0,
    **options: Any,
) -> Job:
    ours = [lib.ours(a) if a.dtype.kind == "f" else retrograd.tensor(a) for a in constants]
    theirs = [torch.tensor(a) for a in constants]
    f, p = getattr(functional, name), getattr(peer, name)
    title = f"{name} {shape}" + (f", {label}" if label else "")
    return Job(
        "losses",
        title,
        lambda *xs: f(*xs, *ours, **options),
        lambda *xs: p(*xs, *theirs, **options),
        inputs,
        low=low,
        high=high,
    )


def rows(quick: bool, compile: bool) -> Rows:
    for jobs in (_rows, _ctc, _elements):
        yield from rows_of(jobs(), quick, compile)
