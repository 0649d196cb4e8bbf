"""One layer of a recurrent network: its sizes, its equations and its options, frozen.

At every step t, a unit's gates are made of the input x[t] and of the output h[t-1] of the step before:

    RNN    h = f(W_ih x + b_ih + W_hh h' + b_hh),  f = tanh or relu
    LSTM   i, f, o = sigmoid(...), g = tanh(...) of W_ih x + b_ih + W_hh h' + b_hh
           c = f * c' + i * g,  h = o * tanh(c);  with a projection h = W_hr (o * tanh(c))
    GRU    r, z = sigmoid(W_ih x + b_ih + W_hh h' + b_hh)
           n = tanh(W_in x + b_in + r * (W_hn h' + b_hn)),  h = (1 - z) * n + z * h'

The gates stand in PyTorch's order: i, f, g, o and r, z, n; with coupled gates f, g, o, and i = 1 - f. One Recurrence is
made when the arguments are checked and handed on unchanged to the kernels and the backward pass. Not in it are the
numbers of steps and of sequences, lengths and masks: they are data.

Source: S. Hochreiter, J. Schmidhuber, "Long Short-Term Memory", 1997; F. Gers, J. Schmidhuber, "Recurrent Nets that
Time and Count", 2000 (peepholes); K. Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014
(GRU); K. Greff et al., "LSTM: A Search Space Odyssey", 2017 (coupled gates); H. Sak et al., "Long Short-Term Memory
Based Recurrent Neural Network Architectures", 2014, arXiv:1402.1128 (projection).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

__all__ = ["GATES", "Parameter", "Recurrence", "Weights", "packed_layout", "recurrence"]

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}
ALGORITHMS = ("auto", "fused", "composed")


class Weights(NamedTuple):
    """The parameters of one direction of a layer, or the gradients to them; those that a layer lacks are None.

    G gates, H units, I inputs, P outputs of the projection (without one: H).
    """

    w_ih: Any  # (G*H, I)
    w_hh: Any  # (G*H, P)
    b_ih: Any = None  # (G*H,)
    b_hh: Any = None  # (G*H,)
    w_hr: Any = None  # (P, H)
    peephole: Any = None  # (3, H): of i and f from c', of o from c; coupled: (2, H), of f and o
    norm_ih: Any = None  # (G*H,): by what the normalised W_ih x is multiplied
    norm_hh: Any = None  # (G*H,)
    norm_c: Any = None  # (2, H): by what the normalised cell state is multiplied, and what is added to it


def _derived() -> Any:
    return field(init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A layer in all its directions. Made by ``recurrence``, which checks it.

    ``reverse`` says of each direction whether it reads the sequence from its end. ``clip``: the range that holds the
    cell state after every step; with ``clip_nan`` a NaN becomes the upper end. ``reset_after``: the GRU's reset gate
    multiplies W_hn h' + b_hn; otherwise it multiplies h' before. ``norm``: the epsilon of layer normalisation of
    W_ih x, of W_hh h' and of the cell state; 0 for none. ``zoneout``: the probabilities with which a unit of the cell
    and of the hidden state keeps its value. ``recurrent_dropout``: of h' on its way into W_hh, by one mask for all
    steps. ``algorithm``: "fused" kernels, "composed" of operators, or "auto".
    """

    mode: str
    input: int
    hidden: int
    projection: int = 0
    reverse: tuple[bool, ...] = (False,)
    bias: bool = True
    clip: tuple[float, float] | None = None
    clip_nan: bool = False
    reset_after: bool = True
    peephole: bool = False
    coupled: bool = False
    norm: float = 0.0
    zoneout: tuple[float, float] = (0.0, 0.0)
    recurrent_dropout: float = 0.0
    algorithm: str = "auto"

    # what follows from them
    gates: int = _derived()  # rows of the weight matrices for each unit
    output: int = _derived()  # width of the hidden state
    directions: int = _derived()
    cells: bool = _derived()  # whether there is a cell state beside the hidden one
    fused: bool = _derived()  # whether the fused kernels compute it; everything else is composed of operators
    _hash: int = _derived()

    def __post_init__(self) -> None:
        plain = self.norm == 0 and self.zoneout == (0.0, 0.0) and self.recurrent_dropout == 0
        derived = {
            "gates": GATES.get(self.mode, 0) - int(self.coupled),
            "output": self.projection or self.hidden,
            "directions": len(self.reverse),
            "cells": self.mode == "lstm",
            "fused": plain and self.reset_after and self.algorithm != "composed",
            "_hash": hash(tuple(getattr(self, each.name) for each in fields(self) if each.init)),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self._hash


@lru_cache(maxsize=4096)
def recurrence(
    name: str, mode: str, input: int, hidden: int, *, projection: int = 0, reverse: tuple[bool, ...] = (False,),
    bias: bool = True, clip: tuple[float | None, float | None] | None = None, clip_nan: bool = False,
    reset_after: bool = True, peephole: bool = False, coupled: bool = False, norm: float = 0.0,
    zoneout: tuple[float, float] = (0.0, 0.0), recurrent_dropout: float = 0.0, algorithm: str = "auto",
) -> Recurrence:  # fmt: skip
    """The description of a layer, checked; messages begin with ``name``, the function or layer that was called.

    Raises:
        ValueError: an unknown mode, a size below 1, or options that make no sense alone or together.
    """
    if mode not in GATES:
        raise ValueError(f"{name}: mode={mode!r} is unknown; choose one of {', '.join(GATES)}")
    for label, size in (("input size", input), ("hidden size", hidden)):
        if size < 1:
            raise ValueError(f"{name}: the {label} is {size}; it must be at least 1")
    if mode != "lstm":
        _only_lstm(name, mode, projection, clip, clip_nan, peephole, coupled, zoneout[0])
    if projection < 0 or projection > hidden:
        raise ValueError(
            f"{name}: projection to {projection} of {hidden} units; give 1 <= projection <= {hidden}, or 0 for none"
        )
    if not reset_after and mode != "gru":
        raise ValueError(f"{name}: reset_after=False is an option of GRU, and mode is {mode!r}; leave it True")
    range_of_cells = _clip(name, clip, clip_nan)
    if norm < 0:
        raise ValueError(f"{name}: layer normalisation with epsilon {norm}; it must be above 0, or 0 for none")
    if norm > 0 and peephole:
        raise ValueError(f"{name}: layer normalisation and peepholes together are not defined; choose one of them")
    chances = {"zoneout of the cell": zoneout[0], "zoneout": zoneout[1], "recurrent dropout": recurrent_dropout}
    for label, p in chances.items():
        if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= p < 1:
            raise ValueError(f"{name}: {label} has probability {p!r}; it must be 0 <= p < 1")
    if algorithm not in ALGORITHMS:
        raise ValueError(f"{name}: algorithm={algorithm!r} is unknown; choose one of {', '.join(ALGORITHMS)}")
    what = Recurrence(
        mode, input, hidden, projection, reverse, bias, range_of_cells, clip_nan, reset_after, peephole, coupled, norm,
        (float(zoneout[0]), float(zoneout[1])), float(recurrent_dropout), algorithm,
    )  # fmt: skip
    if algorithm == "fused" and not what.fused:
        raise ValueError(
            f"{name}: algorithm='fused' has no layer normalisation, zoneout, recurrent dropout or reset_after=False; "
            "leave algorithm='auto'"
        )
    return what


def _only_lstm(
    name: str, mode: str, projection: int, clip: object, clip_nan: bool, peephole: bool, coupled: bool, zoneout: float
) -> None:
    given = {
        "a projection": projection != 0, "clipping of the cell state": clip is not None, "clip_nan": clip_nan,
        "peepholes": peephole, "coupled gates": coupled, "zoneout of the cell": zoneout != 0,
    }  # fmt: skip
    for label, there in given.items():
        if there:
            raise ValueError(f"{name}: {label} needs a cell state, mode={mode!r} has none; use LSTM or leave it out")


def _clip(name: str, clip: tuple[float | None, float | None] | None, clip_nan: bool) -> tuple[float, float] | None:
    if clip is None or clip == (None, None):
        if clip_nan:
            raise ValueError(f"{name}: clip_nan=True without a range to clip to; give both ends of it")
        return None
    low, high = clip
    if low is None or high is None:
        raise ValueError(f"{name}: the cell state is clipped to ({low}, {high}); give both ends, or neither")
    if math.isnan(low) or math.isnan(high) or low > high:
        raise ValueError(f"{name}: the cell state is clipped to ({low}, {high}); the first must not exceed the second")
    return float(low), float(high)


class Parameter(NamedTuple):
    """A piece of a packed vector of parameters."""

    name: str  # a field of Weights
    layer: int
    direction: int
    begin: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.begin + math.prod(self.shape)


def packed_layout(layers: Sequence[Recurrence]) -> list[Parameter]:
    """MXNet's packed vector: the weights of all layers and directions, then, in the same order, all biases.

    Of each direction ``w_ih`` (G*H, I), ``w_hh`` (G*H, P), with a projection ``w_hr`` (P, H); then ``b_ih`` and
    ``b_hh`` (G*H,). Its length, for L layers of equal width in D directions, h = P or H:
    (I + h + 2)*H*G*D + (L - 1)*(D*h + h + 2)*H*G*D + P*H*L*D.

    Source: MXNet 1.9.1, src/operator/rnn-inl.h, GetRnnParamSize.
    """
    found: list[Parameter] = []

    def add(name: str, layer: int, direction: int, shape: tuple[int, ...]) -> None:
        found.append(Parameter(name, layer, direction, found[-1].end if found else 0, shape))

    for layer, what in enumerate(layers):
        rows = what.gates * what.hidden
        for direction in range(what.directions):
            add("w_ih", layer, direction, (rows, what.input))
            add("w_hh", layer, direction, (rows, what.output))
            if what.projection:
                add("w_hr", layer, direction, (what.projection, what.hidden))
    for layer, what in enumerate(layers):
        for direction in range(what.directions):
            for name in ("b_ih", "b_hh"):
                add(name, layer, direction, (what.gates * what.hidden,))
    return found
