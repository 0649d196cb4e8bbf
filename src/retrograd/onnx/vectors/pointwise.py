"""Cases of activations and of operators that compute entry by entry. No entry is at a kink."""

from __future__ import annotations

import numpy as np

from .case import case
from .numbers import Apart, Given, Uniform

_X = Apart((3, 2, 5))
_NEAR_ONE = Uniform((3, 4), -0.75, 0.75)
_POSITIVE = Uniform((3, 4), 0.5, 2.5)
_CONDITION = Given(np.array([[True, False, True, False], [False, False, True, True], [True, True, False, True]]))

_ACTIVATIONS = [
    case("relu", "Relu", _X),
    case("leaky_relu", "LeakyRelu", _X, alpha=0.125),
    case("prelu", "PRelu", Apart((2, 3, 4)), (3, 1)),
    case("prelu_one_slope", "PRelu", _X, (1,)),
    case("elu", "Elu", _X, alpha=1.5),
    case("selu", "Selu", _X, alpha=1.75, gamma=1.125),
    case("gelu", "Gelu", _X),
    case("gelu_tanh", "Gelu", _X, approximate="tanh"),
    case("hard_sigmoid", "HardSigmoid", Uniform((3, 4), -3, 3), alpha=0.3125, beta=0.5),
    case("hard_swish", "HardSwish", Uniform((4, 6), -4, 4)),
    case("mish", "Mish", _X),
    case("sigmoid", "Sigmoid", _X),
    case("tanh", "Tanh", _X),
    case("softplus", "Softplus", _X),
    case("softsign", "Softsign", _X),
    case("swish", "Swish", _X, alpha=1.25, opset=24),
    case("thresholded_relu", "ThresholdedRelu", _X, alpha=0.71875),
    case("shrink", "Shrink", _X, lambd=0.53125, bias=0.25),
]
_FUNCTIONS = [
    case("abs", "Abs", _X),
    case("acos", "Acos", _NEAR_ONE),
    case("acosh", "Acosh", Uniform((3, 4), 1.25, 3.25)),
    case("asin", "Asin", _NEAR_ONE),
    case("asinh", "Asinh", _X),
    case("atan", "Atan", _X),
    case("atanh", "Atanh", _NEAR_ONE),
    case("cos", "Cos", _X),
    case("cosh", "Cosh", _X),
    case("erf", "Erf", _X),
    case("exp", "Exp", _X),
    case("log", "Log", _POSITIVE),
    case("neg", "Neg", _X),
    case("reciprocal", "Reciprocal", _POSITIVE),
    case("sin", "Sin", _X),
    case("sinh", "Sinh", _X),
    case("sqrt", "Sqrt", _POSITIVE),
    case("tan", "Tan", _NEAR_ONE),
]
_OF_SEVERAL = [
    case("add_broadcast", "Add", (2, 3, 4), (3, 1)),
    case("sub_broadcast", "Sub", (3, 1), (2, 1, 4)),
    case("mul_broadcast", "Mul", (2, 3, 4), (4,)),
    case("mul_scalar", "Mul", (2, 3), ()),
    case("div_broadcast", "Div", (2, 3, 4), Uniform((3, 1), 0.5, 2)),
    case("pow", "Pow", _POSITIVE, (4,)),
    case("max_of_three", "Max", Apart((3, 4)), (3, 4), (4,)),
    case("min_of_three", "Min", Apart((3, 4)), (3, 4), (4,)),
    case("sum_of_three", "Sum", (3, 4), (1, 4), (3, 1)),
    case("mean_of_three", "Mean", (3, 4), (4,), (3, 1)),
    case("where_broadcast", "Where", _CONDITION, (3, 4), (4,)),
    case("clip", "Clip", Apart((3, 4)), Given(np.array(-0.8125)), Given(np.array(0.6875))),
]
CASES = [*_ACTIVATIONS, *_FUNCTIONS, *_OF_SEVERAL]
