"""Disk cache of compiled kernels, and permission checks of its folder.

The folder is ``$RETROGRAD_CACHE_DIR``, else ``retrograd`` in the user's cache folder, else a temporary folder.
Below it, one folder per key: a hash of the sources of this package, of the versions of Python, Numba and llvmlite and
of the CPU. (Numba's own cache misses edits in another file or in an intrinsic.) A damaged file is not used.

Its files are executed, so they must be ours alone: a folder that others could change, or have changed, is not used, and
a message on stderr says so. On Windows nothing is checked: only the user can access a folder in the user's profile.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from .target import cpu

# ---- Whether another user could change a file, a folder, or a folder on its path ------------------------------------

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LONGEST_PATH = 1000  # folders and links


def is_own(status: os.stat_result) -> bool:
    """Whether a file belongs to this user and nobody else may write to it."""
    return sys.platform == "win32" or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_WRITE)


def tampering_risk(path: Path) -> str:
    """Explain how others could change the contents of ``path``, a subfolder of our own folder, or replace either.

    Empty if they cannot. Checked from the root down, so that nothing checked can be replaced later.
    """
    if sys.platform == "win32":
        return ""
    owners = {os.geteuid(), 0, os.stat("/").st_uid}  # in some containers root has another number
    for each in _passed(path):
        status = os.lstat(each)
        if status.st_uid not in owners:
            return f"{each} belongs to another user"
        # in a folder with the sticky bit, such as /tmp, only the owner of a file can move or remove it
        if stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_ISVTX and _others_write(status):
            return f"others may write to {each}"
    for each in (path.parent, path):
        if not is_own(os.stat(each)):
            return f"{each} belongs to another user, or others may write to it"
    return ""


def _others_write(status: os.stat_result) -> bool:
    """Whether somebody else may write to it; the user's private group, without other members, is allowed."""
    if not status.st_mode & stat.S_IWGRP or status.st_mode & stat.S_IWOTH:
        return bool(status.st_mode & _OTHERS_WRITE)
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(status.st_gid)
    except KeyError:
        return True
    return group.gr_name != user or not set(group.gr_mem) <= {user}


def _passed(path: Path) -> Iterator[Path]:
    """Yield every folder and every followed link on the path to ``path``, which is absolute."""
    here, ahead = Path(path.anchor), list(reversed(path.parts[1:]))
    yield here
    for _ in range(_LONGEST_PATH):
        if not ahead:
            return
        part = ahead.pop()
        if part == "..":
            here = here.parent
            continue
        yield here / part
        try:
            link = Path(os.readlink(here / part))
        except OSError:  # not a link
            here /= part
            continue
        if link.is_absolute():
            here = Path(link.anchor)
        ahead.extend(reversed(link.parts[link.is_absolute() :]))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


# ---- Compiled kernels on disk, one object file each, keyed by everything that their machine code depends on ---------

_DIGEST = hashlib.sha256().digest_size
_ABANDONED = 3600  # seconds after which a temporary file is the remains of a killed process
_CAREFULLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no links; no wait for a pipe's writer


def folder() -> Path:
    """The cache folder in use; it has one subfolder per key."""
    return _place().parent


def _preferred() -> Path:
    if chosen := os.environ.get("RETROGRAD_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path("~/Library/Caches/retrograd").expanduser()
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    return Path(base, "retrograd") if base else Path("~/.cache/retrograd").expanduser()


def _temporary() -> Path:
    return Path(tempfile.gettempdir()) / f"retrograd-{os.geteuid() if hasattr(os, 'geteuid') else 'cache'}"


@lru_cache(maxsize=1)
def key() -> str:
    """Sixteen hexadecimal digits that change when any compiled kernel could."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[3]
    for path in sorted(path for part in ("formulas", "kernels/compiled") for path in (package / part).rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    for fact in (sys.version, version("numba"), version("llvmlite"), str(object.__basicsize__), *cpu()):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def _place() -> Path:
    """The folder with the files of this key, made and checked."""
    refused = ""
    for name in (_preferred, _temporary):
        with suppress(OSError, RuntimeError):  # RuntimeError: a user without a home
            base = name()
            base.parent.mkdir(parents=True, exist_ok=True)
            base.mkdir(mode=0o700, exist_ok=True)
            path = base.absolute() / key()
            path.mkdir(mode=0o700, exist_ok=True)
            if fault := tampering_risk(path):
                refused = refused or fault
            elif os.access(path, os.W_OK):
                return _with_warning(path, refused)
    base = Path(tempfile.mkdtemp(prefix="retrograd-")).absolute()
    atexit.register(_remove, base, os.getpid())
    path = base / key()
    path.mkdir(mode=0o700)
    return _with_warning(path, refused)


def _with_warning(path: Path, refused: str) -> Path:
    if refused:
        print(
            f"retrograd: the cache folder is not used: {refused}, so that others could have their own machine code run "
            f"here; compiled kernels are kept in {path.parent} instead. Make it yours alone (chmod go-w), or set "
            "RETROGRAD_CACHE_DIR to another folder",
            file=sys.stderr,
            flush=True,
        )
    return path


def _remove(base: Path, process: int) -> None:
    if os.getpid() == process:  # not in a forked child
        shutil.rmtree(base, ignore_errors=True)


def _digest(name: str, body: bytes) -> bytes:
    """The digest of a file's content and name: a copy of the file of another kernel or CPU counts as damaged."""
    return hashlib.sha256(f"{key()}/{name}\n".encode() + body).digest()


def read(name: str) -> bytes | None:
    """The content stored under ``name``, or None if it is missing, damaged or not ours alone."""
    try:
        with open(_place() / name, "rb", opener=lambda path, flags: os.open(path, flags | _CAREFULLY)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not is_own(status):
                return None
            content = file.read()
    except OSError:
        return None
    body = content[_DIGEST:]
    return body if _digest(name, body) == content[:_DIGEST] else None


def has(name: str) -> bool:
    """Whether there is a file for ``name``; it may be damaged."""
    return os.path.exists(_place() / name)


def write(name: str, body: bytes) -> None:
    """Store ``body``; other processes see all of it or nothing. A full disk only means compiling again next time."""
    with suppress(OSError):
        _sweep()
        handle, temporary = tempfile.mkstemp(dir=_place(), suffix=".tmp")  # a new file, never a link
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(name, body) + body)
            os.replace(temporary, _place() / name)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


@lru_cache(maxsize=1)
def _sweep() -> None:
    """Remove files left by killed processes."""
    for path in _place().glob("*.tmp"):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > _ABANDONED:
                path.unlink()


def size() -> int:
    """Bytes in the cache folder, all keys together."""
    return sum(path.stat().st_size for path in folder().rglob("*") if path.is_file())
