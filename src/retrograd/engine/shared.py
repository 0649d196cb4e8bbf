"""The lock for what threads share: the gradients of leaves, and the notes of changes in place."""

from __future__ import annotations

import os
import threading


class _Shared:
    """``with shared.lock:`` lets one thread at a time in; it may enter again."""

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.RLock()


shared = _Shared()
if hasattr(os, "register_at_fork"):
    # the thread that held it is not in the child
    os.register_at_fork(after_in_child=lambda: setattr(shared, "lock", threading.RLock()))
