"""Per-shard state that other shards must not change: its random numbers and the module's buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from ...ops.random.random import default_generator
from ..processes.process_group import ProcessGroup
from .buffer_average import BufferAverage
from .shards import random_state_kept, random_state_of
from .turns import in_turn

T = TypeVar("T")


def run_shards(
    group: ProcessGroup,
    shards: int,
    jobs: Mapping[int, Callable[[], T] | None],
    numbers: tuple[int, ...],
    average: BufferAverage | None,
    together: bool,
    first_group: ProcessGroup | None = None,
    between: Callable[[], object] = lambda: None,
) -> dict[int, T]:
    """The results of the jobs, one for each shard of this process, None for one without samples. A shard has the random
    numbers of `numbers`, which are a seed and what tells steps apart, and begins with the buffers of before the batch;
    `average` takes what it makes of them, and the buffers are those of before the batch again.

    together: the shards need numbers of each other. first_group: the group before processes died. between: called
    when all shards have come to a place where they do.

    Raises:
        What a job raises, and what ``in_turn`` does; the buffers are those of before the batch then.
    """
    live = {shard: job for shard, job in jobs.items() if job is not None}
    found: dict[int, T] = {}
    try:
        if together:
            states = {shard: _State((*numbers, shard), average) for shard in live}
            found = in_turn(group, shards, live, lambda shard: states[shard].here(), first_group, between)
            if average is not None:
                for shard in jobs:
                    average.give(states[shard].buffers if shard in states else None)
                    average.take(shard)
        else:
            with random_state_kept():
                for shard in jobs:
                    if shard in live:
                        default_generator.bit_generator.state = random_state_of(*numbers, shard)
                        found[shard] = live[shard]()
                    if average is not None:
                        average.take(shard)
    except BaseException:
        if average is not None:
            average.undo()
        raise
    return found


class _State:
    """The state of a shard, kept while another one runs."""

    def __init__(self, numbers: tuple[int, ...], average: BufferAverage | None) -> None:
        self._average = average
        self.buffers: list[np.ndarray] | None = None
        self._random = random_state_of(*numbers)

    @contextmanager
    def here(self) -> Iterator[None]:
        """Within the block, the shard finds what it left."""
        outside = default_generator.bit_generator.state
        default_generator.bit_generator.state = self._random
        if self._average is not None:
            self._average.give(self.buffers)
        try:
            yield
        finally:
            self._random, default_generator.bit_generator.state = default_generator.bit_generator.state, outside
            if self._average is not None:
                self.buffers = self._average.copies()
