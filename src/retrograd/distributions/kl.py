"""Kullback-Leibler divergence: `kl_divergence`, and the table of its formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from ..engine.tensor import Tensor
from ..ops.linalg.solving import solve_triangular
from ..ops.pointwise.activation import softplus
from ..ops.special import digamma, lgamma
from .composite import Independent, TransformedDistribution
from .discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution, summed_last
from .gamma import Beta, Dirichlet, Exponential, Gamma
from .location_scale import Gumbel, Laplace, Uniform
from .normal import HalfNormal, MultivariateNormal, Normal, squared_distance

__all__ = ["kl_divergence", "register_kl"]

F = TypeVar("F", bound=Callable[..., Tensor])
_TABLE: dict[tuple[type[Any], type[Any]], Callable[..., Tensor]] = {}
_EULER = 0.5772156649015329


def register_kl(type_p: type[Any], type_q: type[Any]) -> Callable[[F], F]:
    """Register a function as the ``kl_divergence`` formula of these types and their subclasses (a decorator).

    Raises:
        TypeError: a type is not a Distribution.
    """
    for cls in (type_p, type_q):
        if not (isinstance(cls, type) and issubclass(cls, Distribution)):
            raise TypeError(f"register_kl: {cls!r} must be a class of distributions")

    def decorator(function: F) -> F:
        _TABLE[type_p, type_q] = function
        return function

    return decorator


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Compute the Kullback-Leibler divergence: the mean over p of log p(x) - log q(x).

    Raises:
        NotImplementedError: there is no formula for the two types; ``register_kl`` adds one.
    """
    for cls_p in type(p).__mro__:
        for cls_q in type(q).__mro__:
            function = _TABLE.get((cls_p, cls_q))
            if function is not None:
                return function(p, q)
    raise NotImplementedError(
        f"kl_divergence: there is no formula for {type(p).__name__} and {type(q).__name__}; add one with register_kl"
    )


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    d = (p.loc - q.loc) / q.scale
    return (ratio + d * d - 1 - ratio.log()) * 0.5


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return (ratio - 1 - ratio.log()) * 0.5


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = p.event_shape[0]
    half = (q._factor.diagonal(0, -2, -1).log() - p._factor.diagonal(0, -2, -1).log()).sum(-1)
    quotient = solve_triangular(q._factor, p._factor, upper=False)
    squares = (quotient * quotient).sum((-2, -1)) + squared_distance(q._factor, q.loc - p.loc)
    return half + (squares - n) * 0.5


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    other = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    one = one.masked_fill(p.probs == 0, 0.0).masked_fill((q.probs == 0) & (p.probs != 0), math.inf)
    other = other.masked_fill(p.probs == 1, 0.0).masked_fill((q.probs == 1) & (p.probs != 1), math.inf)
    return one + other


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    shape = terms.array.shape
    never, impossible = (p.probs == 0).expand(shape), (q.probs == 0).expand(shape)
    return terms.masked_fill(impossible, math.inf).masked_fill(never, 0.0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    found = lgamma(q.concentration1) + lgamma(q.concentration0) + lgamma(total_p)
    found = found - lgamma(p.concentration1) - lgamma(p.concentration0) - lgamma(total_q)
    found = found + (p.concentration1 - q.concentration1) * digamma(p.concentration1)
    found = found + (p.concentration0 - q.concentration0) * digamma(p.concentration0)
    return found + (total_q - total_p) * digamma(total_p)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    found = lgamma(total) - lgamma(b.sum(-1)) - (lgamma(a) - lgamma(b)).sum(-1)
    return found + ((a - b) * (digamma(a) - digamma(total).unsqueeze(-1))).sum(-1)


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    found = b * (p.rate / q.rate).log() + lgamma(b) - lgamma(a)
    return found + (a - b) * digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio = q.rate / p.rate
    return -q.concentration * ratio.log() + ratio + lgamma(q.concentration) + q.concentration * _EULER - (1 + _EULER)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    d, e = q.loc / q.scale, p.loc / q.scale
    found = -ratio.log() - d + e + ratio * _EULER
    return found + (d + lgamma(1 + ratio) - e).exp() - (1 + _EULER)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return found.masked_fill((q.low > p.low) | (q.high < p.high), math.inf)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    width = p.high - p.low
    d = (p.high + p.low - q.loc * 2) / 2
    return (q.scale * math.sqrt(2 * math.pi) / width).log() + (width * width / 12 + d * d) / (q.scale * q.scale * 2)


@register_kl(Laplace, Normal)
def _laplace_normal(p: Laplace, q: Normal) -> Tensor:
    square = q.scale * q.scale
    ratio = p.scale * p.scale / square
    inner = p.loc * p.loc * 0.5 - p.loc * q.loc + q.loc * q.loc * 0.5
    return 0.5 * math.log(math.pi / 2) - 1 - (p.scale / q.scale).log() + ratio + inner / square


@register_kl(Exponential, Normal)
def _exponential_normal(p: Exponential, q: Normal) -> Tensor:
    square, rate = q.scale * q.scale, p.rate
    inner = 1 / rate**2 - q.loc / rate + q.loc * q.loc / 2
    return (square * rate**2 * (2 * math.pi)).log() * 0.5 - 1 + inner / square


@register_kl(Gamma, Normal)
def _gamma_normal(p: Gamma, q: Normal) -> Tensor:
    square = q.scale * q.scale
    d = p.concentration / p.rate - q.loc
    inner = (p.concentration / p.rate**2 + d * d) / square
    return -p.entropy() + (square * (2 * math.pi)).log() * 0.5 + inner * 0.5


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence: both Independent must have the same reinterpreted_batch_ndims")
    return summed_last(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """The divergence of the base distributions: the same transform on both sides does not change it."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence: the transforms of both must be equal")
    return kl_divergence(p.base_dist, q.base_dist)
