from __future__ import annotations

import math

import numpy as np

import retrograd
from conformance.table import Layer, Op, Refusal, distinct, normal, uniform
from retrograd import nn
from retrograd.nn import functional

X, APART = normal(3, 6), distinct(3, 6)
WIDE, LARGE = APART * 5, (normal(40, 1000) * 3,)
PICTURE = distinct(2, 3, 2, 2)
SELU = 1.6732632423543772, 1.0507009873554805


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x, beta=1.0, threshold=20.0):
    return np.where(x * beta > threshold, x, np.log(1 + np.exp(x * beta)) / beta)


def phi(x):
    return np.array([(1 + math.erf(v / math.sqrt(2))) / 2 for v in x.ravel()]).reshape(x.shape)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * (np.exp(x) - 1))


def glu(x, dim=-1):
    a, b = np.split(x, 2, dim)
    return a * sigmoid(b)


def softmax(x, dim, dtype=None):
    e = np.exp(x)
    return e / e.sum(dim, keepdims=True)


def gelu_tanh(x, approximate=""):
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def prelu(x, w):
    return np.where(x > 0, x, x * w.reshape(-1, *(1,) * (x.ndim - 2)))


# name -> functional, layer, numbers of both, input, oracle
CASES = {
    "silu": (functional.silu, nn.SiLU, (), X, lambda x: x * sigmoid(x)),
    "mish": (functional.mish, nn.Mish, (), X, lambda x: x * np.tanh(softplus(x))),
    "gelu": (functional.gelu, nn.GELU, (), X, lambda x: x * phi(x)),
    "gelu: tanh": (functional.gelu, nn.GELU, ("tanh",), X, gelu_tanh),
    "softplus": (functional.softplus, nn.Softplus, (), X, softplus),
    "softplus: options": (functional.softplus, nn.Softplus, (2.0, 0.71), APART, softplus),
    "logsigmoid": (functional.logsigmoid, nn.LogSigmoid, (), X, lambda x: np.log(sigmoid(x))),
    "softsign": (functional.softsign, nn.Softsign, (), APART, lambda x: x / (1 + np.abs(x))),
    "tanhshrink": (functional.tanhshrink, nn.Tanhshrink, (), X, lambda x: x - np.tanh(x)),
    "elu": (functional.elu, nn.ELU, (), APART, elu),
    "elu: alpha": (functional.elu, nn.ELU, (0.7,), APART, elu),
    "selu": (functional.selu, nn.SELU, (), APART, lambda x: SELU[1] * elu(x, SELU[0])),
    "celu": (functional.celu, nn.CELU, (), APART, elu),
    "celu: alpha": (functional.celu, nn.CELU, (0.7,), APART, lambda x, a: np.where(x > 0, x, a * (np.exp(x / a) - 1))),
    "glu": (functional.glu, nn.GLU, (), X, glu),
    "glu: dim": (functional.glu, nn.GLU, (1,), X.reshape(3, 2, 3), glu),
    "relu6": (functional.relu6, nn.ReLU6, (), WIDE, lambda x: np.clip(x, 0, 6)),
    "hardtanh": (functional.hardtanh, nn.Hardtanh, (), APART * 1.01, lambda x: np.clip(x, -1, 1)),
    "hardtanh: limits": (functional.hardtanh, nn.Hardtanh, (-0.3, 0.5), APART * 1.01, np.clip),
    "hardsigmoid": (functional.hardsigmoid, nn.Hardsigmoid, (), WIDE, lambda x: np.clip(x + 3, 0, 6) / 6),
    "hardswish": (functional.hardswish, nn.Hardswish, (), WIDE, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    "hardshrink": (functional.hardshrink, nn.Hardshrink, (0.31,), APART, lambda x, v: np.where(np.abs(x) > v, x, 0)),
    "softshrink": (
        functional.softshrink,
        nn.Softshrink,
        (0.31,),
        APART,
        lambda x, v: np.sign(x) * np.maximum(np.abs(x) - v, 0),
    ),
    "threshold": (functional.threshold, nn.Threshold, (0.3, -7.0), APART, lambda x, t, v: np.where(x > t, x, v)),
    "leaky_relu": (functional.leaky_relu, nn.LeakyReLU, (), APART, lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky_relu: slope": (functional.leaky_relu, nn.LeakyReLU, (0.3,), APART, lambda x, s: np.where(x > 0, x, s * x)),
    "softmin": (functional.softmin, nn.Softmin, (1,), X, lambda x, d: softmax(-x, d)),
    "softmax": (functional.softmax, nn.Softmax, (1,), X, softmax),
    "log_softmax": (functional.log_softmax, nn.LogSoftmax, (1,), X, lambda x, d: np.log(softmax(x, d))),
}
ERRORS = {
    "gelu": [Refusal(ValueError, "gelu: approximate='erf'; choose 'none' or 'tanh'", X, "erf")],
    "celu": [Refusal(ValueError, "celu: alpha=0 divides the input", X, 0)],
    "glu": [
        Refusal(ValueError, "glu: dim=0 of input.shape=(3, 6) has an odd extent", X, 0),
        Refusal(IndexError, "glu: dim=2", X, 2),
    ],
    "hardtanh": [Refusal(ValueError, "hardtanh: min_val=2 exceeds max_val=1", X, 2, 1)],
    "softshrink": [Refusal(ValueError, "softshrink: lambd=-1 is negative", X, -1)],
}
SHARED = {"glu": LARGE, "softmin": (normal(40, 30),), "softmax": (normal(40, 30),), "log_softmax": (normal(40, 30),)}


def large(name, x, numbers):
    if name == "glu: dim":
        return (normal(40, 1000).reshape(40, 2, 500), *numbers)
    return (*SHARED.get(name, LARGE), *numbers)


OPERATORS = [
    *[
        Op(name, function, x, *numbers, oracle=oracle, large=large(name, x, numbers), errors=ERRORS.get(name, ()))
        for name, (function, _, numbers, x, oracle) in CASES.items()
    ],
    Op(
        "softmax: of integers",
        lambda x: functional.softmax(x, 1, dtype=float),
        X.astype(np.int64),
        order=0,
        batch=(),
        oracle=lambda x: softmax(x, 1),
        rtol=1e-6,
    ),
    Op(
        "relu: inplace",
        lambda x: functional.relu(retrograd.mul(x, 1.0), inplace=True),
        APART,
        oracle=lambda x: np.maximum(x, 0),
        order=1,
        batch=(),
        integers=True,
    ),
    *[
        Op(
            f"{name}_",
            lambda x, name=name, numbers=numbers: getattr(functional, f"{name}_")(retrograd.mul(x, 1.0), *numbers),
            APART,
            oracle=oracle,
            order=1,
            batch=(),
        )
        for name, numbers, oracle in (
            ("celu", (1.5,), lambda x: np.where(x > 0, x, 1.5 * (np.exp(x / 1.5) - 1))),
            ("elu", (0.5,), lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1))),
            ("hardtanh", (-0.3, 0.4), lambda x: np.clip(x, -0.3, 0.4)),
            ("leaky_relu", (0.2,), lambda x: np.where(x > 0, x, 0.2 * x)),
            ("rrelu", (0.1, 0.3), lambda x: np.where(x > 0, x, 0.2 * x)),
            (
                "selu",
                (),
                lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * (np.exp(x) - 1)),
            ),
            ("threshold", (0.1, -2.0), lambda x: np.where(x > 0.1, x, -2.0)),
        )
    ],
    Op(
        "relu_",
        lambda x: functional.relu_(retrograd.mul(x, 1.0)),
        APART,
        oracle=lambda x: np.maximum(x, 0),
        order=1,
        batch=(),
        integers=True,
    ),
    Op(
        "prelu",
        functional.prelu,
        PICTURE,
        uniform(0.1, 0.5, 3),
        oracle=prelu,
        batch=(0,),
        large=(normal(8, 3, 40, 50), uniform(0.1, 0.5, 3)),
        errors=[
            Refusal(
                ValueError,
                "prelu: weight.shape=(2,), needs (1,) or one number for each of the 3 channels",
                PICTURE,
                np.ones(2),
            )
        ],
    ),
    Op("prelu: one", functional.prelu, X, uniform(0.1, 0.5, 1), oracle=prelu, batch=(0,)),
    Op(
        "rrelu",
        functional.rrelu,
        APART,
        0.1,
        0.3,
        oracle=lambda x, a, b: np.where(x > 0, x, 0.2 * x),
        errors=[Refusal(ValueError, "rrelu: lower=0.5 exceeds upper=0.3", X, 0.5, 0.3)],
    ),
    Op("rrelu: training", functional.rrelu, APART, 0.1, 0.3, True, random=True, layouts=False),
    Op(
        "gumbel_softmax",
        functional.gumbel_softmax,
        X,
        0.7,
        random=True,
        layouts=False,
        errors=[Refusal(ValueError, "gumbel_softmax: tau=0 must be positive", X, 0)],
    ),
]

LAYERS = [
    *[
        Layer(
            layer.__name__ + name[len(name.partition(":")[0]) :],
            lambda layer=layer, numbers=numbers: layer(*numbers),
            x,
            oracle=lambda x, oracle=oracle, numbers=numbers: oracle(x, *numbers),
        )
        for name, (_, layer, numbers, x, oracle) in CASES.items()
    ],
    Layer("ReLU", nn.ReLU, APART, oracle=lambda x: np.maximum(x, 0)),
    Layer("Sigmoid", nn.Sigmoid, X, oracle=sigmoid),
    Layer("Tanh", nn.Tanh, X, oracle=np.tanh),
    Layer("PReLU", lambda: nn.PReLU(3), PICTURE, oracle=prelu),
    Layer("RReLU", nn.RReLU, APART, random=True, layouts=False),
    Layer(
        "Softmax2d",
        nn.Softmax2d,
        PICTURE,
        oracle=lambda x: softmax(x, 1),
        errors=[Refusal(ValueError, "Softmax2d: input.shape=(3, 6), needs (N, C, H, W) or (C, H, W)", X)],
    ),
]
