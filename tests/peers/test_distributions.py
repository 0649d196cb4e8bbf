"""Distributions: densities, entropies, quantiles, moments and divergences with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import retrograd
from peers.compare import assert_agree, assert_close, normal, uniform

A, B, C = uniform(0.5, 3.0, 3, 2), uniform(0.5, 3.0, 2, seed=1), normal(3, 2)
P = uniform(0.1, 0.9, 3, 2)
SIMPLEX = uniform(0.1, 1.0, 3, 4)
X, POSITIVE, UNIT = normal(5, 3, 2), uniform(0.1, 4.0, 5, 3, 2), uniform(0.05, 0.95, 5, 3, 2)
COUNTS = np.floor(uniform(0, 6, 5, 3, 2))
ONE_HOT = np.eye(4)[np.random.default_rng(0).integers(0, 4, (5, 3))]
SHARES = SIMPLEX / SIMPLEX.sum(-1, keepdims=True)
COVARIANCE = normal(2, 3, 3) @ normal(2, 3, 3).swapaxes(-1, -2) + 2 * np.eye(3)
LOC, VECTORS = normal(2, 3), normal(4, 2, 3)
Make = Callable[..., Any]
# name: how it is made from the module and Tensors, these, values, what else is compared
CASES: dict[str, tuple[Make, tuple[np.ndarray, ...], np.ndarray, str]] = {
    "Normal": (lambda d, a, b: d.Normal(a, b), (C, A), X, "entropy cdf icdf mean variance mode"),
    "HalfNormal": (lambda d, a: d.HalfNormal(a), (A,), POSITIVE, "entropy cdf icdf mean variance mode"),
    "Uniform": (lambda d, a, b: d.Uniform(-a, b + 4), (A, B), UNIT, "entropy cdf icdf mean variance"),
    "Exponential": (lambda d, a: d.Exponential(a), (A,), POSITIVE, "entropy cdf icdf mean variance mode"),
    "Laplace": (lambda d, a, b: d.Laplace(a, b), (C, A), X, "entropy cdf icdf mean variance mode"),
    "Cauchy": (lambda d, a, b: d.Cauchy(a, b), (C, A), X, "entropy cdf icdf mode"),
    "Gumbel": (lambda d, a, b: d.Gumbel(a, b), (C, A), X, "entropy cdf icdf mean variance mode"),
    "Gamma": (lambda d, a, b: d.Gamma(a, b), (A, B), POSITIVE, "entropy mean variance mode"),
    "Chi2": (lambda d, a: d.Chi2(a), (A,), POSITIVE, "entropy mean variance"),
    "StudentT": (lambda d, a, b: d.StudentT(a + 2, b, 1.5), (A, B), X, "entropy mean variance mode"),
    "Beta": (lambda d, a, b: d.Beta(a, b), (A, B), UNIT, "entropy mean variance mode"),
    "Dirichlet": (lambda d, a: d.Dirichlet(a + 1), (SIMPLEX,), SHARES, "entropy mean variance mode"),
    "LogNormal": (lambda d, a, b: d.LogNormal(a, b), (C, A / 2), POSITIVE, "entropy cdf icdf mean variance mode"),
    "MultivariateNormal": (
        lambda d, a, b: d.MultivariateNormal(a, (b + b.mT) / 2),
        (LOC, COVARIANCE),
        VECTORS,
        "entropy mean variance",
    ),
    "MultivariateNormal, factor": (
        lambda d, a, b: d.MultivariateNormal(a, scale_tril=b.tril()),
        (LOC, COVARIANCE[0]),
        VECTORS,
        "entropy mean variance covariance_matrix precision_matrix",
    ),
    "MultivariateNormal, precision": (
        lambda d, a, b: d.MultivariateNormal(a, precision_matrix=(b + b.mT) / 2),
        (LOC, COVARIANCE),
        VECTORS,
        "entropy scale_tril covariance_matrix",
    ),
    "Bernoulli": (lambda d, a: d.Bernoulli(a), (P,), COUNTS % 2, "entropy mean variance mode logits"),
    "Bernoulli, logits": (lambda d, a: d.Bernoulli(logits=a), (C,), COUNTS % 2, "entropy mean variance probs"),
    "Geometric": (lambda d, a: d.Geometric(a), (P,), COUNTS, "entropy mean variance mode"),
    "Poisson": (lambda d, a: d.Poisson(a), (A,), COUNTS, "mean variance mode"),
    "Binomial": (lambda d, a: d.Binomial(7, a), (P,), COUNTS, "mean variance mode"),
    "Categorical": (lambda d, a: d.Categorical(a), (SIMPLEX,), COUNTS[..., 0] % 4, "entropy mode logits"),
    "Categorical, logits": (lambda d, a: d.Categorical(logits=a), (SIMPLEX,), COUNTS[..., 0] % 4, "entropy probs"),
    "OneHotCategorical": (lambda d, a: d.OneHotCategorical(logits=a), (SIMPLEX,), ONE_HOT, "entropy mean variance"),
    "Multinomial": (lambda d, a: d.Multinomial(2, a), (SIMPLEX,), ONE_HOT + ONE_HOT[::-1], "mean variance"),
    "Independent": (lambda d, a, b: d.Independent(d.Normal(a, b), 1), (C, A), X, "entropy mean variance"),
    "RelaxedBernoulli": (lambda d, a: d.RelaxedBernoulli(0 * a.sum() + 1.7, logits=a), (C,), UNIT, ""),
    "RelaxedOneHotCategorical": (
        lambda d, a: d.RelaxedOneHotCategorical(0 * a.sum() + 1.7, logits=a),
        (SIMPLEX,),
        SHARES,
        "",
    ),
    "squashed Normal": (
        lambda d, a, b: d.TransformedDistribution(
            d.Normal(a, b), [d.transforms.TanhTransform(cache_size=1), d.transforms.AffineTransform(0.5, -2.0)]
        ),
        (C, A),
        UNIT,
        "cdf",
    ),
    "logistic": (
        lambda d, a, b: d.TransformedDistribution(
            d.Uniform(a * 0, a * 0 + 1), [d.SigmoidTransform().inv, d.AffineTransform(loc=a, scale=b)]
        ),
        (C, A),
        X,
        "cdf icdf",
    ),
    "more transforms": (
        lambda d, a, b: d.TransformedDistribution(
            d.Independent(d.Normal(a, b), 1),
            d.ComposeTransform(
                [d.transforms.SoftplusTransform(), d.PowerTransform(2.0), d.AffineTransform(0.01, 1.0, event_dim=1)]
            ),
        ),
        (C, A),
        POSITIVE,
        "",
    ),
    "mixture": (
        lambda d, a, b: d.MixtureSameFamily(d.Categorical(logits=a), d.Normal(a, b)),
        (C, A),
        X[..., 0],
        "cdf mean variance",
    ),
    "mixture of vectors": (
        lambda d, a, b: d.MixtureSameFamily(
            d.Categorical(logits=a), d.Independent(d.Normal(a.unsqueeze(-1) + b, b), 1)
        ),
        (C, B),
        X,
        "mean variance",
    ),
}


def _value(module: Any, name: str, x: np.ndarray) -> Any:
    return module.tensor(x).long() if name.startswith("Categorical") else module.tensor(x)


@pytest.mark.parametrize("name", CASES)
def test_densities_and_moments(name: str) -> None:
    make, arrays, x, more = CASES[name]
    quantiles = UNIT[:, :, 0] if name == "mixture" else UNIT

    def call(module: Any, what: str) -> Any:
        def of(*parameters: Any) -> Any:
            found = make(module.distributions, *parameters)
            if what == "log_prob":
                return found.log_prob(_value(module, name, x))
            if what == "cdf":
                return found.cdf(module.tensor(x))
            if what == "icdf":
                return found.icdf(module.tensor(quantiles))
            attribute = getattr(found, what)
            value = attribute() if callable(attribute) else attribute
            # depends on all parameters
            return value if what == "mode" else value + 0 * sum(each.sum() for each in parameters)

        return of

    for what in ("log_prob", *more.split()):
        if what == "mode" or (what in ("cdf", "icdf") and name == "Uniform"):
            tensors = [[m.tensor(array) for array in arrays] for m in (retrograd, torch)]
            assert_close(call(retrograd, what)(*tensors[0]), call(torch, what)(*tensors[1]), what)
        else:
            second = name == "Normal"  # its density is one operator
            assert_agree(call(retrograd, what), call(torch, what), *arrays, second=second, tolerance=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_shapes_and_supports(name: str) -> None:
    make, arrays, x, _ = CASES[name]
    mine, yours = (make(m.distributions, *[m.tensor(array) for array in arrays]) for m in (retrograd, torch))
    for wide in (False, True):
        if wide:
            shape = (2, *mine.batch_shape)
            mine, yours = mine.expand(shape), yours.expand(shape)
        assert (mine.batch_shape, mine.event_shape) == (tuple(yours.batch_shape), tuple(yours.event_shape))
        assert mine.sample((4, 1)).shape == tuple(yours.sample((4, 1)).shape)
        assert mine.sample().dtype == yours.sample().numpy().dtype
        assert mine.has_rsample == yours.has_rsample
        assert mine.support.event_dim == yours.support.event_dim
        support, value = mine.support, _value(retrograd, name, x)
        assert wide or support.check(value).array.all()
        if mine.has_rsample:
            assert mine.rsample((3,)).shape == tuple(yours.rsample((3,)).shape)
        if mine.has_enumerate_support and not wide:
            for expand in (True, False):
                assert_close(mine.enumerate_support(expand), yours.enumerate_support(expand), "enumerate_support")


PAIRS: dict[str, tuple[Make, Make, tuple[np.ndarray, ...]]] = {
    name: (CASES[name][0], CASES[name][0], CASES[name][1])
    for name in (
        "Normal",
        "HalfNormal",
        "Exponential",
        "Laplace",
        "Gumbel",
        "Gamma",
        "Beta",
        "Dirichlet",
        "LogNormal",
        "MultivariateNormal",
        "Bernoulli",
        "Geometric",
        "Poisson",
        "Categorical",
        "OneHotCategorical",
        "Independent",
    )
} | {
    "Uniform": (lambda d, a: d.Uniform(-a, a), lambda d, a: d.Uniform(-2 * a, a + 1), (A,)),
    "Uniform, Normal": (lambda d, a: d.Uniform(-a, a), lambda d, a: d.Normal(a, a), (A,)),
    "Laplace, Normal": (lambda d, a: d.Laplace(-a, a), lambda d, a: d.Normal(a, a), (A,)),
    "Exponential, Normal": (lambda d, a: d.Exponential(a), lambda d, a: d.Normal(a, a), (A,)),
    "Gamma, Normal": (lambda d, a: d.Gamma(a, a + 1), lambda d, a: d.Normal(a, a), (A,)),
    "Exponential, Gamma": (lambda d, a: d.Exponential(a), lambda d, a: d.Gamma(a, a + 1), (A,)),
    "Gamma, Exponential": (lambda d, a: d.Gamma(a, a + 1), lambda d, a: d.Exponential(a), (A,)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences(name: str) -> None:
    first, second, arrays = PAIRS[name]
    others = [np.ascontiguousarray(array[::-1]) for array in arrays]
    if name == "Dirichlet":
        others = [array + 1 for array in others]

    def call(module: Any) -> Any:
        def of(*parameters: Any) -> Any:
            d, half = module.distributions, len(parameters) // 2
            return d.kl_divergence(first(d, *parameters[:half]), second(d, *parameters[half:]))

        return of

    assert_agree(call(retrograd), call(torch), *arrays, *others, second=False, tolerance=1e-9)


def test_impossible_events() -> None:
    sure, never = [np.array([0.0, 1.0, 0.0, 0.3])], [np.array([0.0, 0.5, 0.2, 0.0])]
    for name in ("Bernoulli", "Categorical"):
        found = []
        for m in (retrograd, torch):
            p, q = (getattr(m.distributions, name)(m.tensor(x[0])) for x in (sure, never))
            value = m.tensor(np.array([0.0, 1, 0, 1]))
            found.append((m.distributions.kl_divergence(p, q), p.entropy(), p.log_prob(value)))
        for mine, yours in zip(*found, strict=True):
            assert_close(mine, yours, name)
