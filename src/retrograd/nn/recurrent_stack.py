"""Recurrent layers one above the other: the description of all of them, their parameters' names, and one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..engine.tensor import Tensor, wrap
from ..ops.dropout import dropout
from ..ops.recurrent import recurrent_layer
from ..ops.recurrent_arguments import checked_lengths
from ..ops.recurrent_composed import draw_masks
from ..ops.selection import masked_fill
from ..recurrence import Recurrence, Weights, recurrence

__all__ = ["Run", "check_number", "parameter_name", "run", "stack"]

# what a field of Weights is called in a state_dict, before "_l0" or "_l0_reverse"
_NAMES = Weights(
    "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr", "weight_ch", "norm_ih", "norm_hh", "norm_c"
)


def parameter_name(field: str, layer: int | None = None, reverse: bool = False) -> str:
    """PyTorch's name of a parameter; field: a field of Weights; layer: None in a cell."""
    end = "" if layer is None else f"_l{layer}{'_reverse' if reverse else ''}"
    return f"{getattr(_NAMES, field)}{end}"


def check_number(name: str, argument: str, value: Any) -> int:
    """An int of at least 1.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: {argument}={value!r} must be an int of at least 1")
    return value


def stack(
    name: str, mode: str, input_size: int, hidden: Sequence[int], projection: Sequence[int], bidirectional: bool,
    **options: Any,
) -> tuple[Recurrence, ...]:  # fmt: skip
    """Layers of these widths, each of which reads what the one below puts out; options: those of ``recurrence``.

    Raises:
        ValueError: as ``recurrence``.
    """
    layers: list[Recurrence] = []
    reverse = (False, True) if bidirectional else (False,)
    for units, projected in zip(hidden, projection, strict=True):
        width = len(reverse) * layers[-1].output if layers else input_size
        layers.append(recurrence(name, mode, width, units, projection=projected, reverse=reverse, **options))
    return tuple(layers)


class Run(NamedTuple):
    """How a stack is run, beside its equations."""

    name: str  # of the layer or function, for messages
    training: bool = False
    dropout: float = 0.0  # of what each layer but the last puts out
    variational: float = 0.0  # of what each layer reads, by one mask for all steps
    residual: bool = False  # each layer adds its input to its output
    checkpoint: int | str | None = None  # as of ``recurrent_layer``
    masks: dict[str, Any] | None = None  # what earlier pieces of the sequence drew; None: the sequence is whole


def run(
    how: Run, layers: Sequence[Recurrence], weights: Sequence[Sequence[Weights]], x: Tensor,
    h0: Sequence[Tensor | None], c0: Sequence[Tensor | None], lengths: Any = None, cells: bool = False,
) -> tuple[Tensor, list[Tensor], list[Tensor], Tensor | None]:  # fmt: skip
    """y (T, N, D*O) of the last layer, hn (D, N, O) and cn (D, N, H) of each, and with ``cells`` those of the last one.

    x (T, N, I); weights: of each layer one for each direction; h0, c0: of each layer a state or None.
    """
    if lengths is not None and how.residual:  # what is added to y must be 0 where y is
        counts = checked_lengths(how.name, lengths, *x.array.shape[:2])
        x = masked_fill(x, wrap(np.arange(len(x.array))[:, None, None] >= counts[:, None]), 0.0)
    hn, cn, states = [], [], None
    last, drawn = len(layers) - 1, {} if how.masks is None else how.masks
    for number, (what, own) in enumerate(zip(layers, weights, strict=True)):
        if how.training and how.variational:
            mask = drawn.get(f"variational{number}")
            if mask is None:
                mask = dropout(wrap(np.ones((1, *x.array.shape[1:]), x.array.dtype)), how.variational)
                drawn[f"variational{number}"] = mask
            x = x * mask
        masks = None
        if how.training and not what.fused:
            masks = draw_masks(x, what, drawn.get(f"recurrent{number}"))
            drawn[f"recurrent{number}"] = masks and masks.recurrent
        y, h, c, states = recurrent_layer(
            x, h0[number], c0[number], own, what, lengths, cells and number == last, masks, how.checkpoint, how.name
        )
        hn.append(h)
        if c is not None:
            cn.append(c)
        if how.residual:
            y = y + x
        x = dropout(y, how.dropout) if how.training and how.dropout and number < last else y
    return x, hn, cn, states
