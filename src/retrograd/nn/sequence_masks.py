"""Masks of dropout that are one for a whole sequence, where the sequence is computed in pieces.

Without pieces a layer draws its masks in every call. Within ``with masks:`` it finds those again that it drew the first
time; calls of one module count from the beginning of the block, so that the second call of a piece finds what the
second call of the first piece drew.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from ..engine.grad_mode import thread
from ..engine.recompute import Watch

__all__ = ["SequenceMasks", "begun", "masks_of"]


class _Here(threading.local):
    masks: SequenceMasks | None = None


_here = _Here()


class SequenceMasks:
    """What the modules of one sequence drew."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[int, int], dict[str, Any]] = {}
        self._turns: dict[int, int] = {}  # of each module: how many sequences it has begun within the block
        self._used: set[tuple[int, int]] = set()  # within the block
        self._outer: SequenceMasks | None = None

    def __enter__(self) -> None:
        self._turns, self._used = {}, set()
        self._outer, _here.masks = _here.masks, self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _here.masks, self._outer = self._outer, None

    def begin(self, module: object) -> None:
        key = id(module), self._turns.get(id(module), 0)
        if key in self._used:
            self._turns[id(module)] = key[1] + 1

    def of(self, module: object) -> dict[str, Any]:
        if isinstance(thread.mode.watch, Watch):
            raise RuntimeError(
                f"truncated: {type(module).__name__} drops by one mask for the whole sequence within "
                "utils.checkpoint, whose second run would not find the mask again; use checkpoint= of the recurrent "
                "layer"
            )
        key = id(module), self._turns.get(id(module), 0)
        self._used.add(key)
        return self._drawn.setdefault(key, {})


def masks_of(module: object, own: dict[str, Any]) -> dict[str, Any]:
    """The masks of the module's sequence, by names: ``own`` of a call outside of pieces."""
    return own if _here.masks is None else _here.masks.of(module)


def begun(module: object) -> bool:
    """Whether the masks of a module that begins a sequence last longer than its own call."""
    if _here.masks is None:
        return False
    _here.masks.begin(module)
    return True
