"""Cases of pointwise operators: powers, rounding, extrema, exponentials, trigonometry, comparisons."""

from __future__ import annotations

import math

import numpy as np

import retrograd
from conformance.table import Op, Refusal, distinct, normal, uniform
from retrograd.engine.operator import OPERATORS as ALL
from retrograd.kernels import textbook

X, Y = normal(3, 5), normal(3, 5, seed=1)
FAR, OTHER = uniform(0.5, 2.0, 3, 5), uniform(0.5, 2.0, 3, 5, seed=1)  # from 0
UNIT = uniform(-0.9, 0.9, 3, 5)
APART, KINKS = distinct(3, 5), distinct(3, 5, seed=1) + 0.02  # from each other, from integers and halves
MASK = normal(3, 5, seed=2) > 0
WHOLE = np.array([[-7, 7, 3], [-3, 2, 5]]), np.array([[2, -2, 3], [2, 5, -4]])
TRUTH = MASK, normal(3, 5, seed=3) > 0
LARGE, LARGE_UNIT = (normal(40, 1000), normal(40, 1000, seed=1)), (uniform(-0.9, 0.9, 40, 1000),)
LARGE_FAR = (uniform(0.5, 2.0, 40, 1000), uniform(0.5, 2.0, 40, 1000, seed=1))


def unary(name, x, oracle, large=LARGE[:1], numbers=(), **options):
    function = getattr(retrograd, name, None) or getattr(retrograd.nn.functional, name)
    return Op(name, function, x, *numbers, oracle=oracle, large=(*large, *numbers), **options)


def binary(name, x, y, oracle, large=LARGE, **options):
    options = {"batch": (0, 1), "broadcast": (0, 1), "integers": True, **options}
    return Op(name, getattr(retrograd, name), x, y, oracle=oracle, large=large, **options)


def each(function):
    return lambda x: np.array([function(v) for v in x.ravel()]).reshape(x.shape)


def logit(x):
    return np.log(x / (1 - x))


# of operators that are one row in ops; another row has the textbook's result in float64 as its oracle
ORACLES = {
    "sqrt": lambda x: x**0.5,
    "rsqrt": lambda x: x**-0.5,
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "exp2": lambda x: 2.0**x,
    "expm1": lambda x: np.exp(x) - 1,
    "log": np.log,
    "log2": lambda x: np.log(x) / math.log(2),
    "log10": lambda x: np.log(x) / math.log(10),
    "log1p": lambda x: np.log(1 + x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": each(math.erf),
    "erfc": each(math.erfc),
    "sin": lambda x: np.exp(1j * x).imag,
    "cos": lambda x: np.exp(1j * x).real,
    "tan": lambda x: np.sin(x) / np.cos(x),
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": lambda x: (np.exp(x) - np.exp(-x)) / 2,
    "cosh": lambda x: (np.exp(x) + np.exp(-x)) / 2,
    "tanh": lambda x: 1 - 2 / (np.exp(2 * x) + 1),
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "copysign": lambda x, y: abs(x) * np.sign(y),
    "hypot": lambda x, y: (x * x + y * y) ** 0.5,
    "logaddexp": lambda x, y: np.log(np.exp(x) + np.exp(y)),
    "logaddexp2": lambda x, y: np.log2(2.0**x + 2.0**y),
    "sinc": np.sinc,
    "xlogy": lambda x, y: x * np.log(y),
    "atan2": np.arctan2,
}


ROWS = {each.name: each for each in ALL if each.domains}


def of_row(name):
    """The case of an operator that is one row, with operands from the domains that stand there."""
    row = ROWS[name]
    draws = [
        tuple(uniform(*domain, *shape, seed=seed) for seed, domain in enumerate(row.domains))
        for shape in ((3, 5), (40, 1000))
    ]
    oracle = ORACLES.get(name, getattr(textbook, name))
    if len(row.domains) == 1:
        return unary(name, *draws[0], oracle, draws[1], (*row.numbers.values(),))
    return binary(name, *draws[0], oracle, draws[1])


OPERATORS = [
    # powers and roots
    unary("square", X, lambda x: x * x, integers=True),
    Op(
        "pow",
        retrograd.pow,
        FAR,
        1.7,
        oracle=np.power,
        large=(LARGE_FAR[0], 1.7),
        errors=[
            Refusal(TypeError, "pow: exponent is str, needs a Tensor or a number", X, "2"),
            Refusal(ValueError, "pow: an integer has no negative integer power", WHOLE[0], -1),
            Refusal(TypeError, "pow: input and exponent are bool", MASK, MASK),
        ],
        integers=True,
    ),
    Op(
        "pow: tensors",
        retrograd.pow,
        FAR,
        OTHER,
        oracle=np.power,
        large=LARGE_FAR,
        batch=(0, 1),
        broadcast=(0, 1),
        integers=True,
    ),
    Op("pow: of a number", lambda y: retrograd.pow(2.5, y), X, oracle=lambda y: 2.5**y, large=LARGE[:1], integers=True),
    Op("pow: square", retrograd.pow, X, 2, oracle=np.power, integers=True),
    Op("pow: cube", retrograd.pow, X, 3, oracle=np.power, integers=True),
    # arithmetic of three, and other names
    Op(
        "lerp",
        retrograd.lerp,
        X,
        Y,
        UNIT,
        oracle=lambda x, y, w: x + w * (y - x),
        batch=(0, 1, 2),
        large=(*LARGE, *LARGE_UNIT),
    ),
    Op(
        "lerp: number",
        retrograd.lerp,
        X,
        Y,
        0.3,
        oracle=lambda x, y, w: x + w * (y - x),
        batch=(0, 1),
        linear=True,
        errors=[
            Refusal(TypeError, "lerp: input is float64, weight is int64", X, Y, WHOLE[0]),
            Refusal(ValueError, "lerp: shapes (3, 5) and (5, 3) do not broadcast", X, Y.T, 0.5),
        ],
    ),
    Op(
        "addcmul",
        retrograd.addcmul,
        X,
        Y,
        UNIT,
        kwargs={"value": 0.7},
        oracle=lambda x, y, z, value: x + value * y * z,
        batch=(0, 1, 2),
        large=(*LARGE, *LARGE_UNIT),
    ),
    Op("addcmul: broadcast", retrograd.addcmul, X, Y[0], UNIT[:, :1], oracle=lambda x, y, z: x + y * z, batch=()),
    Op(
        "addcdiv",
        retrograd.addcdiv,
        X,
        Y,
        FAR,
        kwargs={"value": 0.7},
        oracle=lambda x, y, z, value: x + value * y / z,
        batch=(0, 1, 2),
        errors=[Refusal(TypeError, "addcdiv: tensor1 is int64, tensor2 is int64; one must be", X[:2, :3], *WHOLE)],
    ),
    Op(
        "add: alpha",
        retrograd.add,
        X,
        Y,
        kwargs={"alpha": 3},
        oracle=lambda x, y, alpha: x + alpha * y,
        linear=True,
        integers=True,
        batch=(0, 1),
    ),
    Op(
        "sub: alpha",
        retrograd.sub,
        X,
        Y,
        kwargs={"alpha": 3},
        oracle=lambda x, y, alpha: x - alpha * y,
        linear=True,
        integers=True,
        batch=(0, 1),
    ),
    Op(
        "div: floor",
        retrograd.div,
        KINKS * 10,
        FAR,
        kwargs={"rounding_mode": "floor"},
        integers=True,
        order=1,
        batch=(0, 1),
        oracle=lambda x, y, rounding_mode: np.floor(x / y),
        errors=[
            Refusal(ValueError, "div: rounding_mode='up'; choose None, 'trunc' or 'floor'", X, X, rounding_mode="up")
        ],
    ),
    Op(
        "div: trunc",
        retrograd.div,
        KINKS * 10,
        FAR,
        kwargs={"rounding_mode": "trunc"},
        integers=True,
        order=1,
        batch=(0, 1),
        oracle=lambda x, y, rounding_mode: np.trunc(x / y),
    ),
    binary("subtract", X, Y, np.subtract, linear=True),
    binary("multiply", X, Y, np.multiply),
    binary("divide", X, FAR, np.divide, None),
    binary("true_divide", X, FAR, np.divide, None),
    unary("negative", X, np.negative, linear=True, integers=True),
    unary(
        "positive",
        X,
        np.positive,
        linear=True,
        integers=True,
        errors=[Refusal(TypeError, "positive: input is bool, needs a Tensor of numbers", MASK)],
    ),
    # rounding and remainders
    unary("abs", APART, lambda x: np.where(x < 0, -x, x), integers=True),
    unary("absolute", APART, np.abs, integers=True),
    unary("sign", APART, np.sign, integers=True),
    unary("sgn", APART, np.sign, integers=True),
    unary("ceil", KINKS, np.ceil, integers=True),
    unary("floor", KINKS, np.floor, integers=True),
    unary("trunc", KINKS, np.trunc, integers=True),
    unary("fix", KINKS, np.trunc, integers=True),
    unary("round", KINKS, np.rint, integers=True),
    Op(
        "round: decimals",
        retrograd.round,
        KINKS * 1.013,
        kwargs={"decimals": 1},
        oracle=lambda x, decimals: np.rint(x * 10) / 10,
    ),
    Op(
        "round: tens",
        retrograd.round,
        KINKS * 113,
        kwargs={"decimals": -1},
        oracle=lambda x, decimals: np.rint(x / 10) * 10,
    ),
    unary("frac", KINKS, lambda x: x - np.trunc(x)),
    binary(
        "fmod",
        KINKS * 10,
        FAR,
        np.fmod,
        LARGE_FAR,
        errors=[
            Refusal(ZeroDivisionError, "fmod: other contains 0", WHOLE[0], 0 * WHOLE[0]),
            Refusal(TypeError, "fmod: input and other are bool", MASK, MASK),
        ],
    ),
    binary(
        "remainder",
        KINKS * 10,
        FAR,
        lambda x, y: x - np.floor(x / y) * y,
        LARGE_FAR,
        errors=[Refusal(ZeroDivisionError, "remainder: other contains 0", WHOLE[0], 0 * WHOLE[0])],
    ),
    binary(
        "floor_divide",
        KINKS * 10,
        FAR,
        lambda x, y: np.floor(x / y),
        LARGE_FAR,
        errors=[Refusal(ZeroDivisionError, "floor_divide: other contains 0", WHOLE[0], 0 * WHOLE[0])],
    ),
    # choice and limits
    unary("relu", APART, lambda x: np.where(x > 0, x, 0)),
    binary("maximum", APART, distinct(3, 5, seed=4) + 0.03, lambda x, y: np.where(x > y, x, y)),
    binary("minimum", APART, distinct(3, 5, seed=4) + 0.03, lambda x, y: np.where(x < y, x, y)),
    binary("fmax", APART, distinct(3, 5, seed=4) + 0.03, lambda x, y: np.where(x > y, x, y)),
    binary("fmin", APART, distinct(3, 5, seed=4) + 0.03, lambda x, y: np.where(x < y, x, y)),
    Op(
        "clamp",
        retrograd.clamp,
        APART,
        -0.32,
        0.33,
        oracle=np.clip,
        integers=True,
        large=(LARGE[0], -1.0, 0.7),
        errors=[
            Refusal(ValueError, "clamp: min and max are both missing", X),
            Refusal(TypeError, "clamp: min is str, needs a number or a Tensor", X, "a"),
            Refusal(TypeError, "clamp: input and limits are bool, needs numbers", MASK, True),
            Refusal(TypeError, "clamp: input and limits are bool, needs numbers", MASK, MASK, MASK),
            Refusal(ValueError, "clamp: shapes (3, 5) and (4,) do not broadcast", X, np.ones(4)),
        ],
    ),
    Op(
        "clamp: tensors",
        retrograd.clamp,
        APART,
        UNIT - 0.311,
        UNIT + 0.323,
        batch=(0, 1, 2),
        integers=True,
        oracle=lambda x, a, b: np.minimum(np.maximum(x, a), b),
    ),
    Op(
        "clamp: mixed",
        lambda x, a: retrograd.clamp(x, a, 0.77),
        APART,
        UNIT[0] - 0.313,
        batch=(0,),
        integers=True,
        oracle=lambda x, a: np.minimum(np.maximum(x, a), 0.77),
    ),
    Op("clip", retrograd.clip, APART, kwargs={"max": 0.32}, oracle=lambda x, max: np.minimum(x, max), integers=True),
    Op("clamp_min", retrograd.clamp_min, APART, 0.32, oracle=np.maximum, integers=True),
    Op("clamp_max", retrograd.clamp_max, APART, 0.32, oracle=np.minimum, integers=True),
    Op(
        "where",
        retrograd.where,
        MASK,
        X,
        Y,
        oracle=np.where,
        linear=True,
        batch=(0, 1, 2),
        integers=True,
        large=(LARGE[0] > 0, *LARGE),
        errors=[
            Refusal(TypeError, "where: condition is float64, needs a Tensor of bool", X, X, X),
            Refusal(ValueError, "where: shapes (3, 5) and (4,) do not broadcast", MASK[0, :4], X, X),
        ],
    ),
    Op(
        "where: number",
        lambda m, x: retrograd.where(m, x, -1.5),
        MASK,
        X,
        oracle=lambda m, x: np.where(m, x, -1.5),
        batch=(0, 1),
        integers=True,
    ),
    Op(
        "where: rows",
        lambda m, x, y: retrograd.where(m, x, y),
        MASK[:, :1],
        X[0],
        Y,
        oracle=np.where,
        batch=(0, 2),
        integers=True,
        linear=True,
    ),
    unary("nan_to_num", X, np.nan_to_num, integers=True),
    # exponentials and logarithms
    unary("logit", UNIT / 2 + 0.5, logit, (LARGE_UNIT[0] / 2 + 0.5,)),
    Op(
        "logit: eps",
        retrograd.logit,
        UNIT + 0.5,
        0.2,
        oracle=lambda x, eps: logit(np.clip(x, eps, 1 - eps)),
        large=(LARGE_UNIT[0], 0.2),
    ),
    # angles
    unary("arcsin", UNIT, np.arcsin, LARGE_UNIT),
    unary("arccos", UNIT, np.arccos, LARGE_UNIT),
    unary("arctan", X, np.arctan),
    unary("arcsinh", X, np.arcsinh),
    unary("arccosh", FAR + 1, np.arccosh, (LARGE_FAR[0] + 1,)),
    unary("arctanh", UNIT, np.arctanh, LARGE_UNIT),
    binary("arctan2", X, FAR, np.arctan2),
    # true or false
    *[
        Op(
            name,
            getattr(retrograd, name),
            X,
            np.where(MASK, X, Y),
            oracle=oracle,
            order=0,
            batch=(0, 1),
            broadcast=(0, 1),
            integers=True,
            large=LARGE,
        )
        for name, oracle in {
            "eq": np.equal,
            "ne": np.not_equal,
            "lt": np.less,
            "le": np.less_equal,
            "gt": np.greater,
            "ge": np.greater_equal,
            "logical_and": np.logical_and,
            "logical_or": np.logical_or,
            "logical_xor": np.logical_xor,
            "isclose": np.isclose,
        }.items()
    ],
    *[
        Op(name, getattr(retrograd, name), X, oracle=getattr(np, name), order=0, integers=True, large=LARGE[:1])
        for name in ("isnan", "isinf", "isfinite", "logical_not")
    ],
    *[
        Op(
            f"{name}: {kind}" if kind else name,
            getattr(retrograd, name),
            *operands,
            oracle=getattr(np, name),
            batch=(0, 1),
            errors=[Refusal(TypeError, f"{name}: input and other promote to float64, needs int64 or bool", X, X)],
        )
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor")
        for kind, operands in (("", WHOLE), ("bool", TRUTH))
    ],
    Op(
        "bitwise_not",
        retrograd.bitwise_not,
        WHOLE[0],
        oracle=np.invert,
        errors=[Refusal(TypeError, "bitwise_not: input is float64, needs a Tensor of int64 or bool", X)],
    ),
]
OPERATORS += [of_row(name) for name in ROWS if name not in {entry.name for entry in OPERATORS}]
