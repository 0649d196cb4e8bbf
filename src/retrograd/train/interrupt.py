"""Ctrl-C and kill: stop after the current step instead of in the middle of it."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopRequest", "Stopped"]


class Stopped(Exception):  # noqa: N818  not an error: the user asked for it
    """Training stopped on request, after a step and with a checkpoint."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number  # the shell's convention: 130 after Ctrl-C


class StopRequest:
    """Within the block, the first SIGINT or SIGTERM is stored in ``number``; a second Ctrl-C interrupts at once."""

    number: int | None = None

    def __enter__(self) -> StopRequest:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # the only thread that may set handlers
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._record)
        return self

    def _record(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
        # not print(): the signal may have interrupted one
        os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
