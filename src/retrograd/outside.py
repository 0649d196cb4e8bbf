"""Files from outside: regular ones only, opened without waiting, none beyond a stated size; and strict JSON."""

from __future__ import annotations

import errno
import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["STRICT_JSON", "open_outside", "read_outside"]

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def open_outside(path: str | Path, most: int) -> BinaryIO:
    """The file for reading, if it is a regular one of at most ``most`` bytes that fits into this machine's memory.

    What is there is looked at through the opened file: nobody can put another one in its place in between. A pipe is
    not waited for.

    Raises:
        OSError: it cannot be opened, is something else, or is larger; ``strerror`` says which.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            kind = next((name for is_kind, name in _KINDS if is_kind(found.st_mode)), "something else")
            raise OSError(errno.EINVAL, f"it is {kind}, expected a regular file", str(path))
        limit = min(most, _memory())
        if found.st_size > limit:
            raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes; at most {limit:,} are read", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_outside(path: str | Path, most: int) -> bytes:
    """The content of the file.

    Raises: as ``open_outside``.
    """
    with open_outside(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def _memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice in one JSON object")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    return value


# Keyword arguments of json.loads: a key that comes twice, NaN and numbers beyond a float are a ValueError.
STRICT_JSON: dict[str, Any] = {"object_pairs_hook": _once, "parse_float": _finite, "parse_constant": _finite}
