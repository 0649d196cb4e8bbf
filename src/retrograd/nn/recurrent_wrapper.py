"""Wrappers of recurrent cells: the loop over a sequence, a second direction, and changes to a step.

A cell is any module (or function) ``cell(x, state)``, with state None at first and N as the first axis of x and of
every state. It returns

    a Tensor            the new state, which is also the output, as RNNCell and GRUCell do;
    a tuple             the new state, whose first entry is also the output, as LSTMCell does;
    (output, state)     where the state is a tuple, or the cell has ``output_apart = True``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from ..arrays import any_true, arange, from_host, ones_like, zeros_like
from ..engine.arguments import kind_name
from ..engine.tensor import Tensor, wrap
from ..kernel_set import exact
from ..ops.argument_checks import require_tensor
from ..ops.index.selection import masked_fill
from ..ops.pointwise.piecewise import where
from ..ops.random.dropout import dropout
from ..ops.random.random import default_generator
from ..ops.recurrent.arguments import checked_lengths
from ..ops.shape.join import cat, stack
from ..ops.shape.shape import transpose
from ..ops.shape.splitting import unbind
from .layer import changed
from .module import Module
from .recurrent_cell import RNNCellBase
from .utils.truncated_bptt import like, masks_of, start_sequence

__all__ = ["Bidirectional", "ResidualCell", "Unroll", "VariationalDropoutCell", "ZoneoutCell"]


def output_and_state(cell: Any, result: Any) -> tuple[Tensor, Any]:
    """Return the result of a cell as (output, state); see the module docstring."""
    if isinstance(result, Tensor):
        return result, result
    if not isinstance(result, (tuple, list)) or not result or not isinstance(result[0], Tensor):
        raise TypeError(f"{_name(cell)} returned {type(result).__name__}, expected a Tensor or a tuple of Tensors")
    separate = getattr(cell, "output_apart", False) or (len(result) == 2 and isinstance(result[1], (tuple, list)))
    return (result[0], result[1]) if separate else (result[0], result)


def over_time(
    step: Callable[[Tensor, Any], tuple[Tensor, Any]],
    xs: Sequence[Tensor],
    state: Any,
    lengths: np.ndarray | None,
    reverse: bool,
) -> tuple[Tensor, Any]:
    """Run step(x, state) -> (y, state) at every time step; return y (T, N, ...) and the last state.

    A sequence that has ended keeps its state, and its y is 0.
    """
    ys: list[Any] = [None] * len(xs)
    times = range(len(xs))
    for t in reversed(times) if reverse else times:
        y, after = step(xs[t], state)
        ended = None if lengths is None else exact("le")(lengths, from_host(t, lengths.dtype))
        if ended is not None and any_true(ended, "whether a sequence has ended"):
            y = masked_fill(y, wrap(_broadcastable(ended, y)), 0.0)
            after = _keep_ended(ended, state, after)
        ys[t], state = y, after
    return stack(ys, 0), state


def sequence(name: str, input: Any, batch_first: bool, lengths: Any) -> tuple[Tensor, np.ndarray | None]:
    """Return input as (T, N, ...) with zeros past the lengths, and the lengths; with batch_first it is (N, T, ...).

    Raises:
        TypeError: input is not a Tensor, or lengths are not ints.
        ValueError: input has no steps, or the lengths do not fit.
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}: input must be a Tensor, got {kind_name(input)}")
    axes = 3 if batch_first or lengths is not None else 2
    if input.array.ndim < axes:
        expected = ("(N, T, ...)" if batch_first else "(T, N, ...)") if axes == 3 else "(T, ...)"
        raise ValueError(f"{name}: input.shape={input.array.shape}, needs {expected}")
    x = transpose(input, 0, 1) if batch_first else input
    if not x.array.shape[0]:
        raise ValueError(f"{name}: input.shape={input.array.shape} has no steps; it needs at least 1")
    if lengths is None:
        return x, None
    counts = from_host(checked_lengths(name, lengths, *x.array.shape[:2]), like=x.array)
    ended = exact("le")(counts, arange(x.array.shape[0], like=counts)[:, None])
    return masked_fill(x, wrap(_broadcastable(ended, x)), 0.0), counts


def _broadcastable(mask: np.ndarray, like: Tensor) -> np.ndarray:
    """Append axes of extent 1 to a mask over the first axes of a Tensor, so that it broadcasts."""
    return mask.reshape(*mask.shape, *(1,) * (like.array.ndim - mask.ndim))


def _keep_ended(ended: np.ndarray, before: Any, after: Any) -> Any:
    """Return the old state where a sequence has ended, else the new one."""
    if isinstance(after, Tensor):
        before = wrap(zeros_like(after.array)) if before is None else before
        return where(wrap(_broadcastable(ended, after)), before, after)
    olds = [None] * len(after) if before is None else before
    return like(after, [_keep_ended(ended, old, new) for old, new in zip(olds, after, strict=True)])


def _name(cell: Any) -> str:
    return type(cell).__name__ if isinstance(cell, Module) else getattr(cell, "__name__", repr(cell))


class Unroll(Module):
    """Runs a cell over a whole sequence.

    x (T, N, ...), with batch_first (N, T, ...) -> (y, state): y of every step in the same layout, and the last state

    cell: a module or function ``cell(x, state)``, as the module docstring describes: RNNCell, LSTMCell, GRUCell, the
        convolutional cells, the wrappers below, or your own.
    reverse: the sequence is read from its end; y stays in time order.

    Raises:
        TypeError: cell is not callable, or input is not a Tensor.
        ValueError: input has too few axes or no steps, or the lengths do not fit.
    """

    batch_first: bool
    reverse: bool

    def __init__(self, cell: Any, batch_first: bool = False, reverse: bool = False) -> None:
        super().__init__()
        if not callable(cell):
            raise TypeError(f"Unroll: cell must be a module or function cell(x, state), got {kind_name(cell)}")
        self.cell: Callable[..., Any] = cell
        self.batch_first, self.reverse = batch_first, reverse

    def forward(self, input: Tensor, hx: Any = None, lengths: Any = None) -> tuple[Tensor, Any]:
        """hx: the initial state; lengths: (N,), from 1 to T; past them y is 0 and the state does not change."""
        x, counts = sequence("Unroll", input, self.batch_first, lengths)
        _begin(self.cell)
        step = lambda x, h: output_and_state(self.cell, self.cell(x, h))  # noqa: E731
        y, state = over_time(step, unbind(x, 0), hx, counts, self.reverse)
        return transpose(y, 0, 1) if self.batch_first else y, state

    def extra_repr(self) -> str:
        return ", ".join(changed(self, batch_first=False, reverse=False))


def _begin(cell: Any) -> None:
    """Start a sequence: reset the modules that keep masks for a whole sequence."""
    for module in cell.modules() if isinstance(cell, Module) else ():
        if isinstance(module, (VariationalDropoutCell, RNNCellBase)):
            module.reset()


_MERGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "sum": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "ave": lambda a, b: (a + b) * 0.5,
}


class Bidirectional(Module):
    """Runs two cells over a sequence, one from its start and one from its end.

    x (T, N, ...), with batch_first (N, T, ...) -> (y, (state, state)): the merged y, and the last state of each

    merge: "concat" (along the axis after T and N: features, channels), "sum", "mul", "ave" (the mean), or None, which
        makes y a pair.

    Raises:
        TypeError: a cell is not callable, or input is not a Tensor.
        ValueError: merge is not one of these, hx is not a pair, or input or lengths do not fit.
    """

    batch_first: bool
    merge: str | None

    bidirectional = True

    def __init__(
        self, forward_cell: Any, backward_cell: Any, merge: str | None = "concat", batch_first: bool = False
    ) -> None:
        super().__init__()
        if merge not in (None, "concat", *_MERGES):
            known = ", ".join(map(repr, _MERGES))
            raise ValueError(f"Bidirectional: merge={merge!r} must be 'concat', {known} or None")
        self.forward_layer: Unroll = Unroll(forward_cell, batch_first)
        self.backward_layer: Unroll = Unroll(backward_cell, batch_first, reverse=True)
        self.merge, self.batch_first = merge, batch_first

    def forward(self, input: Tensor, hx: Any = None, lengths: Any = None) -> tuple[Any, tuple[Any, Any]]:
        """hx: a pair, the initial state of each direction; lengths: (N,), from 1 to T."""
        if hx is not None and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
            raise ValueError(f"Bidirectional: hx must be a pair, one state per direction, got {kind_name(hx)}")
        one, two = (None, None) if hx is None else hx
        y, state = self.forward_layer(input, one, lengths)
        z, other = self.backward_layer(input, two, lengths)
        merged: Any = (y, z)
        if self.merge == "concat":
            merged = cat([y, z], min(2, y.array.ndim - 1))
        elif self.merge is not None:
            merged = _MERGES[self.merge](y, z)
        return merged, (state, other)

    def extra_repr(self) -> str:
        words = [] if self.merge == "concat" else [f"merge={self.merge!r}"]
        return ", ".join([*words, "batch_first=True"] if self.batch_first else words)


class _CellWrapper(Module):
    """Base of cells that modify the step of another cell; they return (output, state)."""

    output_apart = True

    def __init__(self, cell: Any) -> None:
        super().__init__()
        if not callable(cell):
            raise TypeError(f"{type(self).__name__}: cell must be a function cell(x, state), got {kind_name(cell)}")
        self.cell = cell

    def _inner(self, input: Tensor, state: Any) -> tuple[Tensor, Any]:
        return output_and_state(self.cell, self.cell(input, state))


class ResidualCell(_CellWrapper):
    """Adds the input of a cell to its output: (y + x, state).

    cell: see Unroll; its output must have the shape of its input.

    Source: Y. Wu et al., "Google's Neural Machine Translation System", 2016, arXiv:1609.08144.

    Raises:
        TypeError: cell is not callable.
        ValueError: output and input differ in shape.
    """

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        y, state = self._inner(input, hx)
        if y.array.shape != input.array.shape:
            raise ValueError(
                f"ResidualCell: the output of the cell has shape {y.shape}, input {input.shape}; to be added "
                "they must be equal"
            )
        return y + input, state


class ZoneoutCell(_CellWrapper):
    """In training, units of the state keep their old value with some probability; in eval mode old and new are mixed.

    cell: see Unroll.
    zoneout: the probability, 0 <= p < 1, or one per entry if the state is a tuple: for an LSTMCell, h and c.

    An output that is an entry of the state changes with it.

    Source: D. Krueger et al., "Zoneout: Regularizing RNNs by Randomly Preserving Hidden Activations", 2016.

    Raises:
        TypeError: cell is not callable.
        ValueError: a probability is outside [0, 1), or there is not one per entry.
    """

    def __init__(self, cell: Any, zoneout: float | Sequence[float] = 0.0) -> None:
        super().__init__(cell)
        for p in zoneout if isinstance(zoneout, Sequence) else [zoneout]:
            _check_probability("ZoneoutCell", "zoneout", p)
        self.zoneout = zoneout

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        y, after = self._inner(input, hx)
        entries = [after] if isinstance(after, Tensor) else list(after)
        before = [None] * len(entries) if hx is None else [hx] if isinstance(after, Tensor) else list(hx)
        probabilities = list(self.zoneout) if isinstance(self.zoneout, Sequence) else [self.zoneout] * len(entries)
        if len(probabilities) != len(entries):
            raise ValueError(f"ZoneoutCell: zoneout={self.zoneout!r}, but the state has {len(entries)} entries")
        mixed = [self._mixed(p, old, new) for p, old, new in zip(probabilities, before, entries, strict=True)]
        for new, result in zip(entries, mixed, strict=True):
            if new is y:
                y = result
                break
        return y, mixed[0] if isinstance(after, Tensor) else like(after, mixed)

    def _mixed(self, p: float, before: Tensor | None, after: Tensor) -> Tensor:
        if not p:
            return after
        before = wrap(zeros_like(after.array)) if before is None else before
        if not self.training:
            return after + p * (before - after)
        drawn = from_host(default_generator.random(after.array.shape), like=after.array)
        return where(wrap(exact("lt")(drawn, from_host(p, drawn.dtype))), before, after)

    def extra_repr(self) -> str:
        return f"zoneout={self.zoneout}"


class VariationalDropoutCell(_CellWrapper):
    """Dropout of a cell's inputs, state and outputs with masks drawn once for a whole sequence.

    The masks are drawn at the first step: when the state is None, after ``reset()``, and when Unroll or Bidirectional
    start a sequence. ``nn.utils.rnn.truncated`` uses one set of masks for all pieces.

    cell: see Unroll.
    drop_inputs, drop_states, drop_outputs: probabilities, 0 <= p < 1. If the state is a tuple, only its first entry is
        dropped: for an LSTMCell, h.

    Source: Y. Gal, Z. Ghahramani, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks", 2016.

    Raises:
        TypeError: cell is not callable.
        ValueError: a probability is outside [0, 1), or the shape of a step is not that of the masks.
    """

    drop_inputs: float
    drop_outputs: float
    drop_states: float

    def __init__(
        self, cell: Any, drop_inputs: float = 0.0, drop_states: float = 0.0, drop_outputs: float = 0.0
    ) -> None:
        super().__init__(cell)
        for label, p in (("drop_inputs", drop_inputs), ("drop_states", drop_states), ("drop_outputs", drop_outputs)):
            _check_probability("VariationalDropoutCell", label, p)
        self.drop_inputs, self.drop_states, self.drop_outputs = drop_inputs, drop_states, drop_outputs
        self.__dict__["_masks"] = {}

    def reset(self) -> None:
        """Draw new masks at the next step."""
        if not start_sequence(self):
            self.__dict__["_masks"] = {}

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        if hx is None:
            self.reset()
        if not self.training:
            return self._inner(input, hx)
        if isinstance(hx, Tensor):
            hx = self._dropped("drop_states", hx)
        elif hx is not None:
            hx = like(hx, [self._dropped("drop_states", hx[0]), *hx[1:]])
        y, state = self._inner(self._dropped("drop_inputs", input), hx)
        return self._dropped("drop_outputs", y), state

    def _dropped(self, option: str, x: Tensor) -> Tensor:
        p = getattr(self, option)
        if not p:
            return x
        require_tensor("VariationalDropoutCell", x)
        masks = masks_of(self, self._masks)
        mask = masks.get(option)
        if mask is None:
            mask = masks[option] = dropout(wrap(ones_like(x.array)), p)
        if mask.array.shape != x.array.shape:
            raise ValueError(
                f"VariationalDropoutCell: masks were drawn for the shape {mask.array.shape}, but this step has "
                f"{x.array.shape}; call reset() at the start of a sequence"
            )
        return x * mask

    def extra_repr(self) -> str:
        return ", ".join(changed(self, drop_inputs=0, drop_states=0, drop_outputs=0))


def _check_probability(name: str, label: str, p: Any) -> None:
    if isinstance(p, bool) or not isinstance(p, Real) or not 0 <= float(p) < 1:
        raise ValueError(f"{name}: {label}={p!r} must be a probability, 0 <= p < 1")
