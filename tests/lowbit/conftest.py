"""Every test of low-bit networks runs on both kernel sets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retrograd.ops.kernel_set import use_kernels


@pytest.fixture(params=["textbook", "compiled"], autouse=True)
def kernel_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_kernels(request.param):
        yield request.param
