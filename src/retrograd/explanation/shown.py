"""Base class of objects shown as a page: in a file, in a notebook, in the browser."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from .._files.atomic import write_atomically

__all__ = ["Shown"]


class Shown:
    """Something with a page; what it is says its ``to_html``."""

    def to_html(self) -> str:
        """The page as the text of one HTML file."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the page as one HTML file, which works from a disk without network and server.

        Of a model it holds small layers whole. Of the others it holds the largest entry of the gradient, taken apart,
        and the parts of the arrays around it; ``show()`` has all of them.

        Raises:
            OSError: the file could not be written.
        """
        write_atomically(Path(path), lambda file: file.write(self.to_html().encode()))

    def _repr_html_(self) -> str:
        text = escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{text}" style="width:100%;height:760px;border:0" title="see the gradient"></iframe>'

    def show(self, host: str = "127.0.0.1", port: int = 0, browser: bool = True) -> None:
        """Open the page in the browser, served to this machine until Ctrl-C.

        Args:
            host: an address of this machine; 127.0.0.1 is reached from this machine only.
            port: 0 takes a free one.
            browser: whether to open it, besides printing its address.

        Raises:
            ImportError: the server's packages are not installed.
            OSError: the address or port is not available.
        """
        from .showing import show

        subject: Any = self
        show(subject, host, port, browser)
