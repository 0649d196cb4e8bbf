"""The server's answers about operators: documents of examples with the settings that the reader chooses.

GET /api/explanation?operator=conv2d&stride=2     the document with these settings, see document.py
    ...&typed=g*(abs(x)<=1)                       with this gradient in place of the function's own, see typed.py
GET /api/traces?operator=...                      its code that ran, line by line
GET /api/faults?operator=...                      its failure lab
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from ..document import as_dict, faults, traces
from ..explanation import Explanation
from ..operators import find
from ..operators.operator import Operator
from ..typed import retyped

__all__ = ["answers_about", "answers_of"]

Query = Mapping[str, str]


def answers_of(first: Operator) -> dict[str, Callable[[Query], dict[str, Any]]]:
    """The answers by name; each raises ValueError for a query that it has no answer to.

    first: an operator that ``find`` need not know: one of the user's own
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
    """The answers about an operator with arrays of the user's, which has no settings to choose."""

    @lru_cache(maxsize=32)
    def with_rule(text: str) -> Explanation:
        return retyped(explanation, text) if text else explanation

    def asked(query: Query) -> Explanation:
        return with_rule(query.get("typed", ""))

    return {
        "explanation": lambda query: as_dict(asked(query), whole=False) | {"settings": []},
        "traces": lambda query: traces(asked(query)),
        "faults": lambda query: faults(asked(query)),
    }


def _as(kind: type, name: str, value: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"explain: {name[:40]}={value[:40]!r} must be a number") from None
