"""A recurrent layer that keeps its states at the ends of segments, and computes a segment again for its gradient.

Of T steps in segments of k, T/k states are kept, and one segment with all that backward needs: with k = sqrt(T) both
grow like sqrt(T).

Source: T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016, arXiv:1604.06174; A. Gruslys et al.,
"Memory-Efficient Backpropagation Through Time", 2016, arXiv:1606.03401.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..engine.function import Function
from ..engine.grad_mode import is_grad_enabled
from ..engine.tensor import Tensor, wrap
from ..recurrence import Recurrence, Weights
from .kernel_set import kernels
from .recurrent_fused import array, boxed, composed_grad, flattened, named, weight_arrays, wrapped

__all__ = ["CheckpointedLayer"]

Array = np.ndarray | None


class CheckpointedLayer(Function):
    """``RecurrentLayer``, of which only the states at the beginning of every segment of ``every`` steps are kept."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h0: Tensor | None, c0: Tensor | None, lengths: Array, what: Recurrence, cells: bool,
        every: int, *flat: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        (steps, batch, _), dtype = x.data.shape, x.data.dtype
        y = np.empty((steps, batch, what.directions * what.output), dtype)
        hn = np.empty((what.directions, batch, what.output), dtype)
        cn = np.empty((what.directions, batch, what.hidden), dtype) if what.cells else None
        states = np.empty((steps, batch, what.directions * what.hidden), dtype) if cells else None
        kept = []
        for d, weights in enumerate(weight_arrays(flat, what)):
            one = _direction(what, d)
            h: Any = _state(h0, d)
            c: Any = _state(c0, d)
            for steps_of in _segments(steps, every, what.reverse[d]):
                kept.append((h, c))
                y_part, h, c, states_part, _ = kernels.recurrent(
                    x.data[steps_of], h, c, [weights], _within(lengths, steps_of), one, False, cells
                )
                y[steps_of, :, _columns(d, what.output)] = y_part
                if states is not None:
                    states[steps_of, :, _columns(d, what.hidden)] = states_part
            hn[d] = h[0]
            if cn is not None:
                cn[d] = c[0]
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, h0, c0, boxed(kept), *flat)
            ctx.options = (lengths, what, cells, every)
            ctx.set_materialize_grads(False)
        return tuple(wrap(output) for output in (y, hn, cn, states) if output is not None)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        """Segment by segment from the last one; the composed gradient where it must be differentiable."""
        x, h0, c0, kept, *flat = ctx.saved_tensors
        lengths, what, cells, every = ctx.options
        wanted = (*ctx.needs_input_grad[:6], *ctx.needs_input_grad[7:])
        if is_grad_enabled():
            found = composed_grad(upstream, x, h0, c0, flat, what, lengths, cells, wanted)
            return *found[:6], None, *found[6:]
        gy, ghn, gcn, gcells = (array(g) for g in named(upstream, what, cells))
        gx = np.zeros_like(x.data) if wanted[0] else None
        gh0, gc0 = (np.zeros_like(state.data) if want else None for state, want in ((h0, wanted[1]), (c0, wanted[2])))
        states = iter(reversed(kept[0]))
        pieces: list[Weights] = []
        for d, weights in reversed(list(enumerate(weight_arrays(flat, what)))):
            one = _direction(what, d)
            gh: Any = _part(ghn, d)
            gc: Any = _part(gcn, d)
            total: list[Any] = [None] * len(weights)
            for steps_of in reversed(list(_segments(x.data.shape[0], every, what.reverse[d]))):
                h, c = next(states)
                arguments = (x.data[steps_of], h, c, [weights], _within(lengths, steps_of), one)
                *_, saved = kernels.recurrent(*arguments, True, cells)
                gx_part, gh, gc, of_weights = kernels.recurrent_grad(
                    _cut(gy, steps_of, d, what.output), gh, gc, _cut(gcells, steps_of, d, what.hidden), *arguments,
                    saved, (wanted[0], True, what.cells, any(wanted[6:])), True,
                )  # fmt: skip
                if gx is not None:
                    gx[steps_of] += gx_part
                if of_weights is not None:
                    pairs = zip(total, of_weights[0], strict=True)
                    total = [new if old is None else old + new for old, new in pairs]
            pieces.insert(0, Weights(*total))
            if gh0 is not None:
                gh0[d] = gh[0]
            if gc0 is not None:
                gc0[d] = gc[0]
        pairs = zip(flattened(pieces, what), wanted[6:], strict=True)
        gweights = [wrapped(piece) if want else None for piece, want in pairs]
        return wrapped(gx), wrapped(gh0), wrapped(gc0), None, None, None, None, *gweights


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
    return None if state is None else state.data[d : d + 1]


def _part(g: Array, d: int) -> Array:
    return None if g is None else g[d : d + 1]
