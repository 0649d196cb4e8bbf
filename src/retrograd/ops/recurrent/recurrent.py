"""Recurrent layers and cells: fused where possible, otherwise composed of operators.

For N sequences, I inputs and H units, a cell takes input (N, I), hx and cx (N, H), w_ih (G*H, I), w_hh (G*H, H), and
b_ih and b_hh (G*H,) or None. ``retrograd.specs.recurrence`` and ``formulas/gates.py`` have the equations, the former
also the order of the gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arrays import from_host, zeros
from ...engine.backward_rules import is_overridden
from ...engine.operator import interpreted, interpreters, operator
from ...engine.tensor import Tensor, wrap
from ...specs.recurrence import GATES, Recurrence, Weights, recurrence
from ..argument_checks import require_float, require_same, require_tensor
from ..pointwise.arithmetic import add, mul, sub
from ..pointwise.exponential import sigmoid
from ..pointwise.piecewise import clamp, relu
from ..pointwise.trigonometry import tanh
from ..product.matmul import linear
from .arguments import check_layer, check_weights, checked_interval, checked_lengths, runs_fused
from .composed import Masks, composed, in_evaluation
from .fused import CheckpointedLayer, RecurrentLayer, RecurrentStep, flattened, of_stack, stacked

__all__ = ["gru_cell", "lstm_cell", "rnn_relu_cell", "rnn_tanh_cell"]


# ---- Recurrent layers -----------------------------------------------------------------------------------------------

Result = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


def recurrent_layer(
    x: Tensor,
    h0: Tensor | None,
    c0: Tensor | None,
    weights: Sequence[Weights],
    spec: Recurrence,
    lengths: Any = None,
    cells: bool = False,
    masks: Masks | None = None,
    checkpoint: int | str | None = None,
    algorithm: str = "auto",
    name: str = "recurrent_layer",
) -> Result:
    """Apply a layer to a whole sequence in all directions: y, hn, cn (LSTM, else None) and all cell states.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None (zeros), weights: a Weights of Tensors for each direction ->
    y (T, N, D*O), hn (D, N, O), cn (D, N, H), and with ``cells`` the cell state of each step (T, N, D*H)

    lengths: the number of steps of each sequence, from 1 to T: (N,) ints. Later steps of x are ignored and those of y
        are 0. hn and cn are the states after all steps of each sequence. The reverse direction begins at its last step.
    masks: those of zoneout and recurrent dropout, from ``draw_masks``; without them both use their expectation.
    checkpoint: save the states only at every k-th step, and recompute the steps between in backward. "auto" uses the
        square root of T, so memory grows like sqrt(T). None saves everything. The outputs are the same bit for bit;
        the gradients of the weights are summed in another order.
    algorithm: "fused" kernels, "composed" of operators, or "auto".
    name: the name of the caller, for messages.

    Raises:
        TypeError: types differ or are not floating point.
        ValueError: a shape does not fit, a length is not from 1 to T, ``checkpoint`` is below 1, or the algorithm does
            not support the layer.
    """
    check_layer(name, x, h0, c0, weights, spec)
    counts = None
    if lengths is not None:
        counts = from_host(checked_lengths(name, lengths, x.array.shape[0], x.array.shape[1]), like=x.array)
    if masks is None:
        spec = in_evaluation(spec)
    every = None if checkpoint is None else checked_interval(name, checkpoint, x.array.shape[0])
    fused = runs_fused(name, spec, algorithm)
    if every is None and _is_overridden():
        fused = False
    if every is None and not fused:
        return composed(x, h0, c0, weights, spec, counts, cells, masks)
    flat = flattened(weights, spec)
    arguments = (x, h0, c0, counts, spec, cells and spec.cells)
    if every is None:
        y, hn, *rest = RecurrentLayer.apply(*arguments, *flat)
    else:
        y, hn, *rest = CheckpointedLayer.apply(*arguments, masks, every, fused, *flat)
    if not spec.cells:
        return y, hn, None, None
    return y, hn, rest[0], rest[1] if cells else None


def recurrent_step(
    x: Tensor,
    h: Tensor | None,
    c: Tensor | None,
    weights: Weights,
    spec: Recurrence,
    masks: Masks | None = None,
    name: str = "recurrent_step",
) -> tuple[Tensor, Tensor | None]:
    """Apply ``recurrent_layer`` to one step of N sequences: x (N, I), h (N, O) and c (N, H) or None -> h, c.

    The shapes of x, h and c have been checked.
    """
    if masks is None and runs_fused(name, in_evaluation(spec), "auto") and not _is_overridden():
        require_float(name, x, "input")
        for label, state in (("h0", h), ("c0", c)):
            if state is not None:
                require_same(name, "input", x, label, state)
        check_weights(name, x, weights, spec)
        found = RecurrentStep.apply(x, h, c, spec, *flattened([weights], spec))
        return found if spec.cells else (found, None)
    h, c = (None if state is None else stacked(state) for state in (h, c))
    _, hn, cn, _ = recurrent_layer(stacked(x), h, c, [weights], spec, masks=masks, name=name)
    return of_stack(hn), None if cn is None else of_stack(cn)


def _is_overridden() -> bool:
    """Return whether a backward rule replaces an operator of which a layer is composed."""
    return bool(interpreters) and is_overridden(linear, sigmoid, tanh, relu, clamp, add, sub, mul)


# ---- Recurrent cells ------------------------------------------------------------------------------------------------


@operator
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """h = tanh(w_ih input + b_ih + w_hh hx + b_hh): input (N, I), hx (N, H) -> (N, H)

    Raises:
        TypeError: types differ or are not floating point.
        ValueError: shapes do not fit.
    """
    if interpreters and (seen := interpreted(rnn_tanh_cell, locals())) is not None:
        return seen
    return _step("rnn_tanh_cell", "rnn_tanh", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


@operator
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """h = relu(w_ih input + b_ih + w_hh hx + b_hh): input (N, I), hx (N, H) -> (N, H)

    Raises: as ``rnn_tanh_cell``.
    """
    if interpreters and (seen := interpreted(rnn_relu_cell, locals())) is not None:
        return seen
    return _step("rnn_relu_cell", "rnn_relu", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


@operator
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """h = (1 - z) n + z hx with the gates r, z, n: input (N, I), hx (N, H) -> (N, H)

    Source: K. Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014.

    Raises: as ``rnn_tanh_cell``.
    """
    if interpreters and (seen := interpreted(gru_cell, locals())) is not None:
        return seen
    return _step("gru_cell", "gru", input, hx, None, w_ih, w_hh, b_ih, b_hh)[0]


@operator
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """c = f cx + i g and h = o tanh(c) with the gates i, f, g, o: input (N, I), (hx, cx) each (N, H) -> (h, c)

    Source: S. Hochreiter, J. Schmidhuber, "Long Short-Term Memory", 1997.

    Raises:
        TypeError: types differ or are not floating point, or hx is not a pair.
        ValueError: shapes do not fit.
    """
    if interpreters and (seen := interpreted(lstm_cell, locals())) is not None:
        return seen
    if not isinstance(hx, (tuple, list)) or len(hx) != 2:
        raise TypeError("lstm_cell: hx must be a pair: the hidden state and the cell state")
    h, c = _step("lstm_cell", "lstm", input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh)
    assert c is not None
    return h, c


def _step(
    name: str,
    mode: str,
    x: Tensor,
    h: Tensor,
    c: Tensor | None,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    """Run a layer on a sequence of one step. A single missing bias counts as 0."""
    require_float(name, x)
    states = [("hx", h)] if c is None else [("hx[0]", h), ("hx[1]", c)]
    for label, tensor in (("w_ih", w_ih), ("w_hh", w_hh), *states):
        require_tensor(name, tensor, label)
    rows, columns = w_hh.array.shape if w_hh.array.ndim == 2 else (0, 0)
    if x.array.ndim != 2 or w_ih.array.ndim != 2 or not rows or columns * GATES[mode] != rows:
        raise ValueError(
            f"{name}: input.shape={x.array.shape}, w_ih.shape={w_ih.array.shape}, w_hh.shape={w_hh.array.shape}; they "
            f"must be (N, I), ({GATES[mode]}*H, I) and ({GATES[mode]}*H, H)"
        )
    for label, state in states:
        expected = (x.array.shape[0], columns)
        if state.array.shape != expected:
            raise ValueError(f"{name}: {label}.shape={state.array.shape}, needs (N, H) = {expected}")
    if (b_ih is None) != (b_hh is None):
        nothing = wrap(zeros(rows, x.array.dtype, like=x.array))
        b_ih, b_hh = (nothing if b is None else b for b in (b_ih, b_hh))
    spec = recurrence(name, mode, w_ih.array.shape[1], columns, bias=b_ih is not None)
    return recurrent_step(x, h, c, Weights(w_ih, w_hh, b_ih, b_hh), spec, name=name)
