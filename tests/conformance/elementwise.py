from __future__ import annotations

import numpy as np

import retrograd
from conformance.table import Layer, Op, normal, uniform
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
]

LAYERS = [
    Layer("Linear", lambda: nn.Linear(5, 2), X, oracle=lambda x, w, b: x @ w.T + b),
    Layer("Dropout", lambda: nn.Dropout(0.4), X, random=True),
]
