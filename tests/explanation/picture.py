"""Writes docs/static/graph.svg, the picture on the page "See a backward"; run it after changing the drawing."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

from retrograd._files.atomic import write_atomically

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = DOCS / "static" / "graph.svg"


def drawn() -> str:
    """Return the picture of the graph that the first session on the page makes."""
    page = (DOCS / "how_to" / "see_a_backward.md").read_text(encoding="utf-8")
    session = re.findall(r"^```pycon\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)[0]
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(session):
        exec(compile(example.source, "see_a_backward.md", "exec"), names)
    return names["graph"].svg + "\n"


if __name__ == "__main__":
    write_atomically(PICTURE, lambda file: file.write(drawn().encode()))
