"""A story: a few steps that lead a reader to the answer of a question, each with an entry of the page taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .numbers import numbers

__all__ = ["Picture", "Step", "Story", "as_dicts", "label", "said"]


@dataclass(frozen=True)
class Picture:
    """A small array beside the text: its title, its values and its role, as in ``Array``."""

    title: str
    values: np.ndarray
    role: str


@dataclass(frozen=True)
class Step:
    """A step of a story: its text, and the part of the page that it shows.

    text: with the names of entries between backquotes
    view: the part of the page: "entries", "matrices", "time"
    name, at: the entry that is taken apart, at a flat index
    into: if given, the entry's uses in this array are shown, instead of the products that add up to the entry
    product: the number of the product that is looked at
    pictures: arrays that are multiplied entry by entry
    """

    text: str
    view: str
    name: str
    at: int
    into: str = ""
    product: int | None = None
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Story:
    """A question and the way to its answer."""

    question: str
    steps: tuple[Step, ...]


def label(name: str, at: int, shape: Sequence[int]) -> str:
    """An entry's name between backquotes: `gw[0, 1, 2]`."""
    return f"`{name}[{', '.join(str(int(i)) for i in np.unravel_index(at, tuple(shape)))}]`"


def said(value: float) -> str:
    """A number in a sentence: three digits."""
    return f"{float(value):.3g}".replace("-", "−")


def as_dicts(stories: Sequence[Story]) -> list[dict[str, Any]]:
    """Return the stories as plain data, for the page."""
    return [{"question": each.question, "steps": [_step(step) for step in each.steps]} for each in stories]


def _step(step: Step) -> dict[str, Any]:
    pictures = [
        {"name": each.title, "shape": list(each.values.shape), "values": numbers(each.values), "role": each.role}
        for each in step.pictures
    ]
    return {
        "text": step.text,
        "view": step.view,
        "entry": {"name": step.name, "at": int(step.at)},
        "into": step.into,
        "product": step.product,
        "pictures": pictures,
    }
