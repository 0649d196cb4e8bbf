"""Sphinx extension that completes pages with reference entries, results, tables of names, and the output of code.

Code that fails, or prints something other than the page shows, fails the build. Only the functions that Sphinx calls
import Sphinx.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import code_blocks
import gradient_table
import imports_picture
import operator_pages
import pytorch_names
import reference
import results

import retrograd

DOCS = Path(__file__).resolve().parents[1]
PARTS = ("tutorials", "how_to", "understanding", "reference", "contributing")
_EMBEDDED = re.compile(r'<iframe src="(?:\.\./)+explain/(\w+)\.html"')
_INSERTED = {
    "<!-- coverage -->": pytorch_names.coverage,
    "<!-- gradients -->": gradient_table.typeset,
    "<!-- picture of imports -->": imports_picture.svg,
}


def written() -> list[Path]:
    """Return the pages that are written by hand: the index, and those in the folders of the five parts."""
    parts = [path for part in PARTS for path in sorted((DOCS / part).glob("*.md"))]
    return [DOCS / "index.md", *parts]


def completed(text: str) -> str:
    """Put into a page what its comments ask for: entries of the reference, results, and tables of names."""
    for marker, inserted in _INSERTED.items():
        if marker in text:
            text = text.replace(marker, inserted())
    return results.quoted(reference.completed(text))


def embedded() -> list[str]:
    """Return the operators whose standalone page is embedded in one of the pages."""
    texts = [path.read_text(encoding="utf-8") for path in written()]
    return sorted({name for text in texts for name in _EMBEDDED.findall(text)})


def write_explanations(folder: Path) -> None:
    """Write the standalone page of each embedded operator."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.redirect_stderr(io.StringIO()):  # which says that kernels are compiled
        for name in embedded():
            retrograd.explain(name).save(folder / f"{name}.html")


def _write_operator_pages(app: Any) -> None:
    operator_pages.write_pages({page: family_page(page) for page in operator_pages.families()})


def family_page(page: str) -> str:
    """Return the page of the operators that one file defines."""
    names = list(operator_pages.families()[page])
    return operator_pages.page_text(page, reference.block([*reference.table(names), *reference.directives(names)]))


def _complete(app: Any, page: str, source: list[str]) -> None:
    from sphinx.util.logging import getLogger

    source[0], faults = code_blocks.measured_page(completed(source[0]), page)
    for fault in faults:  # an error with -W, after the other pages
        getLogger(__name__).warning("%s", fault, location=page)


def _describe(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    shown = app.env.temp_data.setdefault("retrograd_shown", set())  # what this page has shown
    lines += ["", *operator_pages.more(name, thing, shown)]


def _explanations(app: Any, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        write_explanations(Path(app.outdir) / "explain")


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", _write_operator_pages)
    app.connect("source-read", _complete)
    app.connect("autodoc-process-docstring", _describe, priority=900)  # after napoleon
    app.connect("doctree-read", reference.attach_aliases)
    app.connect("doctree-read", reference.unlink_ambiguous)
    app.connect("build-finished", _explanations)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
