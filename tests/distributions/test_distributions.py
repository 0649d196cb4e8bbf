"""Distributions: the same checks for all, by integrals, sums and samples; and error messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor
from retrograd import distributions as d
from retrograd.distributions.gamma import gamma_slope

F8 = retrograd.float64


def t(*values: float) -> Tensor:
    return retrograd.tensor(values, dtype=F8)


# a batch of two distributions, and an interval that contains nearly all values
LINES: dict[str, tuple[d.Distribution, float, float]] = {
    "Normal": (d.Normal(t(0.3, -1), t(0.7, 1.2)), -14, 14),
    "HalfNormal": (d.HalfNormal(t(0.7, 1.2)), 0, 14),
    "Uniform": (d.Uniform(t(-1, 0.5), t(2, 0.75), False), -1.5, 2.5),
    "Exponential": (d.Exponential(t(0.7, 3)), 0, 50),
    "Laplace": (d.Laplace(t(0.3, -1), t(0.7, 0.4)), -25, 25),
    "Gumbel": (d.Gumbel(t(0.3, -1), t(0.7, 0.4)), -8, 30),
    "Gamma": (d.Gamma(t(2.5, 1.5), t(1, 2)), 0, 50),
    "Chi2": (d.Chi2(t(5, 3)), 0, 90),
    "StudentT": (d.StudentT(t(9, 30), 0.2, t(1, 0.5)), -60, 60),
    "Beta": (d.Beta(t(2.5, 3), t(2, 4)), 0, 1),
    "LogNormal": (d.LogNormal(t(0.1, -0.2), t(0.3, 0.2)), 1e-6, 12),
    "squashed Normal": (d.TransformedDistribution(d.Normal(t(0.2, 0), t(0.3, 0.5)), d.TanhTransform()), -1, 1),
    "reflected": (d.TransformedDistribution(d.Gumbel(t(0.2, 0), t(0.5, 1)), d.AffineTransform(1, -2)), -60, 20),
    "mixture": (d.MixtureSameFamily(d.Categorical(t(1, 3)), d.Normal(t(-1, 2), t(0.5, 1)).expand((2, 2))), -14, 14),
    "RelaxedBernoulli": (d.RelaxedBernoulli(t(1.5)[0], t(0.3, 0.6)), 0, 1),
}
COUNTS: dict[str, tuple[d.Distribution, int]] = {
    "Bernoulli": (d.Bernoulli(t(0.3, 0.8)), 2),
    "Bernoulli, logits": (d.Bernoulli(logits=t(-1, 2)), 2),
    "Geometric": (d.Geometric(t(0.3, 0.8)), 200),
    "Poisson": (d.Poisson(t(0.3, 4)), 60),
    "Binomial": (d.Binomial(t(5, 9), t(0.3, 0.8)), 10),
    "Categorical": (d.Categorical(retrograd.tensor([[1.0, 2, 3], [1, 0, 1]], dtype=F8)), 3),
}
VECTORS: dict[str, d.Distribution] = {
    "Dirichlet": d.Dirichlet(t(2, 0.7, 3)),
    "MultivariateNormal": d.MultivariateNormal(t(1, 2), retrograd.tensor([[2.0, 0.7], [0.7, 1]], dtype=F8)),
    "OneHotCategorical": d.OneHotCategorical(t(0.2, 0.5, 0.3)),
    "Multinomial": d.Multinomial(5, t(0.2, 0.5, 0.3)),
    "Independent": d.Independent(d.Normal(t(1, 2), t(0.5, 2)), 1),
}


def has(distribution: d.Distribution, name: str) -> Any:
    """Return an attribute of a distribution, or None if it is not implemented."""
    try:
        found = getattr(distribution, name)
        return found() if name == "entropy" else found
    except NotImplementedError:
        return None


def known(distribution: d.Distribution, values: np.ndarray, weights: np.ndarray, tolerance: float) -> None:
    """Check total, moments and entropy with the density at values (K,), and weights of an integral or a sum."""
    x = retrograd.tensor(values).unsqueeze(-1)
    log = distribution.log_prob(x).array
    share = np.exp(log) * weights[:, None]
    np.testing.assert_allclose(share.sum(0), 1, rtol=tolerance)
    if isinstance(distribution, d.Categorical):
        np.testing.assert_allclose(distribution.entropy().array, -(share * np.maximum(log, -99)).sum(0), rtol=tolerance)
        return
    mean = (share * values[:, None]).sum(0)
    variance = (share * values[:, None] ** 2).sum(0) - mean**2
    for name, wanted in (("mean", mean), ("variance", variance), ("stddev", variance**0.5)):
        found = has(distribution, name)
        if found is not None:
            np.testing.assert_allclose(found.array, wanted, rtol=10 * tolerance, atol=tolerance, err_msg=name)
    entropy = has(distribution, "entropy")
    if entropy is not None:
        wanted = -(share * np.where(share > 0, log, 0)).sum(0)
        np.testing.assert_allclose(entropy.array, wanted, rtol=10 * tolerance, err_msg="entropy")


@pytest.mark.parametrize("name", LINES)
def test_densities_integrate(name: str) -> None:
    distribution, low, high = LINES[name]
    count = 12_000
    width = (high - low) / count
    values = low + width * (np.arange(count) + 0.5)
    known(distribution, values, np.full(count, width), 5e-4)
    try:
        below = distribution.cdf(retrograd.tensor(values).unsqueeze(-1)).array
    except NotImplementedError:
        return
    density = np.exp(distribution.log_prob(retrograd.tensor(values).unsqueeze(-1)).array)
    np.testing.assert_allclose(below, density.cumsum(0) * width - density * width / 2, atol=1e-3)
    p = retrograd.tensor(np.linspace(0.01, 0.99, 9)).unsqueeze(-1)
    if name not in ("Gamma", "Chi2", "mixture"):
        np.testing.assert_allclose(distribution.cdf(distribution.icdf(p)).array, p.array + 0 * below[:9], rtol=1e-9)


@pytest.mark.parametrize("name", COUNTS)
def test_probabilities_sum(name: str) -> None:
    distribution, count = COUNTS[name]
    values = np.arange(float(count))
    if name == "Binomial":  # the batch has different numbers of trials
        for i in range(2):
            n = int(distribution.total_count.array[i])  # type: ignore[attr-defined]
            one = d.Binomial(n, distribution.probs[i : i + 1])  # type: ignore[attr-defined]
            known(one, np.arange(n + 1.0), np.ones(n + 1), 1e-9)
        return
    known(distribution, values, np.ones(count), 1e-9)


@pytest.mark.parametrize("name", [*LINES, *COUNTS, *VECTORS])
def test_moments_of_samples(name: str) -> None:
    distribution: Any = {**VECTORS, **{k: v[0] for k, v in {**LINES, **COUNTS}.items()}}[name]
    retrograd.manual_seed(5)
    drawn = distribution.sample((12_000,))
    assert not drawn.requires_grad and distribution.support.check(drawn).array.all()
    if name == "Categorical":
        share = np.stack([(drawn.array == k).mean(0) for k in range(3)], -1)
        np.testing.assert_allclose(share, distribution.probs.array, atol=0.02)
        return
    mean, variance = has(distribution, "mean"), has(distribution, "variance")
    if mean is None:
        return
    spread = variance.array**0.5
    np.testing.assert_allclose(drawn.array.mean(0), mean.array, atol=0.05 * spread.max())
    np.testing.assert_allclose(drawn.array.var(0), variance.array, rtol=0.15, atol=1e-3)
    if name in ("MultivariateNormal", "Dirichlet", "Multinomial"):
        a = drawn.array - mean.array
        wanted = {
            "MultivariateNormal": lambda: distribution.covariance_matrix.array[0, 1],
            "Dirichlet": lambda: -mean.array[0] * mean.array[1] / 6.7,
            "Multinomial": lambda: -5 * 0.2 * 0.5,
        }[name]()
        np.testing.assert_allclose((a[:, 0] * a[:, 1]).mean(), wanted, atol=0.03)


GRADIENTS: dict[str, Any] = {
    "Normal": d.Normal,
    "Laplace": d.Laplace,
    "Gumbel": d.Gumbel,
    "Gamma": d.Gamma,
    "Beta": d.Beta,
    "Uniform": lambda a, b: d.Uniform(a, a + b),
    "LogNormal": lambda a, b: d.LogNormal(a, b / 3),
    "Dirichlet": lambda a, b: d.Dirichlet(retrograd.stack((a, b), -1)),
    "Chi2": lambda a, b: d.Chi2(a + b),
    "MultivariateNormal": lambda a, b: d.MultivariateNormal(a.expand(2), scale_tril=retrograd.eye(2, dtype=F8) * b),
    "Independent": lambda a, b: d.Independent(d.Normal(a.expand(2), b), 1),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_samples(name: str) -> None:
    """The mean over samples of x**2 has the gradient of variance + mean**2."""
    a, b = (retrograd.tensor(v, dtype=F8, requires_grad=True) for v in (1.7, 1.1))
    distribution = GRADIENTS[name](a, b)
    retrograd.manual_seed(3)
    drawn = distribution.rsample((40_000,))
    found = retrograd.autograd.grad((drawn * drawn).mean(0).sum(), [a, b])
    distribution = GRADIENTS[name](a, b)
    wanted = retrograd.autograd.grad((distribution.variance + distribution.mean**2).sum(), [a, b])
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine.array, other.array, rtol=0.1, atol=0.03)


def test_gradient_of_a_gamma_variable() -> None:
    """The gradient keeps the quantile fixed; compared with central differences of the distribution function."""
    rng = np.random.default_rng(2)
    for a in (0.05, 0.4, 1.0, 3.0, 40.0, 700.0, 3000.0):
        x = rng.standard_gamma(a, 9)
        h = 1e-4 * a
        up, down = (retrograd.igamma(t(a + s), retrograd.tensor(x)).array for s in (h, -h))
        density = np.exp(d.Gamma(t(a), 1.0).log_prob(retrograd.tensor(x)).array)
        wanted = -(up - down) / (2 * h) / density
        np.testing.assert_allclose(
            gamma_slope(np.full(9, a), x), wanted, rtol=1e-4
        )  # 3000 uses the normal approximation
    a, x = far = np.array([0.5, 2.0, 7.0]), np.array([30.0, 40.0, 60.0])  # from the integral over the tail
    up, down = (retrograd.igammac(retrograd.tensor(a + s), retrograd.tensor(x)).array for s in (1e-4, -1e-4))
    density = np.exp(d.Gamma(retrograd.tensor(far[0]), 1.0).log_prob(retrograd.tensor(far[1])).array)
    np.testing.assert_allclose(gamma_slope(*far), (up - down) / 2e-4 / density, rtol=1e-5)


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Gamma", "Beta", "Gumbel", "HalfNormal", "LogNormal", "Uniform"])
def test_divergences_are_integrals(name: str) -> None:
    p, low, high = LINES[name]
    q = type(p)(*[getattr(p, name).flip(-1) + 0.2 for name in p.arg_constraints])
    if isinstance(q, d.Uniform):
        q = d.Uniform(-2.0, t(3, 4), False)
    x = retrograd.tensor(low + (high - low) / 2e4 * (np.arange(20_000) + 0.5)).unsqueeze(-1)
    log_p, log_q = p.log_prob(x).array, q.log_prob(x).array
    with np.errstate(invalid="ignore"):
        terms = np.where(log_p > -500, np.exp(log_p) * (log_p - log_q), 0)
    np.testing.assert_allclose(d.kl_divergence(p, q).array, terms.sum(0) * (high - low) / 2e4, rtol=2e-3, atol=1e-4)
    with pytest.raises(NotImplementedError, match=r"no formula for .* and Cauchy; add one with register_kl"):
        d.kl_divergence(p, d.Cauchy(0.0, 1.0))


def test_a_divergence_of_ones_own() -> None:
    class Mine(d.Normal):
        pass

    @d.register_kl(Mine, d.Cauchy)
    def own(p: Mine, q: d.Cauchy) -> Tensor:
        return p.loc * 0 + 7

    assert d.kl_divergence(Mine(0.0, 1.0), d.Cauchy(0.0, 1.0)).item() == 7
    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 1.0)).item() == 0
    with pytest.raises(TypeError, match="register_kl: <class 'int'> must be a class of distributions"):
        d.register_kl(int, d.Normal)


def test_a_cache_gives_back_the_value_itself() -> None:
    transform = d.TanhTransform(cache_size=1)
    squashed = d.TransformedDistribution(d.Normal(t(0, 9), t(1, 1)), [transform])
    action = squashed.rsample()
    assert transform.inv(action) is transform._cached[0]
    assert np.isfinite(squashed.log_prob(action).array).all()  # also for tanh(9), whose inverse would be rounded
    assert transform.inv.inv is transform and transform == d.TanhTransform() and transform.with_cache(1) is transform
    assert squashed.expand((3, 2)).sample((4,)).shape == (4, 3, 2)


def test_a_transform_of_ones_own() -> None:
    class Cube(d.Transform):
        domain, codomain = d.constraints.real, d.constraints.real
        bijective = True
        sign = +1

        def _call(self, x: Tensor) -> Tensor:
            return x**3

        def _inverse(self, y: Tensor) -> Tensor:
            return y.sign() * y.abs() ** (1 / 3)

        def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
            return (x * x * 3).log()

    cube = d.TransformedDistribution(d.Normal(t(0.0), 1.0), [Cube(cache_size=1)])
    x = t(0.5, 2.0)
    np.testing.assert_allclose(
        cube.log_prob(x**3).array, (d.Normal(0.0, 1.0).log_prob(x) - (x * x * 3).log()).array, rtol=1e-6
    )
    np.testing.assert_allclose(cube.cdf(x**3).array, d.Normal(t(0.0), 1.0).cdf(x).array)
    with pytest.raises(NotImplementedError, match="Transform: _call must be defined"):
        d.Transform()(x)


def test_text() -> None:
    assert repr(d.Normal(0.0, 2.0)) == "Normal(loc: 0.0, scale: 2.0)"
    assert repr(d.Categorical(logits=retrograd.zeros(2, 3))) == "Categorical(logits: (2, 3))"
    assert repr(d.Independent(d.Bernoulli(t(0.5)), 1)) == "Independent(Bernoulli(probs: 0.5), 1)"
    assert repr(d.TanhTransform().inv) == "TanhTransform().inv"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: d.Normal(0.0, -1.0), ValueError, r"Normal: scale must satisfy GreaterThan\(lower_bound=0.0\)"),
        (lambda: d.Normal(t(np.nan), 1.0), ValueError, r"Normal: loc must satisfy Real\(\), but has other values"),
        (lambda: d.Normal("0", 1.0), ValueError, "broadcast_all: got str, needs Tensors and numbers"),
        (lambda: d.Normal(t(1, 2), t(1, 2, 3)), ValueError, "do not broadcast"),
        (lambda: d.Normal(0.0, 1.0).log_prob(0.5), ValueError, "Normal: value is float, needs a Tensor"),
        (lambda: d.Normal(t(1, 2), 1.0).log_prob(t(1, 2, 3)), ValueError, r"value.shape=\(3,\) does not broadcast"),
        (lambda: d.Exponential(1.0).log_prob(t(-1)), ValueError, r"Exponential: the value must satisfy GreaterThanEq"),
        (lambda: d.Dirichlet(t(1, 2)).log_prob(t(1, 2, 3)), ValueError, r"must end in event_shape=\(2,\)"),
        (lambda: d.Dirichlet(t(1)[0]), ValueError, "Dirichlet: concentration has no axis"),
        (lambda: d.Uniform(2.0, 1.0), ValueError, "Uniform: low=.* must be below high="),
        (lambda: d.Bernoulli(), ValueError, "Bernoulli: give probs or logits, not none"),
        (lambda: d.Bernoulli(0.5, 0.5), ValueError, "Bernoulli: give probs or logits, not both"),
        (lambda: d.Bernoulli(1.5), ValueError, r"probs must satisfy Interval\(lower_bound=0.0, upper_bound=1.0\)"),
        (lambda: d.Geometric(0.0), ValueError, "Geometric: probs=.* must be above 0"),
        (lambda: d.Categorical(t(1)[0]), ValueError, "Categorical: probs has no axis"),
        (lambda: d.Categorical(logits=[0.0]), TypeError, "Categorical: logits is list, needs a Tensor"),
        (lambda: d.Categorical(t(-1, 2)), ValueError, r"Categorical: probs must satisfy Simplex\(\)"),
        (lambda: d.Categorical(t(1, 2)).log_prob(t(2)), ValueError, "the value must satisfy IntegerInterval"),
        (lambda: d.Multinomial(-1, t(1, 2)), ValueError, "Multinomial: total_count=-1 must be an int of at least 0"),
        (lambda: d.MultivariateNormal(t(1, 2)), ValueError, "give one of covariance_matrix, .*, not 0 of them"),
        (lambda: d.MultivariateNormal(t(1, 2), retrograd.eye(3)), ValueError, r"must be \(..., N\) and \(..., N, N\)"),
        (lambda: d.MultivariateNormal(t(1, 2), -retrograd.eye(2)), ValueError, "must satisfy PositiveDefinite"),
        (lambda: d.Independent(d.Normal(t(1), 1.0), 2), ValueError, "reinterpreted_batch_ndims=2 must be from 0 to 1"),
        (lambda: d.Normal(0.0, 1.0, validate_args=2), TypeError, "validate_args=2 must be True or False"),
        (lambda: d.Bernoulli(0.5).rsample(), NotImplementedError, "Bernoulli has no rsample: its values have no"),
        (lambda: d.Beta(1.0, 1.0).cdf(t(0.5)), NotImplementedError, "Beta has no cdf"),
        (lambda: d.TanhTransform(2), ValueError, "TanhTransform: cache_size=2 must be 0 or 1"),
        (lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), 3), ValueError, "3 must be a Transform or a list"),
        (
            lambda: d.TransformedDistribution(d.Normal(0.0, 1.0), d.SoftmaxTransform()),
            ValueError,
            r"base_distribution has the shape \(\), the transforms need 1 axes",
        ),
        (lambda: d.MixtureSameFamily(d.Normal(0.0, 1.0), d.Normal(0.0, 1.0)), ValueError, "must be a Categorical"),
        (
            lambda: d.MixtureSameFamily(d.Categorical(t(1, 2)), d.Normal(t(1, 2, 3), 1.0)),
            ValueError,
            r"component_distribution.batch_shape=\(3,\) must end in the number of components",
        ),
    ],
)
def test_messages(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_checks_can_be_left_out() -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(d.Normal(0.0, -1.0, validate_args=False).log_prob(t(0.5)).array).all()
    d.Distribution.set_default_validate_args(False)
    try:
        d.Bernoulli(1.5)
    finally:
        d.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="Bernoulli: probs must satisfy"):
        d.Bernoulli(1.5)


def test_one_sample_of_one_number() -> None:
    """A distribution of plain numbers draws a tensor without axes."""
    for made in (
        *(d.Exponential(0.5), d.Laplace(0.0, 1.0), d.Gumbel(0.0, 1.0), d.Cauchy(0.0, 1.0), d.Normal(0.0, 1.0)),
        *(d.Uniform(0.0, 1.0), d.Gamma(1.0, 1.0), d.Beta(1.0, 1.0), d.StudentT(3.0), d.Chi2(2.0), d.HalfNormal(1.0)),
        *(d.Bernoulli(0.5), d.Geometric(0.5), d.Poisson(2.0), d.LogNormal(0.0, 1.0), d.Binomial(3, 0.5)),
    ):
        sample = made.sample()
        assert isinstance(sample.array, np.ndarray) and sample.shape == () and np.isfinite(sample.array)


def test_a_uniform_density_of_nan_and_at_the_ends() -> None:
    low, high = t(0.0, 0.0, 0.0, 0.0), t(2.0, 2.0, 2.0, 2.0)
    found = d.Uniform(low, high, validate_args=False).log_prob(t(0.0, 2.0, np.nan, -1.0)).array
    assert found.tolist() == [-np.log(2.0), -np.inf, -np.inf, -np.inf]


def test_relaxed_distributions_pass_on_that_nothing_is_checked() -> None:
    value = t(0.5, -1.0, 0.5)
    with np.errstate(invalid="ignore"):
        one_hot = d.RelaxedOneHotCategorical(1.0, t(0.2, 0.3, 0.5), validate_args=False)
        assert np.isnan(one_hot.log_prob(value).array)
        assert d.RelaxedBernoulli(1.0, t(2.0, 0.5), validate_args=False).base_dist.probs.array[0] == 2.0


def test_the_moments_of_a_cauchy_variable() -> None:
    p = d.Cauchy(Tensor(np.zeros((3, 1))), Tensor(np.ones(2)))
    assert p.mean.shape == p.variance.shape == (3, 2)
    assert np.isnan(p.mean.numpy()).all() and np.isposinf(p.variance.numpy()).all()


def test_a_mode_has_no_gradient() -> None:
    n, p = t(3.0, 4.0).requires_grad_(), t(0.9, 0.5).requires_grad_()
    mode = d.Binomial(n, p).mode
    assert mode.tolist() == [3.0, 2.0]
    mode.sum().backward()
    assert n.grad.tolist() == p.grad.tolist() == [0.0, 0.0]
