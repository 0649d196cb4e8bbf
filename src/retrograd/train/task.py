"""What is trained (Task) and how (Settings)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from ..data.dataset import TensorDataset
from ..engine.tensor import Tensor
from ..nn.module import Module

__all__ = ["ByteImages", "Settings", "Task"]


@dataclass(frozen=True)
class Settings:
    """Everything that decides the final weights, besides the data and the network; part of every checkpoint.

    lr: Adam's learning rate at the first step; it falls to 0 along half a cosine.
    kernels: "compiled" or "textbook".

    Raises:
        ValueError: a value is out of range; names the command's option.
    """

    epochs: int = 20
    batch_size: int = 64
    lr: float = 3e-3
    seed: int = 0
    kernels: str = "compiled"

    def __post_init__(self) -> None:
        for option in fields(self):
            value: Any = getattr(self, option.name)
            kind: Any = {"lr": (int, float), "kernels": str}.get(option.name, int)
            if isinstance(value, bool) or not isinstance(value, kind):
                name = option.name.replace("_", "-")
                raise ValueError(f"{name}={value!r} is a {type(value).__name__}, which it cannot be")
        if self.epochs < 1 or self.batch_size < 1:
            raise ValueError(f"epochs={self.epochs} and batch-size={self.batch_size} must be at least 1")
        if not 0 < self.lr < float("inf"):
            raise ValueError(f"lr={self.lr} must be greater than 0 and finite; 0.003 is a good start")
        if self.seed < 0:
            raise ValueError(f"seed={self.seed} must be 0 or more")
        if self.kernels not in ("compiled", "textbook"):
            raise ValueError(f"kernels={self.kernels!r} must be 'compiled' or 'textbook'")

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """The settings that ``as_dict`` gave.

        Raises:
            ValueError: a value is missing, unknown or out of range.
        """
        names = {option.name for option in fields(cls)}
        if not isinstance(values, Mapping) or values.keys() != names:
            raise ValueError(f"settings must be a dict of {sorted(names)}, got {values!r}")
        return cls(**values)


class ByteImages(TensorDataset):
    """Images that stay in memory as bytes, a quarter of what floats take; samples are floats from 0 to 1.

    pixels: uint8 (N, C, H, W).
    labels: int64 (N,).
    """

    def __init__(self, pixels: np.ndarray, labels: np.ndarray) -> None:
        super().__init__(labels)
        self.pixels = pixels

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        (label,) = super().__getitem__(index)
        return Tensor(_floats(self.pixels[index])), label

    def take(self, indices: Any) -> tuple[Tensor, ...]:
        """The batch of these samples: images (len(indices), C, H, W) and labels."""
        (labels,) = super().take(indices)
        return Tensor(_floats(self.pixels[np.asarray(indices, dtype=np.int64)])), labels


def _floats(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / np.float32(255)


@dataclass
class Task:
    """A network with the images it learns from.

    classes: their names; label i means classes[i].
    train, held_out: samples (image, label); held-out ones are only ever classified.
    augment: changes a batch of training images (N, ...) before each step, drawing from ``retrograd``'s generator.
    source: where the images come from, for the report.
    kernels: compiled kernels that training runs, so that all cores can compile them before the first step.
    network: {"name": ..., "arguments": {...}}, from which networks.py builds the model again.
    image: {"size": ..., "channels": ...}, what an image of the user's own is made into.
    options: what else decides which images there are; a run that goes on must have the same.
    warmup: the share of all steps in which the learning rate rises.
    """

    name: str
    title: str
    classes: tuple[str, ...]
    model: Module
    train: TensorDataset
    held_out: TensorDataset
    augment: Callable[[np.ndarray], np.ndarray] | None = None
    source: str = ""
    kernels: tuple[str, ...] = ()
    network: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    warmup: float = 0.0
