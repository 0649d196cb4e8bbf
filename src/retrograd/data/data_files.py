"""Readers of bundled compressed tables and of the user's UTF-8 text files."""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources
from pathlib import Path

import numpy as np

from .._files.untrusted import read_untrusted

# ---- Compressed data files with a known SHA-256, and image tables ---------------------------------------------------


def bundled(name: str, sha256: str) -> str:
    """Return the text of a bundled data file.

    Raises:
        RuntimeError: the file is missing or damaged.
    """
    file = resources.files(__package__) / "files" / f"{name}.csv.gz"
    try:
        packed = file.read_bytes()
    except OSError as error:
        raise RuntimeError(f"{name}: the data file {file} cannot be read ({error}); install retrograd again") from None
    return unpacked(packed, sha256, f"{name}: the data file {file} is damaged", "install retrograd again")


def unpacked(packed: bytes, sha256: str, fault: str, remedy: str) -> str:
    """Decompress a file and return its text.

    Raises:
        RuntimeError: the SHA-256 of the file is not the expected one.
    """
    digest = hashlib.sha256(packed).hexdigest()
    if digest != sha256:
        raise RuntimeError(f"{fault}: its SHA-256 is {digest}, expected {sha256}; {remedy}")
    return gzip.decompress(packed).decode("ascii")


def images_of(text: str, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Parse images, uint8 (N, side, side), and labels, int64 (N,): one line per image, with the label last."""
    table = np.fromstring(text.replace("\n", ","), np.uint8, sep=",").reshape(-1, side * side + 1)
    return table[:, :-1].reshape(-1, side, side), table[:, -1].astype(np.int64)


# ---- The user's text files ------------------------------------------------------------------------------------------

_MAX_BYTES = 256 * 1024**2


def read_utf8(path: Path, error: type[ValueError]) -> str:
    """Return the text of a file, without a byte order mark.

    Raises:
        ValueError: of type ``error``: the file cannot be read, is not a regular file, is larger than 256 MiB, or is not
            UTF-8; the message names the line.
    """
    try:
        content = read_untrusted(path, _MAX_BYTES)
    except OSError as cause:
        raise error(f"{path} cannot be read: {cause.strerror or cause}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = content.count(b"\n", 0, cause.start) + 1
        raise error(f"{path}, line {line}: this is not UTF-8 text; save the file as UTF-8") from None
