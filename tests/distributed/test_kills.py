"""Processes that die or stop in the middle of a step: the others continue and compute the same bits."""

import random
import re
import time

import pytest

from distributed.workers import needs_mpi, needs_ulfm, run

pytestmark = needs_mpi

MOMENTS = (
    "forward",
    "backward",
    "before sending",
    "sending",
    "receiving",
    "between the halves",
    "before agreeing",
    "agreed",
    "optimizer",
    "after the step",
    "writing",
    "written",
    "writing metadata",
    "metadata written",
)
OF_THE_FIRST = ("writing metadata", "metadata written")
RARE = ("writing", "written", *OF_THE_FIRST)  # only in every second step


def trained(folder, workers, *blows, steps=8):
    out = run(workers, "kills.py", folder, steps, *blows, seconds=200).stdout
    found = re.findall(r"steps (\d+)\ndigest ([0-9a-f]{64}) lost (\d+)", out)
    assert len(found) == 1, out
    return found[0]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("undisturbed"), 2)


@needs_ulfm
def test_the_others_go_on_with_the_same_bits(tmp_path):
    alone = trained(tmp_path, 1)
    assert alone[0] == "8" and alone[2] == "0"
    blows = "0:between the halves:4", "1:agreed:6", "3:written:2"
    assert trained(tmp_path, 4, *blows) == (*alone[:2], "3")


@needs_ulfm
@pytest.mark.nightly
def test_a_stopped_process_that_comes_back_changes_nothing(tmp_path):
    # one process stops for two seconds; all survivors learn of a death and of a stop signal in the same step
    blows = "1:backward:5:STOP2", "2:before agreeing:6:KILL", "0:before agreeing:6:TERM"
    found = trained(tmp_path, 3, *blows)
    assert int(found[0]) < 8 and found[2] == "1"
    assert trained(tmp_path, 1, steps=found[0])[:2] == found[:2]


@needs_ulfm
@pytest.mark.nightly
@pytest.mark.parametrize("moment", ["backward", "after the step"])
def test_a_death_that_takes_a_part_of_the_optimizer_along_ends_the_job(tmp_path, undisturbed, moment):
    assert trained(tmp_path / "whole", 3, "zero") == undisturbed
    ended = run(3, "kills.py", tmp_path, 8, "zero", f"1:{moment}:5", code=None, seconds=60)
    assert ended.returncode != 0 and "digest" not in ended.stdout
    message = "ShardedTrainer: a process has died, and with it its part of the optimizer's state"
    assert message in ended.stderr, ended.stderr


@pytest.mark.nightly
def test_any_number_of_processes_trains_to_the_same_bits(tmp_path):
    found = {trained(tmp_path / f"{workers}", workers, steps=200) for workers in (1, 2, 3, 4, 8)}
    assert len(found) == 1 and next(iter(found))[::2] == ("200", "0")


@pytest.mark.nightly
def test_the_same_with_the_statistics_of_the_whole_batch(tmp_path):
    whole = trained(tmp_path, 1, "sync")
    assert whole[2] == "0" and whole[1] != trained(tmp_path / "own", 1)[1]
    plan = ("0:forward:9", "1:backward:12"), ("2:between the halves:4",), ("1:agreed:6", "3:sending:5")
    for workers, deaths in zip((3, 3, 4), plan, strict=True):
        assert trained(tmp_path / f"{workers}{deaths}", workers, "sync", *deaths) == (*whole[:2], f"{len(deaths)}")


@pytest.mark.nightly
@pytest.mark.parametrize("back", ["", "6"])
@pytest.mark.parametrize("moment", ["backward", "before agreeing", "writing", "writing metadata"])
def test_a_stopped_process_is_named_and_the_job_ends(tmp_path, moment, back):
    start = time.monotonic()
    rank = 0 if moment in OF_THE_FIRST else 1
    ended = run(3, "kills.py", tmp_path, 8, f"{rank}:{moment}:4:STOP{back}", code=None, seconds=60, TIMEOUT="2")
    assert ended.returncode != 0 and "digest" not in ended.stdout
    message = (
        rf"waited 2 s: .*rank {rank} has not entered it and does not answer: it is stopped, or busy in other code; its "
        r"last collective was .*\(collective \d+, at kills.py:\d+\)"
    )
    assert re.search(message, ended.stderr), ended.stderr
    assert time.monotonic() - start < 30
    trained(tmp_path, 1)  # the folder is not locked for the next run


@needs_ulfm
@pytest.mark.nightly
@pytest.mark.parametrize("k", range(30))
def test_a_kill_at_a_random_moment(tmp_path, undisturbed, k):
    draw, moment = random.Random(k), MOMENTS[k % len(MOMENTS)]
    workers, count = draw.randint(2, 5), draw.randint(1, 3 if moment in RARE else 6)
    victim = 0 if moment in OF_THE_FIRST else draw.randrange(workers)
    assert trained(tmp_path, workers, f"{victim}:{moment}:{count}") == (*undisturbed[:2], "1"), moment
