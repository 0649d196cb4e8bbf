"""Truncated backpropagation through time: long sequences in pieces that share dropout masks.

Normally, a layer draws its masks in every call. Within ``with masks:`` it reuses those of the first piece; the calls of
a module are counted from the start of the block, so the second call in a piece reuses the masks of the second call in
the first piece.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np

from ...arrays import integers
from ...engine.grad_mode import thread
from ...engine.recompute import SavedTensorObserver
from ...engine.tensor import Tensor
from ...ops.argument_checks import require_tensor
from ...ops.recurrent.arguments import SegmentLengths, checked_lengths

__all__ = ["SequenceMasks", "detached", "like", "masks_of", "start_sequence", "truncated"]


# ---- Dropout masks shared by all pieces of a sequence ---------------------------------------------------------------


class _Current(threading.local):
    masks: SequenceMasks | None = None


_current = _Current()


class SequenceMasks:
    """The masks drawn by the modules for one sequence."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[int, int], dict[str, Any]] = {}
        self._turns: dict[int, int] = {}  # per module: the number of sequences it has started within the block
        self._used: set[tuple[int, int]] = set()  # within the block
        self._outer: SequenceMasks | None = None

    def __enter__(self) -> None:
        self._turns, self._used = {}, set()
        self._outer, _current.masks = _current.masks, self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _current.masks, self._outer = self._outer, None

    def begin(self, module: object) -> None:
        key = id(module), self._turns.get(id(module), 0)
        if key in self._used:
            self._turns[id(module)] = key[1] + 1

    def of(self, module: object) -> dict[str, Any]:
        if isinstance(thread.mode.watch, SavedTensorObserver):
            raise RuntimeError(
                f"truncated: {type(module).__name__} uses one dropout mask for the whole sequence within "
                "utils.checkpoint, which would draw another mask when it recomputes; use checkpoint= of the recurrent "
                "layer"
            )
        key = id(module), self._turns.get(id(module), 0)
        self._used.add(key)
        return self._drawn.setdefault(key, {})


def masks_of(module: object, own: dict[str, Any]) -> dict[str, Any]:
    """Return the masks of the module's sequence by name; ``own`` outside of a sequence in pieces."""
    return own if _current.masks is None else _current.masks.of(module)


def start_sequence(module: object) -> bool:
    """Start a sequence of the module; return whether its masks are shared by later pieces."""
    if _current.masks is None:
        return False
    _current.masks.begin(module)
    return True


# ---- Truncated backpropagation through time: a long sequence in pieces ----------------------------------------------


def detached(states: Any) -> Any:
    """Return the states without their graph: a Tensor, None, or tuples and lists of these.

    Raises:
        TypeError: states contain anything else.
    """
    if states is None:
        return None
    if isinstance(states, Tensor):
        return states.detach()
    if isinstance(states, (tuple, list)):
        return like(states, [detached(state) for state in states])
    raise TypeError(f"detached: states hold {type(states).__name__}, expected Tensors, None, or tuples of these")


def like(states: Any, entries: list[Any]) -> Any:
    """Return ``entries`` in a tuple, list or named tuple of the type of ``states``."""
    return type(states)(*entries) if hasattr(states, "_fields") else type(states)(entries)


def truncated(layer: Any, x: Tensor, steps: int, hx: Any = None, lengths: Any = None) -> Iterator[tuple[Any, ...]]:
    """Truncated backpropagation through time: yields the layer's (y, states) for pieces of x of ``steps`` steps.

    Each piece starts from the final states of the previous one, detached. The last one may be shorter. A piece is
    computed when it is requested: in between you can call backward() and step the optimizer.

        for y, states in truncated(lstm, x, 35):
            loss(y).backward()

    Dropout with one mask for all steps (variational_dropout and recurrent_dropout of a layer, VariationalDropoutCell)
    uses one mask for all pieces. All other masks differ from step to step, as in a whole sequence.

    layer: layer(x, states) -> (y, states), such as RNN, LSTM, GRU, Unroll, ConvLSTM2d; further results, as with
        return_cells, are passed on. With lengths it is called as layer(x, states, lengths).
    x: (T, N, I), with ``layer.batch_first`` (N, T, I), without a batch (T, I).
    hx: the initial states.
    lengths: (N,), from 1 to T: the steps of each sequence. Each piece gets its part of them, 0 for a sequence that has
        ended: its state does not change, and its y is 0.

    Source: R. Williams, J. Peng, "An Efficient Gradient-Based Algorithm for On-Line Training of Recurrent Network
    Trajectories", 1990.

    Raises:
        TypeError: x is not a Tensor (pad a PackedSequence first), or steps or lengths are not ints.
        ValueError: steps is below 1, x has fewer than 2 axes or no steps, lengths do not fit, or the layer reads the
            sequence from its end or returns no states.
        RuntimeError: while computing a piece, if such a mask is drawn within utils.checkpoint.
    """
    if hasattr(x, "batch_sizes"):
        raise TypeError(
            "truncated: x is a PackedSequence, which cannot be split into pieces; use "
            "x, lengths = pad_packed_sequence(x) and pass lengths=lengths"
        )
    require_tensor("truncated", x, "x")
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise TypeError(f"truncated: steps={steps!r} must be an int")
    shape = x.array.shape
    if steps < 1 or len(shape) < 2:
        raise ValueError(f"truncated: steps={steps} must be at least 1, and x.shape={shape} at least 2 axes")
    axis = int(bool(getattr(layer, "batch_first", False)) and len(shape) > 2)
    if not shape[axis]:
        raise ValueError(f"truncated: x.shape={shape} has no steps; it needs at least 1")
    if getattr(layer, "bidirectional", False) or getattr(layer, "reverse", False):
        raise ValueError(f"truncated: {layer!r} reads from the end, which a piece does not have; use one direction")
    if not getattr(layer, "return_states", True):
        raise ValueError(f"truncated: {layer!r} returns no states to continue from; create it with return_states=True")
    counts = None
    if lengths is not None:
        if len(shape) < 3:
            raise ValueError(f"truncated: lengths need a batch axis, but x.shape={shape} has none; leave them out")
        counts = checked_lengths("truncated", lengths, shape[axis], shape[1 - axis])
    return _pieces(layer, x, axis, steps, hx, counts)


def _pieces(
    layer: Any, x: Tensor, axis: int, steps: int, states: Any, counts: np.ndarray | None
) -> Iterator[tuple[Any, ...]]:
    masks, given = SequenceMasks(), None if counts is None else integers(counts, "the steps that are left")
    for begin in range(0, x.array.shape[axis], steps):
        piece = x[:, begin : begin + steps] if axis else x[begin : begin + steps]
        left = (
            [] if given is None else [SegmentLengths([min(max(n - begin, 0), piece.array.shape[axis]) for n in given])]
        )
        with masks:
            result = layer(piece, states, *left)
        yield result
        states = detached(result[1])
