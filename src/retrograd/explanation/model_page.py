"""The page of a model: the server's answers about its layers, and the same answers packed into one file.

GET /api/model                                    the map of the layers
GET /api/layer?layer=features.3                   a small layer's document; otherwise its arrays without their entries
GET /api/traces?layer=...                         the executed code of a small layer, line by line
GET /api/block?layer=...&array=gw&start=0,2,0,0   a part of an array, as large as its window
GET /api/taken?layer=...&array=gw&index=17        an entry (its flat index) and its 200 largest products
GET /api/through_time?layer=...&sequence=0&unit=2&input=0   one unit of a recurrent layer at every step
GET /api/numerical?layer=...&array=gw&index=17    its central difference
GET /api/path_to_loss?layer=...&array=gw&index=17 the largest products from this entry to the loss
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from .document import block, entry_products, first, is_small, outline, start_of, through_time, traces, unit_of, whole
from .explanation import Explanation
from .measurements import number
from .model import ModelExplanation

__all__ = ["answers_of", "as_page"]


# ---- The server's answers about a model: its map, and the part of a layer that the page shows -----------------------

Query = Mapping[str, str]


def answers_of(model: ModelExplanation) -> dict[str, Callable[[Query], dict[str, Any]]]:
    """Return the answers by name; each raises ValueError for a query without an answer."""

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
        return entry_products(_layer(model, query), query.get("array", ""), _whole("index", query.get("index", "")))

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

    def path_to_loss(query: Query) -> dict[str, Any]:
        values = _array(_layer(model, query), query)
        index = _whole("index", query.get("index", ""))
        if not 0 <= index < values.size:
            raise ValueError(f"explain: there is no entry {index}")
        place = tuple(int(i) for i in np.unravel_index(index, values.shape))
        return {"steps": [asdict(step) for step in model.path_to_loss(query["layer"], query["array"], place)]}

    return {
        "model": lambda query: model.to_dict(),
        "layer": layer,
        "traces": code,
        "block": part,
        "taken": entry,
        "through_time": steps,
        "numerical": numerical,
        "path_to_loss": path_to_loss,
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


# ---- A model's page as one file -------------------------------------------------------------------------------------


def as_page(model: ModelExplanation) -> str:
    """Return the page as the text of one HTML file."""
    from .html_page import page

    documents: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    for layer in model.layers:
        try:
            explanation = model.layer(layer.path)
        except ValueError:
            continue  # the map gives the reason
        if is_small(explanation):
            documents[layer.path] = whole(explanation)
            name, at = first(explanation)
            answers |= dict(_answer("path_to_loss", model, layer.path, name, at))
        else:
            answers |= dict(_part(model, layer.path, explanation))
    contents = {"documents": documents, "answers": answers}
    return page([], model=model.to_dict() | contents)


def _part(model: ModelExplanation, path: str, explanation: Explanation) -> Iterator[tuple[str, Any]]:
    """Yield a large layer's arrays without their entries, the entry selected initially, and the blocks around it."""
    yield _key("layer", path), outline(explanation)
    name, at = first(explanation)
    apart = entry_products(explanation, name, at) if name in explanation.sums else None
    if apart is not None:
        for question in (
            ("taken", "numerical", "path_to_loss") if explanation.arrays[name].role == "gradient" else ("taken",)
        ):
            yield from _answer(question, model, path, name, at)
    if explanation.case.diagram is not None:
        for sequence, unit in {(0, 0), unit_of(explanation, name, at)}:
            place = (str(sequence), str(unit), "0")
            yield _key("through_time", path, *place), through_time(explanation, sequence, unit, 0)
    places = {name: at}
    for product in apart["products"] if apart else ():
        for factor, place, _ in product["factors"]:
            if place >= 0:
                places.setdefault(factor, place)
    for each, array in explanation.arrays.items():
        if array.values.size:
            start = start_of(array.values.shape, places.get(each, 0))
            yield from _answer("block", model, path, each, start)


def _answer(
    question: str, model: ModelExplanation, path: str, name: str, at: int | tuple[int, ...]
) -> Iterator[tuple[str, Any]]:
    """Yield (key, the server's answer) for an entry or a block; nothing if there is no answer."""
    place = ",".join(map(str, at)) if isinstance(at, tuple) else str(at)
    query = {"layer": path, "array": name, "start" if isinstance(at, tuple) else "index": place}
    try:
        yield _key(question, path, name, place), answers_of(model)[question](query)
    except ValueError:
        return


def _key(*words: str) -> str:
    """Return the key by which the page finds an answer: the parts of its request, one per line."""
    return "\n".join(words)
