"""Everything here compares with PyTorch, on both kernel sets. Without PyTorch it fails; "make test" leaves it out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import retrograd


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.peers)


@pytest.fixture(autouse=True, params=["compiled", "textbook"])
def kernel_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with retrograd.use_kernels(request.param):
        yield request.param


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    # two pools of spinning threads on one machine only slow each other down
    torch.set_num_threads(1)
    retrograd.set_num_threads(1)
