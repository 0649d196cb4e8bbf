"""Collectives on objects: tensors, numbers, strings, and lists, tuples and dicts of these.

Objects are sent in the format of ``retrograd.save``. Unlike pickles, it cannot make the receiver execute code.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ..interop.pt import load, save
from . import mpi
from .collectives import check_list, root_of
from .process_group import CollectiveCall, ProcessGroup, wait
from .world import member

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def all_gather_object(object_list: list[Any], obj: Any, group: ProcessGroup | None = None) -> None:
    """Gather the objects of all processes, by rank, into the list of every process.

    Raises:
        ValueError: the list has another length. TypeError: an object has an unsupported type.
        DistError: the processes disagree about the call.
    """
    pg = member(group, "all_gather_object")
    if len(object_list) != pg.size():
        raise ValueError(f"all_gather_object: object_list has {len(object_list)} places, expected {pg.size()}")
    object_list[:] = exchange_objects(pg, obj, "all_gather_object()")


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Gather the objects of all processes, by rank, into the list of process dst. The others pass no list.

    Raises:
        As all_gather_object; ValueError: dst has no list, or another process has one.
    """
    pg = member(group, "gather_object")
    root = root_of("gather_object", "dst", pg, dst, group_dst)
    is_root = pg.rank() == root
    check_list("gather_object", "object_gather_list", object_gather_list, is_root, "dst")
    found = exchange_objects(pg, obj, f"gather_object(dst={root})")
    if is_root and object_gather_list is not None:
        if len(object_gather_list) != pg.size():
            raise ValueError(
                f"gather_object: object_gather_list has {len(object_gather_list)} places, expected {pg.size()}"
            )
        object_gather_list[:] = found


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copy the objects in the list of process src to the lists of all others, which must have the same length.

    Raises:
        As all_gather_object; ValueError: src is not in the group.
    """
    pg = member(group, "broadcast_object_list")
    root = root_of("broadcast_object_list", "src", pg, src, group_src)
    call = f"broadcast_object_list({len(object_list)} objects, src={root})"
    object_list[:] = from_root(pg, list(object_list), root, call)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Send one object of the list of process src to each process, by rank, into element 0 of its output list.

    Raises:
        As all_gather_object; ValueError: src has no list of one object for each process, or an output list is empty.
    """
    pg = member(group, "scatter_object_list")
    root = root_of("scatter_object_list", "src", pg, src, group_src)
    is_root = pg.rank() == root
    if not scatter_object_output_list:
        raise ValueError("scatter_object_list: scatter_object_output_list is empty; pass [None]")
    if is_root and (scatter_object_input_list is None or len(scatter_object_input_list) != pg.size()):
        raise ValueError(f"scatter_object_list: scatter_object_input_list must have {pg.size()} objects")
    objects = list(scatter_object_input_list or ()) if is_root else []
    found = from_root(pg, objects, root, f"scatter_object_list(src={root})")
    scatter_object_output_list[0] = found[pg.rank()]


def exchange_objects(group: ProcessGroup, obj: Any, call: str) -> list[Any]:
    """Return the objects of all processes, by rank."""
    entered, own = group.agree(call), _serialize(obj)
    if group.comm is None:
        return [_deserialize(own)]
    sizes = np.empty(group.size(), np.int64)
    _wait(group, lambda: group.comm.Iallgather(np.array([own.size]), sizes), entered)
    whole = np.empty(int(sizes.sum()), np.uint8)
    _wait(group, lambda: group.comm.Iallgatherv(own, [whole, sizes]), entered)
    return [_deserialize(part) for part in np.split(whole, np.cumsum(sizes)[:-1])]


def from_root(group: ProcessGroup, obj: Any, root: int, call: str) -> Any:
    """Return the object of process `root`."""
    entered = group.agree(call)
    is_root = group.rank() == root
    own = _serialize(obj) if is_root else np.empty(0, np.uint8)
    if group.comm is None:
        return _deserialize(own)
    size = np.array([own.size])
    _wait(group, lambda: group.comm.Ibcast(size, root), entered)
    data = own if is_root else np.empty(int(size[0]), np.uint8)
    _wait(group, lambda: group.comm.Ibcast(data, root), entered)
    return _deserialize(data)


def _wait(group: ProcessGroup, start: Any, entered: CollectiveCall) -> None:
    with mpi.errors(entered):
        request = start()
    wait(group, [request], entered)


def _serialize(obj: Any) -> np.ndarray:
    file = io.BytesIO()
    save(obj, file)
    return np.frombuffer(file.getvalue(), np.uint8)


def _deserialize(data: np.ndarray) -> Any:
    return load(io.BytesIO(data.tobytes()))
