"""Every optimizer test runs on both kernel sets, except those that call no kernel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from retrograd.kernel_set import use_kernels

WITHOUT_KERNELS = {"test_lr_scheduler"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    sets = ["compiled"] if metafunc.module.__name__.split(".")[-1] in WITHOUT_KERNELS else ["textbook", "compiled"]
    metafunc.parametrize("kernel_set", sets, indirect=True)


@pytest.fixture(autouse=True)
def kernel_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with use_kernels(request.param):
        yield request.param
