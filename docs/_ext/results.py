"""Tables of benchmarks/results.json, put into pages when they are built."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from benchmarks import report

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
_QUOTE = re.compile(r"^<!-- results: (.+) -->$", re.MULTILINE)
_EVERY_ROW = "<!-- results -->"


def quoted(text: str) -> str:
    """Put tables of results.json into a page.

    ``<!-- results: GROUP -->`` becomes the table of a group, and ``<!-- results -->`` the tables of all groups.
    """
    text = _QUOTE.sub(lambda match: tables().get(match[1], "Not measured yet."), text)
    return text.replace(_EVERY_ROW, report.every_row(*report.read(FOLDER))) if _EVERY_ROW in text else text


@functools.cache
def tables() -> dict[str, str]:
    """Map the name of each group to its table in Markdown."""
    return report.tables(report.read(FOLDER)[1])
