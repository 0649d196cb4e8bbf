"""The server's answers about a model: its map, and the part of a layer that the page shows.

GET /api/model                                    the map of the layers
GET /api/layer?layer=features.3                   a small layer's document; else its arrays without their entries
GET /api/traces?layer=...                         the code of a small layer that ran, line by line
GET /api/block?layer=...&array=gw&start=0,2,0,0   a part of an array, as large as its window
GET /api/taken?layer=...&array=gw&index=17        an entry (its flat index) and its 200 largest products
GET /api/through_time?layer=...&sequence=0&unit=2&input=0   one unit of a recurrent layer at every step
GET /api/numerical?layer=...&array=gw&index=17    its central difference
GET /api/road?layer=...&array=gw&index=17         the largest products from this entry to the loss
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..document import traces
from ..explanation import Explanation
from ..model import ModelExplanation
from ..numbers import number
from ..small import is_small, whole
from ..taking import block, outline, taken
from ..through_time import through_time

__all__ = ["answers_of"]

Query = Mapping[str, str]


def answers_of(model: ModelExplanation) -> dict[str, Callable[[Query], dict[str, Any]]]:
    """The answers by name; each raises ValueError for a query that it has no answer to."""

    def layer(query: Query) -> dict[str, Any]:
        explanation = _layer(model, query)
        found = whole(explanation, with_code=False) if is_small(explanation) else outline(explanation)
        return {"layer": query.get("layer", "")} | found

    def code(query: Query) -> dict[str, Any]:
        explanation = _layer(model, query)
        if not is_small(explanation):
            raise ValueError(f"explain: {query['layer']} is too large to step through its code")
        return traces(explanation)

    def part(query: Query) -> dict[str, Any]:
        values = _array(_layer(model, query), query)
        return block(values, tuple(_whole("start", each) for each in query.get("start", "").split(",") if each))

    def entry(query: Query) -> dict[str, Any]:
        return taken(_layer(model, query), query.get("array", ""), _whole("index", query.get("index", "")))

    def steps(query: Query) -> dict[str, Any]:
        places = (_whole(each, query.get(each, "")) for each in ("sequence", "unit", "input"))
        return through_time(_layer(model, query), *places)

    def numerical(query: Query) -> dict[str, Any]:
        explanation = _layer(model, query)
        name, index = query.get("array", ""), _whole("index", query.get("index", ""))
        values = _array(explanation, query)
        if explanation.arrays[name].role != "gradient" or not 0 <= index < values.size:
            raise ValueError(f"explain: there is no numerical gradient of {name[:40]} at {index}")
        return {"numerical": number(float(explanation.numerical(name, [index])[0]))}

    def road(query: Query) -> dict[str, Any]:
        values = _array(_layer(model, query), query)
        index = _whole("index", query.get("index", ""))
        if not 0 <= index < values.size:
            raise ValueError(f"explain: there is no entry {index}")
        place = tuple(int(i) for i in np.unravel_index(index, values.shape))
        return {"steps": [asdict(step) for step in model.road(query["layer"], query["array"], place)]}

    return {
        "model": lambda query: model.to_dict(),
        "layer": layer,
        "traces": code,
        "block": part,
        "taken": entry,
        "through_time": steps,
        "numerical": numerical,
        "road": road,
    }


def _layer(model: ModelExplanation, query: Query) -> Explanation:
    try:
        return model.layer(query.get("layer", ""))
    except KeyError:
        raise ValueError(f"explain: no layer {query.get('layer', '')[:80]!r} ran") from None


def _array(explanation: Explanation, query: Query) -> np.ndarray:
    name = query.get("array", "")
    if name not in explanation.arrays:
        raise ValueError(f"explain: there is no array {name[:40]!r}; there are {', '.join(explanation.arrays)}")
    return explanation.arrays[name].values


def _whole(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"explain: {name}={value[:40]!r} must be a whole number") from None
