"""ProcessPool: several processes of one library, which measure on request and sleep in between.

The pools of two libraries take turns on the same cores, block by block.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from retrograd.distributed.launcher import command, find_mpiexec

_ROOT = Path(__file__).resolve().parents[1]
_START, _ANSWER = 120.0, 600.0  # seconds


class ProcessPool:
    """`size` processes of `library`: "retrograd" (started by mpiexec) or "torch" (connected by gloo over a port).

    Each has one thread and its own core, as long as there are enough cores.

    Raises:
        RuntimeError: the processes do not start, or one of them fails; the message contains its output.
    """

    def __init__(self, library: str, size: int = 2) -> None:
        self._folder = tempfile.TemporaryDirectory()
        address = str(Path(self._folder.name) / "socket")
        arguments = ["-m", "benchmarks.pool_worker", library, address]
        environment = {**os.environ, "RETROGRAD_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": _path()}
        self._streams: dict[int, Any] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(address)
            listener.listen(size)
            listener.settimeout(_START)
            if library == "retrograd":
                self._start(command(size, arguments, find_mpiexec()), environment)
            else:
                port = _free_port()
                for rank in range(size):
                    place = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
                    own = {name: str(value) for name, value in place.items()}
                    self._start([sys.executable, *arguments], {**environment, **own})
            for _ in range(size):
                self._accept(listener)

    def ask(self, method: str, *arguments: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        """Call a method of Member in all processes, or in some of them, and return their answers."""
        return [self.answer(rank) for rank in self.begin(method, *arguments, ranks=ranks)]

    def begin(self, method: str, *arguments: Any, ranks: Sequence[int] | None = None) -> Sequence[int]:
        """Send a request like `ask` without waiting for the answers; return the processes that will answer."""
        chosen = sorted(self._streams) if ranks is None else ranks
        for rank in chosen:
            self._streams[rank].write(json.dumps([method, arguments]) + "\n")
            self._streams[rank].flush()
        return chosen

    def answer(self, rank: int) -> Any:
        """Return the answer of a process."""
        line = self._streams[rank].readline()
        if not line:
            raise RuntimeError(f"process {rank} has ended; its output is above")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"process {rank}: {answer['error']}")
        return answer["value"]

    def forget(self, rank: int) -> None:
        """Stop using a process that is going to be killed."""
        self._streams.pop(rank)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in self._streams.values():
            stream.close()  # the processes end when their input ends
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._folder.cleanup()

    def _start(self, line: Sequence[str], environment: dict[str, str]) -> None:
        self._processes.append(
            subprocess.Popen(line, cwd=_ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        )

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            self.__exit__()
            raise RuntimeError(f"the processes do not start: {self._processes[0].args}") from None
        connection.settimeout(_ANSWER)
        stream = connection.makefile("rw", encoding="utf-8")
        self._streams[int(json.loads(stream.readline()))] = stream


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _path() -> str:
    return os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
