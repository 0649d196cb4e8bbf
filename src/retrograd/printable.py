"""Text from outside that is shown on a terminal: no character of it may act there instead of being seen."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["printable", "shown"]

# besides control characters and lone surrogates: what turns the direction of all the text behind it
_TURNING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def printable(text: str) -> str:
    """The text, its lines and tabs as they are; a character that would act on the terminal is written as its escape."""
    if text.isprintable():
        return text
    return "".join(_escaped(letter) if _acts(letter) else letter for letter in text)


def shown(name: str | Path) -> str:
    """A name from outside, such as a file's or a class's, in one line: all that cannot be seen is escaped."""
    text = str(name)
    if text.isprintable():
        return text
    with suppress(UnicodeEncodeError):  # bytes of a file name that are no UTF-8
        text = os.fsencode(text).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else _escaped(letter) for letter in text)


def _acts(letter: str) -> bool:
    code = ord(letter)
    return (
        (code < 0x20 and letter not in "\n\t") or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or letter in _TURNING
    )


def _escaped(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
