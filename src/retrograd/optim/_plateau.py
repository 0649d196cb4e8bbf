"""A scheduler that reacts to a metric that stops improving."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite
from typing import Any

from .._files.state import Check, choice, count, items, number, optional
from ._scheduler import LRScheduler, per_group, require_count, require_optimizer
from .optimizer import Optimizer
from .options import as_number, require_number


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
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else as_number(min_lr)
        self.mode, self.factor, self.patience, self.cooldown = mode, factor, patience, cooldown
        self.threshold, self.threshold_mode, self.eps = threshold, threshold_mode, eps
        self.best: float = inf if mode == "min" else -inf
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = self._current()

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs do not count because of a recent reduction."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Record the metric of an epoch, a number or a Tensor of one element, and reduce the rates if due.

        Raises:
            RuntimeError: the number of the optimiser's groups is not that of ``min_lr``.
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
        self.last_epoch = self.last_epoch + 1 if epoch is None else self._named(epoch)
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
        """Everything but the optimiser; ``best`` is None before the first metric."""
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
    """A metric; None or infinity before the first one."""
    return value if value in (None, inf, -inf) else number()(name, value)
