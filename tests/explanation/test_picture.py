"""The picture on the page "See a backward" is up to date, except for the last digits of norms."""

from __future__ import annotations

import re

from explanation.picture import PICTURE, drawn


def test_the_picture_of_the_page_is_drawn_anew() -> None:
    there, new = (re.sub(r"‖g‖ [\d.e-]+<", "‖g‖ <", text) for text in (PICTURE.read_text(encoding="utf-8"), drawn()))
    there, new = (re.sub(r"see_a_backward.md:\d+", "", text) for text in (there, new))
    assert there == new, "run: python tests/explanation/picture.py"
