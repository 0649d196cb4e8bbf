"""Two runs in one folder: the second is refused, and a dead run does not block the folder."""

import errno
import os
import socket
import subprocess
import sys

import pytest

from retrograd.train import CheckpointError
from retrograd.train.lock import InUseError, RunLock
from train.small import SMALL, bits

_HOLD = """
import os, sys
from retrograd.train.lock import RunLock
lock = RunLock(sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of the folder ``run``."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path / "run")], stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_second_run_is_told_who_has_it(tmp_path, holder, make_trainer):
    who = f"process {holder.pid} on {socket.gethostname()}"
    with pytest.raises(
        InUseError, match=f"another run is training in {tmp_path}/run, {who}; wait until it ends, or choose another"
    ):
        RunLock(tmp_path / "run")
    trainer = make_trainer()
    with pytest.raises(CheckpointError, match=f"another run is training in .*, {who}"):
        trainer.run()
    assert os.listdir(tmp_path / "run") == ["run.lock"] and trainer.steps == 0


def test_a_killed_run_blocks_nobody(tmp_path, holder, make_trainer):
    holder.communicate("die\n")
    assert holder.returncode == -9 and os.listdir(tmp_path / "run") == ["run.lock"]
    trainer = make_trainer()
    trainer.run()
    assert trainer.finished and os.listdir(tmp_path / "run") == ["checkpoint.npz"]


def test_one_process_cannot_run_twice_in_a_folder(make_trainer, tmp_path):
    trainer = make_trainer()
    with RunLock(tmp_path / "run") as lock:
        with pytest.raises(InUseError, match=f"process {os.getpid()} on "):
            trainer.run()
        holding = make_trainer(lock=lock)
        holding.run()
        with pytest.raises(InUseError):
            RunLock(tmp_path / "run")  # it is the caller's, and still held
    trainer.run()
    assert bits(trainer) and trainer.epoch == SMALL.epochs


def test_what_was_made_for_nothing_is_removed(tmp_path):
    with RunLock(tmp_path / "runs" / "digits"):
        assert os.listdir(tmp_path / "runs" / "digits") == ["run.lock"]
    assert os.listdir(tmp_path) == []
    (tmp_path / "mine").mkdir()
    with RunLock(tmp_path / "mine"):
        pass
    with RunLock(tmp_path / "runs" / "digits"):
        (tmp_path / "runs" / "digits" / "checkpoint.npz").write_bytes(b"")
    assert os.listdir(tmp_path / "mine") == [] and os.listdir(tmp_path / "runs" / "digits") == ["checkpoint.npz"]


def test_closing_twice_takes_nobody_elses_lock(tmp_path):
    first = RunLock(tmp_path)
    first.close()
    with RunLock(tmp_path):
        first.close()
        assert (tmp_path / "run.lock").exists()
    moved = RunLock(tmp_path)
    (tmp_path / "run.lock").unlink()  # by the user, say
    with RunLock(tmp_path):
        moved.close()
        assert (tmp_path / "run.lock").exists()


def test_the_name_is_taken_away_in_between(tmp_path, monkeypatch):
    """A lock on a file that was unlinked in the meantime does not count."""
    first, there = RunLock(tmp_path), RunLock._is_current
    calls = []

    def ended(self, handle):
        calls.append(handle)
        if len(calls) == 1:
            (tmp_path / "run.lock").unlink()
        return there(self, handle)

    os.close(first._handle)
    first._handle = None  # killed
    monkeypatch.setattr(RunLock, "_is_current", ended)
    with RunLock(tmp_path), pytest.raises(InUseError):
        RunLock(tmp_path)
    assert len(calls) >= 2


@pytest.mark.parametrize("plant", ["link", "second name", "pipe", "folder"])
def test_planted_lock(tmp_path, plant):
    victim, path = tmp_path / "victim", tmp_path / "run" / "run.lock"
    victim.write_bytes(b"precious")
    path.parent.mkdir()
    make = {"link": path.symlink_to, "second name": path.hardlink_to}.get(plant)
    make(victim) if make else os.mkfifo(path) if plant == "pipe" else path.mkdir()
    with pytest.raises(CheckpointError, match=r"run\.lock (was not written|is a)"):
        RunLock(path.parent)
    assert victim.read_bytes() == b"precious"


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="run/run.lock was not written: .*file is a file, not a folder"):
        RunLock(tmp_path / "file" / "run")


@pytest.mark.parametrize("text", [b"", b"process 1 on \x1b[31mred\n", b"\xff" * 300])
def test_what_the_file_says_is_only_shown_if_it_is_ours(tmp_path, text):
    with RunLock(tmp_path):
        (tmp_path / "run.lock").write_bytes(text)
        with pytest.raises(InUseError, match="another run is training in .*, another process; wait"):
            RunLock(tmp_path)


def test_file_system_without_locks(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def none(handle, kind):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with RunLock(tmp_path), RunLock(tmp_path):
        pass


def test_a_fork_neither_keeps_nor_gives_back_the_lock(tmp_path):
    code = """
import os, sys
from retrograd.train.lock import InUseError, RunLock
lock = RunLock(sys.argv[1])
read, write = os.pipe()
ready, say = os.pipe()
if not os.fork():
    lock.close()
    os.write(say, b"!")
    os.close(write)
    os.read(read, 1)  # lives on until the parent has looked
    os._exit(0)
os.read(ready, 1)
try:
    RunLock(sys.argv[1])
    sys.exit("the child gave it back")
except InUseError:
    pass
os.close(lock._handle)  # as if killed
RunLock(sys.argv[1]).close()
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
