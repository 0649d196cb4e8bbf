"""Distributed checkpoints: `save` and `load`, as in torch.distributed.checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from .._files.state import brief, names
from ..engine.aliasing import mark_changed
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..torch_api.missing import attach_to_module
from .checkpoint_format import (
    Checkpoint,
    CheckpointFiles,
    Node,
    StoredPiece,
    TensorSpec,
    assign_pieces,
    build_node,
    describe_node,
    file_name,
    holders_of,
    merge,
    read_metadata,
    remove_others,
    write_metadata,
    write_pieces,
)
from .errors import CheckpointException
from .object_collectives import exchange_objects, from_root
from .process_group import ProcessGroup
from .world import is_initialized, member

__all__ = ["CheckpointException", "FileSystemReader", "FileSystemWriter", "load", "save"]


# ---- Loading into an existing state: everything is checked before anything is changed -------------------------------


class LoadPlan:
    """The copies and assignments that load a checkpoint into a state.

    specs: dtype and shape of each saved tensor.
    allocate: creates the array for a tensor that the state does not have yet.

    ``copies`` has pairs: the name of a saved tensor, and the array to copy it to. ``updates`` has triples: a dict or
    list, a key, and the value to assign.
    """

    def __init__(self, specs: Mapping[str, TensorSpec], allocate: Callable[[str], np.ndarray]) -> None:
        self._specs, self._allocate = specs, allocate
        self.copies: list[tuple[str, np.ndarray]] = []
        self.updates: list[tuple[Any, Any, Any]] = []

    def match(self, target: Any, node: Node, place: str = "state_dict") -> Any:
        """Return the value that replaces ``target``: the same object, to be filled later, or a new one.

        Nothing changes yet. Where ``target`` has None, an empty dict or an empty list, everything saved there is
        loaded.

        Raises:
            CheckpointException: an entry of ``target`` is not in the checkpoint, or has another kind or shape there.
        """
        ((kind, held),) = node.items()
        if kind == "tensor":
            return self._tensor(target, held, place)
        if kind == "dict":
            return self._dict(target, dict(held), place)
        if kind in ("list", "tuple"):
            return self._list(target, node, place)
        if isinstance(target, (Tensor, np.ndarray)) or (isinstance(target, (Mapping, list, tuple)) and target):
            raise _mismatch(place, _described(target), describe_node(node))
        return float(held) if kind == "float" else held

    def store(self) -> None:
        """Make the assignments in ``updates``. The caller makes the copies."""
        for container, key, value in self.updates:
            container[key] = value

    def _tensor(self, target: Any, name: str, place: str) -> Any:
        dtype, shape = self._specs[name]
        array = target.array if isinstance(target, Tensor) else target
        if target is None:
            array = self._allocate(name)
            target = Tensor(array)
            array = target.array
        elif not isinstance(array, np.ndarray):
            raise _mismatch(place, _described(target), "a tensor")
        elif array.shape != shape or not np.can_cast(dtype, array.dtype, "same_kind"):
            raise _mismatch(place, f"{array.dtype} {array.shape}", f"{dtype} {shape}")
        self.copies.append((name, array))
        return target

    def _dict(self, target: Any, saved: Mapping[Any, Node], place: str) -> Any:
        if target is None:
            return {key: self.match(None, item, f"{place}[{key!r}]") for key, item in saved.items()}
        if not isinstance(target, MutableMapping):
            raise _mismatch(place, _described(target), "a dict")
        for key in [*target] or saved:
            if key not in saved:
                raise CheckpointException(
                    f"checkpoint.load: {place}[{key!r}] is not in the checkpoint, which has {names(saved)} there"
                )
            value = self.match(target.get(key), saved[key], f"{place}[{key!r}]")
            if key not in target or value is not target[key]:
                self.updates.append((target, key, value))
        return target

    def _list(self, target: Any, node: Node, place: str) -> Any:
        ((kind, held),) = node.items()
        listed = isinstance(target, (list, tuple))
        if target is not None and (not listed or (target and len(target) != len(held))):
            raise _mismatch(place, _described(target), describe_node(node))
        old = target or [None] * len(held)
        new = [self.match(old[k], item, f"{place}[{k}]") for k, item in enumerate(held)]
        if isinstance(target, list):
            self.updates.append((target, slice(None), new))
            return target
        return tuple(new) if kind == "tuple" or listed else new


def _mismatch(place: str, own: str, saved: str) -> CheckpointException:
    return CheckpointException(f"checkpoint.load: {place} is {own} here and {saved} in the checkpoint")


def _described(value: Any) -> str:
    if isinstance(value, (Tensor, np.ndarray)):
        return "a tensor"
    if isinstance(value, (list, tuple)):
        return f"a {'list' if isinstance(value, list) else 'tuple'} of {len(value)}"
    return "a dict" if isinstance(value, Mapping) else brief(value)


# ---- save and load --------------------------------------------------------------------------------------------------

CheckpointException.__module__ = __name__


class FileSystemWriter:
    """A folder to write to: the argument of ``save(state_dict, storage_writer=...)``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)


class FileSystemReader:
    """A folder to read from: the argument of ``load(state_dict, storage_reader=...)``."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path: Path = Path(path)


def save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> None:
    """Write a checkpoint to the folder ``checkpoint_id``. Each process writes a part of the tensors to its own file.

    All processes must call it, and all must have access to the folder. A tensor that several processes have under the
    same name, such as a weight, must be equal in all of them. Large tensors are split by rows among these processes,
    and a small one is written by one of them. A tensor that only one process has, such as its part of the optimizer's
    state, is written by that process.

    The folder contains the old checkpoint until all new files are safely on disk, and the new checkpoint from then on.
    If one or all processes die at any moment, one of the two is intact. The old files are removed at the end.

    state_dict: nested dicts (keys str or int), lists and tuples of tensors, numbers, strings and None. The top level
        may also contain objects with ``state_dict()`` and ``load_state_dict()``, such as modules and optimizers.
    checkpoint_id: the path of the folder.
    storage_writer: a FileSystemWriter of the folder, instead of ``checkpoint_id``.
    planner: only None is supported.
    process_group: the processes that take part; None means all.
    no_dist: only this process writes, without the others.
    use_collectives: only True is supported.

    Raises:
        TypeError, ValueError: state_dict contains something else, an argument has the wrong type, or there is no
            folder.
        CheckpointException: a process could not write a file, or the processes have different tensors under one name.
            The folder still contains the old checkpoint.
        DistError: as for any collective.

    Source: torch.distributed.checkpoint.save.
    """
    if planner is not None or use_collectives is not True:
        raise ValueError("checkpoint.save: planner must be None and use_collectives True: there are no others")
    folder = _folder("save", checkpoint_id, "storage_writer", storage_writer, FileSystemWriter)
    group = _group(process_group, no_dist)
    arrays: dict[str, np.ndarray] = {}
    node = build_node({key: _state_of(value) for key, value in _checked("save", state_dict).items()}, arrays)
    specs = {name: (array.dtype.name, array.shape) for name, array in arrays.items()}
    mine = {"token": os.urandom(8).hex(), "node": node, "specs": specs}
    headers = exchange_objects(group, mine, f"checkpoint.save({str(folder)[-100:]!r})")
    whole = merge([(rank, each["node"]) for rank, each in enumerate(headers)])
    tensors = holders_of([each["specs"] for each in headers])
    plan = assign_pieces(tensors, group.size())
    files = [file_name(headers[0]["token"], rank, group.size()) for rank in range(group.size())]
    path = folder / files[group.rank()]
    digests, why = {}, ""
    try:
        digests = write_pieces(path, plan[group.rank()], arrays)
    except OSError as error:
        why = str(error)
    written = exchange_objects(group, {"digests": digests, "why": why}, "checkpoint.save: the files")
    try:
        _raise_failures("save", [each["why"] for each in written])
    except CheckpointException:
        with suppress(OSError):
            path.unlink()
        raise
    stored: dict[str, list[StoredPiece]] = {name: [] for name in tensors}
    for rank, pieces in enumerate(plan):
        for piece in pieces:
            stored[piece.name].append(StoredPiece(piece, files[rank], written[rank]["digests"][f"{piece}"]))
    for parts in stored.values():
        parts.sort(key=lambda part: part.piece.first)
    checkpoint = Checkpoint(whole, {name: kind for name, (kind, _) in tensors.items()}, stored)
    if group.rank() == 0:
        why = _commit(folder, checkpoint)
    _raise_failures("save", [from_root(group, why, 0, "checkpoint.save: the metadata")])


def load(
    state_dict: MutableMapping[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Load the checkpoint in the folder ``checkpoint_id`` into ``state_dict``, in place.

    All processes must call it; their number may differ from that of the processes that wrote the checkpoint. Tensors
    are copied into the existing ones, and other values are replaced. Where ``state_dict`` has an empty dict, an empty
    list or None, everything that was saved there is loaded. An object with ``load_state_dict()`` gets everything that
    was saved under its key. Saved entries that ``state_dict`` does not have are ignored.

    Everything is checked first, in all processes, so a failed call changes nothing.

    state_dict: the state to load into, of the same kinds of values as for ``save``.
    checkpoint_id: the path of the folder.
    storage_reader: a FileSystemReader of the folder, instead of ``checkpoint_id``.
    planner: only None is supported.
    process_group: the processes that take part; None means all.
    no_dist: only this process reads, without the others.

    Raises:
        TypeError, ValueError: an argument has the wrong type, or there is no folder.
        CheckpointException: in one of the processes, there is no checkpoint; a file is missing, truncated, changed or
            not part of it; or an entry of ``state_dict`` is not in it or has another shape there.
        DistError: as for any collective.

    Source: torch.distributed.checkpoint.load.
    """
    if planner is not None:
        raise ValueError("checkpoint.load: planner must be None: there are no others")
    folder = _folder("load", checkpoint_id, "storage_reader", storage_reader, FileSystemReader)
    group = _group(process_group, no_dist)
    own = dict(_checked("load", state_dict))
    stateful = {key: value for key, value in own.items() if _is_stateful(value)}
    plain: Any = state_dict if not stateful else {key: None if key in stateful else own[key] for key in own}
    files, load_plan, why = None, None, ""
    try:
        checkpoint = read_metadata(folder)
        files = CheckpointFiles(folder, checkpoint)
        load_plan = LoadPlan(checkpoint.specs, files.allocate)
        load_plan.match(plain, checkpoint.node)
        for name, _ in load_plan.copies:
            files.check(name)
    except CheckpointException as error:
        why = str(error)
    _raise_failures("load", exchange_objects(group, why, f"checkpoint.load({str(folder)[-100:]!r})"))
    assert files is not None and load_plan is not None
    for name, array in load_plan.copies:
        files.copy(name, array)
    mark_changed([array for _, array in load_plan.copies], "checkpoint.load")
    load_plan.store()
    for key, value in stateful.items():
        value.load_state_dict(plain[key])
    if plain is not state_dict:
        for key in own.keys() - stateful.keys():
            state_dict[key] = plain[key]


def _commit(folder: Path, checkpoint: Checkpoint) -> str:
    """Write the metadata and remove older files; return an error message, or an empty string."""
    try:
        write_metadata(folder, checkpoint)
    except OSError as error:
        return str(error)
    except CheckpointException as error:
        return str(error)
    remove_others(folder, checkpoint)
    return ""


def _raise_failures(what: str, texts: list[str]) -> None:
    """Raise a CheckpointException if any process reports an error; messages are given by rank, empty for success."""
    failures = {rank: text for rank, text in enumerate(texts) if text}
    if failures:
        (first, text), *others = failures.items()
        rank = f"rank {first}: " if len(texts) > 1 else ""
        more = f" (and {len(others)} more ranks)" if others else ""
        start = "" if text.startswith("checkpoint.") else f"checkpoint.{what}: "
        raise CheckpointException(f"{start}{rank}{text}{more}", failures)


def _folder(caller: str, given: Any, name: str, other: Any, kind: type) -> Path:
    if (given is None) == (other is None):
        raise ValueError(f"checkpoint.{caller}: pass the folder as checkpoint_id, or as {name}, not both")
    if other is None:
        if not isinstance(given, (str, os.PathLike)):
            raise TypeError(f"checkpoint.{caller}: checkpoint_id is {kind_name(given)}; expected a path")
        return Path(given)
    if not isinstance(other, kind):
        raise TypeError(f"checkpoint.{caller}: {name} is {kind_name(other)}; expected a {kind.__name__}")
    return Path(other.path)  # type: ignore[attr-defined]


def _group(group: ProcessGroup | None, no_dist: bool) -> ProcessGroup:
    if no_dist or (group is None and not is_initialized()):
        return ProcessGroup(None, [0], 1.0)
    return member(group, "checkpoint")


def _checked(caller: str, state_dict: Any) -> Mapping[str, Any]:
    kind: Any = Mapping if caller == "save" else MutableMapping
    if not isinstance(state_dict, kind):
        raise TypeError(f"checkpoint.{caller}: state_dict is {kind_name(state_dict)}; expected a dict")
    return state_dict


def _is_stateful(value: Any) -> bool:
    return not isinstance(value, (Tensor, type)) and hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _state_of(value: Any) -> Any:
    return value.state_dict() if _is_stateful(value) else value


attach_to_module(__name__)
