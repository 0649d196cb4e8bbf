"""fit(): the training loop. The command line's trainer adds a task and checkpoints to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from ..data.dataset import Dataset, IterableDataset, TensorDataset, random_split
from ..data.loader import DataLoader
from ..engine.arguments import as_callable, as_list, as_truth, kind_name
from ..engine.grad_mode import no_grad
from ..engine.tensor import Tensor
from ..nn.functional import cross_entropy
from ..nn.module import Module
from ..ops.signatures import advised
from ..optim import Adam
from ..optim.optimizer import Optimizer
from .callbacks import Callback
from .diagnostics import TrainingError, first_not_finite
from .progress import Progress, make_progress

__all__ = ["Fit", "History", "fit"]

_HELD_OUT_BATCH = 512
_SUMS = {"loss": 0.0, "correct": 0, "samples": 0, "seconds": 0.0}


class History(list[dict[str, Any]]):
    """A list of one record per epoch.

    A record has epoch, step, loss, lr, seconds; accuracy if the targets are classes; held_out_loss and
    held_out_accuracy if there is held-out data; gradients with a GradientMonitor.
    """

    def column(self, name: str) -> list[Any]:
        """Return one entry of all records, by epoch."""
        return [record[name] for record in self]


@advised
def fit(
    model: Module,
    data: Any,
    targets: Any = None,
    *,
    epochs: int = 10,
    batch_size: int = 32,
    loss: Callable[..., Tensor] = cross_entropy,
    optimizer: Optimizer | None = None,
    held_out: Any = None,
    augment: Callable[[np.ndarray], np.ndarray] | None = None,
    callbacks: Iterable[Callback] = (),
    progress: Progress | bool = True,
) -> History:
    """Train ``model`` and return its history, one record per epoch.

    data: a DataLoader, a Dataset of pairs (x, target), or a pair of arrays or Tensors (x, target), each of N samples.
    targets: an array or Tensor of N targets, if data is the array or Tensor x: ``fit(model, x, targets)``.
        Anything that a Dataset has after the target, such as sample weights, is passed to loss after it.
    epochs: number of passes over the data.
    batch_size: samples per step, unless data is a DataLoader; the order is random in each epoch.
    loss: a function of the model's output and the target that returns the mean over the batch.
    optimizer: an optimizer of the model's parameters; None means Adam with its default learning rate.
    held_out: data (as above) to evaluate after each epoch, in eval mode; or the fraction of data, between 0 and 1, to
        hold out at random.
    augment: a function that changes a batch of x, an array, before each step.
    callbacks: see retrograd.train.callbacks; called in this order.
    progress: True shows a bar or lines on stderr, False nothing.

    Raises:
        TypeError: data, targets or held_out has another type.
        ValueError: epochs is not positive, or held_out is not between 0 and 1 or leaves one side empty.
        TrainingError: the loss is NaN or infinite; the message says where that started.
    """
    _check_arguments(model, loss, optimizer)
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise ValueError(f"fit: epochs={epochs!r} must be a positive int")
    if targets is not None:
        for name, value in (("data", data), ("targets", targets)):
            if not isinstance(value, (np.ndarray, Tensor)):
                raise TypeError(
                    f"fit: {name} is {kind_name(value)}; fit(model, x, targets) needs arrays or Tensors; pass "
                    "epochs and other options by name, and numpy.array(values) for lists"
                )
        data = data, targets
    if isinstance(held_out, (int, float)):
        if not 0 < held_out < 1:
            raise ValueError(f"fit: held_out={held_out!r} must be data, or a fraction between 0 and 1")
        if isinstance(data, (DataLoader, IterableDataset)):
            raise TypeError("fit: held_out as a fraction needs data that can be split: a Dataset or a pair of arrays")
        data, held_out = random_split(_dataset("data", data), [1 - held_out, held_out])
        if not len(data) or not len(held_out):
            raise ValueError(f"fit: held_out leaves {len(data)} samples to train on and {len(held_out)} held out")
    running = Fit(
        model,
        data if isinstance(data, DataLoader) else _loader("data", data, batch_size, shuffle=True),
        Adam(model.parameters()) if optimizer is None else optimizer,
        loss,
        held_out if held_out is None or isinstance(held_out, DataLoader) else _loader("held_out", held_out),
        augment,
        callbacks,
        _display(progress),
    )
    running.train(epochs)
    return running.history


class Fit:
    """A running training, as seen by callbacks.

    model: the model to train.
    loader: the batches of an epoch, pairs (x, target); anything after the target is passed to loss.
    optimizer, loss, augment: as for ``fit``.
    held_out: the batches to evaluate after each epoch, or None.
    callbacks: called in this order.
    progress: the progress display.
    workers: the other processes that take part (retrograd.distributed.train_workers.Workers), which share the loader.

    ``epoch`` counts the finished epochs, ``steps`` the steps; ``history`` has one record per epoch.
    """

    loader: DataLoader
    model: Module
    optimizer: Optimizer
    callbacks: list[Callback]
    held_out: DataLoader | None
    epochs: int
    steps: int
    epoch: int
    seconds: Any
    loss: Callable[..., Tensor]
    augment: Callable[[np.ndarray], np.ndarray] | None

    def __init__(
        self,
        model: Module,
        loader: DataLoader,
        optimizer: Optimizer,
        loss: Callable[..., Tensor] = cross_entropy,
        held_out: DataLoader | None = None,
        augment: Callable[[np.ndarray], np.ndarray] | None = None,
        callbacks: Iterable[Callback] = (),
        progress: Progress | None = None,
        workers: Any = None,
    ) -> None:
        self.model, self.loader, self.optimizer, self.loss = model, loader, optimizer, loss
        self.held_out, self.augment = held_out, augment
        self.callbacks = as_list("fit", "callbacks", callbacks, "a list of callbacks, even of one: [callback]")
        for place, callback in enumerate(self.callbacks):
            if isinstance(callback, type) or not hasattr(callback, "on_start"):
                raise TypeError(f"fit: callbacks[{place}] is {kind_name(callback)}, needs a Callback")
        if augment is not None:
            as_callable("fit", "augment", augment)
        self.progress: Progress = progress or Progress()
        self.workers = workers
        self.epochs = 0
        self.epoch = 0
        self.steps = 0
        self.seconds = 0.0  # spent in training steps of finished epochs
        self.sums: dict[str, Any] = dict(_SUMS)  # sums over the current epoch
        self.history: History = History()
        self.stopped: str | None = None

    def train(self, epochs: int) -> None:
        """Train from the current state until ``epochs`` epochs are done or a callback stops it.

        Raises:
            TrainingError: the loss is NaN or infinite; the message says where that started.
        """
        self.epochs = epochs
        samples = getattr(self.loader.dataset, "__len__", int)()
        try:
            # non-finite numbers raise TrainingError instead of NumPy's warnings
            with np.errstate(all="ignore"):
                self._notify("on_start")
                self.progress.start(epochs, samples, self.epoch * samples + self.sums["samples"])
                while self.epoch < epochs and self.stopped is None:
                    for batch in self.loader:
                        if isinstance(batch, Tensor) or len(batch) < 2:
                            raise TypeError(
                                f"fit: a batch of the loader is {_parts(batch)}, needs (x, target); give the dataset "
                                "targets: TensorDataset(x, targets)"
                            )
                        samples = self._step(*batch) if self.workers is None else self._shared_step(batch)
                        self._notify("on_step_end", samples)
                    self._end_epoch()
                self._notify("on_end")
        finally:
            self.progress.close()

    def stop(self, why: str) -> None:
        """End training after the current epoch."""
        self.stopped = why

    def _step(self, x: Tensor, target: Tensor, *more: Tensor) -> int:
        """Run one step and return the number of samples."""
        start = perf_counter()
        self.steps += 1
        self._notify("on_step_start")
        if self.augment is not None:
            x = Tensor(self.augment(x.array))
        self.model.train()
        output = self.model(x)
        loss = self.loss(output, target, *more)
        value = loss.item()
        if not math.isfinite(value):
            self.fail(f"the loss is {value}", x)
        self.optimizer.zero_grad()
        self._notify("on_loss", loss)
        loss.backward()
        self._notify("on_gradients")
        self.optimizer.step()
        _add(self.sums, value, output, target)
        self.sums["seconds"] += perf_counter() - start
        self.progress.step(self.epoch + 1, len(target), *_means(self.sums))
        return len(target)

    def _shared_step(self, batch: Any) -> int:
        """Run one step together with the other processes; this one computes its shards of the batch."""
        start = perf_counter()
        self.steps += 1
        self._notify("on_step_start")
        self.model.train()
        last: list[Tensor] = []

        def loss_of(x: Tensor, target: Tensor) -> tuple[Tensor, float]:
            if self.augment is not None:
                x = Tensor(self.augment(x.array))
            last[:] = [x]
            output = self.model(x)
            right = _right(output, target)
            return self.loss(output, target), math.nan if right is None else right

        def before(numbers: np.ndarray) -> None:
            losses = numbers[batch.sizes > 0, 0]
            if not np.isfinite(losses).all():
                self.fail(f"the loss is {losses.sum()}", *last)
            self._notify("on_gradients")

        numbers = self.workers.step(batch, loss_of, before)
        filled = batch.sizes > 0
        self.sums["loss"] += float((numbers[filled, 0] * batch.sizes[filled]).sum())
        right = numbers[filled, 1].sum()
        self.sums["correct"] = None if math.isnan(right) else self.sums["correct"] + int(right)
        self.sums["samples"] += batch.samples
        self.sums["seconds"] += perf_counter() - start
        self.progress.step(self.epoch + 1, batch.samples, *_means(self.sums))
        return int(batch.samples)

    def _end_epoch(self) -> None:
        if not self.sums["samples"]:
            raise TrainingError("an epoch without batches: the data is empty, or drop_last drops all of it")
        loss, accuracy = _means(self.sums)
        record = {"epoch": self.epoch + 1, "step": self.steps, "loss": loss}
        record |= {} if accuracy is None else {"accuracy": accuracy}
        if self.held_out is not None:
            record |= {f"held_out_{name}": value for name, value in self.evaluate(self.held_out).items()}
        record |= {"lr": self.optimizer.param_groups[0]["lr"], "seconds": self.sums["seconds"]}
        self.epoch += 1
        self.seconds += self.sums["seconds"]
        self.history.append(record)
        self.sums = dict(_SUMS)
        self.progress.epoch(record)
        self._notify("on_epoch_end", record)

    def evaluate(self, batches: Iterable[Any]) -> dict[str, float]:
        """Return the mean loss and, if targets are classes, the accuracy, in eval mode.

        Raises:
            TrainingError: the loss is NaN or infinite.
        """
        sums = dict(_SUMS)
        self.model.eval()
        with no_grad():
            for x, target, *more in batches:
                output = self.model(x)
                value = self.loss(output, target, *more).item()
                if not math.isfinite(value):
                    self.fail(f"the held-out loss is {value}", x)
                _add(sums, value, output, target)
        self.model.train()
        loss, accuracy = _means(sums)
        return {"loss": loss} if accuracy is None else {"loss": loss, "accuracy": accuracy}

    def fail(self, problem: str, x: Tensor) -> None:
        """Raise TrainingError with the problem, where it started, and a remedy."""
        why = first_not_finite(self.model, x)
        raise TrainingError(f"{problem} at epoch {self.epoch + 1}, step {self.steps}: {why}{self.remedy()}")

    def remedy(self) -> str:
        """Return a remedy to end an error message with."""
        return "; try a smaller learning rate, or check the data"

    def _notify(self, event: str, *arguments: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self, *arguments)


def _add(sums: dict[str, Any], loss: float, output: Tensor, target: Tensor) -> None:
    count = len(target)
    sums["loss"] += loss * count
    sums["samples"] += count
    right = _right(output, target)
    sums["correct"] = None if right is None else sums["correct"] + right


def _right(output: Tensor, target: Tensor) -> int | None:
    """Count the correctly classified samples; None if the targets are not classes."""
    classes = target.array.dtype == np.int64 and target.array.ndim == 1 and output.array.ndim == 2
    return int((output.array.argmax(1) == target.array).sum()) if classes else None


def _means(sums: Mapping[str, Any]) -> tuple[float, float | None]:
    """Return the mean loss and, if the targets are classes, the accuracy."""
    count = sums["samples"]
    if not count:
        return math.nan, None
    return sums["loss"] / count, None if sums["correct"] is None else sums["correct"] / count


def _display(progress: Progress | bool) -> Progress:
    if isinstance(progress, Progress):
        return progress
    return make_progress() if as_truth("fit", "progress", progress) else Progress()


def _parts(batch: Any) -> str:
    return "one Tensor" if isinstance(batch, Tensor) else f"a {type(batch).__name__} of {len(batch)}"


def _check_arguments(model: Any, loss: Any, optimizer: Any) -> None:
    if not isinstance(model, Module):
        raise TypeError(
            f"fit: model is {kind_name(model)}, needs a Module; the model comes first: fit(model, x, targets)"
        )
    if isinstance(loss, type) or not callable(loss):
        raise TypeError(
            f"fit: loss is {kind_name(loss)}, needs a function of output and target, such as "
            "nn.functional.cross_entropy or nn.MSELoss()"
        )
    if optimizer is None:
        return
    if isinstance(optimizer, type) or not hasattr(optimizer, "zero_grad"):
        raise TypeError(
            f"fit: optimizer is {kind_name(optimizer)}, needs an optimizer, such as "
            "optim.Adam(model.parameters(), lr=0.001)"
        )
    groups = getattr(optimizer, "param_groups", None)
    if groups and not {id(each) for group in groups for each in group["params"]} & set(map(id, model.parameters())):
        raise ValueError("fit: optimizer has none of the model's parameters; create it with model.parameters()")


def _dataset(name: str, data: Any) -> Any:
    if isinstance(data, (Dataset, IterableDataset)):
        return data
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return TensorDataset(*data)
    raise TypeError(
        f"fit: {name} must be a DataLoader, a Dataset, or a pair of arrays or Tensors, got {kind_name(data)}"
        + ("; targets are missing: fit(model, x, targets)" if isinstance(data, (np.ndarray, Tensor)) else "")
    )


def _loader(name: str, data: Any, batch_size: int = _HELD_OUT_BATCH, shuffle: bool = False) -> DataLoader:
    dataset = _dataset(name, data)
    return DataLoader(dataset, batch_size, shuffle=shuffle and not isinstance(dataset, IterableDataset))
