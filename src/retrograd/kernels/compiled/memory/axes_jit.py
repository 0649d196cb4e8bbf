# mypy: ignore-errors
"""The range of a task of a kernel over columns."""

from __future__ import annotations

from typing import Any

from ..machine.compiler import helper


@helper
def columns_of(task: int, inner: int, width: int) -> Any:
    """The block of rows, the first of ``width`` columns, and one past the last."""
    blocks = (inner + width - 1) // width
    part = task // blocks
    column = (task - part * blocks) * width
    return part, column, min(inner, column + width)
