"""Recurrent layers unrolled in time: gates, states, gradients, and the story of the fading gradient."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...ops.recurrent.recurrent import recurrent_layer
from ...specs.recurrence import Weights, recurrence
from ..explanation import Array, Case, Setting, Step, Story, fmt, label
from ..measurements import Arrays
from ..products import Equations, Products, along
from . import gradient_bugs
from .operator import VALUES, Operator, arguments, draw, switch
from .recurrent_cells import CELLS, DIAGRAMS, Cell, unrolled

__all__ = ["OPERATORS", "stories"]


# ---- The story of a recurrent layer's fading gradient, with the numbers of a run ------------------------------------

Sums = Mapping[str, Sequence[Products]]


def stories(cell: Cell, arrays: Arrays, sums: Sums) -> list[Story]:
    """Return one story for a run of several steps, otherwise none."""
    steps, batch, units = arrays["y"].shape
    if steps < 2 or not batch * units:
        return []
    story = _over_a_gate(cell, arrays, sums) if cell.kept else _over_the_weights(arrays, sums)
    return [Story("Where does the gradient fade?", story)]


def _over_a_gate(cell: Cell, arrays: Arrays, sums: Sums) -> tuple[Step, ...]:
    state, gate = cell.states[-1], cell.kept
    gradient, gates, kept = arrays[f"g{state}"], arrays[gate], arrays["kept"]
    last, size = len(kept) - 1, kept[0].size
    unit = int(np.abs(kept[0]).argmin())  # the sequence and unit with the least gradient left
    names = {
        name: [label(name, t * size + unit, kept.shape) for t in range(last + 1)]
        for name in (state, f"g{state}", gate, "kept")
    }
    own, now = names[f"g{state}"], gates.reshape(last + 1, -1)[:, unit]
    value = gradient.reshape(last + 1, -1)[:, unit]
    number = _number(sums[f"g{state}"], unit, gate)
    product = " · ".join(fmt(each) for each in now[1:])
    left = float(kept.reshape(last + 1, -1)[0, unit])
    worst = 1 + int(np.abs(now[1:]).argmin())
    best = size + int(np.abs(gates[1:]).argmax())  # of all units
    whole = f"{label(gate, best, kept.shape)} keeps {_percent(gates.flat[best])}"
    best_gate = f"The nearer it is to 1, the more passes: {whole}."
    place = worst * size + unit
    slope = label(f"slope_{gate}", place, kept.shape)
    over = "one over this step's own output h, and " if "c" in cell.states else "over gy, over the weights, and "
    return (
        Step(
            f"How much does the loss depend on {names[state][0]}, the state of the first step? Its gradient {own[0]} "
            f"adds up the paths back from the loss: {over}the marked one along the states. Step 1 keeps "
            f"{names[gate][1]} = {fmt(now[1])} of the state before, so of its own gradient {own[1]} = "
            f"{fmt(value[1])} it hands back this share: {fmt(value[1] * now[1])}.",
            "time",
            f"g{state}",
            unit,
            product=number,
        ),
        Step(
            f"{own[1]} got its share of the gradient of step 2 in the same way, and so on from the last step. Along "
            f"this path, each step multiplies by its own {gate}: {names['kept'][0]} = {product} = {fmt(left)}. Of a "
            f"gradient at the last step {_percent(left)} is left at the first.",
            "time",
            "kept",
            unit,
        ),
        Step(
            f"It fades most where {gate} is smallest: at step {worst}, {names[gate][worst]} = {fmt(now[worst])}, and "
            f"{_percent(1 - abs(now[worst]))} is lost in this one step. {best_gate} That is what the state is for.",
            "time",
            gate,
            place,
            into=f"g{state}",
        ),
        Step(
            f"All other paths to earlier steps lead through a gate, as {label(f'ga_{gate}', place, kept.shape)}: "
            f"there they are multiplied by the slope of a sigmoid, never above 1/4 and here {slope} = "
            f"{fmt(arrays[f'slope_{gate}'].flat[place])}, or by that of tanh, never above 1, and then by weights "
            "w_hh. Over many steps only the path along the states lasts.",
            "time",
            f"ga_{gate}",
            place,
        ),
    )


def _over_the_weights(arrays: Arrays, sums: Sums) -> tuple[Step, ...]:
    gh, ga, slope = arrays["gh"], arrays["ga"], arrays["slope"]
    size = gh[0].size
    unit = int(np.abs(gh[0]).argmax())
    flat = slope.reshape(len(slope), -1)
    worst = 1 + int(np.abs(flat[1:, unit]).argmin())
    place = worst * size + unit
    number = _number(sums["gh"], unit, "ga")
    norms = [float(np.linalg.norm(each)) for each in gh]
    before = label("ga", place, ga.shape)
    return (
        Step(
            f"How much does the loss depend on the output of the first step? {label('gh', unit, gh.shape)} is what "
            "gy contributes, plus what the next step sends back: for each unit its ga, times the weight w_hh through "
            "which it read this output. There is no other path back in time.",
            "time",
            "gh",
            unit,
            product=number,
        ),
        Step(
            f"On this path, every step first multiplies by the slope of the function: {before} is gh times "
            f"{label('slope', place, slope.shape)} = {fmt(flat[worst, unit])}. Where a unit is saturated the slope "
            "is near 0, and nothing passes: here it fades.",
            "time",
            "ga",
            place,
        ),
        Step(
            "Slopes are at most 1. So from step to step the gradient is multiplied by w_hh and by numbers below 1: "
            "with small weights it fades, with large ones it may explode. The lengths of gh, from the last step "
            f"back to the first: {', '.join(fmt(each) for each in reversed(norms))}.",
            "time",
            "gh",
            unit,
        ),
    )


def _number(products: Sequence[Products], at: int, factor: str) -> int | None:
    """Return the number of the first product of an entry that has this factor."""
    number = 0
    for each in products:
        rows = each.of(at)
        if factor in each.factors and len(rows):
            return number
        number += len(rows)
    return None


def _percent(share: float) -> str:
    return f"{100 * float(share):.2g} %"


# ---- Recurrent layers unrolled in time ------------------------------------------------------------------------------

_SETTINGS = (
    Setting("steps", 4, (1, 2, 3, 4, 5, 6, 8), "steps in time"),
    Setting("batch", 1, (1, 2), "sequences"),
    Setting("inputs", 2, (1, 2, 3), "numbers in each step of the input"),
    Setting("units", 2, (1, 2, 3), "numbers in each step of the output"),
    switch("initial_state", False, "start from given states, not from zeros"),
)
_VALUES = Setting("values", "decimals", VALUES.choices, VALUES.about)
_STATES = ("h0", "c0")
_LAYERS = {"rnn_tanh": "RNN", "rnn_relu": "RNN", "lstm": "LSTM", "gru": "GRU"}


_IMPORTS = """from retrograd.ops.recurrent.recurrent import recurrent_layer
from retrograd.specs.recurrence import Weights, recurrence
"""


def _example(cell: Cell, options: Mapping[str, Any]) -> Arrays:
    T, N, Ci, H = (options[name] for name in ("steps", "batch", "inputs", "units"))
    values = options.get("values", "decimals")
    rows = len(cell.gates) * H
    found = {
        "x": draw((T, N, Ci), values, 1),
        "w_ih": draw((rows, Ci), values, 2, -1, 1),
        "w_hh": draw((rows, H), values, 3, -1, 1),
        "b_ih": draw((rows,), values, 5, -1, 1),
        "b_hh": draw((rows,), values, 6, -1, 1),
    }
    if options["initial_state"] == "True":
        found |= {f"{state}0": draw((1, N, H), values, 7 + place, -1, 1) for place, state in enumerate(cell.states)}
    return found


def _texts(cell: Cell) -> list[str]:
    """Return the equations of a layer: of its weights, and its own. A gate's rows of the weights are at q."""
    many = len(cell.gates) > 1
    forward, of_weights, to_x, to_h = [], [], [], []
    for place, (of_x, of_h) in enumerate(cell.sums):
        q = f"[q={place}]" if many else ""
        from_x, from_h = f"w_ih{q} * x + b_ih{q}", f"w_hh:{'q' * many}hj{q} * h:tnj[t-1] + b_hh{q}"
        if of_x == of_h:
            forward.append(f"{of_x} = {from_x} + {from_h}")
        else:
            own = next(text.partition(" = ")[2] for text in cell.texts if text.startswith(f"{of_x} = "))
            forward += [f"{of_h} = {from_h}", f"{of_x} = {from_x} + {own}"]
        of_weights += [
            f"gw_ih{q} = g{of_x} * x",
            f"gw_hh:{'q' * many}hj{q} = g{of_h} * h:tnj[t-1]",
            f"gb_ih{q} = g{of_x}",
            f"gb_hh{q} = g{of_h}",
        ]
        to_x.append(f"g{of_x} * w_ih{q}")
        to_h.append(f"g{of_h}:tnj[t+1] * w_hh:{'q' * many}jh{q}")
    direct = [text.partition(" = ")[2] for text in cell.texts if text.startswith("gh = ")]
    made = {text.partition(" = ")[0] for text in forward} | {"gh"}
    rest = [text for text in cell.texts if text.partition(" = ")[0] not in made]
    texts = ["y = h", *forward, *rest, " + ".join(["gh = gy", *direct, *to_h]), f"gx = {' + '.join(to_x)}", *of_weights]
    return texts + [first for text in texts for first in _of_first_step(text, cell)]


def _of_first_step(text: str, cell: Cell) -> list[str]:
    """Return the forms that an equation of every step takes at the initial states h0 and c0: (1, N, H) each."""
    target, _, right = text.partition(" = ")
    # the gradient of the state before: the contribution of a later step, where the later step is the first
    at_0 = [re.sub(r"\b(\w+)(:tnj)?\[t[+]1\]", r"\1\2[t=0]", term) for term in right.split(" + ") if "[t+1]" in term]
    found = [f"{target}0[z=0] = {' + '.join(at_0)}"] if at_0 else []
    # the contribution of the state before to a step, with its sign
    for sign, term in re.findall(r"(?:^|([+-]) )((?:[^ ]+)(?: [*] [^ ]+)*)", right):
        if "[t-1]" in term:
            factors = [_at_first(factor, cell) for factor in term.split(" * ")]
            found.append(f"{_at_first(target, cell)} = {sign.strip('+')}{' * '.join(factors)}")
    return found


def _at_first(factor: str, cell: Cell) -> str:
    """Return a factor at the first step, or the state before it."""
    state = re.fullmatch(r"(\w)(?::tn(\w))?\[t-1\]", factor)
    if state:
        return f"{state[1]}0:zn{state[2] or 'h'}[z=0]"
    return f"{factor}[t=0]" if factor in cell.about or factor == "x" else factor


def _case(name: str, cell: Cell, inputs: Arrays, options: Mapping[str, Any]) -> Case:
    arguments(name, options, {}, _settings(name))
    (T, N, Ci), H = inputs["x"].shape, inputs["w_hh"].shape[1]
    many = "q" * (len(cell.gates) > 1)
    axes = {"x": "tni", "w_ih": f"{many}hi", "w_hh": f"{many}hj", "b_ih": f"{many}h", "b_hh": f"{many}h"}
    axes |= dict.fromkeys(_STATES, "znh")
    shown = {"h0": "dnh", "c0": "dnh", "x": "tni", "w_ih": "gi", "w_hh": "gh", "b_ih": "g", "b_hh": "g"}
    letters = {each: axes[each] for each in inputs} | {f"g{each}": axes[each] for each in inputs}
    letters |= dict.fromkeys(("y", "gy", *cell.about), "tnh")
    extents = {"t": T, "n": N, "i": Ci, "h": H, "j": H, "z": 1, "q": len(cell.gates)}
    equations = Equations(_texts(cell), letters, extents, words={"q": cell.gates})
    spec = recurrence(name, name, Ci, H, bias="b_ih" in inputs)
    rows = "for each gate a row for each unit" if many else "a row for each unit"
    about = {
        "x": "the input, step by step",
        "w_ih": f"the weights of the input: {rows}",
        "w_hh": f"the weights of the output before: {rows}",
        "b_ih": "the bias of the input",
        "b_hh": "the bias of the output before",
        "h0": "the output before the first step",
        "c0": "the cell state before the first step",
    }

    def call(x: Tensor, *others: Tensor) -> Tensor:
        given = dict(zip([each for each in inputs if each != "x"], others, strict=True))
        weights = Weights(**{each: tensor for each, tensor in given.items() if each not in _STATES})
        return recurrent_layer(x, given.get("h0"), given.get("c0"), (weights,), spec, name=name)[0]

    def inner(arrays: Arrays) -> dict[str, Array]:
        found = {
            each: Array(values, "tnh", "inner", cell.about[each], view="time")
            for each, values in unrolled(cell, arrays).items()
        }
        y = arrays["y"]
        return found | {"h": replace(found["h"], copies=("y", np.arange(y.size).reshape(y.shape)))}

    def sums(arrays: Arrays) -> dict[str, list[Products]]:
        return equations.sums | (_kept_shares(cell.kept, T, N * H) if cell.kept else {})

    weights = [f"{each}={each}" for each in inputs if each not in ("x", *_STATES)]
    states = [each if each in inputs else "None" for each in _STATES]
    bias = "" if "b_ih" in inputs else ", bias=False"
    sizes = f"{name!r}, {name!r}, {Ci}, {H}{bias}"
    kept = f"kept[t, n, h] = {cell.kept}[t + 1, n, h] · {cell.kept}[t + 2, n, h] · …   up to the last step"
    called = ""
    if not inputs.keys().isdisjoint(_STATES):
        called = ", (h0, c0)" if "c" in cell.states else ", h0"
    layer = f"nn.{_LAYERS[name]}({Ci}, {H}{', nonlinearity=' + repr('relu') if name == 'rnn_relu' else ''})"
    return Case(
        name=name,
        call=call,
        inputs={
            each: Array(array, shown[each], "input" if each in ("x", *_STATES) else "weight", about[each])
            for each, array in inputs.items()
        },
        output=("tnh", "the output h of every step"),
        sums=sums,
        formulas=equations.formulas | ({"kept": kept} if cell.kept else {}),
        source=f"{layer}(x{called})[0]",
        program=f"recurrent_layer(x, {', '.join(states)}, [Weights({', '.join(weights)})], recurrence({sizes}))[0]",
        imports=_IMPORTS,
        inner=inner,
        bugs=gradient_bugs.recurrent(name),
        stories=lambda arrays, sums: stories(cell, arrays, sums),
        diagram=DIAGRAMS[name].to_dict(),
    )


def _kept_shares(gate: str, steps: int, size: int) -> dict[str, list[Products]]:
    """Return the product of the gates of all later steps; 1 at the last step, which has none."""
    entries = np.arange(size)
    return {
        "kept": [
            along(
                t * size + entries, (gate,) * (steps - 1 - t), [later * size + entries for later in range(t + 1, steps)]
            )
            for t in range(steps)
        ]
    }


def _settings(name: str) -> tuple[Setting, ...]:
    return _SETTINGS if name == "rnn_relu" else (*_SETTINGS, _VALUES)  # integer values would hit the kink of relu


def _operator(name: str, cell: Cell) -> Operator:
    return Operator(
        name,
        ("x", "w_ih", "w_hh"),
        ("b_ih", "b_hh", *(f"{state}0" for state in cell.states)),
        _settings(name),
        lambda options: _example(cell, options),
        lambda inputs, options: _case(name, cell, inputs, options),
    )


OPERATORS = {name: _operator(name, cell) for name, cell in CELLS.items()}
