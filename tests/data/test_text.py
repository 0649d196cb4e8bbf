"""Texts as numbers."""

from __future__ import annotations

import hashlib
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from retrograd.data.text import TextError, decoded, encoded, load_pydoc, read_text


def test_pythons_own_text() -> None:
    corpus = load_pydoc()
    text = decoded(corpus.codes, corpus.alphabet)
    assert len(text) > 300_000 and 'The "if" statement is used for conditional execution' in text
    assert corpus.codes.dtype == np.int64 and corpus.codes.max() == len(corpus.alphabet) - 1
    assert list(corpus.alphabet) == sorted(set(text)) and "Python 3." in corpus.source
    assert corpus.sha256 == hashlib.sha256(text.encode()).hexdigest()


def test_what_help_says_twice_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {f"page {n}": f"Title {n}\n\nThis is line {n}.\n\n{'shared' * n}" + "\n" for n in range(9)}
    pages["again"] = "Title\n\nThis is line 3.\n"
    pages["z"] = "Last\n\nThis is line 3.\n\nnew\n\nnew\n\n" + "x" * 10_000
    module = types.ModuleType("pydoc_data.topics")
    monkeypatch.setattr(module, "topics", pages, raising=False)
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", module)
    corpus = load_pydoc()
    text = decoded(corpus.codes, corpus.alphabet)
    assert text.startswith("Title\n\nThis is line 3.\n\nTitle 0\n\nThis is line 0.\n\nTitle 1\n\nThis is line 1.\n\n")
    assert "\n\nTitle 3\n\nsharedsharedshared\n\nTitle 4" in text and text.count("line 3") == 1
    assert text.endswith("\n\nLast\n\nnew\n\n" + "x" * 10_000 + "\n")


def test_a_python_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(TextError, match="lacks pydoc_data.topics; pass your own text with --text"):
        load_pydoc()


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "zä\r\n\n\r".encode() * 2500)
    corpus = read_text(path)
    assert corpus.alphabet == "\nzä" and corpus.source == "file.txt" and corpus.codes.tolist()[:5] == [1, 2, 0, 0, 0]
    assert len(corpus.codes) == 12_500


def test_there_and_back() -> None:
    assert encoded("cab", "abc").tolist() == [2, 0, 1] and decoded(np.array([2, 0, 1]), "abc") == "cab"
    with pytest.raises(TextError, match="the network's training text has no 'x'; leave it out"):
        encoded("axe", "abc")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ab" * 4999, "has 9,998 characters; training needs at least 10,000"),
        (b"a" * 10_000, "has 1 different characters; there must be from 2 to 10,000"),
        ("".join(map(chr, range(0x4E00, 0x4E00 + 10_001))).encode(), "has 10,001 different characters"),
        (b"ab\n" * 9999 + b"\0", "line 10000: there is a NUL character, so this is not text"),
        (b"ab\n" * 9999 + b"\xff", "line 10000: this is not UTF-8 text; save the file as UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    with pytest.raises(TextError, match=re.escape(message)) as caught:
        read_text(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"none.txt cannot be read: No such file"):
        read_text(tmp_path / "none.txt")
