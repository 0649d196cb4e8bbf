"""Errors for unusable .pt files, and the limits on files and saved objects."""

from __future__ import annotations

import pickle

__all__ = ["MOST_DEPTH", "MOST_INT", "PTFileError", "Refused", "entry"]

MOST_DEPTH = 200  # levels of containers in containers
MOST_INT = 1024  # bytes of an integer


class PTFileError(pickle.UnpicklingError, RuntimeError, ValueError):
    """A .pt file is damaged, or holds what is not read; the message names the file, the place in it, and why.

    PyTorch raises the first or the second of these classes.
    """


class Refused(Exception):  # noqa: N818  it never leaves this folder
    """Why something is not read; the reader adds the file and the place."""


def entry(place: str, key: object) -> str:
    """The place of an entry of the container at ``place``, for a message: obj['model'][3]."""
    text = repr(key) if type(key) in (str, int, float, bool, type(None)) else type(key).__name__
    return f"{place}[{text if len(text) <= 80 else text[:80] + '...'}]"
