"""Reading a file of text that a user named."""

from __future__ import annotations

from pathlib import Path

from ..outside import read_outside

_MOST = 256 * 1024**2  # bytes


def read_utf8(path: Path, error: type[ValueError]) -> str:
    """The text of a file, without a mark of the byte order.

    Raises:
        ValueError: of the type ``error``: the file cannot be read, is no regular file or more than 256 MiB, or is no
            UTF-8; says in which line.
    """
    try:
        content = read_outside(path, _MOST)
    except OSError as cause:
        raise error(f"{path} cannot be read: {cause.strerror or cause}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise error(f"{path}, line {line}: this is no UTF-8 text; save the file as UTF-8") from None
