"""The daily sample of ``@pytest.mark.pairwise``, which contains every pair of values, and the cases drawn each day."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections import Counter
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import (
    DRAWN,
    Combination,
    is_drawn,
    is_nightly,
    mark_undrawn_as_nightly,
    mark_unsampled_as_nightly,
    pairwise,
)


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


def case(*values: str) -> Any:
    """A case of a parametrized test, of which the draw uses these attributes."""
    return SimpleNamespace(_idlist=list(values), marks=[])


def test_a_draw_has_a_part_of_the_cases_of_large_tests() -> None:
    """The same seed draws the same cases, each test keeps one, and all of them are drawn on some day."""

    def drawn(seed: str) -> set[str]:
        many, one, elsewhere = [[case(str(at)) for at in range(count)] for count in (30, 1, 30)]
        mark_undrawn_as_nightly(seed, "tests/kernels/test_a.py::test_a", many)
        mark_undrawn_as_nightly(seed, "tests/kernels/test_a.py::test_b", one)
        mark_undrawn_as_nightly(seed, "tests/engine/test_c.py::test_c", elsewhere)
        assert not any(map(is_nightly, [*one, *elsewhere]))
        return {each._idlist[0] for each in many if not is_nightly(each)}

    days = [drawn(f"2026-11-{day}") for day in range(1, 31)]
    assert DRAWN["kernels"] == 6 and {len(each) for each in days} == {5}
    assert drawn("2026-11-1") == days[0] != days[1] and len(set().union(*days)) == 30


def test_the_others_run_at_night() -> None:
    """A combination that is nightly anyway does not count as covering its pairs."""
    marked, nights = [[case(*(value for _, value in one)) for one in grid(4, 3, 2)] for _ in range(2)]
    for each in nights[:6]:  # all with the first value
        each.marks.append(pytest.mark.nightly.mark)
    mark_unsampled_as_nightly(marked)
    mark_unsampled_as_nightly(nights)
    assert sum(not is_nightly(each) for each in marked) == 12
    by_day = [tuple(enumerate(each._idlist)) for each in nights if not is_nightly(each)]
    assert pairs(by_day) == pairs([one for one in grid(4, 3, 2) if one[0][1] != "0"])


def collected(*arguments: str) -> set[str]:
    line = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    return {line for line in ended.stdout.splitlines() if "::" in line}


def test_pytest_collects_what_is_drawn(tmp_path: Path) -> None:
    """Unmarked tests stay whole, tests whose cases are all nightly stay out, and a named case is collected."""
    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib -m 'not nightly'\nmarkers =\n  nightly:\n  pairwise:\n"
    )
    (folder / "test_docs.py").write_text(
        "import pytest\n"
        "each = pytest.mark.parametrize\n"
        "@each('case', range(9))\ndef test_large(case): pass\n"
        "@each('case', [pytest.param(0, marks=pytest.mark.nightly)])\ndef test_long(case): pass\n"
        "@pytest.mark.pairwise\n@each('a', range(2))\n@each('b', range(2))\n@each('c', range(2))\n"
        "def test_grid(a, b, c): pass\n"
        "@pytest.mark.nightly\n@each('case', range(9))\ndef test_night(case): pass\n"
        "def test_plain(): pass\n"
    )
    shutil.copy(folder / "test_docs.py", folder / "test_other.py")

    def counts(*arguments: str) -> Counter[str]:
        return Counter(name.partition("[")[0] for name in collected(f"--rootdir={tmp_path}", *arguments))

    large, small = "tests/test_docs.py::test_", "tests/test_other.py::test_"
    whole = {
        f"{file}{name}": count for file in (large, small) for name, count in (("large", 9), ("grid", 4), ("plain", 1))
    }
    assert counts(str(folder)) == whole
    assert counts("--draw", "7", str(folder)) == {**whole, f"{large}large": 2, f"{large}grid": 1}
    cases = [f"{folder / 'test_docs.py'}::test_large[{at}]" for at in range(9)]
    assert counts("--draw", "7", *cases) == {f"{large}large": 9}


def test_a_tenth_is_drawn_by_its_seed_and_the_same_in_every_process() -> None:
    here = str(Path(__file__).with_name("test_geometry.py"))
    every = collected(here)
    tenths = [{name for name in every if is_drawn(seed, name)} for seed in "12"]
    assert collected("--tenth", "1", here) == tenths[0] not in (tenths[1], set())
    assert all(len(every) / 30 < len(tenth) < len(every) / 4 for tenth in tenths)
