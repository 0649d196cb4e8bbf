"""Open a page in the browser, and serve it until Ctrl-C."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .serving.server import Subject

__all__ = ["show"]


def show(
    subject: Subject, host: str, port: int, browser: bool, place: str = "", say: Callable[[str], None] = print
) -> None:
    """Serve the page of a subject, print its address, and open it.

    place: what stands behind the "#" of the address: where the page begins

    Raises:
        ImportError: the server's packages are not installed.
        OSError: the address or port is not available.
    """
    try:
        from .serving.server import serve
    except ImportError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        message = f"the page needs {error.name}: pip install 'retrograd[explain]'; or write it to a file"
        raise ImportError(message, name=error.name) from error

    def opened(address: str) -> None:
        say(f"{address}{place}")
        say("Ctrl-C ends it.")
        if browser:
            webbrowser.open(address + place)

    try:
        serve(subject, host, port, opened)
    except KeyboardInterrupt:
        say("ended")
