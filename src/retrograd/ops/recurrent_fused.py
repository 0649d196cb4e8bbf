"""The fused recurrent layer, one kernel for all its steps, and its gradient: fused too, or composed of operators.

The equations stand in ``textbook/recurrent.py``, forward and backward.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import is_grad_enabled, is_graph_kept
from ..engine.sweep import grad
from ..engine.tensor import Tensor, wrap
from ..recurrence import Recurrence, Weights
from .kernel_set import kernels
from .recurrent_arguments import weight_shapes
from .recurrent_composed import Masks, composed
from .shape import Reshape

__all__ = [
    "RecurrentLayer", "array", "boxed", "composed_grad", "flattened", "heard", "named", "regrouped",
    "weight_arrays", "wrapped",
]  # fmt: skip


class RecurrentLayer(Function):
    """All steps of a layer in all its directions; see ``recurrent_layer``.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None -> y (T, N, D*O), hn (D, N, O), of an LSTM cn (D, N, H), and if
    they are asked for its cell states (T, N, D*H)

    The gradients flow through time whichever of them are wanted: to x or h0 with frozen weights, too.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h0: Tensor | None, c0: Tensor | None, lengths: np.ndarray | None, what: Recurrence,
        cells: bool, *flat: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        save = any(ctx.needs_input_grad)
        *outputs, saved = kernels.recurrent(
            x.array, array(h0), array(c0), weight_arrays(flat, what), lengths, what, save, cells
        )
        if save:
            # the kernels may give y out of what they keep: a change of it in place must be noticed
            kept = outputs[0] if outputs[0].base is not None else None
            ctx.save_for_backward(x, h0, c0, boxed(saved), kept, *flat)
            ctx.options = (lengths, what, cells)
            ctx.set_materialize_grads(False)
        return tuple([wrap(array) for array in outputs if array is not None])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        """The fused gradient, or the composed one where it must be differentiable."""
        x, h0, c0, saved, _, *flat = ctx.saved_tensors
        lengths, what, cells = ctx.options
        wanted = ctx.needs_input_grad
        if is_grad_enabled():
            return composed_grad(upstream, x, h0, c0, flat, what, lengths, cells, wanted)
        gy, ghn, gcn, gcells = named(upstream, what, cells)
        of_weights, forward = any(wanted[6:]), saved[0]
        if last := not is_graph_kept():
            ctx.free()  # now, since the sweep may fail before it does: what was saved will be written over
        gx, gh0, gc0, found = kernels.recurrent_grad(
            array(gy), array(ghn), array(gcn), array(gcells), x.array, array(h0), array(c0), weight_arrays(flat, what),
            lengths, what, forward, (wanted[0], wanted[1], wanted[2], of_weights), last,
        )  # fmt: skip
        pieces = flattened(found, what) if of_weights else [None] * len(flat)
        return (
            wrapped(gx), wrapped(gh0), wrapped(gc0), None, None, None,
            *[wrapped(piece) if want else None for piece, want in zip(pieces, wanted[6:], strict=True)],
        )  # fmt: skip


def composed_grad(
    upstream: Sequence[Tensor | None], x: Tensor, h0: Tensor | None, c0: Tensor | None, flat: Sequence[Tensor],
    what: Recurrence, lengths: np.ndarray | None, cells: bool, wanted: Sequence[bool], masks: Masks | None = None,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """The gradients of a layer by running the composed layer again: they are differentiable themselves.

    The layer runs on aliases of the arguments, so that where one depends on another (an initial state made from x) each
    gets its own gradient only.
    """
    arguments = [x, h0, c0, None, None, None, *flat]
    own: list[Any] = [t if t is None else Reshape.apply(t, t.array.shape) for t in arguments]
    outputs = composed(own[0], own[1], own[2], regrouped(own[6:], what), what, lengths, cells, masks)
    some = heard([y for y in outputs if y is not None], upstream)
    places = [place for place, want in enumerate(wanted) if want]
    result: list[Tensor | None] = [None] * len(arguments)
    if some:
        roots, gradients = [y for y, _ in some], [g for _, g in some]
        found = grad(roots, [own[place] for place in places], gradients, create_graph=True, allow_unused=True)
        for place, gradient in zip(places, found, strict=True):
            result[place] = gradient
    return tuple(result)


def heard(
    outputs: Sequence[Tensor | None], upstream: Sequence[Tensor | None]
) -> list[tuple[Tensor, Tensor]]:
    """The outputs that have an upstream gradient and depend on what is wanted."""
    pairs = zip(outputs, upstream, strict=True)
    return [(y, g) for y, g in pairs if y is not None and g is not None and y.requires_grad]


def boxed(saved: Any) -> np.ndarray:
    """What a kernel set keeps for itself as an array of one object: freed as soon as the sweep has used it."""
    box = np.empty(1, object)
    box[0] = saved
    return box


def array(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.array


def wrapped(array: np.ndarray | None) -> Tensor | None:
    return None if array is None else wrap(array)


@lru_cache(maxsize=4096)
def _places(what: Recurrence) -> tuple[int, ...]:
    """Which of the fields of Weights the layer has."""
    return tuple(place for place, shape in enumerate(weight_shapes(what)) if shape is not None)


def flattened(weights: Sequence[Weights], what: Recurrence) -> list[Any]:
    """The weights that there are, of all directions in a row: fewer arguments make a shorter call."""
    places = _places(what)
    return [direction[place] for direction in weights for place in places]


def regrouped(flat: Sequence[Any], what: Recurrence) -> list[Weights]:
    """What was ``flattened``, of each direction."""
    places, weights = _places(what), []
    count = len(places)
    if places[-1] == count - 1:  # the first fields: the others are None
        return [Weights(*flat[first : first + count]) for first in range(0, len(flat), count)]
    for first in range(0, len(flat), count):
        fields: list[Any] = [None] * len(Weights._fields)
        for place, piece in zip(places, flat[first : first + count], strict=True):
            fields[place] = piece
        weights.append(Weights(*fields))
    return weights


def weight_arrays(flat: Sequence[Tensor], what: Recurrence) -> list[Weights]:
    """The weights of each direction as arrays."""
    return regrouped([piece.array for piece in flat], what)


def named(upstream: Sequence[Tensor | None], what: Recurrence, cells: bool) -> tuple[Tensor | None, ...]:
    """The gradients to y, hn, cn and the cell states; the outputs that are not there have none."""
    gy, ghn, *rest = upstream
    return gy, ghn, rest[0] if what.cells else None, rest[1] if cells else None
