"""Finds array computations, copies, reads and writes in the package outside of kernels.

A recording (``record_steps``) contains every kernel call as a step, and lists in ``reads`` the values that
``arrays/host.py`` reads. Anything else that touches elements is lost: a second run would keep the first run's elements.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import retrograd
import strict_array
from retrograd.arrays import allocation
from retrograd.kernel_set import Listener
from strict_array import Strict

PACKAGE = str(Path(retrograd.__file__).parent) + "/"
ARRAYS, READS = f"{PACKAGE}arrays/", f"{PACKAGE}arrays/host.py"


class Spy(Listener):
    """Context manager that counts accesses to the elements of strict arrays outside of kernels.

    places: the counts, by file, calling function and kind of access.
    """

    def __init__(self) -> None:
        self.places: Counter[tuple[str, str, str]] = Counter()
        self._kernels = 0

    def __enter__(self) -> Spy:
        strict_array.listeners.append(self._note)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        strict_array.listeners.remove(self._note)

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._kernels += 1
        try:
            return kernel(*args, **kwargs)
        finally:
            self._kernels -= 1

    def _note(self, what: str) -> None:
        frame: Any = None if self._kernels else sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file == READS:
                return
            if file.startswith(PACKAGE) and not file.startswith(ARRAYS):
                self.places[file.removeprefix(PACKAGE), frame.f_code.co_qualname, what] += 1
                return
            frame = frame.f_back


@contextmanager
def strict_by_default() -> Iterator[None]:
    """Make floating-point arrays from ``arrays/allocation.py`` strict within a block, unless they have one element."""
    with patch.object(allocation, "np", _StrictNumPy()):
        yield


class _StrictNumPy:
    """NumPy with strict arrays as the results of a few functions."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        return _strict(found) if name in ("array", "asarray", "empty", "eye", "full", "ones", "zeros") else found


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    def make(*args: Any, like: Any = None, **kwargs: Any) -> Any:
        if like is not None or any(isinstance(each, Strict) for each in args):
            return function(*args, like=like if like is not None else args[0], **kwargs)
        found = function(*args, **kwargs)
        # lists become host arrays until their dtype is known
        lists = function is np.asarray and args[1:] in ((), (None,))
        return found if lists or not found.ndim or found.dtype.kind != "f" else Strict(found)

    return make
