"""Compiled kernels on disk, one object file each, keyed by everything that their machine code depends on.

The folder is ``$RETROGRAD_CACHE_DIR``, else ``retrograd`` in the user's cache folder, else a temporary folder.
Below it, one folder per key: a hash of the sources of this package, of the versions of Python, Numba and llvmlite and
of the CPU. (Numba's own cache does not see an edit in another file or in an intrinsic.) A file that is damaged is not
used.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from .target import cpu

_DIGEST = hashlib.sha256().digest_size


def folder() -> Path:
    """The cache folder, whether or not it exists yet."""
    if chosen := os.environ.get("RETROGRAD_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "retrograd"
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "retrograd"


@lru_cache(maxsize=1)
def key() -> str:
    """Sixteen hexadecimal digits that change when any compiled kernel could."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    for fact in (sys.version, version("numba"), version("llvmlite"), str(object.__basicsize__), *cpu()):
        digest.update(fact.encode() + b"\0")
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def _writable() -> Path:
    for base in (
        folder(),
        Path(tempfile.gettempdir()) / f"retrograd-{os.getuid() if hasattr(os, 'getuid') else 'cache'}",
    ):
        path = base / key()
        with suppress(OSError):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if os.access(path, os.W_OK):
                return path
    return Path(tempfile.mkdtemp(prefix="retrograd-"))


def read(name: str) -> bytes | None:
    """The content stored under ``name``, or None when there is none or it is damaged."""
    try:
        content = (_writable() / name).read_bytes()
    except OSError:
        return None
    body = content[_DIGEST:]
    return body if hashlib.sha256(body).digest() == content[:_DIGEST] else None


def write(name: str, body: bytes) -> None:
    """Store ``body``; other processes see all of it or nothing. A full disk only means compiling again next time."""
    with suppress(OSError):
        handle, temporary = tempfile.mkstemp(dir=_writable(), suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(body).digest() + body)
            os.replace(temporary, _writable() / name)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def size() -> int:
    """Bytes in the cache folder, all keys together."""
    return sum(path.stat().st_size for path in folder().rglob("*") if path.is_file())
