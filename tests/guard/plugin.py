"""Runs any tests with all arrays between inaccessible pages: ``python -m pytest -p guard.plugin tests/kernels``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guard import pages
from guard.child import GARBAGE, forget_scratch


def pytest_configure() -> None:
    import retrograd.nn  # all kernels

    assert retrograd.nn
    forget_scratch()
    pages.use(GARBAGE[0], True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = pages.damaged()
    yield
    assert pages.damaged() == before, "memory outside of an array was written to"
