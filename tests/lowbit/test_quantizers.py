"""Each quantizer against its definition in NumPy: values, and the declared gradients."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd
from retrograd import Tensor, lowbit
from retrograd.nn import Parameter

Arrays = dict[str, np.ndarray]
Oracle = Callable[..., tuple[np.ndarray, Arrays]]  # (upstream g, x) -> value, gradients

AXES = (1, 2)  # of a filter


def awkward(dtype: Any = np.float64, seed: int = 0) -> np.ndarray:
    """Return (4, 3, 5): multiples of 1/8 around the limits of all quantizers, both zeros, and a filter of zeros."""
    x = np.random.default_rng(seed).integers(-20, 21, (4, 3, 5)) / 8.0
    x.reshape(-1)[:11] = [0.0, -0.0, 1.0, -1.0, 1.125, -1.125, 0.5, -0.5, 0.25, 2.0, -2.0]
    x[3] = 0.0
    return x.astype(dtype)


def upstream(x: np.ndarray, seed: int = 9) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(x.shape).astype(x.dtype)


def sign(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0, -1.0, 1.0)


def clipped(x: np.ndarray) -> np.ndarray:
    return ((x >= -1) & (x <= 1)).astype(float)


def mean_size(w: np.ndarray) -> np.ndarray:
    return np.array([[[sum(abs(v) for v in f.reshape(-1)) / f.size]] for f in w])


def round_even(x: np.ndarray) -> np.ndarray:
    return np.array([float(round(v)) for v in x.reshape(-1).tolist()]).reshape(x.shape)


def nearest_power(value: float, low: int, high: int) -> float:
    exponent = low if value == 0 else min(max(round(math.log2(abs(value))), low), high)
    return math.copysign(2.0**exponent, -1 if value < 0 else 1)


def each(function: Callable[[float], float], x: np.ndarray) -> np.ndarray:
    return np.array([function(v) for v in x.reshape(-1).tolist()]).reshape(x.shape)


# ------------------------------------------------------------------------------------------------------- activations


def swish(x: np.ndarray, beta: float) -> np.ndarray:
    z = beta * x
    return beta * (2 - z * np.tanh(z / 2)) / (1 + np.cosh(z))


def fixed(integer: int, fraction: int) -> Oracle:
    low, high = -(2.0 ** (integer - 1)), 2.0 ** (integer - 1) - 2.0**-fraction

    def oracle(g: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, Arrays]:
        exact = each(lambda v: math.floor(v * 2**fraction) / 2**fraction, x)
        inside = (exact >= low) & (exact <= high)
        return exact.clip(low, high), {"x": np.where(inside, g, 0)}

    return oracle


def pact(g: np.ndarray, x: np.ndarray, bits: int, alpha: float) -> tuple[np.ndarray, Arrays]:
    n = 2**bits - 1
    value = round_even(x.clip(0, alpha) * n / alpha) * alpha / n
    return value, {"x": np.where((x >= 0) & (x < alpha), g, 0), "alpha": np.array(g[x >= alpha].sum())}


def lsq(g: np.ndarray, x: np.ndarray, low: int, high: int, step: float, count: int) -> tuple[np.ndarray, Arrays]:
    v = x / step
    inside = (v > low) & (v < high)
    slope = np.where(inside, round_even(v) - v, np.where(v <= low, low, high))
    value = round_even(v).clip(low, high) * step
    return value, {"x": np.where(inside, g, 0), "step": np.array((g * slope).sum() / math.sqrt(count * high))}


def int8_activation(g: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, Arrays]:
    low, high = min(0.0, x.min()), max(0.0, x.max())
    scale = (high - low) / 255
    zero = round(-low / scale)
    code = round_even(x / scale) + zero
    return (code.clip(0, 255) - zero) * scale, {"x": np.where((code >= 0) & (code <= 255), g, 0)}


ACTIVATIONS: dict[str, tuple[lowbit.Quantizer, Oracle]] = {
    "clipped": (lowbit.Sign(), lambda g, x: (sign(x), {"x": g * clipped(x)})),
    "identity": (lowbit.Sign("identity"), lambda g, x: (sign(x), {"x": g})),
    "polynomial": (lowbit.Sign("polynomial"), lambda g, x: (sign(x), {"x": g * np.maximum(2 - 2 * abs(x), 0)})),
    "swish": (lowbit.Sign("swish"), lambda g, x: (sign(x), {"x": g * swish(x, 5.0)})),
    "swish 2": (lowbit.Sign("swish", beta=2.0), lambda g, x: (sign(x), {"x": g * swish(x, 2.0)})),
    "XNOR": (lowbit.XNOR(), lambda g, x: (sign(x), {"x": g * clipped(x)})),
    "BiReal": (lowbit.BiReal(), lambda g, x: (sign(x), {"x": g * np.maximum(2 - 2 * abs(x), 0)})),
    "Fixed": (lowbit.Fixed(2, 2), fixed(2, 2)),
    "Fixed, integer_bits=1": (lowbit.Fixed(1, 5), fixed(1, 5)),
    "Fixed, wide": (lowbit.Fixed(), fixed(16, 16)),
    "DoReFa": (
        lowbit.DoReFa(3),
        lambda g, x: (round_even(x.clip(0, 1) * 7) / 7, {"x": np.where((x >= 0) & (x <= 1), g, 0)}),
    ),
    "DoReFa 1": (
        lowbit.DoReFa(1),
        lambda g, x: (round_even(x.clip(0, 1)), {"x": np.where((x >= 0) & (x <= 1), g, 0)}),
    ),
    "PACT": (lowbit.PACT(3, alpha=1.125), lambda g, x: pact(g, x, 3, 1.125)),
    "LSQ": (lowbit.LSQ(3), lambda g, x: lsq(g, x, 0, 7, 2 * abs(x).mean() / math.sqrt(7), x[0].size)),
    "LSQ, signed": (
        lowbit.LSQ(3, signed=True),
        lambda g, x: lsq(g, x, -4, 3, 2 * abs(x).mean() / math.sqrt(3), x[0].size),
    ),
    "Int8": (lowbit.Int8(), int8_activation),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", ACTIVATIONS)
def test_activation(case: str, dtype: Any) -> None:
    """Values and gradients on exact zeros and limits, with a random upstream gradient and unusual strides."""
    quantizer, oracle = ACTIVATIONS[case]
    x = awkward(dtype).transpose(0, 2, 1)
    own = quantizer.own_of_activation(x.dtype)
    quantizer.observe(x, own)
    check(lambda leaf: quantizer.activation(leaf, own), x, own, oracle)


# ----------------------------------------------------------------------------------------------------------- weights


def bwn(g: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Arrays]:
    """gw of sum_j g_j alpha sign(w_j): through the sign of each weight, and through alpha to the whole filter."""
    alpha, gw = mean_size(w), np.zeros_like(g)
    for f in range(len(w)):
        through_alpha = (g[f] * sign(w[f])).sum()
        for i in np.ndindex(w[f].shape):
            value = w[f][i]
            straight = g[f][i] * alpha[f, 0, 0] if abs(value) <= 1 else 0.0
            gw[f][i] = straight + np.sign(value) / w[f].size * through_alpha
    return alpha * sign(w), {"x": gw}


def twn(g: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Arrays]:
    value = np.zeros_like(w)
    for f, filter_ in enumerate(w):
        limit = 0.7 * abs(filter_).mean()
        large = abs(filter_) > limit
        if large.any():
            value[f] = abs(filter_)[large].mean() * np.sign(filter_) * large
    return value, {"x": g}


def sum_of_shifts(w: np.ndarray, count: int, low: int) -> np.ndarray:
    total = np.zeros_like(w)
    for _ in range(count):
        rest = w - total
        small = each(lambda v: float(v == 0 or round(math.log2(abs(v) or 1)) < low), rest)
        total = total + np.where(small, 0, each(lambda v: nearest_power(v, low, 0), rest))
    return total


def dorefa(g: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Arrays]:
    largest = abs(np.tanh(w)).max()
    return 2 * round_even((np.tanh(w) / (2 * largest) + 0.5) * 7) / 7 - 1, {"x": g * (1 - np.tanh(w) ** 2) / largest}


def int8_weight(g: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, Arrays]:
    scale = np.abs(w).max((1, 2), keepdims=True) / 127
    scale[scale == 0] = 1
    return round_even(w / scale) * scale, {"x": g}


WEIGHTS: dict[str, tuple[lowbit.Quantizer, Oracle]] = {
    "BinaryConnect": (lowbit.BinaryConnect(), lambda g, w: (sign(w), {"x": g * clipped(w)})),
    "BWN": (lowbit.BWN(), bwn),
    "XNOR": (lowbit.XNOR(), bwn),
    "BiReal": (lowbit.BiReal(), lambda g, w: (mean_size(w) * sign(w), {"x": g * mean_size(w) * clipped(w)})),
    "TWN": (lowbit.TWN(), twn),
    **{
        f"DeepShiftQ, {bits} bits": (
            lowbit.DeepShiftQ(bits=bits),
            lambda g, w, low=1 - 2 ** (bits - 1): (each(lambda v: nearest_power(v, low, 0), w), {"x": g}),
        )
        for bits in (2, 3, 5, 6)
    },
    "DeepShiftQ, positive": (
        lowbit.DeepShiftQ(bits=2, positive_only=True),
        lambda g, w: (each(lambda v: nearest_power(v, 0, 1), w), {"x": g}),
    ),
    "DeepShiftQ, 2 shifts": (lowbit.DeepShiftQ(shifts=2), lambda g, w: (sum_of_shifts(w, 2, -14), {"x": g})),
    "DeepShiftQ, 3 shifts": (lowbit.DeepShiftQ(bits=3, shifts=3), lambda g, w: (sum_of_shifts(w, 3, -2), {"x": g})),
    "DoReFa": (lowbit.DoReFa(3), dorefa),
    "DoReFa 1": (lowbit.DoReFa(1), lambda g, w: (abs(w).mean() * sign(w), {"x": g})),
    "LSQ": (lowbit.LSQ(3), lambda g, w: lsq(g, w, -4, 3, 2 * abs(w).mean() / math.sqrt(3), w.size)),
    "LSQ, unsigned": (
        lowbit.LSQ(2, signed=False),
        lambda g, w: lsq(g, w, 0, 3, 2 * abs(w).mean() / math.sqrt(3), w.size),
    ),
    "Int8": (lowbit.Int8(), int8_weight),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", WEIGHTS)
def test_weight(case: str, dtype: Any) -> None:
    quantizer, oracle = WEIGHTS[case]
    w = awkward(dtype)
    own = quantizer.own_of_weight(w)
    check(lambda leaf: quantizer.weight(leaf, AXES, own, True), w, own, oracle)


def check(quantize: Callable[[Tensor], Tensor], x: np.ndarray, own: dict[str, Tensor], oracle: Oracle) -> None:
    exact = x.dtype == np.float64
    leaf, g, before = Tensor(x.copy(), requires_grad=True), upstream(x), x.copy()
    y = quantize(leaf)
    value, gradients = oracle(g.astype(np.float64), x.astype(np.float64))
    assert y.array.dtype == x.dtype
    compare(y.array, value, exact)
    y.backward(Tensor(g))
    assert leaf.grad is not None
    np.testing.assert_array_equal(leaf.array, before)
    compare(leaf.grad.array, gradients.pop("x"), exact)
    for name, expected in gradients.items():
        compare(own[name].grad.array, expected, exact)  # type: ignore[union-attr]


def compare(found: np.ndarray, expected: np.ndarray, exact: bool) -> None:
    np.testing.assert_allclose(found, expected, *((1e-12, 1e-12) if exact else (2e-5, 2e-6)))


def test_signs_of_zero_and_nan() -> None:
    """sign(0) and sign(-0) are +1, and NaN stays NaN."""
    x = Tensor(np.array([0.0, -0.0, np.nan, np.inf, -np.inf]))
    for y in (
        lowbit.Sign().activation(x, {}),
        lowbit.Sign("swish").activation(x, {}),
        lowbit.BinaryConnect().weight(x, (0,), {}, True),
        lowbit.BinaryConnect(stochastic=True).weight(x, (0,), {}, False),
    ):
        np.testing.assert_array_equal(y.array, [1, 1, np.nan, 1, -1])
    for shift in (lowbit.DeepShiftQ(), lowbit.DeepShiftQ(rounding="stochastic")):
        y = shift.weight(x, (0,), {}, True)
        np.testing.assert_array_equal(y.array, [2.0**-15, 2.0**-15, np.nan, 1, -1])


@pytest.mark.parametrize("shifts", [1, 2])
@pytest.mark.parametrize("freeze_sign", [False, True])
def test_shift_and_sign(shifts: int, freeze_sign: bool) -> None:
    """DeepShift-PS: 2**round(p) times the sign of round(s); the gradient of s is g, that of p g log(2) w."""
    quantizer = lowbit.DeepShiftPS(bits=4, shifts=shifts, freeze_sign=freeze_sign)
    assert quantizer.exponents == (-6, 0)
    rng = np.random.default_rng(3)
    shape = (4, 3) if shifts == 1 else (2, 4, 3)
    own = quantizer.own_of_weight(np.ones((4, 3)))
    shift, sign_ = own["shift"], own["sign"]
    assert isinstance(shift, Parameter) and isinstance(sign_, Parameter)
    assert shift.array.shape == sign_.array.shape == shape
    assert (shift.limits, sign_.limits, sign_.requires_grad) == ((-6.0, 0.0), (-1.0, 1.0), not freeze_sign)
    shift.array[...] = rng.integers(-16, 5, shape) / 2
    sign_.array[...] = rng.integers(-4, 5, shape) / 4
    y = quantizer.weight(None, (), own, True)
    terms = 2.0 ** round_even(shift.array).clip(-6, 0) * np.sign(round_even(sign_.array))
    np.testing.assert_array_equal(y.array, terms if shifts == 1 else terms.sum(0))
    g = rng.standard_normal((4, 3))
    y.backward(Tensor(g))
    np.testing.assert_allclose(shift.grad.array, g * math.log(2) * terms, 1e-14)
    if freeze_sign:
        assert sign_.grad is None
    else:
        np.testing.assert_array_equal(sign_.grad.array, np.broadcast_to(g, shape))


@pytest.mark.parametrize("shifts", [1, 2])
def test_shifts_start_from_the_float_weights(shifts: int) -> None:
    """DeepShift-PS initializes from the float weights the terms that its definition gives; 0 stays 0."""
    w = awkward().clip(-1, 1)
    quantizer = lowbit.DeepShiftPS(bits=4, shifts=shifts)
    own = quantizer.own_of_weight(w)
    np.testing.assert_array_equal(quantizer.weight(None, (), own, True).array, sum_of_shifts(w, shifts, -6))


def test_stochastic_rounding() -> None:
    """Each neighbor is drawn in proportion to its nearness; manual_seed repeats the draws; eval mode does not draw."""
    w = Tensor(np.repeat([0.3, -0.75, 1.5, -2.0, 0.0], 4000).reshape(5, 4000), requires_grad=True)
    quantizer = lowbit.BinaryConnect(stochastic=True)
    retrograd.manual_seed(5)
    first = quantizer.weight(w, (1,), {}, True)
    np.testing.assert_allclose(first.array.mean(1), [0.3, -0.75, 1, -1, 0], atol=0.05)
    assert set(np.unique(first.array)) == {-1.0, 1.0}
    g = upstream(w.array)
    first.backward(Tensor(g))
    np.testing.assert_array_equal(w.grad.array, g * clipped(w.array))  # type: ignore[union-attr]
    retrograd.manual_seed(5)
    np.testing.assert_array_equal(quantizer.weight(w, (1,), {}, True).array, first.array)
    assert not np.array_equal(quantizer.weight(w, (1,), {}, True).array, first.array)
    np.testing.assert_array_equal(quantizer.weight(w, (1,), {}, False).array, sign(w.array))

    shift = lowbit.DeepShiftQ(rounding="stochastic")
    w = Tensor(np.repeat([0.25, 2**-1.25, -(2**-2.5), 0.0, 1e-30], 4000).reshape(5, 4000), requires_grad=True)
    y = shift.weight(w, (1,), {}, True)
    exponents = np.log2(abs(y.array)).mean(1)
    np.testing.assert_allclose(exponents, [-2, -1.25, -2.5, -15, -15], atol=0.05)
    assert set(np.unique(y.array[1])) == {0.25, 0.5} and set(np.unique(y.array[2])) == {-0.25, -0.125}
    np.testing.assert_array_equal(y.array[[0, 3]], np.repeat([[0.25], [2.0**-15]], 4000, 1))  # powers stay, 0 is no NaN
    np.testing.assert_array_equal(shift.weight(w, (1,), {}, False).array[2, 0], -0.25 if round(-2.5) == -2 else -0.125)

    own = (parts := lowbit.DeepShiftPS(rounding="stochastic")).own_of_weight(np.full((2, 4000), 2**-1.25))
    own["sign"].array[1] = 0.25
    y = parts.weight(None, (), own, True)
    np.testing.assert_allclose(np.log2(y.array[0]).mean(), -1.25, atol=0.05)
    np.testing.assert_allclose((y.array[1] != 0).mean(), 0.25, atol=0.05)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lowbit.Sign("hard"), r"^Sign: gradient='hard' must be one of 'identity', 'clipped', 'poly"),
        (lambda: lowbit.Sign("swish", beta=0), r"^Sign: beta=0 must be a number above 0"),
        (lambda: lowbit.Sign(beta=2.0), r"^Sign: beta=2.0 belongs to gradient=\"swish\", got gradient='clipped'"),
        (lambda: lowbit.BinaryConnect("yes"), r"^BinaryConnect: stochastic='yes' must be True or False"),
        (lambda: lowbit.DeepShiftQ(bits=7), r"^DeepShiftQ: bits=7 must be an int from 2 to 6"),
        (lambda: lowbit.DeepShiftQ(bits=5.0), r"^DeepShiftQ: bits=5.0 must be an int from 2 to 6"),
        (lambda: lowbit.DeepShiftQ(shifts=0), r"^DeepShiftQ: shifts=0 must be an int from 1 to 4"),
        (lambda: lowbit.DeepShiftQ(positive_only=1), r"^DeepShiftQ: positive_only=1 must be True or False"),
        (lambda: lowbit.DeepShiftPS(rounding="determinstic"), r"^DeepShiftPS: rounding='determinstic' must be one of"),
        (lambda: lowbit.DeepShiftPS(freeze_sign=None), r"^DeepShiftPS: freeze_sign=None must be True or False"),
        (lambda: lowbit.Fixed(0, 4), r"^Fixed: integer_bits=0 must be an int from 1 to 32"),
        (lambda: lowbit.Fixed(4, -1), r"^Fixed: fraction_bits=-1 must be an int from 0 to 31"),
        (lambda: lowbit.Fixed(20, 20), r"^Fixed: integer_bits=20 and fraction_bits=20 are more than 32 bits together"),
        (lambda: lowbit.DoReFa(0), r"^DoReFa: bits=0 must be an int from 1 to 16"),
        (lambda: lowbit.DoReFa(True), r"^DoReFa: bits=True must be an int from 1 to 16"),
        (lambda: lowbit.PACT(4, alpha=0.0), r"^PACT: alpha=0.0 must be a number above 0"),
        (lambda: lowbit.PACT(17), r"^PACT: bits=17 must be an int from 1 to 16"),
        (lambda: lowbit.LSQ(1), r"^LSQ: bits=1 must be an int from 2 to 16"),
        (lambda: lowbit.LSQ(4, signed="no"), r"^LSQ: signed='no' must be True or False"),
    ],
)
def test_options_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_quantizer_is_a_value() -> None:
    """Frozen, comparable, hashable, printed as it is made, and copied with its options."""
    one = lowbit.DeepShiftPS(bits=4, freeze_sign=True)
    assert repr(one) == "DeepShiftPS(bits=4, freeze_sign=True)" and repr(lowbit.DeepShiftQ()) == "DeepShiftQ(bits=5)"
    assert repr(lowbit.Sign("swish", 2.0)) == "Sign(gradient='swish', beta=2.0)" and repr(lowbit.XNOR()) == "XNOR()"
    assert one == lowbit.DeepShiftPS(bits=4, freeze_sign=True) != lowbit.DeepShiftPS(bits=4)
    assert len({one, copy.deepcopy(one), pickle.loads(pickle.dumps(one))}) == 1
    with pytest.raises(AttributeError, match="cannot assign to field 'bits'"):
        one.bits = 3  # type: ignore[misc]
