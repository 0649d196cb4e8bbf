"""Processes that die in the middle of a step: the others go on, to the same bits as if nothing had happened."""

import random
import re

import pytest

from distributed.workers import needs_mpi, run

pytestmark = needs_mpi

MOMENTS = (
    "forward", "backward", "before sending", "sending", "receiving", "between the halves", "before agreeing", "agreed",
    "optimizer", "after the step",
)  # fmt: skip


def trained(workers, *deaths, steps=8):
    out = run(workers, "kills.py", steps, *deaths, seconds=200).stdout
    found = re.findall(r"digest ([0-9a-f]{64}) lost (\d+)", out)
    assert len(found) == 1, out
    return found[0]


def test_the_others_go_on_with_the_same_bits():
    digest, lost = trained(1)
    assert lost == "0"
    assert trained(3, "0:between the halves:4", "1:agreed:6") == (digest, "2")


@pytest.mark.nightly
def test_the_same_with_the_statistics_of_the_whole_batch():
    digest, lost = trained(1, "sync")
    assert lost == "0" and digest != trained(1)[0]
    plan = ("0:forward:9", "1:backward:12"), ("2:between the halves:4",), ("1:agreed:6", "3:sending:5")
    for workers, deaths in zip((3, 3, 4), plan, strict=True):
        assert trained(workers, "sync", *deaths) == (digest, f"{len(deaths)}")


@pytest.mark.nightly
def test_twenty_random_moments():
    draw = random.Random(17)
    digest, _ = trained(2)
    for k in range(20):
        moment = MOMENTS[k % len(MOMENTS)]
        workers, count = draw.randint(2, 5), draw.randint(1, 6)
        assert trained(workers, f"{draw.randrange(workers)}:{moment}:{count}") == (digest, "1"), moment
