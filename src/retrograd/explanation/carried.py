"""A model's page as one file: its map, small layers whole, and of the others the entry that matters most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .explanation import Explanation
from .model import ModelExplanation
from .serving.of_model import answers_of
from .small import is_small, whole
from .taking import first, outline, start_of, taken
from .through_time import through_time, unit_of

__all__ = ["as_page"]


def as_page(model: ModelExplanation) -> str:
    """The page as the text of one HTML file."""
    from .standalone import page

    documents: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    for layer in model.layers:
        try:
            explanation = model.layer(layer.path)
        except ValueError:
            continue  # the map says why
        if is_small(explanation):
            documents[layer.path] = whole(explanation)
            name, at = first(explanation)
            answers |= dict(_of("road", model, layer.path, name, at))
        else:
            answers |= dict(_part(model, layer.path, explanation))
    carried = {"documents": documents, "answers": answers}
    return page([], model=model.to_dict() | carried)


def _part(model: ModelExplanation, path: str, explanation: Explanation) -> Iterator[tuple[str, Any]]:
    """The arrays of a large layer without their entries, the entry that the page begins with, and the blocks around."""
    yield _key("layer", path), outline(explanation)
    name, at = first(explanation)
    apart = taken(explanation, name, at) if name in explanation.sums else None
    if apart is not None:
        for question in ("taken", "numerical", "road") if explanation.arrays[name].role == "gradient" else ("taken",):
            yield from _of(question, model, path, name, at)
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
            yield from _of("block", model, path, each, start)


def _of(
    question: str, model: ModelExplanation, path: str, name: str, at: int | tuple[int, ...]
) -> Iterator[tuple[str, Any]]:
    """The server's answer about an entry or a block, under its key; nothing where it has none."""
    place = ",".join(map(str, at)) if isinstance(at, tuple) else str(at)
    query = {"layer": path, "array": name, "start" if isinstance(at, tuple) else "index": place}
    try:
        yield _key(question, path, name, place), answers_of(model)[question](query)
    except ValueError:
        return


def _key(*words: str) -> str:
    """Return the key by which the page finds an answer: the parts of its request, one a line."""
    return "\n".join(words)
