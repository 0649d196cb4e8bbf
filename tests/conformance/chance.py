"""Cases of embeddings, one-hot vectors, dropout and other operators that draw random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import retrograd
from conformance.table import Layer, Op, Refusal, normal, uniform
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

W = normal(5, 3)
ROWS = np.array([[1, 4, 1], [0, 2, 2]])
FLAT, OFFSETS = ROWS.reshape(-1), np.array([0, 2, 2])
X, IMAGE = normal(4, 6), normal(2, 3, 4, 2)
CHANCES = uniform(0.1, 0.9, 4, 6)


def bags(index: np.ndarray, w: np.ndarray, ends: list[int], join: Any, factors: Any = None) -> np.ndarray:
    rows = w[index] if factors is None else w[index] * factors[:, None]
    parts = [rows[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]
    return np.array([join(part, 0) if len(part) else np.zeros(w.shape[1]) for part in parts]).reshape(-1, w.shape[1])


def of_rows(join: Any) -> Any:
    return lambda i, w: bags(i.reshape(-1), w, [k * i.shape[1] for k in range(len(i) + 1)], join)


NOT_INT64 = "embedding: input is float64, needs an int64 Tensor"
TABLES = [
    Op(
        "embedding",
        F.embedding,
        ROWS,
        W,
        oracle=lambda i, w: w[i],
        linear=True,
        large=(np.arange(9000).reshape(90, 100) * 7 % 500, normal(500, 40)),
        errors=[
            Refusal(TypeError, NOT_INT64, W, W),
            Refusal(TypeError, "embedding: weight is int64", np.zeros(2, int), np.ones((2, 3), int), max_norm=1.0),
            Refusal(
                IndexError,
                "embedding: input[0, 1]=5 is out of range; weight.shape=(5, 3) allows 0 to 4",
                np.array([[0, 5]]),
                W,
            ),
            Refusal(IndexError, "embedding: input[0]=-1 is out of range", np.array([-1]), W),
            Refusal(IndexError, "embedding: padding_idx=5 is out of range; weight has 5 rows", ROWS, W, 5),
            Refusal(ValueError, "embedding: weight.shape=(3,), needs (V, D)", ROWS, W[0]),
            Refusal(TypeError, "embedding: sparse=1 must be True or False", ROWS, W, sparse=1),
        ],
    ),
    *[
        Op(
            f"embedding_bag: {mode}",
            lambda i, w, mode=mode: F.embedding_bag(i, w, mode=mode),
            ROWS,
            W,
            oracle=of_rows(join),
            large=(np.arange(9000).reshape(90, 100) * 7 % 500, normal(500, 40)),
        )
        for mode, join in (("sum", np.sum), ("mean", np.mean), ("max", np.max))
    ],
    *[
        Op(
            f"embedding_bag: {mode} with offsets",
            lambda i, w, o, mode=mode: F.embedding_bag(i, w, o, mode=mode),
            FLAT,
            W,
            OFFSETS,
            oracle=lambda i, w, o, join=join: bags(i, w, [0, 2, 2, 6], join),
            batch=(),
        )
        for mode, join in (("sum", np.sum), ("mean", np.mean), ("max", np.max))
    ],
    Op(
        "embedding_bag",
        lambda i, w, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s, include_last_offset=True),
        FLAT,
        W,
        np.array([0, 1, 6]),
        normal(6),
        oracle=lambda i, w, o, s: bags(i, w, [0, 1, 6], np.sum, s),
        batch=(),
    ),
    Op(
        "embedding_bag: entries after the last bag",
        lambda i, w, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s, include_last_offset=True),
        FLAT,
        W,
        np.array([0, 1, 4]),
        normal(6),
        oracle=lambda i, w, o, s: bags(i[:4], w, [0, 1, 4], np.sum, s[:4]),
        batch=(),
    ),
    Op(
        "embedding_bag: padding_idx",
        lambda i, w: F.embedding_bag(i, w, padding_idx=-3),
        ROWS,
        W,
        batch=(),
        oracle=lambda i, w: np.stack([w[[1, 4, 1]].mean(0), w[0]]),
    ),
    Op(
        "embedding_bag: refusals",
        F.embedding_bag,
        ROWS,
        W,
        oracle=of_rows(np.mean),
        errors=[
            Refusal(ValueError, 'embedding_bag: mode=\'min\' must be "sum", "mean" or "max"', ROWS, W, mode="min"),
            Refusal(ValueError, "embedding_bag: offsets are for an input (K,)", ROWS, W, OFFSETS),
            Refusal(
                ValueError, "embedding_bag: input.shape=(6,) must be (bags, K), or (K,) together with offsets", FLAT, W
            ),
            Refusal(
                ValueError,
                "embedding_bag: offsets=[1, 2] must be a vector that begins with 0",
                FLAT,
                W,
                np.array([1, 2]),
            ),
            Refusal(TypeError, "embedding_bag: offsets is float64, needs an int64 Tensor", FLAT, W, normal(2)),
            Refusal(
                ValueError,
                "embedding_bag: per_sample_weights needs mode='sum' and input's shape (2, 3)",
                ROWS,
                W,
                per_sample_weights=normal(2, 3),
            ),
            Refusal(
                ValueError,
                "scale_grad_by_freq=True is not available for mode='max'",
                ROWS,
                W,
                mode="max",
                scale_grad_by_freq=True,
            ),
        ],
    ),
    Op(
        "one_hot",
        F.one_hot,
        ROWS,
        6,
        oracle=lambda i, n: np.array([[[c == k for k in range(n)] for c in r] for r in i], int).reshape(*i.shape, n),
        order=0,
        errors=[
            Refusal(
                ValueError, "one_hot: num_classes=2 must be at least 1 and above all classes, which range", ROWS, 2
            ),
            Refusal(ValueError, "which range from -1 to 0", np.array([-1, 0])),
            Refusal(TypeError, "one_hot: tensor is float64, needs an int64 Tensor", W),
            Refusal(
                ValueError, "one_hot: an empty tensor does not determine the number of classes", np.zeros(0, np.int64)
            ),
        ],
    ),
]

P = "is a probability and must lie in [0, 1]"
DRAWS = [
    Op(
        "dropout",
        F.dropout,
        X,
        0.4,
        random=True,
        linear=True,
        large=(normal(40, 30, 50), 0.4),
        errors=[Refusal(ValueError, f"dropout: p=1.5 {P}", X, 1.5)],
    ),
    *[
        Op(
            f"dropout{n}d",
            getattr(F, f"dropout{n}d"),
            x,
            0.4,
            random=True,
            linear=True,
            errors=[
                Refusal(ValueError, f"dropout{n}d: input.shape=(4,) must have {n} axes after the channels", normal(4))
            ],
        )
        for n, x in ((1, normal(2, 3, 4)), (2, IMAGE), (3, normal(2, 3, 2, 2, 2)))
    ],
    Op("alpha_dropout", F.alpha_dropout, X, 0.4, True, random=True, batch=(0,)),
    Op(
        "feature_alpha_dropout",
        F.feature_alpha_dropout,
        IMAGE,
        0.4,
        True,
        random=True,
        errors=[Refusal(ValueError, "feature_alpha_dropout: input.shape=(4,), needs (N, C, *I)", normal(4), 0.5, True)],
    ),
    Op(
        "bernoulli",
        retrograd.bernoulli,
        CHANCES,
        random=True,
        order=0,
        layouts=True,
        errors=[Refusal(ValueError, "bernoulli: probabilities must lie in [0, 1]", X)],
    ),
    Op(
        "poisson",
        retrograd.poisson,
        CHANCES * 5,
        random=True,
        order=0,
        errors=[Refusal(ValueError, "poisson: rates must be at least 0", X)],
    ),
    Op(
        "multinomial",
        retrograd.multinomial,
        CHANCES,
        3,
        random=True,
        order=0,
        batch=(),
        errors=[
            Refusal(ValueError, "multinomial: num_samples=7, but a row has only 6 weights above 0", CHANCES, 7),
            Refusal(ValueError, "multinomial: weights must be finite and at least 0", X, 1),
            Refusal(ValueError, "multinomial: num_samples=0 must be at least 1", CHANCES, 0),
            Refusal(ValueError, "multinomial: input.shape=(2, 3, 4, 2), needs (N,) or (M, N)", np.abs(IMAGE), 1),
        ],
    ),
]

OPERATORS = [*TABLES, *DRAWS]

LAYERS = [
    Layer("Embedding", lambda: nn.Embedding(5, 3), ROWS, oracle=lambda i, w: w[i], linear=True),
    Layer("EmbeddingBag", lambda: nn.EmbeddingBag(5, 3), ROWS, oracle=of_rows(np.mean)),
    Layer("EmbeddingBag: max", lambda: nn.EmbeddingBag(5, 3, mode="max"), ROWS, oracle=of_rows(np.max)),
    Layer("Dropout1d", lambda: nn.Dropout1d(0.4), normal(2, 3, 4), random=True),
    Layer("Dropout2d", lambda: nn.Dropout2d(0.4), IMAGE, random=True),
    Layer("Dropout3d", lambda: nn.Dropout3d(0.4), normal(2, 3, 2, 2, 2), random=True),
    Layer("AlphaDropout", lambda: nn.AlphaDropout(0.4), X, random=True),
    Layer("FeatureAlphaDropout", lambda: nn.FeatureAlphaDropout(0.4), IMAGE, random=True),
]
