"""Optimizer steps against the oracle: one number at a time, in any layout, many tensors in one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from comparison import assert_close, memory
from retrograd.formulas import UPDATES
from retrograd.formulas import optimizers as update
from strategies import DTYPES, LAYOUTS, Source, dtypes, examples, many_examples, seeds, shapes

WRITABLE = tuple(sorted(set(LAYOUTS) - {"read_only", "expanded"}))
PLAIN = {"lr": 0.1, "weight_decay": 0.01, "maximize": False}
ADAM = {**PLAIN, "step": 3, "beta1": 0.9, "beta2": 0.99, "eps": 1e-3}
SGD = {**PLAIN, "momentum": 0.9, "dampening": 0.2, "nesterov": False}
RMSPROP = {**PLAIN, "alpha": 0.9, "eps": 1e-3}
NADAM = {**ADAM, "mu_product": 0.6, "momentum_decay": 0.3}


def nadam_oracle(*values: float, momentum_decay: float, **settings: Any) -> tuple[float, ...]:
    mu, mu_next = (0.9 * (1 - 0.5 * 0.96 ** ((settings["step"] + n) * momentum_decay)) for n in (0, 1))
    return naive.nadam_step(*values, mu=mu, mu_next=mu_next, **settings)


def rmsprop_oracle(*values: float, centered: bool, momentum: float = 0.0, **settings: Any) -> tuple[float | None, ...]:
    p, g, v, *states = values
    a = states.pop(0) if centered else None
    results = naive.rmsprop_step(p, g, v, a, states[0] if states else None, momentum=momentum, **settings)
    return tuple(value for value in results if value is not None)


def adagrad_oracle(*values: float, step: int, lr: float, lr_decay: float, **settings: Any) -> tuple[float, ...]:
    return naive.adagrad_step(*values, lr=lr / (1 + (step - 1) * lr_decay), **settings)


@dataclass(frozen=True)
class Rule:
    """An update, one letter for each state, its numbers, and the oracle.

    States: "m" has any sign, "v" is not negative.
    """

    formula: Callable[..., Any]
    states: str
    settings: dict[str, Any]
    oracle: Callable[..., tuple[float, ...]]

    def known(self, **numbers: float) -> dict[str, float]:
        """Those numbers that the update has."""
        return {name: value for name, value in numbers.items() if name in self.settings}

    def __str__(self) -> str:
        flags = [name for name, value in self.settings.items() if value is True]
        return "-".join([self.formula.__name__, *flags])


ASGD = {"eta": 0.1, "lambd": 0.2, "weight_decay": 0.0, "maximize": False}
RPROP = {"shrink": 0.4, "grow": 1.3, "smallest": 1e-6, "largest": 50.0, "maximize": False}
COUPLED, DECOUPLED = {"decoupled": False}, {"decoupled": True}
RULES = [
    Rule(update.sgd, "", PLAIN, lambda p, g, **numbers: naive.sgd_step(p, g, 0.0, momentum=0.0, **numbers)[:1]),
    Rule(update.sgd_momentum, "m", SGD, naive.sgd_step),
    Rule(update.sgd_momentum, "m", {**SGD, "nesterov": True, "maximize": True, "weight_decay": 0.0}, naive.sgd_step),
    Rule(update.adam, "mv", {**ADAM, **COUPLED}, naive.adam_step),
    Rule(update.amsgrad, "mvv", {**ADAM, **DECOUPLED, "maximize": True}, naive.adam_step),
    Rule(update.adamax, "mv", ADAM, naive.adamax_step),
    Rule(update.adamax, "mv", {**ADAM, "maximize": True, "step": 1}, naive.adamax_step),
    Rule(update.nadam, "mv", {**NADAM, **COUPLED}, nadam_oracle),
    Rule(update.nadam, "mv", {**NADAM, **DECOUPLED}, nadam_oracle),
    Rule(update.radam, "mv", {**ADAM, **COUPLED, "rectification": 0.0}, naive.radam_step),
    Rule(update.radam, "mv", {**ADAM, **DECOUPLED, "rectification": 0.4}, naive.radam_step),
    Rule(update.rmsprop, "v", RMSPROP, partial(rmsprop_oracle, centered=False)),
    Rule(update.rmsprop_centered, "vm", {**RMSPROP, "maximize": True}, partial(rmsprop_oracle, centered=True)),
    Rule(update.rmsprop_momentum, "vm", {**RMSPROP, "momentum": 0.7}, partial(rmsprop_oracle, centered=False)),
    Rule(
        update.rmsprop_centered_momentum,
        "vmm",
        {**RMSPROP, "momentum": 0.7, "weight_decay": 0.0},
        partial(rmsprop_oracle, centered=True),
    ),
    Rule(update.adagrad, "v", {**PLAIN, "eps": 1e-3, "step": 3, "lr_decay": 0.2}, adagrad_oracle),
    Rule(update.asgd, "m", {**ASGD, "mu": 1.0}, naive.asgd_step),
    Rule(update.asgd, "m", {**ASGD, "mu": 0.3, "weight_decay": 0.1, "maximize": True}, naive.asgd_step),
    Rule(update.rprop, "mv", RPROP, naive.rprop_step),
    Rule(update.rprop, "mv", {**RPROP, "maximize": True, "smallest": 0.3, "largest": 0.5}, naive.rprop_step),
    Rule(update.adadelta, "vv", {**PLAIN, "eps": 1e-3, "rho": 0.8, "maximize": True}, naive.adadelta_step),
]
each_rule = pytest.mark.parametrize("rule", RULES, ids=str)


def test_every_update_is_a_rule() -> None:
    assert {rule.formula for rule in RULES} == {*UPDATES.values()} - {update.average, update.limit, update.rectified}


def judge(arrays: Sequence[np.ndarray], before: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Check that the arrays changed as expected, up to rounding, and that the memory around them did not."""
    for array, old, new in zip(arrays, before, expected, strict=True):
        assert_close(array, new, 32 * np.finfo(array.dtype).eps * (1 + np.abs(old) + np.abs(new)))


def surroundings(arrays: Sequence[np.ndarray]) -> int:
    """How many NaNs there are around the arrays; the arrays themselves have none."""
    return sum(int(np.isnan(block).sum()) for block in memory(arrays))


def make(rule: Rule, shapes: Sequence[tuple[int, ...]], source: Source) -> list[list[np.ndarray]]:
    """Parameters, gradients and states. The layouts cycle through the columns."""
    turns = source.turns
    columns: list[list[np.ndarray]] = []
    for kind in "pg" + rule.states:
        turns = (*turns[1:], turns[0])
        columns.append(Source(source.rng, source.dtype, turns).arrays(*shapes))
        if kind == "v":
            for x in columns[-1]:
                np.multiply(x, x, out=x)
    if "centered" in str(rule):  # a variance is no difference of nearly equal numbers
        for v in columns[2]:
            v += 1
    return columns


def check(kernels: Any, rule: Rule, columns: list[list[np.ndarray]], **given: Any) -> None:
    changed = columns[:1] + columns[2:]
    old = [[np.array(x, np.float64) for x in column] for column in changed]
    gradients = [x.copy() for x in columns[1]]
    guards = surroundings([x for column in changed for x in column])
    new = [[x.copy() for x in column] for column in old]
    settings = {**rule.settings, **given}
    for n, gradient in enumerate(columns[1]):
        for at in product(*map(range, gradient.shape)):
            results = rule.oracle(*(float(column[n][at]) for column in columns), **settings)
            for column, value in zip(new, results, strict=True):
                column[n][at] = value
    assert kernels.update(rule.formula, *columns, **settings) is None
    for column, before, expected in zip(changed, old, new, strict=True):
        judge(column, before, expected)
    judge(columns[1], gradients, [x.astype(np.float64) for x in gradients])
    assert surroundings([x for column in changed for x in column]) == guards


tensors = st.lists(shapes(limit=60), min_size=0, max_size=5)
order = st.tuples(*[st.sampled_from(WRITABLE)] * 3)
number = st.sampled_from((0.0, 0.01, 0.5))


@examples(8)
@given(seed=seeds, dtype=dtypes, turns=order, shapes=tensors, lr=number, decay=number)
@each_rule
def test_steps(
    kernel_set: Any, rule: Rule, shapes: Any, seed: Any, dtype: type, turns: Any, lr: float, decay: float
) -> None:
    check(kernel_set, rule, make(rule, shapes, Source(seed, dtype, turns)), **rule.known(lr=lr, weight_decay=decay))


@pytest.mark.nightly
@many_examples(300)
@given(seed=seeds, dtype=dtypes, turns=order, shapes=tensors, lr=number, decay=number, step=st.integers(1, 100_000))
@each_rule
def test_steps_nightly(
    kernel_set: Any, rule: Rule, shapes: Any, seed: Any, dtype: type, turns: Any, lr: float, decay: float, step: int
) -> None:
    given = rule.known(lr=lr, weight_decay=decay, step=step)
    check(kernel_set, rule, make(rule, shapes, Source(seed, dtype, turns)), **given)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("parameter", WRITABLE)
@pytest.mark.parametrize("gradient", sorted(LAYOUTS))
def test_layouts(kernel_set: Any, parameter: str, gradient: str, dtype: type) -> None:
    """A weight, its gradient and a buffer from a checkpoint may have different layouts."""
    for buffer in ("contiguous", "channels_last"):
        source = Source(np.random.default_rng(0), dtype, (buffer, parameter, gradient, buffer, buffer))
        for rule in (RULES[1], RULES[4], RULES[14]):
            check(kernel_set, rule, make(rule, [(3, 2, 2, 3)], source))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@each_rule
def test_many_tensors_in_one_call(kernel_set: Any, rule: Rule, dtype: type) -> None:
    """Extents across the vector widths, empty ones and single numbers."""
    sizes = [(n,) for n in range(0, 40, 3)] + [(), (0, 3), (64, 3, 3, 1)]
    check(kernel_set, rule, make(rule, sizes, Source(np.random.default_rng(0), dtype, ("contiguous",))))


@pytest.mark.parametrize("sizes", [(16400, 3, 20000, 35), (1 << 19, 1000003, 2)], ids=["short tasks", "long tasks"])
def test_more_than_a_task(kernel_set: Any, sizes: tuple[int, ...]) -> None:
    """Tensors that begin and end within tasks: every element as it is alone. (The oracle is too slow for them.)"""
    rule = RULES[4]
    columns = make(rule, [(size,) for size in sizes], Source(np.random.default_rng(0), np.float32, ("contiguous",)))
    places = [(n, at) for n, size in enumerate(sizes) for at in {0, size // 3, size // 2, 16383 % size, size - 1}]
    alone = [[[column[n][at : at + 1].copy()] for column in columns] for n, at in places]
    kernel_set.update(rule.formula, *columns, **rule.settings)
    for (n, at), part in zip(places, alone, strict=True):
        kernel_set.update(rule.formula, *part, **rule.settings)
        for column, expected in zip(columns, part, strict=True):
            assert column[n][at] == expected[0][0]


@each_rule
def test_no_tensors(kernel_set: Any, rule: Rule) -> None:
    kernel_set.update(rule.formula, *[[] for _ in range(2 + len(rule.states))], **rule.settings)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@each_rule
def test_nan_and_inf_stay_in_their_places(kernel_set: Any, rule: Rule, value: float) -> None:
    for extent in (1, 17, 40):
        at = extent // 2
        columns = [[np.full(extent, start, np.float32)] for start in (1, 0.5, *(0,) * len(rule.states))]
        columns[1][0][at] = value
        kernel_set.update(rule.formula, *columns, **rule.settings)
        p = columns[0][0]
        assert np.isfinite(np.delete(p, at)).all()
        assert np.isfinite(p[at]) == (rule.formula is update.rprop)  # which takes the sign of a gradient alone


@each_rule
def test_a_parameter_without_decay_keeps_its_infinity(kernel_set: Any, rule: Rule) -> None:
    columns = [[np.full(20, start, np.float32)] for start in (np.inf, 0.5, *(0.25,) * len(rule.states))]
    kernel_set.update(rule.formula, *columns, **{**rule.settings, **rule.known(weight_decay=0.0)})
    assert np.isinf(columns[0][0]).all()


def test_zero_gradient_and_zero_average(kernel_set: Any) -> None:
    """Adam divides 0 by eps."""
    p, g, m, v = (np.full(5, start) for start in (2.0, 0.0, 0.0, 0.0))
    kernel_set.update(update.adam, [p], [g], [m], [v], **{**ADAM, **COUPLED, "weight_decay": 0.0})
    assert (p == 2).all() and not m.any() and not v.any()


def test_a_variance_that_rounding_made_negative_counts_as_zero(kernel_set: Any) -> None:
    p, g, v, a = (np.full(20, start, np.float32) for start in (1.0, 0.3, 0.0899, 0.3))
    kernel_set.update(update.rmsprop_centered, [p], [g], [v], [a], **{**RMSPROP, "weight_decay": 0.0})
    np.testing.assert_allclose(p, 1 - 0.1 * 0.3 / 1e-3, rtol=1e-5)


# ---------------------------------------------------------------- the cache between calls


def test_kept_tables_take_other_gradients(kernel_set: Any) -> None:
    """For any gradients of the next call, the bits are the same as without ``keep``."""
    rng = np.random.default_rng(0)
    shapes = [(5, 4), (), (3, 2, 4), (0,)]
    p = [rng.normal(size=shape) for shape in shapes]
    q = [x.copy() for x in p]
    keep: dict[str, Any] = {}
    for turn in range(5):
        gradients = [rng.normal(size=shape) for shape in shapes]
        if turn == 2:  # in another order of memory
            gradients[0] = np.asfortranarray(gradients[0])
        kernel_set.update(update.sgd, p, gradients, keep=keep, **PLAIN)
        kernel_set.update(update.sgd, q, gradients, **PLAIN)
        for x, y in zip(p, q, strict=True):
            np.testing.assert_array_equal(x, y)


# ---------------------------------------------------------------- averages, limits, norms


@pytest.mark.parametrize("dtype", DTYPES)
def test_average(kernel_set: Any, dtype: type) -> None:
    source = Source(np.random.default_rng(0), dtype, WRITABLE)
    a, x = source.arrays((7, 5), (), (3, 0), (41,)), source.arrays((7, 5), (), (3, 0), (41,))
    expected = [0.7 * old.astype(np.float64) + 0.3 * new.astype(np.float64) for old, new in zip(a, x, strict=True)]
    kernel_set.update(update.average, a, x, weight=0.3)
    for array, value in zip(a, expected, strict=True):
        np.testing.assert_allclose(array, value, rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("layout", WRITABLE)
def test_limit(kernel_set: Any, layout: str) -> None:
    values = np.array([[np.nan, np.inf, -np.inf, 0.0], [3.0, -3.0, 0.5, -0.5], [1.0, 2.0, -1.0, -0.0]])
    x = LAYOUTS[layout](values)
    kernel_set.update(update.limit, [x], factor=0.5, most=0.75)
    np.testing.assert_array_equal(x, np.clip(values * 0.5, -0.75, 0.75))
    kernel_set.update(update.limit, [x], factor=2.0, most=math.inf)
    np.testing.assert_array_equal(x, 2 * np.clip(values * 0.5, -0.75, 0.75))


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_norm(kernel_set: Any, layout: str, dtype: type) -> None:
    source = Source(np.random.default_rng(0), dtype, (layout,))
    for sizes in ([(3, 5), (), (0, 2), (40,)], [(190, 191), (7,)], [(0,)], []):
        arrays = source.arrays(*sizes)
        numbers = [float(value) for x in arrays for value in x.ravel()]
        expected = math.sqrt(math.fsum(value * value for value in numbers))
        rel = 8 * float(np.finfo(dtype).eps)
        assert kernel_set.norm_of_all(arrays, largest=False) == pytest.approx(expected, rel=rel)
        assert kernel_set.norm_of_all(arrays, largest=True) == max(map(abs, numbers), default=0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", [2.0, 0.5, 0.0, np.inf, np.nan])
def test_limited_norm(kernel_set: Any, norm: float, dtype: type) -> None:
    arrays = Source(np.random.default_rng(0), dtype, ("contiguous",)).arrays((3, 5), (), (190, 191))
    before = [x.copy() for x in arrays]
    kernel_set.limit_norm(arrays, np.asarray(norm), 0.75)
    factor = 1.0 if norm <= 0.5 else 0.75 / (norm + 1e-6)
    for x, y in zip(arrays, before, strict=True):
        np.testing.assert_allclose(x, y * factor, rtol=0 if factor == 1 else 4 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize(("value", "result"), [(np.inf, np.inf), (-np.inf, np.inf), (np.nan, np.nan)])
def test_norm_of_what_is_not_finite(kernel_set: Any, value: float, result: float) -> None:
    for at in (0, 70, 16999):
        x = np.ones(17000, np.float32)
        x[at] = value
        for largest in (False, True):
            np.testing.assert_equal(kernel_set.norm_of_all([np.ones(3, np.float32), x], largest=largest), result)
