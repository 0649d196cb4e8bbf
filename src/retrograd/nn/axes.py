"""Docstring templates for layers over one, two and three axes."""

from __future__ import annotations

__all__ = ["filled"]

_WORDS = {1: ("one axis", "I"), 2: ("two axes", "H, W"), 3: ("three axes", "D, H, W")}


def filled(text: str, ndim: int) -> str:
    """The text with the number of axes for {n}, in words for {axes}, and the names of their extents for {extents}."""
    axes, extents = _WORDS[ndim]
    return text.replace("{n}", str(ndim)).replace("{axes}", axes).replace("{extents}", extents)
