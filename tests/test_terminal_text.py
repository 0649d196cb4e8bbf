"""Text from a file cannot control the terminal on which it is shown."""

from __future__ import annotations

import pytest

from retrograd._files.terminal import display_name, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, äöü, 猫, \u200c", "plain, äöü, 猫, \u200c"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x07\r\x9b2J\x7f", r"\x1b[31mred\x07\x0d\x9b2J\x7f"),
        ("\u202eturned\u2066", r"\u202eturned\u2066"),
        ("\ud800", r"\ud800"),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cat", "cat"),
        ("a\nb\x1b[2J", r"a\x0ab\x1b[2J"),
        ("\udcff", r"\xff"),  # a byte of a file name that is no UTF-8
        ("\ud800\u200b", r"\ud800\u200b"),
        ("\U000e0001", r"\U000e0001"),
    ],
)
def test_shown(name: str, expected: str) -> None:
    assert display_name(name) == expected
