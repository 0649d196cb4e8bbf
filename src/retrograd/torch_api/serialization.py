"""PyTorch's ``torch.serialization``: saving, loading, and the list of classes that a file may name.

Loading executes nothing here, so the list opens nothing: a file that holds objects of such classes is refused with it
as without it. It can be written and read, for scripts that keep one.
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
    """Add classes and functions, or pairs of one and its name, to the list. What ``load`` reads stays the same.

    Raises:
        TypeError: an entry is neither.
    """
    entries = list(safe_globals)
    for entry in entries:
        pair = isinstance(entry, tuple) and len(entry) == 2 and callable(entry[0]) and isinstance(entry[1], str)
        if not pair and not callable(entry):
            raise TypeError(
                f"add_safe_globals: {type(entry).__name__} is no class, no function, and no pair of one and a name"
            )
    _listed.extend(entry for entry in entries if entry not in _listed)


def get_safe_globals() -> list[_Entry]:
    """The list."""
    return list(_listed)


def clear_safe_globals() -> None:
    """Empty the list."""
    _listed.clear()


@contextmanager
def safe_globals(safe_globals: Iterable[_Entry]) -> Iterator[None]:
    """Within the block, entries are on the list. What ``load`` reads stays the same.

    Raises:
        TypeError: an entry is neither a class or a function, nor a pair of one and its name.
    """
    before = get_safe_globals()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _listed[:] = before
