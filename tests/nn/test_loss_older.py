"""``size_average`` and ``reduce`` of losses, as functions and as layers, and softmax without an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn import functional as F  # noqa: N812  PyTorch's name

X = rg.tensor(np.random.default_rng(3).uniform(0.1, 0.9, (4, 3)))
LABELS = rg.tensor([0, 2, 1, 1])
SIGNS = rg.tensor(np.where(X.array[:, 0] > 0.5, 1.0, -1.0))
# loss -> the layer's name, the operands, options before size_average
LOSSES: dict[str, tuple[str, tuple[Any, ...], tuple[Any, ...]]] = {
    "binary_cross_entropy": ("BCELoss", (X, X), (None,)),
    "binary_cross_entropy_with_logits": ("BCEWithLogitsLoss", (X, X), (None,)),
    "cross_entropy": ("CrossEntropyLoss", (X, LABELS), (None,)),
    "nll_loss": ("NLLLoss", (X, LABELS), (None,)),
    "mse_loss": ("MSELoss", (X, X * 2), ()),
    "l1_loss": ("L1Loss", (X, X * 2), ()),
    "smooth_l1_loss": ("SmoothL1Loss", (X, X * 2), ()),
    "kl_div": ("KLDivLoss", (X.log(), X), ()),
    "poisson_nll_loss": ("PoissonNLLLoss", (X, X), (True, False)),
    "hinge_embedding_loss": ("HingeEmbeddingLoss", (X[:, 0], SIGNS), (1.0,)),
    "margin_ranking_loss": ("MarginRankingLoss", (X[:, 0], X[:, 1], SIGNS), (0.5,)),
    "cosine_embedding_loss": ("CosineEmbeddingLoss", (X, X[:, [1, 0, 2]], SIGNS), (0.5,)),
    "soft_margin_loss": ("SoftMarginLoss", (X[:, 0], SIGNS), ()),
    "multi_margin_loss": ("MultiMarginLoss", (X, LABELS), (1, 1.0, None)),
    "multilabel_margin_loss": ("MultiLabelMarginLoss", (X, LABELS[:, None] * rg.tensor([1, 1, 0]) - 0), ()),
    "multilabel_soft_margin_loss": ("MultiLabelSoftMarginLoss", (X, X.round()), (None,)),
    "triplet_margin_loss": ("TripletMarginLoss", (X, X + 0.3, X * 2), (1.0, 2.0, 1e-6, False)),
}


@pytest.mark.filterwarnings("ignore:kl_div:UserWarning")
@pytest.mark.parametrize("name", LOSSES)
def test_what_they_mean(name: str) -> None:
    layer, operands, before = LOSSES[name]
    function, kind = getattr(F, name), getattr(nn, layer)
    for size_average, reduce, reduction in (
        *((True, None, "mean"), (False, None, "sum"), (None, False, "none"), (True, False, "none")),
        *((None, True, "mean"), (False, True, "sum")),
    ):
        wanted = function(*operands, *before, reduction=reduction)
        options = {"size_average": size_average, "reduce": reduce}
        for call in (
            lambda o=options: function(*operands, *before, **o),
            lambda s=size_average, r=reduce: function(*operands, *before, s, reduce=r),
            lambda o=options: kind(*before, **o)(*operands),
            lambda s=size_average, r=reduce: kind(*before, s, reduce=r)(*operands),
        ):
            with pytest.warns(UserWarning, match=f"please use reduction='{reduction}' instead"):
                found = call()
            np.testing.assert_array_equal(found.array, wanted.array)


def test_options_by_position() -> None:
    for loss in (nn.CrossEntropyLoss(None, None, 2, None, "sum", 0.1), nn.NLLLoss(None, None, 2, None, "sum")):
        assert loss.ignore_index == 2 and loss.reduction == "sum"
    assert nn.PoissonNLLLoss(True, False, None, 1e-3, None, "none").eps == 1e-3
    assert F.mse_loss(X, X + 1, None, None, "sum").item() == pytest.approx(12)
    assert nn.KLDivLoss(None, None, "sum", True).log_target is True
    assert nn.SmoothL1Loss(None, None, "sum", 0.5).beta == 0.5


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4), (2, 3, 4, 2)])
def test_softmax_without_an_axis(shape: tuple[int, ...]) -> None:
    x = rg.randn(shape)
    dim = 0 if len(shape) in (1, 3) else 1
    for name, layer in (("softmax", nn.Softmax), ("log_softmax", nn.LogSoftmax), ("softmin", nn.Softmin)):
        wanted = getattr(F, name)(x, dim)
        for call in (lambda n=name: getattr(F, n)(x), lambda k=layer: k()(x)):
            with pytest.warns(UserWarning, match=f"Implicit dimension choice for {name} has been deprecated") as caught:
                assert np.array_equal(call().array, wanted.array)
            assert caught[0].filename == __file__
    with pytest.raises(TypeError, match="dim"):
        rg.softmax(x)  # type: ignore[call-arg]
