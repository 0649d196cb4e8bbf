"""The other settings that an operator's file carries: every change of one setting, then of two, while there is room.

Documents of a file are packed: indices as the differences of neighbours in a column, which are nearly all alike, then
deflated. The page unpacks one when its reader chooses the settings.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from .document import faults, traces
from .explanation import Explanation, Setting
from .standalone import packed

__all__ = ["changes", "others"]

Change = dict[str, Any]


class _Step(NamedTuple):
    """A setting and another value for it, and how many choices it is away."""

    name: str
    value: Any
    distance: int


class _Room:
    """The bytes that are left."""

    def __init__(self, size: int) -> None:
        self.left = size

    def takes(self, content: Any) -> bool:
        """Whether there is room for it, which it then takes; once there was none, there is none for others."""
        self.left -= len(json.dumps(content, separators=(",", ":"))) + 12
        return self.left >= 0


def others(explanation: Explanation, size: int) -> dict[str, Any] | None:
    """Return the ``others`` of `standalone.page`, at most ``size`` bytes of documents; None if not even one fits.

    ``{"about": a sentence, "documents": [{"changed": {...}, "packed": ..., "later": ...}, ...]}``, with ``"error"`` in
    place of ``"packed"`` where the settings do not go together. First come the documents of one changed setting, then
    for these the lines that ran and the failure lab ("later"), then the documents of two changed settings.
    """
    change = explanation.change
    if change is None:
        return None
    wanted = [*changes(explanation.settings)]
    room, found = _Room(size), list[dict[str, Any]]()
    singles: list[tuple[dict[str, Any], Explanation]] = []

    def add(changed: Change) -> bool:
        entry: dict[str, Any] = {"changed": changed}
        try:
            other = change({**explanation.options, **changed})
            entry["packed"] = _packed(other.to_dict(whole=False))
        except ValueError as error:
            entry["error"] = str(error)
        if not room.takes(entry):
            return False
        found.append(entry)
        if len(changed) == 1 and "packed" in entry:
            singles.append((entry, other))
        return True

    def explain_more() -> bool:
        for entry, other in singles:
            later = _packed(traces(other) | faults(other))
            if not room.takes(later):
                return False
            entry["later"] = later
        return True

    one, two = ([each for each in wanted if len(each) == count] for count in (1, 2))
    if all(map(add, one)) and explain_more():
        all(map(add, two))
    return {"about": _about([*map(len, wanted)], len(found)), "documents": found} if found else None


def changes(settings: tuple[Setting, ...]) -> Iterator[Change]:
    """Every change of one setting, and of two, in this order; of each kind the nearest choices first."""
    steps = [
        [
            _Step(each.name, choice, abs(place - each.choices.index(each.value)))
            for place, choice in enumerate(each.choices)
            if choice != each.value
        ]
        for each in settings
    ]
    for count in (1, 2):
        groups = [group for chosen in combinations(steps, count) for group in product(*chosen)]
        for group in sorted(groups, key=lambda group: sum(step.distance for step in group)):
            yield {step.name: step.value for step in group}


def _packed(document: Mapping[str, Any]) -> str:
    """A document as short text."""
    sums = {
        name: each
        | {
            "products": [
                one | {"index": _differences(one["index"], 1 + len(one["factors"]))} for one in each["products"]
            ]
        }
        for name, each in document.get("sums", {}).items()
    }
    arrays = {
        name: each | {"copies": each["copies"] | {"index": _differences(each["copies"]["index"], 1)}}
        if each["copies"]
        else each
        for name, each in document.get("arrays", {}).items()
    }
    short = {**document, "sums": sums, "arrays": arrays} if sums or arrays else document
    return packed(json.dumps(short, separators=(",", ":"), allow_nan=False))


def _differences(index: list[int], width: int) -> list[int]:
    """Rows of a width as their columns, one after the other, each entry less the one before it."""
    columns = np.array(index, np.int64).reshape(-1, width).T
    differences: list[int] = np.diff(columns, axis=1, prepend=0).ravel().tolist()
    return differences


def _about(sizes: list[int], count: int) -> str:
    """Return a sentence that says which changes of settings the file holds."""
    kinds = []
    for changed, words in ((1, "one setting"), (2, "two settings")):
        held, all_of_them = sizes[:count].count(changed), sizes.count(changed)
        if held:
            kinds.append(f"{'every change' if held == all_of_them else f'{held} of {all_of_them} changes'} of {words}")
    return f"this file holds {' and '.join(kinds)}"
