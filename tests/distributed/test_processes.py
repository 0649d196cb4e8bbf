"""Several processes under a real mpiexec; their programs and checks are in programs/."""

import re
import subprocess
import sys
import time

import pytest

from distributed.workers import PROGRAMS, needs_mpi, run

pytestmark = needs_mpi

KINDS = ("batch", "sync", "accumulate")
DIGESTS = f"bits.py 6 {' '.join(KINDS)}"
# By day one job runs several programs, because a job takes longer to start than a program to run. At night each program
# has jobs of its own, with more numbers of processes.
BY_DAY = {
    2: ("data_parallel.py shards", "data_parallel.py whole", "sync_batch_norm.py", "hooks.py", "zero.py {}", DIGESTS),
    3: ("collectives.py", "zero.py {}", "uneven.py shards"),  # zero.py loads the checkpoint of the two processes
}


def digests_in(output, kinds=KINDS):
    """Return the digests that bits.py prints, one for each kind."""
    found = re.findall(r"(\w+) digest ([0-9a-f]{64})", output)
    assert [kind for kind, _ in found] == [*kinds] and len({digest for _, digest in found}) == len(kinds)
    return tuple(found)


def test_several_programs_in_one_job(tmp_path):
    outputs = []
    for workers, lines in BY_DAY.items():
        lines = [line.format(tmp_path / "saved") for line in lines]
        outputs.append(run(workers, "several.py", *lines, seconds=400).stdout)
        assert [outputs[-1].count(f"{line} ended") for line in lines] == [workers] * len(lines)
    # one process needs no launcher, and computes the same bits
    line = [sys.executable, str(PROGRAMS / "several.py"), "collectives.py", DIGESTS]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert "rank 0 of 1 passed\n" in ended.stdout, ended.stderr
    assert digests_in(ended.stdout) == digests_in(outputs[0]), ended.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 3, 4])
def test_collectives(workers):
    assert run(workers, "collectives.py").stdout.count("passed") == workers


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["shards", "whole"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_data_parallel_is_one_process_on_the_whole_batch(workers, kind):
    assert run(workers, "data_parallel.py", kind).stdout.count("passed") == workers


@pytest.fixture(scope="module")
def alone():
    """Return the output of a single process."""
    out = run(1, "unusual.py").stdout
    assert out.count("passed") == 1
    return re.findall(r"(\w+) ([0-9a-f]{64})", out)


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [2, 4])
def test_unusual_orders_of_calls(alone, workers):
    out = run(workers, "unusual.py").stdout
    assert out.count("passed") == workers
    assert re.findall(r"(\w+) ([0-9a-f]{64})", out) == alone and len(alone) == 4


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_same_bits_over_many_steps(kind):
    outputs = [run(workers, "bits.py", 200, kind, seconds=400).stdout for workers in (1, 2, 4, 8)]
    assert len({digests_in(output, [kind]) for output in outputs}) == 1


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_sync_batch_norm_is_batch_norm_of_the_whole_batch(workers):
    assert run(workers, "sync_batch_norm.py").stdout.count("passed") == workers


@pytest.mark.nightly
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_hooks_and_no_sync(workers):
    assert run(workers, "hooks.py").stdout.count("passed") == workers


@pytest.mark.nightly
@pytest.mark.parametrize(("first", "then"), [(2, 3), (1, 2), (4, 1)])
def test_an_optimizer_that_is_shared_out(tmp_path, first, then):
    for workers in (first, then):  # the second run loads the checkpoint of the first
        assert run(workers, "zero.py", tmp_path / "saved").stdout.count("passed") == workers


MESSAGES = {
    "shape": r"ranks 0, 1 all_reduce\(float32 \(3, 4\), SUM\).*; rank 2 all_reduce\(float32 \(3, 5\), SUM\)",
    "dtype": r"ranks 0, 1 all_reduce\(float32 \(3,\), SUM\).*; rank 2 all_reduce\(float64",
    "order": r"ranks 0, 1 all_reduce.*at disagree.py:\d+\); rank 2 broadcast",
    "root": r"ranks 0, 1 broadcast\(float32 \(3,\), src=0\).*; rank 2 broadcast\(float32 \(3,\), src=1\)",
    "parameters": r"rank 0 has 1.weight: float32 \(5, 4\), rank 2 has 1.weight: float32 \(6, 4\)",
    "message": r"rank 2 calls send\(float32 \(3, 5\), dst=0\).*this process calls recv\(float32 \(4,\), src=2",
    "mode": r"SyncBatchNorm\(3 channels, float32\) .* waited 3 s: .*; rank 2 has not entered it",
    "absent": r"barrier\(\) \(collective 1, at disagree.py:\d+\) waited 3 s: rank 1 waits in barrier.*; rank 2 has not "
    "entered it and does not answer",
}
BY_NIGHT = ("dtype", "root", "order", "mode", "parameters", "message", "absent")


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=pytest.mark.nightly) if each in BY_NIGHT else each for each in MESSAGES]
)
def test_processes_that_disagree(what):
    ended = run(3, "disagree.py", what, code=None)
    assert ended.returncode != 0
    assert re.search(MESSAGES[what], ended.stderr), ended.stderr[-2000:]


@pytest.mark.parametrize("how", ["raise", pytest.param("exit", marks=pytest.mark.nightly)])
def test_a_process_that_fails_ends_the_others(how):
    start = time.monotonic()
    ended = run(3, "fails.py", how, code=None)
    assert ended.returncode == {"raise": 1, "exit": 3}[how], ended.stderr
    assert ("a fault of its own" in ended.stderr) == (how == "raise") and "waited" not in ended.stderr
    assert time.monotonic() - start < 40  # the others would wait for 60 seconds


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["shards", "whole"])
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_processes_with_different_numbers_of_batches(workers, kind):
    assert run(workers, "uneven.py", kind).stdout.count("passed") == workers
