"""Grids that are tested in part by day: ``@pytest.mark.pairwise`` on a test with several parameters."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

import pytest

Combination = tuple[tuple[int, str], ...]  # (parametrize, name of its row), one for each of those that are stacked


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked nightly
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    grids: dict[object, dict[Combination, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        if item.get_closest_marker("pairwise") and not item.get_closest_marker("nightly"):
            grids[item.function][tuple(enumerate(item.callspec._idlist))].append(item)  # type: ignore[attr-defined]
    for grid in grids.values():
        sample = set(pairwise(grid))
        for combination, found in grid.items():
            for item in found if combination not in sample else ():
                item.add_marker("nightly")


def pairwise(grid: Iterable[Combination]) -> list[Combination]:
    """Few of the combinations, among which any two values of two parameters meet as they do in all of them.

    Always the same ones: the one with the most pairs that have not met yet, the first of those that have as many.
    """
    pairs = {each: set(combinations(sorted(each), 2)) or {each} for each in grid}
    waiting = [(-len(pairs[each]), place, each) for place, each in enumerate(pairs)]
    heapq.heapify(waiting)
    met: set[object] = set()
    sample: list[Combination] = []
    while waiting:
        claimed, place, each = heapq.heappop(waiting)
        new = len(pairs[each] - met)
        if new == -claimed:
            sample.append(each)
            met |= pairs[each]
        elif new:
            heapq.heappush(waiting, (-new, place, each))
    return sample
