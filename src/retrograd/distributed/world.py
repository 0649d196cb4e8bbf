"""The world of all processes, and groups of some of them, with the names of torch.distributed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from ..engine.arguments import kind_name
from . import mpi
from .mpi import set_environment, share_cores
from .process_group import ProcessGroup, as_seconds

__all__ = [
    "Backend",
    "GroupMember",
    "destroy_process_group",
    "get_backend",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "new_group",
]

_BACKENDS = ("mpi", "gloo", "cpu:gloo", "cpu:mpi")  # scripts pass "gloo" for the CPU


class _World:
    """The current world. group: the group of all processes; None before init_process_group."""

    group: ProcessGroup | None = None


_world = _World()


class GroupMember:
    """Group constants: `WORLD` means all processes; new_group returns `NON_GROUP_MEMBER` to non-members."""

    WORLD = None
    NON_GROUP_MEMBER = object()


group = GroupMember


class Backend(str):
    """The names of PyTorch's backends. Here the only backend is MPI."""

    MPI, GLOO, NCCL, UNDEFINED = "mpi", "gloo", "nccl", "undefined"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


def is_available() -> bool:
    """Return True: without MPI there is a world of one process."""
    return True


def is_initialized() -> bool:
    """Return whether init_process_group has been called."""
    return _world.group is not None


def is_torchelastic_launched() -> bool:
    """Return whether ``retrograd launch`` has started this process."""
    return "RETROGRAD_LAUNCHED" in os.environ


def is_mpi_available() -> bool:
    """Return whether mpi4py is installed."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """Return False: MPI is used instead."""
    return False


def is_nccl_available() -> bool:
    """Return False: there is no GPU."""
    return False


is_ucc_available: Final = is_nccl_available
is_xccl_available: Final = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Return whether backend is "mpi" and mpi4py is installed."""
    return backend.lower() == Backend.MPI and is_mpi_available()


def get_default_backend_for_device(device: Any) -> str:
    """Return "mpi"."""
    return Backend.MPI


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Connect to the other processes started by ``mpiexec``, ``srun`` or ``retrograd launch``.

    A program that was not started by one of these is a world of one process.

    backend: "mpi", or "gloo", for which MPI is used, too.
    timeout: how long a collective may wait, as a timedelta or in seconds; None means 30 minutes.
    world_size, rank: known from the launcher; if given, they must be equal to its values.
    init_method, store, group_name, pg_options: ignored, because the launcher connects the processes.
    device_id: ignored; the device is the CPU.

    Raises:
        RuntimeError: called twice, or in a process that a script has started with multiprocessing. ValueError: another
            backend, size or rank is given.
        DistBackendError: a launcher has started the process, but MPI or mpi4py is missing, or MPI finds each of several
            processes alone, as under srun without --mpi=pmix or --mpi=pmi2.

    Source: torch.distributed.init_process_group.
    """
    if _world.group is not None:
        raise RuntimeError("init_process_group: called twice; call destroy_process_group first")
    _check_backend("init_process_group", backend)
    seconds = as_seconds("init_process_group", timeout)
    if mpi.is_launched():
        if multiprocessing.parent_process() is not None:
            raise RuntimeError(
                "init_process_group: the script has started this process with multiprocessing, not "
                "MPI; use retrograd launch -n instead, and call the process's function in the script"
            )
        world = _connect()
        made = ProcessGroup(world, range(world.Get_size()), seconds)
    else:
        made = ProcessGroup(None, [0], seconds)
    for name, given, own in (("world_size", world_size, made.size()), ("rank", rank, made.rank())):
        if given not in (-1, own):
            says = "the launcher says" if made.comm is not None else "no launcher has started this process, which has"
            raise ValueError(
                f"init_process_group: {name}={given} but {says} {own}; leave it out, and set the number of processes "
                "with mpiexec -n or retrograd launch -n"
            )
    made.is_world = True
    _world.group = made


def _connect() -> Any:
    """Return MPI's communicator of all processes; set this worker's environment variables and number of threads.

    Raises:
        DistBackendError: MPI is missing, or the launcher has not connected the processes.
    """
    set_environment()
    library = mpi.load()
    world = library.COMM_WORLD
    mpi.check_connected(world.Get_size(), library.get_vendor()[0])
    here = world.Split_type(library.COMM_TYPE_SHARED)
    set_environment(
        RANK=world.Get_rank(), WORLD_SIZE=world.Get_size(), LOCAL_RANK=here.Get_rank(), LOCAL_WORLD_SIZE=here.Get_size()
    )
    share_cores(here)
    here.Free()
    return world.Dup()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave the world if group is None, so that init_process_group may be called again; otherwise do nothing."""
    if group is None:
        _world.group = None


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """Create a group of some of the processes. All processes of the world must call it, with the same ranks.

    ranks: world ranks, in the order of the new group; None means all.
    timeout: as for init_process_group; None means that of the world.
    backend, pg_options, device_id: as for init_process_group.
    use_local_synchronization: only False is supported.
    group_desc: ignored.

    Returns the group, or GroupMember.NON_GROUP_MEMBER in processes that are not in it.

    Raises:
        ValueError: a rank does not exist or occurs twice, another backend is given, or
            use_local_synchronization is set.
        DistError: the processes pass different ranks.
    """
    world = member(None, "new_group")
    _check_backend("new_group", backend)
    if use_local_synchronization is not False:
        raise ValueError(
            f"new_group: use_local_synchronization={use_local_synchronization!r}: all processes of the world create a "
            "group together; leave it out, and call new_group in all of them"
        )
    chosen = list(range(world.size())) if ranks is None else [int(rank) for rank in ranks]
    if len(set(chosen)) != len(chosen) or not all(0 <= rank < world.size() for rank in chosen) or not chosen:
        raise ValueError(f"new_group: ranks={chosen} must be different numbers from 0 to {world.size() - 1}")
    seconds = world.timeout if timeout is None else as_seconds("new_group", timeout)
    world.agree(f"new_group({chosen})")
    if world.comm is None:
        return ProcessGroup(None, [0], seconds)
    own = world.rank()
    inside = own in chosen
    color = 0 if inside else mpi.load().UNDEFINED
    comm = world.comm.Split(color, chosen.index(own) if inside else 0)
    return ProcessGroup(comm, chosen, seconds) if inside else GroupMember.NON_GROUP_MEMBER


def _check_backend(caller: str, backend: Any) -> None:
    if backend is not None and str(backend).lower() not in _BACKENDS:
        raise ValueError(f"{caller}: backend={backend!r}: processes communicate by MPI, on CPUs; pass 'mpi'")


def member(group: Any, caller: str) -> ProcessGroup:
    """Return the group, or the world if group is None.

    Raises:
        RuntimeError: there is no process group yet, or this process is not in it. TypeError: group is not a group.
    """
    if group is None:
        group = _world.group
        if group is None:
            raise RuntimeError(f"{caller}: there is no process group; call distributed.init_process_group() first")
    if group is GroupMember.NON_GROUP_MEMBER:
        raise RuntimeError(f"{caller}: this process is not in the group; call it only in its members")
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"{caller}: group must be a ProcessGroup or None, got {kind_name(group)}")
    return group


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the rank of this process in the group, -1 outside it.

    Raises:
        RuntimeError: there is no process group yet.
    """
    return -1 if group is GroupMember.NON_GROUP_MEMBER else member(group, "get_rank").rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of processes of the group, -1 outside it.

    Raises:
        RuntimeError: there is no process group yet.
    """
    return -1 if group is GroupMember.NON_GROUP_MEMBER else member(group, "get_world_size").size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """Return "mpi".

    Raises:
        RuntimeError: there is no process group yet.
    """
    return member(group, "get_backend").name()


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """Return the world ranks of the processes in the group."""
    return list(member(group, "get_process_group_ranks").ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the world rank of the process with rank `group_rank` in the group.

    Raises:
        ValueError: there is no such rank in the group.
    """
    ranks = member(group, "get_global_rank").ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"get_global_rank: group_rank={group_rank} must be from 0 to {len(ranks) - 1}")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank within the group of the process with world rank `global_rank`.

    Raises:
        ValueError: the process is not in the group.
    """
    ranks = member(group, "get_group_rank").ranks
    if global_rank not in ranks:
        raise ValueError(f"get_group_rank: rank {global_rank} is not in the group, which has {ranks}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the rank of this process among those on its machine.

    Raises:
        RuntimeError: the launcher does not say, and there is no fallback_rank.
    """
    for name in ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is None:
        raise RuntimeError("get_node_local_rank: the launcher does not say; pass fallback_rank")
    return fallback_rank


def replace_world(old: ProcessGroup, new: ProcessGroup) -> None:
    """Make `new` the world if `old` was the world, after processes have died."""
    if _world.group is old:
        new.ranks, new.is_world = list(range(new.size())), True
        _world.group = new


def world() -> tuple[int, int] | None:
    """Return the number of processes and the rank of this one; None before init_process_group."""
    return None if _world.group is None else (_world.group.size(), _world.group.rank())
