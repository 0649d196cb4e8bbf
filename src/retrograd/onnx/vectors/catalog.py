"""Catalog of all gradient test cases, by family."""

from __future__ import annotations

from collections.abc import Sequence

from . import layer_cases, operator_cases
from .case import Case

_CASES = {
    "convolution": layer_cases.CONVOLUTION,
    "recurrent": layer_cases.RECURRENT,
    "pooling": layer_cases.POOLING,
    "normalization": layer_cases.NORMALIZATION,
    "losses": layer_cases.LOSSES,
    "attention": layer_cases.ATTENTION,
    "products": operator_cases.PRODUCTS,
    "pointwise": operator_cases.POINTWISE,
    "shapes": operator_cases.SHAPES,
    "indexing": operator_cases.INDEXING,
    "reductions": operator_cases.REDUCTIONS,
}
FAMILIES = (*_CASES,)


def cases() -> dict[str, tuple[Case, ...]]:
    """Return a dict of families and their cases."""
    return {family: tuple(some) for family, some in _CASES.items()}


def chosen(words: Sequence[str] = ()) -> list[Case]:
    """Return the cases whose name, operator or family contains one of the words, ignoring case; all without words.

    Raises:
        ValueError: no case contains one of these words.
    """
    each = [(family, case) for family, some in cases().items() for case in some]
    found = {
        word: [case for family, case in each if word.lower() in f"{case.folder} {case.operator} {family}".lower()]
        for word in words
    }
    for word, some in found.items():
        if not some:
            raise ValueError(f"no case has {word!r} in its name, operator or family; families: {', '.join(FAMILIES)}")
    return [case for _, case in each if not words or any(case in some for some in found.values())]
