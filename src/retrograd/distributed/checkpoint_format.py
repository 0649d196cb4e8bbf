"""The files of a distributed checkpoint: the state tree, its division into pieces, and the metadata.

A node is a dict with one entry: {"dict": [[key, node], ...]}, {"list": [node, ...]}, {"tuple": [node, ...]},
{"tensor": name}, {"value": a number, a string, a bool or None} or {"float": "inf", "-inf" or "nan"}.

    metadata.json                     the tree of the state; each tensor's dtype, shape and pieces, with their SHA-256
    0123456789abcdef-00001-of-00003.pt   the pieces that rank 1 of 3 has written, as ``retrograd.save`` writes them

The first part of a file name is random, so a new checkpoint overwrites no file of the previous one. The metadata file
is renamed into place once all other files are safely on disk. Until then the folder contains the old checkpoint, and
from then on the new one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .._files.atomic import make_folder, write_atomically, writing
from .._files.state import brief, count, items, reason, table, text
from .._files.untrusted import STRICT_JSON, read_untrusted
from ..engine.arguments import kind_name
from ..engine.dtype import ALLOWED, OWN
from ..engine.tensor import Tensor
from ..interop.pt import PTFileError, load, save
from .errors import CheckpointException

# ---- The state tree: nested plain values that refer to tensors by name ----------------------------------------------

Node = dict[str, Any]
TensorSpec = tuple[str, tuple[int, ...]]  # dtype and shape

_MAX_DEPTH = 100  # nested containers
_NOT_FINITE = ("inf", "-inf", "nan")
_KIND_NAMES = {"dict": "a dict", "list": "a list", "tuple": "a tuple", "tensor": "a tensor"}


def build_node(value: Any, tensors: dict[str, np.ndarray], path: tuple[Any, ...] = ()) -> Node:
    """Return the node that represents a value, and add its tensors to ``tensors``.

    Raises:
        TypeError: the value contains something that a node cannot represent. ValueError: it is nested too deep, or two
            entries have one name.
    """
    where = f"checkpoint.save: state_dict{''.join(f'[{key!r}]' for key in path)}"
    if len(path) > _MAX_DEPTH:
        raise ValueError(f"{where} is nested more than {_MAX_DEPTH} deep")
    array = value.array if isinstance(value, Tensor) else value
    if isinstance(array, np.ndarray):
        name = "/".join(str(key).replace("%", "%25").replace("/", "%2F") for key in path)
        if name in tensors:
            raise ValueError(f"{where} has the name {name!r}, as another tensor has; a number and a string are one key")
        if array.dtype not in ALLOWED:
            raise TypeError(f"{where} is {array.dtype}; expected a dtype that a Tensor can have")
        tensors[name] = array
        return {"tensor": name}
    if isinstance(value, Mapping):
        for key in value:
            if isinstance(key, bool) or not isinstance(key, (str, int)):
                raise TypeError(f"{where} has the key {brief(key)}; expected keys of str or int")
        return {"dict": [[key, build_node(item, tensors, (*path, key))] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        nodes = [build_node(item, tensors, (*path, place)) for place, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": nodes}
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return {"float": str(plain)}
    if plain is None or isinstance(plain, (bool, int, float, str)):
        return {"value": plain}
    raise TypeError(
        f"{where} is {kind_name(value)}; expected tensors, numbers, strings, None, and dicts, lists and tuples of them"
    )


def check_node(node: Any, tensors: Mapping[str, object], depth: int = 0) -> None:
    """Check a node that was read from a file.

    Raises:
        ValueError: it is not a node, or it names a tensor that is not in ``tensors``.
    """
    if depth > _MAX_DEPTH + 1 or not isinstance(node, dict) or len(node) != 1:
        raise ValueError(f"{brief(node)} is not a node of a state")
    ((kind, held),) = node.items()
    if kind == "dict" and isinstance(held, list):
        for entry in held:
            if not isinstance(entry, list) or len(entry) != 2 or type(entry[0]) not in (str, int):
                raise ValueError(f"{brief(entry)} is not an entry of a dict")
            check_node(entry[1], tensors, depth + 1)
    elif kind in ("list", "tuple") and isinstance(held, list):
        for item in held:
            check_node(item, tensors, depth + 1)
    elif not (
        (kind == "tensor" and isinstance(held, str) and held in tensors)
        or (kind == "value" and (held is None or isinstance(held, (bool, int, float, str))))
        or (kind == "float" and held in _NOT_FINITE)
    ):
        raise ValueError(f"{brief(node)} is not a node of a state")


def merge(nodes: Sequence[tuple[int, Node]], place: str = "state_dict") -> Node:
    """Merge the nodes of several ranks: dicts get the keys of all ranks; other values are taken from the first rank.

    Raises:
        CheckpointException: at one place, the ranks have values of different kinds or lists of different lengths.
    """
    first, node = nodes[0]
    ((kind, held),) = node.items()
    container = kind in _KIND_NAMES
    for rank, other in nodes[1:]:
        ((other_kind, other_held),) = other.items()
        if (kind != other_kind and (container or other_kind in _KIND_NAMES)) or (
            kind in ("list", "tuple") and len(held) != len(other_held)
        ):
            raise CheckpointException(
                f"checkpoint.save: {place} is {describe_node(node)} in rank {first} and {describe_node(other)} in rank "
                f"{rank}"
            )
    if kind == "dict":
        found: dict[Any, list[tuple[int, Node]]] = {}
        for rank, other in nodes:
            for key, item in other["dict"]:
                found.setdefault(key, []).append((rank, item))
        return {"dict": [[key, merge(items, f"{place}[{key!r}]")] for key, items in found.items()]}
    if kind in ("list", "tuple"):
        rows = [[(rank, other[kind][k]) for rank, other in nodes] for k in range(len(held))]
        return {kind: [merge(row, f"{place}[{k}]") for k, row in enumerate(rows)]}
    return node


def describe_node(node: Node) -> str:
    ((kind, held),) = node.items()
    return f"{_KIND_NAMES[kind]} of {len(held)}" if kind in ("list", "tuple") else _KIND_NAMES.get(kind, brief(held))


# ---- Which rank writes what: large tensors are split by rows, small ones distributed by size ------------------------

_SPLIT_BYTES = 2**20  # bytes; a smaller tensor stays in one piece


@dataclass(frozen=True)
class Piece:
    """The rows ``first`` to ``end - 1`` of a tensor. A scalar counts as one row."""

    name: str
    first: int
    end: int

    def __str__(self) -> str:
        return f"{self.name}[{self.first}:{self.end}]"


def rows_of(shape: tuple[int, ...]) -> int:
    """Return the number of rows of a tensor."""
    return shape[0] if shape else 1


def as_rows(array: np.ndarray) -> np.ndarray:
    """Return the array; a scalar becomes one row."""
    return array if array.ndim else array.reshape(1)


def assign_pieces(
    tensors: Mapping[str, tuple[TensorSpec, Sequence[int]]], ranks: int, split: int = _SPLIT_BYTES
) -> list[list[Piece]]:
    """Return the pieces that each rank writes.

    tensors: name -> (dtype and shape, the ranks that have the tensor). split: bytes from which a tensor is split.

    The result depends only on the arguments, so all ranks compute the same one.
    """
    found: list[list[Piece]] = [[] for _ in range(ranks)]
    loads = [0] * ranks
    whole = []
    for name, ((dtype, shape), holders) in tensors.items():
        rows, size = rows_of(shape), math.prod(shape) * np.dtype(dtype).itemsize
        parts = min(len(holders), rows, -(-size // split))
        if parts < 2:
            whole.append((size, name, rows, holders))
            continue
        lightest = sorted(sorted(holders, key=lambda rank: (loads[rank], rank))[:parts])
        for part, rank in enumerate(lightest):
            piece = Piece(name, part * rows // parts, (part + 1) * rows // parts)
            found[rank].append(piece)
            loads[rank] += size * (piece.end - piece.first) // rows
    for size, name, rows, holders in sorted(whole, key=lambda entry: (-entry[0], entry[1])):
        rank = min(holders, key=lambda rank: (loads[rank], rank))
        found[rank].append(Piece(name, 0, rows))
        loads[rank] += size
    return found


def holders_of(specs: Sequence[Mapping[str, TensorSpec]]) -> dict[str, tuple[TensorSpec, list[int]]]:
    """Return name -> (dtype and shape, the ranks that have the tensor), for the tensors of all ranks.

    Raises:
        CheckpointException: two ranks have tensors of different shapes or dtypes under one name.
    """
    found: dict[str, tuple[TensorSpec, list[int]]] = {}
    for rank, own in enumerate(specs):
        for name, kind in own.items():
            first, holders = found.setdefault(name, (kind, []))
            if first != kind:
                raise CheckpointException(
                    f"checkpoint.save: {name} is {first[0]} {first[1]} in rank {holders[0]} and {kind[0]} {kind[1]} in "
                    f"rank {rank}; parts of a tensor need a different name in each rank"
                )
            holders.append(rank)
    return found


# ---- The checkpoint folder ------------------------------------------------------------------------------------------

METADATA = "metadata.json"
_FORMAT, _VERSION = "retrograd sharded checkpoint", 1
_MAX_METADATA_BYTES = 256 * 1024**2  # bytes of the metadata
_NAME = re.compile(r"[0-9a-f]{16}-[0-9]{5,}-of-[0-9]{5,}\.pt")
_DTYPES = {kind.name for kind in OWN}


@dataclass(frozen=True)
class StoredPiece:
    """A piece stored in a file."""

    piece: Piece
    file: str
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's metadata: the state tree, and each tensor's dtype, shape and pieces, which cover all rows."""

    node: Node
    specs: Mapping[str, TensorSpec]
    stored: Mapping[str, Sequence[StoredPiece]]


def file_name(token: str, rank: int, ranks: int) -> str:
    """Return the name of the file that a rank writes."""
    return f"{token}-{rank:05d}-of-{ranks:05d}.pt"


def write_pieces(path: Path, pieces: Sequence[Piece], arrays: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write pieces of some arrays to a file and return the SHA-256 of each.

    Raises:
        OSError: the file could not be written.
    """
    parts = {}
    for piece in pieces:
        part = as_rows(arrays[piece.name])[piece.first : piece.end]
        parts[f"{piece}"] = np.ascontiguousarray(part)
    if parts:
        with writing(path):
            make_folder(path.parent)
        save({name: Tensor(part) for name, part in parts.items()}, path)
    return {name: _digest(part) for name, part in parts.items()}


def write_metadata(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the metadata, which makes ``checkpoint`` the checkpoint of the folder.

    Raises:
        OSError: the metadata could not be written; the message says why.
        CheckpointException: the metadata is too large.
    """
    tensors = {
        name: {
            "dtype": kind[0],
            "shape": list(kind[1]),
            "pieces": [
                {"rows": [stored.piece.first, stored.piece.end], "file": stored.file, "sha256": stored.sha256}
                for stored in checkpoint.stored[name]
            ],
        }
        for name, kind in checkpoint.specs.items()
    }
    content = {"format": _FORMAT, "version": _VERSION, "state": checkpoint.node, "tensors": tensors}
    data = _serialize({**content, "sha256": hashlib.sha256(_serialize(content)).hexdigest()})
    if len(data) > _MAX_METADATA_BYTES:
        raise CheckpointException(
            f"checkpoint.save: the state without its tensors takes {len(data):,} bytes, the limit is "
            f"{_MAX_METADATA_BYTES:,}; store many numbers in tensors"
        )
    write_atomically(folder / METADATA, lambda file: file.write(data))


def remove_others(folder: Path, checkpoint: Checkpoint) -> None:
    """Remove the files of all other checkpoints, complete or not."""
    kept = {stored.file for pieces in checkpoint.stored.values() for stored in pieces}
    for path in folder.iterdir():
        if _NAME.fullmatch(path.name) and path.name not in kept:
            with suppress(OSError):
                path.unlink()


def read_metadata(folder: Path) -> Checkpoint:
    """Read the metadata of the checkpoint in a folder.

    Raises:
        CheckpointException: there is no checkpoint, or its metadata is truncated or changed; the message says which.
    """
    path = folder / METADATA
    try:
        content = json.loads(read_untrusted(path, _MAX_METADATA_BYTES).decode(), **STRICT_JSON)
    except FileNotFoundError:
        raise CheckpointException(f"{folder} has no checkpoint: there is no {METADATA}") from None
    except OSError as error:
        raise CheckpointException(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointException(f"{path} was cut off or damaged: {reason(error)}") from error
    try:
        return _checked(path, content)
    except (ValueError, RecursionError) as error:
        raise CheckpointException(f"{path} is not the metadata of a checkpoint: {reason(error)}") from error


def _checked(path: Path, content: Any) -> Checkpoint:
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT!r}")
    if content.get("version") != _VERSION:
        version = brief(content.get("version"))
        raise CheckpointException(f"{path} has version {version}, this retrograd reads {_VERSION}")
    digest = content.pop("sha256", None)
    if digest != hashlib.sha256(_serialize(content)).hexdigest():
        raise CheckpointException(f"{path} was changed after it was written (SHA-256 differs)")
    content = table({"format": text, "version": count(), "state": _unchecked, "tensors": _unchecked})("it", content)
    if not isinstance(content["tensors"], dict):
        raise ValueError("its tensors are not a dict")
    specs, stored = {}, {}
    for name, entry in content["tensors"].items():
        specs[name], stored[name] = _checked_tensor(f"tensor {brief(name)}", name, entry)
    check_node(content["state"], specs)
    return Checkpoint(content["state"], specs, stored)


def _checked_tensor(where: str, name: str, entry: Any) -> tuple[TensorSpec, list[StoredPiece]]:
    entry = table({"dtype": text, "shape": items(count()), "pieces": items(_unchecked)})(where, entry)
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"{where} has the dtype {brief(entry['dtype'])}, which a Tensor cannot have")
    shape = tuple(entry["shape"])
    found, first = [], 0
    for place, piece in enumerate(entry["pieces"]):
        which = f"piece {place} of {where}"
        piece = table({"rows": items(count(), 2), "file": text, "sha256": text})(which, piece)
        if not _NAME.fullmatch(piece["file"]):
            raise ValueError(f"{which} is in {brief(piece['file'])}, which is not the name of a file of a checkpoint")
        begin, end = piece["rows"]
        if begin != first or end < begin:
            raise ValueError(f"{which} has the rows {begin} to {end}, expected them to begin at {first}")
        first = end
        found.append(StoredPiece(Piece(name, begin, end), piece["file"], piece["sha256"]))
    if first != rows_of(shape) or not found:
        raise ValueError(f"{where} has {rows_of(shape)} rows, its pieces have {first}")
    return (entry["dtype"], shape), found


class CheckpointFiles:
    """The files of a checkpoint, opened on first use and memory-mapped, so elements are read only when needed."""

    def __init__(self, folder: Path, checkpoint: Checkpoint) -> None:
        self._folder, self._checkpoint = folder, checkpoint
        self._open: dict[str, dict[str, Tensor]] = {}
        self._checked: set[str] = set()

    def check(self, name: str) -> None:
        """Check that all pieces of a tensor are present and unchanged.

        Raises:
            CheckpointException: one is missing or changed; the message says which file and why.
        """
        if name in self._checked:
            return
        dtype, shape = self._checkpoint.specs[name]
        for stored in self._checkpoint.stored[name]:
            part, piece = self._part(stored), stored.piece
            expected = (piece.end - piece.first, *shape[1:])
            if part.dtype != dtype or part.shape != expected:
                raise CheckpointException(
                    f"{self._folder / stored.file}: {piece} is {part.dtype} {part.shape}, "
                    f"{METADATA} says {dtype} {expected}"
                )
            if _digest(part) != stored.sha256:
                raise CheckpointException(
                    f"{self._folder / stored.file} was changed after it was written: the SHA-256 of {piece} differs"
                )
        self._checked.add(name)

    def allocate(self, name: str) -> np.ndarray:
        """Allocate an array for a tensor. Its pieces are checked first, so a forged size allocates nothing."""
        self.check(name)
        dtype, shape = self._checkpoint.specs[name]
        return np.empty(shape, dtype)

    def copy(self, name: str, to: np.ndarray) -> None:
        """Copy a checked tensor to the array ``to``."""
        for stored in self._checkpoint.stored[name]:
            part = as_rows(to)[stored.piece.first : stored.piece.end]
            np.copyto(part, self._part(stored), casting="same_kind")

    def _part(self, stored: StoredPiece) -> np.ndarray:
        path = self._folder / stored.file
        if stored.file not in self._open:
            if path.is_symlink():
                raise CheckpointException(f"{path} is a link; the files of a checkpoint are in its folder")
            try:
                found = load(path, mmap=True)
            except FileNotFoundError:
                raise CheckpointException(f"{path} is missing; {METADATA} names it") from None
            except OSError as error:
                raise CheckpointException(f"{path} cannot be read: {error.strerror or error}") from error
            except (PTFileError, ValueError) as error:
                raise CheckpointException(f"{path} was cut off or damaged: {reason(error)}") from error
            self._open[stored.file] = found if isinstance(found, dict) else {}
        part = self._open[stored.file].get(f"{stored.piece}")
        if not isinstance(part, Tensor):
            raise CheckpointException(f"{path} does not contain {stored.piece}, as {METADATA} says")
        return part.array


def _unchecked(name: str, value: Any) -> Any:
    return value


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data.cast("B") if array.size else b"").hexdigest()


def _serialize(content: Mapping[str, Any]) -> bytes:
    """Serialize content to canonical JSON: equal content has equal bytes, even after being written and read."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
