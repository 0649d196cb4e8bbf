"""The model of benchmarks/scaling.py: simulated collectives, and training steps that can be computed by hand."""

from __future__ import annotations

import importlib
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from retrograd.distributed.reduction_tree import tree_sum

ROOT = Path(__file__).resolve().parents[1]


def _module(name: str) -> Any:
    sys.path.insert(0, str(ROOT))
    try:
        return importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(str(ROOT))


scaling, scaling_page = _module("scaling"), _module("scaling_page")
LINK = scaling.Link("a link", 3.0, 0.5)


# ---- collectives, message by message: a worker sends one message and receives one at a time --------------------------


def _play(rounds: list[list[tuple[int, int, float]]], workers: int) -> float:
    """Return the finish time of rounds of messages (from, to, bytes); each waits for both of its workers."""
    free = [0.0] * workers
    for messages in rounds:
        ends = {}
        for sender, receiver, size in messages:
            end = max(free[sender], free[receiver]) + 3.0 + 0.5 * size
            ends[sender], ends[receiver] = max(ends.get(sender, 0), end), max(ends.get(receiver, 0), end)
        for worker, end in ends.items():
            free[worker] = end
    return max(free)


def _in_a_ring(workers: int, size: float) -> list[list[tuple[int, int, float]]]:
    return [[(w, (w + 1) % workers, size / workers) for w in range(workers)]] * (workers - 1)


@pytest.mark.parametrize("workers", [2, 3, 4, 7, 8])
def test_the_ring_and_the_all_to_all(workers: int) -> None:
    expected = _play(_in_a_ring(workers, 840), workers)
    stages = scaling.ring(LINK, workers, 840, 0.25)
    assert stages.first == stages.second == pytest.approx(expected)
    assert stages.adding == pytest.approx(0.25 * 840 / workers * (workers - 1))
    pairs = [[(w, (w + k) % workers, 840 / workers) for w in range(workers)] for k in range(1, workers)]
    stages = scaling.all_to_all(LINK, workers, 840, 0.25)
    assert (stages.first, stages.second) == (pytest.approx(_play(pairs, workers)), pytest.approx(expected))
    assert stages.adding == pytest.approx(0.25 * 840 / workers * (workers - 1))


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_halving(workers: int) -> None:
    rounds, size, distance = [], 960.0, 1
    while distance < workers:
        size /= 2
        rounds.append([(w, w ^ distance, size) for w in range(workers)])
        distance *= 2
    stages = scaling.halving(LINK, workers, 960, 0.25)
    assert stages.first == pytest.approx(_play(rounds, workers))
    assert stages.second == pytest.approx(_play(rounds[::-1], workers))
    with pytest.raises(ValueError, match="workers=6 must be a power of 2"):
        scaling.halving(LINK, 6, 960, 0.25)


def test_a_worker_with_several_sums_sends_them_all() -> None:
    # 8 shards: worker 0 of 3 has (0 1), worker 1 (2 3) and 4, worker 2 has 5 and (6 7)
    stages = scaling.all_to_all(LINK, 3, 300, 0.25, shards=8)
    assert stages.first == pytest.approx(2 * 3.0 + 2 * 2 * 100 * 0.5)
    assert stages.second == pytest.approx(2 * 3.0 + 2 * 100 * 0.5)
    assert stages.adding == pytest.approx(4 * 100 * 0.25)


@pytest.mark.parametrize("workers", [2, 4, 8, 16])
def test_halving_with_neighbors_first_adds_in_the_order_of_the_tree(workers: int) -> None:
    """As the page states, the fixed reduction tree needs no additional rounds."""
    numbers = np.random.default_rng(3).standard_normal((workers, 64)).astype(np.float32)
    sums, distance = [each.copy() for each in numbers], 1
    while distance < workers:
        # both of a pair add their partial sums; that each then keeps one half changes no sum
        sums = [sums[w] + sums[w ^ distance] for w in range(workers)]
        distance *= 2
    expected = tree_sum({(w, w + 1): each.copy() for w, each in enumerate(numbers)}, workers)
    assert all(np.array_equal(each, expected) for each in sums)
    assert not np.array_equal(np.cumsum(numbers, axis=0)[-1], expected) or workers == 2


# ---- steps ---------------------------------------------------------------------------------------------------------


def _fixed(seconds: float) -> Any:
    """Return a collective of two halves whose time does not depend on the size of the data."""
    return lambda link, workers, size, adding: scaling.Stages(seconds / 2, 0.0, seconds / 2)


NOBODY_LATE = np.zeros(4)


@pytest.mark.parametrize("buckets", [1, 2, 5, 12])
def test_a_slow_link_is_never_idle_from_the_first_bucket_on(buckets: int) -> None:
    load = scaling.Load(1.0, 2.0, (10,) * buckets)
    time = scaling.step_time(load, _fixed(9.0), LINK, NOBODY_LATE)
    assert time == pytest.approx(1 + 2 / buckets + 9 * buckets)


@pytest.mark.parametrize("buckets", [1, 2, 5, 12])
def test_a_fast_link_shows_the_last_bucket_alone(buckets: int) -> None:
    load = scaling.Load(1.0, 2.0, (10,) * buckets)
    assert scaling.step_time(load, _fixed(0.1), LINK, NOBODY_LATE) == pytest.approx(3.1)


def test_additions_overlap_with_the_link_and_calls_with_nothing() -> None:
    def collective(*_: Any) -> Any:
        return scaling.Stages(1.0, 5.0, 1.0)

    # both buckets are ready at 0.1: sent until 1.1 and 2.1, added until 6.1 and 7.1, back until 7.1 and 8.1
    assert scaling.end_of_exchange([0.1, 0.1], [collective()] * 2) == pytest.approx(8.1)
    load = scaling.Load(1.0, 2.0, (10, 10), call=0.5, copying=0.025)
    time = scaling.step_time(load, _fixed(0.0), LINK, NOBODY_LATE)
    assert time == pytest.approx(3 + 2 * (0.5 + 0.25))


def test_the_latest_of_many_is_late_by_a_harmonic_number() -> None:
    load = scaling.Load(1.0, 2.0, (10,))
    for workers in (2, 8, 64):
        found = scaling.efficiency(load, 3.0, _fixed(0.0), LINK, workers, 0.02, steps=1500)
        expected = 1 / (1 + 0.02 * sum(1 / k for k in range(1, workers + 1)))
        assert found == pytest.approx(expected, abs=2e-3)


def test_one_worker_exchanges_nothing() -> None:
    load = scaling.Load(1.0, 2.0, (10,), call=5.0)
    assert scaling.efficiency(load, 3.0, scaling.all_to_all, LINK, 1, 0.0) == 1


# ---- the page ------------------------------------------------------------------------------------------------------


def test_the_page_is_of_the_results_that_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(scaling_page, "PAGE", tmp_path / "scaling.md")
    monkeypatch.setattr(scaling_page, "PICTURE", tmp_path / "scaling.svg")
    scaling_page.write()
    written = (tmp_path / "scaling.md").read_text(encoding="utf-8")
    page = ROOT / "docs" / "contributing" / "scaling.md"
    assert written == page.read_text(encoding="utf-8"), "python -m benchmarks.scaling_page"
    for file in (tmp_path / "scaling.svg", ROOT / "docs" / "static" / "scaling.svg"):
        texts = {element.text for element in ElementTree.parse(file).iter() if element.tag.endswith("}text")}
        titles = {f"{network}, {link.name}" for network in scaling_page.NETWORKS for link in scaling_page.LINKS}
        assert titles <= texts and "the same bits, predicted" in texts


def test_a_row_that_was_not_measured_is_named(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text('{"results": []}')
    measured = scaling_page.Measured(tmp_path / "results.json")
    with pytest.raises(LookupError, match="no row distributed work: VGG-11, 32 samples per process: 1 process"):
        measured.load("VGG-11", tree=True)


def test_the_buckets_are_those_that_are_sent() -> None:
    sizes = scaling_page.bucket_sizes("VGG-11")
    assert sum(sizes) == 4 * 9_733_480
    assert len(sizes) > 5 and max(sizes) < 10e6
