"""A recurrent layer: one fused kernel for all its steps where possible, else composed of operators.

``formulas/gates.py`` has the equations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arrays import from_host
from ...engine.backward_rules import ruled
from ...engine.operator import interpreters
from ...engine.tensor import Tensor
from ...specs.recurrence import Recurrence, Weights
from ..pointwise.elementwise import add, mul, sub
from ..pointwise.piecewise import clamp, relu
from ..pointwise.transcendental import sigmoid
from ..pointwise.trigonometry import tanh
from ..product.matmul import linear
from .arguments import check_layer, checked_interval, checked_lengths, runs_fused
from .checkpoint import CheckpointedLayer
from .composed import Masks, composed, in_evaluation
from .fused import RecurrentLayer, flattened

__all__ = ["recurrent_layer"]

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
    """One layer over a whole sequence, in all its directions: y, hn, cn (LSTM, else None) and all cell states.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None (zeros), weights: a Weights of Tensors for each direction ->
    y (T, N, D*O), hn (D, N, O), cn (D, N, H), and with ``cells`` the cell state of every step (T, N, D*H)

    lengths: the steps of each sequence, 1 to T: (N,) ints. Beyond them x may be anything and y is 0; hn and cn are the
        states after the last step of each sequence, where the reverse direction begins.
    masks: of zoneout and recurrent dropout, from ``draw_masks``; without them both take their expectation.
    checkpoint: save the states at every k-th step only, and recompute the steps between in backward; "auto" takes the
        square root of T, so that memory grows like it. None saves everything. The outputs have the same bits; the
        gradients to the weights are summed in another order.
    algorithm: "fused" kernels, "composed" of operators, or "auto".
    name: the caller's, for messages.

    Raises:
        TypeError: types differ or are not floating point.
        ValueError: a shape does not fit, a length is not 1 to T, ``checkpoint`` is below 1, or the algorithm does not
            support the layer.
    """
    check_layer(name, x, h0, c0, weights, spec)
    counts = None
    if lengths is not None:
        counts = from_host(checked_lengths(name, lengths, x.array.shape[0], x.array.shape[1]), like=x.array)
    if masks is None:
        spec = in_evaluation(spec)
    every = None if checkpoint is None else checked_interval(name, checkpoint, x.array.shape[0])
    fused = runs_fused(name, spec, algorithm)
    if interpreters and every is None and ruled(linear, sigmoid, tanh, relu, clamp, add, sub, mul):
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
