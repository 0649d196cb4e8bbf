"""Loss layers: each stores the options of the `nn.functional` function it calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from inspect import Parameter
from typing import Any, ClassVar

from ..engine.tensor import Tensor
from ..ops.argument_checks import as_real
from ..ops.loss.base import reduction_of
from ..ops.loss.classification import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    multilabel_soft_margin_loss,
    nll_loss,
)
from ..ops.loss.ctc import ctc_loss
from ..ops.loss.margin import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from ..ops.loss.regression import (
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from ..ops.product.distance import cosine_similarity, pairwise_distance
from .layer import Described, layer
from .module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PairwiseDistance",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


# ---- Base class of losses -------------------------------------------------------------------------------------------


@layer
class Loss(Described, Module):
    """Base of losses: layers with the option ``reduction``, "mean", "sum", "none" or a value that the class adds."""

    _: KW_ONLY
    reduction: str = "mean"

    _more_reductions: ClassVar[tuple[str, ...]] = ()
    _limits: ClassVar[dict[str, tuple[str, Callable[[Any], bool]]]] = {}  # option -> what it must be, and the check
    _errors = "ValueError: the reduction is unknown."
    _shown = ()  # as in PyTorch
    _torch_order: ClassVar[tuple[str, ...]] = (
        "size_average",
        "reduce",
        "reduction",
    )  # PyTorch's order of the first options

    @classmethod
    def _by_position(cls) -> tuple[list[str], list[str]]:
        """Return the names of the arguments before the options, and of the options in PyTorch's order."""
        options: dict[str, Parameter] = vars(cls).get("_options") or cls._options  # type: ignore[attr-defined]
        positional = [name for name, p in options.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        return positional, [
            *cls._torch_order,
            *(name for name in options if name not in (*positional, *cls._torch_order)),
        ]

    @classmethod
    def _adapted(cls, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the constructor with ``size_average`` and ``reduce`` converted to ``reduction``."""
        if not cls._torch_order:
            return args, given
        positional, names = cls._by_position()
        if len(positional) < len(args) <= len(positional) + len(names):
            more = dict(zip(names, args[len(positional) :], strict=False))
            if more.keys() & given.keys():
                raise TypeError(f"got multiple values for argument {min(more.keys() & given.keys())!r}")
            args, given = args[: len(positional)], more | given
        size_average, reduce = given.pop("size_average", None), given.pop("reduce", None)
        if size_average is not None or reduce is not None:
            given["reduction"] = reduction_of(cls.__name__, size_average, reduce)
        return args, given

    @classmethod
    def _signature(cls, parameters: list[Parameter]) -> list[Parameter]:
        """Return the parameters of the constructor as its signature shows them."""
        if not cls._torch_order:
            return parameters
        positional, names = cls._by_position()
        known = {p.name: p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in parameters}
        return [
            known.get(name, Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="bool | None"))
            for name in ("self", *positional, *names)
        ]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        text = cls.__doc__ or ""
        if "reduction:" not in text and Loss in cls.__bases__:
            cls.__doc__ = f'{text.rstrip()}\n\n    reduction: "mean", "sum" or "none".\n    '
        super().__init_subclass__(**kwargs)

    def _set_up(self) -> None:
        allowed = (*self._more_reductions, "mean", "sum", "none")
        if not isinstance(self.reduction, str) or self.reduction not in allowed:
            text = ", ".join(map(repr, allowed[:-1]))
            raise ValueError(f"{type(self).__name__}: reduction={self.reduction!r} must be {text} or 'none'")
        for name, (limit, fits) in self._limits.items():
            if not fits(as_real(type(self).__name__, name, value := getattr(self, name))):
                raise ValueError(f"{type(self).__name__}: {name}={value} must be {limit}")


# ---- Classification losses ------------------------------------------------------------------------------------------


@layer
class CrossEntropyLoss(Loss):
    """Cross entropy of softmax(x) and the target: -weight[t] * log(softmax(x))[t] per element.

    x (N, C, *D) or (C,); target int64 class indices (N, *D) or (), or probabilities of x's shape.

    weight: (C,), one factor per class. Targets equal to ignore_index are ignored. label_smoothing: share of the
    uniform distribution mixed into every target. reduction: "mean" (the weighted mean over the other targets),
    "sum" or "none".

    Raises:
        ValueError: an argument is out of range, or the shapes do not fit.
        TypeError: a dtype is wrong.
        IndexError: a label is not a class; the message says which.
    """

    weight: Tensor | None = None
    _: KW_ONLY
    ignore_index: int = -100
    label_smoothing: float = 0.0

    _limits = {"label_smoothing": ("between 0 and 1", lambda label_smoothing: 0.0 <= label_smoothing <= 1.0)}

    _torch_order = ("size_average", "ignore_index", "reduce", "reduction")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


@layer
class NLLLoss(Loss):
    """-weight[t] * x[t] for log-probabilities x; see ``nll_loss``.

    x (N, C, *D) or (C,); target int64 (N, *D) or (). weight: (C,) one factor per class. Targets equal to ignore_index
    are ignored. reduction: "mean" (the weighted mean over the other targets), "sum" or "none".
    """

    weight: Tensor | None = None
    _: KW_ONLY
    ignore_index: int = -100

    _torch_order = ("size_average", "ignore_index", "reduce", "reduction")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


@layer
class BCELoss(Loss):
    """Binary cross entropy of probabilities; see ``binary_cross_entropy``.

    input and target of equal shape; weight: factors of the losses, broadcast.
    """

    weight: Tensor | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


@layer
class BCEWithLogitsLoss(Loss):
    """Binary cross entropy of logits; see ``binary_cross_entropy_with_logits``.

    input and target of equal shape; weight: factors of the losses; pos_weight: factors of the positive terms; both are
    broadcast.
    """

    weight: Tensor | None = None
    _: KW_ONLY
    pos_weight: Tensor | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


@layer
class MultiLabelSoftMarginLoss(Loss):
    """The mean over classes of the binary cross entropy of logits; see ``multilabel_soft_margin_loss``.

    input, target (..., C); weight: factors of the classes. reduction: "mean", "sum" or "none", over (...).
    """

    weight: Tensor | None = None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


@layer
class MultiMarginLoss(Loss):
    """weight[t] sum over c != t of max(0, margin - x[t] + x[c])^p / C; see ``multi_margin_loss``.

    x (N, C) or (C,); target int64 (N,) or (). p: 1 or 2. weight: (C,) one factor per class. reduction: "mean", "sum"
    or "none".

    Raises:
        ValueError: p is neither 1 nor 2, or the reduction is unknown.
    """

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None

    _limits = {"p": ("1 or 2", lambda p: p in (1, 2))}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(Loss):
    """sum over targets j and other classes i of max(0, 1 - x[j] + x[i]) / C; see ``multilabel_margin_loss``.

    x (N, C) or (C,); target of the same shape, int64: a row's classes, ended by -1. reduction: "mean", "sum", "none".
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(Loss):
    """log(1 + exp(-target input)) for targets of 1 and -1; see ``soft_margin_loss``."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return soft_margin_loss(input, target, reduction=self.reduction)


# ---- Regression losses ----------------------------------------------------------------------------------------------


class MSELoss(Loss):
    """(input - target)^2; see ``mse_loss``.

    input and target of equal shape.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return mse_loss(input, target, reduction=self.reduction)


class L1Loss(Loss):
    """|input - target|; see ``l1_loss``.

    input and target of equal shape.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return l1_loss(input, target, reduction=self.reduction)


@layer
class SmoothL1Loss(Loss):
    """0.5 z^2 / beta where z = |input - target| < beta, else z - 0.5 beta; see ``smooth_l1_loss``.

    beta: at least 0. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: beta is negative, or the reduction is unknown.
    """

    _: KW_ONLY
    beta: float = 1.0

    _limits = {"beta": ("at least 0", lambda beta: beta >= 0)}

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return smooth_l1_loss(input, target, beta=self.beta, reduction=self.reduction)


@layer
class HuberLoss(Loss):
    """0.5 z^2 where z = |input - target| < delta, else delta (z - 0.5 delta); see ``huber_loss``.

    delta: above 0. reduction: "mean", "sum" or "none".

    Raises:
        ValueError: delta is not above 0, or the reduction is unknown.
    """

    reduction: str = "mean"
    delta: float = 1.0

    _limits = {"delta": ("above 0", lambda delta: delta > 0)}

    _torch_order = ()

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return huber_loss(input, target, delta=self.delta, reduction=self.reduction)


# ---- Likelihood and divergence losses -------------------------------------------------------------------------------


@layer
class KLDivLoss(Loss):
    """target (log(target) - input); see ``kl_div``.

    log_target: the target contains logarithms. reduction: "batchmean" (the definition), "mean" (over all elements),
    "sum" or "none".
    """

    _: KW_ONLY
    log_target: bool = False

    _more_reductions = ("batchmean",)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return kl_div(input, target, log_target=self.log_target, reduction=self.reduction)


@layer
class PoissonNLLLoss(Loss):
    """exp(input) - target input; see ``poisson_nll_loss``.

    log_input: the input is the logarithm of the rate; else input - target log(input + eps). full: add Stirling's
    approximation.
    """

    log_input: bool = True
    full: bool = False
    _: KW_ONLY
    eps: float = 1e-8

    _torch_order = ("size_average", "eps", "reduce", "reduction")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return poisson_nll_loss(input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


@layer
class GaussianNLLLoss(Loss):
    """(log(v) + (input - target)^2 / v) / 2 with v = max(var, eps); see ``gaussian_nll_loss``.

    full: add log(2 pi) / 2.
    """

    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6

    _torch_order = ()

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return gaussian_nll_loss(input, target, var, self.full, self.eps, reduction=self.reduction)


# ---- Ranking and embedding losses -----------------------------------------------------------------------------------


@layer
class HingeEmbeddingLoss(Loss):
    """input where the target is 1, max(0, margin - input) where it is -1; see ``hinge_embedding_loss``."""

    margin: float = 1.0

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


@layer
class MarginRankingLoss(Loss):
    """max(0, margin - target (input1 - input2)); see ``margin_ranking_loss``."""

    margin: float = 0.0

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


@layer
class CosineEmbeddingLoss(Loss):
    """1 - cos(input1, input2) where the target is 1, max(0, cos(input1, input2) - margin) where it is -1; see
    ``cosine_embedding_loss``.
    """

    margin: float = 0.0

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


@layer
class TripletMarginLoss(Loss):
    """max(0, margin + d(anchor, positive) - d(anchor, negative)), d the distance of order p; see
    ``triplet_margin_loss``.

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the margin is not above 0, or the reduction is unknown.
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False

    _limits = {"margin": ("above 0", lambda margin: margin > 0)}

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


@layer
class TripletMarginWithDistanceLoss(Loss):
    """TripletMarginLoss with any function of two tensors as the distance (default: ``pairwise_distance``).

    reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the margin is not above 0, or the reduction is unknown.
    """

    _: KW_ONLY
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False

    _limits = {"margin": ("above 0", lambda margin: margin > 0)}

    _torch_order = ()

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


# ---- Connectionist temporal classification --------------------------------------------------------------------------


class CTCLoss(Loss):
    """-log of the probability that a path gives the target once repetitions and then blanks are removed; see
    ``ctc_loss``.

    blank: the class for no label. reduction: "mean" (each loss over its target's length), "sum" or "none".
    zero_infinity: a target that no path can give has loss 0 and no gradient, instead of inf and NaN.
    """

    blank: int
    zero_infinity: bool

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    _torch_order = ()

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        return ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


# ---- Distances and similarities -------------------------------------------------------------------------------------


@layer
class CosineSimilarity(Module):
    """sum x1 x2 / (max(|x1|, eps) max(|x2|, eps)) along axis dim; see ``cosine_similarity``."""

    dim: int = 1
    eps: float = 1e-8

    _shown = ()  # as in PyTorch

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """(sum |x1 - x2 + eps|^p)^(1/p) along the last axis, kept with extent 1 if keepdim; see ``pairwise_distance``."""

    eps: float
    keepdim: bool
    norm: float

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
