"""Stacks of recurrent layers: their specs, the names of their parameters, and the run through all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..arrays import arange, from_host, ones
from ..engine.tensor import Tensor, wrap
from ..kernel_set import exact
from ..ops.index.selection import masked_fill
from ..ops.random.dropout import dropout
from ..ops.recurrent.arguments import checked_lengths
from ..ops.recurrent.composed import draw_masks
from ..ops.recurrent.recurrent import recurrent_layer
from ..specs.recurrence import Recurrence, Weights, recurrence

__all__ = ["Run", "parameter_name", "run", "stack"]

# names of the fields of Weights in a state_dict, before "_l0" or "_l0_reverse"
_NAMES = Weights(
    "weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr", "weight_ch", "norm_ih", "norm_hh", "norm_c"
)


def parameter_name(field: str, layer: int | None = None, reverse: bool = False) -> str:
    """PyTorch's name of a parameter; field: a field of Weights; layer: None for a cell."""
    end = "" if layer is None else f"_l{layer}{'_reverse' if reverse else ''}"
    return f"{getattr(_NAMES, field)}{end}"


def stack(
    name: str,
    mode: str,
    input_size: int,
    hidden: Sequence[int],
    projection: Sequence[int],
    bidirectional: bool,
    **options: Any,
) -> tuple[Recurrence, ...]:
    """The specs of layers of these widths, each reading the output of the one below; options: as for ``recurrence``.

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
    """The options of one run of a stack."""

    name: str  # of the layer or function, for messages
    training: bool = False
    dropout: float = 0.0  # of the output of each layer but the last
    variational: float = 0.0  # of the input of each layer, with one mask for all steps
    residual: bool = False  # each layer adds its input to its output
    checkpoint: int | str | None = None  # as for ``recurrent_layer``
    algorithm: str = "auto"  # likewise
    masks: dict[str, Any] | None = None  # masks drawn for earlier pieces of the sequence; None: the sequence is whole


def run(
    options: Run,
    layers: Sequence[Recurrence],
    weights: Sequence[Sequence[Weights]],
    x: Tensor,
    h0: Sequence[Tensor | None],
    c0: Sequence[Tensor | None],
    lengths: Any = None,
    cells: bool = False,
) -> tuple[Tensor, list[Tensor], list[Tensor], Tensor | None]:
    """y (T, N, D*O) of the last layer, hn (D, N, O) and cn (D, N, H) of each, and with ``cells`` the last one's cells.

    x (T, N, I); weights: per layer, one for each direction; h0, c0: per layer, a state or None.
    """
    if lengths is not None and options.residual:  # the x added to y must be 0 where y is
        counts = from_host(checked_lengths(options.name, lengths, *x.array.shape[:2]), like=x.array)
        x = masked_fill(x, wrap(exact("le")(counts[:, None], arange(len(x.array), like=counts)[:, None, None])), 0.0)
    hn, cn, states = [], [], None
    last, drawn = len(layers) - 1, {} if options.masks is None else options.masks
    for number, (spec, own) in enumerate(zip(layers, weights, strict=True)):
        if options.training and options.variational:
            mask = drawn.get(f"variational{number}")
            if mask is None:
                mask = dropout(wrap(ones((1, *x.array.shape[1:]), x.array.dtype, like=x.array)), options.variational)
                drawn[f"variational{number}"] = mask
            x = x * mask
        masks = None
        if options.training and spec.draws:
            masks = draw_masks(x, spec, drawn.get(f"recurrent{number}"))
            drawn[f"recurrent{number}"] = masks and masks.recurrent
        y, h, c, states = recurrent_layer(
            x,
            h0[number],
            c0[number],
            own,
            spec,
            lengths,
            cells and number == last,
            masks,
            options.checkpoint,
            options.algorithm,
            options.name,
        )
        hn.append(h)
        if c is not None:
            cn.append(c)
        if options.residual:
            y = y + x
        x = dropout(y, options.dropout) if options.training and options.dropout and number < last else y
    return x, hn, cn, states
