"""A recurrent layer: fused in one kernel for all its steps where that is possible, composed of operators elsewhere.

The equations stand in ``textbook/recurrent.py``, forward and backward; in operators, in ``recurrent_composed.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import is_grad_enabled
from ..engine.sweep import grad
from ..engine.tensor import Tensor, wrap
from ..recurrence import Recurrence, Weights
from .kernel_set import kernels
from .recurrent_arguments import check_layer, checked_lengths
from .recurrent_composed import Masks, composed, in_evaluation
from .shape import Reshape

__all__: list[str] = []

Result = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
_FIELDS = len(Weights._fields)


class RecurrentLayer(Function):
    """All steps of a layer in all its directions; see ``recurrent_layer``.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None -> y (T, N, D*O), hn (D, N, O), of an LSTM cn (D, N, H), and if
    they are asked for its cell states (T, N, D*H)

    The gradients flow through time whichever of them are wanted: to x or h0 with frozen weights, too.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h0: Tensor | None, c0: Tensor | None, lengths: np.ndarray | None, what: Recurrence,
        cells: bool, *flat: Tensor | None,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        save = any(ctx.needs_input_grad)
        *outputs, saved = kernels.recurrent(
            x.data, _data(h0), _data(c0), _weights(flat), lengths, what, save, cells
        )  # fmt: skip
        if save:
            ctx.save_for_backward(x, h0, c0, _boxed(saved), *flat)
            ctx.options = (lengths, what, cells)
            ctx.set_materialize_grads(False)
        return tuple(wrap(array) for array in outputs if array is not None)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        """The fused gradient, or the composed one where it must be differentiable."""
        x, h0, c0, saved, *flat = ctx.saved_tensors
        lengths, what, cells = ctx.options
        wanted = ctx.needs_input_grad
        if is_grad_enabled():
            return composed_grad(upstream, x, h0, c0, flat, what, lengths, cells, wanted)
        gy, ghn, gcn, gcells = _named(upstream, what, cells)
        of_weights = any(wanted[6:])
        gx, gh0, gc0, found = kernels.recurrent_grad(
            _data(gy), _data(ghn), _data(gcn), _data(gcells), x.data, _data(h0), _data(c0), _weights(flat), lengths,
            what, saved[0], (wanted[0], wanted[1], wanted[2], of_weights),
        )  # fmt: skip
        pieces = [piece for direction in found for piece in direction] if of_weights else [None] * len(flat)
        return (
            _wrapped(gx), _wrapped(gh0), _wrapped(gc0), None, None, None,
            *[_wrapped(piece) if want else None for piece, want in zip(pieces, wanted[6:], strict=True)],
        )  # fmt: skip


def composed_grad(
    upstream: Sequence[Tensor | None], x: Tensor, h0: Tensor | None, c0: Tensor | None, flat: Sequence[Tensor | None],
    what: Recurrence, lengths: np.ndarray | None, cells: bool, wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of ``RecurrentLayer`` by running the composed layer again: they are differentiable themselves.

    The layer runs on aliases of the arguments, so that where one depends on another (an initial state made from x) each
    gets its own gradient only.
    """
    arguments = [x, h0, c0, None, None, None, *flat]
    own: list[Any] = [t if t is None else Reshape.apply(t, t.data.shape) for t in arguments]
    outputs = composed(own[0], own[1], own[2], _regrouped(own[6:]), what, lengths, cells)
    some = [(y, g) for y, g in zip([y for y in outputs if y is not None], upstream, strict=True) if g is not None]
    places = [place for place, want in enumerate(wanted) if want]
    roots, gradients = [y for y, _ in some], [g for _, g in some]
    found = grad(roots, [own[place] for place in places], gradients, create_graph=True, allow_unused=True)
    result: list[Tensor | None] = [None] * len(arguments)
    for place, gradient in zip(places, found, strict=True):
        result[place] = gradient
    return tuple(result)


def recurrent_layer(
    x: Tensor, h0: Tensor | None, c0: Tensor | None, weights: Sequence[Weights], what: Recurrence, lengths: Any = None,
    cells: bool = False, masks: Masks | None = None, name: str = "recurrent_layer",
) -> Result:  # fmt: skip
    """One layer over a whole sequence, in all its directions: y, hn, cn (LSTM, else None) and all cell states.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None (zeros), weights: a Weights of Tensors for each direction ->
    y (T, N, D*O), hn (D, N, O), cn (D, N, H), and with ``cells`` the cell state of every step (T, N, D*H)

    lengths: how many steps of each sequence count, 1 to T: (N,) ints. Beyond them x may be anything, y is 0, and hn and
        cn are those of the last one that counts; the reverse direction begins there.
    masks: what zoneout and recurrent dropout drew, from ``draw_masks``; without them both take their expectation.
    name: of the caller, for messages.

    Raises:
        TypeError: types differ or are not floating point.
        ValueError: a shape does not fit, or a length is not 1 to T.
    """
    check_layer(name, x, h0, c0, weights, what)
    counts = None if lengths is None else checked_lengths(name, lengths, x.data.shape[0], x.data.shape[1])
    if masks is None:
        what = in_evaluation(what)
    if not what.fused:
        return composed(x, h0, c0, weights, what, counts, cells, masks)
    flat = [piece for direction in weights for piece in direction]
    y, hn, *rest = RecurrentLayer.apply(x, h0, c0, counts, what, cells and what.cells, *flat)
    if not what.cells:
        return y, hn, None, None
    return y, hn, rest[0], rest[1] if cells else None


def _boxed(saved: Any) -> np.ndarray:
    """What a kernel set keeps for itself as an array of one object: freed as soon as the sweep has used it."""
    box = np.empty(1, object)
    box[0] = saved
    return box


def _data(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.data


def _wrapped(array: np.ndarray | None) -> Tensor | None:
    return None if array is None else wrap(array)


def _weights(flat: Sequence[Tensor | None]) -> list[Weights]:
    """The weights of each direction as arrays."""
    return _regrouped([_data(piece) for piece in flat])


def _regrouped(flat: Sequence[Any]) -> list[Weights]:
    return [Weights(*flat[first : first + _FIELDS]) for first in range(0, len(flat), _FIELDS)]


def _named(upstream: Sequence[Tensor | None], what: Recurrence, cells: bool) -> tuple[Tensor | None, ...]:
    """The gradients to y, hn, cn and the cell states; the outputs that are not there have none."""
    gy, ghn, *rest = upstream
    return gy, ghn, rest[0] if what.cells else None, rest[1] if cells else None
