"""Writing a file so that at every moment there is either the earlier one or the new one, whole.

A file is filled under a name that nobody else uses, made safe on the disk, and takes its place in one move. So writers
of one file do not meet; the last one to move has it. What a killed writer leaves is removed by the next one: a writer
holds a lock on its file, which the system gives back however the process ends.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: nothing is locked there
    fcntl = None

__all__ = ["NO_LINK", "UnconfirmedError", "lock", "why_not_written", "write_atomically"]

_UNFINISHED = ".retrograd-{}.tmp"
_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EISDIR)  # what fsync may answer
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # nor wait for the other end of a pipe


class UnconfirmedError(OSError):
    """The new file is in its place, but the disk reported a fault then: it may be gone after a power cut."""


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a new file in the folder of ``path``, and move it there when it is safe on the disk.

    If anything goes wrong, or the user interrupts, the new file is removed and what was at ``path`` is unchanged.

    Raises:
        OSError: the file could not be written; ``why_not_written`` says it in words.
    """
    _make(path.parent)
    _sweep(path.parent)
    temporary, file = _create(path.parent)
    moved = False
    try:
        with file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows moves no open file
            os.replace(temporary, path)
            moved = True
            _sync(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if moved and isinstance(error, OSError):
            raise UnconfirmedError(error.errno, error.strerror) from error
        raise


def why_not_written(path: Path, error: OSError) -> str:
    """One sentence about a failed ``write_atomically``."""
    if isinstance(error, UnconfirmedError):
        return (
            f"{path} was written, but the disk did not confirm it, so it may be lost in a power cut: {error.strerror}"
        )
    kept = "the earlier one is unchanged" if path.exists() else "there is no earlier one"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{path} was not written, {kept}: no space is left on the disk; free some, or choose another folder"
    return f"{path} was not written, {kept}: {error.strerror or error}"


def lock(handle: int) -> bool:
    """Lock an open file until it is closed; False if another process, or another opening of it, has the lock.

    Raises:
        OSError: files cannot be locked here.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _create(folder: Path) -> tuple[Path, BinaryIO]:
    """A new file, locked."""
    while True:
        path = folder / _UNFINISHED.format(os.urandom(8).hex())
        file = open(path, "xb")  # noqa: SIM115  x: what is there already, be it a link, is an error
        try:
            alone = lock(file.fileno())
        except OSError:
            return path, file
        if alone and os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()  # another process took it for one left behind, before the lock


def _sweep(folder: Path) -> None:
    """Remove what killed writers left: files that nobody has locked."""
    for path in folder.glob(_UNFINISHED.format("*")):
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR | NO_LINK)
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode) and lock(handle):
                    path.unlink()  # not the file itself if that was moved to its place meanwhile: then the name is gone
            finally:
                os.close(handle)


def _make(folder: Path) -> None:
    """Make the folder, and those above it, safe on the disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync(each.parent)


def _sync(folder: Path) -> None:
    """Make the names in a folder safe on the disk; where that cannot be asked for, the system does it by itself."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise
