"""The page of an operator: other settings included in a file, and the server's answers.

Documents in a file are packed: indices are stored as differences between neighbors in a column, nearly all of which are
equal, and then deflated. The page unpacks a document when the reader chooses its settings.

GET /api/explanation?operator=conv2d&stride=2     the document with these settings, see document.py
    ...&typed=g*(abs(x)<=1)                       with this gradient in place of its own, see gradient_expressions.py
GET /api/traces?operator=...                      its executed code, line by line
GET /api/faults?operator=...                      the outcomes of its bugs
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from .document import as_dict, faults, traces
from .explanation import Explanation, Setting
from .gradient_expressions import retyped
from .html_page import packed
from .operators import find
from .operators.operator import Operator

__all__ = ["answers_about", "answers_of", "changes", "others"]


# ---- Other settings included in an operator's file ------------------------------------------------------------------

Change = dict[str, Any]


class _Step(NamedTuple):
    """A changed setting, and how many choices its value is away from the present one."""

    name: str
    value: Any
    distance: int


class _Budget:
    """The remaining size budget in bytes."""

    def __init__(self, size: int) -> None:
        self.left = size

    def reserve(self, content: Any) -> bool:
        """Reserve bytes for content and return whether it fits; after the first failure nothing else fits."""
        self.left -= len(json.dumps(content, separators=(",", ":"))) + 12
        return self.left >= 0


def others(explanation: Explanation, size: int) -> dict[str, Any] | None:
    """Return the ``others`` of `html_page.page`, at most ``size`` bytes of documents; None if not even one fits.

    The form is ``{"about": a sentence, "documents": [{"changed": {...}, "packed": ..., "later": ...}, ...]}``, with
    ``"error"`` in place of ``"packed"`` if the settings are incompatible. The order is: documents with one changed
    setting, their executed lines and the outcomes of "Break it" ("later"), documents with two changed settings.
    """
    change = explanation.change
    if change is None:
        return None
    candidates = [*changes(explanation.settings)]
    budget, found = _Budget(size), list[dict[str, Any]]()
    singles: list[tuple[dict[str, Any], Explanation]] = []

    def add(changed: Change) -> bool:
        entry: dict[str, Any] = {"changed": changed}
        try:
            other = change({**explanation.options, **changed})
            entry["packed"] = _packed(other.to_dict(whole=False))
        except ValueError as error:
            entry["error"] = str(error)
        if not budget.reserve(entry):
            return False
        found.append(entry)
        if len(changed) == 1 and "packed" in entry:
            singles.append((entry, other))
        return True

    def explain_more() -> bool:
        for entry, other in singles:
            later = _packed(traces(other) | faults(other))
            if not budget.reserve(later):
                return False
            entry["later"] = later
        return True

    one, two = ([each for each in candidates if len(each) == count] for count in (1, 2))
    if all(map(add, one)) and explain_more():
        all(map(add, two))
    return {"about": _about([*map(len, candidates)], len(found)), "documents": found} if found else None


def changes(settings: tuple[Setting, ...]) -> Iterator[Change]:
    """Yield every change of one setting, then of two, in each group the nearest choices first."""
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
    """Return a document as a compact string."""
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
    """Return a flat table column by column, with each entry minus the one before it; width: of a row."""
    columns = np.array(index, np.int64).reshape(-1, width).T
    differences: list[int] = np.diff(columns, axis=1, prepend=0).ravel().tolist()
    return differences


def _about(sizes: list[int], count: int) -> str:
    """Return a sentence that says which changes of settings the file contains."""
    kinds = []
    for changed, words in ((1, "one setting"), (2, "two settings")):
        held, all_of_them = sizes[:count].count(changed), sizes.count(changed)
        if held:
            kinds.append(f"{'every change' if held == all_of_them else f'{held} of {all_of_them} changes'} of {words}")
    return f"this file holds {' and '.join(kinds)}"


# ---- The server's answers about operators ---------------------------------------------------------------------------

Query = Mapping[str, str]


def answers_of(first: Operator) -> dict[str, Callable[[Query], dict[str, Any]]]:
    """Return the answers by name; each raises ValueError for a query without an answer.

    first: the initial operator; it may be one of the user's own, which ``find`` does not know
    """

    @lru_cache(maxsize=32)
    def explained(operator: str, settings: tuple[tuple[str, str], ...]) -> Explanation:
        found = first if operator == first.name else find(operator)
        kinds = {setting.name: type(setting.value) for setting in found.settings}
        given = {name: _as(kinds.get(name, str), name, value) for name, value in settings if name != "typed"}
        explanation, text = found.with_settings(given), dict(settings).get("typed", "")
        return retyped(explanation, text) if text else explanation

    def answer(make: Callable[[Explanation], dict[str, Any]]) -> Callable[[Query], dict[str, Any]]:
        def to(query: Query) -> dict[str, Any]:
            settings = [(name, value) for name, value in query.items() if name != "operator"]
            return make(explained(query.get("operator", ""), tuple(sorted(settings))))

        return to

    return {
        "explanation": answer(lambda each: as_dict(each, whole=False)),
        "traces": answer(traces),
        "faults": answer(faults),
    }


def answers_about(explanation: Explanation) -> dict[str, Callable[[Query], dict[str, Any]]]:
    """Return the answers about an operator with the user's arrays, which has no settings to choose."""

    @lru_cache(maxsize=32)
    def with_rule(text: str) -> Explanation:
        return retyped(explanation, text) if text else explanation

    def explanation_for(query: Query) -> Explanation:
        return with_rule(query.get("typed", ""))

    return {
        "explanation": lambda query: as_dict(explanation_for(query), whole=False) | {"settings": []},
        "traces": lambda query: traces(explanation_for(query)),
        "faults": lambda query: faults(explanation_for(query)),
    }


def _as(kind: type, name: str, value: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"explain: {name[:40]}={value[:40]!r} must be a number") from None
