"""A recurrent layer that keeps its states at the ends of segments, and computes a segment again for its gradient.

Of T steps in segments of k, T/k states are kept, and one segment with all that backward needs: with k = sqrt(T) both
grow like sqrt(T). A segment is computed by the fused kernels or, where they lack an option, of operators; what zoneout
and dropout drew is kept, so that the second run is the first one again.

Source: T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, arXiv:1604.06174; A. Gruslys et al.,
"Memory-Efficient Backpropagation Through Time", 2016, arXiv:1606.03401.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import enable_grad, is_grad_enabled
from ..engine.sweep import grad
from ..engine.tensor import Tensor, wrap
from ..recurrence import Recurrence, Weights
from .kernel_set import kernels
from .recurrent_composed import Masks, composed
from .recurrent_fused import array, boxed, composed_grad, flattened, heard, named, regrouped, weight_arrays, wrapped

__all__ = ["CheckpointedLayer"]

Array = np.ndarray | None


class _Segment(NamedTuple):
    """Some steps of one direction: all that both of its runs are given. x (k, N, I), h (1, N, O), c (1, N, H)."""

    x: np.ndarray
    h: Array
    c: Array
    weights: Weights
    lengths: Array
    what: Recurrence
    cells: bool
    masks: Masks | None

    def run(self) -> Sequence[Array]:
        """y, hn, cn and the cell states."""
        x, h, c, weights, lengths, what, cells, masks = self
        if what.fused:
            return kernels.recurrent(x, h, c, [weights], lengths, what, False, cells)[:4]
        tensors = Weights(*map(wrapped, weights))
        return [array(y) for y in composed(wrap(x), wrapped(h), wrapped(c), [tensors], what, lengths, cells, masks)]

    def gradient(self, upstream: Sequence[Array], of_x: bool, of_weights: Sequence[bool]) -> tuple[Any, ...]:
        """The gradients to x, h, c and the weights, of those to what ``run`` returns; None for what is not wanted.

        of_weights: for each field of Weights.
        """
        x, h, c, weights, lengths, what, cells, masks = self
        if what.fused:
            arguments = (x, h, c, [weights], lengths, what)
            *_, saved = kernels.recurrent(*arguments, True, cells)
            wanted = (of_x, True, what.cells, any(of_weights))
            *found, pieces = kernels.recurrent_grad(*upstream, *arguments, saved, wanted, True)
            return *found, pieces and pieces[0]
        wants = (of_x, True, True, *of_weights)
        leaves: list[Any] = [wrapped(a) for a in (x, h, c, *weights)]
        for leaf, want in zip(leaves, wants, strict=True):
            if leaf is not None:
                leaf.requires_grad = want
        with enable_grad():
            outputs = composed(leaves[0], leaves[1], leaves[2], [Weights(*leaves[3:])], what, lengths, cells, masks)
        pairs = heard(outputs, [wrapped(g) for g in upstream])
        places = [n for n, leaf in enumerate(leaves) if leaf is not None and leaf.requires_grad]
        result: list[Array] = [None] * len(leaves)
        gs: Sequence[Tensor | None] = [None] * len(places)
        if pairs:
            gs = grad([y for y, _ in pairs], [leaves[n] for n in places], [g for _, g in pairs], allow_unused=True)
        for n, g in zip(places, gs, strict=True):
            result[n] = np.zeros_like(leaves[n].array) if g is None else g.array
        return *result[:3], Weights(*result[3:])


class CheckpointedLayer(Function):
    """A recurrent layer of which only the states at the beginning of every segment of ``every`` steps are kept."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h0: Tensor | None, c0: Tensor | None, lengths: Array, what: Recurrence, cells: bool,
        masks: Masks | None, every: int, *flat: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        (steps, batch, _), dtype = x.array.shape, x.array.dtype
        y = np.empty((steps, batch, what.directions * what.output), dtype)
        hn = np.empty((what.directions, batch, what.output), dtype)
        cn = np.empty((what.directions, batch, what.hidden), dtype) if what.cells else None
        states = np.empty((steps, batch, what.directions * what.hidden), dtype) if cells else None
        kept = []
        for d, weights in enumerate(weight_arrays(flat, what)):
            h: Any = _state(h0, d)
            c: Any = _state(c0, d)
            for steps_of in _segments(steps, every, what.reverse[d]):
                kept.append((h, c))
                segment = _segment(x, h, c, weights, lengths, what, cells, masks, d, steps_of)
                y[steps_of, :, _columns(d, what.output)], h, c, states_part = segment.run()
                if states is not None:
                    states[steps_of, :, _columns(d, what.hidden)] = states_part
            hn[d] = h[0]
            if cn is not None:
                cn[d] = c[0]
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, h0, c0, boxed(kept), *flat)
            ctx.options = (lengths, what, cells, masks, every)
            ctx.set_materialize_grads(False)
        return tuple(wrap(output) for output in (y, hn, cn, states) if output is not None)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        """Segment by segment from the last one; the composed gradient where it must be differentiable."""
        x, h0, c0, kept, *flat = ctx.saved_tensors
        lengths, what, cells, masks, every = ctx.options
        wanted, of_weights = ctx.needs_input_grad[:3], ctx.needs_input_grad[8:]
        if is_grad_enabled():
            asked = (*wanted, False, False, False, *of_weights)
            found = composed_grad(upstream, x, h0, c0, flat, what, lengths, cells, asked, masks)
            return *found[:6], None, None, *found[6:]
        gy, ghn, gcn, gcells = (array(g) for g in named(upstream, what, cells))
        gx = np.zeros_like(x.array) if wanted[0] else None
        gh0, gc0 = (np.zeros_like(state.array) if want else None for state, want in ((h0, wanted[1]), (c0, wanted[2])))
        states = iter(reversed(kept[0]))
        asked_of = regrouped(of_weights, what)
        pieces: list[Weights] = []
        for d, weights in reversed(list(enumerate(weight_arrays(flat, what)))):
            gh: Any = _part(ghn, d)
            gc: Any = _part(gcn, d)
            total: list[Any] = [None] * len(weights)
            for steps_of in reversed(list(_segments(x.array.shape[0], every, what.reverse[d]))):
                h, c = next(states)
                segment = _segment(x, h, c, weights, lengths, what, cells, masks, d, steps_of)
                of_steps = _cut(gy, steps_of, d, what.output), gh, gc, _cut(gcells, steps_of, d, what.hidden)
                gx_part, gh, gc, gweights = segment.gradient(of_steps, wanted[0], asked_of[d])
                if gx is not None:
                    gx[steps_of] += gx_part
                if gweights is not None:
                    pairs = zip(total, gweights, strict=True)
                    total = [new if old is None else old + new for old, new in pairs]
            pieces.insert(0, Weights(*total))
            if gh0 is not None:
                gh0[d] = gh[0]
            if gc0 is not None:
                gc0[d] = gc[0]
        found_weights = zip(flattened(pieces, what), of_weights, strict=True)
        return (
            wrapped(gx), wrapped(gh0), wrapped(gc0), None, None, None, None, None,
            *[wrapped(piece) if want else None for piece, want in found_weights],
        )  # fmt: skip


def _segment(
    x: Tensor, h: Array, c: Array, weights: Weights, lengths: Array, what: Recurrence, cells: bool,
    masks: Masks | None, d: int, steps_of: slice,
) -> _Segment:  # fmt: skip
    """The steps of a direction, with their part of the lengths and of what was drawn."""
    if masks is not None:
        of_direction = [None if mask is None else mask.array[d : d + 1] for mask in masks]
        parts = [of_direction[0], *[None if mask is None else mask[:, steps_of] for mask in of_direction[1:]]]
        masks = Masks(*map(wrapped, parts))
    return _Segment(x.array[steps_of], h, c, weights, _within(lengths, steps_of), _direction(what, d), cells, masks)


@lru_cache(maxsize=1024)
def _direction(what: Recurrence, d: int) -> Recurrence:
    return replace(what, reverse=(what.reverse[d],))


def _segments(steps: int, every: int, reverse: bool) -> Iterator[slice]:
    """In the order in which a direction computes them."""
    if not reverse:
        yield from (slice(first, min(first + every, steps)) for first in range(0, steps, every))
    else:
        yield from (slice(max(last - every, 0), last) for last in range(steps, 0, -every))


def _within(lengths: Array, steps_of: slice) -> Array:
    """What is left of the lengths in a segment: 0 to all of its steps."""
    if lengths is None:
        return None
    return np.clip(lengths - steps_of.start, 0, steps_of.stop - steps_of.start)


def _columns(d: int, width: int) -> slice:
    return slice(d * width, (d + 1) * width)


def _cut(g: Array, steps_of: slice, d: int, width: int) -> Array:
    return None if g is None else g[steps_of, :, _columns(d, width)]


def _state(state: Tensor | None, d: int) -> Array:
    return None if state is None else state.array[d : d + 1]


def _part(g: Array, d: int) -> Array:
    return None if g is None else g[d : d + 1]
