"""The argument of DistributedDataParallel hooks: one bucket of gradients, with the names of torch.distributed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ...engine.tensor import Tensor, wrap
from ..collectives.future import Future
from .buckets import Bucket

__all__ = ["GradBucket"]


class GradBucket:
    """The gradients that this process has for some neighbouring parameters, in one piece of memory."""

    def __init__(
        self, buffer: Tensor, index: int, last: bool, parameters: Sequence[Tensor], places: Sequence[slice]
    ) -> None:
        self._buffer, self._index, self._last = buffer, index, last
        self._parameters, self._places = list(parameters), list(places)

    def index(self) -> int:
        """Its number; buckets leave in this order, the last parameters first."""
        return self._index

    def is_last(self) -> bool:
        """Whether it is the last one of a backward."""
        return self._last

    def buffer(self) -> Tensor:
        """All gradients of the bucket, of one axis."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Replace ``buffer``."""
        self._buffer = tensor

    def parameters(self) -> list[Tensor]:
        """The parameters, in the order of their gradients."""
        return self._parameters

    def gradients(self) -> list[Tensor]:
        """The gradient of each parameter: views of ``buffer``."""
        array = self._buffer.array
        return [
            wrap(array[place].reshape(parameter.array.shape))
            for parameter, place in zip(self._parameters, self._places, strict=True)
        ]


class Hooked:
    """The exchange of one bucket by a hook, for the reducer: see Exchange.

    trained: the parameters. index: the number of the bucket, of `count`.
    """

    def __init__(
        self, hook: Callable[..., Any], state: Any, trained: Sequence[Tensor], bucket: Bucket, index: int, count: int
    ) -> None:
        self._hook, self._state, self._bucket = hook, state, bucket
        self._trained, self._index, self._last = trained, index, index == count - 1
        self._total: np.ndarray | None = None  # what the hook has made
        self._future: Any = None

    def begin(self, scale: float, tag: int) -> None:
        """Call the hook. Its result is taken as it is; the scale and the tag are the hook's business."""
        (own,) = self._bucket.sums(writable=True)
        places: Mapping[int, slice] = self._bucket.places
        parameters = [self._trained[position] for position in places]
        bucket = GradBucket(wrap(own), self._index, self._last, parameters, [*places.values()])
        self._total, self._future = None, self._hook(self._state, bucket)
        if not isinstance(self._future, Future):
            raise TypeError(
                f"register_comm_hook: the hook {_name(self._hook)} returned {type(self._future).__name__}, expected a "
                "Future of a Tensor, such as work.get_future().then(...)"
            )

    def advance(self) -> bool:
        """Go on as far as possible without waiting; returns whether it is done."""
        return self._total is not None or bool(self._future.done() and self._store())

    def wait(self) -> float:
        """Wait for the end; returns the seconds that it took."""
        start = perf_counter()
        self._future.wait()
        self._store()
        return perf_counter() - start

    def take(self) -> np.ndarray:
        """The result, once; it is the caller's."""
        total, self._total = self._total, None
        assert total is not None
        return total

    def _store(self) -> bool:
        """Store what the hook has made."""
        if self._total is not None:
            return True
        found = self._future.value()
        if isinstance(found, (list, tuple)) and len(found) == 1:
            (found,) = found
        if not isinstance(found, Tensor) or found.array.size != self._bucket.size:
            raise TypeError(
                f"register_comm_hook: the hook {_name(self._hook)} made {_kind(found)}, expected a Tensor of "
                f"{self._bucket.size} elements, as bucket.buffer() has"
            )
        self._total = found.array.reshape(-1).astype(self._bucket.dtype)
        return True


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", repr(hook))


def _kind(value: Any) -> str:
    return f"a Tensor of shape {value.array.shape}" if isinstance(value, Tensor) else type(value).__name__
