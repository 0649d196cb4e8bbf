"""The self-contained HTML page: built, saved, shown in a notebook or opened in the browser.

The modules of `page/` import each other by bare names ("page/grid"), which an import map resolves to ``data:`` URLs.
The file therefore works from a disk, where browsers refuse to load separate module files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import webbrowser
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._files.atomic import write_atomically

if TYPE_CHECKING:
    from .server import Subject

__all__ = ["HasPage", "packed", "page", "show"]


# ---- The page as one HTML file (template, style, scripts and data) that sends no requests ---------------------------

_PACKED_FROM = 200_000  # characters; more data is compressed
# later sheets override earlier ones
_STYLES = (
    *("base", "header", "story", "arrays", "panel", "views", "text_tabs", "recurrent_diagram", "layer_map"),
    "responsive",
)
_START = 'import "page/main";'


def page(
    documents: Sequence[Mapping[str, Any]],
    served: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
) -> str:
    """Return a self-contained HTML page.

    documents: results of ``Explanation.to_dict()``, one for each combination of settings that the page offers; the
        first is shown initially
    served: ``{"token": ...}`` if a server serves the page and answers ``/api/explanation``; with ``"operators"``, a
        list of names, the reader can choose among them
    model: the result of ``ModelExplanation.to_dict()``; the page then shows the model's layers. Without a server it has
        ``"documents"``, those of small layers by path, and ``"answers"`` about the others
    others: the first document's operator with other settings, from ``operator_page.others``

    Raises:
        ValueError: there is no document, no model, and no server for the page.
    """
    if not documents and served is None and model is None:
        raise ValueError("page: documents is empty, expected at least one explanation as a dict")
    content = {"served": served, "documents": list(documents)} | ({} if model is None else {"model": model})
    data = json.dumps(content, separators=(",", ":"), allow_nan=False)
    large = len(data) > _PACKED_FROM
    name = model["name"] if model else documents[0]["operator"] if documents else ""
    title = f"{name} · see the gradient" if name else "see the gradient"
    parts = {
        "policy": _policy(served is not None),
        "title": escape(title),
        "style": _style(),
        "modules": _modules(),
        "kind": "text/plain" if large else "application/json",
        "packed": " data-packed" if large else "",
        "source": packed(data) if large else _inside_script(data),
        "others": _inside_script(json.dumps(others, separators=(",", ":"), allow_nan=False)),
        "start": _START,
    }
    return re.sub("@([a-z]+)@", lambda found: parts[found[1]], _text("index.html"))


def packed(text: str) -> str:
    """Compress text, and encode it in letters that are safe in HTML."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _inside_script(text: str) -> str:
    """Return JSON that cannot end a script element: no tag or comment can begin in it."""
    return text.replace("<", "\\u003c")


def _policy(served: bool) -> str:
    """Return the Content-Security-Policy: the page's own style and scripts and, if served, its own server."""
    scripts = " ".join(_hash(text) for text in (_modules(), _START))
    rules = [
        "default-src 'none'",
        f"script-src {scripts} data:",
        f"style-src {_hash(_style())}",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    if served:
        rules.append("connect-src 'self'")
    return "; ".join(rules)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _style() -> str:
    return "\n".join(_text(f"{name}.css") for name in _STYLES)


@cache
def _modules() -> str:
    """Return the import map of all scripts."""
    files = resources.files(__package__).joinpath("page").iterdir()
    names = sorted(each.name for each in files if each.name.endswith(".js"))
    sources = {f"page/{name[:-3]}": base64.b64encode(_text(name).encode()).decode() for name in names}
    return json.dumps({"imports": {name: f"data:text/javascript;base64,{text}" for name, text in sources.items()}})


@cache
def _text(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text(encoding="utf-8")


# ---- Opening a page in the browser, served until Ctrl-C -------------------------------------------------------------


def show(
    subject: Subject, host: str, port: int, browser: bool, place: str = "", say: Callable[[str], None] = print
) -> None:
    """Serve the page of a subject, print its address, and open it.

    place: the part after "#" in the address, which selects where the page begins

    Raises:
        ImportError: the server's packages are not installed.
        OSError: the address or port is not available.
    """
    try:
        from .server import serve
    except ImportError as error:
        if error.name not in ("starlette", "uvicorn", "anyio"):
            raise
        message = f"the page needs {error.name}: pip install 'retrograd[explain]'; or write the page to a file"
        raise ImportError(message, name=error.name) from error

    def opened(address: str) -> None:
        say(f"{address}{place}")
        say("Press Ctrl-C to stop.")
        if browser:
            webbrowser.open(address + place)

    try:
        serve(subject, host, port, opened)
    except KeyboardInterrupt:
        say("ended")


# ---- Base class of objects shown as a page: in a file, in a notebook, in the browser --------------------------------


class HasPage:
    """Base class of objects with a page, which subclasses return from ``to_html``."""

    def to_html(self) -> str:
        """Return the page as the text of one HTML file."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write the page as one HTML file, which works from a disk without network or server.

        For a model it contains small layers whole. For the others it contains the largest entry of the gradient with
        its products, and the parts of the arrays around it; ``show()`` has all of them.

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
            host: an address of this machine; 127.0.0.1 is reachable only from this machine.
            port: 0 chooses a free port.
            browser: whether to open the page, besides printing its address.

        Raises:
            ImportError: the server's packages are not installed.
            OSError: the address or port is not available.
        """

        subject: Any = self
        show(subject, host, port, browser)
