"""Reading a text file named by the user."""

from __future__ import annotations

from pathlib import Path

from .._files.untrusted import read_outside

_MOST = 256 * 1024**2  # bytes


def read_utf8(path: Path, error: type[ValueError]) -> str:
    """The text of a file, without a byte order mark.

    Raises:
        ValueError: of type ``error``: the file cannot be read, is not a regular file, is larger than 256 MiB, or is not
            UTF-8; the message says in which line.
    """
    try:
        content = read_outside(path, _MOST)
    except OSError as cause:
        raise error(f"{path} cannot be read: {cause.strerror or cause}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise error(f"{path}, line {line}: this is not UTF-8 text; save the file as UTF-8") from None
