"""Learning rate schedulers.

A scheduler sets ``group["lr"]`` in the groups of its optimizer: when it is created, and with every ``step()``, called
after the ``optimizer.step()`` of an epoch (or of a batch). Its ``last_epoch`` is the number of steps so far, t below;
base is the group's rate before any scheduler, stored as ``group["initial_lr"]``.

As in PyTorch, most of them start from the current rate (the "chainable form"), so several schedulers, or you, may
change the rates of one optimizer; if nothing else does, the result is the closed form. Differences: ``get_lr``
may be called at any time, and a ``step()`` before the first ``optimizer.step()`` does not warn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite
from typing import Any

from .._files.state import Check, anything, brief, choice, count, items, number, optional
from ..ops.signatures import explain_wrong_arguments
from .optimizer import Optimizer
from .options import as_number, require_number
from .scheduler_base import LRScheduler, per_group, require_count, require_optimizer
from .schedules import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    OneCycleLR,
    PolynomialLR,
    StepLR,
)

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


# ---- ReduceLROnPlateau: reacts to a metric that stops improving -----------------------------------------------------


class ReduceLROnPlateau(LRScheduler):
    """lr = max(lr * factor, min_lr) when a metric has not improved for more than ``patience`` epochs.

    mode: "min" (a loss) or "max" (an accuracy). "min" improves below best * (1 - threshold) or, with threshold_mode
        "abs", best - threshold; "max" above best * (1 + threshold) or best + threshold. NaN never improves.
    cooldown: epochs after a reduction that do not count.
    min_lr: a number, or a list of one per group.
    eps: a reduction of at most this is skipped.

    Raises:
        ValueError: factor is not below 1, an option is out of range, or min_lr does not have one number per group.
        TypeError: optimizer is not an Optimizer.
    """

    cooldown: int
    factor: float
    patience: int
    eps: float
    threshold: float
    min_lrs: list[Any]
    last_epoch: int
    cooldown_counter: int
    num_bad_epochs: int

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        name = "ReduceLROnPlateau"
        require_optimizer(name, optimizer)
        factor = require_number(f"{name}: factor", factor, below=1.0)
        if mode not in ("min", "max"):
            raise ValueError(f'{name}: mode={mode!r} is invalid; it must be "min" or "max"')
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f'{name}: threshold_mode={threshold_mode!r} is invalid; it must be "rel" or "abs"')
        patience = require_count(f"{name}: patience", patience, low=0)
        cooldown = require_count(f"{name}: cooldown", cooldown, low=0)
        threshold = require_number(f"{name}: threshold", threshold)
        eps = require_number(f"{name}: eps", eps)
        self.optimizer = optimizer
        self.min_lrs = per_group(f"{name}: min_lr", optimizer, min_lr)
        self.default_min_lr: Any | None = None if isinstance(min_lr, (list, tuple)) else as_number(min_lr)
        self.mode, self.factor, self.patience, self.cooldown = mode, factor, patience, cooldown
        self.threshold, self.threshold_mode, self.eps = threshold, threshold_mode, eps
        self.best: float = inf if mode == "min" else -inf
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = self._current()

    @property
    def in_cooldown(self) -> bool:
        """True while epochs do not count because of a recent reduction."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Record the metric of an epoch, a number or a Tensor of one element, and reduce the rates if due.

        Raises:
            RuntimeError: the number of the optimizer's groups is not that of ``min_lr``.
            ValueError: epoch, which PyTorch has deprecated, is not an integer of at least 0.
        """
        current = float(metrics.item() if hasattr(metrics, "item") else metrics)
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: min_lr holds {len(self.min_lrs)} numbers, but the optimizer now has "
                    f"{len(groups)} parameter groups; set scheduler.min_lrs"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        self.last_epoch = self.last_epoch + 1 if epoch is None else self._deprecated_epoch(epoch)
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(groups, self.min_lrs, strict=True):
                rate = max(group["lr"] * self.factor, least)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._current()

    def _is_better(self, value: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "abs":
            return sign * value > sign * self.best + self.threshold
        return sign * value > sign * self.best * (1 + sign * self.threshold)

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer; ``best`` is None before the first metric."""
        state = super().state_dict()
        return {**state, "best": self.best if isfinite(self.best) else None}

    def _entries(self) -> dict[str, Check]:
        return {
            **super()._entries(),
            "mode": choice("min", "max"),
            "threshold_mode": choice("rel", "abs"),
            "factor": number(0, 1),
            "threshold": number(0),
            "eps": number(0),
            "patience": count(),
            "cooldown": count(),
            "cooldown_counter": count(),
            "num_bad_epochs": count(),
            "min_lrs": items(number()),
            "default_min_lr": optional(number()),
            "best": _best,
        }

    def _checked(self, state_dict: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        # PyTorch also saves the initial value of ``best``
        state = super()._checked({key: value for key, value in state_dict.items() if key != "mode_worse"}, own)
        if state["best"] is None:
            state["best"] = inf if state["mode"] == "min" else -inf
        return state


def _best(name: str, value: Any) -> float | None:
    """Return a metric; None or infinity before the first one."""
    return value if value in (None, inf, -inf) else number()(name, value)


# ---- Several schedulers on one optimizer: in sequence, or all in every step -----------------------------------------


class _Composed(LRScheduler):
    _schedulers: list[LRScheduler]

    def _check(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if not isinstance(schedulers, (list, tuple)) or not schedulers:
            raise ValueError(f"{name}: schedulers={schedulers!r} must be a list of at least one scheduler")
        for position, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                got = type(scheduler).__name__
                raise TypeError(f"{name}: schedulers[{position}] must be an LRScheduler, got {got}")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name}: schedulers[{position}] is ReduceLROnPlateau, whose step needs a metric; step it alone"
                )
            if scheduler.optimizer is not (optimizer or schedulers[0].optimizer):
                raise ValueError(f"{name}: schedulers[{position}] belongs to another optimizer; use one for all")

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "_schedulers": items(anything)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state = self._checked(state_dict, super().state_dict())
        saved = state.pop("_schedulers")
        if len(saved) != len(self._schedulers):
            raise ValueError(
                f"{type(self).__name__} state_dict: it has {len(saved)} schedulers, expected {len(self._schedulers)}"
            )
        before = [scheduler.state_dict() for scheduler in self._schedulers]
        try:
            for scheduler, part in zip(self._schedulers, saved, strict=True):
                scheduler.load_state_dict(part)
        except Exception:
            for scheduler, part in zip(self._schedulers, before, strict=True):
                scheduler.load_state_dict(part)
            raise
        self._load(state)


class SequentialLR(_Composed):
    """Schedulers in sequence: the next one takes over at each milestone and counts from 0 there.

    schedulers: of the same optimizer; milestones: one fewer than schedulers, increasing.

    Raises:
        ValueError: schedulers is empty, one belongs to another optimizer or is ReduceLROnPlateau, or milestones are too
            few, too many, or not increasing.
        TypeError: one of schedulers is not a scheduler, or optimizer is not an Optimizer.
    """

    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        require_optimizer("SequentialLR", optimizer)
        self._check(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(milestones)} milestones for {len(schedulers)} schedulers; "
                "there must be one fewer, where the next one takes over"
            )
        milestones = [require_count("SequentialLR: milestone", milestone) for milestone in milestones]
        if sorted(set(milestones)) != milestones:
            raise ValueError(f"SequentialLR: milestones={milestones} must increase")
        self._schedulers, self._milestones = list(schedulers), milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # each scheduler set the rates of its first epoch in __init__: restart with the first one
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in _leaves(self):
            scheduler.last_epoch -= 1
        self._schedulers[0]._begin()
        self._last_lr = self._schedulers[0].get_last_lr()

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "_milestones": self._increasing}

    def _increasing(self, name: str, value: Any) -> list[int]:
        milestones = items(count(1), len(self._schedulers) - 1)(name, value)
        if sorted(set(milestones)) != milestones:
            raise ValueError(f"{name} is {brief(milestones)}; its numbers must increase")
        return milestones

    def step(self) -> None:  # type: ignore[override]
        """Set the rates of the next epoch with the active scheduler."""
        self.last_epoch += 1
        active = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[active]
        if active > 0 and self._milestones[active - 1] == self.last_epoch:
            scheduler._restart()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _leaves(scheduler: LRScheduler) -> Iterator[LRScheduler]:
    if isinstance(scheduler, _Composed):
        for part in scheduler._schedulers:
            yield from _leaves(part)
    else:
        yield scheduler


class ChainedScheduler(_Composed):
    """Applies several schedulers in every step: each changes the rates left by the previous one.

    optimizer: that of all schedulers; None means the first one's.

    Raises:
        ValueError: schedulers is empty, or one belongs to another optimizer or is ReduceLROnPlateau.
        TypeError: one of schedulers is not a scheduler.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._check(optimizer, schedulers)
        self._schedulers = list(schedulers)
        self.optimizer: Optimizer = optimizer or schedulers[0].optimizer
        self._last_lr = self._current()

    def step(self) -> None:  # type: ignore[override]
        """Step all of them."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()


# ---- Deprecated alias -----------------------------------------------------------------------------------------------

_LRScheduler = LRScheduler  # the name that older scripts import


explain_wrong_arguments(globals()[name] for name in __all__)
