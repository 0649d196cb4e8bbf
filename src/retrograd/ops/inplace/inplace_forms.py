"""Activations that change their input: PyTorch's functions whose name ends in ``_``."""

from __future__ import annotations

from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor
from ..pointwise.activation import celu, elu, selu
from ..pointwise.rectifier import hardtanh, leaky_relu, rrelu, threshold

__all__ = ["celu_", "elu_", "hardtanh_", "leaky_relu_", "rrelu_", "selu_", "threshold_"]


@operator(dtypes="bif")
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``celu`` in place.

    Raises: as ``celu``.
    """
    if interpreters and (seen := interpreted(celu_, locals())) is not None:
        return seen
    return celu(input, alpha, True)


@operator(dtypes="bif")
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``elu`` in place.

    Raises: as ``elu``.
    """
    if interpreters and (seen := interpreted(elu_, locals())) is not None:
        return seen
    return elu(input, alpha, True)


@operator(dtypes="bif")
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``hardtanh`` in place.

    Raises: as ``hardtanh``.
    """
    if interpreters and (seen := interpreted(hardtanh_, locals())) is not None:
        return seen
    return hardtanh(input, min_val, max_val, True)


@operator(dtypes="bif")
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``leaky_relu`` in place.

    Raises: as ``leaky_relu``.
    """
    if interpreters and (seen := interpreted(leaky_relu_, locals())) is not None:
        return seen
    return leaky_relu(input, negative_slope, True)


@operator(dtypes="bif")
def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """``rrelu`` in place.

    Raises: as ``rrelu``.
    """
    if interpreters and (seen := interpreted(rrelu_, locals())) is not None:
        return seen
    return rrelu(input, lower, upper, training, True)


@operator(dtypes="bif")
def selu_(input: Tensor) -> Tensor:
    """``selu`` in place.

    Raises: as ``selu``.
    """
    if interpreters and (seen := interpreted(selu_, locals())) is not None:
        return seen
    return selu(input, True)


@operator(dtypes="bif")
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """``threshold`` in place: ``value`` where input is not above ``threshold``.

    Raises: as ``threshold``.
    """
    if interpreters and (seen := interpreted(threshold_, locals())) is not None:
        return seen
    return _threshold(input, threshold, value, True)


_threshold = threshold  # threshold_ has a parameter of that name
