"""A recurrent layer: fused in one kernel for all its steps where that is possible, composed of operators elsewhere.

The equations stand in ``textbook/recurrent.py``, forward and backward; in operators, in ``recurrent_composed.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.tensor import Tensor
from ..recurrence import Recurrence, Weights
from .recurrent_arguments import check_layer, checked_interval, checked_lengths
from .recurrent_checkpoint import CheckpointedLayer
from .recurrent_composed import Masks, composed, in_evaluation
from .recurrent_fused import RecurrentLayer, flattened

__all__ = ["recurrent_layer"]

Result = tuple[Tensor, Tensor, Tensor | None, Tensor | None]


def recurrent_layer(
    x: Tensor, h0: Tensor | None, c0: Tensor | None, weights: Sequence[Weights], what: Recurrence, lengths: Any = None,
    cells: bool = False, masks: Masks | None = None, checkpoint: int | str | None = None,
    name: str = "recurrent_layer",
) -> Result:  # fmt: skip
    """One layer over a whole sequence, in all its directions: y, hn, cn (LSTM, else None) and all cell states.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None (zeros), weights: a Weights of Tensors for each direction ->
    y (T, N, D*O), hn (D, N, O), cn (D, N, H), and with ``cells`` the cell state of every step (T, N, D*H)

    lengths: how many steps of each sequence count, 1 to T: (N,) ints. Beyond them x may be anything, y is 0, and hn and
        cn are those of the last one that counts; the reverse direction begins there.
    masks: what zoneout and recurrent dropout drew, from ``draw_masks``; without them both take their expectation.
    checkpoint: keep the states at every so many steps only, and compute what lies between again in backward; "auto"
        takes the square root of T, with which memory grows, too. None keeps everything. The outputs have the same
        bits; the gradients to the weights are added up in another order.
    name: of the caller, for messages.

    Raises:
        TypeError: types differ or are not floating point.
        ValueError: a shape does not fit, a length is not 1 to T, or ``checkpoint`` is not at least 1.
    """
    check_layer(name, x, h0, c0, weights, what)
    counts = None if lengths is None else checked_lengths(name, lengths, x.array.shape[0], x.array.shape[1])
    if masks is None:
        what = in_evaluation(what)
    every = None if checkpoint is None else checked_interval(name, checkpoint, x.array.shape[0])
    if every is None and not what.fused:
        return composed(x, h0, c0, weights, what, counts, cells, masks)
    flat = flattened(weights, what)
    arguments = (x, h0, c0, counts, what, cells and what.cells)
    if every is None:
        y, hn, *rest = RecurrentLayer.apply(*arguments, *flat)
    else:
        y, hn, *rest = CheckpointedLayer.apply(*arguments, masks, every, *flat)
    if not what.cells:
        return y, hn, None, None
    return y, hn, rest[0], rest[1] if cells else None
