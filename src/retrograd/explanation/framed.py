"""A page inside a notebook."""

from __future__ import annotations

from html import escape

__all__ = ["framed"]


def framed(page: str) -> str:
    """A whole HTML page as an element of another one."""
    text = escape(page, quote=True)
    return f'<iframe srcdoc="{text}" style="width:100%;height:760px;border:0" title="see the gradient"></iframe>'
