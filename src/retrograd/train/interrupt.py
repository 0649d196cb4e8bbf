"""Ctrl-C and kill: stop after the step under way instead of in its middle."""

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
    """While the block runs, the first SIGINT or SIGTERM is noted in ``number``; a second Ctrl-C interrupts at once."""

    number: int | None = None

    def __enter__(self) -> StopRequest:
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
        # not print(): the signal may have come in the middle of one
        os.write(2, b"\nstopping after this step; Ctrl-C again stops at once\n")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
