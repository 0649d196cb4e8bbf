"""Chromium for the tests of the page, which are skipped on a machine without one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from retrograd.explanation.operators import find

NAMES = "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"
QUIET = [
    f"--{each}"
    for each in (
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "force-color-profile=srgb",
    )
]


TAKE = "([name, at]) => window.retrograd.take(name, at)"  # what pointing at an entry does


def document(name: str, **settings: Any) -> dict[str, Any]:
    """Return the document from which the page of an operator is drawn."""
    return find(name).with_settings(settings).to_dict()


@contextmanager
def chromium() -> Iterator[Any]:
    """Start Chromium through Playwright, or skip the test."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium on this machine; one of {', '.join(NAMES)} is looked for")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, address: str, refused: int = 0, **options: Any) -> Iterator[Any]:
    """Open a page in a new browser context; at the end, check that it logged nothing and sent no foreign request.

    refused: how many requests the page's own server must answer with 4xx, which Chromium logs
    """
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
    page = context.new_page()
    complaints: list[str] = []
    asked: list[str] = []
    own = address.split("#")[0].split("?")[0]
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("html[data-ready]", state="attached", timeout=20_000)
    try:
        yield page
    finally:
        context.close()
    expected = [each for each in complaints if "the server responded with a status of 4" in each]
    assert complaints == expected and len(expected) == refused, complaints
    assert [each for each in asked if not each.startswith((own, "data:", "blob:"))] == []


@contextmanager
def serving() -> Iterator[str]:
    """Run ``retrograd explain`` and yield the address of its page."""
    pytest.importorskip("uvicorn", reason="the extra explain is not installed")
    pytest.importorskip("starlette", reason="the extra explain is not installed")
    code = "from retrograd.cli import main; main(['explain', 'conv2d', '--no-browser'])"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.send_signal(signal.SIGINT)
        server.wait(timeout=20)


def written(folder: Path, html: str) -> str:
    """Write a page into a folder and return its address."""
    path = folder / "page.html"
    path.write_text(html, encoding="utf-8")
    return path.as_uri()
