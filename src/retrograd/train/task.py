"""Task: a network with its training data; Settings: the options of its training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._files.state import brief
from ..data.dataset import TensorDataset
from ..engine.tensor import Tensor
from ..nn.functional import cross_entropy
from ..nn.module import Module

if TYPE_CHECKING:
    from .html_page import Page
    from .trainer import Trainer

__all__ = ["Settings", "Task"]


@dataclass(frozen=True)
class Settings:
    """Everything that determines the final weights besides the data and the network; part of every checkpoint.

    lr: Adam's highest learning rate.
    kernels: "compiled" or "textbook".
    schedule: "cosine", in which the learning rate falls to 0 along half a cosine, or "constant".

    Raises:
        ValueError: a value is out of range; the message names the command's option.
    """

    epochs: int = 20
    batch_size: int = 64
    lr: float = 3e-3
    seed: int = 0
    kernels: str = "compiled"
    schedule: str = "cosine"

    def __post_init__(self) -> None:
        for option in fields(self):
            value: Any = getattr(self, option.name)
            kind: Any = {"lr": (int, float), "kernels": str, "schedule": str}.get(option.name, int)
            if isinstance(value, bool) or not isinstance(value, kind):
                name = option.name.replace("_", "-")
                raise ValueError(f"{name}={brief(value)} cannot be a {type(value).__name__}")
        for name, value, most in (("epochs", self.epochs, 10**6), ("batch-size", self.batch_size, 10**9)):
            if value < 1:
                raise ValueError(f"{name}={brief(value)} must be at least 1")
            if value > most:
                raise ValueError(f"{name}={brief(value)} must be at most {most:,}")
        if not 0 < self.lr <= sys.float_info.max:
            raise ValueError(f"lr={brief(self.lr)} must be greater than 0 and finite; 0.003 is a good start")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"seed={brief(self.seed)} must be 0 or more, and less than 2**64")
        if self.kernels not in ("compiled", "textbook"):
            raise ValueError(f"kernels={brief(self.kernels)} must be 'compiled' or 'textbook'")
        if self.schedule not in ("cosine", "constant"):
            raise ValueError(f"schedule={brief(self.schedule)} must be 'cosine' or 'constant'")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """The settings from the result of ``as_dict``.

        Raises:
            ValueError: a value is missing, unknown or out of range.
        """
        names = {option.name for option in fields(cls)}
        if not isinstance(values, Mapping) or {"schedule", *values.keys()} != names:  # earlier checkpoints lack it
            raise ValueError(f"settings must be a dict of {sorted(names)}, got {brief(values)}")
        return cls(**values)


@dataclass(kw_only=True)
class Task:
    """A network with the data it learns from. There is a subclass for each kind of data.

    train, held_out: samples (x, target); the network never learns from the held-out ones.
    augment: a function that changes a batch of x (N, ...) before each step, drawing from ``retrograd``'s generator.
    source: the origin of the data, for the report.
    kernels: the compiled kernels of training, so that all cores can compile them before the first step.
    compilation: of these kernels, if it has begun (``kernel_set.begin_compiling``).
    report_kernels: the kernels that only the report uses, for float32 and for float64, compiled during training.
    network: {"name": ..., "arguments": {...}}, from which train/networks.py rebuilds the model.
    options: anything else that determines the data; a resumed run must have the same.
    warmup: the fraction of all steps in which the learning rate rises.
    weight_decay: of AdamW; 0 means Adam.
    defaults: settings that suit this data better than those of its kind, unless the user chooses them.

    Class attributes: ``samples``, the name of the samples; ``shuffle``, whether to shuffle them in each epoch;
    ``carried``, names of the model's buffers that have an entry for each sample of a batch, with the axis of the
    entries; ``held_out_batch``, the batch size of held-out samples; ``explained``, the number of held-out samples whose
    gradients ``explain.html`` explains.
    """

    samples: ClassVar[str]
    shuffle: ClassVar[bool] = True
    carried: ClassVar[Mapping[str, int]] = {}
    held_out_batch: ClassVar[int] = 512
    explained: ClassVar[int] = 0

    name: str
    title: str
    model: Module
    train: TensorDataset
    held_out: TensorDataset
    augment: Callable[[np.ndarray], np.ndarray] | None = None
    source: str = ""
    kernels: tuple[str, ...] = ()
    compilation: Any = None
    report_kernels: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    network: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    warmup: float = 0.0
    weight_decay: float = 0.0
    defaults: Mapping[str, Any] = field(default_factory=dict)

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the mean loss of a batch."""
        return cross_entropy(output, target)

    def check(self) -> None:
        """Check the data before training.

        Raises:
            TrainingError: the data cannot be trained on; the message says why.
        """

    def identity(self) -> dict[str, Any]:
        """Return the entries of a checkpoint that must be the same when a run resumes."""
        return {"options": dict(self.options), "network": dict(self.network)}  # other data may need another network

    def stored(self) -> dict[str, Any]:
        """Return entries of a checkpoint that the use of the network needs, besides the identity."""
        return {}

    def measures(self) -> dict[str, Any]:
        """Return the measures against overfitting, besides the weight decay, for the report."""
        return {}

    def result(self, trainer: Trainer) -> str:
        """Return the result of a finished run, in one line."""
        raise NotImplementedError(f"{type(self).__name__} must define result(trainer)")

    def page(self, trainer: Trainer) -> Page:
        """Return the report of a run."""
        raise NotImplementedError(f"{type(self).__name__} must define page(trainer)")
