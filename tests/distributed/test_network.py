"""Two machines, each a network namespace, with a slow link between them that can be cut."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from distributed.workers import PROGRAMS, needs_mpi

pytestmark = [needs_mpi, pytest.mark.nightly]

ADDRESSES = "10.77.3.1", "10.77.3.2"
DELAY = 0.005
# replaces ssh: mpiexec and the launcher call it as AGENT ADDRESS COMMAND ...
AGENT = """#!/bin/sh
case $1 in {addresses[0]}) namespace={names[0]};; *) namespace={names[1]}; [ -e {folder}/cut ] && exec sleep 60;; esac
shift
exec ip netns exec $namespace unshare --uts sh -c "hostname $namespace; $*"
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=30)


class Link:
    """The namespaces of two machines, and the process that forwards packets between them."""

    def __init__(self) -> None:
        self.names = [f"rg{os.getpid()}-{k}" for k in range(2)]
        self.process: subprocess.Popen[str] | None = None

    def open(self) -> None:
        for name in self.names:
            ip("netns", "add", name)
        line = [sys.executable, str(PROGRAMS / "slow_link.py"), *self.names, str(DELAY)]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None and self.process.stdout.readline() == "ready\n"
        for name, address in zip(self.names, ADDRESSES, strict=True):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "wire")
            ip("-n", name, "link", "set", "dev", "wire", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def cut(self) -> None:
        """Drop all packets from now on, without closing connections."""
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write("cut")
        self.process.stdin.flush()

    def stop_all(self) -> None:
        """Kill the processes on both machines."""
        for name in self.names:
            line = ["ip", "netns", "pids", name]
            found = subprocess.run(line, capture_output=True, text=True, timeout=30, check=False)
            for pid in map(int, found.stdout.split()):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            with suppress(OSError):  # the forwarding process no longer reads its end
                self.process.communicate()
        self.stop_all()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=30, check=False)


@pytest.fixture
def link() -> Iterator[Link]:
    made = Link()
    try:
        made.open()
    except (OSError, subprocess.SubprocessError, AssertionError) as error:
        made.close()
        pytest.skip(f"this machine makes no network namespaces: {error} {getattr(error, 'stderr', '')}")
    yield made
    made.close()


def start(link: Link, folder: Path, program: str, steps: int, timeout: float, *flags: str) -> subprocess.Popen[str]:
    """Run a program of PROGRAMS, one process on each machine."""
    agent = folder / "agent"
    agent.write_text(AGENT.format(names=link.names, addresses=ADDRESSES, folder=folder))
    agent.chmod(0o755)
    options = ["--map-by", "node", "--prtemca", "prte_if_include", "wire", "-x", "TIMEOUT"]
    options += ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "wire", "--mca", "pml", "ob1"]
    hosts = ",".join(f"{address}:1" for address in ADDRESSES)
    line = [sys.executable, "-m", "retrograd", "launch", "--hosts", hosts, "--agent", str(agent), *flags]
    line += [f"--mpi={' '.join(options)}", str(PROGRAMS / program), str(folder / "checkpoint"), str(steps)]
    name = link.names[0]
    inside = ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", f'hostname {name}; exec "$@"']
    return subprocess.Popen(
        [*inside, "sh", *line],
        env={**os.environ, "RETROGRAD_NUM_THREADS": "1", "TIMEOUT": f"{timeout}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_a_checkpoint(process: subprocess.Popen[str], folder: Path) -> None:
    deadline = time.monotonic() + 100
    while not (folder / "checkpoint" / "metadata.json").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)


def test_same_bits_over_a_slow_link(link: Link, tmp_path: Path) -> None:
    out, err = start(link, tmp_path, "kills.py", 8, 60).communicate(timeout=200)
    alone = subprocess.run(
        [sys.executable, str(PROGRAMS / "kills.py"), str(tmp_path / "alone"), "8"],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    digest = re.findall("digest [0-9a-f]{64} lost 0", out)
    assert len(digest) == 1 and digest[0] in alone.stdout, err[-3000:]


def test_a_cut_link_is_an_error_that_names_the_rank(link: Link, tmp_path: Path) -> None:
    process = start(link, tmp_path, "kills.py", 10_000, 3)
    wait_for_a_checkpoint(process, tmp_path)
    link.cut()
    out, err = process.communicate(timeout=60)  # mpiexec itself would wait for its daemon there until TCP gives up
    assert process.returncode != 0 and "digest" not in out
    assert re.search(r"waited 3 s: .*rank 1 has not entered it and does not answer.*its last collective was", err), err


def test_training_goes_on_without_a_machine_that_is_gone(link: Link, tmp_path: Path) -> None:
    process = start(link, tmp_path, "resumed.py", 400, 3, "--max-restarts", "1")
    wait_for_a_checkpoint(process, tmp_path)
    link.cut()
    (tmp_path / "cut").touch()
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err[-3000:]
    starts = re.findall(r"from step (\d+) with (\d)", out)
    assert [size for _, size in starts] == ["2", "2", "1"] and 0 < int(starts[2][0]) < 400, starts
    assert f"launch: {ADDRESSES[1]} does not answer; it is left out of this start" in err
    alone = subprocess.run(
        [sys.executable, str(PROGRAMS / "resumed.py"), str(tmp_path / "alone"), "400"],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    (digest,) = re.findall("steps 400 digest [0-9a-f]{64}", out)
    assert digest in alone.stdout
