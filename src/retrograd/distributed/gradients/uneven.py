"""Processes with different numbers of batches: what those that have no more do while the others go on.

Before each forward and each exchange of gradients, the processes within ``join`` tell each other what they are about to
do. Those without a batch do their part of it: they send zeros.

Source: torch.distributed.algorithms.join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...engine.aliasing import mark
from ..collectives.objects import from_root
from ..errors import DistError
from ..processes.entered import calls as calls_of
from ..processes.entered import difference, ranks_text
from .parts import parts_of
from .tree import share

if TYPE_CHECKING:
    from .data_parallel import DistributedDataParallel

_CALLER = "DistributedDataParallel.join"
_FORWARD, _AVERAGED = f"{_CALLER}: a forward", f"{_CALLER}: a forward that changes buffers"
_BACKWARD, _ENDED = f"{_CALLER}: the backward of forward", f"{_CALLER}: no batch is left"


class Uneven:
    """The coordination of processes with different numbers of batches within ``join``.

    by_all: the gradients are divided by the number of all processes, not of those that have a batch. throws: the first
    process without a batch ends the block in all processes.
    """

    def __init__(self, parallel: DistributedDataParallel, by_all: bool, throws: bool) -> None:
        self._parallel, self._group, self._by_all, self._throws = parallel, parallel.process_group, by_all, throws
        self._active = list(range(self._group.size()))  # the ranks that had a batch at the last call
        self._ahead: list[int] = []  # those that were alone with the last batch

    def forward(self, averaged: bool) -> None:
        """This process begins a forward, in which it averages buffers or not."""
        self._say(_AVERAGED if averaged else _FORWARD)

    def backward(self, step: int) -> None:
        """This process begins an exchange of the gradients of a forward."""
        self._say(f"{_BACKWARD} {step}")

    @property
    def divisor(self) -> int:
        """By which the sum of the processes' gradients is divided."""
        return self._group.size() if self._by_all else len(self._active)

    def shards(self) -> int:
        """The number of shards that have a part of the batch."""
        return sum(len(share(self._parallel.shards, self._group.size(), rank)) for rank in self._active)

    def end(self) -> None:
        """Go on without a batch until nobody has one; then take the parameters and buffers of one who had the last."""
        while (call := self._say(_ENDED)) is not None:
            if call.startswith(_BACKWARD):
                self._send_zeros(int(call.removeprefix(_BACKWARD)))
            else:
                self._leave_buffers(call == _AVERAGED)
                self._parallel.steps += 1
        if self._ahead:
            self._take_from(self._ahead[0])

    def _say(self, own: str) -> str | None:
        """Announce `own` and return the call of the processes that have a batch; None if there are none.

        Raises:
            DistError: some do something that those without a batch cannot take part in. RuntimeError: `throws`, and a
            process has no batch.
        """
        self._parallel.finish_average()
        entered, rows = self._group.say(own)
        calls = dict(enumerate(calls_of(rows)))
        active = [rank for rank, call in calls.items() if call != _ENDED]
        found = {calls[rank] for rank in active}
        if len(found) > 1 or not all(call.startswith((_FORWARD, _BACKWARD)) for call in found):
            raise DistError(
                f"{_CALLER}: the processes do different things: {difference(rows)}; a process without a batch takes "
                "part in forward and backward of this model alone: call other collectives after the block"
            )
        if not active:
            return None
        ended = [rank for rank in calls if rank not in active]
        if ended and self._throws:
            raise RuntimeError(f"{_CALLER}: {ranks_text(ended)} has no batch left, and throw_on_early_termination=True")
        self._active, self._ahead = active, active if ended else []
        self._group.all_entered(entered)
        return found.pop()

    def _send_zeros(self, step: int) -> None:
        reducer = self._parallel.reducer(parts_of(self._parallel.module))
        reducer.start(1.0, step)
        for shard in reducer.own:
            reducer.end(shard)
        reducer.finish()

    def _leave_buffers(self, averaged: bool) -> None:
        parts = parts_of(self._parallel.module)
        own = self._parallel.reducer(parts).own
        if averaged and (average := self._parallel.average(parts)) is not None:
            for shard in own:
                average.take(shard)
            self._parallel.keep_average(average)

    def _take_from(self, rank: int) -> None:
        module = self._parallel.module
        tensors = [*module.parameters(), *module.buffers()]
        own = [tensor.detach() for tensor in tensors]
        for tensor, other in zip(tensors, from_root(self._group, own, rank, f"{_CALLER}: parameters"), strict=True):
            tensor.array[...] = other.array
        mark([tensor.array for tensor in tensors], _CALLER)
