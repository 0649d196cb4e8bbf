"""The network that the estimators train if they are given none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import nn
from ..._files.state import count

__all__ = ["perceptron"]


def perceptron(n_features: int, n_outputs: int, hidden: int | Sequence[int] = 100) -> nn.Sequential:
    """Rows (N, n_features) -> scores (N, n_outputs), through hidden layers with ReLU.

    hidden: the width of the hidden layer, or the widths of several; () is a linear model.

    Raises:
        ValueError: a width is not a positive int.
    """
    every = hidden if isinstance(hidden, (Sequence, np.ndarray)) else [hidden]
    widths = [n_features, *(count(1)("perceptron: hidden", width) for width in every)]
    layers: list[nn.Module] = []
    for inside, out in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(inside, out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], n_outputs))
