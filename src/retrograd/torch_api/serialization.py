"""``torch.serialization``: saving, loading, and PyTorch's list of safe globals.

Loading executes nothing here, so the list has no effect: a file with objects of listed classes is refused anyway.
Scripts that maintain such a list can write and read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..interop.pt import load, save
from .missing import attach_to_module

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

attach_to_module(__name__)

_Entry = Callable[..., Any] | tuple[Callable[..., Any], str]
_listed: list[_Entry] = []


def add_safe_globals(safe_globals: Iterable[_Entry]) -> None:
    """Add classes and functions, or pairs of one and its name, to the list. ``load`` does not change.

    Raises:
        TypeError: an entry is neither.
    """
    entries = list(safe_globals)
    for entry in entries:
        pair = isinstance(entry, tuple) and len(entry) == 2 and callable(entry[0]) and isinstance(entry[1], str)
        if not pair and not callable(entry):
            raise TypeError(
                f"add_safe_globals: {type(entry).__name__} is not a class, a function, or a pair of one and a name"
            )
    _listed.extend(entry for entry in entries if entry not in _listed)


def get_safe_globals() -> list[_Entry]:
    """Return the list of safe globals."""
    return list(_listed)


def clear_safe_globals() -> None:
    """Clear the list of safe globals."""
    _listed.clear()


@contextmanager
def safe_globals(safe_globals: Iterable[_Entry]) -> Iterator[None]:
    """Put entries on the list for the duration of a block. ``load`` does not change.

    Raises:
        TypeError: an entry is neither a class or a function, nor a pair of one and its name.
    """
    before = get_safe_globals()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _listed[:] = before
