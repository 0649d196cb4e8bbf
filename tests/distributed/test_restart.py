"""A worker that dies where MPI has no fault tolerance: the launcher restarts from the last checkpoint."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from distributed.workers import needs_mpi
from retrograd.cli import main
from retrograd.distributed import launcher
from retrograd.train import load_checkpoint

pytestmark = needs_mpi


def worker_of(output: Path, rank: int) -> int | None:
    """Return the process of a rank that trains in a folder, as first started."""
    for entry in Path("/proc").iterdir():
        try:
            line, variables = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        wanted = {b"RETROGRAD_RESTART=0", b"RETROGRAD_WORKER=1"}
        named = {b"OMPI_COMM_WORLD_RANK=%d" % rank, b"PMI_RANK=%d" % rank}  # set by Open MPI, by MPICH
        if str(output).encode() in line and wanted <= {*variables} and named & {*variables}:
            return int(entry.name)
    return None


def kill_after_a_checkpoint(output: Path, rank: int, killed: list[int]) -> None:
    checkpoint, deadline = output / "checkpoint.npz", time.monotonic() + 100
    first = 0
    while time.monotonic() < deadline and not killed:
        inode = checkpoint.stat().st_ino if checkpoint.exists() else 0
        first = first or inode
        if inode not in (0, first):  # the second checkpoint: the run is in progress
            pid = worker_of(output, rank)
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
        time.sleep(0.002)


def waves(folder: Path) -> list[str]:
    csv = folder / "waves.csv"
    heights = np.sin(np.arange(400) * 0.3) + 0.1 * np.cos(np.arange(400))
    csv.write_text("\n".join(["height", *(f"{height:.5f}" for height in heights)]))
    return ["train", "series", "--csv", str(csv), "--column", "height", "--period", "21", "--epochs", "8"]


@pytest.mark.nightly
@pytest.mark.parametrize("rank", [0, 1])
def test_the_final_bits_are_those_of_an_undisturbed_run(tmp_path, monkeypatch, capfd, rank):
    monkeypatch.setenv("RETROGRAD_NUM_THREADS", "1")
    task = [*waves(tmp_path), "--checkpoint-every", "2"]
    assert main([*task, "--workers", "1", "--output", str(tmp_path / "undisturbed")]) == 0

    with_fault_tolerance = launcher.command

    def without(*arguments, **options):
        return [word for word in with_fault_tolerance(*arguments, **options) if word not in ("--with-ft", "ulfm")]

    monkeypatch.setattr(launcher, "command", without)
    monkeypatch.setattr(launcher, "_MIN_RUNTIME", 0)
    output, killed = tmp_path / "disturbed", []
    killer = threading.Thread(target=kill_after_a_checkpoint, args=(output, rank, killed), daemon=True)
    killer.start()
    assert main([*task, "--workers", "2", "--max-restarts", "1", "--output", str(output)]) == 0
    killer.join(1)
    assert killed
    assert "start 2 of at most 2" in capfd.readouterr().err
    expected, found = (load_checkpoint(tmp_path / name / "checkpoint.npz") for name in ("undisturbed", "disturbed"))
    assert found["steps"] == expected["steps"] and found["epoch"] == 8
    for name, array in expected["model"].items():
        np.testing.assert_array_equal(found["model"][name], array)
    losses = [[record["loss"] for record in state["history"]] for state in (expected, found)]
    assert losses[0] == losses[1]
