"""What lower rooms offer of higher ones, which they do not import: the package, which has both, fills it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LATER: dict[str, Callable[[], Any]] = {}  # name -> what imports and returns it
