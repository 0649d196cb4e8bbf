"""Gradient buckets: accumulation over shards, and GradBucket, the argument of communication hooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from ..engine.tensor import Tensor, wrap
from .reduction_tree import Node, merge_count, subtrees
from .work import Future

__all__ = ["GradBucket"]


# ---- Buckets: gradients in contiguous memory, summed over this worker's shards --------------------------------------

_Shape = tuple[int, ...]
_Sum = np.ndarray | None  # None stands for zeros: no shard has used the parameter so far

BLOCK = 1 << 15  # elements that are added at a time, so that they stay in the cache


class Bucket:
    """The gradients of neighboring parameters of one dtype, a few megabytes in contiguous memory.

    slices: position of a parameter in the list of parameters -> its slice of the memory.

    Each parameter's gradients are added in the order of the tree (reduction_tree.py) as they arrive from the shards. An
    array passed to ``add`` is not copied: the bucket refers to it until it is summed or sent, and never changes it.
    """

    dtype: np.dtype[Any]
    size: int

    def __init__(self, dtype: np.dtype, own: range, shards: int) -> None:
        self.dtype, self.size = dtype, 0
        self.slices: dict[int, slice] = {}
        self._own = own
        self._merge_counts = {shard: merge_count(shard, own, shards) for shard in own}
        self.nodes: list[Node] = subtrees(own, shards)
        self._rows: dict[int, np.ndarray] = {}
        self._block = np.empty(0, dtype)
        self.clear()

    def append(self, position: int, size: int) -> None:
        """Reserve memory for one more gradient."""
        self.slices[position] = slice(self.size, self.size + size)
        self.size += size
        self.clear()

    def clear(self) -> None:
        """Begin a new step."""
        self._next = dict.fromkeys(self.slices, self._own.start)  # position -> the shard whose gradient is added next
        self._partial: dict[int, list[_Sum]] = {position: [] for position in self.slices}  # sums of subtrees so far
        self._waiting: dict[int, dict[int, _Sum]] = {}  # gradients that arrived before those of earlier shards
        self._missing = len(self.slices)  # number of parameters that still wait for a shard

    def add(self, shard: int, position: int, gradient: _Sum) -> bool:
        """Add a parameter's flat gradient for one shard. Returns whether the bucket is now complete."""
        if shard != self._next[position]:
            self._waiting.setdefault(position, {})[shard] = gradient
            return False
        self._add(shard, position, gradient)
        waiting = self._waiting.get(position)
        shard += 1
        while waiting and shard in waiting:
            self._add(shard, position, waiting.pop(shard))
            shard += 1
        self._next[position] = shard
        if shard < self._own.stop:
            return False
        self._missing -= 1
        return not self._missing

    def end(self, shard: int) -> bool:
        """Treat gradients that a shard has not added as zeros. Returns whether the bucket is now complete."""
        done = False
        for position, next_shard in self._next.items():
            if next_shard <= shard and shard not in self._waiting.get(position, ()):
                done |= self.add(shard, position, None)
        return done

    @property
    def is_single(self) -> bool:
        """Whether the bucket is for a single parameter."""
        return len(self.slices) == 1

    def sums(self, writable: bool = False) -> list[np.ndarray]:
        """Return the sum for each of `nodes`, once all shards have been added.

        Unless `writable` is set, the gradient of a bucket for a single parameter is returned without a copy.
        """
        return [self._node_sum(depth, writable) for depth in range(len(self.nodes))]

    def _node_sum(self, depth: int, writable: bool) -> np.ndarray:
        if self.is_single and not writable:
            (sums,) = self._partial.values()
            only = sums[depth]
            if only is not None and only.flags.c_contiguous:
                return only
        row = self._row(depth)
        for position, place in self.slices.items():
            own = self._partial[position][depth]
            if own is None:
                row[place] = 0
            elif own.base is not row:
                row[place] = own
        return row

    def release_memory(self) -> None:
        """Give up the memory, which the caller keeps; the next step allocates its own."""
        self._rows.clear()
        self.clear()

    def _add(self, shard: int, position: int, gradient: _Sum) -> None:
        """Add the next gradient of a parameter to the sums of all subtrees whose last leaf it is."""
        sums, count = self._partial[position], self._merge_counts[shard]
        if not count:
            sums.append(gradient)
            return
        operands = [*sums[-count:], gradient]
        del sums[-count:]
        if all(each is None for each in operands):
            sums.append(None)
            return
        out = self._row(len(sums))[self.slices[position]]
        self._sum(operands, out)
        sums.append(out)

    def _sum(self, operands: Sequence[_Sum], out: np.ndarray) -> None:
        """out = operands[0] + (operands[1] + (operands[2] + …)), block by block; out may be operands[0]."""
        *others, last = [np.zeros(out.size, self.dtype) if each is None else each for each in operands]
        if len(others) > 1 and self._block.size < min(out.size, BLOCK):
            self._block = np.empty(min(self.size, BLOCK), self.dtype)
        for low in range(0, out.size, BLOCK):
            block = slice(low, low + BLOCK)
            part = last[block]
            for each in others[:0:-1]:
                part = np.add(each[block], part, out=self._block[: part.size])
            np.add(others[0][block], part, out=out[block])

    def _row(self, depth: int) -> np.ndarray:
        """Return the memory for the sums at this depth of the stack of subtrees."""
        if depth not in self._rows:
            self._rows[depth] = np.empty(self.size, self.dtype)
        return self._rows[depth]


def make_buckets(
    shapes: Sequence[_Shape], dtypes: Sequence[np.dtype], own: range, shards: int, max_bytes: int
) -> list[Bucket]:
    """Assign parameters to buckets, in the order in which the buckets will be complete: the last parameters first.

    A parameter of more than a quarter of `max_bytes` gets its own bucket, whose gradient is sent without a copy. The
    others share buckets of at most `max_bytes`.
    """
    found: list[Bucket] = []
    open_buckets: dict[np.dtype, Bucket] = {}
    for position in range(len(shapes) - 1, -1, -1):
        dtype, size = dtypes[position], int(np.prod(shapes[position]))
        separate = 4 * size * dtype.itemsize > max_bytes
        bucket = None if separate else open_buckets.get(dtype)
        if bucket is None or (bucket.size and (bucket.size + size) * dtype.itemsize > max_bytes):
            bucket = Bucket(dtype, own, shards)
            found.append(bucket)
            if not separate:
                open_buckets[dtype] = bucket
        bucket.append(position, size)
    return sorted(found, key=lambda bucket: min(bucket.slices), reverse=True)


# ---- GradBucket, the argument of communication hooks, with the names of torch.distributed ---------------------------


class GradBucket:
    """This process's gradients of some neighboring parameters, in contiguous memory."""

    def __init__(
        self, buffer: Tensor, index: int, last: bool, parameters: Sequence[Tensor], slices: Sequence[slice]
    ) -> None:
        self._buffer, self._index, self._last = buffer, index, last
        self._parameters, self._slices = list(parameters), list(slices)

    def index(self) -> int:
        """Return the index of the bucket in the order of sending; the bucket of the last parameters comes first."""
        return self._index

    def is_last(self) -> bool:
        """Return whether this is the last bucket of a backward."""
        return self._last

    def buffer(self) -> Tensor:
        """Return all gradients of the bucket, as one flat tensor."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Replace ``buffer``."""
        self._buffer = tensor

    def parameters(self) -> list[Tensor]:
        """Return the parameters, in the order of their gradients."""
        return self._parameters

    def gradients(self) -> list[Tensor]:
        """Return the gradient of each parameter, as views of ``buffer``."""
        array = self._buffer.array
        return [
            wrap(array[place].reshape(parameter.array.shape))
            for parameter, place in zip(self._parameters, self._slices, strict=True)
        ]


class HookExchange:
    """The exchange of one bucket by a hook; it has the interface of Exchange.

    trained: the parameters. index: the index of the bucket; count: the number of buckets.
    """

    def __init__(
        self, hook: Callable[..., Any], state: Any, trained: Sequence[Tensor], bucket: Bucket, index: int, count: int
    ) -> None:
        self._hook, self._state, self._bucket = hook, state, bucket
        self._trained, self._index, self._last = trained, index, index == count - 1
        self._total: np.ndarray | None = None  # the result of the hook
        self._future: Any = None

    def begin(self, scale: float, tag: int) -> None:
        """Call the hook. `scale` and `tag` are ignored: the hook averages and communicates itself."""
        (own,) = self._bucket.sums(writable=True)
        slices: Mapping[int, slice] = self._bucket.slices
        parameters = [self._trained[position] for position in slices]
        bucket = GradBucket(wrap(own), self._index, self._last, parameters, [*slices.values()])
        self._total, self._future = None, self._hook(self._state, bucket)
        if not isinstance(self._future, Future):
            raise TypeError(
                f"register_comm_hook: the hook {_name(self._hook)} returned {type(self._future).__name__}, expected a "
                "Future of a Tensor, such as work.get_future().then(...)"
            )

    def advance(self) -> bool:
        """Advance as far as possible without waiting. Returns whether the exchange is done."""
        return self._total is not None or bool(self._future.done() and self._store())

    def wait(self) -> float:
        """Wait for the end. Returns the seconds spent waiting."""
        start = perf_counter()
        self._future.wait()
        self._store()
        return perf_counter() - start

    def take(self) -> np.ndarray:
        """Return the result and drop the reference to it; may be called once."""
        total, self._total = self._total, None
        assert total is not None
        return total

    def _store(self) -> bool:
        """Store the result of the hook."""
        if self._total is not None:
            return True
        found = self._future.value()
        if isinstance(found, (list, tuple)) and len(found) == 1:
            (found,) = found
        if not isinstance(found, Tensor) or found.array.size != self._bucket.size:
            raise TypeError(
                f"register_comm_hook: the hook {_name(self._hook)} produced {_kind(found)}, expected a Tensor of "
                f"{self._bucket.size} elements, as bucket.buffer() has"
            )
        self._total = found.array.reshape(-1).astype(self._bucket.dtype)
        return True


def _name(hook: Any) -> str:
    return getattr(hook, "__name__", repr(hook))


def _kind(value: Any) -> str:
    return f"a Tensor of shape {value.array.shape}" if isinstance(value, Tensor) else type(value).__name__
