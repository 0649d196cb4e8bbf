"""Trainer: the training loop of a task, which can be interrupted and resumed exactly."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import numpy as np

from .._files.state import Check, brief, check_table, count, items, number, optional, same, table
from ..data.loader import DataLoader
from ..engine.grad_mode import no_grad
from ..kernel_set import begin_compiling, use_kernels
from ..ops.random.random import get_rng_state, set_rng_state
from ..optim import Adam, AdamW
from .callbacks import Callback, CosineSchedule
from .checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from .diagnostics import TrainingError, bad_parameter
from .fit import Fit, History
from .gradients import GradientMonitor, check_gradients
from .lock import RunLock
from .progress import Progress
from .task import Settings, Task

__all__ = ["CHECKPOINT", "StopRequest", "Stopped", "Trainer", "check_state"]


# ---- Stopping after the current step on Ctrl-C or SIGTERM -----------------------------------------------------------


class Stopped(Exception):  # noqa: N818  not an error: the user asked for it
    """Training stopped on request, after a step and with a checkpoint."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code: int = 128 + number  # the shell's convention: 130 after Ctrl-C


class StopRequest:
    """Within the block, the first SIGINT or SIGTERM is stored in ``number``; a second Ctrl-C interrupts immediately."""

    number: int | None = None

    def __enter__(self) -> StopRequest:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # the only thread that may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._record)
        return self

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
        # not print(), because the signal may have interrupted one
        os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for caught, handler in self._before.items():
            signal.signal(caught, handler)


# ---- Checks of a checkpoint: every entry's type and range, and their consistency ------------------------------------


def check_state(trainer: Trainer, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Check that ``trainer`` can resume from ``state``; nothing is changed.

    The model's arrays and the states of random generators are checked where they are loaded.

    identity: the task, data and settings, which must equal those in the state; the settings may have more epochs.

    Raises:
        ValueError: an entry is missing, invalid or inconsistent with others; the message says which.
    """
    missing = trainer.state_dict().keys() - check_table("the state", state).keys() - trainer.task.stored().keys()
    if missing:
        raise ValueError(f"it lacks {', '.join(sorted(missing))}")
    for name, own in identity.items():
        saved = state[name]
        if name == "settings":
            _check_settings(trainer.settings, saved)
            continue
        if name == "options" and isinstance(saved, Mapping) and not same(saved.get("sha256"), own.get("sha256")):
            raise ValueError(
                f"its {trainer.task.samples} differ: they had the SHA-256 {brief(saved.get('sha256'))}; "
                "resume with the same data"
            )
        if not same(saved, own):
            raise ValueError(f"its {name} is {brief(saved)}, this run's is {brief(own)}")
    epoch = count(0, trainer.settings.epochs)("epoch", state["epoch"])
    steps = _check_position(trainer, epoch, state)
    _check_optimizer(trainer, steps, state["optimizer"])
    for key, array in check_table("model", state["model"]).items():
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"model[{brief(key)}] holds NaN or infinity")


def _check_settings(own: Settings, state: Any) -> None:
    try:
        saved = Settings.from_dict(state)
    except ValueError as error:
        raise ValueError(f"its settings is {brief(state)}: {error}") from None
    if saved.epochs > own.epochs or replace(saved, epochs=own.epochs) != own:
        raise ValueError(f"its settings is {brief(saved.as_dict())}, this run's is {brief(own.as_dict())}")


def _check_position(trainer: Trainer, epoch: int, state: Mapping[str, Any]) -> int:
    """Return the number of steps; the loader's position, the sums and the history must be consistent with it."""
    batches, total = len(trainer.loader), len(trainer.task.train)
    position = count(0, batches)("loader['position']", check_table("loader", state["loader"]).get("position"))
    done = epoch * batches + position
    steps = count(done, done)("steps", state["steps"])
    samples = min(position * trainer.settings.batch_size, total)
    classes = hasattr(trainer.task, "classes")
    right = count(0, samples)
    seconds = number(0)("seconds", state["seconds"])
    table(
        {
            "loss": number(),
            "correct": right if classes or not samples else optional(right),
            "samples": count(samples, samples),
            "seconds": number(0),
        }
    )("sums", state["sums"])
    spent = 0.0
    for place, record in enumerate(items(check_table, epoch)("history", state["history"]), 1):
        counts = classes or "accuracy" in record or "held_out_accuracy" in record
        measured: dict[str, Check] = {"gradients": check_gradients} if "gradients" in record else {}
        table({**_record(place, batches, counts), **measured})(f"history[{place - 1}]", record)
        spent += record["seconds"]
    if not math.isclose(spent, seconds, rel_tol=1e-6, abs_tol=1e-6):
        raise ValueError(f"seconds is {seconds}, but the epochs of the history took {spent}")
    return steps


def _record(place: int, batches: int, counts: bool) -> dict[str, Check]:
    """Return checks of an epoch's record in the history; accuracies only if the targets are classes."""
    shares = {"accuracy": number(0, 1), "held_out_accuracy": number(0, 1)}
    return {
        "epoch": count(place, place),
        "step": count(place * batches, place * batches),
        "loss": number(),
        "held_out_loss": number(),
        "lr": number(0),
        "seconds": number(0),
        **(shares if counts else {}),
    }


def _check_optimizer(trainer: Trainer, steps: int, state: Any) -> None:
    """Check that options equal this run's, except the learning rate, and that counters are not ahead.

    The schedule sets the learning rate.
    """
    groups = items(check_table)("optimizer['param_groups']", check_table("optimizer", state).get("param_groups"))
    for place, (group, own) in enumerate(zip(groups, trainer.optimizer.state_dict()["param_groups"], strict=False)):
        for option, value in own.items():
            if option != "lr" and not same(group.get(option), value):
                saved = brief(group.get(option))
                raise ValueError(f"optimizer: {option} of group {place} is {saved}, this run's is {brief(value)}")
    for key, entries in check_table("optimizer['state']", state.get("state")).items():
        name = f"optimizer['state'][{brief(key)}]"
        count(0, steps)(f"{name}['step']", check_table(name, entries).get("step"))


# ---- Trainer --------------------------------------------------------------------------------------------------------

CHECKPOINT = "checkpoint.npz"


class Trainer(Fit):
    """Trains ``task.model`` with Adam, or AdamW if the task has a weight decay, and ``settings``.

    output: the folder for ``checkpoint.npz``.
    checkpoint_every: steps between checkpoints; None writes one after every epoch. There is always one before the first
        step, also when a run is extended, and one after the last.
    lock: the lock of ``output``, if the caller holds it; otherwise ``run`` acquires it.
    workers: the other processes that take part (retrograd.distributed.train_workers.Workers); the first writes the
        files.
    gradients_every: steps from one measurement of the gradients to the next, for the history and the report; None
        measures none. The weights do not depend on it.

    ``run()`` trains to the last epoch. Call ``load_checkpoint()`` first to resume a run that was stopped or killed: the
    final weights are bitwise those of an uninterrupted run. ``settings`` may have more epochs than the checkpoint's:
    then the run trains on, with the learning rates of the longer schedule. ``history`` has one dict per epoch.

    Raises:
        ValueError: checkpoint_every or gradients_every is not positive.
    """

    lock: RunLock | None
    output: Path
    settings: Settings
    task: Task
    epoch: Any
    seconds: Any
    steps: Any
    history: History

    stop_request: StopRequest
    sums: dict[str, Any]

    def __init__(
        self,
        task: Task,
        settings: Settings,
        output: str | Path,
        checkpoint_every: int | None = None,
        progress: Progress | None = None,
        lock: RunLock | None = None,
        gradients_every: int | None = None,
        workers: Any = None,
    ) -> None:
        for name, steps in (("checkpoint-every", checkpoint_every), ("gradients-every", gradients_every)):
            if steps is not None and steps < 1:
                raise ValueError(f"{name}={steps} must be at least 1")
        self.task, self.settings, self.output, self.lock = task, settings, Path(output), lock
        make = DataLoader if workers is None else workers.loader
        super().__init__(
            task.model,
            make(task.train, settings.batch_size, shuffle=task.shuffle),
            AdamW(task.model.parameters(), lr=settings.lr, weight_decay=task.weight_decay)
            if task.weight_decay
            else Adam(task.model.parameters(), lr=settings.lr),
            task.loss,
            DataLoader(task.held_out, task.held_out_batch),
            augment=task.augment,
            callbacks=[CosineSchedule(settings.lr, task.warmup)] if settings.schedule == "cosine" else [],
            progress=progress,
            workers=workers,
        )
        if workers is not None:
            workers.start(self.model, self.optimizer, settings.seed, task.carried, lambda: self.stop_request.number)
        self.monitor: GradientMonitor | None = None if gradients_every is None else GradientMonitor(gradients_every)
        if self.monitor is not None:
            self.callbacks.append(self.monitor)
        self.callbacks.append(_Checkpoints(self, checkpoint_every))  # the last: it writes what the others have recorded
        self.epochs: int = settings.epochs
        self.is_extended = False  # whether it has more epochs than its checkpoint
        self.stop_request = StopRequest()
        self.report_compilation: Any = None

    def run(self, report: bool = False) -> None:
        """Train from the current state to the last epoch, writing checkpoints.

        report: whether a report follows; then the kernels that only it uses are compiled during training.

        Raises:
            TrainingError: bad data, or a loss that is NaN or infinite; the message says where. No checkpoint contains
                such numbers.
            CheckpointError: a checkpoint could not be written (the earlier one is unchanged), or another run uses this
                folder.
            Stopped: on Ctrl-C or SIGTERM, after the current step and with a checkpoint.
        """
        self.task.check()
        own = self.lock is None and self.workers is None  # with workers, the process that started them holds the lock
        with RunLock(self.output) if own else nullcontext(), use_kernels(self.settings.kernels):
            compilation = self.task.compilation or begin_compiling(self.task.kernels)
            if compilation is not None:
                compilation.finish(self.progress.compiling)  # nothing to save yet, so Ctrl-C stops immediately
            if report:
                self.report_compilation = begin_compiling(*self.task.report_kernels)
            try:
                with StopRequest() as self.stop_request:
                    self.train(self.settings.epochs)
            except BaseException:
                if self.report_compilation is not None:
                    self.report_compilation.stop()
                raise

    def remedy(self) -> str:
        return f". {self.path} still holds the last checkpoint; try an lr below {self.settings.lr}, or check the data"

    def scores(self) -> np.ndarray:
        """The network's outputs for the held-out samples, in eval mode, concatenated."""
        self.model.eval()
        with no_grad():
            outputs = [self.model(x).array for x, _ in DataLoader(self.task.held_out, self.task.held_out_batch)]
        self.model.train()
        return np.concatenate(outputs)

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The path of the checkpoint."""
        return self.output / CHECKPOINT

    def next_lr(self) -> float:
        """Return the learning rate of the next step."""
        schedule = next((each for each in self.callbacks if isinstance(each, CosineSchedule)), None)
        return self.settings.lr if schedule is None else schedule.at(self.steps, self.epochs * len(self.loader))

    @property
    def finished(self) -> bool:
        return self.epoch >= self.settings.epochs

    def save_checkpoint(self) -> None:
        """Write the current state to the checkpoint.

        Raises:
            TrainingError: a parameter holds NaN or infinity; the earlier checkpoint is kept.
            CheckpointError: it could not be written; the earlier one is unchanged.
        """
        if bad := bad_parameter(self.model):
            raise TrainingError(
                f"after step {self.steps}, {bad}; {self.path} still holds the last checkpoint; "
                f"try an lr below {self.settings.lr}"
            )
        if self.workers is None:
            save_checkpoint(self.path, self.state_dict())
        else:
            self.workers.write(lambda: save_checkpoint(self.path, self.state_dict()))

    def load_checkpoint(self) -> None:
        """Restore the state of the checkpoint. Everything is checked first: a failed call changes nothing.

        Raises:
            CheckpointError: there is no checkpoint, it is damaged, or its task, settings or network differ.
        """
        state = load_checkpoint(self.path)
        if self.workers is None and "shards" in state:
            raise CheckpointError(f"{self.path} is of a run with --workers; continue it with --workers N, at least 1")
        try:
            self.load_state_dict(state)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{self.path} does not fit this run: {error}") from error
        self.is_extended = state["settings"]["epochs"] < self.settings.epochs

    def _identity(self) -> dict[str, Any]:
        """The task, data and settings, which must be the same when a run resumes; it may have more epochs."""
        shards = {} if self.workers is None else {"shards": self.workers.shards}
        return {"task": self.task.name, "settings": self.settings.as_dict(), **shards, **self.task.identity()}

    def state_dict(self) -> dict[str, Any]:
        """Return the trainer's state; arrays are shared with the model and the optimizer."""
        return {
            **self._identity(),
            **self.task.stored(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "loader": self.loader.state_dict(),
            "random": get_rng_state(),
            "epoch": self.epoch,
            "steps": self.steps,
            "seconds": self.seconds,
            "sums": self.sums,
            "history": self.history,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore ``state``; if it does not fit, nothing is changed.

        Raises:
            ValueError, TypeError, KeyError, RuntimeError: a part is missing or does not fit; the message says which.
        """
        check_state(self, self._identity(), state)
        before = self.state_dict()
        before["model"] = {name: tensor.array.copy() for name, tensor in before["model"].items()}
        try:
            self._restore(state)
        except Exception:
            for group, old in zip(self.optimizer.param_groups, before["optimizer"]["param_groups"], strict=True):
                for name in group.keys() - old.keys():  # entries of the file; load_state_dict keeps a user's own
                    del group[name]
            self._restore(before)
            raise

    def _restore(self, state: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state["loader"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.model.load_state_dict(state["model"])
        set_rng_state(state["random"])
        self.epoch, self.steps, self.seconds = state["epoch"], state["steps"], state["seconds"]
        self.sums, self.history = dict(state["sums"]), History(state["history"])
        if self.workers is not None:
            self.workers.steps = self.steps


class _Checkpoints(Callback):
    """Writes the trainer's checkpoints, and stops it after a step if a signal requests it."""

    def __init__(self, trainer: Trainer, every: int | None) -> None:
        self.trainer, self.every = trainer, every

    def on_start(self, fit: Fit) -> None:
        if not fit.steps or self.trainer.is_extended:
            self.trainer.save_checkpoint()

    def on_step_end(self, fit: Fit, samples: int) -> None:
        self._stop_if_requested()
        if self.every and fit.steps % self.every == 0:
            self.trainer.save_checkpoint()

    def on_epoch_end(self, fit: Fit, record: dict[str, Any]) -> None:
        self.trainer.save_checkpoint()
        if not self.trainer.finished:
            self._stop_if_requested()

    def _stop_if_requested(self) -> None:
        trainer = self.trainer
        number = trainer.stop_request.number if trainer.workers is None else trainer.workers.signal
        if number is not None:
            trainer.save_checkpoint()
            raise Stopped(
                f"stopped after step {trainer.steps} of {trainer.epochs * len(trainer.loader)}; "
                f"{trainer.path} holds everything to resume",
                number,
            )
