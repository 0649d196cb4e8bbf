"""Text as numbers: Python's own documentation, or a file of the user's, character by character."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .utf8 import read_utf8

__all__ = ["Corpus", "TextError", "load_pydoc", "read_text"]

_LEAST, _MOST_DIFFERENT = 10_000, 10_000


class TextError(ValueError):
    """A file holds no text that can be used; the message says why."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text whose characters are numbered.

    alphabet: every character that occurs, once, in the order of their code points.
    codes: int64 (N,); code i stands for alphabet[i].
    source: where the text comes from, for people.
    """

    alphabet: str
    codes: np.ndarray
    source: str

    @property
    def sha256(self) -> str:
        """Of the text as UTF-8."""
        return hashlib.sha256(decoded(self.codes, self.alphabet).encode()).hexdigest()


def load_pydoc() -> Corpus:
    """The text of ``pydoc_data.topics``: what Python's ``help()`` says about the language, in about 375,000 characters.
    It comes with Python and differs from version to version.

    Many paragraphs stand there under several topics. Each is taken once, so that the end of the text is not known from
    its beginning.

    Raises:
        TextError: this Python comes without it.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise TextError("this Python comes without pydoc_data.topics; give a text of your own with --text") from None
    import platform

    return _corpus(_each_once(topics), f"pydoc_data.topics of Python {platform.python_version()}", "pydoc_data.topics")


def read_text(path: str | Path) -> Corpus:
    """The text of a file in UTF-8; ends of lines become ``\\n``.

    Raises:
        TextError: the file cannot be read, is no UTF-8, holds a NUL character, has fewer than 10,000 characters, or
            more than 10,000 different ones; says which, and where.
    """
    path = Path(path)
    text = read_utf8(path, TextError)
    return _corpus(text.replace("\r\n", "\n").replace("\r", "\n"), path.name, str(path))


def encoded(text: str, alphabet: str) -> np.ndarray:
    """The codes of a text, int64 (N,).

    Raises:
        TextError: a character is not in the alphabet; says which.
    """
    places = {character: code for code, character in enumerate(alphabet)}
    unknown = next((character for character in text if character not in places), None)
    if unknown is not None:
        raise TextError(f"the text that the network learned from has no {unknown!r}; leave it out")
    return np.array([places[character] for character in text], np.int64)


def decoded(codes: np.ndarray, alphabet: str) -> str:
    """The text that has these codes."""
    return "".join([alphabet[code] for code in codes])


def _each_once(topics: Mapping[str, str]) -> str:
    """The topics in the order of their names, each paragraph where it stands first; titles with nothing new below them
    are left out."""
    seen: set[str] = set()
    kept: list[str] = []
    for name in sorted(topics):
        title, *paragraphs = topics[name].strip("\n").split("\n\n")
        new = [paragraph for paragraph in dict.fromkeys(paragraphs) if paragraph not in seen]
        seen.update(new)
        kept += [title, *new] if new else []
    return "\n\n".join(kept) + "\n"


def _corpus(text: str, source: str, name: str) -> Corpus:
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise TextError(f"{name}, line {line}: there is a NUL character, so this is no text")
    if len(text) < _LEAST:
        raise TextError(f"{name} has {len(text):,} characters; to learn from it takes at least {_LEAST:,}")
    alphabet = "".join(sorted(set(text)))
    if not 2 <= len(alphabet) <= _MOST_DIFFERENT:
        raise TextError(
            f"{name} has {len(alphabet):,} different characters; there must be from 2 to {_MOST_DIFFERENT:,}"
        )
    return Corpus(alphabet, encoded(text, alphabet), source)
