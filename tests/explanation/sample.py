"""Sample of operators for daily tests: every seventh operator of each table of similar ones, and all others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from retrograd.explanation.operators import binary, names, pointwise, quantizers

_EVERY = 7
_TABLES = ([*pointwise.OPERATORS], [*binary.OPERATORS], [*quantizers.OPERATORS])


def sampled(chosen: Iterable[str] | None = None, start: int = 0) -> list[Any]:
    """Return names (all for None) as test parameters; those outside the sample run only in nightly tests."""
    left_out = {name for table in _TABLES for place, name in enumerate(table) if (place - start) % _EVERY}
    return [
        pytest.param(name, marks=pytest.mark.nightly) if name in left_out else name
        for name in (names() if chosen is None else chosen)
    ]
