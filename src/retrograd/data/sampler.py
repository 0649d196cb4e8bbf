"""Samplers: the order in which a loader visits the samples of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import chain, islice
from typing import Any

import numpy as np

from ..engine.arguments import kind_name
from ..ops.argument_checks import as_flag, as_truth
from ..ops.random.random import default_generator

__all__ = [
    "BatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]


# ---- Samplers -------------------------------------------------------------------------------------------------------

_MAX_DRAW = 1 << 22  # largest number of indices drawn in one call
_MAX_PERMUTATION = 1 << 26  # largest permutation that is drawn at once: half a GiB of int64
_CHUNK = 1 << 10  # number of positions of a larger permutation that are drawn in one call


class Sampler:
    """An iterable of indices, iterated once per epoch. A subclass defines ``__iter__``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__()")


class SequentialSampler(Sampler):
    """A sampler that visits 0, 1, 2, ... in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """A sampler that visits every index once, in a new random order each epoch.

    replacement: draw each index independently, so that some repeat and others are missing.
    num_samples: indices per epoch; None means the number of samples.
    generator: source of the order; None means the generator seeded by ``retrograd.manual_seed``.

    Raises:
        ValueError: num_samples is not positive.
        TypeError: generator is not a numpy.random.Generator, or replacement is not a bool.
    """

    data_source: Sized

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: np.random.Generator | None = None,
    ) -> None:
        if num_samples is not None:
            _check_count("RandomSampler", num_samples)
        self.data_source, self._num_samples = data_source, num_samples
        self.replacement: bool = as_flag("RandomSampler", "replacement", replacement)
        self.generator: np.random.Generator = checked_generator("RandomSampler", generator)

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, length = len(self.data_source), self.num_samples
        if self.replacement:
            return _drawn(self.generator, length, lambda generator, count: generator.integers(0, size, count))
        if length <= size:
            if size > _MAX_PERMUTATION:
                return islice(_shuffled(self.generator, size), length)
            return iter(self.generator.permutation(size)[:length].tolist())
        if not size:
            return iter(())

        if size > _MAX_PERMUTATION:
            passes = (_shuffled(self.generator, size) for _ in range(-(-length // size)))
            return islice(chain.from_iterable(passes), length)

        def rounds(generator: np.random.Generator, count: int) -> np.ndarray:
            return np.concatenate([generator.permutation(size) for _ in range(-(-count // size))])[:count]

        return _drawn(self.generator, length, rounds, size)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """A sampler that visits each of the given indices once, in a new random order each epoch.

    indices: positions of samples.
    generator: source of the order; None means the generator seeded by ``retrograd.manual_seed``.

    Raises:
        TypeError: generator is not a numpy.random.Generator.
    """

    def __init__(self, indices: Sequence[int], generator: np.random.Generator | None = None) -> None:
        self.indices = indices
        self.generator: np.random.Generator = checked_generator("SubsetRandomSampler", generator)

    def __iter__(self) -> Iterator[int]:
        return iter([int(self.indices[n]) for n in self.generator.permutation(len(self.indices))])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """A sampler that draws indices 0 to len(weights) - 1 with probabilities proportional to the weights.

    weights: numbers of at least 0, at least one of them positive.
    num_samples: number of draws.
    replacement: False draws no index twice, and needs num_samples positive weights.
    generator: source of the draws; None means the generator seeded by ``retrograd.manual_seed``.

    Raises:
        ValueError: num_samples is not a positive int, a weight is negative or not finite, or too few are above 0.
        TypeError: generator is not a numpy.random.Generator, or replacement is not a bool.
    """

    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float] | np.ndarray,
        num_samples: int,
        replacement: bool = True,
        generator: np.random.Generator | None = None,
    ) -> None:
        _check_count("WeightedRandomSampler", num_samples)
        replacement = as_flag("WeightedRandomSampler", "replacement", replacement)
        try:
            self.weights: np.ndarray = np.asarray(getattr(weights, "array", weights), np.float64)  # a Tensor's array
        except (TypeError, ValueError, OverflowError):
            kind = type(weights).__name__
            raise TypeError(f"WeightedRandomSampler: weights is {kind}, needs a list of numbers") from None
        if self.weights.ndim != 1 or not (np.isfinite(self.weights) & (self.weights >= 0)).all():
            raise ValueError("WeightedRandomSampler: weights must be 1-d, finite and at least 0")
        available = int((self.weights > 0).sum())
        if available < (1 if replacement else num_samples):
            raise ValueError(
                f"WeightedRandomSampler: {available} weights are greater than 0, too few for "
                f"num_samples={num_samples} with replacement={replacement}"
            )
        self.num_samples, self.replacement = num_samples, replacement
        self.generator: np.random.Generator = checked_generator("WeightedRandomSampler", generator)

    def __iter__(self) -> Iterator[int]:
        shares = self.weights / self.weights.sum()
        if not self.replacement:
            return iter(self.generator.choice(len(shares), self.num_samples, False, shares).tolist())

        def draw(generator: np.random.Generator, count: int) -> np.ndarray:
            return generator.choice(len(shares), count, True, shares)

        return _drawn(self.generator, self.num_samples, draw)

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """A sampler of lists of ``batch_size`` indices from ``sampler``; ``drop_last`` drops a shorter last list.

    Raises:
        ValueError: batch_size is not a positive int.
        TypeError: drop_last is not a bool.
    """

    batch_size: int
    sampler: Iterable[int]

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"BatchSampler: batch_size={batch_size!r} must be a positive int")
        if not isinstance(sampler, Iterable) and not hasattr(sampler, "__getitem__"):
            raise TypeError(f"BatchSampler: sampler is {kind_name(sampler)}, needs a sampler or a list of indices")
        self.sampler, self.batch_size = sampler, batch_size
        self.drop_last: bool = as_flag("BatchSampler", "drop_last", drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        samples = len(self.sampler)  # type: ignore[arg-type]
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)


def _drawn(
    generator: np.random.Generator, length: int, draw: Callable[[np.random.Generator, int], np.ndarray], unit: int = 1
) -> Iterator[int]:
    """Return an iterator over ``length`` indices from ``draw(generator, count)``. Except in the last call, count is a
    multiple of ``unit``.

    Later draws from the generator do not affect the indices. The first _MAX_DRAW indices are drawn now, and further
    ones on demand from a separate generator whose seed is drawn now.
    """
    most = max(1, _MAX_DRAW // unit) * unit
    first = draw(generator, min(length, most)).tolist()
    if length <= most:
        return iter(first)
    own = np.random.default_rng(int(generator.integers(1 << 63)))
    rest = (draw(own, min(length - begin, most)).tolist() for begin in range(most, length, most))
    return chain(first, chain.from_iterable(rest))


def _shuffled(generator: np.random.Generator, size: int) -> Iterator[int]:
    """Iterate over 0 to size - 1 in a random order, drawn on demand: memory grows with the indices used, not with size.

    This is the Fisher-Yates shuffle; only the places that differ from the order 0, 1, 2, ... are stored.
    """
    own = np.random.default_rng(int(generator.integers(1 << 63)))

    def indices() -> Iterator[int]:
        moved: dict[int, int] = {}
        for begin in range(0, size, _CHUNK):
            places = range(begin, min(begin + _CHUNK, size))
            for place, other in zip(places, own.integers(np.arange(begin, places.stop), size).tolist(), strict=True):
                here = moved.pop(place, place)
                if other == place:
                    yield here
                else:
                    yield moved.get(other, other)
                    moved[other] = here

    return indices()


def _check_count(name: str, num_samples: Any) -> None:
    if isinstance(num_samples, bool) or not isinstance(num_samples, (int, np.integer)) or num_samples <= 0:
        raise ValueError(f"{name}: num_samples={num_samples!r} must be a positive int")


def checked_generator(name: str, generator: np.random.Generator | None) -> np.random.Generator:
    """Return the generator, or the global one for None."""
    if generator is None:
        return default_generator
    if not isinstance(generator, np.random.Generator):
        raise TypeError(
            f"{name}: generator must be a numpy.random.Generator, such as numpy.random.default_rng(seed), got "
            f"{type(generator).__name__}"
        )
    return generator


# ---- DistributedSampler: each process's share of a dataset ----------------------------------------------------------


class DistributedSampler(Sampler):
    """A sampler of one process's share: every ``num_replicas``-th index from ``rank`` on.

    All ranks draw the same order from the same seed. The order is extended with its own beginning until every rank has
    the same number of indices.

    num_replicas: number of shares. rank: the number of this share, from 0. None takes them from the process group.
    shuffle: a new random order for each epoch, from ``seed + epoch``; False keeps the dataset's order.
    drop_last: shorten the order instead of extending it.

    Raises:
        RuntimeError: num_replicas or rank is not given, and there is no process group.
        ValueError: num_replicas is not a positive int, rank is not an int from 0 to num_replicas - 1, or seed is not an
            int of at least 0.
        TypeError: shuffle or drop_last is not a bool.

    Source: PyTorch's class of this name; the random order differs.
    """

    dataset: Sized
    num_replicas: int
    rank: int
    seed: int
    epoch: int

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from ..distributed.world import world as current

            world = current()
            if world is None:
                raise RuntimeError(
                    "DistributedSampler: there is no process group; call distributed.init_process_group() "
                    "first, or pass num_replicas and rank"
                )
            num_replicas, rank = world[0] if num_replicas is None else num_replicas, world[1] if rank is None else rank
        if not _is_int(num_replicas) or num_replicas < 1:
            raise ValueError(f"DistributedSampler: num_replicas={num_replicas!r} must be a positive int")
        if not _is_int(rank) or not 0 <= rank < num_replicas:
            raise ValueError(f"DistributedSampler: rank={rank!r} must be an int from 0 to {num_replicas - 1}")
        if not _is_int(seed) or seed < 0:
            raise ValueError(f"DistributedSampler: seed={seed!r} must be an int of at least 0")
        self.dataset, self.num_replicas, self.rank, self.seed, self.epoch = dataset, num_replicas, rank, seed, 0
        self.shuffle: bool = as_truth("DistributedSampler", "shuffle", shuffle)
        self.drop_last: bool = as_truth("DistributedSampler", "drop_last", drop_last)

    @property
    def num_samples(self) -> int:
        """The number of indices in this share."""
        size = len(self.dataset)
        return size // self.num_replicas if self.drop_last else -(-size // self.num_replicas)

    @property
    def total_size(self) -> int:
        """The number of indices in all shares."""
        return self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        generator = np.random.default_rng(self.seed + self.epoch)
        order = generator.permutation(size) if self.shuffle else np.arange(size)
        return iter(np.resize(order, self.total_size)[self.rank :: self.num_replicas].tolist())

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch that determines the next order. Call it before each epoch, with the same number in all ranks.

        Raises:
            ValueError: epoch is not an int of at least 0.
        """
        if not _is_int(epoch) or epoch < 0:
            raise ValueError(f"DistributedSampler: epoch={epoch!r} must be an int of at least 0")
        self.epoch = epoch


def _is_int(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
