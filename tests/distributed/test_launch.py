"""Starting processes: the launcher, and ``retrograd train --workers``."""

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
        (["launch", "-n", "2", "--max-restarts", "-1", "x.py"], "restarts=-1 must be an int of at least 0"),
        (["train", "digits", "--max-restarts", "2"], "--max-restarts is for --workers"),
        (["train", "digits", "--workers", "9"], "--workers 9: a batch is cut into 8 shards, so pass at most 8"),
    ],
)
def test_messages(line, message, capsys):
    assert main(line) == 2
    assert message in capsys.readouterr().err


def test_the_environment_that_scripts_for_torchrun_read(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("RANK", "3"), ("SIZE", "8"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "2")):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", value)
    set_environment()
    assert [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")] == list("3812")


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
