"""Text for a terminal: untrusted text with its control characters escaped, sizes, and columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

__all__ = ["aligned", "bytes_text", "display_name", "printable"]

# characters that change the direction of the text after them
_DIRECTIONAL = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def printable(text: str) -> str:
    """The text with newlines and tabs unchanged and other control characters escaped."""
    if text.isprintable():
        return text
    return "".join(_escaped(letter) if _is_control(letter) else letter for letter in text)


def display_name(name: str | Path) -> str:
    """An untrusted name, such as a file's or a class's, in one line: non-printable characters are escaped."""
    text = str(name)
    if text.isprintable():
        return text
    with suppress(UnicodeEncodeError):  # bytes of a file name that are not UTF-8
        text = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Rows of as many cells each as lines of text, in columns; the first ``left`` columns begin on the left, others end
    on the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(row, widths, strict=True)
        padded = [cell.ljust(w) if place < left else cell.rjust(w) for place, (cell, w) in enumerate(cells)]
        lines.append("  ".join(padded).rstrip())
    return lines


def bytes_text(number: float) -> str:
    """A size: 12 B, 3.4 KiB, 5.6 MiB, 7.8 GiB."""
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
