"""Every test here runs on both kernel sets, against the oracle tests/naive.py."""

from __future__ import annotations

from types import ModuleType

import pytest

from retrograd.kernels import compiled, textbook


@pytest.fixture(scope="session", params=[compiled, textbook], ids=["compiled", "textbook"])
def kernel_set(request: pytest.FixtureRequest) -> ModuleType:
    return request.param
