"""Shared fixtures of the page's tests: a Chromium, and a served page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from explanation.browser import chromium, serving


@pytest.hookimpl(tryfirst=True)  # before pytest deselects marked tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """The address of the served page of conv2d."""
    with serving() as address:
        yield address
