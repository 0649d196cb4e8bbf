"""Callbacks: objects that fit() and the trainer call between steps."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files.state import Check, brief, check_table, count, number, optional, table
from .checkpoint import save_checkpoint

if TYPE_CHECKING:
    from ..engine.tensor import Tensor
    from .fit import Fit

__all__ = ["BestWeights", "Callback", "CosineSchedule", "EarlyStopping", "LRScheduler", "ModelCheckpoint"]

Record = dict[str, Any]


class Callback:
    """Base class of callbacks: override the methods you need.

    ``fit`` is the running training: its model, optimizer, epoch, steps, history, and ``fit.stop(why)``, which ends it.
    """

    def on_start(self, fit: Fit) -> None:
        """Called when training starts or resumes."""

    def on_step_start(self, fit: Fit) -> None:
        """Called before a step; ``fit.steps`` already counts it."""

    def on_loss(self, fit: Fit, loss: Tensor) -> None:
        """Called before the backward of a step."""

    def on_gradients(self, fit: Fit) -> None:
        """Called when the gradients of a step are complete, before the optimizer uses them."""

    def on_step_end(self, fit: Fit, samples: int) -> None:
        """Called after a step on this many samples."""

    def on_epoch_end(self, fit: Fit, record: Record) -> None:
        """Called after an epoch; its record is the last of ``fit.history``."""

    def on_end(self, fit: Fit) -> None:
        """Called when training is done or was stopped by ``fit.stop``."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from with ``load_state_dict``; it must be storable in a checkpoint."""
        return {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state.

        Raises:
            ValueError: state_dict is invalid; nothing is changed.
        """


class CosineSchedule(Callback):
    """A schedule in which the learning rate rises linearly to ``lr``, then falls to 0 along half a cosine.

    It depends only on the step.

    lr: the highest learning rate.
    warmup: the fraction of all steps in which the learning rate rises; 0 starts at lr.

    Raises:
        ValueError: lr is not positive, or warmup is not from 0 to less than 1.

    Source: I. Loshchilov, F. Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017.
    """

    lr: float
    warmup: float

    def __init__(self, lr: float, warmup: float = 0.0) -> None:
        if not 0 < lr < math.inf or not 0 <= warmup < 1:
            raise ValueError(
                f"CosineSchedule: lr={lr!r} must be greater than 0, warmup={warmup!r} from 0 to less than 1"
            )
        self.lr, self.warmup = lr, warmup

    def on_step_start(self, fit: Fit) -> None:
        for group in fit.optimizer.param_groups:
            group["lr"] = self.at(fit.steps - 1, fit.epochs * len(fit.loader))

    def at(self, done: int, total: int) -> float:
        """Return the learning rate after ``done`` of ``total`` steps."""
        rising = self.warmup * total
        if done < rising:
            return self.lr * (done + 1) / (rising + 1)
        return self.lr * 0.5 * (1 + math.cos(math.pi * (done - rising) / (total - rising)))


class LRScheduler(Callback):
    """Calls ``step()`` of a learning rate scheduler after each epoch or step.

    scheduler: an object with ``step()``.
    every: "epoch" or "step".
    monitor: name of the record's entry to pass to ``step``, as ReduceLROnPlateau needs; None passes nothing.

    Raises:
        ValueError: every is not one of these, or monitor is set with every="step", which has no record.
    """

    monitor: str | None
    scheduler: Any

    def __init__(self, scheduler: Any, every: str = "epoch", monitor: str | None = None) -> None:
        if every not in ("epoch", "step"):
            raise ValueError(f"LRScheduler: every={every!r} must be 'epoch' or 'step'")
        if every == "step" and monitor is not None:
            raise ValueError("LRScheduler: monitor needs every='epoch'; a step has no record")
        self.scheduler, self.every, self.monitor = scheduler, every, monitor

    def on_step_end(self, fit: Fit, samples: int) -> None:
        if self.every == "step":
            self.scheduler.step()

    def on_epoch_end(self, fit: Fit, record: Record) -> None:
        if self.every == "epoch":
            self.scheduler.step(*([] if self.monitor is None else [_entry(self, record, self.monitor)]))

    def state_dict(self) -> dict[str, Any]:
        return dict(self.scheduler.state_dict()) if hasattr(self.scheduler, "state_dict") else {}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        if hasattr(self.scheduler, "load_state_dict"):
            self.scheduler.load_state_dict(dict(check_table("LRScheduler state_dict", state_dict)))


class _BestTracker(Callback):
    """Tracks the best epoch."""

    monitor: str
    best_epoch: Any

    def __init__(self, monitor: str, mode: str | None) -> None:
        if not isinstance(monitor, str):
            name = type(self).__name__
            raise TypeError(f"{name}: monitor={monitor!r} must be the name of a figure, such as 'held_out_loss'")
        if mode is None:
            mode = "max" if monitor.endswith("accuracy") else "min"
        if mode not in ("min", "max"):
            raise ValueError(f"{type(self).__name__}: mode={mode!r} must be 'min' or 'max'")
        self.monitor, self.mode = monitor, mode
        self.best: float | None = None
        self.best_epoch = 0

    def improved(self, record: Record, by: float = 0.0) -> bool:
        """Return whether this epoch is the best so far, by more than ``by``; if so, record it."""
        value = float(_entry(self, record, self.monitor))
        if self.best is not None and (self.best - value if self.mode == "min" else value - self.best) <= by:
            return False
        self.best, self.best_epoch = value, record["epoch"]
        return True

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch}

    def _entries(self) -> dict[str, Check]:
        """Return the checks of a state's entries."""
        return {"best": optional(number()), "best_epoch": count()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        for name, value in table(self._entries())(f"{type(self).__name__} state_dict", state_dict).items():
            setattr(self, name, value)


class BestWeights(_BestTracker):
    """Restores the weights of the best epoch at the end of training.

    monitor: name of the record's entry to compare: "held_out_loss", "held_out_accuracy", "loss", "accuracy".
    mode: "min" or "max"; None means "max" for an accuracy and "min" for anything else.

    Raises:
        ValueError: mode is neither "min" nor "max".
        KeyError: an epoch's record has no such entry.
    """

    def __init__(self, monitor: str = "held_out_loss", mode: str | None = None) -> None:
        super().__init__(monitor, mode)
        self.weights: dict[str, np.ndarray] = {}

    def on_epoch_end(self, fit: Fit, record: Record) -> None:
        if self.improved(record):
            self.weights = {name: tensor.array.copy() for name, tensor in fit.model.state_dict().items()}

    def on_end(self, fit: Fit) -> None:
        if self.weights:
            fit.model.load_state_dict(self.weights)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "weights": self.weights}

    def _entries(self) -> dict[str, Check]:
        return {**super()._entries(), "weights": _weights}


class EarlyStopping(BestWeights):
    """Stops when a metric has not improved for some epochs.

    monitor, mode: as for BestWeights.
    patience: number of epochs without improvement to allow.
    min_delta: an improvement must be greater than this.
    restore_best: restore the weights of the best epoch at the end.

    Raises:
        ValueError: patience or min_delta is negative, or mode is neither "min" nor "max".
        KeyError: an epoch's record has no such entry.
    """

    min_delta: float
    patience: int
    restore_best: bool

    def __init__(
        self,
        monitor: str = "held_out_loss",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: str | None = None,
        restore_best: bool = True,
    ) -> None:
        super().__init__(monitor, mode)
        if patience < 0 or min_delta < 0:
            raise ValueError(f"EarlyStopping: patience={patience!r} and min_delta={min_delta!r} must be at least 0")
        self.patience, self.min_delta, self.restore_best = patience, min_delta, bool(restore_best)

    def improved(self, record: Record, by: float = 0.0) -> bool:
        return super().improved(record, self.min_delta)

    def on_epoch_end(self, fit: Fit, record: Record) -> None:
        super().on_epoch_end(fit, record)
        if record["epoch"] - self.best_epoch > self.patience:
            fit.stop(f"{self.monitor} was best in epoch {self.best_epoch}, {self.best:.4f}")

    def on_end(self, fit: Fit) -> None:
        if self.restore_best:
            super().on_end(fit)


class ModelCheckpoint(_BestTracker):
    """Writes the model's weights to a file after an epoch; ``load_checkpoint(path)["model"]`` reads them.

    path: the file, replaced atomically.
    monitor, mode: as for BestWeights.
    save_best_only: write only after the best epoch so far, otherwise after each epoch.

    Raises:
        ValueError: mode is neither "min" nor "max".
        KeyError: an epoch's record has no such entry.
        CheckpointError: the file could not be written; an earlier one is unchanged.
    """

    path: Path
    save_best_only: bool

    def __init__(
        self,
        path: str | Path,
        monitor: str = "held_out_loss",
        mode: str | None = None,
        save_best_only: bool = True,
    ) -> None:
        super().__init__(monitor, mode)
        self.path, self.save_best_only = Path(path), bool(save_best_only)

    def on_epoch_end(self, fit: Fit, record: Record) -> None:
        if not self.save_best_only or self.improved(record):
            save_checkpoint(self.path, {"model": fit.model.state_dict(), "record": record})


def _weights(name: str, value: Any) -> dict[str, np.ndarray]:
    arrays = check_table(name, value)
    for key, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name}[{brief(key)}] is {brief(array)}; it must be an array")
    return dict(arrays)


def _entry(callback: Callback, record: Record, name: str) -> Any:
    if name not in record:
        raise KeyError(
            f"{type(callback).__name__}: no {name!r} in an epoch's record; it has {', '.join(record)}"
            + ("; pass held_out data to fit()" if name.startswith("held_out") else "")
        )
    return record[name]
