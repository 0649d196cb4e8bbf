"""The engine's tests stand alone: `a + b`, which the engine uses with create_graph, is theirs."""

from __future__ import annotations

import pytest

from engine.functions import Add
from retrograd.engine import Tensor


@pytest.fixture(autouse=True)
def plain_addition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "__add__", lambda x, y: Add.apply(x, y), raising=False)
