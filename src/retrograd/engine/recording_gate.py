"""The gate between threads that record a call and threads that compute: a recording changes parameters for a moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic, sleep
from typing import Final


class Gate:
    """Lets no other thread run a compiled call or a backward pass while a call is recorded.

    is_used: whether any call may be recorded.
    """

    __slots__ = ("active", "is_used", "lock", "owner")  # a backward pass reads is_used

    is_used: bool

    def __init__(self, is_used: bool = False) -> None:
        self.is_used = is_used
        self.active: list[int] = []  # the thread of each compiled call and backward pass under way
        self.owner = 0  # the thread that records
        self.lock = Lock()

    def enter(self, thread: int) -> None:
        """Begin a compiled call or a backward pass, when no other thread records."""
        self.active.append(thread)
        while self.owner and self.owner != thread:
            own = [each for each in self.active if each == thread]  # several, within a function that runs as usual
            for each in own:
                self.active.remove(each)
            free = self.lock.acquire(timeout=_LONGEST)
            if free:
                self.lock.release()
            self.active += own
            if not free:  # the recorded function itself may wait for this thread
                return

    @contextmanager
    def alone(self, thread: int) -> Iterator[bool]:
        """Wait until no other thread is in one; False if that takes long."""
        if self.owner == thread:
            yield True
            return
        if not self.lock.acquire(timeout=_PATIENCE):
            yield False
            return
        self.owner, begin = thread, monotonic()
        try:
            while any(each != thread for each in self.active) and monotonic() - begin < _PATIENCE:
                sleep(0.001)
            yield all(each == thread for each in self.active)
        finally:
            self.owner = 0
            self.lock.release()


_PATIENCE, _LONGEST = 0.1, 30.0  # seconds
gate: Final = Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: gate.__init__(gate.is_used))  # type: ignore[misc]
