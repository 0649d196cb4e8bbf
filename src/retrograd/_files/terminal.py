"""Text for a terminal: escaping of control characters in untrusted text, sizes, and columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["aligned", "bytes_text", "display_name", "printable"]

# characters that change the direction of the text after them
_DIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def printable(text: str) -> str:
    """Return the text with control characters escaped, except newlines and tabs."""
    if text.isprintable():
        return text
    return "".join(_escaped(letter) if _is_control(letter) else letter for letter in text)


def display_name(name: str | Path) -> str:
    """Return an untrusted name, such as of a file or class, in one line with non-printable characters escaped."""
    text = str(name)
    if text.isprintable():
        return text
    with suppress(UnicodeEncodeError):  # bytes of a file name that are not UTF-8
        text = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Format rows of equally many cells as lines; the first ``left`` columns are left-aligned, others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        padded = [cell.ljust(w) if place < left else cell.rjust(w) for place, (cell, w) in enumerate(cells)]
        lines.append("  ".join(padded).rstrip())
    return lines


def bytes_text(number: float) -> str:
    """Format a size in bytes: 12 B, 3.4 KiB, 5.6 MiB, 7.8 GiB."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def _is_control(letter: str) -> bool:
    code = ord(letter)
    return (
        (code < 0x20 and letter not in "\n\t")
        or 0x7F <= code < 0xA0
        or 0xD800 <= code < 0xE000
        or letter in _DIRECTIONAL
    )


def _escaped(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
