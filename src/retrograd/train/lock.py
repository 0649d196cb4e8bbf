"""A lock that allows one run at a time in a folder."""

from __future__ import annotations

import os
import re
import socket
import stat
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from .._files.atomic import NO_LINK, lock, writing
from .checkpoint import CheckpointError

__all__ = ["InUseError", "RunLock"]

_NAME = "run.lock"
_HOLDER = re.compile(rb"process \d{1,10} on [\w.-]{1,100}\n")


class InUseError(CheckpointError):
    """Another run is using the folder."""


class RunLock:
    """Keeps other runs out of ``folder`` until ``close`` or until this process ends in any way.

    The operating system holds and releases the lock. The file ``run.lock`` names its holder for the error message of
    other runs. ``close`` removes the file, and the folder if it was created for the run and is empty. On a file system
    without locks this does nothing.

    Raises:
        InUseError: another run is using the folder; the message says which process.
        CheckpointError: the lock file cannot be created; the message names what is in its way.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder: Path = Path(folder)
        self._path = self.folder / _NAME
        self._created = [each for each in (self.folder, *self.folder.parents) if not each.exists()]
        self._handle: int | None = None
        try:
            with writing(self._path):
                self._take()
        except OSError as error:
            self.close()
            raise CheckpointError(self._in_the_way() or str(error)) from error
        except InUseError:
            self.close()
            raise
        _held.add(self)

    def _take(self) -> None:
        while self._handle is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                handle = os.open(self._path, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
            except FileNotFoundError:  # another run removed the folder it had created
                continue
            try:
                if not _lock(handle):
                    raise InUseError(
                        f"another run is training in {self.folder}, {_holder(handle)}; wait until it ends, or choose "
                        "another folder"
                    )
                status = os.fstat(handle)
                if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
                    raise OSError("it is not a regular file, or has another hard link")
                if self._is_current(handle):
                    self._handle = handle
            finally:
                if self._handle is None:
                    os.close(handle)
        with suppress(OSError):  # a full disk
            os.ftruncate(self._handle, 0)
            os.write(self._handle, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def _in_the_way(self) -> str:
        """Describe a link or a folder that is in the way of the lock file; empty if there is none."""
        for each in (self._path, *self._path.parents):
            if each.is_symlink() and (each == self._path or not each.exists()):
                return f"{each} is a symbolic link, which a run does not follow; remove it, or choose another folder"
        if self._path.is_dir():
            return f"{self._path} is a folder, and a run needs a file there; remove it, or choose another folder"
        return ""

    def _is_current(self, handle: int) -> bool:
        """Return whether the path is still the locked file; a run that ends removes the path."""
        try:
            return os.path.samestat(os.fstat(handle), os.stat(self._path))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Release the lock."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                if self._is_current(handle):
                    self._path.unlink()
            os.close(handle)
        for each in self._created:
            with suppress(OSError):  # not empty
                each.rmdir()

    def abandon(self) -> None:
        """Drop the handle in a forked child, because the lock belongs to the parent."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle, self._created = None, []

    def __enter__(self) -> RunLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lock(handle: int) -> bool:
    try:
        return lock(handle)
    except OSError:  # locks are not supported here
        return True


def _holder(handle: int) -> str:
    text = os.read(handle, 200)
    return text.decode().strip() if _HOLDER.fullmatch(text) else "another process"


def _abandon_all() -> None:
    for each in list(_held):
        each.abandon()


_held: weakref.WeakSet[RunLock] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
