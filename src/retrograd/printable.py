"""Untrusted text for a terminal: control characters are escaped."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["display_name", "printable"]

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
