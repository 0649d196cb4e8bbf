"""The picture of one step of a recurrent layer, as data: its states and gates, and the ways of the gradient."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["DIAGRAMS", "Diagram"]


@dataclass(frozen=True)
class Join:
    """A point where gates meet a state or another gate.

    gates: those that are multiplied; into: the array that they become a part of; sign: how, "×", "+" or a function
    text: the term of the equation
    """

    gates: tuple[str, ...]
    into: str
    sign: str
    text: str


@dataclass(frozen=True)
class Way:
    """One way of the gradient to a state.

    to: the gradient of a state; sources: the arrays that it comes from, each as a factor of its products
    by: how many steps later the sources are
    kind: "loss"; "output", through the output; "state", through the next state; "weights", through the next gates
    times: what it is multiplied by; gate: the array of that, if it is one number
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
    gates: likewise, from left to right
    between: the array on the way from the first state to the second
    ways: together they are all products of the states' gradients
    road: the product of the gates that a gradient is multiplied by from step to step
    about: the explanation shown where there is no such road
    """

    states: tuple[tuple[str, str], ...]
    gates: tuple[tuple[str, str], ...]
    joins: tuple[Join, ...]
    ways: tuple[Way, ...]
    between: str = ""
    road: str = ""
    about: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for the page's document."""
        return asdict(self)


def _from_loss() -> Way:
    return Way("gh", ("gy",), 0, "loss", "", "from the loss, which reads y = h")


def _through_gates(*gradients: str) -> Way:
    return Way("gh", gradients, 1, "weights", "w_hh", "through w_hh and the gates of the next step")


_LSTM = Diagram(
    states=(("c", "gc"), ("h", "gh")),
    gates=(("f", "ga_f"), ("i", "ga_i"), ("g", "ga_g"), ("o", "ga_o")),
    joins=(
        Join(("f",), "c", "×", "f · c of the step before"),
        Join(("i", "g"), "c", "+", "i · g"),
        Join(("o",), "h", "×", "o · tanh(c)"),
    ),
    ways=(
        Way("gc", ("gc",), 1, "state", "f", "through the next cell state, c[t + 1] = f[t + 1] · c[t] + …", "f"),
        Way("gc", ("gh",), 0, "output", "o · tanh′(c)", "through the output, h = o · tanh(c)"),
        _from_loss(),
        _through_gates("ga_i", "ga_f", "ga_g", "ga_o"),
    ),
    between="tanh_c",
    road="road",
)
_GRU = Diagram(
    states=(("h", "gh"),),
    gates=(("z", "ga_z"), ("r", "ga_r"), ("n", "ga_n")),
    joins=(
        Join(("z",), "h", "×", "z · h of the step before"),
        Join(("r",), "n", "×", "r · m"),
        Join(("n",), "h", "+", "(1 − z) · n"),
    ),
    ways=(
        Way("gh", ("gh",), 1, "state", "z", "through the next output, h[t + 1] = z[t + 1] · h[t] + …", "z"),
        _from_loss(),
        _through_gates("ga_r", "ga_z", "gm"),
    ),
    road="road",
)


def _rnn(function: str) -> Diagram:
    return Diagram(
        states=(("h", "gh"),),
        gates=(("a", "ga"),),
        joins=(Join(("a",), "h", function, f"{function}(a)"),),
        ways=(_from_loss(), _through_gates("ga")),
        about=f"No gate keeps a road open: on every step back the gradient is multiplied by w_hh and by the slope of "
        f"{function}.",
    )


DIAGRAMS = {"lstm": _LSTM, "gru": _GRU, "rnn_tanh": _rnn("tanh"), "rnn_relu": _rnn("relu")}
