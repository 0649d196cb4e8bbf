"""Parameter records: their words have names, and a wrong name or length is refused."""

from __future__ import annotations

from typing import Any

import pytest

from retrograd.kernels.compiled.machine.record import record

PLAN = record(steps=4, size=1, extent=3, rest=0)


def test_places_and_words() -> None:
    assert (PLAN.steps, PLAN.size, PLAN.extent, PLAN.rest, PLAN.words) == (0, 4, 5, 8, 8)
    words = PLAN.pack(size=9, extent=(1, 2, 3), steps=[4, 5, 6, 7], rest=[10, 11])
    assert words.tolist() == [4, 5, 6, 7, 9, 1, 2, 3, 10, 11] and words.dtype == "int64"
    outer = record(inner=PLAN.words, flag=1)
    assert outer.pack(inner=words[:8], flag=True).tolist() == [4, 5, 6, 7, 9, 1, 2, 3, 1]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"steps": [0] * 4, "extent": [0] * 3, "rest": []}, TypeError, "no other: size"),
        ({"steps": [0] * 4, "size": 1, "extent": [0] * 3, "rest": [], "sizes": 1}, TypeError, "no other: sizes"),
        ({"steps": [0] * 4, "size": 1, "extent": [0] * 2, "rest": []}, ValueError, "extent has 2 words, needs 3"),
    ],
)
def test_what_is_refused(values: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        PLAN.pack(**values)


def test_only_the_last_field_has_any_length() -> None:
    with pytest.raises(ValueError, match="only the last field"):
        record(list=0, size=1)
