"""Learning rate schedulers.

A scheduler sets ``group["lr"]`` in the groups of its optimiser: when it is created, and with every ``step()``, called
after the ``optimizer.step()`` of an epoch (or of a batch). Its ``last_epoch`` is the number of steps so far, t below;
base is the group's rate before any scheduler, stored as ``group["initial_lr"]``.

As in PyTorch, most of them start from the current rate (the "chainable form"), so several schedulers, or you, may
change the rates of one optimiser; if nothing else does, the result is the closed form. Differences: ``get_lr``
may be called at any time, and a ``step()`` before the first ``optimizer.step()`` does not warn.
"""

from __future__ import annotations

from ._anneal import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from ._compose import ChainedScheduler, SequentialLR
from ._cycle import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from ._plateau import ReduceLROnPlateau
from ._scheduler import LRScheduler

_LRScheduler = LRScheduler  # the name that older scripts import

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
