"""Character-level text corpora: Python's own documentation, or a user's file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._files.untrusted import as_path
from .data_files import read_utf8

__all__ = ["Corpus", "TextError", "load_pydoc", "read_text"]

_MIN_LENGTH, _MAX_ALPHABET = 10_000, 10_000


class TextError(ValueError):
    """A file does not contain usable text; the message says why."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text and its numbered characters.

    alphabet: every character that occurs in the text, once, in code point order.
    codes: int64 (N,); code i stands for alphabet[i].
    source: the origin of the text, for display.
    """

    alphabet: str
    codes: np.ndarray
    source: str

    @property
    def sha256(self) -> str:
        """The SHA-256 of the text as UTF-8."""
        return hashlib.sha256(decoded(self.codes, self.alphabet).encode()).hexdigest()


def load_pydoc() -> Corpus:
    """Load the text of ``pydoc_data.topics``, the language help of Python's ``help()``: about 375,000 characters.

    It comes with Python and differs between versions. Many paragraphs appear under several topics. Each is used once,
    so that the end of the text cannot be predicted from its beginning.

    Raises:
        TextError: this Python lacks the module.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise TextError("this Python lacks pydoc_data.topics; pass your own text with --text") from None
    import platform

    return _corpus(_each_once(topics), f"pydoc_data.topics of Python {platform.python_version()}", "pydoc_data.topics")


def read_text(path: str | Path) -> Corpus:
    """Read a UTF-8 file; line ends become ``\\n``.

    Raises:
        TextError: the file cannot be read, is not UTF-8, contains a NUL character, has fewer than 10,000 characters or
            more than 10,000 different ones; the message says which, and where.
    """
    path = as_path("read_text", "path", path)
    text = read_utf8(path, TextError)
    return _corpus(text.replace("\r\n", "\n").replace("\r", "\n"), path.name, str(path))


def encoded(text: str, alphabet: str) -> np.ndarray:
    """Return the codes of a text, int64 (N,).

    Raises:
        TextError: a character is not in the alphabet; the message says which.
    """
    codes = {character: code for code, character in enumerate(alphabet)}
    unknown = next((character for character in text if character not in codes), None)
    if unknown is not None:
        raise TextError(f"the network's training text has no {unknown!r}; leave it out")
    return np.array([codes[character] for character in text], np.int64)


def decoded(codes: np.ndarray, alphabet: str) -> str:
    """Return the text of these codes."""
    return "".join([alphabet[code] for code in codes])


def _each_once(topics: Mapping[str, str]) -> str:
    """Join the topics in the order of their names.

    Each paragraph is kept only at its first occurrence, and topics without new paragraphs are omitted.
    """
    seen: set[str] = set()
    parts: list[str] = []
    for name in sorted(topics):
        title, *paragraphs = topics[name].strip("\n").split("\n\n")
        new = [paragraph for paragraph in dict.fromkeys(paragraphs) if paragraph not in seen]
        seen.update(new)
        parts += [title, *new] if new else []
    return "\n\n".join(parts) + "\n"


def _corpus(text: str, source: str, name: str) -> Corpus:
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TextError(f"{name}, line {line}: there is a NUL character, so this is not text")
    if len(text) < _MIN_LENGTH:
        raise TextError(f"{name} has {len(text):,} characters; training needs at least {_MIN_LENGTH:,}")
    alphabet = "".join(sorted(set(text)))
    if not 2 <= len(alphabet) <= _MAX_ALPHABET:
        raise TextError(f"{name} has {len(alphabet):,} different characters; there must be from 2 to {_MAX_ALPHABET:,}")
    return Corpus(alphabet, encoded(text, alphabet), source)
