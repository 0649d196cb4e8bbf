"""Reading of untrusted files (regular files only, without blocking, up to a size limit), and strict JSON."""

from __future__ import annotations

import errno
import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["STRICT_JSON", "as_path", "open_untrusted", "read_untrusted"]

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def as_path(name: str, argument: str, path: Any) -> Path:
    """Return a str or Path as a Path.

    Raises:
        TypeError: path is neither.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name}: {argument} is {type(path).__name__}, needs a str or a Path")
    return Path(path)


def open_untrusted(path: str | Path, most: int) -> BinaryIO:
    """Open a regular file of at most ``most`` bytes that fits into this machine's memory.

    The checks use the open file, so that it cannot be replaced in between. Opening a pipe does not block.

    Raises:
        OSError: it cannot be opened, is not a regular file, or is too large; ``strerror`` gives the reason.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = os.fstat(handle)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            kind = next((name for is_kind, name in _KINDS if is_kind(status.st_mode)), "a special file")
            raise OSError(errno.EINVAL, f"it is {kind}, expected a regular file", str(path))
        limit = min(most, _machine_memory())
        if status.st_size > limit:
            raise OSError(errno.EFBIG, f"it has {status.st_size:,} bytes; the limit is {limit:,}", str(path))
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_untrusted(path: str | Path, most: int) -> bytes:
    """Return the content of the file.

    Raises: as for ``open_untrusted``.
    """
    with open_untrusted(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def _machine_memory() -> int:
    """Return the bytes of this machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key is repeated in a JSON object")
    return result


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


# Keyword arguments of json.loads: repeated keys, NaN and numbers beyond float raise ValueError.
STRICT_JSON: dict[str, Any] = {
    "object_pairs_hook": _without_repeated_keys,
    "parse_float": _finite,
    "parse_constant": _finite,
}
