"""DataLoader: batches of a dataset, with a position within the epoch that can be saved and restored."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, repeat
from typing import Any

import numpy as np

from .._files.state import brief, count, flag, same
from ..engine.arguments import as_callable, kind_name
from ..engine.tensor import Tensor
from ..ops.argument_checks import as_truth
from ..ops.device import as_device
from ..ops.random.random import Generator, default_generator, restore, spawned_seed, state_of
from .dataset import Dataset, IterableDataset
from .fetch import END, Fetcher, next_seed
from .sampler import BatchSampler, RandomSampler, SequentialSampler, checked_generator
from .workers import Workers, start_method

__all__ = ["DataLoader"]


class DataLoader:
    """Loads a dataset in batches. One iteration over the loader is an epoch.

    dataset: has ``__len__`` and ``__getitem__``, or is an IterableDataset.
    batch_size: samples per batch; None returns single samples, not collated.
    shuffle: visit the samples in a new random order each epoch.
    sampler: a custom order of indices, instead of shuffle.
    batch_sampler: a custom order of lists of indices, instead of shuffle, sampler, batch_size and drop_last.
    num_workers: processes that load batches ahead of time; 0 loads each in this process on demand.
    collate_fn: turns a list of samples into a batch; None stacks them (``default_collate``).
    drop_last: drop the last batch of an epoch if it is shorter.
    timeout: seconds a worker may take for a batch; 0 waits forever.
    worker_init_fn: called with the worker's number in each worker process, once, before it loads anything.
    multiprocessing_context: start method of workers: "spawn", "forkserver" or "fork". None means "spawn", unless the
        dataset or a function cannot be pickled or the script has no ``if __name__ == "__main__":``. Then it means
        "fork" where the system has it, because the other methods need both. A lock that another thread holds stays
        locked in a forked process.
    generator: source of the random order and the seeds; None means the generator seeded by ``retrograd.manual_seed``.
    prefetch_factor: batches per worker to load ahead of time; None means 2.
    persistent_workers: keep the processes from epoch to epoch.
    pin_memory, pin_memory_device: have no effect, because all tensors are on the CPU.
    in_order: has no effect, because batches always come in order.
    seed: shorthand for a new generator with this seed.

    Batches, their order and the numbers the dataset draws from retrograd's generator are the same for any num_workers:
    each batch has its own random numbers, determined by the generator's state at the start of the epoch. In an epoch,
    the generator advances by the sampler's draws, and by one more draw if the dataset drew from retrograd's generator.
    An IterableDataset divides its samples among the workers itself, so its batches do depend on num_workers.

    Each worker gets a new seed in each epoch: the epoch's base seed plus the worker's number. In the worker,
    ``retrograd.initial_seed()`` and ``get_worker_info().seed`` return it. It seeds the global generators of Python and
    NumPy, and retrograd's default generator, from which ``worker_init_fn`` and an IterableDataset's ``__iter__`` draw.
    Persistent workers are seeded again at the start of each later epoch, which replaces any seed set by
    ``worker_init_fn``, so they draw the same numbers as new processes. Numbers from the global generators of Python and
    NumPy depend on num_workers, and load_state_dict does not restore them. If the dataset has a generator of its own,
    every worker has a copy of it. Seed it in ``worker_init_fn``, or all workers draw the same numbers.

    Computing the base seed does not advance the generator. The seed depends on the generator's state and on the number
    of epochs with workers since ``manual_seed``, and repeats after the same ``manual_seed``. ``Generator.get_state()``
    includes that number. A NumPy generator counts the epochs as spawned children, which are not part of its state.

    ``state_dict()`` returns the loader's position. After ``load_state_dict``, the next iteration returns exactly the
    remaining batches of that epoch, and later epochs follow as they would have. If the random order comes from the
    global generator (no generator, no seed), save and restore its state separately. An IterableDataset has no
    positions, so its earlier batches are built again and dropped.

    Raises:
        TypeError: the dataset has no length, generator is not a numpy.random.Generator, or seed is not an int.
        ValueError: batch_size is not a positive int, or options are out of range or incompatible.
    """

    batch_sampler: BatchSampler | Iterable[list[int]] | None
    sampler: RandomSampler | SequentialSampler | Iterable[int] | None
    batch_size: int | None
    drop_last: bool
    num_workers: int
    timeout: float

    def __init__(
        self,
        dataset: Dataset | IterableDataset | Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: np.random.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        seed: int | None = None,
    ) -> None:
        if isinstance(batch_size, (Tensor, np.ndarray)):
            raise TypeError(
                f"DataLoader: batch_size is {kind_name(batch_size)}; pass inputs and targets as one dataset: "
                "DataLoader(TensorDataset(x, y), batch_size=32)"
            )
        if isinstance(dataset, (type, str)):
            hint = "; for a folder of images, retrograd.data.ImageFolder(path)" if isinstance(dataset, str) else ""
            raise TypeError(f"DataLoader: dataset is {kind_name(dataset)}, needs a dataset{hint}")
        if collate_fn is not None:
            as_callable("DataLoader", "collate_fn", collate_fn)
        if batch_size is not None and (
            isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1
        ):
            raise ValueError(f"DataLoader: batch_size={brief(batch_size)} must be a positive int")
        drop_last = as_truth("DataLoader", "drop_last", drop_last)
        self.pin_memory: bool = as_truth("DataLoader", "pin_memory", pin_memory)
        as_device("DataLoader", pin_memory_device or None)
        as_truth("DataLoader", "in_order", in_order)
        persistent_workers = as_truth("DataLoader", "persistent_workers", persistent_workers)
        shuffle = shuffle is not None and as_truth("DataLoader", "shuffle", shuffle)
        iterable = isinstance(dataset, IterableDataset)
        if not iterable and not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise TypeError(
                f"DataLoader: dataset is {kind_name(dataset)}, which lacks __len__ or __getitem__ and is "
                "not an IterableDataset"
            )
        if iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "DataLoader: an IterableDataset sets its order itself; leave out shuffle, sampler and batch_sampler"
            )
        if generator is not None and seed is not None:
            raise ValueError("DataLoader: pass generator or seed, not both")
        if (sampler is not None or batch_sampler is not None) and shuffle:
            raise ValueError("DataLoader: sampler and batch_sampler set the order themselves; leave out shuffle")
        if batch_sampler is not None and (batch_size != 1 or sampler is not None or drop_last):
            raise ValueError("DataLoader: batch_sampler excludes batch_size, sampler and drop_last")
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: batch_size=None returns single samples; leave drop_last out")
        _check_workers(num_workers, timeout, multiprocessing_context, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.shuffle = shuffle
        self.generator: np.random.Generator | None = Generator().manual_seed(seed) if seed is not None else generator
        self._generator = checked_generator("DataLoader", self.generator)
        self._generators = self._all_generators(batch_sampler if sampler is None else sampler)
        if sampler is None and not iterable:
            source: Any = dataset
            sampler = RandomSampler(source, generator=self._generator) if shuffle else SequentialSampler(source)
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(() if sampler is None else sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, None if iterable else batch_sampler
        self.batch_size, self.drop_last = batch_size, drop_last
        self.collate_fn = collate_fn
        self.num_workers, self.timeout = num_workers, timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context: Any | None = start_method(multiprocessing_context) if num_workers else None
        self.prefetch_factor: int | None = (prefetch_factor or 2) if num_workers else None
        self.persistent_workers = persistent_workers
        self._workers: Workers | None = None
        self._position = 0  # batches returned in the current epoch
        self._drew = False  # whether random numbers were drawn for any of them
        self._epoch_start: list[dict[str, Any]] | None = None  # the generators' states at the start of the epoch
        self._resuming = False

    def __len__(self) -> int:
        """The number of batches.

        Raises:
            TypeError: the dataset is an IterableDataset without ``__len__``.
        """
        if isinstance(self.dataset, IterableDataset):
            samples = len(self.dataset)  # type: ignore[arg-type]
            size = self.batch_size or 1
            return samples // size if self.drop_last else -(-samples // size)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        order, seed, worker_seed = self._order()
        skip = self._position if isinstance(self.dataset, IterableDataset) else 0
        batches = self._batches(order, seed, worker_seed, self._position - skip)
        for batch, drew in islice(batches, skip, None):
            self._position += 1
            if drew and not self._drew:
                self._drew = True
                self._generator.integers(2**63)  # so that the next epoch gets different numbers
            yield batch
        self._position, self._drew, self._epoch_start = 0, False, None

    def _order(self) -> tuple[Iterator[Any], int, int]:
        """Return the indices of this epoch's batches (after load_state_dict, of the remaining ones) and its two seeds.

        The first seed determines the random numbers of the batches. The second is the seed of worker 0.
        """
        if not self._resuming:
            self._position, self._drew, self._epoch_start = 0, False, self._states()
            return self._indices(), *self._seeds()
        self._resuming = False
        now = self._states()
        self._set_states(self._epoch_start or now)
        seeds, order = self._seeds(), self._indices()
        if not isinstance(self.dataset, IterableDataset):
            for _ in range(self._position):  # draw these again, but do not load them
                next(order, None)
        self._set_states(now)
        return order, *seeds

    def _seeds(self) -> tuple[int, int]:
        return next_seed(self._generator), spawned_seed(self._generator) if self.num_workers else 0

    def _indices(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return repeat(None)
        return iter(self.sampler if self.batch_sampler is None else self.batch_sampler)  # type: ignore[arg-type]

    def _batches(self, order: Iterator[Any], seed: int, worker_seed: int, first: int) -> Iterator[tuple[Any, bool]]:
        """Yield each batch, with whether random numbers were drawn for it."""
        fetcher = Fetcher(self.dataset, self.collate_fn, self.batch_size, self.drop_last)
        if not self.num_workers:
            fetcher.start(seed)
            for number, indices in enumerate(order, first):
                batch, drew = fetcher.fetch(number, indices)
                if batch is END:
                    return
                yield batch, drew
            return
        workers = self._workers
        if workers is None:
            workers = Workers(
                fetcher,
                self.num_workers,
                self.prefetch_factor or 2,
                self.timeout,
                self.worker_init_fn,
                self.multiprocessing_context,
                worker_seed,
            )
        self._workers = workers if self.persistent_workers else None
        try:
            yield from workers.epoch(seed, worker_seed, order, first)
        except Exception:
            self._workers = None
            workers.close()
            raise
        finally:
            if not self.persistent_workers:
                workers.close()

    # ---- Saving and restoring the position -----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the loader: JSON-serializable numbers, no samples.

        Raises:
            RuntimeError: the order comes from a sampler or batch_sampler that is neither from this package nor a list,
                so its state is unknown.
        """
        if self._generators is None:
            raise RuntimeError(
                "DataLoader.state_dict: the order comes from a custom sampler, whose state the loader "
                "does not know; use one of retrograd.data's samplers, or save the sampler yourself"
            )
        return {
            "position": self._position,
            "drew": self._drew,
            "epoch_start": self._epoch_start,
            "generators": [None if one is default_generator else state_of(one) for one in self._generators],
            **self._layout(),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a position. Everything is checked first, so a failed call changes nothing.

        Raises:
            ValueError: state_dict is invalid, or from a loader with another dataset size, batch size or order.
        """
        own = self._layout()
        names = {"position", "drew", "epoch_start", "generators", *own}
        if not isinstance(state_dict, Mapping) or names - state_dict.keys():
            raise ValueError("DataLoader.load_state_dict: state_dict is not the state of a DataLoader")
        for name, value in own.items():
            if not same(state_dict[name], value):
                raise ValueError(
                    f"DataLoader.load_state_dict: the saved loader has {name}={brief(state_dict[name])}, this one has "
                    f"{name}={value!r}; build it with the same dataset and options"
                )
        position, epoch_start, saved = state_dict["position"], state_dict["epoch_start"], state_dict["generators"]
        last = sys.maxsize if own["samples"] is None else len(self)
        count(high=last)("DataLoader.load_state_dict: position", position)
        drew = flag("DataLoader.load_state_dict: drew", state_dict["drew"])
        generators = self._generators or []
        lists = [saved] if epoch_start is None else [saved, epoch_start]
        if (
            (epoch_start is None and position)
            or not all(isinstance(one, list) and len(one) == len(generators) for one in lists)
            or [one is None for one in saved] != [one is default_generator for one in generators]
            or None in (epoch_start or ())
        ):
            raise ValueError(
                "DataLoader.load_state_dict: the state of the random generator is missing or of another generator"
            )
        before = self._states()
        try:
            for states in lists[::-1]:
                self._set_states([now if state is None else state for state, now in zip(states, before, strict=True)])
        except ValueError as error:
            self._set_states(before)
            raise ValueError(f"DataLoader.load_state_dict: not a state of its random generator: {error}") from None
        self._position, self._drew, self._epoch_start = position, drew, epoch_start
        self._resuming = position > 0

    def _all_generators(self, order: Any) -> list[np.random.Generator] | None:
        """Return the generators of an epoch's order and seed; None if a caller's ``order`` may use others."""
        if isinstance(order, BatchSampler):
            order = order.sampler
        own = getattr(order, "generator", None)
        if isinstance(own, np.random.Generator) and own is not self._generator:
            return [self._generator, own]
        fixed = isinstance(order, (SequentialSampler, list, tuple, range, np.ndarray))
        return [self._generator] if order is None or own is not None or fixed else None

    def _states(self) -> list[dict[str, Any]]:
        return [state_of(generator) for generator in self._generators or [self._generator]]

    def _set_states(self, states: list[dict[str, Any]]) -> None:
        for generator, state in zip(self._generators or [self._generator], states, strict=True):
            restore(generator, state)

    def _layout(self) -> dict[str, Any]:
        return {
            "samples": len(self.dataset) if hasattr(self.dataset, "__len__") else None,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
        }


def _check_workers(workers: Any, timeout: Any, context: Any, prefetch: Any, persistent: bool) -> None:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise ValueError(f"DataLoader: num_workers={workers!r} must be an int of at least 0")
    if not isinstance(timeout, (int, float)) or not 0 <= timeout < float("inf"):
        raise ValueError(f"DataLoader: timeout={timeout!r} must be a number of seconds of at least 0")
    if prefetch is not None and (isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 1):
        raise ValueError(f"DataLoader: prefetch_factor={prefetch!r} must be a positive int")
    if not workers:
        options = ("timeout", timeout), ("multiprocessing_context", context), ("prefetch_factor", prefetch)
        for name, value in (*options, ("persistent_workers", persistent)):
            if value:
                raise ValueError(f"DataLoader: {name}={value!r} is for worker processes; set num_workers too")
