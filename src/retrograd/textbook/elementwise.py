"""Functions of single numbers, applied to every element.

Two operands are broadcast by NumPy's rules. Where the gradient is simplest in terms of the result, it takes y
and not x. (NumPy makes a scalar of a result without axes: asarray keeps it an array.)
"""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = [
    "add",
    "div",
    "exp",
    "log",
    "mul",
    "neg",
    "power",
    "relu",
    "relu_grad",
    "scale",
    "sigmoid",
    "sigmoid_grad",
    "sqrt",
    "sub",
    "tanh",
    "tanh_grad",
]


@ieee
def add(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y"""
    return np.asarray(x + y)


@ieee
def sub(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x - y"""
    return np.asarray(x - y)


@ieee
def mul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x y"""
    return np.asarray(x * y)


@ieee
def div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y"""
    return np.asarray(x / y)


@ieee
def neg(x: np.ndarray) -> np.ndarray:
    """-x"""
    return np.asarray(-x)


@ieee
def scale(x: np.ndarray, factor: float) -> np.ndarray:
    """factor x"""
    return np.asarray(x * factor, x.dtype)


@ieee
def power(x: np.ndarray, exponent: float) -> np.ndarray:
    """x ** exponent"""
    return np.asarray(x**exponent, x.dtype)


@ieee
def sqrt(x: np.ndarray) -> np.ndarray:
    """The square root of x."""
    return np.asarray(np.sqrt(x))


@ieee
def exp(x: np.ndarray) -> np.ndarray:
    """e ** x"""
    return np.asarray(np.exp(x))


@ieee
def log(x: np.ndarray) -> np.ndarray:
    """The natural logarithm: log(0) = -inf, and NaN below."""
    return np.asarray(np.log(x))


@ieee
def relu(x: np.ndarray) -> np.ndarray:
    """max(x, 0); relu(NaN) = NaN"""
    return np.asarray(np.maximum(x, 0))


@ieee
def relu_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g where y = relu(x) is above 0, else 0"""
    return np.asarray(np.where(y > 0, g, 0), g.dtype)


@ieee
def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), which for negative x is exp(x) / (1 + exp(x))

    Each sign has the form whose exponential is at most 1 and cannot overflow.
    """
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1, e) / (1 + e), x.dtype)


@ieee
def sigmoid_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g y (1 - y), with y = sigmoid(x)"""
    return np.asarray(g * y * (1 - y))


@ieee
def tanh(x: np.ndarray) -> np.ndarray:
    """(exp(x) - exp(-x)) / (exp(x) + exp(-x))"""
    return np.asarray(np.tanh(x))


@ieee
def tanh_grad(g: np.ndarray, y: np.ndarray) -> np.ndarray:
    """gx = g (1 - y^2), with y = tanh(x)"""
    return np.asarray(g * (1 - y * y))
