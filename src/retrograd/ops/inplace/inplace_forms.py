"""Activations that change their input: PyTorch's functions whose name ends in ``_``."""

from __future__ import annotations

from ...engine.tensor import Tensor
from ..pointwise.activation import celu, elu, selu
from ..pointwise.rectifier import hardtanh, leaky_relu, rrelu, threshold

__all__ = ["celu_", "elu_", "hardtanh_", "leaky_relu_", "rrelu_", "selu_", "threshold_"]


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``celu`` in place.

    Raises: as ``celu``.
    """
    return celu(input, alpha, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``elu`` in place.

    Raises: as ``elu``.
    """
    return elu(input, alpha, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``hardtanh`` in place.

    Raises: as ``hardtanh``.
    """
    return hardtanh(input, min_val, max_val, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``leaky_relu`` in place.

    Raises: as ``leaky_relu``.
    """
    return leaky_relu(input, negative_slope, True)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """``rrelu`` in place.

    Raises: as ``rrelu``.
    """
    return rrelu(input, lower, upper, training, True)


def selu_(input: Tensor) -> Tensor:
    """``selu`` in place.

    Raises: as ``selu``.
    """
    return selu(input, True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """``threshold`` in place: ``value`` where input is not above ``threshold``.

    Raises: as ``threshold``.
    """
    return _threshold(input, threshold, value, True)


_threshold = threshold  # threshold_ has a parameter of that name
