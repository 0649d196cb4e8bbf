"""The layout of an arena against brute force, and arrays at its offsets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pytest

from retrograd.arrays import Arena, Lifetime, lay_out, span
from retrograd.arrays.arena import CACHE_LINE
from retrograd.specs.array_spec import byte_bounds


def drawn(seed: int, count: int, steps: int = 8) -> list[Lifetime]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        first = rng.randrange(steps)
        found.append(Lifetime(rng.choice([0, 1, 60, 64, 65, 200, 1000, 4096]), first, rng.randrange(first, steps)))
    return found


def lines(each: Lifetime) -> int:
    return -(-each.bytes // CACHE_LINE) * CACHE_LINE


def collisions(lifetimes: Sequence[Lifetime], offsets: Sequence[int]) -> int:
    """How many pairs have a byte in common at a step, counted byte line by byte line."""
    found = 0
    for at, one in enumerate(lifetimes):
        for other_at in range(at):
            other = lifetimes[other_at]
            steps = set(range(one.first, one.last + 1)) & set(range(other.first, other.last + 1))
            mine = set(range(offsets[at], offsets[at] + one.bytes))
            found += bool(steps and mine & set(range(offsets[other_at], offsets[other_at] + other.bytes)))
    return found


def alive(lifetimes: Sequence[Lifetime]) -> int:
    """The worst step, by looking at every one."""
    return max(sum(lines(each) for each in lifetimes if each.first <= step <= each.last) for step in range(8))


@pytest.mark.parametrize("seed", range(60))
def test_a_layout(seed: int) -> None:
    lifetimes = drawn(seed, 1 + seed % 12)
    found = lay_out(lifetimes)
    assert not collisions(lifetimes, found.offsets)
    assert all(offset % CACHE_LINE == 0 for offset in found.offsets) and found == lay_out(lifetimes)
    assert found.least == alive(lifetimes)
    assert found.least <= found.bytes <= sum(map(lines, lifetimes))
    ends = [offset + lines(each) for offset, each in zip(found.offsets, lifetimes, strict=True)]
    assert found.bytes == max(ends, default=0)


def smallest(lifetimes: Sequence[Lifetime]) -> int:
    """The smallest arena, by trying every order in which each is put at the lowest free offset."""
    best = sum(map(lines, lifetimes))
    for order in permutations(range(len(lifetimes))):
        placed: list[tuple[int, int]] = []  # which, and its offset
        for at in order:
            one, offset = lifetimes[at], 0
            met = sorted(
                (begin, begin + lines(lifetimes[other]))
                for other, begin in placed
                if lifetimes[other].first <= one.last and one.first <= lifetimes[other].last
            )
            for begin, end in met:
                if begin - offset >= lines(one):
                    break
                offset = max(offset, end)
            placed.append((at, offset))
        best = min(best, max(offset + lines(lifetimes[at]) for at, offset in placed))
    return best


def test_the_layout_is_near_the_best() -> None:
    """Of 40 small cases, the best of all layouts is found in most, and it is never far."""
    wasted = []
    for seed in range(100, 140):
        lifetimes = [each for each in drawn(seed, 6) if each.bytes]
        best = smallest(lifetimes)
        assert best >= lay_out(lifetimes).least
        wasted.append(lay_out(lifetimes).bytes / best - 1)
    assert min(wasted) == 0 and sum(each == 0 for each in wasted) >= 32 and max(wasted) < 0.3


def test_small_layouts() -> None:
    assert lay_out([]) == ((), 0, 0)
    assert lay_out([Lifetime(0, 0, 9)]) == ((0,), 0, 0)
    after = lay_out([Lifetime(100, 0, 1), Lifetime(100, 2, 3), Lifetime(64, 1, 2)])
    assert after == ((0, 0, 128), 192, 192)
    # 128 bytes are free below the second, and all behind the third
    gaps = [Lifetime(1024, 0, 0), Lifetime(960, 0, 1), Lifetime(896, 1, 1), Lifetime(512, 0, 1), Lifetime(128, 1, 1)]
    assert lay_out(gaps).offsets == (0, 1024, 0, 1984, 896)


def test_a_lifetime_that_is_too_short_is_seen() -> None:
    """The check of this file finds it."""
    lifetimes = [Lifetime(100, 0, 2), Lifetime(100, 2, 3)]
    shortened = [lifetimes[0]._replace(last=1), lifetimes[1]]
    assert collisions(lifetimes, lay_out(shortened).offsets) == 1


def test_arrays_in_an_arena() -> None:
    made = Arena(1000)
    assert made.memory.size == 1000 and not made.memory.any() and span(made.memory)[0] % CACHE_LINE == 0
    x = made.array(64, (2, 3), np.float32)
    x[...] = 7
    assert x.flags.c_contiguous and made.offset(x) == 64 and made.offset(x[1:]) == 76
    assert (made.memory[64:88].view(np.float32) == 7).all() and np.count_nonzero(made.memory) <= 24
    assert made.memory.sum() == made.memory[64:88].sum()
    y = made.array(128, (2, 3), np.int64, (-8, 16))
    assert span(y) == (span(made.memory)[0] + 128, span(made.memory)[0] + 128 + 48) and made.offset(y) == 136
    assert made.array(1000, (0, 3), np.float32, (12, 4)).size == 0
    assert made.offset(np.zeros(3)) is None
    for offset, count in ((-1, 3), (990, 11), (1001, 0)):
        with pytest.raises(ValueError, match="are not in an arena of 1000 bytes"):
            made.part(offset, count)


def test_an_array_keeps_its_arena() -> None:
    x = Arena(256).array(64, (16,), np.float64)
    x[...] = 3
    assert [np.zeros(32) for _ in range(20)] and (x == 3).all()


def test_each_part_is_an_owner() -> None:
    """Views lead to it, and not to the arena, so that arrays side by side are not taken for one."""
    part = Arena(256).part(64, 64)
    assert not isinstance(part.base, np.ndarray) and np.ndarray((4,), np.float32, part)[1:].base is part


def test_reach() -> None:
    x = np.zeros((3, 4))
    start = x.ctypes.data
    assert span(x) == (start, start + 96) and span(x[:, :0])[0] == span(x[:, :0])[1]
    assert span(x[::-1, 1::2]) == (start + 8, start + 96) and span(x[2, 3:]) == (start + 88, start + 96)
    assert byte_bounds((2, 2), (0, 4), 4) == (0, 8) and byte_bounds((), (), 8) == (0, 8)
