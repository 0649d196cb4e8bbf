"""Trainer: a plain training loop that can be stopped at any moment and goes on as if nothing had happened."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from ..data.loader import DataLoader
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..nn.functional import cross_entropy
from ..ops.kernel_set import compile_ahead, use_kernels
from ..ops.random import get_rng_state, set_rng_state
from ..optim import Adam
from .checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from .faults import TrainingError, bad_parameter, check_dataset, first_not_finite
from .interrupt import Stopped, StopRequest
from .progress import Progress
from .task import Settings, Task

__all__ = ["CHECKPOINT", "Trainer"]

CHECKPOINT = "checkpoint.npz"
_HELD_OUT_BATCH = 512


class Trainer:
    """Trains ``task.model`` with Adam and cross entropy as ``settings`` say.

    output: the folder that gets ``checkpoint.npz``.
    checkpoint_every: steps between checkpoints; None writes one after every epoch. There is always one before the first
        step and one after the last.

    ``run()`` trains until the last epoch is done, ``load_checkpoint()`` before it takes up a run that was stopped or
    killed: the weights it ends with are bit for bit those of a run that was not. ``history`` has one dict per epoch.

    Raises:
        ValueError: checkpoint_every is not positive.
    """

    def __init__(
        self,
        task: Task,
        settings: Settings,
        output: str | Path,
        checkpoint_every: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        if checkpoint_every is not None and checkpoint_every < 1:
            raise ValueError(f"checkpoint-every={checkpoint_every} must be at least 1")
        self.task, self.settings, self.output = task, settings, Path(output)
        self.checkpoint_every = checkpoint_every
        self.progress = progress or Progress()
        self.model = task.model
        self.optimizer = Adam(self.model.parameters(), lr=settings.lr)
        self.loader = DataLoader(task.train, settings.batch_size, shuffle=True)
        self.epoch = 0  # finished ones
        self.steps = 0
        self.seconds = 0.0  # spent on training steps, over all processes
        self.sums = {"loss": 0.0, "correct": 0, "images": 0, "seconds": 0.0}  # of the epoch under way
        self.history: list[dict[str, Any]] = []

    # ---- the loop ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Train from where the trainer stands to the last epoch, writing checkpoints on the way.

        Raises:
            TrainingError: bad data, or a loss that is NaN or infinite; says where. No checkpoint holds such numbers.
            CheckpointError: a checkpoint could not be written; the earlier one is unchanged.
            Stopped: on Ctrl-C or SIGTERM, after the step under way and with a checkpoint.
        """
        classes = len(self.task.classes)
        check_dataset("training data", self.task.train, classes)
        check_dataset("held-out data", self.task.held_out, classes)
        images = len(self.task.train)
        done = self.epoch * images + self.sums["images"]
        with use_kernels(self.settings.kernels):  # there is nothing to save yet: Ctrl-C ends it at once
            compile_ahead(self.task.kernels)
        try:
            # numbers that are not finite end in an error of our own, not in NumPy's warnings
            with StopRequest() as stop, use_kernels(self.settings.kernels), np.errstate(all="ignore"):
                if not self.steps:
                    self.save_checkpoint()
                self.progress.start(self.settings.epochs, images, int(done))
                while self.epoch < self.settings.epochs:
                    for batch, labels in self.loader:
                        self._train_on(batch, labels)
                        if stop.number is not None:
                            self._stop(stop.number)
                        if self.checkpoint_every and self.steps % self.checkpoint_every == 0:
                            self.save_checkpoint()
                    self._end_epoch()
                    self.save_checkpoint()
                    if stop.number is not None and self.epoch < self.settings.epochs:
                        self._stop(stop.number)
        finally:
            self.progress.close()

    def _train_on(self, batch: Tensor, labels: Tensor) -> None:
        start = perf_counter()
        self.steps += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self._learning_rate()
        if self.task.augment is not None:
            batch = Tensor(self.task.augment(batch.data))
        self.model.train()
        scores = self.model(batch)
        loss = cross_entropy(scores, labels)
        value = loss.item()
        if not math.isfinite(value):
            self._fail(f"the loss is {value}", batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        sums, count = self.sums, len(labels)
        sums["loss"] += value * count
        sums["correct"] += int((scores.data.argmax(1) == labels.data).sum())
        sums["images"] += count
        sums["seconds"] += perf_counter() - start
        self.progress.step(
            self.epoch + 1, count, sums["loss"] / sums["images"], sums["correct"] / sums["images"]
        )

    def _learning_rate(self) -> float:
        """Half a cosine from lr to 0, by the number of the step alone."""
        done = (self.steps - 1) / (self.settings.epochs * len(self.loader))
        return self.settings.lr * 0.5 * (1 + math.cos(math.pi * done))

    def _end_epoch(self) -> None:
        sums = self.sums
        held_out_loss, held_out_accuracy = self.evaluate()
        self.epoch += 1
        self.seconds += sums["seconds"]
        record = {
            "epoch": self.epoch,
            "step": self.steps,
            "loss": sums["loss"] / sums["images"],
            "accuracy": sums["correct"] / sums["images"],
            "held_out_loss": held_out_loss,
            "held_out_accuracy": held_out_accuracy,
            "lr": self._learning_rate(),
            "seconds": sums["seconds"],
        }
        self.history.append(record)
        self.sums = dict.fromkeys(sums, 0)
        self.progress.epoch(record)

    def _stop(self, number: int) -> None:
        self.save_checkpoint()
        raise Stopped(
            f"stopped after step {self.steps} of {self.settings.epochs * len(self.loader)}; "
            f"{self.path} holds everything to go on",
            number,
        )

    def _fail(self, what: str, batch: Tensor) -> None:
        place = f"epoch {self.epoch + 1}, step {self.steps}"
        why = first_not_finite(self.model, batch)
        raise TrainingError(
            f"{what} at {place}: {why}. {self.path} still holds the last checkpoint; "
            f"a smaller lr than {self.settings.lr} may help, or the data is at fault"
        )

    # ---- held-out images -----------------------------------------------------------------------------------------

    def evaluate(self) -> tuple[float, float]:
        """(mean loss, share of right answers) on the held-out images.

        Raises:
            TrainingError: the loss is NaN or infinite.
        """
        scores = self.scores()
        labels = self.task.held_out.tensors[1]
        with no_grad():
            loss = cross_entropy(Tensor(scores), labels).item()
        if not math.isfinite(loss):
            self._fail(f"the held-out loss is {loss}", self.task.held_out.tensors[0])
        return loss, float((scores.argmax(1) == labels.data).mean())

    def scores(self) -> np.ndarray:
        """The network's scores for the held-out images, (N, classes)."""
        self.model.eval()
        with no_grad():
            batches = DataLoader(self.task.held_out, _HELD_OUT_BATCH)
            found = [self.model(batch).data for batch, _ in batches]
        self.model.train()
        return np.concatenate(found)

    # ---- checkpoints ---------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """Where the checkpoint is."""
        return self.output / CHECKPOINT

    @property
    def finished(self) -> bool:
        return self.epoch >= self.settings.epochs

    def save_checkpoint(self) -> None:
        """Replace the checkpoint by where the trainer stands now.

        Raises:
            TrainingError: a parameter holds NaN or infinity; the earlier checkpoint is worth more.
            CheckpointError: it could not be written; the earlier one is unchanged.
        """
        if bad := bad_parameter(self.model):
            raise TrainingError(
                f"after step {self.steps}, {bad}; {self.path} still holds the last checkpoint; "
                f"a smaller lr than {self.settings.lr} may help"
            )
        save_checkpoint(self.path, self.state_dict())

    def load_checkpoint(self) -> None:
        """Stand where the checkpoint says. Everything is checked first: a call that fails has changed nothing.

        Raises:
            CheckpointError: there is none; it is damaged; or it is of another task, other settings or another network.
        """
        state = load_checkpoint(self.path)
        try:
            self.load_state_dict(state)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise CheckpointError(f"{self.path} does not fit this run: {error}") from error

    def state_dict(self) -> dict[str, Any]:
        """Where the trainer stands; arrays are shared with the model and the optimiser."""
        return {
            "task": self.task.name,
            "settings": self.settings.as_dict(),
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
        """Stand where ``state`` says; if it does not fit, everything stays as it was.

        Raises:
            ValueError, TypeError, KeyError, RuntimeError: a part is missing or does not fit; says which.
        """
        missing = self.state_dict().keys() - state.keys()
        if missing:
            raise ValueError(f"it lacks {', '.join(sorted(missing))}")
        for name, own in (("task", self.task.name), ("settings", self.settings.as_dict())):
            if state[name] != own:
                raise ValueError(f"its {name} is {state[name]!r}, this run's is {own!r}")
        before = self.state_dict()
        before["model"] = {name: tensor.data.copy() for name, tensor in before["model"].items()}
        try:
            self._take_over(state)
        except Exception:
            self._take_over(before)
            raise

    def _take_over(self, state: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state["loader"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.model.load_state_dict(state["model"])
        set_rng_state(state["random"])
        self.epoch, self.steps, self.seconds = int(state["epoch"]), int(state["steps"]), float(state["seconds"])
        self.sums, self.history = dict(state["sums"]), list(state["history"])
