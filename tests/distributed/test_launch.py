"""Starting processes: the launcher, and ``retrograd train --workers``."""

import os
import subprocess
import sys

import numpy as np
import pytest

from distributed.workers import needs_mpi
from retrograd.cli import main
from retrograd.distributed import launcher
from retrograd.distributed.environment import set_environment
from retrograd.train import load_checkpoint


def retrograd(*arguments, seconds=200):
    line = [sys.executable, "-m", "retrograd", *map(str, arguments)]
    variables = {**os.environ, "RETROGRAD_NUM_THREADS": "1"}
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=seconds, check=False)


def test_without_mpi4py(monkeypatch, capsys):
    monkeypatch.setattr(launcher, "find_spec", lambda name: None)
    assert main(["launch", "-n", "2", "train.py"]) == 1
    assert "mpi4py is not installed; pip install 'retrograd[mpi]'" in capsys.readouterr().err


def test_without_mpiexec(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(launcher, "find_spec", lambda name: True)
    monkeypatch.setattr(launcher.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["launch", "-n", "2", "train.py"]) == 1
    assert "there is no mpiexec; pip install 'retrograd[mpi]' brings Open MPI" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["launch", "-n", "0", "x.py"], "launch: workers=0 must be a positive int"),
        (["launch", "-n", "2", "--max-restarts", "-1", "x.py"], "restarts=-1 must be an int of at least 0"),
        (["train", "text", "--workers", "2"], "the task text hands states on from batch to batch"),
        (["train", "digits", "--max-restarts", "2"], "--max-restarts is for --workers"),
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


@needs_mpi
def test_the_command_trains_to_the_same_bits_with_any_number(tmp_path):
    csv = tmp_path / "waves.csv"
    waves = np.sin(np.arange(300) * 0.3) + 0.1 * np.cos(np.arange(300))
    csv.write_text("\n".join(["height", *(f"{height:.5f}" for height in waves)]))
    task = ["train", "series", "--csv", csv, "--column", "height", "--period", 21, "--epochs", 1]
    arrays = []
    for workers in (1, 2):
        output = tmp_path / str(workers)
        ended = retrograd(*task, "--workers", workers, "--output", output)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("checkpoint  ") == 1  # one process prints
        report = (output / "report.html").read_text(encoding="utf-8")
        assert "worker 0" in report and ("worker 1" in report) == (workers == 2)
        state = load_checkpoint(output / "checkpoint.npz")
        arrays.append([*state["model"].values()])
    assert all(np.array_equal(a, b) for a, b in zip(*arrays, strict=True))
    alone = retrograd(*task, "--resume", "--output", tmp_path / "1")
    assert alone.returncode == 1 and "is of a run with --workers" in alone.stderr
