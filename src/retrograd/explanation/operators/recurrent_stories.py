"""The story of a recurrent layer's fading gradient, told with the numbers of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..measure import Arrays
from ..story import Step, Story, label, said
from ..sums import Products
from .unrolled import Cell

__all__ = ["stories"]

Sums = Mapping[str, Sequence[Products]]


def stories(cell: Cell, arrays: Arrays, sums: Sums) -> list[Story]:
    """One: of a run with several steps."""
    steps, batch, units = arrays["y"].shape
    if steps < 2 or not batch * units:
        return []
    told = _over_a_gate(cell, arrays, sums) if cell.road else _over_the_weights(arrays, sums)
    return [Story("Where does the gradient fade?", told)]


def _over_a_gate(cell: Cell, arrays: Arrays, sums: Sums) -> tuple[Step, ...]:
    state, gate = cell.states[-1], cell.road
    gradient, gates, road = arrays[f"g{state}"], arrays[gate], arrays["road"]
    last, size = len(road) - 1, road[0].size
    unit = int(np.abs(road[0]).argmin())  # the sequence and unit where least is left
    names = {
        name: [label(name, t * size + unit, road.shape) for t in range(last + 1)]
        for name in (state, f"g{state}", gate, "road")
    }
    own, now = names[f"g{state}"], gates.reshape(last + 1, -1)[:, unit]
    value = gradient.reshape(last + 1, -1)[:, unit]
    number = _number(sums[f"g{state}"], unit, gate)
    product = " · ".join(said(each) for each in now[1:])
    left = float(road.reshape(last + 1, -1)[0, unit])
    worst = 1 + int(np.abs(now[1:]).argmin())
    best = size + int(np.abs(gates[1:]).argmax())  # of all units
    whole = f"{label(gate, best, road.shape)} keeps {_percent(gates.flat[best])}"
    kept = f"The nearer it is to 1, the more passes: {whole}."
    place = worst * size + unit
    slope = label(f"slope_{gate}", place, road.shape)
    over = "one over this step's own output h, and " if "c" in cell.states else "over gy, over the weights, and "
    return (
        Step(
            f"How much does the loss depend on {names[state][0]}, the state of the first step? Its gradient {own[0]} "
            f"adds up the paths back from the loss: {over}the marked one along the states. Step 1 keeps "
            f"{names[gate][1]} = {said(now[1])} of the state before, so of its own gradient {own[1]} = "
            f"{said(value[1])} it hands back this share: {said(value[1] * now[1])}.",
            "time",
            f"g{state}",
            unit,
            product=number,
        ),
        Step(
            f"{own[1]} got its share of the gradient of step 2 in the same way, and so on from the last step. Along "
            f"this road each step multiplies by its own {gate}: {names['road'][0]} = {product} = {said(left)}. Of a "
            f"gradient at the last step {_percent(left)} is left at the first.",
            "time",
            "road",
            unit,
        ),
        Step(
            f"It fades most where {gate} is smallest: at step {worst}, {names[gate][worst]} = {said(now[worst])}, and "
            f"{_percent(1 - abs(now[worst]))} is lost in this one step. {kept} That is what the state is for.",
            "time",
            gate,
            place,
            into=f"g{state}",
        ),
        Step(
            f"All other paths to earlier steps lead through a gate, as {label(f'ga_{gate}', place, road.shape)}: "
            f"there they are multiplied by the slope of a sigmoid, never above 1/4 and here {slope} = "
            f"{said(arrays[f'slope_{gate}'].flat[place])}, or by that of tanh, never above 1, and then by weights "
            "w_hh. Over many steps only the road along the states lasts.",
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
            "gy says of it, and what the next step sends back: for each unit its ga, times the weight w_hh over "
            "which it read this output. There is no other way to the past.",
            "time",
            "gh",
            unit,
            product=number,
        ),
        Step(
            f"On this way every step first multiplies by the slope of the function: {before} is gh times "
            f"{label('slope', place, slope.shape)} = {said(flat[worst, unit])}. Where a unit is saturated the slope "
            "is near 0, and nothing passes: here it fades.",
            "time",
            "ga",
            place,
        ),
        Step(
            "Slopes are at most 1. So from step to step the gradient is multiplied by w_hh and by numbers below 1: "
            "with small weights it fades, with large ones it may explode. The lengths of gh, from the last step "
            f"back to the first: {', '.join(said(each) for each in reversed(norms))}.",
            "time",
            "gh",
            unit,
        ),
    )


def _number(products: Sequence[Products], at: int, factor: str) -> int | None:
    """The number of the first product of an entry that has this factor."""
    number = 0
    for each in products:
        rows = each.of(at)
        if factor in each.factors and len(rows):
            return number
        number += len(rows)
    return None


def _percent(share: float) -> str:
    return f"{100 * float(share):.2g} %"
