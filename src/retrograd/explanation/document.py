"""An explanation as plain data, which the page is drawn from and the standalone file carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import faults as breaking
from . import running, story
from .curves import Curve, lines
from .derivation import derivation
from .numbers import numbers
from .snippets import as_gradcheck, as_python
from .sums import Products

if TYPE_CHECKING:
    from .explanation import Array, Explanation
    from .where import Ran

__all__ = ["FORMAT", "as_dict", "faults", "traces"]

FORMAT = 1


def as_dict(explanation: Explanation, whole: bool = False) -> dict[str, Any]:
    """``{"operator", "call", "settings", "arrays", "sums", "numerical", "agreement", ...}``

    "traces" and "faults" take longer to compute: where they are not in it, "later" says that they can be had.
    """
    case = explanation.case
    arrays = explanation.arrays
    gradients = [name for name, array in arrays.items() if array.role == "gradient"]
    inputs = {name: array.values for name, array in case.inputs.items()}
    program = case.program or case.source
    found = {
        "format": FORMAT,
        "operator": case.name,
        "call": case.source,
        "exact": case.exact,
        "step": case.step,
        "settings": [
            {"name": s.name, "value": s.value, "choices": list(s.choices), "about": s.about, "default": s.default}
            for s in explanation.settings
        ],
        "arrays": {name: _array(array) for name, array in arrays.items()},
        "sums": {
            name: {"formula": case.formulas.get(name, ""), "products": [_products(each) for each in found]}
            for name, found in explanation.sums.items()
        },
        "numerical": {name: numbers(explanation.numerical(name)) for name in gradients},
        "agreement": explanation.agreement,
        "stories": story.as_dicts(explanation.stories),
        "python": as_python(program, inputs, explanation.gy, case.imports),
        "gradcheck": as_gradcheck(case.name, program, inputs, case.imports) if case.exact else None,
    }
    if case.curve is not None:
        found["curves"] = _curves(case.curve, case.name)
    if case.diagram is not None:
        found["diagram"] = case.diagram
    if case.takes_rules:
        found["typed"] = explanation.typed
        if explanation.typed and not case.program:  # a typed rule of a quantiser cannot be said in one expression
            found["python"] = None
    if case.rules:
        found["rules"] = {f"g{name}": text for name, text in case.rules.items() if name in case.inputs}
    how = derivation(case.call, inputs, explanation.gy) if not explanation.typed else None
    if how is not None:
        found["derivation"] = how
    if whole:
        return found | traces(explanation) | faults(explanation)
    return found | {"later": ["traces", "faults"]}


def traces(explanation: Explanation) -> dict[str, Any]:
    """The steps that ran, and the lines: of the backward, and of other algorithms."""
    steps = {name: [*map(_ran, found)] for name, found in explanation.steps().items()}
    return {"steps": steps, "traces": running.as_dicts(explanation.runs())}


def faults(explanation: Explanation) -> dict[str, Any]:
    """Return ``{"faults": [...]}``: the outcomes of the failure lab, as plain data."""
    return {"faults": breaking.as_dicts(explanation.outcomes())}


def _array(array: Array) -> dict[str, Any]:
    return {
        "shape": list(array.values.shape),
        "axes": array.axes,
        "dtype": str(array.values.dtype),
        "role": array.role,
        "about": array.about,
        "padding": [list(pair) for pair in array.padding],
        "view": array.view,
        "copies": array.copies and {"array": array.copies[0], "index": array.copies[1].ravel().tolist()},
        "values": numbers(array.values),
    }


def _ran(step: Ran) -> dict[str, Any]:
    return {
        "text": step.text,
        "places": [{"role": s.role, "name": s.name, "place": s.place} for s in (step.kernel, *step.launches)],
        "why_not": step.why_not,
    }


def _curves(curve: Curve, name: str) -> dict[str, Any]:
    found = lines(curve, name)
    return found | {"lines": [line | {"values": numbers(line["values"])} for line in found["lines"]]}


def _products(products: Products) -> dict[str, Any]:
    return {"factors": list(products.factors), "scale": products.scale, "index": products.index.ravel().tolist()}
