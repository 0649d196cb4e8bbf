"""The launcher: starts a script in several processes with mpiexec, on one or several hosts."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from .errors import DistBackendError
from .mpi import ABORT_NOTE

__all__ = ["Host", "answering", "as_hosts"]


# ---- Hosts, and a test of which are reachable -----------------------------------------------------------------------

_ANSWER_TIMEOUT = 10.0  # seconds to answer


class Host(NamedTuple):
    """A machine and the number of processes that it may run."""

    name: str
    slots: int

    def __str__(self) -> str:
        return f"{self.name}:{self.slots}"


def as_hosts(text: str) -> list[Host]:
    """Parse a list of machines such as ``"a:4,b:4"``; a machine without a number gets one process.

    Raises:
        ValueError: a name is missing or occurs twice, or a number is not positive.
    """
    found = []
    for word in text.split(","):
        name, colon, slots = word.strip().partition(":")
        if not name or (colon and not (slots.isdecimal() and int(slots))):
            raise ValueError(f"launch: hosts={text!r}: {word!r} must be NAME or NAME:PROCESSES")
        found.append(Host(name, int(slots or 1)))
    if len({host.name for host in found}) < len(found):
        raise ValueError(f"launch: hosts={text!r} names a machine twice; give it once, with the sum")
    return found


def answering(hosts: Sequence[Host], agent: str) -> list[Host]:
    """Return the hosts on which `agent` can run a command. This machine is assumed to answer."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        found = pool.map(lambda host: _answers(host.name, agent), hosts)
        return [host for host, answers in zip(hosts, found, strict=True) if answers]


def _answers(name: str, agent: str) -> bool:
    here = socket.gethostname()
    if name in ("localhost", "127.0.0.1", here, here.partition(".")[0]):
        return True
    devnull = subprocess.DEVNULL
    try:
        ended = subprocess.run(
            [*agent.split(), name, "true"],
            stdin=devnull,
            stdout=devnull,
            stderr=devnull,
            timeout=_ANSWER_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


# ---- The launcher ---------------------------------------------------------------------------------------------------

AGENT = "ssh"  # the command that runs commands on another machine
_MIN_RUNTIME = 5.0  # seconds; a job that fails sooner is not started again
_POLL_INTERVAL, _ABORT_GRACE = 0.5, 15.0  # seconds
_FORWARDED = ("PYTHONPATH", "OMP_NUM_THREADS", "RETROGRAD_NUM_THREADS", "RETROGRAD_CACHE_DIR")  # passed to other hosts


def find_mpiexec() -> str:
    """Find mpiexec: next to this Python, where the Open MPI and MPICH wheels install it, or on PATH.

    Raises:
        DistBackendError: there is no mpiexec, or mpi4py is not installed.
    """
    if find_spec("mpi4py") is None:
        raise DistBackendError("launch: mpi4py is not installed; pip install 'retrograd[mpi]'")
    bundled = Path(sys.executable).parent / "mpiexec"
    found = str(bundled) if bundled.exists() else shutil.which("mpiexec")
    if found is None:
        raise DistBackendError(
            "launch: there is no mpiexec; pip install 'retrograd[mpi]' brings Open MPI, or load the cluster's MPI"
        )
    return found


@lru_cache(maxsize=4)
def _is_open_mpi(mpiexec: str) -> bool:
    text = subprocess.run([mpiexec, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    return "Open MPI" in text or "OpenRTE" in text or "prte" in text.lower()


def command(
    workers: int,
    script: Sequence[str],
    mpiexec: str,
    *,
    options: Sequence[str] = (),
    hosts: Sequence[Host] = (),
    agent: str = AGENT,
    environment: Sequence[str] = (),
) -> list[str]:
    """Build the mpiexec command that runs a script in `workers` processes.

    With Open MPI, the other processes continue when one dies (ULFM), there may be more processes than cores, and
    processes are not bound to cores.

    script: its path, or "-m" and a module, followed by its arguments.
    options: further options of mpiexec.
    hosts: the machines.
    agent: the command that runs commands on them.
    environment: names of variables that are passed to processes on other machines.
    """
    flags: list[str] = []
    host_list = ",".join(map(str, hosts))
    if _is_open_mpi(mpiexec):
        flags = ["--with-ft", "ulfm", "--oversubscribe", "--bind-to", "none"]
        if os.name == "posix" and os.getuid() == 0:
            flags.append("--allow-run-as-root")
        if hosts:
            flags += ["--host", host_list, "--prtemca", "plm_ssh_agent", agent]
            flags += [word for name in environment for word in ("-x", name)]
    elif hosts:
        flags = ["-hosts", host_list, "-launcher", "ssh", "-launcher-exec", agent]
    worker = [sys.executable, "-m", "retrograd.distributed.worker"]
    return [mpiexec, *flags, *options, "-n", str(workers), *worker, *script]


def launch(
    workers: int | None,
    script: Sequence[str],
    *,
    restarts: int = 0,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    hosts: Sequence[Host] = (),
    agent: str = AGENT,
    say: Callable[[str], object] = print,
) -> int:
    """Run a script in `workers` processes and return its exit code.

    workers: number of processes; None means as many as the hosts may run, which is also the maximum.
    script: its path, or "-m" and a module, followed by its arguments.
    restarts: how often a failed job is restarted; the script continues from its last checkpoint. A job that fails in
        its first seconds is not restarted. The variable RETROGRAD_RESTART has the number of restarts so far.
    options: further options of mpiexec.
    environment: additional environment variables of the processes.
    hosts: the machines. Each start uses those that answer, so that a lost machine does not end the job.
    agent: the command that runs commands on the hosts.
    say: called with each message.

    Raises:
        DistBackendError: there is no mpiexec, no mpi4py, or no host answers. ValueError: a number is out of range,
        neither workers nor hosts are given, or there is no such script.
    """
    if workers is None and not hosts:
        raise ValueError("launch: pass workers (-n), hosts, or both")
    if isinstance(workers, bool) or not (workers is None or (isinstance(workers, int) and workers >= 1)):
        raise ValueError(f"launch: workers={workers!r} must be a positive int")
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise ValueError(f"launch: restarts={restarts!r} must be an int of at least 0")
    mpiexec = find_mpiexec()
    if script[0] != "-m" and not Path(script[0]).is_file():
        raise ValueError(f"launch: script={script[0]!r}: no such file; pass the path of a script, or -m MODULE")
    for start in range(restarts + 1):
        reachable = answering(hosts, agent) if hosts else []
        if hosts and not reachable:
            raise DistBackendError(f"launch: none of the hosts {', '.join(map(str, hosts))} answers to {agent!r}")
        if len(reachable) < len(hosts):
            gone = [host.name for host in hosts if host not in reachable]
            say(f"launch: {', '.join(gone)} does not answer; it is left out of this start")
        slots = sum(host.slots for host in reachable)
        count = slots if workers is None else min(workers, slots or workers)
        own = {**(environment or {}), "RETROGRAD_LAUNCHED": "1", "RETROGRAD_RESTART": str(start)}
        names = [name for name in (*own, *_FORWARDED) if name in own or name in os.environ]
        command_line = command(count, script, mpiexec, options=options, hosts=reachable, agent=agent, environment=names)
        began = time.monotonic()
        code = _run(command_line, {**os.environ, **own})
        if code == 0 or start == restarts or time.monotonic() - began < _MIN_RUNTIME:
            break
        say(f"launch: the job ended with code {code}; start {start + 2} of at most {restarts + 1}")
    return code


def _run(command_line: Sequence[str], variables: dict[str, str]) -> int:
    """Run mpiexec and return its exit code. On Ctrl-C, wait for it to stop its processes.

    When a machine is lost, mpiexec waits for its daemon on that machine, possibly forever. So a worker that aborts the
    job because another one does not answer also creates a file. Once the file exists, mpiexec is killed unless it ends
    within some seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "aborted"
        process = subprocess.Popen(command_line, env={**variables, ABORT_NOTE: str(note)})
        aborted: float | None = None
        while True:
            try:
                return process.wait(_POLL_INTERVAL)
            except KeyboardInterrupt:
                continue  # mpiexec stops its processes itself
            except subprocess.TimeoutExpired:
                if aborted is None and note.exists():
                    aborted = time.monotonic()
                if aborted is not None and time.monotonic() - aborted > _ABORT_GRACE:
                    for pid in [*descendants(process.pid), process.pid]:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return all descendants of a process that /proc lists."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]
