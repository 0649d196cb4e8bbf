"""Checkpoints: everything a run needs to resume, in one file that a crash cannot damage.

A checkpoint is an uncompressed .npz file, so ``numpy.load(path, allow_pickle=False)`` opens it. Its entry ``metadata``
is JSON text (as bytes) with the format's name, its version and the tree of values. The arrays in the tree are separate
entries. ``sha256`` is the digest of all other entries. Nothing in a checkpoint is ever unpickled.

A checkpoint is written to a temporary file and renamed once it is safe on disk (retrograd._files.atomic).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._files.atomic import write_atomically
from .._files.formats import other_format
from .._files.state import brief, checked_bools, reason, text
from .._files.untrusted import STRICT_JSON, as_path, open_untrusted
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..ops.signatures import advised

__all__ = ["CheckpointError", "load_checkpoint", "save_checkpoint"]

_FORMAT, _VERSION = "retrograd checkpoint", 1
_ARRAY, _ITEMS = "__array__", "__items__"  # markers in the JSON tree
_Entries = dict[str, np.ndarray]
_MAX_BYTES = 64 * 1024**3
_MAX_METADATA = 64 * 1024**2  # bytes; as Python objects, metadata takes twenty times as much memory
_DEEPEST = 100  # levels of nested dicts and lists
# the header that write_array writes before an array's data
_HEADER = re.compile(rb"\{'descr': '([<>|][A-Za-z][0-9]*)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n")


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or cannot be used; the message says which and why."""


@advised
def save_checkpoint(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write ``state`` to ``path`` atomically: an existing file is kept until the new one is safe on disk.

    state: nested dicts (keys str or int) and lists of Tensors, arrays, numbers, strings and None.

    Raises:
        CheckpointError: the disk is full or the file cannot be written; an existing file is unchanged.
        TypeError: the state contains anything else.
        ValueError: a number is not finite, the state is nested more than 100 deep, or it has more than 64 MiB besides
            the arrays.
    """
    path = as_path("save_checkpoint", "path", path)
    entries: _Entries = {}
    tree = _pack(state, "", entries)
    content = json.dumps({"format": _FORMAT, "version": _VERSION, "state": tree}, allow_nan=False)
    entries["metadata"] = np.frombuffer(content.encode(), np.uint8)
    if entries["metadata"].size > _MAX_METADATA:
        raise ValueError(f"save_checkpoint: {len(content):,} bytes besides the arrays; store many numbers in arrays")
    entries["sha256"] = np.frombuffer(_digest(entries), np.uint8)
    try:
        write_atomically(path, lambda file: _write_entries(file, entries))
    except OSError as error:
        raise CheckpointError(f"checkpoint {error}") from error


@advised
def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a state written by ``save_checkpoint``, with arrays instead of Tensors; the file's integrity is checked.


    The state itself is not trusted: the caller must check its entries (retrograd._files.state).

    Raises:
        CheckpointError: there is no such file, or it is not a regular file, too large, not a checkpoint, truncated,
            changed, or of another version.
    """
    path = as_path("load_checkpoint", "path", path)
    try:
        with open_untrusted(path, _MAX_BYTES) as file:
            entries = _entries_of(path, file)
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such checkpoint") from None
    except OSError as error:
        raise CheckpointError(f"{path}: the checkpoint cannot be read: {error.strerror or error}") from error
    metadata = _metadata(path, entries)
    saved = entries.pop("sha256", np.empty(0, np.uint8)).tobytes()
    if saved != _digest(entries):
        raise CheckpointError(f"{path} was changed after it was written (SHA-256 differs); use an earlier checkpoint")
    try:
        state = _unpack(metadata["state"], entries)
        if not isinstance(state, dict):
            raise ValueError("the state is not a dict")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is not a checkpoint: its metadata does not match its arrays ({reason(error)})"
        ) from error
    return state


def _entries_of(path: Path, file: BinaryIO) -> _Entries:
    what = other_format(file, "checkpoint")
    file.seek(0)
    if what or file.read(4) != b"PK\x03\x04":
        raise CheckpointError(f"{path} is not a checkpoint{what and f': {what}'}")
    try:
        return _read_entries(file)
    except MemoryError:
        raise CheckpointError(f"{path} needs more memory than is available") from None
    except Exception as error:  # whatever the zip reader raises for an untrusted file
        raise CheckpointError(f"{path} is cut off or damaged: {reason(error)}; use an earlier checkpoint") from error


def _metadata(path: Path, entries: _Entries) -> Any:
    metadata = None
    if "metadata" in entries and entries["metadata"].size <= _MAX_METADATA:
        with suppress(ValueError, RecursionError):
            metadata = json.loads(entries["metadata"].tobytes().decode(), **STRICT_JSON)
    if not isinstance(metadata, dict) or metadata.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is not a checkpoint: it lacks the metadata of one")
    if metadata.get("version") != _VERSION:
        raise CheckpointError(
            f"{path} is a checkpoint of version {brief(metadata.get('version'))}, this retrograd reads version "
            f"{_VERSION}; use the retrograd that wrote it"
        )
    return metadata


# ---- The tree -------------------------------------------------------------------------------------------------------


def _pack(value: Any, path: str, entries: _Entries, depth: int = 0) -> Any:
    """Return the JSON form of value; its arrays are added to ``entries``, named after their path."""
    if depth > _DEEPEST:
        raise ValueError(f"save_checkpoint: the state is nested more than {_DEEPEST} deep, or contains itself")
    if isinstance(value, Tensor):
        value = value.array
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiub":
            raise TypeError(f"save_checkpoint: {path} is an array of {value.dtype}, expected numbers")
        name = path
        while name in entries or name in ("", "metadata", "sha256"):
            name += "_"
        entries[name] = value
        return {_ARRAY: name}
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_pack(item, f"{path}/{position}", entries, depth + 1) for position, item in enumerate(value)]
    if isinstance(value, Mapping):
        items = [
            (key, _pack(item, f"{path}/{key}" if path else str(key), entries, depth + 1)) for key, item in value.items()
        ]
        if all(isinstance(key, str) for key in value) and not value.keys() & {_ARRAY, _ITEMS}:
            return dict(items)
        if all(isinstance(key, (str, int)) for key in value):
            return {_ITEMS: items}
    raise TypeError(
        f"save_checkpoint: {path or 'state'} is {kind_name(value)}; a state may hold dicts with str or int keys, "
        "lists, Tensors, arrays, numbers, strings and None"
    )


def _unpack(tree: Any, entries: _Entries, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(tree, list):
        return [_unpack(item, entries, depth + 1) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.keys() == {_ARRAY}:
        return entries[text("an array's name", tree[_ARRAY])]
    if tree.keys() == {_ITEMS}:
        items = {}
        for key, item in tree[_ITEMS]:
            if isinstance(key, bool) or not isinstance(key, (str, int)) or key in items:
                raise ValueError(f"the key {brief(key)} is not a string or int, or is repeated")
            items[key] = _unpack(item, entries, depth + 1)
        return items
    return {key: _unpack(item, entries, depth + 1) for key, item in tree.items()}


# ---- The file -------------------------------------------------------------------------------------------------------


def _digest(entries: _Entries) -> bytes:
    digest = hashlib.sha256()
    for name in sorted(entries):
        array = entries[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(np.asarray(array, order="C").data.cast("B") if array.size else b"")
    return digest.digest()


def _write_entries(file: BinaryIO, entries: _Entries) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in entries.items():
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), (1, 0), allow_pickle=False)


def _read_entries(file: BinaryIO) -> _Entries:
    """Read every array of the file. Sizes in headers are checked against the file before memory is allocated."""
    entries: _Entries = {}
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(".npy"):
                raise ValueError(f"its entry {member.filename!r} does not belong to a checkpoint")
        if sum(max(member.file_size, member.compress_size) for member in members) > size:
            raise ValueError("its entries claim to be larger than the file")  # or overlap
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in entries:
                raise ValueError(f"its entry {name!r} is repeated")
            entries[name] = _array(name, archive.read(member))  # checks the entry's CRC
    return entries


def _array(name: str, content: bytes) -> np.ndarray:
    """Parse the array of an entry: a .npy file of version 1.0, as write_array writes it."""
    begin = 10 + int.from_bytes(content[8:10], "little")
    header = _HEADER.fullmatch(content[10:begin])
    if content[:8] != b"\x93NUMPY\1\0" or header is None:
        raise ValueError(f"its entry {name!r} is not an array of a checkpoint")
    dtype = np.dtype(header[1].decode())
    if dtype.kind not in "fiub":
        raise ValueError(f"its entry {name!r} holds {dtype}, expected numbers")
    shape = tuple(int(extent) for extent in header[2].decode().split(",") if extent.strip())
    if math.prod(shape) * dtype.itemsize != len(content) - begin:
        raise ValueError(f"its entry {name!r} does not have the size of its shape")
    return checked_bools(name, np.frombuffer(content, dtype, offset=begin).reshape(shape))
