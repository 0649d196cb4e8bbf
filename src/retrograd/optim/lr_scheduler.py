"""Learning rates that change during training.

A scheduler stands on an optimiser and sets ``group["lr"]`` of its groups: first when it is made, then with every
``step()``, which follows the ``optimizer.step()`` of an epoch (or of a batch, as you count). Its ``last_epoch`` is the
number of steps so far, t below; base is the group's rate before any scheduler, kept as ``group["initial_lr"]``.

As in PyTorch most of them go on from the rate that is there (the "chainable form"), so that several of them, or you,
may act on one optimiser; the closed form is what comes out if nobody else does. Differences: ``step`` takes no epoch
(but for CosineAnnealingWarmRestarts), ``get_lr`` may be called at any time, and a ``step()`` before the first
``optimizer.step()`` does not warn.
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
