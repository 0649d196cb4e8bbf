"""Process groups: which processes take part in a collective."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from . import mpi
from .entered import Entered, all_equal, difference, enter
from .environment import set_environment
from .errors import DistError, WorkerLostError
from .threads import share_cores
from .waiting import wait

__all__ = [
    "Backend", "GroupMember", "ProcessGroup", "destroy_process_group", "get_backend", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "is_available", "is_initialized", "is_mpi_available", "is_gloo_available",
    "is_nccl_available", "is_torchelastic_launched", "new_group",
]  # fmt: skip

_TIMEOUT = timedelta(minutes=30)
_BACKENDS = ("mpi", "gloo", "cpu:gloo", "cpu:mpi")  # whoever asks for gloo means the CPU


class ProcessGroup:
    """Processes that take part in collectives together, numbered from 0.

    `timeout`: seconds that a collective may wait.
    """

    def __init__(self, comm: Any, ranks: Sequence[int], timeout: float, recoverable: bool | None = None) -> None:
        self.comm = comm  # MPI's communicator; None for this process alone
        self.control: Any = None if comm is None else comm.Dup()  # what the ranks tell each other about collectives
        self.ranks = list(ranks)  # in the world
        self.timeout = timeout
        self.count = 0  # collectives so far
        self.last: dict[int, Entered] = {}  # of each rank, the last collective that it entered
        self.unfinished: list[Any] = []  # answers under way
        self._others: list[Any] = []  # communicators made by `duplicate`
        self._lanes: dict[int, Any] = {}
        self.recoverable = (comm is not None and _recovers(comm)) if recoverable is None else recoverable

    def rank(self) -> int:
        """The number of this process in the group."""
        return 0 if self.comm is None else int(self.comm.Get_rank())

    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend."""
        return "mpi"

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessGroup:
        """Itself: a copy of a layer that has a group is in the same group."""
        return self

    def __repr__(self) -> str:
        return f"<ProcessGroup of {self.size()} processes, this is rank {self.rank()}>"

    def duplicate(self) -> Any:
        """Another communicator of the same processes; None for this process alone."""
        if self.comm is None:
            return None
        with mpi.errors("the communicators of a trainer"):
            self._others.append(self.comm.Dup())
        return self._others[-1]

    def lane(self, number: int) -> Any:
        """A communicator for collectives that are always begun in one order, apart from those of other lanes."""
        if number not in self._lanes:
            self._lanes[number] = self.duplicate()
        return self._lanes[number]

    def revoke(self) -> None:
        """Make the collectives under way fail in all processes, after one has died."""
        if self.comm is not None and self.recoverable:
            for comm in (*self._others, self.control, self.comm):
                comm.Revoke()

    def all_agree(self, value: bool) -> bool:
        """Whether the value is true in all processes and none has died; the answer is the same in all that live.

        Raises:
            DistNetworkError: a process did not come in time.
        """
        if self.comm is None or not self.recoverable:
            return value
        flag = np.array([value], np.intc)
        entered = enter(self.count, "the agreement that all have done a step")
        try:
            with mpi.errors(entered):
                request = self.comm.Iagree(flag)
            wait(self, [request], entered, agreeing=True)
        except WorkerLostError:
            return False
        self.all_entered(entered)
        return bool(flag[0])

    def of_the_living(self) -> ProcessGroup:
        """The group of the processes that are still there; all of them call it."""
        mpi.give_up()
        comm = self.comm
        while True:
            comm = comm.Shrink()
            found = np.empty(comm.Get_size(), np.int64)
            made = None
            try:
                comm.Allgather(np.array([self.ranks[self.rank()]]), found)
                made = ProcessGroup(comm, found.tolist(), self.timeout, recoverable=True)
            except mpi.load().Exception:
                comm.Revoke()  # another one has died meanwhile
            if _agree(comm, made is not None) and made is not None:
                return made

    def agree(self, call: str) -> Entered:
        """Tell the others which collective comes, and make sure that it is the same for all.

        Raises:
            DistError: it is not; the message says who calls what.
            DistNetworkError: a rank did not come in time. WorkerLostError: one has died.
        """
        self.count += 1
        entered = enter(self.count, call)
        if self.comm is None:
            return entered
        row = entered.row()
        rows = np.empty((self.size(), row.size), np.uint8)
        with mpi.errors(entered):
            request = self.control.Iallgather(row, rows)
        wait(self, [request], entered)
        if not all_equal(rows):
            raise DistError(f"the processes call different collectives, or with other arguments: {difference(rows)}")
        self.all_entered(entered)
        return entered

    def all_entered(self, entered: Entered) -> None:
        """All ranks have entered this collective."""
        if self is _world.group:
            mpi.heard_from_all()
        self.last = dict.fromkeys(range(self.size()), entered)


class _World:
    """`group`: all processes, or None before init_process_group."""

    group: ProcessGroup | None = None


_world = _World()


class GroupMember:
    """`WORLD` stands for all processes; `NON_GROUP_MEMBER` is what new_group returns to the others."""

    WORLD = None
    NON_GROUP_MEMBER = object()


group = GroupMember


class Backend(str):
    """The names of PyTorch's backends; there is one here, MPI."""

    MPI, GLOO, NCCL, UNDEFINED = "mpi", "gloo", "nccl", "undefined"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


def is_available() -> bool:
    """True: without MPI there is a world of one process."""
    return True


def is_initialized() -> bool:
    """Whether init_process_group has been called."""
    return _world.group is not None


def is_torchelastic_launched() -> bool:
    """Whether ``retrograd launch`` has started this process."""
    return "RETROGRAD_LAUNCHED" in os.environ


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """False: MPI does its work."""
    return False


def is_nccl_available() -> bool:
    """False: there is no GPU."""
    return False


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
    """Join the processes that ``mpiexec``, ``srun`` or ``retrograd launch`` has started.

    A program that none of them has started is a world of one process.

    backend: "mpi", or "gloo", which is done by MPI as well. timeout: how long a collective may wait, 30 minutes unless
    given. world_size, rank: the launcher sets them; if given, they must be the same. init_method, store, group_name,
    pg_options: the launcher has connected the processes, so they are not needed. device_id: the CPU.

    Raises:
        RuntimeError: called twice. ValueError: another backend, size or rank.
        DistBackendError: a launcher has started the process, and MPI or mpi4py is missing, or finds each of
            several processes alone, as under srun without --mpi=pmix or --mpi=pmi2.

    Source: torch.distributed.init_process_group.
    """
    if _world.group is not None:
        raise RuntimeError("init_process_group: called twice; call destroy_process_group first")
    if backend is not None and str(backend).lower() not in _BACKENDS:
        raise ValueError(f"init_process_group: backend={backend!r}: processes speak MPI here, on CPUs; pass 'mpi'")
    seconds = as_seconds("init_process_group", timeout)
    if mpi.is_launched():
        world = _joined()
        made = ProcessGroup(world, range(world.Get_size()), seconds)
    else:
        made = ProcessGroup(None, [0], seconds)
    for name, given, own in (("world_size", world_size, made.size()), ("rank", rank, made.rank())):
        if given not in (-1, own):
            raise ValueError(
                f"init_process_group: {name}={given} but the launcher says {own}; leave it out, and set the number "
                "of processes with mpiexec -n or retrograd launch -n"
            )
    _world.group = made


def _joined() -> Any:
    """MPI's communicator of all processes; those of a machine share its cores.

    Raises:
        DistBackendError: MPI is missing, or the launcher has not connected the processes.
    """
    set_environment()
    library = mpi.load()
    world = library.COMM_WORLD
    mpi.check_joined(world.Get_size(), library.get_vendor()[0])
    here = world.Split_type(library.COMM_TYPE_SHARED)
    set_environment(
        RANK=world.Get_rank(), WORLD_SIZE=world.Get_size(), LOCAL_RANK=here.Get_rank(), LOCAL_WORLD_SIZE=here.Get_size()
    )
    share_cores(here)
    here.Free()
    return world.Dup()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave a group; without an argument, the world, after which init_process_group may be called again."""
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
    """A group of some of the processes. All processes of the world call it, with the same ranks.

    ranks: numbers in the world, in the order of the new group; None: all. The others are as in init_process_group.

    Returns the group, or GroupMember.NON_GROUP_MEMBER to processes that are not in it.

    Raises:
        ValueError: a rank does not exist, or occurs twice. DistError: the processes pass different ranks.
    """
    world = member(None, "new_group")
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


def member(group: Any, caller: str) -> ProcessGroup:
    """The group, or the world for None.

    Raises:
        RuntimeError: there is none yet, or this process is not in it. TypeError: it is no group.
    """
    if group is None:
        group = _world.group
        if group is None:
            raise RuntimeError(f"{caller}: there is no process group; call distributed.init_process_group() first")
    if group is GroupMember.NON_GROUP_MEMBER:
        raise RuntimeError(f"{caller}: this process is not in the group; call it only in its members")
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"{caller}: group must be a ProcessGroup or None, got {type(group).__name__}")
    return group


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in the group, -1 outside it.

    Raises:
        RuntimeError: there is no process group yet.
    """
    return -1 if group is GroupMember.NON_GROUP_MEMBER else member(group, "get_rank").rank()


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of processes of the group, -1 outside it.

    Raises:
        RuntimeError: there is no process group yet.
    """
    return -1 if group is GroupMember.NON_GROUP_MEMBER else member(group, "get_world_size").size()


def get_backend(group: ProcessGroup | None = None) -> str:
    """ "mpi".

    Raises:
        RuntimeError: there is no process group yet.
    """
    return member(group, "get_backend").name()


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The numbers in the world of the group's processes."""
    return list(member(group, "get_process_group_ranks").ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number in the world of a process of the group.

    Raises:
        ValueError: there is none of this number.
    """
    ranks = member(group, "get_global_rank").ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"get_global_rank: group_rank={group_rank} must be from 0 to {len(ranks) - 1}")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in the group of a process of the world.

    Raises:
        ValueError: it is not in the group.
    """
    ranks = member(group, "get_group_rank").ranks
    if global_rank not in ranks:
        raise ValueError(f"get_group_rank: rank {global_rank} is not in the group, which has {ranks}")
    return ranks.index(global_rank)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those on its machine.

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
    """Make `new` the world if `old` was, after processes have died."""
    if _world.group is old:
        new.ranks = list(range(new.size()))
        _world.group = new


def world() -> tuple[int, int] | None:
    """The number of processes, and of this one; None before init_process_group."""
    return None if _world.group is None else (_world.group.size(), _world.group.rank())


def _recovers(comm: Any) -> bool:
    """Whether this MPI can go on after the death of a process (ULFM)."""
    try:
        return _agree(comm, True)
    except (NotImplementedError, AttributeError):
        return False


def _agree(comm: Any, value: bool) -> bool:
    """Whether it is true in all processes, and none has died."""
    try:
        return bool(comm.Agree(int(value)))
    except mpi.load().Exception:
        return False


def as_seconds(caller: str, timeout: Any) -> float:
    """A timeout in seconds, 30 minutes for None; ValueError if it is none."""
    value = _TIMEOUT if timeout is None else timeout
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"{caller}: timeout={timeout!r} must be a timedelta or a number of seconds above 0")
    return float(seconds)
