"""All cases, by family."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module

from .case import Case

FAMILIES = (
    "convolution",
    "recurrent",
    "pooling",
    "normalization",
    "losses",
    "attention",
    "products",
    "pointwise",
    "shapes",
    "indexing",
    "reductions",
)


@lru_cache(maxsize=1)
def cases() -> dict[str, tuple[Case, ...]]:
    """Family -> its cases."""
    return {family: tuple(import_module(f"{__package__}.{family}").CASES) for family in FAMILIES}


def chosen(words: Sequence[str] = ()) -> list[Case]:
    """The cases whose name, operator or family has one of the words in it, in any case of letters; all for no words.

    Raises:
        ValueError: none has this word.
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
