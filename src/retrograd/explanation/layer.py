"""The record of one layer of a model in a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..nn.module import Module

__all__ = ["Layer"]


@dataclass
class Layer:
    """The record of one layer in a run: its arrays, and the problems found in them.

    path: its name in the model; kind: its class; calls: how often it ran, of which the last is kept
    weight_norms: the norm of the gradient of each of its own parameters
    dead: the share of its channels or features that are 0 for the whole batch
    not_finite: how many entries of result and gradients are NaN or infinite
    states: those that a recurrent layer began with, "h0" and "c0", (1, N, H) each
    end: the suffix of the weights' names of a recurrent layer, "_l0_reverse" for example
    why_not: why it cannot be taken apart, if that was seen in the run
    operator, operands, options: what it computed, where that does not follow from the module
    order: when it ran, counted down
    """

    path: str
    kind: str
    module: Module
    x: np.ndarray
    y: np.ndarray
    calls: int = 1
    gy: np.ndarray | None = None
    weight_norms: dict[str, float] = field(default_factory=dict)
    dead: float = 0.0
    not_finite: int = 0
    states: dict[str, np.ndarray] = field(default_factory=dict)
    end: str = ""
    why_not: str = ""
    operator: str = ""
    operands: dict[str, np.ndarray] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    order: float = 0.0

    def add(self, g: np.ndarray) -> None:
        """A gradient of the result."""
        self.gy = g.copy() if self.gy is None else self.gy + g

    def as_read(self, array: np.ndarray) -> np.ndarray:
        """x, y or gy in the order of the explanation: that of a recurrent layer goes step by step, (T, N, ...)."""
        if not self.end:
            return array
        steps = array[:, np.newaxis] if array.ndim == 2 else array
        if array.ndim == 3 and getattr(self.module, "batch_first", False):
            steps = steps.swapaxes(0, 1)
        return steps[::-1] if self.end.endswith("_reverse") else steps

    def as_given(self, steps: np.ndarray) -> np.ndarray:
        """An array that goes step by step in the order of the layer's own x and y."""
        if not self.end:
            return steps
        steps = steps[::-1] if self.end.endswith("_reverse") else steps
        if self.x.ndim == 2:
            return steps[:, 0]
        return steps.swapaxes(0, 1) if getattr(self.module, "batch_first", False) else steps

    def entry_of_y(self, flat: int) -> int:
        """The entry of the layer's own y that an entry of the explanation's is."""
        own = np.arange(self.y.size).reshape(self.y.shape)
        return int(self.as_read(own).ravel()[flat]) if self.end else flat

    def entry_of_x(self, flat: int) -> int:
        """The entry of the explanation's x that an entry of the layer's own is."""
        own = self.as_read(np.arange(self.x.size).reshape(self.x.shape))
        return int(np.flatnonzero(own.ravel() == flat)[0]) if self.end else flat

    def owns(self, parameter: str) -> bool:
        """Whether a parameter of its module belongs to it."""
        return not self.operator and (not self.end or parameter.endswith(self.end))
