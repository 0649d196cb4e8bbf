"""Checkpoints under attack: two writers, a reader, kills, failing calls, power cuts."""

import errno
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from disk import Disk, after_power_cut
from retrograd._files import atomic
from retrograd.train import CheckpointError, load_checkpoint, save_checkpoint

OLD, NEW = ({"who": who, "x": np.full(size, who)} for who, size in ((1, 50), (2, 90)))

_WRITER = """
import sys
import numpy as np
from retrograd.train import save_checkpoint
path, who = sys.argv[1], int(sys.argv[2])
random = np.random.default_rng(who)
for count in range(10**9):
    x = random.normal(size=random.integers(1, 60_000))
    save_checkpoint(path, {"who": who, "count": count, "x": x, "sum": float(x.sum())})
    if not count:
        print("writing", flush=True)
"""


def _writer(path, who) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", _WRITER, str(path), str(who)], stdout=subprocess.PIPE)


def _read(path) -> tuple[int, int]:
    state = load_checkpoint(path)
    assert state["sum"] == float(state["x"].sum())
    return state["who"], state["count"]


@pytest.mark.parametrize("seconds", [1, pytest.param(120, marks=pytest.mark.nightly)])
def test_two_writers_and_a_reader(tmp_path, seconds):
    path = tmp_path / "run" / "checkpoint.npz"
    writers = [_writer(path, who) for who in (1, 2)]
    seen = set()
    try:
        for writer in writers:
            assert writer.stdout.readline() == b"writing\n"
        end = time.monotonic() + seconds
        while time.monotonic() < end or (len({who for who, _ in seen}) < 2 and time.monotonic() < end + 60):
            seen.add(_read(path))
        assert all(writer.poll() is None for writer in writers)  # none of them met an error
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert {who for who, _ in seen} == {1, 2}
    save_checkpoint(path, {"x": 1})
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("kills", [1, pytest.param(150, marks=pytest.mark.nightly)])
def test_writers_killed_at_random(tmp_path, kills):
    path = tmp_path / "checkpoint.npz"
    rng, other = random.Random(kills), _writer(path, 1)
    try:
        for who in range(2, 2 + kills):
            writer = _writer(path, who)
            assert writer.stdout.readline() == b"writing\n"
            time.sleep(rng.uniform(0, 0.1))
            writer.kill()
            writer.communicate()
            _read(path)
            assert other.poll() is None
    finally:
        other.kill()
        other.communicate()
    _read(path)
    assert len(os.listdir(tmp_path)) <= 3  # the others swept up
    save_checkpoint(path, {"x": 1})
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_every_call_can_fail(tmp_path, monkeypatch, error):
    path, number = tmp_path / "checkpoint.npz", 0
    while True:
        save_checkpoint(path, OLD)
        disk = Disk(tmp_path)
        disk.fail, disk.error = number, OSError(error, os.strerror(error))
        try:
            with disk.watched(monkeypatch, atomic):
                save_checkpoint(path, NEW)
        except CheckpointError as raised:
            moved = "did not confirm" in str(raised)
            assert moved or "the earlier one is unchanged" in str(raised)
            assert load_checkpoint(path)["who"] == (2 if moved else 1)
        else:
            break
        assert os.listdir(tmp_path) == [path.name]
        number += 1
    assert load_checkpoint(path)["who"] == 2 and number > 8


def test_power_cut_at_any_moment(tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.npz"
    save_checkpoint(path, OLD)
    old, number, disk = path.read_bytes(), path.stat().st_ino, Disk(tmp_path)
    with disk.watched(monkeypatch, atomic):
        save_checkpoint(path, NEW)
    new = path.read_bytes()
    for done in range(len(disk.calls) + 1):
        found = after_power_cut(tmp_path, path, old, number, disk.calls[:done])
        assert found <= {old, new} and (done < len(disk.calls) or found == {new})
