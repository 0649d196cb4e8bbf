"""The frozen spec of one recurrent layer: its sizes, equations and options.

At every step t, a unit's gates are computed from the input x[t] and the previous output h' = h[t-1]:

    RNN    h = f(W_ih x + b_ih + W_hh h' + b_hh),  f = tanh or relu
    LSTM   i, f, o = sigmoid(...), g = tanh(...) of W_ih x + b_ih + W_hh h' + b_hh
           c = f * c' + i * g,  h = o * tanh(c);  with a projection h = W_hr (o * tanh(c))
    GRU    r, z = sigmoid(W_ih x + b_ih + W_hh h' + b_hh)
           n = tanh(W_in x + b_in + r * (W_hn h' + b_hn)),  h = (1 - z) * n + z * h'

The gates are in PyTorch's order: i, f, g, o and r, z, n; with coupled gates f, g, o, and i = 1 - f. A Recurrence is
created when the arguments are checked and passed unchanged to the kernels and the backward pass. It does not contain
the number of steps or sequences, lengths or masks: they are data.

Source: S. Hochreiter, J. Schmidhuber, "Long Short-Term Memory", 1997; F. Gers, J. Schmidhuber, "Recurrent Nets that
Time and Count", 2000 (peepholes); K. Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014
(GRU); K. Greff et al., "LSTM: A Search Space Odyssey", 2017 (coupled gates); H. Sak et al., "Long Short-Term Memory
Based Recurrent Neural Network Architectures", 2014, arXiv:1402.1128 (projection).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

__all__ = ["GATES", "Recurrence", "Weights", "recurrence"]

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}


class Weights(NamedTuple):
    """The parameters of one direction of a layer, or their gradients; those that a layer lacks are None.

    G gates, H units, I inputs, P outputs of the projection (H without one).
    """

    w_ih: Any  # (G*H, I)
    w_hh: Any  # (G*H, P)
    b_ih: Any = None  # (G*H,)
    b_hh: Any = None  # (G*H,)
    w_hr: Any = None  # (P, H)
    peephole: Any = None  # (3, H): i and f from c', o from c; coupled: (2, H), f and o
    norm_ih: Any = None  # (G*H,): gain of the normalized W_ih x
    norm_hh: Any = None  # (G*H,)
    norm_c: Any = None  # (2, H): gain and shift of the normalized cell state


def _derived() -> Any:
    return field(init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The spec of a layer with all its directions, created and checked by ``recurrence``.

    ``reverse``: for each direction, whether it reads the sequence from its end. ``clip``: the range to which the cell
    state is clipped after every step; with ``clip_nan`` a NaN becomes the upper end. ``reset_after``: the GRU's reset
    gate multiplies W_hn h' + b_hn; otherwise it multiplies h' first. ``norm``: the epsilon of layer normalization of
    W_ih x, W_hh h' and the cell state; 0 for none. ``zoneout``: the probabilities that a unit of the cell and of the
    hidden state keeps its value. ``recurrent_dropout``: dropout of h' before W_hh, with one mask for all steps.
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

    # derived
    gates: int = _derived()  # rows of the weight matrices for each unit
    output: int = _derived()  # width of the hidden state
    directions: int = _derived()
    cells: bool = _derived()  # whether there is a cell state
    draws: bool = _derived()  # whether training draws random masks
    _hash: int = _derived()

    def __post_init__(self) -> None:
        derived = {
            "gates": GATES.get(self.mode, 0) - int(self.coupled),
            "output": self.projection or self.hidden,
            "directions": len(self.reverse),
            "cells": self.mode == "lstm",
            "draws": self.zoneout != (0.0, 0.0) or self.recurrent_dropout != 0,
            "_hash": hash(tuple(getattr(self, each.name) for each in fields(self) if each.init)),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return self._hash


@lru_cache(maxsize=4096)
def recurrence(
    name: str,
    mode: str,
    input: int,
    hidden: int,
    *,
    projection: int = 0,
    reverse: tuple[bool, ...] = (False,),
    bias: bool = True,
    clip: tuple[float | None, float | None] | None = None,
    clip_nan: bool = False,
    reset_after: bool = True,
    peephole: bool = False,
    coupled: bool = False,
    norm: float = 0.0,
    zoneout: tuple[float, float] = (0.0, 0.0),
    recurrent_dropout: float = 0.0,
) -> Recurrence:
    """Return the checked spec of a layer; messages start with ``name``, the function or layer that was called.

    Raises:
        ValueError: an unknown mode, a size below 1, or options that are invalid or contradict each other.
    """
    if mode not in GATES:
        raise ValueError(f"{name}: mode={mode!r} is unknown; choose one of {', '.join(GATES)}")
    for label, size in (("input size", input), ("hidden size", hidden)):
        if size < 1:
            raise ValueError(f"{name}: the {label} is {size}; it must be at least 1")
    if mode != "lstm":
        _only_lstm(name, mode, projection, clip, clip_nan, peephole, coupled, zoneout[0])
    if projection < 0 or projection > hidden:
        raise ValueError(f"{name}: projection={projection} of {hidden} units must be from 1 to {hidden}, or 0 for none")
    if not reset_after and mode != "gru":
        raise ValueError(f"{name}: reset_after=False is an option of GRU, not of mode={mode!r}; leave it True")
    range_of_cells = _clip(name, clip, clip_nan)
    if norm < 0:
        raise ValueError(f"{name}: epsilon {norm} of layer normalization must be above 0, or 0 for none")
    if norm > 0 and peephole:
        raise ValueError(f"{name}: layer normalization and peepholes cannot be combined; choose one")
    chances = {"zoneout of the cell": zoneout[0], "zoneout": zoneout[1], "recurrent dropout": recurrent_dropout}
    for label, p in chances.items():
        if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= p < 1:
            raise ValueError(f"{name}: {label} has probability {p!r}; it must be 0 <= p < 1")
    return Recurrence(
        mode,
        input,
        hidden,
        projection,
        reverse,
        bias,
        range_of_cells,
        clip_nan,
        reset_after,
        peephole,
        coupled,
        norm,
        (float(zoneout[0]), float(zoneout[1])),
        float(recurrent_dropout),
    )


def _only_lstm(
    name: str, mode: str, projection: int, clip: object, clip_nan: bool, peephole: bool, coupled: bool, zoneout: float
) -> None:
    used = {
        "a projection": projection != 0,
        "clipping of the cell state": clip is not None,
        "clip_nan": clip_nan,
        "peepholes": peephole,
        "coupled gates": coupled,
        "zoneout of the cell": zoneout != 0,
    }
    for label, is_used in used.items():
        if is_used:
            raise ValueError(f"{name}: {label} needs a cell state, mode={mode!r} has none; use LSTM or leave it out")


def _clip(name: str, clip: tuple[float | None, float | None] | None, clip_nan: bool) -> tuple[float, float] | None:
    if clip is None or clip == (None, None):
        if clip_nan:
            raise ValueError(f"{name}: clip_nan=True needs clip, the range (low, high)")
        return None
    low, high = clip
    if low is None or high is None:
        raise ValueError(f"{name}: clip=({low}, {high}) must have both ends, or neither")
    if math.isnan(low) or math.isnan(high) or low > high:
        raise ValueError(f"{name}: clip=({low}, {high}) must not have low above high")
    return float(low), float(high)
