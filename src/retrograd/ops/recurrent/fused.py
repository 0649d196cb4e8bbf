"""Fused recurrent layers: one kernel for all steps, or checkpointed segments.

``kernels/textbook/recurrent.py`` implements all steps, forward and backward, in NumPy.

With T steps in segments of k, memory holds T/k states and the saved arrays of one segment; with k = sqrt(T), both
grow like sqrt(T). A segment is computed by the fused kernels, or composed of operators if the kernels lack an option.
The masks of zoneout and dropout are saved, so that recomputation repeats the forward pass.

Source: T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, arXiv:1604.06174; A. Gruslys et al.,
"Memory-Efficient Backpropagation Through Time", 2016, arXiv:1606.03401.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...arrays import empty, empty_like, zeros, zeros_like
from ...engine.backward_pass import grad
from ...engine.function import Function
from ...engine.grad_mode import enable_grad, is_grad_enabled, is_graph_retained
from ...engine.tensor import Tensor, wrap
from ...kernel_set import kernels
from ...specs.recurrence import Recurrence, Weights
from ..shape.shape import Reshape
from .arguments import weight_shapes
from .composed import Masks, composed

__all__ = [
    "CheckpointedLayer",
    "RecurrentLayer",
    "RecurrentStep",
    "array",
    "in_object_array",
    "composed_grad",
    "flattened",
    "upstream_by_output",
    "regrouped",
    "weight_arrays",
    "wrapped",
]


Array = np.ndarray | None

# ---- Fused recurrent layer: one kernel for all steps ----------------------------------------------------------------


class RecurrentLayer(Function):
    """All steps of a layer in all directions; see ``recurrent_layer``.

    x (T, N, I), h0 (D, N, O) and c0 (D, N, H) or None -> y (T, N, D*O), hn (D, N, O), for an LSTM cn (D, N, H),
    and with ``cells`` its cell states (T, N, D*H)

    Gradients flow through time to x or h0 even if the weights are frozen.
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
            # y may be a view of what the kernels save, so in-place changes must be detected
            kept = y if y.base is not None else None
            ctx.save_for_backward(x, h0, c0, in_object_array(saved), kept, *flat)
            ctx.options = (lengths, spec, cells)
            ctx.set_materialize_grads(False)
        return tuple([wrap(array) for array in (y, hn, cn, all_cells) if array is not None])

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        """Compute the fused gradient, or the composed one if it must be differentiable."""
        x, h0, c0, saved, _, *flat = ctx.saved_tensors
        lengths, spec, cells = ctx.options
        needs_grad, upstream = ctx.needs_input_grad, upstream_by_output(upstream, spec, cells)
        if is_grad_enabled():
            return composed_grad(upstream, x, h0, c0, flat, spec, lengths, cells, needs_grad)
        (gy, ghn, gcn, gcells), forward, last = map(array, upstream), saved[0], _is_last(ctx)
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
            (*needs_grad[:3], any(needs_grad[6:])),
            last,
        )
        return *map(wrapped, (gx, gh0, gc0)), None, None, None, *_of_weights(found, spec, needs_grad[6:])


class RecurrentStep(Function):
    """One step of a layer with one direction, for all sequences at once; see ``recurrent_step``.

    x (N, I), h (N, O) and c (N, H) or None -> h and, for an LSTM, c
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, h: Tensor | None, c: Tensor | None, spec: Recurrence, *flat: Tensor) -> Any:
        save = any(ctx.needs_input_grad)
        sequence, weights = _in_sequence(x), weight_arrays(flat, spec)
        _, hn, cn, _, saved = kernels.recurrent(
            sequence, _in_sequence(h), _in_sequence(c), weights, None, spec, save, False
        )
        if save:
            ctx.save_for_backward(x, h, c, in_object_array(saved), *flat)
            ctx.options = (None, spec, False)
            ctx.set_materialize_grads(False)
        now = wrap(hn.reshape(hn.shape[1:]))
        return now if cn is None else (now, wrap(cn.reshape(cn.shape[1:])))

    @staticmethod
    def backward(ctx: Any, gh: Tensor | None, gc: Tensor | None = None) -> tuple[Tensor | None, ...]:
        """Compute the fused gradient, or the composed one if it must be differentiable."""
        x, h, c, saved, *flat = ctx.saved_tensors
        needs_grad, spec = ctx.needs_input_grad, ctx.options[1]
        if is_grad_enabled():
            up_h, up_c, h, c = (None if t is None else stacked(t) for t in (gh, gc, h, c))
            needs = (*needs_grad[:3], False, False, False, *needs_grad[4:])
            several = composed_grad((None, up_h, up_c, None), stacked(x), h, c, flat, spec, None, False, needs)
            return *[None if g is None else of_stack(g) for g in several[:3]], None, *several[6:]
        forward, last = saved[0], _is_last(ctx)
        *found, weights = kernels.recurrent_grad(
            None,
            _in_sequence(gh),
            _in_sequence(gc),
            None,
            _in_sequence(x),
            _in_sequence(h),
            _in_sequence(c),
            weight_arrays(flat, spec),
            None,
            spec,
            forward,
            (*needs_grad[:3], any(needs_grad[4:])),
            last,
        )
        of_arguments = [None if g is None else wrap(g.reshape(g.shape[1:])) for g in found]
        return *of_arguments, None, *_of_weights(weights, spec, needs_grad[4:])


def stacked(x: Tensor) -> Tensor:
    """Return x with a first axis of one element: the only step, or the only direction."""
    return Reshape.apply(x, (1, *x.array.shape))


def of_stack(x: Tensor) -> Tensor:
    """Return x without its first axis."""
    return Reshape.apply(x, x.array.shape[1:])


def _in_sequence(x: Tensor | None) -> Any:
    """Return the array of ``stacked(x)``."""
    return None if x is None else x.array.reshape(1, *x.array.shape)


def _is_last(ctx: Any) -> bool:
    """Return whether no other backward pass follows; if so, free the saved tensors.

    The kernel then overwrites the saved arrays, and the backward pass may fail before freeing them.
    """
    if is_graph_retained():
        return False
    ctx.free()
    return True


def _of_weights(found: list[Weights] | None, spec: Recurrence, needs_grad: Sequence[bool]) -> list[Tensor | None]:
    """Return the gradients of the weights that need one, in the order of the arguments."""
    pieces = [None] * len(needs_grad) if found is None else flattened(found, spec)
    return [wrapped(piece) if needs else None for piece, needs in zip(pieces, needs_grad, strict=True)]


def composed_grad(
    upstream: Sequence[Tensor | None],
    x: Tensor,
    h0: Tensor | None,
    c0: Tensor | None,
    flat: Sequence[Tensor],
    spec: Recurrence,
    lengths: np.ndarray | None,
    cells: bool,
    needs_grad: Sequence[bool],
    masks: Masks | None = None,
    create_graph: bool = True,
) -> tuple[Tensor | None, ...]:
    """Compute differentiable gradients of a layer by running the composed layer again.

    upstream: the gradients of y, hn, cn and the cell states. wanted: a flag for each of x, h0, c0, three arguments
    that are not Tensors, and ``flat``.

    The layer runs on aliases of the arguments, so that if one depends on another (an initial state made from x), each
    gets only its direct gradient.
    """
    arguments = [x, h0, c0, None, None, None, *flat]
    own: list[Any] = [t if t is None else Reshape.apply(t, t.array.shape) for t in arguments]
    outputs = composed(own[0], own[1], own[2], regrouped(own[6:], spec), spec, lengths, cells, masks)
    pairs = zip(outputs, upstream, strict=True)
    used = [(y, g) for y, g in pairs if y is not None and g is not None and y.requires_grad]
    places = [place for place, needs in enumerate(needs_grad) if needs]
    result: list[Tensor | None] = [None] * len(arguments)
    if used:
        roots, gradients = [y for y, _ in used], [g for _, g in used]
        found = grad(roots, [own[place] for place in places], gradients, create_graph=create_graph, allow_unused=True)
        for place, gradient in zip(places, found, strict=True):
            result[place] = gradient
    return tuple(result)


def in_object_array(saved: Any) -> np.ndarray:
    """Wrap the state saved by a kernel set in an array of one object, so that backward can free it after use."""
    box = empty(1, object)
    box[0] = saved
    return box


def array(tensor: Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.array


def wrapped(array: np.ndarray | None) -> Tensor | None:
    return None if array is None else wrap(array)


@lru_cache(maxsize=4096)
def _places(spec: Recurrence) -> tuple[int, ...]:
    """Return the indices of the fields of Weights that the layer has."""
    return tuple(place for place, shape in enumerate(weight_shapes(spec)) if shape is not None)


def flattened(weights: Sequence[Weights], spec: Recurrence) -> list[Any]:
    """Return the weights of all directions in one list, without None. Fewer arguments make calls faster."""
    places = _places(spec)
    return [direction[place] for direction in weights for place in places]


def regrouped(flat: Sequence[Any], spec: Recurrence) -> list[Weights]:
    """Return the Weights of each direction: the inverse of ``flattened``."""
    places, weights = _places(spec), []
    count = len(places)
    if places[-1] == count - 1:  # the first fields; the others are None
        return [Weights(*flat[first : first + count]) for first in range(0, len(flat), count)]
    for first in range(0, len(flat), count):
        fields: list[Any] = [None] * len(Weights._fields)
        for place, piece in zip(places, flat[first : first + count], strict=True):
            fields[place] = piece
        weights.append(Weights(*fields))
    return weights


def weight_arrays(flat: Sequence[Tensor], spec: Recurrence) -> list[Weights]:
    """Return the weights of each direction as arrays."""
    return regrouped([piece.array for piece in flat], spec)


def upstream_by_output(upstream: Sequence[Tensor | None], spec: Recurrence, cells: bool) -> tuple[Tensor | None, ...]:
    """Return the gradients of y, hn, cn and the cell states, or None for those that the layer does not return."""
    gy, ghn, *rest = upstream
    return gy, ghn, rest[0] if spec.cells else None, rest[1] if cells else None


# ---- Checkpointed recurrent layer -----------------------------------------------------------------------------------


class _Segment(NamedTuple):
    """Some steps of one direction, run in forward and again in backward: x (k, N, I), h (1, N, O), c (1, N, H)."""

    x: np.ndarray
    h: Array
    c: Array
    weights: Weights
    lengths: Array
    spec: Recurrence
    cells: bool
    masks: Masks | None
    fused: bool

    def run(self) -> Sequence[Array]:
        """Return y, hn, cn and the cell states."""
        x, h, c, weights, lengths, spec, cells, masks, fused = self
        if fused:
            return kernels.recurrent(x, h, c, [weights], lengths, spec, False, cells)[:4]
        tensors = Weights(*map(wrapped, weights))
        return [array(y) for y in composed(wrap(x), wrapped(h), wrapped(c), [tensors], spec, lengths, cells, masks)]

    def gradient(self, upstream: Sequence[Array], of_x: bool, of_weights: Weights) -> tuple[Any, ...]:
        """Return the gradients of x, h, c and the weights, or None for those not requested.

        upstream: the gradients of the results of ``run``. of_weights: a bool for each field.
        """
        x, h, c, weights, lengths, spec, cells, masks, fused = self
        if fused:
            *_, saved = kernels.recurrent(x, h, c, [weights], lengths, spec, True, cells)
            needed = (of_x, True, spec.cells, any(of_weights))
            gy, ghn, gcn, gcells = upstream
            gx, gh, gc, pieces = kernels.recurrent_grad(
                gy, ghn, gcn, gcells, x, h, c, [weights], lengths, spec, saved, needed, True
            )
            return gx, gh, gc, pieces and pieces[0]
        leaves: list[Any] = [wrapped(a) for a in (x, h, c, None, None, None, *flattened([weights], spec))]
        needs_grad = [of_x, h is not None, c is not None, False, False, False, *flattened([of_weights], spec)]
        for leaf, needs in zip(leaves, needs_grad, strict=True):
            if leaf is not None:
                leaf.requires_grad = needs
        gs = [wrapped(g) for g in upstream]
        with enable_grad():
            found = composed_grad(
                gs, leaves[0], leaves[1], leaves[2], leaves[6:], spec, lengths, cells, needs_grad, masks, False
            )
        result = [
            zeros_like(leaf.array) if needs and g is None else array(g)
            for leaf, needs, g in zip(leaves, needs_grad, found, strict=True)
        ]
        return *result[:3], regrouped(result[6:], spec)[0]


class CheckpointedLayer(Function):
    """A recurrent layer that saves only the states at the start of each segment of ``every`` steps."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h0: Tensor | None,
        c0: Tensor | None,
        lengths: Array,
        spec: Recurrence,
        cells: bool,
        masks: Masks | None,
        every: int,
        fused: bool,
        *flat: Tensor,
    ) -> tuple[Tensor, ...]:
        (steps, batch, _), dtype = x.array.shape, x.array.dtype
        y = empty((steps, batch, spec.directions * spec.output), dtype, like=x.array)
        hn = empty((spec.directions, batch, spec.output), dtype, like=x.array)
        cn = empty((spec.directions, batch, spec.hidden), dtype, like=x.array) if spec.cells else None
        states = empty((steps, batch, spec.directions * spec.hidden), dtype, like=x.array) if cells else None
        kept = []
        for d, weights in enumerate(weight_arrays(flat, spec)):
            h: Any = _part(array(h0), d)
            c: Any = _part(array(c0), d)
            for steps_of in _segments(steps, every, spec.reverse[d]):
                kept.append((h, c))
                segment = _segment(x, h, c, weights, lengths, spec, cells, masks, fused, d, steps_of)
                part, h, c, states_part = segment.run()
                assert part is not None
                kernels.copy(y[steps_of, :, _columns(d, spec.output)], part)
                if states is not None:
                    assert states_part is not None
                    kernels.copy(states[steps_of, :, _columns(d, spec.hidden)], states_part)
            kernels.copy(hn[d], h[0])
            if cn is not None:
                kernels.copy(cn[d], c[0])
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, h0, c0, in_object_array(kept), *flat)
            ctx.options = (lengths, spec, cells, masks, every, fused)
            ctx.set_materialize_grads(False)
        return tuple(wrap(output) for output in (y, hn, cn, states) if output is not None)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        """Compute the gradient segment by segment, last first, or the composed one if it must be differentiable."""
        x, h0, c0, kept, *flat = ctx.saved_tensors
        lengths, spec, cells, masks, every, fused = ctx.options
        needs_grad, of_weights = ctx.needs_input_grad[:3], ctx.needs_input_grad[9:]
        upstream = upstream_by_output(upstream, spec, cells)
        if is_grad_enabled():
            needed = (*needs_grad, False, False, False, *of_weights)
            found = composed_grad(upstream, x, h0, c0, flat, spec, lengths, cells, needed, masks)
            return *found[:6], None, None, None, *found[6:]
        gy, ghn, gcn, gcells = map(array, upstream)
        gx = empty_like(x.array) if needs_grad[0] else None
        if gx is not None:
            kernels.copy(gx, zeros((), gx.dtype, like=gx))
        gh0, gc0 = (
            zeros_like(state.array) if needs else None for state, needs in ((h0, needs_grad[1]), (c0, needs_grad[2]))
        )
        states = iter(reversed(kept[0]))
        weights_need_grad = regrouped(of_weights, spec)
        pieces: list[Weights] = []
        for d, weights in reversed(list(enumerate(weight_arrays(flat, spec)))):
            gh: Any = _part(ghn, d)
            gc: Any = _part(gcn, d)
            total: list[Any] = [None] * len(weights)
            for steps_of in reversed(list(_segments(x.array.shape[0], every, spec.reverse[d]))):
                h, c = next(states)
                segment = _segment(x, h, c, weights, lengths, spec, cells, masks, fused, d, steps_of)
                of_steps = _cut(gy, steps_of, d, spec.output), gh, gc, _cut(gcells, steps_of, d, spec.hidden)
                gx_part, gh, gc, gweights = segment.gradient(of_steps, needs_grad[0], weights_need_grad[d])
                if gx is not None:
                    kernels.accumulate(gx[steps_of], gx_part)
                if gweights is not None:
                    pairs = zip(total, gweights, strict=True)
                    total = [new if old is None else kernels.add(old, new) for old, new in pairs]
            pieces.insert(0, Weights(*total))
            if gh0 is not None:
                kernels.copy(gh0[d], gh[0])
            if gc0 is not None:
                kernels.copy(gc0[d], gc[0])
        found_weights = zip(flattened(pieces, spec), of_weights, strict=True)
        return (
            wrapped(gx),
            wrapped(gh0),
            wrapped(gc0),
            None,
            None,
            None,
            None,
            None,
            None,
            *[wrapped(piece) if needs else None for piece, needs in found_weights],
        )


def _segment(
    x: Tensor,
    h: Array,
    c: Array,
    weights: Weights,
    lengths: Array,
    spec: Recurrence,
    cells: bool,
    masks: Masks | None,
    fused: bool,
    d: int,
    steps_of: slice,
) -> _Segment:
    """Return the steps of a direction, with their part of the lengths and masks."""
    if masks is not None:
        of_direction = [None if mask is None else mask.array[d : d + 1] for mask in masks]
        parts = [of_direction[0], *[None if mask is None else mask[:, steps_of] for mask in of_direction[1:]]]
        masks = Masks(*map(wrapped, parts))
    ends, own = _lengths_within(lengths, steps_of), _direction(spec, d)
    return _Segment(x.array[steps_of], h, c, weights, ends, own, cells, masks, fused)


@lru_cache(maxsize=1024)
def _direction(spec: Recurrence, d: int) -> Recurrence:
    return replace(spec, reverse=(spec.reverse[d],))


def _segments(steps: int, every: int, reverse: bool) -> Iterator[slice]:
    """Return the segments in the order in which a direction computes them."""
    if not reverse:
        yield from (slice(first, min(first + every, steps)) for first in range(0, steps, every))
    else:
        yield from (slice(max(last - every, 0), last) for last in range(steps, 0, -every))


def _lengths_within(lengths: Array, steps_of: slice) -> Array:
    """Return the lengths within a segment: from 0 to all of its steps."""
    if lengths is None:
        return None
    return kernels.lengths_within(lengths, steps_of.start, steps_of.stop)


def _columns(d: int, width: int) -> slice:
    return slice(d * width, (d + 1) * width)


def _cut(g: Array, steps_of: slice, d: int, width: int) -> Array:
    return None if g is None else g[steps_of, :, _columns(d, width)]


def _part(state: Array, d: int) -> Array:
    """Return the state of a direction, or its gradient."""
    return None if state is None else state[d : d + 1]
