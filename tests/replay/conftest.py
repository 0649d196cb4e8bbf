from __future__ import annotations

from collections.abc import Iterator

import pytest

import retrograd as rg


@pytest.fixture
def without_gradients() -> Iterator[None]:
    with rg.no_grad():
        yield
