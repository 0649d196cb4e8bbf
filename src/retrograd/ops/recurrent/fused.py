"""The fused recurrent layer, one kernel for all its steps, and its gradient, fused or composed of operators.

``kernels/textbook/recurrent.py`` has all steps, forward and backward, in NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...arrays import empty
from ...engine.backward_pass import grad
from ...engine.function import Function
from ...engine.grad_mode import is_grad_enabled, is_graph_kept
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ...specs.recurrence import Recurrence, Weights
from ..shape.shape import Reshape
from .arguments import weight_shapes
from .composed import Masks, composed

__all__ = [
    "RecurrentLayer",
    "array",
    "boxed",
    "composed_grad",
    "flattened",
    "named",
    "regrouped",
    "weight_arrays",
    "wrapped",
]


class RecurrentLayer(Function):
    """All steps of a layer in all its directions; see ``recurrent_layer``.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None -> y (T, N, D*O), hn (D, N, O), of an LSTM cn (D, N, H) and with
    ``cells`` its cell states (T, N, D*H)

    Gradients flow through time also with frozen weights, to x or h0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h0: Tensor | None,
        c0: Tensor | None,
        lengths: np.ndarray | None,
        spec: Recurrence,
        cells: bool,
        *flat: Tensor,
    ) -> tuple[Tensor, ...]:
        save = any(ctx.needs_input_grad)
        y, hn, cn, all_cells, saved = kernels.recurrent(
            x.array, array(h0), array(c0), weight_arrays(flat, spec), lengths, spec, save, cells
        )
        if save:
            # y may be a view of what the kernels save: a change in place must be noticed
            kept = y if y.base is not None else None
            ctx.save_for_backward(x, h0, c0, boxed(saved), kept, *flat)
            ctx.options = (lengths, spec, cells)
            ctx.set_materialize_grads(False)
        return tuple([wrap(array) for array in (y, hn, cn, all_cells) if array is not None])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        """The fused gradient, or the composed one where it must be differentiable."""
        x, h0, c0, saved, _, *flat = ctx.saved_tensors
        lengths, spec, cells = ctx.options
        wanted, upstream = ctx.needs_input_grad, named(upstream, spec, cells)
        if is_grad_enabled():
            return composed_grad(upstream, x, h0, c0, flat, spec, lengths, cells, wanted)
        gy, ghn, gcn, gcells = map(array, upstream)
        of_weights, forward = any(wanted[6:]), saved[0]
        if last := not is_graph_kept():
            ctx.free()  # the kernel overwrites what was saved, and the sweep may fail before it frees it
        gx, gh0, gc0, found = kernels.recurrent_grad(
            gy,
            ghn,
            gcn,
            gcells,
            x.array,
            array(h0),
            array(c0),
            weight_arrays(flat, spec),
            lengths,
            spec,
            forward,
            (wanted[0], wanted[1], wanted[2], of_weights),
            last,
        )
        pieces = [None] * len(flat) if found is None else flattened(found, spec)
        return (
            wrapped(gx),
            wrapped(gh0),
            wrapped(gc0),
            None,
            None,
            None,
            *[wrapped(piece) if want else None for piece, want in zip(pieces, wanted[6:], strict=True)],
        )


def composed_grad(
    upstream: Sequence[Tensor | None],
    x: Tensor,
    h0: Tensor | None,
    c0: Tensor | None,
    flat: Sequence[Tensor],
    spec: Recurrence,
    lengths: np.ndarray | None,
    cells: bool,
    wanted: Sequence[bool],
    masks: Masks | None = None,
    create_graph: bool = True,
) -> tuple[Tensor | None, ...]:
    """The gradients of a layer by running the composed layer again; they are differentiable.

    upstream: to y, hn, cn and the cell states. wanted: for x, h0, c0, three that are not Tensors, and ``flat``.

    The layer runs on aliases of the arguments, so that if one depends on another (an initial state made from x), each
    gets only its direct gradient.
    """
    arguments = [x, h0, c0, None, None, None, *flat]
    own: list[Any] = [t if t is None else Reshape.apply(t, t.array.shape) for t in arguments]
    outputs = composed(own[0], own[1], own[2], regrouped(own[6:], spec), spec, lengths, cells, masks)
    pairs = zip(outputs, upstream, strict=True)
    used = [(y, g) for y, g in pairs if y is not None and g is not None and y.requires_grad]
    places = [place for place, want in enumerate(wanted) if want]
    result: list[Tensor | None] = [None] * len(arguments)
    if used:
        roots, gradients = [y for y, _ in used], [g for _, g in used]
        found = grad(roots, [own[place] for place in places], gradients, create_graph=create_graph, allow_unused=True)
        for place, gradient in zip(places, found, strict=True):
            result[place] = gradient
    return tuple(result)


def boxed(saved: Any) -> np.ndarray:
    """Wrap the state that a kernel set saves in an array of one object, which is freed once the sweep has used it."""
    box = empty(1, object)
    box[0] = saved
    return box


def array(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.array


def wrapped(array: np.ndarray | None) -> Tensor | None:
    return None if array is None else wrap(array)


@lru_cache(maxsize=4096)
def _places(spec: Recurrence) -> tuple[int, ...]:
    """The indices of the fields of Weights that the layer has."""
    return tuple(place for place, shape in enumerate(weight_shapes(spec)) if shape is not None)


def flattened(weights: Sequence[Weights], spec: Recurrence) -> list[Any]:
    """The weights of all directions in one list, without None: fewer arguments make a faster call."""
    places = _places(spec)
    return [direction[place] for direction in weights for place in places]


def regrouped(flat: Sequence[Any], spec: Recurrence) -> list[Weights]:
    """The Weights of each direction: the inverse of ``flattened``."""
    places, weights = _places(spec), []
    count = len(places)
    if places[-1] == count - 1:  # the first fields: the others are None
        return [Weights(*flat[first : first + count]) for first in range(0, len(flat), count)]
    for first in range(0, len(flat), count):
        fields: list[Any] = [None] * len(Weights._fields)
        for place, piece in zip(places, flat[first : first + count], strict=True):
            fields[place] = piece
        weights.append(Weights(*fields))
    return weights


def weight_arrays(flat: Sequence[Tensor], spec: Recurrence) -> list[Weights]:
    """The weights of each direction as arrays."""
    return regrouped([piece.array for piece in flat], spec)


def named(upstream: Sequence[Tensor | None], spec: Recurrence, cells: bool) -> tuple[Tensor | None, ...]:
    """The gradients to y, hn, cn and the cell states; None for those that the layer does not return."""
    gy, ghn, *rest = upstream
    return gy, ghn, rest[0] if spec.cells else None, rest[1] if cells else None
