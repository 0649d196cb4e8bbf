"""Recurrent cells unrolled step by step, and the diagram of one step.

The equations of each step are those of ``formulas.gates``, on float64 arrays. T steps, N sequences, I inputs, H units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...formulas.activation import relu, relu_grad
from ...formulas.gates import gru_cell, gru_cell_grad, lstm_cell, lstm_cell_grad, lstm_output, lstm_output_grad
from ...formulas.primitive import tanh
from ...formulas.transcendental import sigmoid_grad, tanh_grad
from ..measurements import Arrays

__all__ = ["CELLS", "Cell", "DIAGRAMS", "Diagram", "unrolled"]


# ---- A recurrent layer step by step, forward and backward, with all intermediate arrays -----------------------------

Step = Callable[
    [Arrays, Arrays], Arrays
]  # the gates' sums and the values of the previous step -> the values of the step
Back = Callable[[Arrays, Arrays, Arrays, Arrays], tuple[Arrays, Arrays]]


@dataclass(frozen=True)
class Cell:
    """The equations of one kind of layer.

    gates: their names, in the order of the rows of the weights
    sums: for each gate the names of its terms from x and from the previous output; one name if these are added
    step: computes the values of a step: the output "h", and other named arrays
    back: values, previous values, the gradient gh of the output and the gradients from the next step ->
        the gradients of the step, and those of the step before that do not go through the weights
    texts: equations besides those of the weights
    about: descriptions of the arrays, in the order of the page
    kept: the gate by which a gradient is multiplied on its path back through the state
    states: what a step receives from the one before
    """

    gates: tuple[str, ...]
    sums: tuple[tuple[str, str], ...]
    step: Step
    back: Back
    texts: tuple[str, ...]
    about: Mapping[str, str]
    kept: str = ""
    states: tuple[str, ...] = ("h",)


def unrolled(cell: Cell, arrays: Arrays) -> Arrays:
    """Return all values and gradients of all steps, (T, N, H) each, from x, the weights, the initial states and gy."""
    x, w_ih, w_hh, gy = (arrays[name].astype(np.float64) for name in ("x", "w_ih", "w_hh", "gy"))
    count, units = len(cell.gates), w_hh.shape[1]
    b_ih, b_hh = (arrays[name].astype(np.float64) if name in arrays else 0.0 for name in ("b_ih", "b_hh"))
    zero = np.zeros(gy.shape[1:])
    first = {name: arrays[f"{name}0"][0].astype(np.float64) if f"{name}0" in arrays else zero for name in cell.states}
    values: list[Arrays] = []
    before = first
    for entry in x:
        from_x, from_h = (np.split(part, count, -1) for part in (entry @ w_ih.T + b_ih, before["h"] @ w_hh.T + b_hh))
        sums: Arrays = {}
        for (of_x, of_h), here, there in zip(cell.sums, from_x, from_h, strict=True):
            sums |= {of_x: here + there} if of_x == of_h else {of_x: here, of_h: there}
        before = sums | cell.step(sums, before)
        values.append(before)
    rows = [w_hh[gate * units : (gate + 1) * units] for gate in range(count)]
    found: list[Arrays] = []
    later = dict.fromkeys(cell.states, zero)
    for t in reversed(range(len(x))):
        gh = gy[t] + later["h"]
        gradients, later = cell.back(values[t], values[t - 1] if t else first, {"gh": gh}, later)
        through = np.sum([gradients[f"g{of_h}"] @ w for (_, of_h), w in zip(cell.sums, rows, strict=True)], 0)
        later["h"] = later["h"] + through if "h" in later else through
        found.append(gradients | {"gh": gh})
    forward, backward = (
        {name: np.stack([step[name] for step in steps]) for name in steps[0] if name in cell.about}
        for steps in (values, found[::-1])
    )
    made = forward | backward | _kept_shares(cell, forward)
    return {name: made[name] for name in cell.about}


def _kept_shares(cell: Cell, values: Arrays) -> Arrays:
    """Return the product of the gates of all later steps, for each step."""
    if not cell.kept:
        return {}
    kept = np.ones_like(values[cell.kept])
    for t in reversed(range(len(kept) - 1)):
        kept[t] = kept[t + 1] * values[cell.kept][t + 1]
    return {"kept": kept}


def _lstm(sums: Arrays, before: Arrays) -> Arrays:
    i, f, g, c = lstm_cell(sums["a_i"], sums["a_f"], sums["a_g"], before["c"], tanh)
    o, h = lstm_output(sums["a_o"], c, tanh)
    tanh_c = tanh(c)
    slopes = {f"slope_{name}": sigmoid_grad(1.0, gate) for name, gate in (("i", i), ("f", f), ("o", o))}
    slopes |= {"slope_g": tanh_grad(1.0, g), "slope_c": tanh_grad(1.0, tanh_c)}
    return {"i": i, "f": f, "g": g, "o": o, "c": c, "tanh_c": tanh_c, "h": h} | slopes


def _lstm_back(now: Arrays, before: Arrays, given: Arrays, later: Arrays) -> tuple[Arrays, Arrays]:
    ga_o, through_h = lstm_output_grad(given["gh"], now["o"], now["c"])
    gc = later["c"] + through_h
    ga_i, ga_f, ga_g, to_c = lstm_cell_grad(gc, now["i"], now["f"], now["g"], before["c"])
    return {"gc": gc, "ga_i": ga_i, "ga_f": ga_f, "ga_g": ga_g, "ga_o": ga_o}, {"c": to_c}


def _gru(sums: Arrays, before: Arrays) -> Arrays:
    a_n, a_r, a_z, m = (sums[name] for name in ("a_n", "a_r", "a_z", "m"))
    n, r, z, h = gru_cell(a_n, a_r, a_z, m, before["h"], tanh)
    slopes = {"slope_r": sigmoid_grad(1.0, r), "slope_z": sigmoid_grad(1.0, z), "slope_n": tanh_grad(1.0, n)}
    return {"r": r, "z": z, "n": n, "h": h, "a_n": a_n + r * m} | slopes


def _gru_back(now: Arrays, before: Arrays, given: Arrays, later: Arrays) -> tuple[Arrays, Arrays]:
    ga_n, ga_r, ga_z, gm, to_h = gru_cell_grad(given["gh"], now["n"], now["r"], now["z"], now["m"], before["h"])
    return {"ga_r": ga_r, "ga_z": ga_z, "ga_n": ga_n, "gm": gm}, {"h": to_h}


def _tanh(sums: Arrays, before: Arrays) -> Arrays:
    h = tanh(sums["a"])
    return {"h": h, "slope": tanh_grad(1.0, h)}


def _relu(sums: Arrays, before: Arrays) -> Arrays:
    h = relu(sums["a"])
    return {"h": h, "slope": relu_grad(np.ones_like(h), h)}


def _rnn_back(now: Arrays, before: Arrays, given: Arrays, later: Arrays) -> tuple[Arrays, Arrays]:
    return {"ga": given["gh"] * now["slope"]}, {}


_OUTPUT = {
    "h": "the output, y",
    "gh": "how much the loss grows with the output: through gy, and through the next step",
}
_KEPT_TEXT = "the product of {} from the next step to the last: what remains of a gradient on this path"


def _rnn(step: Step, name: str) -> Cell:
    about = {
        **_OUTPUT,
        "a": f"the argument of {name}, from x and the output before",
        "ga": "how much the loss grows with a",
        "slope": f"the derivative of {name} at a",
    }
    return Cell(("",), (("a", "a"),), step, _rnn_back, ("ga = gh * slope",), about)


_SUM, _SLOPE = "the argument of {}, from x and the output before", "the derivative of the gate {}"
_LSTM_ABOUT = {
    **_OUTPUT,
    "c": "the cell state",
    "gc": "how much the loss grows with the cell state: through the output, and through the next cell state",
    "f": "the forget gate: how much of the cell state is kept",
    "kept": _KEPT_TEXT.format("f"),
    "i": "the input gate: how much of g is added to the cell state",
    "g": "the candidate for the cell state",
    "o": "the output gate: how much of tanh(c) is output",
    "tanh_c": "tanh(c)",
    **{f"a_{gate}": _SUM.format("tanh" if gate == "g" else "the sigmoid") for gate in "ifgo"},
    **{f"ga_{gate}": f"how much the loss grows with a_{gate}" for gate in "ifgo"},
    **{f"slope_{gate}": _SLOPE.format(gate) for gate in "ifgo"},
    "slope_c": "the derivative of tanh at c",
}
_LSTM_TEXTS = (
    "c = f * c[t-1] + i * g",
    "h = o * tanh_c",
    "gc = gh * o * slope_c + gc[t+1] * f[t+1]",
    "ga_i = gc * g * slope_i",
    "ga_f = gc * c[t-1] * slope_f",
    "ga_g = gc * i * slope_g",
    "ga_o = gh * tanh_c * slope_o",
)
_GRU_ABOUT = {
    **_OUTPUT,
    "z": "the update gate: how much of the output before is kept",
    "kept": _KEPT_TEXT.format("z"),
    "n": "the candidate for the new output",
    "r": "the reset gate: how much of m is used",
    "m": "the term from the output before, which the reset gate multiplies",
    "gm": "how much the loss grows with m",
    **{f"a_{gate}": _SUM.format("tanh" if gate == "n" else "the sigmoid") for gate in "rzn"},
    **{f"ga_{gate}": f"how much the loss grows with a_{gate}" for gate in "rzn"},
    **{f"slope_{gate}": _SLOPE.format(gate) for gate in "rzn"},
}
_GRU_TEXTS = (
    "a_n = r * m",
    "h = n - z * n + z * h[t-1]",
    "gh = gh[t+1] * z[t+1]",
    "ga_n = gh * slope_n - gh * z * slope_n",
    "ga_z = gh * h[t-1] * slope_z - gh * n * slope_z",
    "gm = ga_n * r",
    "ga_r = ga_n * m * slope_r",
)
CELLS = {
    "rnn_tanh": _rnn(_tanh, "tanh"),
    "rnn_relu": _rnn(_relu, "relu"),
    "lstm": Cell(
        ("i", "f", "g", "o"),
        tuple((f"a_{gate}", f"a_{gate}") for gate in "ifgo"),
        _lstm,
        _lstm_back,
        _LSTM_TEXTS,
        _LSTM_ABOUT,
        "f",
        ("h", "c"),
    ),
    "gru": Cell(
        ("r", "z", "n"),
        (("a_r", "a_r"), ("a_z", "a_z"), ("a_n", "m")),
        _gru,
        _gru_back,
        _GRU_TEXTS,
        _GRU_ABOUT,
        "z",
    ),
}


# ---- The diagram of one step of a recurrent layer, as data ----------------------------------------------------------


@dataclass(frozen=True)
class Join:
    """A point where gates meet a state or another gate.

    gates: the gates that are multiplied; into: the array that they are a part of; sign: "×", "+" or a function
    text: the term of the equation
    """

    gates: tuple[str, ...]
    into: str
    sign: str
    text: str


@dataclass(frozen=True)
class GradientPath:
    """One path of the gradient to a state.

    to: the gradient of a state; sources: the arrays it comes from, each a factor of its products
    by: how many steps after ``to`` the sources are
    kind: "loss"; "output", through the output; "state", through the next state; "weights", through the next gates
    times: the factor of the path; gate: the array of that factor, if it is one number
    """

    to: str
    sources: tuple[str, ...]
    by: int
    kind: str
    times: str
    about: str
    gate: str = ""


@dataclass(frozen=True)
class Diagram:
    """The diagram of one step of a recurrent layer.

    states: pairs of a state and its gradient; the first is drawn above the gates, a second one below
    gates: pairs of a gate and its gradient, from left to right
    between: the array on the path from the first state to the second
    ways: the paths of the gradient; together they are all products of the states' gradients
    kept: the product of the gates by which a gradient is multiplied from step to step
    about: the explanation shown if no gate keeps a share
    """

    states: tuple[tuple[str, str], ...]
    gates: tuple[tuple[str, str], ...]
    joins: tuple[Join, ...]
    ways: tuple[GradientPath, ...]
    between: str = ""
    kept: str = ""
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the diagram as plain data, for the page's document."""
        return asdict(self)


def _from_loss() -> GradientPath:
    return GradientPath("gh", ("gy",), 0, "loss", "", "from the loss, which reads y = h")


def _through_gates(*gradients: str) -> GradientPath:
    return GradientPath("gh", gradients, 1, "weights", "w_hh", "through w_hh and the gates of the next step")


_LSTM_DIAGRAM = Diagram(
    states=(("c", "gc"), ("h", "gh")),
    gates=(("f", "ga_f"), ("i", "ga_i"), ("g", "ga_g"), ("o", "ga_o")),
    joins=(
        Join(("f",), "c", "×", "f · c of the step before"),
        Join(("i", "g"), "c", "+", "i · g"),
        Join(("o",), "h", "×", "o · tanh(c)"),
    ),
    ways=(
        GradientPath(
            "gc", ("gc",), 1, "state", "f", "through the next cell state, c[t + 1] = f[t + 1] · c[t] + …", "f"
        ),
        GradientPath("gc", ("gh",), 0, "output", "o · tanh′(c)", "through the output, h = o · tanh(c)"),
        _from_loss(),
        _through_gates("ga_i", "ga_f", "ga_g", "ga_o"),
    ),
    between="tanh_c",
    kept="kept",
)
_GRU_DIAGRAM = Diagram(
    states=(("h", "gh"),),
    gates=(("z", "ga_z"), ("r", "ga_r"), ("n", "ga_n")),
    joins=(
        Join(("z",), "h", "×", "z · h of the step before"),
        Join(("r",), "n", "×", "r · m"),
        Join(("n",), "h", "+", "(1 − z) · n"),
    ),
    ways=(
        GradientPath("gh", ("gh",), 1, "state", "z", "through the next output, h[t + 1] = z[t + 1] · h[t] + …", "z"),
        _from_loss(),
        _through_gates("ga_r", "ga_z", "gm"),
    ),
    kept="kept",
)


def _rnn_diagram(function: str) -> Diagram:
    return Diagram(
        states=(("h", "gh"),),
        gates=(("a", "ga"),),
        joins=(Join(("a",), "h", function, f"{function}(a)"),),
        ways=(_from_loss(), _through_gates("ga")),
        about=f"No gate carries the gradient through: on every step back it is multiplied by w_hh and by the slope of "
        f"{function}.",
    )


DIAGRAMS = {
    "lstm": _LSTM_DIAGRAM,
    "gru": _GRU_DIAGRAM,
    "rnn_tanh": _rnn_diagram("tanh"),
    "rnn_relu": _rnn_diagram("relu"),
}
