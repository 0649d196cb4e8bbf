from __future__ import annotations

from typing import Any

import numpy as np

from conformance.table import Layer, Op, Refusal, beside, distinct, normal, uniform
from naive_loss import ctc, multi_margin, multilabel_margin
from retrograd import Tensor, int64, nn
from retrograd.nn import functional

X, Y, FAR = normal(3, 5), distinct(3, 5), uniform(0.5, 2.0, 3, 5)
SCORES = 0.93 * Y  # no two differ by a margin of 1
P, Q = uniform(0.1, 0.9, 3, 5), uniform(0.1, 0.9, 3, 5, seed=1)
SIGNS = np.where(normal(3, 5, seed=2) > 0, 1, -1)
LABELS, CLASSES = np.array([4, 0, 2]), np.array([[1, 3, -1, 0, 0], [-1, 0, 0, 0, 0], [4, 2, 0, 1, -1]])
WEIGHT = uniform(0.5, 2.0, 5, seed=3)
ALL: dict[str, Any] = {"batch": (0, 1)}
NONE = {**ALL, "kwargs": {"reduction": "none"}}
BATCHMEAN = {**ALL, "kwargs": {"reduction": "batchmean"}}
BIG = (normal(40, 1000), normal(40, 1000, seed=1))
BIG_P = (uniform(0.1, 0.9, 40, 1000), uniform(0.1, 0.9, 40, 1000, seed=1))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, x)


def logs(x: np.ndarray, axis: int = 1) -> np.ndarray:
    return np.asarray(x - np.logaddexp.reduce(x, axis=axis, keepdims=True))


def mean(losses: Any) -> Any:
    """An oracle: the mean of what another one says; the reduction is in the options."""

    def reduced(*args: Any, reduction: str = "mean", **kwargs: Any) -> Any:
        y = losses(*args, **kwargs)
        if reduction == "batchmean":
            return y.sum() / len(y) if len(y) else np.nan
        if reduction == "mean":
            return y.mean() if y.size else np.nan
        return y.sum() if reduction == "sum" else y

    return reduced


def bce(p: np.ndarray, t: np.ndarray, weight: Any = 1.0) -> Any:
    return weight * -(t * np.log(p) + (1 - t) * np.log(1 - p))


def logits(x: np.ndarray, t: np.ndarray, weight: Any = 1.0, pos_weight: Any = 1.0) -> Any:
    return weight * (pos_weight * t * softplus(-x) + (1 - t) * softplus(x))


def smooth(x: np.ndarray, t: np.ndarray, beta: float = 1.0) -> Any:
    z = np.abs(x - t)
    return np.where(z < beta, z * z / 2 / beta, z - beta / 2)


def huber(x: np.ndarray, t: np.ndarray, delta: float = 1.0) -> Any:
    return delta * smooth(x, t, delta)


def hinge(x: np.ndarray, t: np.ndarray, margin: float = 1.0) -> Any:
    return np.where(t == 1, x, np.maximum(margin - x, 0))


def cosine(x: np.ndarray, y: np.ndarray, dim: int = 1) -> Any:
    return (x * y).sum(dim) / np.sqrt((x * x).sum(dim) * (y * y).sum(dim))


def distance(x: np.ndarray, y: np.ndarray, p: float = 2.0) -> Any:
    return (np.abs(x - y + 1e-6) ** p).sum(-1) ** (1 / p)


def triplet(a: np.ndarray, p: np.ndarray, n: np.ndarray, margin: float = 1.0, swap: bool = False) -> Any:
    far = np.minimum(distance(a, n), distance(p, n)) if swap else distance(a, n)
    return np.maximum(distance(a, p) - far + margin, 0)


def picked(x: np.ndarray, t: np.ndarray) -> Any:
    return -np.take_along_axis(x, np.expand_dims(t, 1), 1)[:, 0]


def paths(x: np.ndarray, reduction: str = "mean") -> Any:
    loss, _ = ctc(logs(x, 2), LABELS_OF_PATHS, (5, 4), (2, 1), 0)
    return np.mean(loss / [2, 1]) if reduction == "mean" else loss


LABELS_OF_PATHS = np.array([[1, 1], [2, 0]])


def ctc_loss(x: Tensor, reduction: str = "mean") -> Tensor:
    x = functional.log_softmax(x, 2)
    labels = beside(x, LABELS_OF_PATHS, dtype=int64)
    return functional.ctc_loss(x, labels, (5, 4), (2, 1), reduction=reduction)


class OfLogits(nn.Module):
    """A loss of log-probabilities, as a function of what they are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.CTCLoss()

    def forward(self, x: Tensor) -> Tensor:
        labels = beside(x, LABELS_OF_PATHS, dtype=int64)
        return self.loss(functional.log_softmax(x, 2), labels, (5, 4), (2, 1))


F = functional
WRONG = Refusal(ValueError, "reduction='avg' must be", X, X, reduction="avg")
UNEQUAL = Refusal(ValueError, "must be equal", P, P[:2])
OPERATORS = [
    Op("mse_loss", F.mse_loss, X, Y, oracle=mean(lambda x, t: (x - t) ** 2), large=BIG, errors=[WRONG], **ALL),
    Op("mse_loss: none", F.mse_loss, X, Y, oracle=mean(lambda x, t: (x - t) ** 2), large=BIG, **NONE),
    Op("l1_loss", F.l1_loss, Y, X, oracle=mean(lambda x, t: np.abs(x - t)), errors=[WRONG], **ALL),
    Op("smooth_l1_loss", F.smooth_l1_loss, X, 2 * Y, oracle=mean(smooth), large=BIG, errors=[WRONG], **ALL),
    Op("huber_loss", F.huber_loss, X, 2 * Y, oracle=mean(huber), errors=[WRONG], **ALL),
    Op(
        "mse_loss: weight",
        lambda x, t, w, **o: F.mse_loss(x, t, weight=w, **o),
        X,
        Y,
        FAR,
        oracle=lambda x, t, w: (w * (x - t) ** 2).sum() / w.sum(),
        batch=(0, 1, 2),
    ),
    Op(
        "binary_cross_entropy",
        F.binary_cross_entropy,
        P,
        Q,
        oracle=mean(bce),
        large=BIG_P,
        errors=[WRONG, UNEQUAL],
        **ALL,
    ),
    Op("binary_cross_entropy: none", F.binary_cross_entropy, P, Q, oracle=mean(bce), **NONE),
    Op(
        "binary_cross_entropy_with_logits",
        F.binary_cross_entropy_with_logits,
        X,
        Q,
        oracle=mean(logits),
        large=BIG,
        errors=[WRONG, UNEQUAL],
        **ALL,
    ),
    Op(
        "binary_cross_entropy_with_logits: weights",
        lambda x, t: F.binary_cross_entropy_with_logits(x, t, beside(x, WEIGHT), pos_weight=beside(x, WEIGHT[::-1])),
        X,
        Q,
        oracle=lambda x, t: mean(logits)(x, t, weight=WEIGHT, pos_weight=WEIGHT[::-1]),
        **ALL,
    ),
    Op("kl_div", F.kl_div, X, P, oracle=mean(lambda x, t: t * (np.log(t) - x)), large=(BIG[0], BIG_P[0]), **BATCHMEAN),
    Op(
        "kl_div: log_target",
        F.kl_div,
        X,
        Y,
        kwargs={"log_target": True, "reduction": "sum"},
        oracle=lambda x, t, log_target, reduction: (np.exp(t) * (t - x)).sum(),
        **ALL,
    ),
    Op(
        "poisson_nll_loss",
        F.poisson_nll_loss,
        X,
        FAR,
        oracle=mean(lambda x, t: np.exp(x) - t * x),
        errors=[WRONG],
        **ALL,
    ),
    Op(
        "poisson_nll_loss: rates, full",
        lambda x, t: F.poisson_nll_loss(x, t, log_input=False, full=True),
        FAR,
        3 * Q + 1.05,
        oracle=mean(lambda x, t: x - t * np.log(x + 1e-8) + t * np.log(t) - t + 0.5 * np.log(2 * np.pi * t)),
        **ALL,
    ),
    Op(
        "gaussian_nll_loss",
        F.gaussian_nll_loss,
        X,
        Y,
        FAR,
        oracle=mean(lambda x, t, v: 0.5 * (np.log(v) + (x - t) ** 2 / v)),
        large=(*BIG, uniform(0.5, 2.0, 40, 1000)),
        batch=(0, 1, 2),
        errors=[
            Refusal(ValueError, "var contains -1", X, X, -np.ones(X.shape)),
            Refusal(ValueError, "var must have input's shape", X, X, np.ones(4)),
        ],
    ),
    Op(
        "gaussian_nll_loss: one variance a row",
        lambda x, t, v: F.gaussian_nll_loss(x, t, v, full=True, reduction="sum"),
        X,
        Y,
        FAR[:, 0],
        oracle=lambda x, t, v: (0.5 * (np.log(2 * np.pi * v[:, None]) + (x - t) ** 2 / v[:, None])).sum(),
        batch=(0, 1, 2),
    ),
    Op("soft_margin_loss", F.soft_margin_loss, X, SIGNS, oracle=mean(lambda x, t: softplus(-t * x)), **ALL),
    Op("hinge_embedding_loss", F.hinge_embedding_loss, Y, SIGNS, oracle=mean(hinge), **ALL),
    Op(
        "margin_ranking_loss",
        F.margin_ranking_loss,
        X,
        Y,
        FAR,
        kwargs={"margin": 0.3},
        oracle=mean(lambda x, y, t, margin: np.maximum(margin - t * (x - y), 0)),
        batch=(0, 1, 2),
    ),
    Op(
        "cosine_embedding_loss",
        F.cosine_embedding_loss,
        X,
        Y,
        np.array([1, -1, -1]),
        oracle=mean(lambda x, y, t: np.where(t == 1, 1 - cosine(x, y), np.maximum(cosine(x, y), 0))),
        batch=(0, 1, 2),
        errors=[Refusal(ValueError, "(N, D), (N, D) and (N,)", X, X, X)],
    ),
    Op("triplet_margin_loss", F.triplet_margin_loss, X, Y, FAR, oracle=mean(triplet), batch=(0, 1, 2)),
    Op(
        "triplet_margin_with_distance_loss",
        F.triplet_margin_with_distance_loss,
        X,
        Y,
        FAR,
        kwargs={"swap": True, "margin": 2.0},
        oracle=mean(triplet),
        batch=(0, 1, 2),
        errors=[Refusal(ValueError, "margin=0 must be above 0", X, X, X, margin=0)],
    ),
    Op("pairwise_distance", F.pairwise_distance, X, Y, oracle=distance, **ALL),
    Op("pairwise_distance: p", F.pairwise_distance, X, Y, kwargs={"p": 3.0}, oracle=distance, **ALL),
    Op(
        "cosine_similarity",
        F.cosine_similarity,
        X,
        Y,
        oracle=cosine,
        errors=[Refusal(IndexError, "dim=2 is out of range", X, X, dim=2)],
        **ALL,
    ),
    Op(
        "multi_margin_loss",
        F.multi_margin_loss,
        SCORES,
        LABELS,
        oracle=mean(lambda x, t: multi_margin(x, t, 1, 1.0)),
        **ALL,
    ),
    Op(
        "multi_margin_loss: squares",
        F.multi_margin_loss,
        X,
        LABELS,
        kwargs={"p": 2, "margin": 0.4},
        oracle=mean(multi_margin),
        errors=[
            Refusal(ValueError, "p=3 must be 1 or 2", X, LABELS, p=3),
            Refusal(IndexError, "target[0] = 5 is not a class", X, LABELS + 1),
        ],
        **ALL,
    ),
    Op(
        "multilabel_margin_loss",
        F.multilabel_margin_loss,
        SCORES,
        CLASSES,
        oracle=mean(multilabel_margin),
        errors=[
            Refusal(IndexError, "target[0, 1] = 5 is not a class", X, CLASSES + 2),
            Refusal(TypeError, "target is float64", X, X),
            Refusal(ValueError, "both must be (N, C) or both (C,)", X, CLASSES[:2]),
        ],
        **ALL,
    ),
    Op(
        "multilabel_soft_margin_loss",
        F.multilabel_soft_margin_loss,
        X,
        Q,
        oracle=mean(lambda x, t: logits(x, t).mean(-1)),
        **ALL,
    ),
    Op("cross_entropy", F.cross_entropy, X, LABELS, oracle=mean(lambda x, t: picked(logs(x), t)), **ALL),
    Op(
        "cross_entropy: images",
        F.cross_entropy,
        normal(2, 3, 2, 2),
        np.array([[[0, 2], [1, 1]], [[2, 2], [0, 1]]]),
        kwargs={"reduction": "none"},
        oracle=mean(lambda x, t: picked(logs(x), t)),
        large=(normal(2, 19, 40, 40), np.arange(3200).reshape(2, 40, 40) % 19),
        **ALL,
    ),
    Op("cross_entropy: probabilities", F.cross_entropy, X, Q, oracle=mean(lambda x, t: -(t * logs(x)).sum(1)), **ALL),
    Op("nll_loss", F.nll_loss, X, LABELS, oracle=mean(picked), linear=True, **ALL),
    Op("ctc_loss", ctc_loss, normal(5, 2, 3), oracle=paths, order=1, batch=()),
    Op("ctc_loss: none", ctc_loss, normal(5, 2, 3), kwargs={"reduction": "none"}, oracle=paths, order=1, batch=()),
]


def layer(name: str, *arrays: Any, oracle: Any, **options: Any) -> Layer:
    return Layer(name, getattr(nn, name), *arrays, oracle=mean(oracle), batch=options.pop("batch", (0, 1)), **options)


LAYERS = [
    layer("MSELoss", X, Y, oracle=lambda x, t: (x - t) ** 2),
    layer("L1Loss", X, Y, oracle=lambda x, t: np.abs(x - t)),
    layer("SmoothL1Loss", X, 2 * Y, oracle=smooth),
    layer("HuberLoss", X, 2 * Y, oracle=huber),
    layer("BCELoss", P, Q, oracle=bce),
    layer("BCEWithLogitsLoss", X, Q, oracle=logits),
    Layer(
        "KLDivLoss",
        lambda: nn.KLDivLoss(reduction="batchmean"),
        X,
        P,
        oracle=lambda x, t: mean(lambda x, t: t * (np.log(t) - x))(x, t, reduction="batchmean"),
        batch=(0, 1),
    ),
    layer("PoissonNLLLoss", X, FAR, oracle=lambda x, t: np.exp(x) - t * x),
    layer("GaussianNLLLoss", X, Y, FAR, oracle=lambda x, t, v: (np.log(v) + (x - t) ** 2 / v) / 2, batch=(0, 1, 2)),
    layer("SoftMarginLoss", X, SIGNS, oracle=lambda x, t: softplus(-t * x)),
    layer("HingeEmbeddingLoss", Y, SIGNS, oracle=hinge),
    layer("MarginRankingLoss", X, Y, FAR, oracle=lambda x, y, t: np.maximum(-t * (x - y), 0), batch=(0, 1, 2)),
    layer(
        "CosineEmbeddingLoss",
        X,
        Y,
        np.array([1, -1, -1]),
        oracle=lambda x, y, t: np.where(t == 1, 1 - cosine(x, y), np.maximum(cosine(x, y), 0)),
        batch=(0, 1, 2),
    ),
    layer("TripletMarginLoss", X, Y, FAR, oracle=triplet, batch=(0, 1, 2)),
    layer("TripletMarginWithDistanceLoss", X, Y, FAR, oracle=triplet, batch=(0, 1, 2)),
    layer("MultiMarginLoss", SCORES, LABELS, oracle=lambda x, t: multi_margin(x, t, 1, 1.0)),
    layer("MultiLabelMarginLoss", SCORES, CLASSES, oracle=multilabel_margin),
    layer("MultiLabelSoftMarginLoss", X, Q, oracle=lambda x, t: logits(x, t).mean(-1)),
    layer("CrossEntropyLoss", X, LABELS, oracle=lambda x, t: picked(logs(x), t)),
    layer("NLLLoss", X, LABELS, oracle=picked),
    Layer("CTCLoss", OfLogits, normal(5, 2, 3), oracle=paths, order=1, batch=()),
    Layer("CosineSimilarity", nn.CosineSimilarity, X, Y, oracle=cosine, batch=(0, 1)),
    Layer("PairwiseDistance", nn.PairwiseDistance, X, Y, oracle=distance, batch=(0, 1)),
]
