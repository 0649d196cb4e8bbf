"""The daily sample of ``@pytest.mark.pairwise``, which contains every pair of values, and the cases drawn each day."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import DRAWN, Combination, is_drawn, mark_undrawn_as_nightly, mark_unsampled_as_nightly, pairwise


def grid(*sizes: int) -> list[Combination]:
    return [tuple(enumerate(map(str, values))) for values in product(*map(range, sizes))]


def pairs(sample: list[Combination]) -> set[Any]:
    return {pair for each in sample for pair in combinations(each, 2)}


@pytest.mark.parametrize("sizes", [(3, 2, 2), (12, 12, 2), (6, 9, 2, 2), (2, 3, 4, 5, 2), (5, 4), (7,), (1, 1, 1)])
def test_any_two_values_meet(sizes: tuple[int, ...]) -> None:
    all_of_them = grid(*sizes)
    sample = pairwise(all_of_them)
    assert pairs(sample) == pairs(all_of_them) and len(set(sample)) == len(sample)
    assert {value for each in sample for value in each} == {value for each in all_of_them for value in each}
    largest, second = sorted([*sizes, 1])[-1:-3:-1]
    assert largest * second <= len(sample) <= 2 * largest * second
    assert pairwise(all_of_them) == sample


def test_of_a_grid_with_gaps() -> None:
    some = random.Random(0).sample(grid(4, 3, 3, 2), 40)
    assert pairs(pairwise(some)) == pairs(some)


class Item(SimpleNamespace):
    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks

    def add_marker(self, name: str) -> None:
        self.marks.add(name)


def test_a_draw_has_a_part_of_the_cases_of_large_tests() -> None:
    """The same seed draws the same cases, each test keeps one, and all of them are drawn on some day."""

    def drawn(seed: str) -> set[str]:
        many = [Item(nodeid=f"tests/kernels/test_a.py::test_a[{case}]", marks=set()) for case in range(30)]
        one = Item(nodeid="tests/kernels/test_a.py::test_b", marks=set())
        elsewhere = [Item(nodeid=f"tests/nn/test_c.py::test_c[{case}]", marks=set()) for case in range(30)]
        mark_undrawn_as_nightly(seed, [*many, one, *elsewhere])
        assert not one.marks and not any(item.marks for item in elsewhere)
        return {item.nodeid for item in many if not item.marks}

    days = [drawn(f"2026-11-{day}") for day in range(1, 31)]
    assert DRAWN["kernels"] == 3 and {len(each) for each in days} == {10}
    assert drawn("2026-11-1") == days[0] != days[1] and len(set().union(*days)) == 30


def test_the_others_run_at_night() -> None:
    """Unmarked tests always run. A combination that is nightly anyway does not count as covering its pairs."""

    def items(function: str, *marks: str) -> list[Any]:
        each = [SimpleNamespace(_idlist=[value for _, value in one]) for one in grid(4, 3, 2)]
        return [Item(function=function, callspec=one, marks=set(marks)) for one in each]

    whole, marked, nights = items("one"), items("two", "pairwise"), items("three", "pairwise")
    for item in nights[:6]:  # all with the first value
        item.marks.add("nightly")
    mark_unsampled_as_nightly([*whole, *marked, *nights])
    assert not any(item.marks for item in whole)
    assert sum("nightly" not in item.marks for item in marked) == 12
    by_day = [tuple(enumerate(item.callspec._idlist)) for item in nights if "nightly" not in item.marks]
    assert pairs(by_day) == pairs([one for one in grid(4, 3, 2) if one[0][1] != "0"])


def test_a_tenth_is_drawn_by_its_seed_and_the_same_in_every_process() -> None:
    here = Path(__file__).parent

    def chosen(*arguments: str) -> set[str]:
        line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
        ended = subprocess.run([*line, here / "test_geometry.py"], capture_output=True, text=True, check=False)
        return {line for line in ended.stdout.splitlines() if "::" in line}

    every = chosen()
    tenths = [{name for name in every if is_drawn(seed, name)} for seed in "12"]
    assert chosen("--tenth", "1") == tenths[0] not in (tenths[1], set())
    assert all(len(every) / 30 < len(tenth) < len(every) / 4 for tenth in tenths)
