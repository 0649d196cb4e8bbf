"""Starting processes: the launcher, and ``retrograd train --workers``."""

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

from distributed.workers import needs_mpi
from retrograd.cli import main
from retrograd.data import TensorDataset
from retrograd.distributed import DistBackendError, init_process_group, is_initialized
from retrograd.distributed.processes import launcher, mpi
from retrograd.distributed.processes.environment import set_environment
from retrograd.distributed.training import loader
from retrograd.train import load_checkpoint


def retrograd(*arguments, seconds=200):
    line = [sys.executable, "-m", "retrograd", *map(str, arguments)]
    variables = {**os.environ, "RETROGRAD_NUM_THREADS": "1"}
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=seconds, check=False)


COMMANDS = ["launch", "-n", "2", "train.py"], ["train", "digits", "--workers", "2", "--output", "run"]


@pytest.mark.parametrize("command", COMMANDS)
def test_without_mpi4py(monkeypatch, capsys, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    assert main(command) == 1
    assert "mpi4py is not installed; pip install 'retrograd[mpi]'" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_without_mpiexec(monkeypatch, capsys, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launcher, "find_spec", lambda name: True)
    monkeypatch.setattr(launcher.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(command) == 1
    assert "there is no mpiexec; pip install 'retrograd[mpi]' brings Open MPI" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["launch", "-n", "0", "x.py"], "launch: workers=0 must be a positive int"),
        (["launch", "x.py"], "launch: pass workers (-n), hosts, or both"),
        (["launch", "--hosts", "a:2,b:0", "x.py"], "hosts='a:2,b:0': 'b:0' must be NAME or NAME:PROCESSES"),
        (["launch", "--hosts", "a,", "x.py"], "hosts='a,': '' must be NAME or NAME:PROCESSES"),
        (["launch", "--hosts", "a:2,a", "x.py"], "names a machine twice; give it once, with the sum"),
        (["launch", "-n", "2", "--agent", "rsh", "x.py"], "--agent is for --hosts"),
        (["launch", "-n", "2", "--max-restarts", "-1", "x.py"], "restarts=-1 must be an int of at least 0"),
        (["train", "digits", "--max-restarts", "2"], "--max-restarts is for --workers"),
        (["train", "digits", "--workers", "9"], "--workers 9: a batch is cut into 8 shards, so pass at most 8"),
    ],
)
def test_messages(line, message, capsys):
    assert main(line) == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def starts(monkeypatch):
    """The command lines that the launcher would run; the first one fails."""
    lines = []
    monkeypatch.setattr(launcher, "find_mpiexec", lambda: "mpiexec")
    monkeypatch.setattr(launcher, "_is_open_mpi", lambda mpiexec: True)
    monkeypatch.setattr(launcher, "_QUICK", 0)
    monkeypatch.setattr(launcher, "_run", lambda line, variables: lines.append(line) or int(len(lines) == 1))
    return lines


def test_hosts_that_do_not_answer_are_left_out(starts, tmp_path, capsys):
    agent = tmp_path / "agent"  # b is gone when it is asked again
    agent.write_text('#!/bin/sh\ncase $1 in b) mkdir "$0.asked" 2>/dev/null;; c) true;; esac\n')
    agent.chmod(0o755)
    line = ["launch", "--hosts", "localhost:2,b:3,c", "--agent", str(agent), "--max-restarts", "1", "x.py"]
    assert main(line) == 0
    assert [words[words.index("--host") + 1] for words in starts] == ["localhost:2,b:3,c:1", "localhost:2,c:1"]
    assert [words[words.index("-n") + 1] for words in starts] == ["6", "3"]
    assert "-x" in starts[0] and "RETROGRAD_RESTART" in starts[0]
    assert "launch: b does not answer; this start goes without" in capsys.readouterr().err
    assert main([*line[:-1], "-n", "2", "x.py"]) == 0  # no more than asked for
    assert starts[2][starts[2].index("-n") + 1] == "2"
    assert main(["launch", "--hosts", "b", "--agent", str(agent), "x.py"]) == 1
    assert "none of the hosts b:1 answers to" in capsys.readouterr().err


def test_processes_and_what_they_have_started():
    shell = subprocess.Popen(["sh", "-c", "sleep 30 & sleep 30 & echo ready; wait"], stdout=subprocess.PIPE)
    try:
        assert shell.stdout.readline() == b"ready\n"
        assert len(launcher.descendants(shell.pid)) == 2
        assert shell.pid in launcher.descendants(os.getpid())
    finally:
        for pid in [*launcher.descendants(shell.pid), shell.pid]:
            os.kill(pid, 9)
        shell.communicate()


def test_the_environment_that_scripts_for_torchrun_read(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("RANK", "3"), ("SIZE", "8"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    set_environment()
    assert [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")] == list("3812")
    assert os.environ["MASTER_ADDR"] == "localhost" and os.environ["MASTER_PORT"].isdigit()


def test_without_a_launcher_there_is_one_process():
    message = "rank=1 but no launcher has started this process, which has 0; leave it out, and set the number"
    with pytest.raises(ValueError, match=message):
        init_process_group("gloo", world_size=1, rank=1)


def test_processes_that_a_script_starts_are_none_of_mpi(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "a process")
    with pytest.raises(RuntimeError, match="started this process by multiprocessing.*leave that to retrograd launch"):
        init_process_group()
    assert not is_initialized()


def test_a_worker_without_mpi4py(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    monkeypatch.setattr(mpi, "load", mpi.load.__wrapped__)
    with pytest.raises(DistBackendError, match=r"started by mpiexec, and MPI cannot be loaded.*retrograd\[mpi\]"):
        init_process_group()
    assert not is_initialized()


def test_more_processes_than_samples(monkeypatch):
    monkeypatch.setattr(loader, "world", lambda: (5, 0))
    data = TensorDataset(np.zeros((4, 2), np.float32))
    with pytest.raises(ValueError, match="more processes than samples, 5 and 4; start at most 4"):
        loader.ShardedLoader(data, 2)
    monkeypatch.setattr(loader, "world", lambda: (4, 0))
    assert len(loader.ShardedLoader(data, 2)) == 2


@needs_mpi
def test_the_command_trains_to_the_same_bits_with_any_number(tmp_path):
    # it hands states on from batch to batch: those of the shards
    text = tmp_path / "text.txt"
    words = np.random.default_rng(0).choice(["gradient", "of", "the", "shard", "is", "a", "tree,\n"], 2500)
    text.write_text(" ".join(words), encoding="utf-8")
    task = ["train", "text", "--text", text, "--batch-size", 6, "--epochs", 1]
    arrays = []
    for workers in (1, 3):
        output = tmp_path / str(workers)
        ended = retrograd(*task, "--workers", workers, "--output", output)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("checkpoint  ") == 1  # one process prints
        report = (output / "report.html").read_text(encoding="utf-8")
        assert "worker 0" in report and ("worker 2" in report) == (workers == 3)
        state = load_checkpoint(output / "checkpoint.npz")
        arrays.append([*state["model"].values()])
        assert np.abs(state["model"]["h"]).max() > 0.1
    assert all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))
    alone = retrograd(*task, "--resume", "--output", tmp_path / "1")
    assert alone.returncode == 1 and "is of a run with --workers" in alone.stderr
