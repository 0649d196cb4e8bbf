"""A long sequence in pieces: truncated backpropagation through time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...engine.tensor import Tensor
from ...ops.dtype import require_tensor
from ...ops.recurrent_arguments import Rest, checked_lengths
from ..sequence_masks import SequenceMasks

__all__ = ["detached", "like", "truncated"]


def detached(states: Any) -> Any:
    """The same states with no graph behind them: a Tensor, None, or tuples and lists of these.

    Raises:
        TypeError: something else is among them.
    """
    if states is None:
        return None
    if isinstance(states, Tensor):
        return states.detach()
    if isinstance(states, (tuple, list)):
        return like(states, [detached(state) for state in states])
    raise TypeError(f"detached: states hold {type(states).__name__}, expected Tensors, None, or tuples of these")


def like(states: Any, entries: list[Any]) -> Any:
    """Other entries in a tuple or list of the type of ``states``; of a named tuple, too."""
    return type(states)(*entries) if hasattr(states, "_fields") else type(states)(entries)


def truncated(layer: Any, x: Tensor, steps: int, hx: Any = None, lengths: Any = None) -> Iterator[tuple[Any, ...]]:
    """Truncated backpropagation through time: what the layer returns, (y, states), for pieces of x of ``steps`` steps.

    Each piece begins with the values of the states that the one before ended with, but no gradient goes back there. The
    last one may be shorter. A piece is computed when it is asked for: between two of them there is time for backward()
    and a step of the optimiser.

        for y, states in truncated(lstm, x, 35):
            loss(y).backward()

    Dropout by one mask for all steps (variational_dropout and recurrent_dropout of a layer, VariationalDropoutCell) has
    one mask for all pieces. All other draws differ from step to step, here as in a whole sequence.

    layer: layer(x, states) -> (y, states), such as RNN, LSTM, GRU, Unroll, ConvLSTM2d; what it returns beside these, as
        with return_cells, is handed on. With lengths it is called as layer(x, states, lengths).
    x: (T, N, I), with ``layer.batch_first`` (N, T, I), without a batch (T, I).
    hx: the states before the first step.
    lengths: (N,), 1 to T: how many steps of each sequence count. A piece is given what is left of them in it, 0 for a
        sequence that has ended: its state stays, and its y is 0.

    Source: R. Williams, J. Peng, "An Efficient Gradient-Based Algorithm for On-Line Training of Recurrent Network
    Trajectories", 1990.

    Raises:
        TypeError: x is no Tensor (a PackedSequence does not lie in pieces: pad it), or steps or lengths are no ints.
        ValueError: steps is below 1, x has less than 2 axes or no steps, lengths do not fit, or the layer reads the
            sequence from its end as well or returns no states.
        RuntimeError: while a piece is computed, if such a mask is drawn within utils.checkpoint.
    """
    if hasattr(x, "batch_sizes"):
        raise TypeError(
            "truncated: x is a PackedSequence, which does not lie in pieces of so many steps; take "
            "x, lengths = pad_packed_sequence(x) and give lengths=lengths"
        )
    require_tensor("truncated", x, "x")
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise TypeError(f"truncated: steps={steps!r} must be an int")
    shape = x.array.shape
    if steps < 1 or len(shape) < 2:
        raise ValueError(f"truncated: steps={steps} must be at least 1, and x.shape={shape} have a time axis")
    axis = int(bool(getattr(layer, "batch_first", False)) and len(shape) > 2)
    if not shape[axis]:
        raise ValueError(f"truncated: x.shape={shape} has no steps; give at least 1")
    if getattr(layer, "bidirectional", False) or getattr(layer, "reverse", False):
        raise ValueError(f"truncated: {layer!r} reads from the end, which a piece does not know; use one direction")
    if not getattr(layer, "return_states", True):
        raise ValueError(f"truncated: {layer!r} returns no states to go on with; make it with return_states=True")
    counts = None
    if lengths is not None:
        if len(shape) < 3:
            raise ValueError(f"truncated: lengths are given, and x.shape={shape} has no batch axis; leave them out")
        counts = checked_lengths("truncated", lengths, shape[axis], shape[1 - axis])
    return _pieces(layer, x, axis, steps, hx, counts)


def _pieces(
    layer: Any, x: Tensor, axis: int, steps: int, states: Any, counts: np.ndarray | None
) -> Iterator[tuple[Any, ...]]:  # fmt: skip
    masks = SequenceMasks()
    for begin in range(0, x.array.shape[axis], steps):
        piece = x[:, begin : begin + steps] if axis else x[begin : begin + steps]
        left = [] if counts is None else [Rest(np.clip(counts - begin, 0, piece.array.shape[axis]).tolist())]
        with masks:
            result = layer(piece, states, *left)
        yield result
        states = detached(result[1])
