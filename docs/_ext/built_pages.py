"""Sphinx extension that checks built pages: links, anchors, requests to other machines, and the inventory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import public_names

_LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "video": "src"}
_FOREIGN = re.compile(r"(?:https?:)?//")
_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)")


class _Page(HTMLParser):
    """The anchors of a page, its links, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in _LOADED and _LOADED[tag] in given and given.get("rel") not in ("canonical", "search"):
            self.loaded.append(given[_LOADED[tag]])


def faults(folder: Path) -> list[str]:
    """Return what is wrong with the pages in a folder: links that lead nowhere, and files of other machines."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    pages = {path: _Page(text) for path, text in texts.items()}
    found = []
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        for link in dict.fromkeys([*page.links, *page.loaded]):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            if not target.exists():
                found.append(f"{name}: {link} leads to no file")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                found.append(f"{name}: {link} leads to no anchor")
        found += [f"{name} loads {url}" for url in page.loaded if _FOREIGN.match(url)]
    for path in folder.rglob("*.css"):
        for url in _STYLE.findall(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(folder).as_posix()} loads {url}")
    return found


def unlisted(names: Iterable[str]) -> list[str]:
    """Return the public names that an inventory does not have."""
    return sorted(set(public_names.public()) - set(names))


def _check(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.name != "html":
        return
    from sphinx.errors import ExtensionError
    from sphinx.util.inventory import InventoryFile

    folder = Path(app.outdir)
    inventory = InventoryFile.loads((folder / "objects.inv").read_bytes(), uri="")
    kinds = inventory.data.values() if hasattr(inventory, "data") else inventory.values()
    found = faults(folder)
    found += [f"objects.inv does not have {name}" for name in unlisted(name for kind in kinds for name in kind)]
    if found:
        raise ExtensionError("\n".join(found))


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", _check, priority=900)  # after the explanation pages are written
    return {"parallel_read_safe": True, "parallel_write_safe": True}
