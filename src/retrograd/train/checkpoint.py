"""Checkpoints: everything a run needs to go on, in one file that a crash cannot damage.

A checkpoint is an uncompressed .npz: ``numpy.load(path, allow_pickle=False)`` opens it. Its entry ``metadata`` is JSON
text (as bytes) with the format's name, its version and the tree of values; the arrays in the tree are entries of their
own; ``sha256`` is the digest of all other entries. Nothing in it is ever unpickled.

It is written beside its place and moved there when it is safe on the disk (retrograd.atomic).
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..atomic import why_not_written, write_atomically
from ..engine.tensor import Tensor

__all__ = ["CheckpointError", "load_checkpoint", "save_checkpoint"]

_FORMAT, _VERSION = "retrograd checkpoint", 1
_ARRAY, _ITEMS = "__array__", "__items__"  # marks in the JSON tree
_Entries = dict[str, np.ndarray]


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, or a file is none that can be used; the message says which and why."""


def save_checkpoint(path: str | Path, state: Mapping[str, Any]) -> None:
    """Write ``state`` to ``path``, atomically: the file that was there stays until the new one is safe on the disk.

    state: dicts (keys str or int), lists, Tensors, arrays, numbers, strings and None, nested as you like.

    Raises:
        CheckpointError: the disk is full or the file cannot be written; what was at ``path`` is unchanged.
        TypeError: the state holds something else.
    """
    path = Path(path)
    entries: _Entries = {}
    tree = _pack(state, "", entries)
    text = json.dumps({"format": _FORMAT, "version": _VERSION, "state": tree}, allow_nan=False)
    entries["metadata"] = np.frombuffer(text.encode(), np.uint8)
    entries["sha256"] = np.frombuffer(_digest(entries), np.uint8)
    try:
        write_atomically(path, lambda file: _write_entries(file, entries))
    except OSError as error:
        raise CheckpointError(f"checkpoint {why_not_written(path, error)}") from error


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """The state that ``save_checkpoint`` wrote, with arrays in the place of Tensors; checked before any of it is used.

    Raises:
        CheckpointError: there is no such file; it is no checkpoint, cut off, changed, or of another version.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no such checkpoint") from None
    except OSError as error:
        raise CheckpointError(f"{path}: the checkpoint cannot be read: {error.strerror or error}") from error
    if not content.startswith(b"PK\x03\x04"):
        raise CheckpointError(f"{path} is no checkpoint: it is not a .npz file")
    try:
        entries = _read_entries(content)
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError, NotImplementedError, RuntimeError, OSError) as error:
        raise CheckpointError(f"{path} is cut off or damaged: {error}; use an earlier checkpoint") from error
    metadata = _metadata(path, entries)
    saved = entries.pop("sha256", np.empty(0, np.uint8)).tobytes()
    if saved != _digest(entries):
        raise CheckpointError(f"{path} was changed after it was written (SHA-256 differs); use an earlier checkpoint")
    try:
        return dict(_unpack(metadata["state"], entries))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is no checkpoint: its metadata does not match its arrays ({error!r})") from error


def _metadata(path: Path, entries: _Entries) -> Any:
    found = None
    if "metadata" in entries:
        with suppress(ValueError, RecursionError):
            found = json.loads(entries["metadata"].tobytes())
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise CheckpointError(f"{path} is no checkpoint: it has no metadata of one")
    if found.get("version") != _VERSION:
        raise CheckpointError(
            f"{path} is a checkpoint of version {found.get('version')!r}, this retrograd reads version {_VERSION}; "
            "use the retrograd that wrote it"
        )
    return found


# ---- the tree ----------------------------------------------------------------------------------------------------


def _pack(value: Any, path: str, entries: _Entries) -> Any:
    """The JSON form of value; its arrays go into ``entries`` under names that say where they belong."""
    if isinstance(value, Tensor):
        value = value.data
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
        return [_pack(item, f"{path}/{position}", entries) for position, item in enumerate(value)]
    if isinstance(value, Mapping):
        items = [(key, _pack(item, f"{path}/{key}" if path else str(key), entries)) for key, item in value.items()]
        if all(isinstance(key, str) for key in value) and not value.keys() & {_ARRAY, _ITEMS}:
            return dict(items)
        if all(isinstance(key, (str, int)) for key in value):
            return {_ITEMS: items}
    raise TypeError(
        f"save_checkpoint: {path or 'state'} is {type(value).__name__}; a state is made of dicts with str or int keys, "
        "lists, Tensors, arrays, numbers, strings and None"
    )


def _unpack(tree: Any, entries: _Entries) -> Any:
    if isinstance(tree, list):
        return [_unpack(item, entries) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.keys() == {_ARRAY}:
        return entries[tree[_ARRAY]]
    if tree.keys() == {_ITEMS}:
        return {key: _unpack(item, entries) for key, item in tree[_ITEMS]}
    return {key: _unpack(item, entries) for key, item in tree.items()}


# ---- the file ----------------------------------------------------------------------------------------------------


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


def _read_entries(content: bytes) -> _Entries:
    """Every array of the file. What a header claims is compared with what is there before memory is set aside."""
    entries: _Entries = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type != zipfile.ZIP_STORED or name == member.filename or name in entries:
                raise ValueError(f"its entry {member.filename!r} is none of a checkpoint")
            stream = io.BytesIO(archive.read(member))  # compares the entry's CRC
            if np.lib.format.read_magic(stream) != (1, 0):
                raise ValueError(f"its entry {name!r} is no array of a checkpoint")
            shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(stream)
            if dtype.kind not in "fiub" or fortran_order:
                raise ValueError(f"its entry {name!r} holds {dtype}, expected numbers")
            entries[name] = np.frombuffer(stream.read(), dtype).reshape(shape)
    return entries
