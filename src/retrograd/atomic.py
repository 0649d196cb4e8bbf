"""Writing a file so that at every moment there is either the earlier one or the new one, whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["why_not_written", "write_atomically"]


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a file beside ``path``, and move it there when it is safe on the disk.

    If anything goes wrong, or the user interrupts, that file is removed and what was at ``path`` is unchanged. After a
    power cut or a kill it may be left behind as ``path`` + ".tmp"; the next call overwrites it.

    Raises:
        OSError: the file could not be written; ``why_not_written`` says it in words.
    """
    temporary = path.with_name(path.name + ".tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def why_not_written(path: Path, error: OSError) -> str:
    """One sentence about a failed ``write_atomically``."""
    kept = "the earlier one is unchanged" if path.exists() else "there is no earlier one"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path} was not written, {kept}: no space is left on the disk; free some, or choose another folder"
    return f"{path} was not written, {kept}: {error.strerror or error}"


def _sync_folder(folder: Path) -> None:
    """Make the move itself safe; systems that cannot open a folder do it by themselves."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
