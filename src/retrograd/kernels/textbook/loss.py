"""Losses of elements, or their sum, and their gradients; the formulas run on the arrays."""

from __future__ import annotations

import numpy as np

from ...formulas.losses import LOSSES
from .ieee import ieee

__all__ = ["element_loss", "element_loss_grad"]


@ieee
def element_loss(
    name: str, operands: tuple[np.ndarray, ...], numbers: tuple[float, ...], factor: float | None
) -> np.ndarray:
    """The loss ``name`` of each element, or their sum times ``factor``, 0-d, if that is not None.

    operands: two or three arrays of one shape; numbers: the formula's other parameters.
    """
    y = LOSSES[name].term(*operands, *numbers)
    return np.asarray(y if factor is None else y.sum() * factor, operands[0].dtype, like=operands[0])


@ieee
def element_loss_grad(
    name: str,
    of: int,
    g: np.ndarray,
    operands: tuple[np.ndarray, ...],
    numbers: tuple[float, ...],
    factor: float | None,
) -> np.ndarray:
    """The gradient of the loss ``name`` to its operand ``of``.

    Not for one that is ``minus_first``: it is -1 times the gradient to the first operand.

    g has the shape of the operands if ``factor`` is None; else it is 0-d and multiplied by ``factor``.
    """
    each = g if factor is None else g * factor
    return np.asarray(LOSSES[name].gradients[of](each, *operands, *numbers), operands[0].dtype, like=operands[0])
