"""@formula: values and gradients against plain NumPy, caching, printed source, and errors."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retrograd as rg
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.formulas import FORMULAS, PRIMITIVES
from retrograd.formulas.differentiation import rule_of
from retrograd.formulas.tracing import Trace, function
from strategies import LAYOUTS, numbers

F = rg.nn.functional


@pytest.fixture(params=["compiled", "textbook"])
def kernel_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with rg.use_kernels(request.param):
        yield request.param


@rg.formula
def swish(x, beta: float = 1.0):
    return x * rg.sigmoid(beta * x)


@rg.formula
def chosen(x, y):
    inside = (x > -0.5) & ~(y >= 0.7) | (x < -1.2)
    return rg.where(inside, x * y, y**3 / (2.0 + x**2)) - rg.tanh(x)


@rg.formula
def scaled(x, y, p: float, q: float = 0.5, r: float = 2.0):
    return rg.exp(-abs(x - y) * p) + q * y / r


@rg.formula
def stepped(x):
    return rg.where(x > 0, 1.0, -1.0)


@stepped.gradient
def stepped_grad(g, x):
    return rg.where(rg.abs(x) <= 1, g, 0.0)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _chosen(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    inside = ((x > -0.5) & ~(y >= 0.7)) | (x < -1.2)
    return np.where(inside, x * y, y**3 / (2 + x**2)) - np.tanh(x)


# formula, the same in NumPy, operands, numbers
CASES: dict[str, tuple[Any, Callable[..., np.ndarray], int, tuple[float, ...]]] = {
    "swish": (swish, lambda x, beta=1.0: x * _sigmoid(beta * x), 1, (1.5,)),
    "swish by default": (swish, lambda x: x * _sigmoid(x), 1, ()),
    "chosen": (chosen, _chosen, 2, ()),
    "scaled": (scaled, lambda x, y, p, q=0.5, r=2.0: np.exp(-np.abs(x - y) * p) + q * y / r, 2, (0.3, 1.5, -0.5)),
    "scaled by default": (scaled, lambda x, y, p: np.exp(-np.abs(x - y) * p) + 0.5 * y / 2.0, 2, (0.3,)),
    "stepped": (stepped, lambda x: np.where(x > 0, 1.0, -1.0), 1, ()),
}


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (17,), (5, 7), (2, 3, 33), (20011,)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_values(case: str, dtype: type, shape: tuple[int, ...], kernel_set: str) -> None:
    formula, by_definition, operands, given_numbers = CASES[case]
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(shape).astype(dtype) for _ in range(operands)]
    y = formula(*map(rg.Tensor, arrays), *given_numbers)
    want = by_definition(*[array.astype(np.float64) for array in arrays], *given_numbers)
    assert y.array.dtype == dtype and y.array.shape == shape
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(y.array, want, tolerance, tolerance)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("case", CASES)
def test_any_layout(case: str, layout: str, kernel_set: str) -> None:
    formula, by_definition, operands, given_numbers = CASES[case]
    rng = np.random.default_rng(4)
    arrays = [LAYOUTS[layout](numbers(rng, (4, 6), np.float64))]
    arrays += [rng.standard_normal((4, 6)) for _ in range(operands - 1)]
    before = [array.copy() for array in arrays]
    tensors = [rg.Tensor(array, requires_grad=True) for array in arrays]
    y = formula(*tensors, *given_numbers)
    np.testing.assert_allclose(y.array, by_definition(*arrays, *given_numbers), 1e-12, 1e-12)
    g = rng.standard_normal((4, 6))
    gradients = rg.autograd.grad(y, tensors, rg.Tensor(g))
    plain = [rg.Tensor(np.ascontiguousarray(array), requires_grad=True) for array in arrays]
    want = rg.autograd.grad(formula(*plain, *given_numbers), plain, rg.Tensor(g))
    for one, other in zip(gradients, want, strict=True):
        np.testing.assert_allclose(one.array, other.array, 1e-12, 1e-12)
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize("case", [case for case in CASES if case != "stepped"])
def test_derived_gradients(case: str, kernel_set: str) -> None:
    formula, _, operands, given_numbers = CASES[case]
    rng = np.random.default_rng(5)
    tensors = [rg.Tensor(rng.standard_normal((3, 5)), requires_grad=True) for _ in range(operands)]
    assert gradcheck(lambda *x: formula(*x, *given_numbers), tensors)
    assert gradgradcheck(lambda *x: formula(*x, *given_numbers), tensors)


@pytest.mark.parametrize("case", ["swish", "chosen", "scaled"])
def test_the_battery_of_operators(case: str) -> None:
    formula, _, operands, given_numbers = CASES[case]
    rng = np.random.default_rng(10)
    arrays = [rng.standard_normal((3, 4)) for _ in range(operands)]
    rg.testing.check_op(formula, *arrays, *given_numbers, batch=range(operands), rounding=1e-15)


def test_operands_broadcast_and_promote(kernel_set: str) -> None:
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((4, 1, 3)), rng.standard_normal((5, 1))
    tensors = rg.Tensor(x, requires_grad=True), rg.Tensor(y, requires_grad=True)
    np.testing.assert_allclose(chosen(*tensors).array, _chosen(x, y), 1e-12)
    assert gradcheck(chosen, tensors)
    assert chosen(rg.ones(2, dtype=rg.float64), rg.ones(2)).dtype == rg.float64
    assert chosen(rg.ones(2), rg.ones(2, dtype=rg.int64)).dtype == rg.float32
    with pytest.raises(ValueError, match="chosen.*broadcast"):
        chosen(rg.ones(2), rg.ones(3))


# ---------------------------------------------------------------- the gradient of each primitive

_PLACES = {"acosh": (1.2, 3.0), "log": (0.2, 3.0), "log2": (0.2, 3.0), "log10": (0.2, 3.0), "sqrt": (0.2, 3.0)}
_PLACES |= {"asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9), "log1p": (-0.8, 3.0)}
_PLACES |= {"exp_negative": (-3.0, -0.1), "absolute": (0.2, 2.0)}
TWO = ("atan2", "floor_divide", "fmod", "hypot", "pow", "trunc_divide")
SMOOTH = [name for name in PRIMITIVES if name not in ("where", "full_like", *TWO)]


@pytest.mark.parametrize("name", SMOOTH)
def test_gradient_of_each_primitive(name: str) -> None:
    """As a function of arrays, against differences of the primitive itself."""
    trace = Trace(["g", "x"], [])
    g, x = trace.operands
    rule = rule_of(name)
    assert rule is not None
    gradient = function("gradient", "", trace, [trace.full(rule(g, PRIMITIVES[name](x), x)[0])])
    low, high = _PLACES.get(name, (-1.4, 1.4))
    rng = np.random.default_rng(7)
    at, upstream, step = rng.uniform(low, high, 50), rng.standard_normal(50), 1e-6
    want = upstream * (PRIMITIVES[name](at + step) - PRIMITIVES[name](at - step)) / (2 * step)
    np.testing.assert_allclose(gradient(upstream, at), want, 1e-6, 1e-6)


@pytest.mark.parametrize("name", TWO)
def test_gradients_of_each_primitive_of_two_operands(name: str) -> None:
    trace = Trace(["g", "x", "y"], [])
    g, x, y = trace.operands
    rule = rule_of(name)
    assert rule is not None
    both = function("gradient", "", trace, [trace.full(each) for each in rule(g, PRIMITIVES[name](x, y), x, y)])
    rng = np.random.default_rng(7)
    at, other, upstream, step = *rng.uniform(0.3, 2.0, (2, 50)), rng.standard_normal(50), 1e-6
    of_x, of_y = both(upstream, at, other)
    primitive = PRIMITIVES[name]
    want_x = upstream * (primitive(at + step, other) - primitive(at - step, other)) / (2 * step)
    want_y = upstream * (primitive(at, other + step) - primitive(at, other - step)) / (2 * step)
    np.testing.assert_allclose(of_x, want_x, 1e-6, 1e-6)
    np.testing.assert_allclose(of_y, want_y, 1e-6, 1e-6)


@rg.formula
def all_known(x):
    a = F.relu(x) + F.leaky_relu(x, 0.1) + F.silu(x) + F.mish(x) + F.gelu(x) + F.gelu(x, approximate="tanh")
    b = F.softplus(x, beta=2.0) + F.logsigmoid(x) + F.softsign(x) + F.tanhshrink(x) + F.elu(x, 1.5) + F.selu(x)
    c = F.hardswish(x) + rg.square(x) + rg.reciprocal(x + 9) + rg.pow(x, 3) + rg.abs(x) + rg.neg(x) + x.exp() + x.abs()
    d = rg.add(x, 1) * rg.sub(x, 1) + rg.mul(x, rg.div(x, 3)) + 2**x + (x + 9) ** -2 + (x + 9) ** 0.5
    return a + b + c + d + rg.full_like(x, 3) + rg.zeros_like(x) + rg.ones_like(x) + np.float64(2) * x + (x > 1)


def test_public_operators_mean_themselves(kernel_set: str) -> None:
    """The text of the user runs on Tensors, too: it gives the same, and the same gradient, at 0 and at kinks also."""
    x = rg.tensor([-4.0, -1.0, 0.0, 0.5, 1.0, 3.0], dtype=rg.float64, requires_grad=True)
    outcomes = []
    for call in (all_known, all_known.__wrapped__):
        y = call(x)
        outcomes.append((y.array, rg.autograd.grad(y.sum(), x)[0].array))
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_allclose(one, other, 1e-12, 1e-12)
    assert gradcheck(all_known, rg.tensor([-4.0, -1.1, 0.5, 1.2], dtype=rg.float64, requires_grad=True))


@rg.formula
def more_known(x, y):
    a = rg.maximum(x, y) + rg.minimum(x, 0.3) + rg.fmax(x, y) + rg.fmin(x, y) + rg.clamp(x, -0.7, 0.8) + rg.clip(y, 0.1)
    b = rg.clamp(x, max=y) + rg.clamp_min(x, -0.2) + rg.clamp_max(y, 0.4) + rg.floor(x) * y + rg.ceil(x) + rg.trunc(y)
    c = rg.round(x) + rg.round(x * y, decimals=1) + rg.frac(x * 2) + rg.sgn(y) + rg.absolute(y) + rg.fix(x)
    d = rg.fmod(x, y) + rg.remainder(x, y) + rg.floor_divide(x, y) + rg.lerp(x, y, 0.3) + rg.lerp(x, y, x)
    e = rg.addcmul(x, y, y, value=2.0) + rg.addcdiv(x, y, y + 9) + rg.subtract(x, y) + rg.rsqrt(y + 9) + rg.negative(x)
    f = rg.logaddexp(x, y) + rg.xlogy(x, y + 9) + rg.hypot(x, y) + rg.atan2(x, y) + rg.arcsin(x / 9) + rg.sqrt(x + 9)
    g = rg.logit(x / 9 + 0.5) + rg.logit(x, eps=0.2) + rg.nan_to_num(x / y, 0.0, 1.0, -1.0) + rg.add(x, y, alpha=2)
    both = rg.logical_and(rg.gt(x, y), ~rg.isnan(x)) | rg.logical_not(rg.isfinite(y)) | rg.le(x, -1.0)
    h = F.hardtanh(x) + F.relu6(x * 4) + F.hardsigmoid(x) + F.hardshrink(x) + F.softshrink(y) + F.celu(x, 1.5)
    return a + b + c + d + e + f + g + h + F.threshold(x, 0.1, 0.2) + rg.where(both, x * y, rg.expm1(x)) + rg.erfc(y)


def test_more_public_operators_mean_themselves(kernel_set: str) -> None:
    """As ``all_known``, with operators that have corners, steps or two operands, at ties and at limits, too."""
    rng = np.random.default_rng(11)
    x = np.array([-1.0, 0.8, 0.25, 0.5, -0.7, *rng.uniform(-1.5, 1.5, 30)])
    y = np.array([-1.0, 0.4, 0.25, -2.0, 0.1, *rng.uniform(-1.5, 1.5, 30)])
    outcomes = []
    for call in (more_known, more_known.__wrapped__):
        leaves = rg.Tensor(x, requires_grad=True), rg.Tensor(y, requires_grad=True)
        z = call(*leaves)
        outcomes.append((z.array, *(gradient.array for gradient in rg.autograd.grad(z.sum(), leaves))))
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_allclose(one, other, 1e-11, 1e-11)


@rg.formula
def cautious(x):
    return rg.where(x > 0, x * rg.log(x) / x + rg.sqrt(x), rg.exp(x))


def test_the_branch_not_taken_has_no_part_in_the_gradient(kernel_set: str) -> None:
    """Its slope is infinite at 0 and NaN below."""
    x = rg.tensor([-2.0, 0.0, 4.0], dtype=rg.float64, requires_grad=True)
    cautious(x).sum().backward()
    np.testing.assert_allclose(x.grad.array, [math.exp(-2), 1.0, 0.25 + 0.25], 1e-12)


# ---------------------------------------------------------------- random compositions

_ONE = {"sigmoid": _sigmoid, "tanh": np.tanh, "sin": np.sin, "atan": np.arctan, "asinh": np.arcsinh}


def _expressions() -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["x", "y", "p", "0.5", "-1.25", "2.0"])

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner)
        quotient = st.builds("({} / (2.0 + tanh({})))".format, inner, inner)
        return st.one_of(
            binary,
            quotient,
            st.builds("{}({} * x)".format, st.sampled_from(sorted(_ONE)), inner),
            st.builds("where(x > y, {}, {})".format, inner, inner),
            st.builds("(-{})".format, inner),
        )

    return st.recursive(leaf, extend, max_leaves=12)


@settings(max_examples=60, deadline=None)
@given(_expressions())
def test_random_compositions(tmp_path_factory: pytest.TempPathFactory, expression: str) -> None:
    """Derived gradients against central differences of the same expression in NumPy."""
    body = f"{expression} + 0.0 * x"
    names = {"where": np.where, **_ONE}
    by_numpy: Any = eval(f"lambda x, y, p: {body}", names)
    file = tmp_path_factory.mktemp("formula") / "written.py"
    file.write_text(
        f"from retrograd.formulas import {', '.join([*_ONE, 'where'])}\n"
        f"def written(x, y, p: float):\n    return {body}\n"
    )
    scope: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    formula = rg.formula(scope["written"])
    rng = np.random.default_rng(8)
    x, y, p, step = rng.uniform(-1.5, 1.5, 6), rng.uniform(-1.5, 1.5, 6), 0.75, 1e-6
    g = rng.standard_normal(6)
    with rg.use_kernels("textbook"):
        tensors = [rg.Tensor(x, requires_grad=True), rg.Tensor(y, requires_grad=True)]
        result = formula(*tensors, p)
        gx, gy = rg.autograd.grad(result, tensors, rg.Tensor(g))
    np.testing.assert_allclose(result.array, by_numpy(x, y, p), 1e-12, 1e-12)
    scale = 1e-5 * (1 + np.abs(result.array).max())
    want = (by_numpy(x + step, y, p) - by_numpy(x - step, y, p)) / (2 * step)
    np.testing.assert_allclose(gx.array, g * want, 1e-5, scale)
    want = (by_numpy(x, y + step, p) - by_numpy(x, y - step, p)) / (2 * step)
    np.testing.assert_allclose(gy.array, g * want, 1e-5, scale)


# ---------------------------------------------------------------- declared gradients


def test_the_declared_gradient_runs(kernel_set: str) -> None:
    x = np.array([-2.0, -1.0, -0.25, 0.0, 0.5, 3.0])
    leaf = rg.Tensor(x, requires_grad=True)
    g = np.random.default_rng(9).standard_normal(6)
    (gx,) = rg.autograd.grad(stepped(leaf), leaf, rg.Tensor(g))
    np.testing.assert_array_equal(gx.array, np.where(np.abs(x) <= 1, g, 0))
    (recorded,) = rg.autograd.grad(stepped(leaf), leaf, rg.Tensor(g), create_graph=True)
    np.testing.assert_array_equal(recorded.array, gx.array)
    assert "rg.abs(x) <= 1" in rg.backward_source(stepped(leaf))
    assert rg.backward_source(stepped) == rg.backward_source(stepped(leaf))


def test_a_formula_calls_formulas_and_takes_their_gradient(kernel_set: str) -> None:
    @rg.formula
    def twice(x):
        return stepped(x * 2.0) * swish(x, beta=2.0)

    x = np.array([-0.75, -0.25, 0.25, 0.75])
    leaf = rg.Tensor(x, requires_grad=True)
    y = twice(leaf)
    np.testing.assert_allclose(y.array, np.sign(x) * x * _sigmoid(2 * x))
    (gx,) = rg.autograd.grad(y.sum(), leaf)
    s = _sigmoid(2 * x)
    straight = np.where(np.abs(2 * x) <= 1, 2.0, 0.0) * x * s
    np.testing.assert_allclose(gx.array, straight + np.sign(x) * (s + 2 * x * s * (1 - s)), 1e-12)
    assert "stepped" not in twice.source


def test_two_declared_gradients(kernel_set: str) -> None:
    @rg.formula
    def product(x, y, p: float):
        return x * y * p

    @product.gradient
    def product_grad(g, x, y, p: float):
        return g * 3.0, 7.0 * g * p

    leaves = [rg.ones(3, requires_grad=True), rg.ones(3, requires_grad=True)]
    gx, gy = rg.autograd.grad(product(*leaves, 2.0).sum(), leaves)
    assert gx.tolist() == [3.0] * 3 and gy.tolist() == [14.0] * 3
    (gy,) = rg.autograd.grad(product(leaves[0].detach(), leaves[1], 2.0).sum(), leaves[1])
    assert gy.tolist() == [14.0] * 3


# ---------------------------------------------------------------- what a kernel is kept under


def _digests(formula: Any) -> str:
    return formula._value.digest


def test_constants_and_called_formulas_change_the_key(kernel_set: str) -> None:
    def times(factor: float) -> Any:
        @rg.formula
        def scale(x):
            return x * factor

        return scale

    def around(formula: Any) -> Any:
        @rg.formula
        def outer(x):
            return formula(x) + 1.0

        return outer

    assert _digests(times(2.0)) == _digests(times(2.0)) != _digests(times(2.5))
    assert _digests(around(times(2.0))) == _digests(around(times(2.0))) != _digests(around(times(2.5)))
    assert times(2.0)(rg.ones(3)).tolist() == [2.0] * 3 and times(2.5)(rg.ones(3)).tolist() == [2.5] * 3
    assert around(times(2.5))(rg.ones(3)).tolist() == [3.5] * 3
    assert _digests(times(math.inf)) != _digests(times(math.nan)) and _digests(times(0.0)) != _digests(times(-0.0))
    assert times(math.inf)(rg.ones(2)).tolist() == [math.inf] * 2 and math.isnan(times(math.nan)(rg.ones(())).item())


def _written(tmp_path: Any, text: str) -> dict[str, Any]:
    file = tmp_path / f"written{abs(hash(text))}.py"
    file.write_text(text)
    scope: dict[str, Any] = {"rg": rg, "np": np, "math": math, "TENSOR": rg.ones(1)}
    exec(compile(text, str(file), "exec"), scope)
    return scope


def test_an_edit_changes_what_runs(tmp_path: Any, kernel_set: str) -> None:
    text = "@rg.formula\ndef edited(x):\n    return x * 3.0\n"
    before, after = (_written(tmp_path, each)["edited"] for each in (text, text.replace("3.0", "4.0")))
    assert before(rg.ones(2)).tolist() == [3.0, 3.0] and after(rg.ones(2)).tolist() == [4.0, 4.0]
    assert _digests(before) != _digests(after)


@pytest.mark.parametrize("name", ["swish", "chosen", "scaled", "stepped", "all_known"])
def test_the_text_that_is_shown_can_be_pasted(name: str, tmp_path: Any) -> None:
    """It gives the same text again, and the gradient that was pasted is the one that was derived."""
    original = globals()[name]
    text = original.source.replace(f"def {name}(", f"@rg.formula\ndef {name}(")
    text = text.replace(f"def {name}_grad(", f"@{name}.gradient\ndef {name}_grad(")
    pasted = _written(tmp_path, text)[name]
    assert _digests(pasted) == _digests(original) and pasted._gradient.digest == original._gradient.digest


def test_the_gradient_is_shown() -> None:
    x = rg.ones(2, requires_grad=True)
    want = """\
def swish_grad(g, x, beta: float):
    # gradient of swish, derived; what it calls is in retrograd.formulas
    t1 = sigmoid(beta * x)
    return g * t1 + g * x * t1 * (1.0 - t1) * beta
"""
    assert rg.backward_source(swish(x)) == rg.backward_source(swish) == want


# ---------------------------------------------------------------- refusals

REFUSED = {
    "if x > 0:\n        return x\n    return -x": r"written.*py, line 3: if x > 0:: if, while.* rg\.where",
    "return max(x, 0.0)": r"line 3: return max.*rg\.where",
    "for v in x:\n        pass\n    return x": r"line 3: for v in x:: .*no loop over an operand",
    "return x[0]": "no index",
    "return rg.sum(x)": r"line 3.*sum is not a function of single elements.*exp.*sigmoid",
    "return x.sum()": r"\.sum is not defined for one element",
    "return np.exp(x)": r"np\.exp is a function of arrays",
    "return np.where(x > 0, x, 0.0)": r"np\.where is a function of arrays",
    "return math.exp(x)": "functions of math take one number",
    "return exp(x)": "name 'exp' is not defined; from retrograd.formulas import exp",
    "return unknown(x)": "line 3: return unknown.x.: NameError: name 'unknown' is not defined",
    "return x % 2": "line 3: return x % 2: TypeError: unsupported operand",
    "return x ** 2.5": r"\*\* 2\.5: powers of operands",
    "return x ** x": "powers of operands",
    "return 3 ** x": r"3 \*\* x: the only base",
    "return x > 0": "returns a condition; return numbers",
    "return x, x": "returns tuple, expected one value",
    "pass": "returns nothing, expected one value",
    "return rg.where(x, 1.0, 2.0)": "where needs a condition",
    "return rg.where((x > 0) & x, 1.0, 2.0)": "combine conditions; put comparisons into parentheses",
    "return x * TENSOR": "a Tensor is not a constant|needs a Tensor or a number",
    "return TENSOR * x": "needs a Tensor or a number",
    "return x * np.ones(2)": "np.multiply|a ndarray is not a constant",
    "return x * 'a'": "a str is not a constant",
    "return x * 10**400": "larger than any floating-point number",
    "return f(x)": "NameError",
    "for i in range(2000):\n        x = rg.sin(x) + i\n    return x": "more than 1000 operations",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused_with_line_and_reason(body: str, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=REFUSED[body]):
        _written(tmp_path, f"@rg.formula\ndef f(x):\n    {body}\n")


PARAMETERS = {
    "": "0 operands",
    "x, y, z": "3 operands and 0 numbers; a formula has one or two operands",
    "x, a: float, b: float, c: float, d: float": "4 numbers",
    "*x": r"\**x is any number",
    "exp": "the parameter exp hides the function",
    "x, n: int": "numbers are annotated as float",
    "x, p: float, y": "operand y follows a number",
    "x, y=1.0": "y has a default or is keyword-only; annotate numbers as float",
}


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_refused_parameters(parameters: str, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=PARAMETERS[parameters]):
        _written(tmp_path, f"@rg.formula\ndef f({parameters}):\n    return 1.0\n")


def test_refused_when_made(tmp_path: Any) -> None:
    with pytest.raises(TypeError, match="formula: expected a function, got int"):
        rg.formula(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="write it with def"):
        rg.formula(lambda x: x)
    scope: dict[str, Any] = {}
    exec(compile("def typed(x):\n    return x", "<typed>", "exec"), scope)  # Python 3.13 keeps the text of "<string>"
    with pytest.raises(ValueError, match="formula typed: <typed>, line 1: its source cannot be found.*save it"):
        rg.formula(scope["typed"])
    with pytest.raises(ValueError, match="recurses without end"):
        _written(tmp_path, "def f(x):\n    return f(x)\n\nrg.formula(f)\n")
    with pytest.raises(ValueError, match="number for all elements, not one of each"):
        _written(
            tmp_path,
            "@rg.formula\ndef f(x, p: float):\n    return x * p\n\n@rg.formula\ndef h(x):\n    return f(x, x)\n",
        )


def test_refused_gradients(tmp_path: Any) -> None:
    head = "@rg.formula\ndef f(x):\n    return x * 2.0\n\n@rg.formula\ndef h(x, y):\n    return x * y\n\n"
    for text, match in (
        ("@f.gradient\ndef grad(g):\n    return g\n", "gradient of f has the parameters g, x, got 1"),
        ("@f.gradient\ndef grad(g, x):\n    return rg.sum(g)\n", "formula grad:.*line 11.*sum is not a function"),
        ("@h.gradient\ndef grad(g, x, y):\n    return g\n", "must return a tuple of 2 gradients, of x and y"),
    ):
        with pytest.raises(ValueError, match=match):
            _written(tmp_path, head + text)
    with pytest.raises(TypeError, match=r"swish\.gradient: expected a function, got float"):
        swish.gradient(1.0)


def test_a_refused_gradient_leaves_the_one_before(tmp_path: Any) -> None:
    scope = _written(tmp_path, "@rg.formula\ndef f(x):\n    return x * 2.0\n\ndef bad(g, x):\n    return rg.sum(g)\n")
    with pytest.raises(ValueError, match="sum"):
        scope["f"].gradient(scope["bad"])
    x = rg.ones(2, requires_grad=True)
    scope["f"](x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_no_gradient_known(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a primitive of which the table has none."""
    monkeypatch.delitem(FORMULAS, "tanh_grad")
    f = _written(tmp_path, "@rg.formula\ndef f(x):\n    return rg.tanh(x)\n")["f"]
    x = rg.zeros(2, requires_grad=True)
    assert f(x).tolist() == [0.0, 0.0] and "_grad" not in f.source
    with pytest.raises(ValueError, match="no gradient of tanh is known; declare that of the formula with @f.gradient"):
        f(x).sum().backward()


def test_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(swish)) is swish and copy.deepcopy(swish) is swish
    assert repr(swish) == "<formula swish(x, beta: 'float' = 1.0)>" and swish.__name__ == "swish"


def test_refused_operands() -> None:
    with pytest.raises(TypeError, match="swish: x is int64, needs float32 or float64; convert it with x.float"):
        swish(rg.ones(2, dtype=rg.int64))
    with pytest.raises(TypeError, match="swish: x is list, needs a Tensor"):
        swish([1.0])
    with pytest.raises(TypeError, match="scaled: y is float, needs a Tensor"):
        scaled(rg.ones(2), 3.0, 1.0)
    with pytest.raises(TypeError, match="swish: beta is str, needs a number"):
        swish(rg.ones(2), "1")
    with pytest.raises(TypeError, match="scaled: missing a required argument: 'p'"):
        scaled(rg.ones(2), rg.ones(2))
    with pytest.raises(TypeError, match="stepped: too many positional arguments"):
        stepped(rg.ones(2), rg.ones(2))
