"""The plan of a convolution: the chosen algorithm and its cost; and a setting that disables Winograd transforms.

The compiled kernels choose by a cost model that depends only on shapes, see
kernels/compiled/convolution/algorithm.py. Direct algorithms sum products. Winograd's F(4x4, 3x3) transforms tiles of
input and weights. It needs up to four times fewer multiplications; its errors are about 1e-6 of the result's root mean
square in float32, a few times those of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from types import TracebackType

import numpy as np

from ...engine.grad_mode import thread
from ...engine.tensor import Tensor
from ...kernel_set import kernel_setting
from ...specs.convolution_options import TEXTBOOK_ALGORITHMS, Options
from ...specs.geometry import Window
from ..argument_checks import as_counts, as_flag
from ..dtypes.dtype import DTypeLike
from .arguments import Extent, Padding, frozen, window_of
from .convolution import paddings

__all__ = ["conv_plan", "exact_convolution"]

_HEADINGS = "pass", "algorithm", "multiplications", "temporary bytes", "estimated cycles"


class exact_convolution:  # noqa: N801  used like a function; a class so that "with" can restore the setting
    """Disable transforms (Winograd) in the calling thread's convolutions, from now on or within a ``with`` block.

    This applies where algorithm is "auto", including backward passes of any order and checkpoint recomputation. The
    results have the same bits as with algorithm="direct".

    A transform rounds more than a sum of products, and mixes whole tiles: an inf, a NaN or an overflow spreads to all
    4x4 outputs of a tile, and a small channel is lost next to one that is 1e7 times larger. Without transforms, every
    output depends only on its window.

    exact: False allows transforms again.

    Raises:
        TypeError: ``exact`` is not a bool.

    >>> import retrograd as rg
    >>> x, w = rg.ones((1, 64, 8, 8)), rg.ones((64, 64, 3, 3))
    >>> with rg.exact_convolution():
    ...     float(rg.nn.functional.conv2d(x, w)[0, 0, 0, 0])
    576.0
    """

    def __init__(self, exact: bool = True) -> None:
        if not isinstance(exact, bool):
            raise TypeError(f"exact_convolution: exact is {exact!r}, expected True or False")
        self._exact, self._before = exact, thread.mode.exact
        thread.mode.exact = exact

    def __enter__(self) -> exact_convolution:
        thread.mode.exact = self._exact
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread.mode.exact = self._before


@dataclass(frozen=True, slots=True)
class ConvPass:
    """The plan of one pass of a convolution: its algorithm and the cost of the alternatives.

    algorithm: "direct", "depthwise", "pointwise", "winograd", or an algorithm of the textbook kernels
    form: the variant: "narrow", "planar" or "fold" of the direct algorithm for few channels; "line" of "pointwise"
        if all positions form one contiguous axis; otherwise empty
    multiplications: the number of multiplications, without those of transforms
    memory: peak bytes of temporary arrays, without tables of a few kilobytes; None if unknown
    costs: (algorithm, cost) of all applicable algorithms, in estimated cycles of one core
    """

    algorithm: str
    form: str
    multiplications: int
    memory: int | None
    costs: tuple[tuple[str, float], ...]

    def _cells(self, name: str) -> tuple[str, ...]:
        algorithm = f"{self.algorithm} ({self.form})" if self.form else self.algorithm
        memory = "-" if self.memory is None else f"{self.memory:,}"
        costs = ", ".join(f"{name} {cost:,.0f}" for name, cost in self.costs) or "-"
        return name, algorithm, f"{self.multiplications:,}", memory, costs


@dataclass(frozen=True, slots=True)
class ConvPlan:
    """The plan of a convolution or a transposed convolution, pass by pass; ``str()`` formats it as a table.

    title: the arguments and the kernel set
    output: the forward pass; input_gradient, weight_gradient: the backward passes
    window: all sizes, see ``geometry.Window``; for a transposed convolution, those of the convolution whose input
        gradient it is
    """

    title: str
    output: ConvPass
    input_gradient: ConvPass
    weight_gradient: ConvPass
    window: Window

    def __str__(self) -> str:
        names = {"output": self.output, "input gradient": self.input_gradient, "weight gradient": self.weight_gradient}
        rows = [_HEADINGS, *(found._cells(name) for name, found in names.items())]
        columns = [list(column) for column in zip(*rows, strict=True)]
        for at, column in enumerate(columns):
            width = max(map(len, column))
            columns[at] = [cell.rjust(width) if at in (2, 3) else cell.ljust(width) for cell in column]
        return "\n".join([self.title, *("  ".join(row).rstrip() for row in zip(*columns, strict=True))])


def conv_plan(
    input_shape: Sequence[int],
    weight_shape: Sequence[int],
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    *,
    transposed: bool = False,
    output_padding: Extent = 0,
    padding_mode: str = "zeros",
    output_size: Sequence[int] | None = None,
    adj: Extent | None = None,
    target_shape: Extent | None = None,
    algorithm: str = "auto",
    workspace: float | None = None,
    dtype: DTypeLike = "float32",
) -> ConvPlan:
    """Return the plan of a convolution of these shapes and of its gradients, without computing them.

    The arguments are those of ``conv1d`` to ``conv3d``, or with transposed=True of ``conv_transpose1d`` to ``3d``;
    weight_shape determines the number of axes. The choice depends on these arguments, the kernel set,
    ``exact_convolution`` and the CPU's vector width, never on values.

    input_shape: (N, Ci, *I) or (Ci, *I)
    weight_shape: (Co, Ci/groups, *R), transposed (Ci, Co/groups, *R)

    Raises:
        TypeError: an argument that must be an integer is not; dtype is neither float32 nor float64.
        ValueError: the convolution would reject the arguments; weight_shape does not have 3 to 5 axes.
    """
    for label, shape in (("input_shape", input_shape), ("weight_shape", weight_shape)):
        if isinstance(shape, Tensor):
            raise TypeError(f"conv_plan: {label} is a Tensor; pass shapes: conv_plan(x.shape, layer.weight.shape)")
    ws = tuple(as_counts("conv_plan", "weight_shape", weight_shape).tolist())
    xs = tuple(as_counts("conv_plan", "input_shape", input_shape).tolist())
    ndim = len(ws) - 2
    if not 1 <= ndim <= 3:
        raise ValueError(f"conv_plan: weight_shape={ws} needs 3 to 5 axes: two for channels, 1 to 3 for taps")
    kind = np.dtype(dtype)
    if kind.char not in "fd":
        raise TypeError(f"conv_plan: dtype={dtype!r} must be float32 or float64")
    name = "conv_transpose" if as_flag("conv_plan", "transposed", transposed) else "conv"
    named = f"conv_plan: {name}{ndim}d"
    if transposed:
        padding, output_padding = paddings(
            named, ndim, xs, ws, stride, padding, output_padding, dilation, output_size, adj, target_shape
        )
    else:
        transposed_only = {
            "output_padding": output_padding,
            "output_size": output_size,
            "adj": adj,
            "target_shape": target_shape,
        }
        for label, value in transposed_only.items():
            if value is not None and value != 0:
                raise ValueError(f"conv_plan: {label}={value!r} is for transposed convolutions; pass transposed=True")
    call = frozen(
        named,
        ndim,
        stride,
        padding,
        dilation,
        groups,
        transposed,
        output_padding,
        algorithm,
        workspace,
        padding_mode,
        output_size,
    )
    window, _ = window_of(call, xs, ws, None)
    batch = xs[0] if len(xs) == ndim + 2 else 1
    found = passes_of(window, call.options, batch, ws[1] * window.groups, ws[0], kind.char)
    first, second = ("conv_input_grad", "conv") if transposed else ("conv", "conv_input_grad")
    kernels = "textbook" if call.options.algorithm in TEXTBOOK_ALGORITHMS else kernel_setting()[0]
    settings = f"{kind.name}, algorithm={call.options.algorithm!r}, {kernels} kernels"
    title = f"{name}{ndim}d, input {xs}, weight {ws}, {settings}"
    return ConvPlan(title, found[first], found[second], found["conv_weight_grad"], window)


def passes_of(
    window: Window, options: Options, batch: int, inputs: int, outputs: int, dtype: str
) -> dict[str, ConvPass]:
    """Return the passes by the names of their kernels, as planned by the kernel set."""
    active, setting = kernel_setting()
    shape = batch, inputs, outputs, dtype
    if active == "compiled" and options.algorithm not in TEXTBOOK_ALGORITHMS:
        from ...kernels.compiled.convolution import algorithm

        return {
            job: ConvPass(*found, tuple(algorithm.costs(window, *shape, job).items()))
            for job, found in algorithm.passages(window, options, *shape).items()
        }
    from ...kernels.textbook import algorithms

    if setting != "auto" and options.algorithm not in TEXTBOOK_ALGORITHMS:
        options = options._replace(algorithm=setting)
    chosen, names = algorithms.choose(options), ("conv", "conv_input_grad", "conv_weight_grad")
    if chosen == algorithms.PLAIN:
        count = batch * inputs // window.groups * outputs * window.taps * prod(window.output)
        return dict.fromkeys(names, ConvPass(chosen, "", count, None, ()))
    cost = algorithms.cost(chosen, window, batch, (inputs, outputs), dtype, options.workspace)
    return {
        name: ConvPass(chosen, "", costs.multiplications, costs.memory, ())
        for name, costs in ((name, getattr(cost, name)) for name in names)
    }
