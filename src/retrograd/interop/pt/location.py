"""Checks of ``map_location``, where the CPU is the only device and everything is loaded to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...ops.memory.device import as_device, device

__all__ = ["StoredNumbers", "checked_location"]


class StoredNumbers:
    """A storage on the CPU, as passed to a function given as map_location."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes_ = nbytes

    def nbytes(self) -> int:
        return self.nbytes_

    def cpu(self) -> StoredNumbers:
        return self

    def cuda(self, *args: Any, **kwargs: Any) -> StoredNumbers:
        """Raises:
        RuntimeError: there is no such device.
        """
        raise RuntimeError("load: map_location moves a storage to CUDA, but there is one device, the CPU; use 'cpu'")


def checked_location(map_location: Any) -> Callable[[str, int], None]:
    """A check of where a storage shall go, given where it was saved and its bytes.

    Raises:
        TypeError: map_location is no device, string, function or dict.
        RuntimeError: it is a device that is not here.
    """
    if map_location is None:
        return lambda location, nbytes: None
    if isinstance(map_location, Mapping):
        targets = dict(map_location)

        def follow(location: str, nbytes: int) -> None:
            if location in targets:
                as_device("load: map_location", targets[location])

        return follow
    if callable(map_location):

        def ask(location: str, nbytes: int) -> None:
            storage = StoredNumbers(nbytes)
            moved = map_location(storage, location)
            if moved is not None and moved is not storage:
                raise TypeError(
                    f"load: map_location returned {type(moved).__name__}, expected the storage it was given, or None"
                )

        return ask
    if not isinstance(map_location, (str, device)):
        kind = type(map_location).__name__
        raise TypeError(f"load: map_location is {kind}; it must be a device, its name, a function or a dict")
    as_device("load: map_location", map_location)
    return lambda location, nbytes: None
