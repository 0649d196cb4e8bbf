"""DataLoader: batches of a dataset, with a position that can be saved and taken up again inside an epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..ops.random import default_generator
from .collate import default_collate
from .dataset import Dataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler, checked_generator

__all__ = ["DataLoader"]


class DataLoader:
    """Iterating over it once is one epoch of batches.

    dataset: has ``__len__`` and ``__getitem__``.
    batch_size: samples per batch; None hands out single samples as they are.
    shuffle: visit the samples in a new random order each epoch.
    sampler, batch_sampler: an order of your own, instead of shuffle (and batch_size, drop_last for the latter).
    collate_fn: makes a batch from a list of samples; None stacks them (``default_collate``).
    drop_last: leave out the last batch of an epoch if it is shorter.
    generator: where the random order comes from; None takes the one that ``retrograd.manual_seed`` seeds.
    seed: shorthand for a generator of the loader's own.
    num_workers, pin_memory, timeout: batches are made in the calling process, so only 0, False and 0 are possible.

    ``state_dict()`` says where the loader stands: after ``load_state_dict`` of it, the next iteration hands out exactly
    the batches that were still to come in that epoch, and then new epochs follow as they would have. Where the random
    order comes from the common generator (no generator, no seed), its state is restored by whoever saved it.

    Raises:
        TypeError: the dataset has no length, or generator is no numpy.random.Generator.
        ValueError: batch_size is no positive int; options exclude each other or are not supported.
    """

    def __init__(
        self,
        dataset: Dataset | Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        *,
        generator: np.random.Generator | None = None,
        seed: int | None = None,
    ) -> None:
        fixed = ("num_workers", num_workers, 0), ("pin_memory", pin_memory, False), ("timeout", timeout, 0)
        for name, value, only in fixed:
            if value != only:
                raise ValueError(
                    f"DataLoader: {name}={value!r} is not supported, batches are made in the calling process; "
                    f"leave it at {only!r}"
                )
        if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
            raise TypeError(f"DataLoader: dataset is {type(dataset).__name__}, which lacks __len__ or __getitem__")
        if generator is not None and seed is not None:
            raise ValueError("DataLoader: give generator or seed, not both")
        if (sampler is not None or batch_sampler is not None) and shuffle:
            raise ValueError("DataLoader: sampler and batch_sampler set the order themselves; leave out shuffle")
        if batch_sampler is not None and (batch_size != 1 or sampler is not None or drop_last):
            raise ValueError("DataLoader: batch_sampler excludes batch_size, sampler and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: batch_size=None hands out single samples; drop_last has no meaning then")
        self.dataset = dataset
        self.shuffle = bool(shuffle)
        self.generator = np.random.Generator(np.random.PCG64(seed)) if seed is not None else generator
        self._generator = checked_generator("DataLoader", self.generator)
        self._order_is_own = sampler is not None or batch_sampler is not None
        if sampler is None:
            sampler = RandomSampler(dataset, generator=self._generator) if shuffle else SequentialSampler(dataset)
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if batch_sampler is None and batch_size is not None:
            self.batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.collate_fn = collate_fn
        self._position = 0  # batches handed out in the epoch under way
        self._epoch_start: dict[str, Any] | None = None  # state of the generator then
        self._resuming = False

    def __len__(self) -> int:
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        order = self._order()
        for indices in order:
            self._position += 1
            yield self._load(indices)
        self._position, self._epoch_start = 0, None

    def _order(self) -> Iterator[Any]:
        """The indices of this epoch's batches; after load_state_dict, those that are left of it."""
        generator = self._generator
        batches = self.sampler if self.batch_sampler is None else self.batch_sampler
        if not self._resuming:
            self._position, self._epoch_start = 0, _state(generator)
            return iter(batches)
        self._resuming = False
        now = _state(generator)
        generator.bit_generator.state = self._epoch_start or now
        order = iter(batches)
        for _ in range(self._position):  # drawn again, not loaded
            next(order, None)
        generator.bit_generator.state = now
        return order

    def _load(self, indices: Any) -> Any:
        dataset = self.dataset
        if self.batch_sampler is None:
            return dataset[indices]
        if self.collate_fn is None and hasattr(dataset, "take"):
            return dataset.take(indices)
        items = dataset.__getitems__(indices) if hasattr(dataset, "__getitems__") else [dataset[i] for i in indices]
        return (self.collate_fn or default_collate)(items)

    # ---- saving the position -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands: JSON-able numbers, no samples.

        Raises:
            RuntimeError: the order comes from a sampler or batch_sampler of the caller's, whose state is unknown here.
        """
        if self._order_is_own:
            raise RuntimeError(
                "DataLoader.state_dict: the order comes from a sampler of your own, whose state the loader "
                "cannot know; use shuffle=True with a generator, or save the sampler yourself"
            )
        return {
            "position": self._position,
            "epoch_start": self._epoch_start,
            "generator": _state(self._generator) if self._generator is not default_generator else None,
            **self._layout(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Stand where ``state_dict`` says. Everything is checked first: a call that fails has changed nothing.

        Raises:
            ValueError: it is no such state, or that of a loader with another dataset size, batch size or order.
        """
        own = self._layout()
        if not isinstance(state_dict, Mapping) or {"position", "epoch_start", "generator", *own} - state_dict.keys():
            raise ValueError("DataLoader.load_state_dict: this is no state of a DataLoader")
        for name, value in own.items():
            if state_dict[name] != value:
                raise ValueError(
                    f"DataLoader.load_state_dict: the saved loader has {name}={state_dict[name]!r}, this one has "
                    f"{name}={value!r}; build it with the same dataset and options"
                )
        position, epoch_start, saved = state_dict["position"], state_dict["epoch_start"], state_dict["generator"]
        if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position <= len(self):
            raise ValueError(f"DataLoader.load_state_dict: position={position!r} must be an int from 0 to {len(self)}")
        if (epoch_start is None and position) or (saved is None) != (self._generator is default_generator):
            raise ValueError(
                "DataLoader.load_state_dict: the state of the random generator is missing or was not its own"
            )
        before = _state(self._generator)
        try:
            for state in (epoch_start, saved):
                if state is not None:
                    self._generator.bit_generator.state = state
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            self._generator.bit_generator.state = before
            raise ValueError(f"DataLoader.load_state_dict: not a state of its random generator: {error!r}") from None
        if saved is None:
            self._generator.bit_generator.state = before
        self._position, self._epoch_start, self._resuming = position, epoch_start, position > 0

    def _layout(self) -> dict[str, Any]:
        return {
            "samples": len(self.dataset),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
        }


def _state(generator: np.random.Generator) -> dict[str, Any]:
    return dict(generator.bit_generator.state)
