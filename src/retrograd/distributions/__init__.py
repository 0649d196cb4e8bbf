"""Probability distributions of Tensors, with gradients of ``log_prob`` and ``rsample``: ``torch.distributions``."""

from __future__ import annotations

from ..ops.signatures import explain_wrong_arguments as _explain_wrong_arguments
from ..torch_api.missing import attach_to_module
from . import constraints, transforms
from .composite import Independent, MixtureSameFamily, TransformedDistribution
from .discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from .distribution import Distribution
from .gamma import Beta, Chi2, Dirichlet, Exponential, Gamma
from .kl import kl_divergence, register_kl
from .location_scale import Cauchy, Gumbel, Laplace, StudentT, Uniform
from .normal import HalfNormal, LogNormal, MultivariateNormal, Normal
from .relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from .transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    PowerTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transforms",
]

attach_to_module(__name__)

_explain_wrong_arguments(globals()[name] for name in __all__)
