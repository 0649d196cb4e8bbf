"""Cases of RNN, LSTM and GRU, whose gates have the order of ONNX: i, o, f, c and z, r, h."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .case import Case, Numbers, case
from .numbers import Given, Uniform

_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_STEPS, _BATCH, _FEATURES, _UNITS = 5, 3, 4, 3
_LENGTHS = (3, 5, 1)  # of the sequences of a batch


def _layer(
    name: str,
    operator: str,
    direction: str = "forward",
    *,
    bias: bool = True,
    states: bool = True,
    lengths: Sequence[int] | None = None,
    peepholes: bool = False,
    weighted: Sequence[int] | None = None,
    steps: int = _STEPS,
    **attributes: Any,
) -> Case:
    directions, rows = 2 if direction == "bidirectional" else 1, _GATES[operator] * _UNITS

    def numbers(*shape: int) -> Uniform:
        return Uniform((directions, *shape), -1, 1)

    b = numbers(2 * rows) if bias else None
    state = numbers(_BATCH, _UNITS) if states else None
    counts = None if lengths is None else Given(np.array(lengths, np.int32))
    x = Uniform((steps, _BATCH, _FEATURES))
    inputs: list[Numbers | None] = [x, numbers(rows, _FEATURES), numbers(rows, _UNITS), b, counts, state]
    is_lstm = operator == "LSTM"
    if is_lstm:
        inputs += [state, numbers(3 * _UNITS) if peepholes else None]
    while inputs[-1] is None:
        inputs.pop()
    return case(
        f"{operator.lower()}_{name}",
        operator,
        *inputs,
        outputs=3 if is_lstm else 2,
        weighted=weighted,
        hidden_size=_UNITS,
        direction=direction,
        **attributes,
    )


def _layers(prefix: str, operator: str, reverse: int = _STEPS, **attributes: Any) -> list[Case]:
    """A layer of two outputs in its directions, with lengths, and with each gradient alone.

    reverse: the steps of the case that goes backwards.
    """

    def layer(name: str, direction: str = "forward", **options: Any) -> Case:
        own = dict(attributes)
        if "activations" in own and direction == "bidirectional":
            own["activations"] = own["activations"] * 2
        return _layer(f"{prefix}_{name}", operator, direction, **own, **options)

    return [
        layer("forward"),
        layer("reverse", "reverse", steps=reverse),
        layer("bidirectional", "bidirectional"),
        layer("sequence_lens", lengths=_LENGTHS),
        layer("reverse_sequence_lens", "reverse", lengths=_LENGTHS),
        layer("bidirectional_sequence_lens", "bidirectional", lengths=_LENGTHS),
        layer("grad_of_Y", weighted=[0]),
        layer("grad_of_Y_h", weighted=[1]),
        layer("no_bias_no_state", bias=False, states=False),
    ]


def _rnns(activation: str) -> list[Case]:
    # a fourth step would come near to the kink of relu
    return _layers(activation, "RNN", reverse=3, activations=[activation.title()])


def _grus(after: int) -> list[Case]:
    prefix = f"linear_before_reset_{after}"
    return [
        *_layers(prefix, "GRU", linear_before_reset=after),
        _layer(f"{prefix}_one_step", "GRU", linear_before_reset=after, steps=1),
    ]


CASES = [
    *_rnns("tanh"),
    *_rnns("relu"),
    *_grus(0),
    *_grus(1),
    _layer("forward", "LSTM"),
    _layer("reverse", "LSTM", "reverse"),
    _layer("bidirectional", "LSTM", "bidirectional"),
    _layer("sequence_lens", "LSTM", lengths=_LENGTHS),
    _layer("reverse_sequence_lens", "LSTM", "reverse", lengths=_LENGTHS),
    _layer("bidirectional_sequence_lens", "LSTM", "bidirectional", lengths=_LENGTHS),
    _layer("grad_of_Y", "LSTM", weighted=[0]),
    _layer("grad_of_Y_h", "LSTM", weighted=[1]),
    _layer("grad_of_Y_c", "LSTM", weighted=[2]),
    _layer("bidirectional_grad_of_Y_c", "LSTM", "bidirectional", weighted=[2]),
    _layer("no_bias_no_state", "LSTM", bias=False, states=False),
    _layer("one_step", "LSTM", steps=1),
    _layer("peepholes", "LSTM", peepholes=True),
    _layer("peepholes_reverse", "LSTM", "reverse", peepholes=True),
    _layer("peepholes_bidirectional_sequence_lens", "LSTM", "bidirectional", peepholes=True, lengths=_LENGTHS),
]
