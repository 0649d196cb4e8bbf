"""Orders that are too long to be drawn at once are drawn incrementally."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from retrograd.data import DataLoader, Dataset, RandomSampler


class Numbers(Dataset):
    """A dataset of ten billion samples; each is its own index."""

    def __len__(self) -> int:
        return 10**10

    def __getitem__(self, index: int) -> int:
        return index


def test_ten_billion_samples_are_not_drawn_at_once() -> None:
    first = list(islice(RandomSampler(Numbers(), generator=np.random.default_rng(0)), 5000))
    again = list(islice(RandomSampler(Numbers(), generator=np.random.default_rng(0)), 5000))
    assert first == again and len(set(first)) == 5000
    assert 0 <= min(first) < 10**8 and 99 * 10**8 < max(first) < 10**10
    batch = next(iter(DataLoader(Numbers(), batch_size=4, shuffle=True)))
    assert batch.shape == (4,)


@pytest.mark.parametrize("together", [2, 64])
def test_every_order_is_as_likely(monkeypatch: pytest.MonkeyPatch, together: int) -> None:
    monkeypatch.setattr("retrograd.data.sampler._MAX_PERMUTATION", 3)
    monkeypatch.setattr("retrograd.data.sampler._CHUNK", together)
    sampler = RandomSampler(range(4), generator=np.random.default_rng(1))
    counts = Counter(tuple(sampler) for _ in range(2400))
    assert len(counts) == 24 and min(counts.values()) > 65 and max(counts.values()) < 135
    longer = list(RandomSampler(range(4), num_samples=10, generator=np.random.default_rng(1)))
    assert sorted(longer[:4]) == sorted(longer[4:8]) == [0, 1, 2, 3] and len(longer) == 10
