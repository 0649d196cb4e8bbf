"""Atomic file writes: at any time there is either the earlier file or the complete new one.

A file is written under a unique temporary name, synced to disk, and renamed. Concurrent writers therefore do not
interfere; the last rename wins. The next writer removes leftovers of killed writers: a writer holds a lock on its file,
which the system releases however the process ends.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows has no fcntl locks
    fcntl = None

__all__ = ["NO_LINK", "UnconfirmedError", "lock", "make_folder", "write_atomically", "writing"]

_TEMPORARY_NAME = ".retrograd-{}.tmp"
_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM, errno.EISDIR)  # fsync is unsupported
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # do not follow links or block on pipes


class UnconfirmedError(OSError):
    """Raised if the new file is in place but the disk then reported an error: the file may be lost in a power cut."""


# errno -> a sentence about the file at {path} in {folder}, with the way out
_REASONS = {
    errno.ENOSPC: "no space is left on the disk; free some, or choose another folder",
    errno.EDQUOT: "your disk quota is used up; free some space, or choose another folder",
    errno.EACCES: "you have no permission to create files in {folder}; change it, or choose another folder",
    errno.EPERM: "you have no permission to create files in {folder}; change it, or choose another folder",
    errno.EROFS: "the disk of {folder} is read-only; choose another folder",
    errno.ENOENT: "{folder} accepts no new files; choose another folder",
    errno.ENAMETOOLONG: "its name is too long; choose a shorter one",
}


def write_atomically(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let ``write`` fill a new file in the folder of ``path``, and rename it to ``path`` once it is safe on disk.

    On an error or interrupt, the new file is removed and an existing file at ``path`` is unchanged.

    Raises:
        OSError: the file could not be written; the message names the file, the reason and the way out.
    """
    with writing(path):
        _write(path, write)


def _write(path: Path, write: Callable[[BinaryIO], object]) -> None:
    make_folder(path.parent)
    _remove_leftovers(path.parent)
    temporary, file = _create_temporary(path.parent)
    moved = False
    try:
        with file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows cannot rename an open file
            os.replace(temporary, path)
            moved = True
            _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if moved and isinstance(error, OSError):
            raise UnconfirmedError(error.errno, error.strerror) from error
        raise


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Replace an OSError in the block by one of the same type that says in one sentence why ``path`` was not written.

    Raises:
        OSError: with this message.
    """
    try:
        yield
    except OSError as error:
        raise _explained(path, error) from error


def _explained(path: Path, error: OSError) -> OSError:
    if isinstance(error, UnconfirmedError):
        message = f"{path} was written, but the disk did not confirm it, so it may be lost in a power cut"
        number, explained = error.errno, cast(OSError, UnconfirmedError(f"{message}: {error.strerror}"))
    else:
        earlier = ", the earlier one is unchanged" if os.path.isfile(path) else ""
        number = errno.EISDIR if os.path.isdir(path) else error.errno
        kind = type(OSError(number or 0, ""))  # such as PermissionError
        explained = kind(f"{path} was not written{earlier}: {_reason(path, error)}")
    explained.errno = number
    return explained


def _reason(path: Path, error: OSError) -> str:
    if os.path.isdir(path):
        return "it is a folder; give the name of a file"
    for folder in path.parents:
        if os.path.exists(folder):
            if os.path.isdir(folder):
                break
            return f"{folder} is a file, not a folder; choose another folder"
    if error.errno in _REASONS:
        return _REASONS[error.errno].format(folder=path.parent)
    return f"{error.strerror or error}"


def lock(handle: int) -> bool:
    """Lock an open file until it is closed; False if another handle, here or in another process, has the lock.

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


def _create_temporary(folder: Path) -> tuple[Path, BinaryIO]:
    """Create a new, locked file."""
    while True:
        path = folder / _TEMPORARY_NAME.format(os.urandom(8).hex())
        file = open(path, "xb")  # noqa: SIM115  x: fail if the file or link exists
        try:
            alone = lock(file.fileno())
        except OSError:
            return path, file
        if alone and os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()  # another process mistook it for a leftover before it was locked


def _remove_leftovers(folder: Path) -> None:
    """Remove leftovers of killed writers: files that are not locked."""
    for path in folder.glob(_TEMPORARY_NAME.format("*")):
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR | NO_LINK)
            try:
                if stat.S_ISREG(os.fstat(handle).st_mode) and lock(handle):
                    path.unlink()  # if the file has been renamed meanwhile, this name no longer exists
            finally:
                os.close(handle)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, and sync them to disk.

    Raises:
        OSError: it could not be created.
    """
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    """Sync the entries of a folder to disk, where the system supports that."""
    try:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise
