"""Dropout masks shared by all pieces of a sequence that is computed in pieces.

Otherwise a layer draws its masks in every call. Within ``with masks:`` it reuses those of the first piece; the calls of
a module are counted from the start of the block, so the second call in a piece reuses the masks of the second call in
the first piece.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any

from ..engine.grad_mode import thread
from ..engine.recompute import Watch

__all__ = ["SequenceMasks", "masks_of", "start_sequence"]


class _Here(threading.local):
    masks: SequenceMasks | None = None


_here = _Here()


class SequenceMasks:
    """The masks drawn by the modules for one sequence."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[int, int], dict[str, Any]] = {}
        self._turns: dict[int, int] = {}  # per module: the number of sequences it has started within the block
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
                f"truncated: {type(module).__name__} uses one dropout mask for the whole sequence within "
                "utils.checkpoint, which would draw another mask when it recomputes; use checkpoint= of the recurrent "
                "layer"
            )
        key = id(module), self._turns.get(id(module), 0)
        self._used.add(key)
        return self._drawn.setdefault(key, {})


def masks_of(module: object, own: dict[str, Any]) -> dict[str, Any]:
    """The masks of the module's sequence by name; ``own`` outside of a sequence in pieces."""
    return own if _here.masks is None else _here.masks.of(module)


def start_sequence(module: object) -> bool:
    """Start a sequence of the module; whether its masks are shared by later pieces."""
    if _here.masks is None:
        return False
    _here.masks.begin(module)
    return True
