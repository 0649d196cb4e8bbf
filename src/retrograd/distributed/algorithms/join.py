"""PyTorch's path to ``Join``: processes with different numbers of batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..gradients.data_parallel import DistributedDataParallel

__all__ = ["Join"]


class Join:
    """``with Join([model]):`` is ``with model.join():``.

    joinables: one DistributedDataParallel. enable, throw_on_early_termination, divide_by_initial_world_size: see there.

    Raises:
        TypeError: joinables is something else. ValueError: there are several.
    """

    def __init__(
        self,
        joinables: Sequence[DistributedDataParallel],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        divide_by_initial_world_size: bool = True,
    ) -> None:
        for place, each in enumerate(joinables):
            if not isinstance(each, DistributedDataParallel):
                raise TypeError(
                    f"Join: joinables[{place}] is {type(each).__name__}, expected a DistributedDataParallel; give all "
                    "processes as many batches, as DistributedSampler does, or use a plain optimizer"
                )
        if len(joinables) != 1:
            raise ValueError(f"Join: joinables has {len(joinables)} models, expected one; put them into one module")
        self._block: Any = joinables[0].join(divide_by_initial_world_size, enable, throw_on_early_termination)

    def __enter__(self) -> None:
        self._block.__enter__()

    def __exit__(self, *error: Any) -> Any:
        return self._block.__exit__(*error)
