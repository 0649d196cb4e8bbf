from __future__ import annotations

import numpy as np

import retrograd
from conformance.table import Layer, Op, Refusal, distinct, normal, uniform
from retrograd import nn

X, Y = normal(3, 5), normal(3, 5, seed=1)
FAR = uniform(0.5, 2.0, 3, 5)  # from 0
LARGE = (normal(40, 1000), normal(40, 1000, seed=1))

OPERATORS = [
    Op("add", retrograd.add, X, Y, oracle=np.add, linear=True, batch=(0, 1), broadcast=(0, 1), integers=True),
    Op("sub", retrograd.sub, X, Y, oracle=np.subtract, linear=True, batch=(0, 1), broadcast=(0, 1), integers=True),
    Op("mul", retrograd.mul, X, Y, oracle=np.multiply, batch=(0, 1), broadcast=(0, 1), integers=True, large=LARGE),
    Op("div", retrograd.div, X, FAR, oracle=np.divide, batch=(0, 1), broadcast=(0, 1), integers=True),
    Op("neg", retrograd.neg, X, oracle=np.negative, linear=True, integers=True),
    Op("exp", retrograd.exp, X, oracle=np.exp),
    Op("log", retrograd.log, FAR, oracle=np.log),
    Op("sqrt", retrograd.sqrt, FAR, oracle=np.sqrt),
    Op("tanh", retrograd.tanh, X, oracle=np.tanh, large=LARGE[:1]),
    Op("relu", retrograd.relu, distinct(3, 5), oracle=lambda x: np.maximum(x, 0), large=LARGE[:1]),
    Op("sigmoid", retrograd.sigmoid, X, oracle=lambda x: 1 / (1 + np.exp(-x))),
    Op(
        "pow",
        retrograd.pow,
        FAR,
        1.7,
        oracle=np.power,
        errors=[Refusal(TypeError, "exponent is str, needs a number", X, "2")],
    ),
]

LAYERS = [
    Layer("ReLU", nn.ReLU, distinct(3, 5), oracle=lambda x: np.maximum(x, 0)),
    Layer("Sigmoid", nn.Sigmoid, X, oracle=lambda x: 1 / (1 + np.exp(-x))),
    Layer("Tanh", nn.Tanh, X, oracle=np.tanh),
    Layer("Linear", lambda: nn.Linear(5, 2), X, oracle=lambda x, w, b: x @ w.T + b),
    Layer("Dropout", lambda: nn.Dropout(0.4), X, random=True),
]
