"""Compressed data files whose SHA-256 is known, and tables of images in them."""

from __future__ import annotations

import gzip
import hashlib
from importlib import resources

import numpy as np


def bundled(name: str, sha256: str) -> str:
    """The text of a data file of this package.

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
    """The text of a compressed file.

    Raises:
        RuntimeError: the file has another SHA-256.
    """
    digest = hashlib.sha256(packed).hexdigest()
    if digest != sha256:
        raise RuntimeError(f"{fault}: its SHA-256 is {digest}, expected {sha256}; {remedy}")
    return gzip.decompress(packed).decode("ascii")


def images_of(text: str, side: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, uint8 (N, side, side), and labels, int64 (N,): a line for each, the label last."""
    table = np.fromstring(text.replace("\n", ","), np.uint8, sep=",").reshape(-1, side * side + 1)
    return table[:, :-1].reshape(-1, side, side), table[:, -1].astype(np.int64)
