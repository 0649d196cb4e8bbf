"""Collectives on objects: tensors, numbers, strings, and lists, tuples and dicts of these.

Objects are sent in the format of ``retrograd.save``. Reading it executes nothing, so a process cannot send code.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ..interop.pt import load, save
from . import mpi
from .collectives import check_list, root_of
from .process_group import Entered, ProcessGroup, wait
from .world import member

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Put the object of each process into the list of every process, by rank.

    Raises:
        ValueError: the list has another length. TypeError: an object has an unsupported type.
        DistError: the processes disagree about the call.
    """
    where = member(group, "all_gather_object")
    if len(object_list) != where.size():
        raise ValueError(f"all_gather_object: object_list has {len(object_list)} places, expected {where.size()}")
    object_list[:] = exchange_objects(where, obj, "all_gather_object()")


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Put the object of each process into the list of process dst, by rank. The other processes pass no list.

    Raises:
        As all_gather_object; ValueError: dst has no list, or another process has one.
    """
    where = member(group, "gather_object")
    root = root_of("gather_object", "dst", where, dst, group_dst)
    mine = where.rank() == root
    check_list("gather_object", "object_gather_list", object_gather_list, mine, "dst")
    found = exchange_objects(where, obj, f"gather_object(dst={root})")
    if mine and object_gather_list is not None:
        if len(object_gather_list) != where.size():
            raise ValueError(
                f"gather_object: object_gather_list has {len(object_gather_list)} places, expected {where.size()}"
            )
        object_gather_list[:] = found


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects of process src's list to the lists of all others, which have the same length.

    Raises:
        As all_gather_object; ValueError: src is not in the group.
    """
    where = member(group, "broadcast_object_list")
    root = root_of("broadcast_object_list", "src", where, src, group_src)
    call = f"broadcast_object_list({len(object_list)} objects, src={root})"
    object_list[:] = from_root(where, list(object_list), root, call)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Put one object of process src's list into the first place of each process's output list, by rank.

    Raises:
        As all_gather_object; ValueError: src has no list of one object for each process, or an output list is empty.
    """
    where = member(group, "scatter_object_list")
    root = root_of("scatter_object_list", "src", where, src, group_src)
    mine = where.rank() == root
    if not scatter_object_output_list:
        raise ValueError("scatter_object_list: scatter_object_output_list is empty; pass [None]")
    if mine and (scatter_object_input_list is None or len(scatter_object_input_list) != where.size()):
        raise ValueError(f"scatter_object_list: scatter_object_input_list must have {where.size()} objects")
    objects = list(scatter_object_input_list or ()) if mine else []
    found = from_root(where, objects, root, f"scatter_object_list(src={root})")
    scatter_object_output_list[0] = found[where.rank()]


def exchange_objects(group: ProcessGroup, obj: Any, call: str) -> list[Any]:
    """Return the objects of all processes, by rank."""
    entered, own = group.agree(call), _bytes(obj)
    if group.comm is None:
        return [_object(own)]
    sizes = np.empty(group.size(), np.int64)
    _wait(group, lambda: group.comm.Iallgather(np.array([own.size]), sizes), entered)
    whole = np.empty(int(sizes.sum()), np.uint8)
    _wait(group, lambda: group.comm.Iallgatherv(own, [whole, sizes]), entered)
    return [_object(part) for part in np.split(whole, np.cumsum(sizes)[:-1])]


def from_root(group: ProcessGroup, obj: Any, root: int, call: str) -> Any:
    """Return the object of process `root`."""
    entered = group.agree(call)
    mine = group.rank() == root
    own = _bytes(obj) if mine else np.empty(0, np.uint8)
    if group.comm is None:
        return _object(own)
    size = np.array([own.size])
    _wait(group, lambda: group.comm.Ibcast(size, root), entered)
    data = own if mine else np.empty(int(size[0]), np.uint8)
    _wait(group, lambda: group.comm.Ibcast(data, root), entered)
    return _object(data)


def _wait(group: ProcessGroup, start: Any, entered: Entered) -> None:
    with mpi.errors(entered):
        request = start()
    wait(group, [request], entered)


def _bytes(obj: Any) -> np.ndarray:
    file = io.BytesIO()
    save(obj, file)
    return np.frombuffer(file.getvalue(), np.uint8)


def _object(data: np.ndarray) -> Any:
    return load(io.BytesIO(data.tobytes()))
