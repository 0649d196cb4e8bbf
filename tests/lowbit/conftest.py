"""Every test of low-bit networks runs on both kernel sets, except those that train."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retrograd.kernel_set import use_kernels

COMPILED_ONLY = {"test_training", "test_seed"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    only = metafunc.module.__name__.split(".")[-1] in COMPILED_ONLY
    metafunc.parametrize("kernel_set", ["compiled"] if only else ["textbook", "compiled"], indirect=True)


@pytest.fixture(autouse=True)
def kernel_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_kernels(request.param):
        yield request.param
