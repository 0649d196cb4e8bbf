"""Meetings: numbers of all shards of a batch, which a layer needs while they are under way.

A layer that needs sums over the whole batch, as ``SyncBatchNorm`` does, hands in those of its shards and gets the
totals. They are combined in the fixed tree (tree.py), so they are the same bits for any number of processes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ..processes import mpi
from ..processes.process_group import ProcessGroup
from ..processes.waiting import wait
from .shards import bounds
from .tree import Node, add, add_up, share, subtrees

Combine = Callable[[np.ndarray, np.ndarray], None]


class Meeting:
    """The shards of this process and those of the others. Here its part of the batch is cut when it is in the layer;
    see turns.py for shards that run alone.
    """

    def __init__(self, group: ProcessGroup, shards: int) -> None:
        self.group = self.first_group = group  # before any process had died
        self.shards = shards
        self.leads = True  # of the shards here: changes what all of them share
        self.own = share(shards, group.size(), group.rank())

    def cuts(self, samples: int) -> list[slice]:
        """Return the slices that cut this process's samples into its shards."""
        ends = bounds(samples, len(self.own))
        return [slice(a, b) for a, b in zip(ends, ends[1:], strict=False)]

    def total(self, call: str, pieces: Sequence[np.ndarray], combine: Combine = add) -> np.ndarray:
        """Combine the arrays of all shards; `pieces` are those of this process's shards, of any MPI number type, and
        are used up. `call` must be the same in all processes.

        Raises:
            DistError: `call` differs. DistNetworkError: a process did not come in time. WorkerLostError: one has died.
        """
        return total(self.group, self.shards, dict(zip(self.own, pieces, strict=True)), call, combine)


class _Here(threading.local):
    meeting: Meeting | None = None


here = _Here()  # of the shard that this thread runs


def meeting_of(group: ProcessGroup, shards: int) -> Meeting:
    """The meeting of the shard that is running, or a new one."""
    return here.meeting or Meeting(group, shards)


def total(
    group: ProcessGroup, shards: int, pieces: Mapping[int, np.ndarray], call: str, combine: Combine
) -> np.ndarray:
    """Combine the arrays of all shards, of which this process has `pieces`; see ``Meeting.total``."""
    entered = group.agree(call)
    parts: dict[Node, np.ndarray] = {(shard, shard + 1): piece for shard, piece in pieces.items()}
    if group.comm is None:
        return add_up(parts, shards, combine=combine)
    own = np.stack(
        [add_up(parts, shards, node, combine) for node in subtrees(share(shards, group.size(), group.rank()), shards)]
    )
    nodes = [subtrees(share(shards, group.size(), rank), shards) for rank in range(group.size())]
    found = np.empty((sum(map(len, nodes)), *own.shape[1:]), own.dtype)
    counts = [len(each) * own[0].size for each in nodes]
    with mpi.errors(entered):
        request = group.comm.Iallgatherv(own, [found, counts])
    wait(group, [request], entered)
    everyone = [node for each in nodes for node in each]
    return add_up(dict(zip(everyone, found, strict=True)), shards, combine=combine)
