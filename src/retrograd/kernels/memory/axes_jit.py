# mypy: ignore-errors
"""Where a task of a kernel over columns works."""

from __future__ import annotations

from typing import Any

from ..machine.compiler import helper


@helper
def columns_of(task: int, inner: int, width: int) -> Any:
    """Which block of rows it is, the first of its ``width`` columns and the one after its last."""
    blocks = (inner + width - 1) // width
    part = task // blocks
    column = (task - part * blocks) * width
    return part, column, min(inner, column + width)
