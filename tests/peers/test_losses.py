"""Losses: every option and reduction, with all gradients that PyTorch has."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as peer

import retrograd
import retrograd.nn.functional as ours
from peers.compare import assert_agree, assert_close, distinct, normal, uniform
from retrograd import nn

pytestmark = pytest.mark.filterwarnings("ignore:.*batchmean")
REDUCTIONS = ("mean", "sum", "none")
SHAPE = (5, 7)
X, T, W = normal(*SHAPE), normal(*SHAPE, seed=1), uniform(0.5, 2, *SHAPE, seed=2)
PROBABILITY, GOAL = uniform(0.05, 0.95, *SHAPE), uniform(0.05, 0.95, *SHAPE, seed=1)
COUNTS = uniform(0.1, 5, *SHAPE, seed=1)
SIGNS = np.where(GOAL > 0.5, 1.0, -1.0)


def agree(
    name: str,
    *arrays: np.ndarray,
    constants: dict[str, np.ndarray] | None = None,
    tolerance: float | None = None,
    second: bool = True,
    **options: Any,
) -> None:
    """The function in both libraries; ``constants`` are arrays that have no gradient."""
    fixed = constants or {}

    def call(library: Any, tensor: Any) -> Any:
        return lambda *xs: getattr(library, name)(*xs, **{k: tensor(v) for k, v in fixed.items()}, **options)

    # of no elements, the second gradient of a mean may be NaN or 0
    second = second and bool(arrays[0].size)
    assert_agree(call(ours, retrograd.tensor), call(peer, torch.tensor), *arrays, second=second, tolerance=tolerance)


# name -> arrays that have gradients, constants, options
ELEMENTS: dict[str, tuple[tuple[np.ndarray, ...], dict[str, np.ndarray], list[dict[str, Any]]]] = {
    "mse_loss": ((X, T), {}, [{}]),
    "l1_loss": ((X, T), {}, [{}]),
    "smooth_l1_loss": ((X, T), {}, [{}, {"beta": 0.3}, {"beta": 0.0}]),
    "huber_loss": ((X, T), {}, [{}, {"delta": 0.3}]),
    "binary_cross_entropy": ((PROBABILITY, GOAL), {}, [{}]),
    "binary_cross_entropy_with_logits": ((3 * X, GOAL), {}, [{}]),
    "kl_div": ((X, GOAL), {}, [{}, {"log_target": True}]),
    "poisson_nll_loss": (
        (PROBABILITY, COUNTS),
        {},
        [{}, {"log_input": False}, {"full": True}, {"log_input": False, "full": True, "eps": 0.1}],
    ),
    "gaussian_nll_loss": ((X, T, W), {}, [{}, {"full": True}, {"eps": 1.0}]),
    "soft_margin_loss": ((3 * X,), {"target": SIGNS}, [{}]),
    "hinge_embedding_loss": ((X,), {"target": SIGNS}, [{}, {"margin": 0.3}]),
    "margin_ranking_loss": ((X, T, SIGNS), {}, [{}, {"margin": 0.5}]),
    "multilabel_soft_margin_loss": ((X, GOAL), {}, [{}]),
    "triplet_margin_loss": (
        (X, T, W),
        {},
        [{}, {"margin": 0.4, "swap": True}, {"p": 1.0}, {"p": 3.0, "eps": 0.1}, {"p": 1.5, "swap": True}],
    ),
}
CASES = [(name, options) for name, (_, _, several) in ELEMENTS.items() for options in several]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_elements(name: str, options: dict[str, Any], reduction: str) -> None:
    arrays, constants, _ = ELEMENTS[name]
    agree(name, *arrays, constants=constants, reduction=reduction, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights(reduction: str) -> None:
    """Those with a gradient are differentiated too."""

    def both(name: str, *arrays: np.ndarray, **constants: np.ndarray) -> None:
        def call(library: Any, tensor: Any) -> Any:
            fixed = {k: tensor(v) for k, v in constants.items()}
            weight = {} if "weight" in constants else None
            if weight is None:
                return lambda x, t, w: getattr(library, name)(x, t, weight=w, reduction=reduction, **fixed)
            return lambda x, t: getattr(library, name)(x, t, reduction=reduction, **fixed)

        assert_agree(call(ours, retrograd.tensor), call(peer, torch.tensor), *arrays)

    for name in ("mse_loss", "l1_loss", "huber_loss", "multilabel_soft_margin_loss"):
        both(name, X, T, W)
    for shape in (SHAPE, SHAPE[1:], (5, 1)):
        weight, positive = uniform(0.5, 2, *shape, seed=3), uniform(0.5, 2, *shape, seed=4)
        both("binary_cross_entropy", PROBABILITY, GOAL, weight=weight)
        both("binary_cross_entropy_with_logits", X, GOAL, weight=weight)
        both("binary_cross_entropy_with_logits", X, GOAL, weight=weight, pos_weight=positive)
    agree("binary_cross_entropy_with_logits", X, GOAL, constants={"pos_weight": positive}, reduction=reduction)


@pytest.mark.parametrize("shape", [(2, 3, 4), (1,), (), (0, 3), (3, 0)], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_shapes(shape: tuple[int, ...], reduction: str) -> None:
    x, t = np.asarray(uniform(0.2, 0.8, *shape)), np.asarray(uniform(0.2, 0.8, *shape, seed=1))
    for name in ELEMENTS:
        if name in ("triplet_margin_loss",) or (name == "multilabel_soft_margin_loss" and (not shape or 0 in shape)):
            continue
        more = (x,) if name in ("gaussian_nll_loss",) else ()
        if name == "gaussian_nll_loss" and not shape:
            continue
        more = (t,) if name == "margin_ranking_loss" else more
        if name in ("soft_margin_loss", "hinge_embedding_loss"):
            agree(name, x, constants={"target": t}, reduction=reduction)
        else:
            agree(name, x, t, *more, reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_broadcast(reduction: str) -> None:
    x, t = uniform(0.2, 0.8, 3, 1, 4), uniform(0.2, 0.8, 5, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss"):
            agree(name, x, t, reduction=reduction)
    agree("hinge_embedding_loss", x, constants={"target": np.sign(t - 0.5)}, reduction=reduction)
    agree("margin_ranking_loss", x, t[None], x, reduction=reduction)
    for var in ((3, 1), (3, 1, 1), (1, 1, 4)):
        agree("gaussian_nll_loss", x, t[:1, None], uniform(0.2, 1, *var, seed=7), reduction=reduction)


def test_batchmean() -> None:
    for log_target in (False, True):
        agree("kl_div", X, GOAL, reduction="batchmean", log_target=log_target)
    agree("kl_div", np.array(0.3), np.array(0.4), reduction="batchmean")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes(dtype: type) -> None:
    """Values and first gradients where exponentials overflow and logarithms are cut off."""
    ends = np.array([0, 1, 0, 1, 1e-30, 1 - 1e-7, 0.5], dtype)
    goals = np.array([0, 1, 1, 0, 0.5, 0.5, 1], dtype)
    large = np.array([-1e4, -100, -88, -1e-8, 0, 30, 1e4], dtype)
    for name, x in (("binary_cross_entropy", ends), ("binary_cross_entropy_with_logits", large)):
        for reduction in REDUCTIONS:
            assert_agree(
                lambda a, n=name, r=reduction: getattr(ours, n)(a, retrograd.tensor(goals), reduction=r),
                lambda a, n=name, r=reduction: getattr(peer, n)(a, torch.tensor(goals), reduction=r),
                x,
                second=False,
                tolerance=1e-8 if dtype is np.float64 else None,  # PyTorch's 1e-12 is a float32
            )
    moderate = np.array([-80.0, -10, -1e-6, 0, 3, 80], dtype)  # PyTorch's soft margin overflows beyond
    signs = np.array([1, -1, 1, 1, -1, 1], dtype)
    for name in ("soft_margin_loss", "hinge_embedding_loss"):
        assert_agree(
            lambda a, n=name: getattr(ours, n)(a, retrograd.tensor(signs), reduction="none"),
            lambda a, n=name: getattr(peer, n)(a, torch.tensor(signs), reduction="none"),
            moderate,
            second=False,
        )
    zeros = np.array([0, 0, 1, 0.5], dtype)
    logs = np.array([-1, 0, -2, -0.5], dtype)
    assert_agree(
        lambda a: ours.kl_div(a, retrograd.tensor(zeros), reduction="none"),
        lambda a: peer.kl_div(a, torch.tensor(zeros), reduction="none"),
        logs,
    )


def test_ties_have_the_same_gradient() -> None:
    x = np.array([0.5, -0.5, 1.0, 0.0, 0.0])
    t = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    for name, options in (("l1_loss", {}), ("smooth_l1_loss", {"beta": 0.5}), ("huber_loss", {"delta": 0.5})):
        agree(name, x, t, reduction="none", **options)
    signs = np.array([1.0, -1.0, -1.0, 1.0, 0.0])
    agree("hinge_embedding_loss", x, constants={"target": signs}, reduction="none", margin=1.0)
    agree("margin_ranking_loss", x, t, signs, reduction="none", margin=0.5)
    same = np.array([[1.0, 2.0]])
    agree("triplet_margin_loss", same, same + 1, same - 1, reduction="none", swap=True, eps=0.0)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_cosine_embedding(reduction: str, margin: float) -> None:
    signs = np.array([1.0, -1.0, 1.0, -1.0, 0.0])
    agree("cosine_embedding_loss", X, T, constants={"target": signs}, margin=margin, reduction=reduction)
    one = {"target": np.array(-1.0)}
    agree("cosine_embedding_loss", X[0], T[1], constants=one, margin=margin, reduction=reduction)
    # of lengths of 0: PyTorch's 1e-12 is a float32
    options: dict[str, Any] = {"margin": margin, "reduction": reduction, "tolerance": 1e-8}
    agree("cosine_embedding_loss", X * 0, T, constants={"target": signs}, **options)


def test_distances() -> None:
    for p in (1.0, 2.0, 3.0, float("inf")):
        agree("pairwise_distance", X, T, p=p)
        agree("pairwise_distance", X, T[0], p=p, eps=0.1, keepdim=True)
    for dim in (0, 1, -1):
        agree("cosine_similarity", X, T, dim=dim)
    agree("cosine_similarity", X[:, None], T[None], dim=2, eps=2.5)


def test_triplet_with_a_distance_of_ones_own() -> None:
    def metric(x: Any, y: Any) -> Any:
        return ((x - y) ** 2).sum(-1)

    for options in ({}, {"margin": 2.0, "swap": True}):
        agree("triplet_margin_with_distance_loss", X, T, W, distance_function=metric, **options)
        agree("triplet_margin_with_distance_loss", X, T, W, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("p", "margin"), [(1, 1.0), (2, 0.5)])
def test_multi_margin(reduction: str, p: int, margin: float) -> None:
    x, labels = distinct(5, 7) / 3, np.array([0, 6, 3, 3, 2])
    # PyTorch has no second derivative of it
    options: dict[str, Any] = {"p": p, "margin": margin, "reduction": reduction, "second": False}
    agree("multi_margin_loss", x, constants={"target": labels}, **options)
    weight = uniform(0.5, 2, 7, seed=3)
    agree("multi_margin_loss", x, constants={"target": labels, "weight": weight}, **options)
    agree("multi_margin_loss", x[0], constants={"target": labels[0], "weight": weight}, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_multilabel_margin(reduction: str) -> None:
    x = distinct(3, 5) / 3
    targets = np.array([[3, 0, -1, 1, 1], [-1, 2, 3, 4, 0], [4, 3, 2, 1, 0]])

    def call(library: Any, tensor: Any, k: Any = slice(None)) -> Any:
        return lambda a: library.multilabel_margin_loss(a, tensor(targets[k]), reduction=reduction)

    assert_agree(call(ours, retrograd.tensor), call(peer, torch.tensor), x, second=False)  # as above
    assert_agree(call(ours, retrograd.tensor, 0), call(peer, torch.tensor, 0), x[0], second=False)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore", [-100, 2, -1])
@pytest.mark.parametrize("shape", [(6, 5), (5,), (3, 5, 4, 2), (2, 5, 3)], ids=str)
def test_cross_entropy(shape: Any, ignore: int, weighted: bool, smoothing: float, reduction: str) -> None:
    classes = 5
    labels = np.random.default_rng(5).integers(0, classes, (shape[0], *shape[2:]) if len(shape) > 1 else ())
    if labels.size > 2:
        labels.flat[:2] = ignore
    constants = {"target": labels, **({"weight": uniform(0.5, 2, classes, seed=6)} if weighted else {})}
    options = {"ignore_index": ignore, "reduction": reduction}
    agree("cross_entropy", normal(*shape) * 3, constants=constants, label_smoothing=smoothing, **options)
    if not smoothing:
        agree("nll_loss", normal(*shape) * 3, constants=constants, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(6, 5), (5,), (3, 5, 4, 2)], ids=str)
def test_cross_entropy_with_probabilities(shape: Any, smoothing: float, reduction: str) -> None:
    target = uniform(0.1, 1, *shape)
    options: dict[str, Any] = {"reduction": reduction, "label_smoothing": smoothing}
    agree("cross_entropy", normal(*shape) * 3, target, **options)
    agree("cross_entropy", normal(*shape), target, uniform(0.5, 2, 5, seed=6), **options)


@pytest.mark.parametrize("layout", ["contiguous", "channels last", "columns"])
def test_cross_entropy_of_images(layout: str) -> None:
    order = {"contiguous": (0, 1, 2, 3), "channels last": (0, 2, 3, 1), "columns": (3, 1, 2, 0)}[layout]
    x = np.ascontiguousarray(normal(2, 19, 9, 21).transpose(order)).transpose(np.argsort(order))
    labels = np.random.default_rng(3).integers(0, 19, (2, 9, 21))
    for a in (x, x.astype(np.float32)):
        agree("cross_entropy", a, constants={"target": labels})


def ctc_case(T: int, N: int, C: int, S: int, seed: int, dtype: Any = np.float64) -> tuple[np.ndarray, ...]:
    random = np.random.default_rng(seed)
    targets = random.integers(1, C, (N, S))
    targets[0, 1:] = targets[0, 0]  # repetitions need a blank between
    lengths, inputs = random.integers(1, S + 1, N), random.integers(2 * S, T + 1, N)
    lengths[0], inputs[0] = S, T
    return normal(T, N, C, seed=seed, dtype=dtype) * 2, targets, inputs, lengths


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("form", ["padded", "joined", "lists"])
@pytest.mark.parametrize("sizes", [(12, 3, 5, 4), (40, 2, 33, 9), (6, 1, 2, 1)], ids=str)
def test_ctc(sizes: tuple[int, ...], form: str, reduction: str) -> None:
    x, targets, inputs, lengths = ctc_case(*sizes, seed=1)  # type: ignore[arg-type]
    labels = np.concatenate([row[:n] for row, n in zip(targets, lengths, strict=True)]) if form == "joined" else targets

    def call(library: Any, tensor: Any) -> Any:
        sizes = [inputs.tolist(), tuple(lengths.tolist())] if form == "lists" else [tensor(inputs), tensor(lengths)]
        return lambda a: library.ctc_loss(a, tensor(labels), *sizes, reduction=reduction)

    pair = call(ours, retrograd.tensor), call(peer, torch.tensor)
    assert_agree(*pair, x, second=False)  # the gradient is PyTorch's, also of what is no log-probability
    assert_agree(*(lambda a, f=f: f(a.log_softmax(2)) for f in pair), x, second=False)
    assert_agree(*(lambda a, f=f: f(a.log_softmax(2)) for f in pair), x.astype(np.float32), second=False)


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ctc_at_the_edges(reduction: str, zero_infinity: bool) -> None:
    """Targets that are too long or empty, inputs that are empty, another blank, one sample without a batch."""
    x = normal(6, 5, 4)
    targets = np.array([[0, 1, 3], [1, 1, 1], [0, 3, 1], [0, 1, 0], [3, 0, 0]])
    inputs, lengths = np.array([6, 3, 6, 0, 0]), np.array([3, 3, 0, 0, 1])

    def call(library: Any, tensor: Any, only: Any = slice(None)) -> Any:
        labels = [tensor(v[only]) for v in (targets, inputs, lengths)]
        options = {"blank": 2, "reduction": reduction, "zero_infinity": zero_infinity}
        return lambda a: library.ctc_loss(a.log_softmax(-1), *labels, **options)

    possible = np.array([0, 2, 3])
    every = slice(None) if zero_infinity else possible
    assert_agree(call(ours, retrograd.tensor, every), call(peer, torch.tensor, every), x[:, every], second=False)
    a, b = call(ours, retrograd.tensor)(retrograd.tensor(x)), call(peer, torch.tensor)(torch.tensor(x))
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    mine = call(ours, retrograd.tensor, 0)(retrograd.tensor(x[:, 0]))
    assert_close(mine, call(peer, torch.tensor, 0)(torch.tensor(x[:, 0])), "one sample")


def test_nan_where_no_path_exists() -> None:
    x = normal(3, 2, 4)
    targets, inputs, lengths = np.array([[1, 1, 1], [1, 2, 0]]), np.array([3, 2]), np.array([3, 2])
    a, b = retrograd.tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    for library, tensor, t in ((ours, retrograd.tensor, a), (peer, torch.tensor, b)):
        library.ctc_loss(t, tensor(targets), tensor(inputs), tensor(lengths), reduction="sum").backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-12)


def test_layers() -> None:
    """The same constructor arguments give the same loss; names and defaults are PyTorch's."""
    signs, labels = SIGNS, np.array([0, 6, 3, 3, 2])
    weight = uniform(0.5, 2, 7, seed=3)
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("L1Loss", (X, T), {}),
        ("MSELoss", (X, T), {}),
        ("SmoothL1Loss", (X, T), {"beta": 0.5}),
        ("HuberLoss", (X, T), {"delta": 0.5}),
        ("BCELoss", (PROBABILITY, GOAL), {"weight": weight}),
        ("BCEWithLogitsLoss", (X, GOAL), {"weight": weight, "pos_weight": weight}),
        ("KLDivLoss", (X, GOAL), {"log_target": True}),
        ("PoissonNLLLoss", (X, COUNTS), {"full": True}),
        ("PoissonNLLLoss", (PROBABILITY, COUNTS), {"log_input": False, "eps": 0.1}),
        ("GaussianNLLLoss", (X, T, W), {"full": True, "eps": 1.0}),
        ("CrossEntropyLoss", (X, labels), {"weight": weight, "ignore_index": 3, "label_smoothing": 0.1}),
        ("NLLLoss", (X, labels), {"weight": weight, "ignore_index": 3}),
        ("HingeEmbeddingLoss", (X, signs), {"margin": 0.4}),
        ("SoftMarginLoss", (X, signs), {}),
        ("MultiMarginLoss", (X, labels), {"p": 2, "margin": 0.4, "weight": weight}),
        ("MultiLabelMarginLoss", (X, np.tile(np.array([1, 4, -1, 0, 0, 0, 0]), (5, 1))), {}),
        ("MultiLabelSoftMarginLoss", (X, GOAL), {"weight": weight}),
        ("MarginRankingLoss", (X, T, signs), {"margin": 0.4}),
        ("CosineEmbeddingLoss", (X, T, signs[:, 0]), {"margin": 0.4}),
        ("TripletMarginLoss", (X, T, W), {"margin": 0.4, "p": 3.0, "eps": 0.1, "swap": True}),
        ("TripletMarginWithDistanceLoss", (X, T, W), {"margin": 0.4, "swap": True}),
        ("CTCLoss", (X[:, None], np.array([[1, 2]]), np.array([5]), np.array([2])), {"blank": 6}),
        ("CosineSimilarity", (X, T), {"dim": 0}),
        ("PairwiseDistance", (X, T), {"p": 1.0, "keepdim": True}),
    ]
    for (name, arrays, options), reduction in product(cases, REDUCTIONS):
        how = {} if name in ("CosineSimilarity", "PairwiseDistance") else {"reduction": reduction}
        results = []
        for library, tensor in ((nn, retrograd.tensor), (torch.nn, torch.tensor)):
            given = {k: tensor(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
            layer = getattr(library, name)(**given, **how)
            results.append((layer(*map(tensor, arrays)), [(k, tuple(v.shape)) for k, v in layer.state_dict().items()]))
        assert_close(results[0][0], results[1][0], f"{name}, {reduction}")
        assert results[0][1] == results[1][1], name
