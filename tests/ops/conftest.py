"""Every operator test runs on both kernel sets."""

from collections.abc import Iterator

import pytest

from retrograd.kernel_set import use_kernels


@pytest.fixture(params=["textbook", "compiled"], autouse=True)
def kernel_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_kernels(request.param):
        yield request.param
