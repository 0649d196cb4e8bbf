"""The equations of recurrent cells at one step, and their gradients.

h' and c' are the states before the step. A function takes the pre-activation ("sum") of a gate,
W_ih x + b_ih + W_hh h' + b_hh, and returns its value. A gradient takes values and returns the gradients to the sums,
for the activation tanh. The gates are in the order i, f, g, o and n, r, z.

``lstm`` and ``lstm_grad`` combine all options of an LSTM, for arrays and Tensors. The compiled kernels branch inside
their loops: there ``kernels/compiled/recurrent/cells_jit.py`` combines them.

Source: see ``retrograd.specs.recurrence``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .primitive import Operand, sigmoid, tanh, where
from .transcendental import sigmoid_grad, tanh_grad

Activation = Callable[[Any], Any]  # tanh; any function in a convolutional cell
Operands = tuple[Operand, ...]


def lstm_state(i: Operand, f: Operand, g: Operand, c: Operand) -> Operand:
    """The cell state f c' + i g"""
    return f * c + i * g


def lstm_cell(i: Operand, f: Operand, g: Operand, c: Operand, activation: Activation) -> Operands:
    """i, f and g, and the cell state"""
    i, f, g = sigmoid(i), sigmoid(f), activation(g)
    return i, f, g, lstm_state(i, f, g, c)


def lstm_cell_grad(gc: Operand, i: Operand, f: Operand, g: Operand, c: Operand) -> Operands:
    """The gradients to the sums of i, f and g, and to c'"""
    return sigmoid_grad(gc * g, i), sigmoid_grad(gc * c, f), tanh_grad(gc * i, g), gc * f


def lstm_output(o: Operand, c: Operand, activation: Activation) -> Operands:
    """o, and the output o tanh(c)"""
    o = sigmoid(o)
    return o, o * activation(c)


def lstm_output_grad(gh: Operand, o: Operand, c: Operand) -> Operands:
    """The gradients to the sum of o, and to c"""
    t = tanh(c)
    return sigmoid_grad(gh * t, o), tanh_grad(gh * o, t)


def mixture(n: Operand, z: Operand, h: Operand) -> Operand:
    """(1 - z) n + z h': the state of a GRU; with g, f and c' the cell state of coupled gates"""
    return (1.0 - z) * n + z * h


def mixture_cell(n: Operand, z: Operand, h: Operand, activation: Activation) -> Operands:
    """n and z, and their mixture with h'"""
    n, z = activation(n), sigmoid(z)
    return n, z, mixture(n, z, h)


def mixture_grad(gh: Operand, n: Operand, z: Operand, h: Operand) -> Operands:
    """The gradients to the sums of n and z, and to h'"""
    return tanh_grad(gh * (1.0 - z), n), sigmoid_grad(gh * (h - n), z), gh * z


def gru_cell(n: Operand, r: Operand, z: Operand, m: Operand, h: Operand, activation: Activation) -> Operands:
    """n, r and z, and the state; n and m, the terms of x and of h' in the sum of n, are separate"""
    r = sigmoid(r)
    n, z, h = mixture_cell(n + r * m, z, h, activation)
    return n, r, z, h


def gru_cell_grad(gh: Operand, n: Operand, r: Operand, z: Operand, m: Operand, h: Operand) -> Operands:
    """The gradients to n, the sums of r and z, m, and h' (without the term through W_hh)"""
    an, az, gh = mixture_grad(gh, n, z, h)
    return an, sigmoid_grad(an * m, r), az, an * r, gh


def reset(r: Operand, h: Operand) -> Operand:
    """r h', the operand of W_hn in a GRU with the reset gate before the product"""
    return sigmoid(r) * h


def with_peephole(a: Operand, weight: Operand, c: Operand) -> Operand:
    """The sum of a gate with a peephole to c; also the gradient to c, given the one to this sum."""
    return a + weight * c


def without_nan(c: Operand, number: float) -> Operand:
    """c, with the number where it is NaN"""
    return where(c == c, c, number)


def limited(c: Operand, limits: tuple[float, float] | None, nan_to_high: bool, clamp: Callable[..., Any]) -> Any:
    """c within the limits, if there are any; clamp: the formula of this name, or the operator"""
    if limits is None:
        return c
    return clamp(without_nan(c, limits[1]) if nan_to_high else c, *limits)


def unchanged(c: Operand) -> Operand:
    """c, for an LSTM without clipping or normalization"""
    return c


def lstm(
    sums: Sequence[Operand],
    c: Operand,
    peephole: Sequence[Operand],
    clip: Activation,
    norm: Activation,
    activation: Activation,
) -> tuple[Operands, Operand, Operand]:
    """The gates, the cell state and the output, with every option.

    sums: of i, f, g, o; with coupled gates of f, g, o, and i = 1 - f.
    peephole: the weights of c' in i (if there is one) and f, and of c in o; empty without peepholes.
    clip: maps the cell state to that used by o and the next step; norm: maps this to the one used by the output.
    """
    *i, f, g, o = sums
    if peephole:
        *to_i, to_f, to_o = peephole
        i = [with_peephole(a, weight, c) for a, weight in zip(i, to_i, strict=True)]
        f = with_peephole(f, to_f, c)
    if i:
        *gates, c = lstm_cell(i[0], f, g, c, activation)
    else:
        g, f, c = mixture_cell(g, f, c, activation)
        gates = [f, g]
    c = clip(c)
    o, h = lstm_output(with_peephole(o, to_o, c) if peephole else o, norm(c), activation)
    return (*gates, o), c, h


def lstm_grad(
    gh: Operand,
    gc: Operand,
    gates: Sequence[Operand],
    before: Operand,
    c: Operand,
    peephole: Sequence[Operand],
    clip: Callable[[Operand, Operand], Operand],
) -> tuple[Operands, Operand]:
    """The gradients to the sums and to c', given those to the output and to c; gates and peephole as in ``lstm``.

    before: c'. clip: takes the gradient to a clipped cell state and that state; returns the gradient before clipping.
    """
    *i, f, g, o = gates
    ao, from_output = lstm_output_grad(gh, o, c)
    gc = gc + from_output
    if peephole:
        gc = with_peephole(gc, peephole[-1], ao)
    if i:
        *sums, gc = lstm_cell_grad(clip(gc, lstm_state(i[0], f, g, before)), i[0], f, g, before)
    else:
        ag, af, gc = mixture_grad(clip(gc, mixture(g, f, before)), g, f, before)
        sums = [af, ag]
    for weight, a in zip(peephole[:-1], sums, strict=False):
        gc = with_peephole(gc, weight, a)
    return (*sums, ao), gc
