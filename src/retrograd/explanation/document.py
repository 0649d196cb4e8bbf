"""An explanation as plain data for the page: whole documents, excerpts of large layers, Python programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from . import mutation_testing, tracing
from .derivation import derivation
from .explanation import Explanation, stories_as_dicts
from .measurements import Curve, lines, number, numbers
from .products import Products

if TYPE_CHECKING:
    from .explanation import Array, Explanation
    from .source_map import Ran

__all__ = [
    "FORMAT",
    "as_dict",
    "as_gradcheck",
    "as_python",
    "block",
    "faults",
    "first",
    "is_small",
    "outline",
    "rows_of",
    "start_of",
    "entry_products",
    "through_time",
    "traces",
    "unit_of",
    "whole",
    "window",
]


# ---- An explanation as Python programs: the same run, and a gradcheck of it -----------------------------------------

_IMPORTS = "import retrograd as rg\nfrom retrograd.nn import functional as F\n"
_LARGEST = 4096  # entries; a larger array is not written in full


def as_python(source: str, inputs: Mapping[str, np.ndarray], gy: np.ndarray, imports: str = "") -> str:
    """Return a program that runs the call and its backward with this upstream gradient, and prints the gradients."""
    lines = [_IMPORTS + imports]
    lines += [f"{name} = {_tensor(array, array.dtype.kind == 'f')}" for name, array in inputs.items()]
    lines += [f"gy = {_tensor(gy, False)}", "", f"y = {source}", "y.backward(gy)"]
    lines += [f'print("g{name} =", {name}.grad)' for name, array in inputs.items() if array.dtype.kind == "f"]
    return "\n".join(lines) + "\n"


def as_gradcheck(name: str, source: str, inputs: Mapping[str, np.ndarray], imports: str = "") -> str:
    """Return the source of a test that compares the gradients of the call with central differences."""
    lines = [_IMPORTS + imports + "from retrograd.autograd import gradcheck\n\n", f"def test_the_gradient_of_{name}():"]
    for each, array in inputs.items():
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array
        lines.append(f"    {each} = {_tensor(wide, wide.dtype.kind == 'f')}")
    names = ", ".join(inputs)
    lines.append(f"    assert gradcheck(lambda {names}: {source}, [{names}])")
    return "\n".join(lines) + "\n"


def _tensor(array: np.ndarray, requires_grad: bool) -> str:
    shape = ", ".join(map(str, array.shape))
    values = f"rg.randn({shape}" if array.size > _LARGEST else f"rg.tensor({_nested(array)}"
    wide = ", dtype=rg.float64" if array.dtype == np.float64 else ""
    return f"{values}{wide}{', requires_grad=True' if requires_grad else ''})"


def _nested(array: np.ndarray) -> str:
    """Format the entries as nested lists, each number with as many digits as its type needs."""
    if array.ndim == 0:
        return _number(array[()])
    return f"[{', '.join(map(_nested, array))}]"


def _number(value: Any) -> str:
    if isinstance(value, np.floating):
        return f"float({str(value)!r})" if not np.isfinite(value) else str(value)
    return repr(value.item())


# ---- An explanation as plain data, from which the page is drawn and which the standalone file contains --------------

FORMAT = 1


def as_dict(explanation: Explanation, whole: bool = False) -> dict[str, Any]:
    """``{"operator", "call", "settings", "arrays", "sums", "numerical", "agreement", ...}``

    "traces" and "faults" take longer to compute. If they are absent, "later" lists those that can be requested.
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
        "stories": stories_as_dicts(explanation.stories),
        "python": as_python(program, inputs, explanation.gy, case.imports),
        "gradcheck": as_gradcheck(case.name, program, inputs, case.imports) if case.exact else None,
    }
    if case.curve is not None:
        found["curves"] = _curves(case.curve, case.name)
    if case.diagram is not None:
        found["diagram"] = case.diagram
    if case.takes_rules:
        found["typed"] = explanation.typed
        if explanation.typed and not case.program:  # one expression cannot represent a typed rule of a quantizer
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
    """Return the steps that ran, and the executed lines of the backward and of other algorithms."""
    steps = {name: [*map(_ran, found)] for name, found in explanation.steps().items()}
    return {"steps": steps, "traces": tracing.as_dicts(explanation.runs())}


def faults(explanation: Explanation) -> dict[str, Any]:
    """Return ``{"faults": [...]}``: the outcomes of the tab "Break it", as plain data."""
    return {"faults": mutation_testing.as_dicts(explanation.outcomes())}


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


# ---- The products of one entry as plain data, for layers whose arrays are too large to send whole -------------------

_MOST = 200  # products listed for an entry
_WHOLE, _PART = 32, 16  # edge length of a block: an axis is shown whole up to _WHOLE entries, otherwise _PART of them


def rows_of(explanation: Explanation, name: str, flat: int) -> Iterator[tuple[Products, np.ndarray, np.ndarray]]:
    """Yield (products, their rows, their values) for each part of the sum of an entry."""
    values = {each: array.values for each, array in explanation.arrays.items()}
    for products in explanation.sums[name]:
        rows = products.of(flat)
        yield products, rows, products.values(rows, values)


def entry_products(explanation: Explanation, name: str, flat: int) -> dict[str, Any]:
    """Return an entry, its 200 largest products in order, and the sum of the others.

    Raises:
        ValueError: the array is not a sum of products, or has no such entry.
    """
    if name not in explanation.sums:
        raise ValueError(f"explain: {name} is not one of the arrays that are sums: {', '.join(explanation.sums)}")
    array = explanation.arrays[name]
    if not 0 <= flat < array.values.size:
        raise ValueError(f"explain: {name} has {array.values.size} entries, and no entry {flat}")
    parts = [*rows_of(explanation, name, flat)]
    every = np.concatenate([values for *_, values in parts]) if parts else np.zeros(0)
    kept = np.zeros(len(every), bool)
    kept[np.argsort(-np.abs(every), kind="stable")[:_MOST]] = True
    listed, first = [], 0
    for products, rows, values in parts:
        for place in np.flatnonzero(kept[first : first + len(values)]):
            factors = [
                [factor, int(at), 0.0 if at < 0 else float(explanation.arrays[factor].values.ravel()[at])]
                for factor, at in zip(products.factors, rows[place], strict=True)
            ]
            listed.append({"factors": factors, "scale": products.scale, "value": float(values[place])})
        first += len(values)
    return {
        "array": name,
        "index": flat,
        "value": numbers(array.values.ravel()[flat : flat + 1])[0],
        "count": len(every),
        "sum": numbers(every.sum(keepdims=True))[0],
        "rest": numbers(every[~kept].sum(keepdims=True))[0],
        "products": listed,
    }


def outline(explanation: Explanation) -> dict[str, Any]:
    """Return the arrays of a layer without their entries; for arrays that are sums, also the formula and the factors.

    window: the extent of the blocks in which an array is shown; first: the entry selected initially
    """
    name, at = first(explanation)
    return {
        "operator": explanation.case.name,
        "call": explanation.case.source,
        "exact": explanation.case.exact,
        "first": {"name": name, "at": at},
        "diagram": explanation.case.diagram,
        "arrays": {
            name: {
                "shape": [*array.values.shape],
                "window": window(array.values.shape),
                "axes": array.axes,
                "dtype": str(array.values.dtype),
                "role": array.role,
                "about": array.about,
                "padding": [[*pair] for pair in array.padding],
                "view": array.view,
                "largest": _largest(array.values),
            }
            for name, array in explanation.arrays.items()
        },
        "sums": {
            name: {
                "formula": explanation.case.formulas.get(name, ""),
                "factors": [[*each.factors] for each in products],
            }
            for name, products in explanation.sums.items()
        },
    }


def first(explanation: Explanation) -> tuple[str, int]:
    """Return the entry selected initially: the largest of the weight's gradient, or of another gradient."""
    gradients = [
        name for name, array in explanation.arrays.items() if name in explanation.sums and array.role == "gradient"
    ]
    weights = [name for name in gradients if explanation.arrays[name[1:]].role == "weight"]
    name = next(iter([*weights, *gradients, *explanation.sums, "y"]))
    values = explanation.arrays[name].values
    return name, int(np.nanargmax(np.abs(values))) if values.size and not np.isnan(values).all() else 0


def window(shape: tuple[int, ...]) -> list[int]:
    """Return the extent of a block of an array: at most 32 on the last two axes, a readable number on the others."""
    extents = [extent if extent <= _WHOLE else _PART for extent in shape[-2:]]
    cells = int(np.prod(extents, dtype=int))
    panels = 16 if cells <= 16 else 4 if cells <= 36 else 1
    side = int(panels**0.5)
    lead = [1] * len(shape[:-2])
    for axis in reversed(range(len(lead))):
        lead[axis] = min(shape[axis], side, panels)
        panels //= max(lead[axis], 1)
    for axis in reversed(range(len(lead))):  # the share that other axes did not need
        more = max(min(shape[axis], lead[axis] * panels, 4), lead[axis])
        panels //= max(more // max(lead[axis], 1), 1)
        lead[axis] = more
    return [*lead, *extents]


def start_of(shape: tuple[int, ...], flat: int) -> tuple[int, ...]:
    """Return the start of the block in which an entry is shown."""
    place = np.unravel_index(flat, shape) if shape else ()
    return tuple(
        max(min(int(i) // size * size, extent - size), 0)
        for i, size, extent in zip(place, window(shape), shape, strict=True)
    )


def block(array: np.ndarray, start: tuple[int, ...]) -> dict[str, Any]:
    """Return the part of an array that begins at ``start``, as large as its window.

    Raises:
        ValueError: there is no such place.
    """
    inside = len(start) == array.ndim and all(0 <= i < max(n, 1) for i, n in zip(start, array.shape, strict=True))
    if not inside:
        raise ValueError(f"explain: an array of shape {array.shape} has no block that begins at {start}")
    part = array[tuple(slice(i, i + size) for i, size in zip(start, window(array.shape), strict=True))]
    return {"start": [*start], "shape": [*part.shape], "values": _short(part)}


def _short(values: np.ndarray) -> list[Any]:
    """Return the entries with just enough digits to distinguish adjacent floats; float32 needs fewer than float64."""
    if values.dtype != np.float32:
        return numbers(values)
    return [number(float(str(each))) for each in values.ravel()]


def _largest(values: np.ndarray) -> float:
    """Return the magnitude of the largest finite entry."""
    if not values.size:
        return 0.0
    ends = abs(float(values.min())), abs(float(values.max()))
    if np.isfinite(ends).all():
        return max(ends)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0))


# ---- One unit of one sequence of a large recurrent layer at every step ----------------------------------------------


def through_time(explanation: Explanation, sequence: int, unit: int, first: int) -> dict[str, Any]:
    """Return the entries of every step by array, and the contribution of each gradient path.

    first: the first of the four inputs to include

    Raises:
        ValueError: the layer is not recurrent, or there is no such sequence, unit or input.
    """
    diagram = explanation.case.diagram
    if diagram is None:
        raise ValueError(f"explain: {explanation.case.name} has no steps in time")
    arrays = explanation.arrays
    steps, batch, units = arrays["y"].values.shape
    inputs = arrays["x"].values.shape[-1]
    for name, place, extent in (("sequence", sequence, batch), ("unit", unit, units), ("input", first, inputs)):
        if not 0 <= place < extent:
            raise ValueError(f"explain: there is no {name} {place}; there are {extent}")
    found: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        if array.axes == "tnh":
            found[name] = numbers(array.values[:, sequence, unit])
        elif array.axes == "tni":
            found[name] = numbers(array.values[:, sequence, first : first + 4])
        elif array.axes == "dnh":
            found[name] = numbers(array.values[:, sequence, unit])
    ways = [
        [_contribution(explanation, path, step, (sequence, unit)) for step in range(-1, steps)]
        for path in diagram["ways"]
    ]
    return {"sequence": sequence, "unit": unit, "input": first, "values": found, "ways": ways}


def unit_of(explanation: Explanation, name: str, flat: int) -> tuple[int, int]:
    """Return the sequence and the unit of the first product of an entry."""
    for products, rows, _ in rows_of(explanation, name, flat):
        for column, factor in enumerate(products.factors):
            array = explanation.arrays[factor]
            if array.axes == "tnh" and len(rows):
                _, sequence, unit = np.unravel_index(rows[0, column], array.values.shape)
                return int(sequence), int(unit)
    return 0, 0


def _contribution(explanation: Explanation, path: dict[str, Any], step: int, place: tuple[int, int]) -> float:
    """Return what a gradient path adds to a state's gradient at a step; step -1 is the state before the first step."""
    name, index = (path["to"], (step, *place)) if step >= 0 else (f"{path['to']}0", (0, *place))
    if name not in explanation.sums:
        return 0.0
    flat = int(np.ravel_multi_index(index, explanation.arrays[name].values.shape))
    return sum(
        float(values.sum())
        for products, _, values in rows_of(explanation, name, flat)
        if set(path["sources"]) & set(products.factors)
    )


# ---- Selection of layers small enough to send all of their entries and products -------------------------------------

_ENTRIES = 20_000  # of all arrays together, for a layer that is sent whole
_PRODUCTS = 40_000  # of all its sums together
_TRACED = 4_000  # entries of all arrays together, for a layer whose code is traced


def is_small(explanation: Explanation) -> bool:
    """Return whether a layer's whole document is sent, with all entries and products."""
    if sum(array.values.size for array in explanation.arrays.values()) > _ENTRIES:
        return False
    products = 0
    for name, parts in explanation.sums.items():
        size = explanation.arrays[name].values.size
        if size:
            products += sum(len(each.of(size // 2)) for each in parts) * size
    return products <= _PRODUCTS


def whole(explanation: Explanation, with_code: bool = True) -> dict[str, Any]:
    """Return a small layer's document, in the form of an operator's."""
    found = as_dict(explanation, whole=False)
    later = found.pop("later")
    if "traces" in later and sum(array.values.size for array in explanation.arrays.values()) <= _TRACED:
        found |= traces(explanation) if with_code else {"later": ["traces"]}
    return found
