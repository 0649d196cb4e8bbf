"""Algorithms of convolution from other libraries, side by side.

    singa      unfold one sample and multiply: dW += G_b X_b^T, dX = col2im(W^T G_b)
    mxnet      unfold as many samples as the workspace holds
    pytorch    the gradients are convolutions: to the input a transposed one, to the weights one with groups = batch
    numpy_ml   dilate, pad, flip, and unfold the whole batch

Each is a file with ``conv``, ``conv_input_grad`` and ``conv_weight_grad`` in 1 to 3 dimensions, with groups, stride,
dilation and asymmetric padding, even if its source lacks them. "auto" is the plain one, textbook/convolution.py.

    retrograd.use_kernels("textbook", convolution="singa")     for a whole network
    Window.algorithm = "singa"                                 for one convolution and its gradients

``Window.workspace`` limits the temporary memory of each, without changing a bit of the result.

Axes are those of textbook/convolution.py; U is the positions of a unit (unfold.py), n the samples of a chunk. The
derivations are in docs/convolution_gradients.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ...geometry import Window
from . import mxnet, numpy_ml, pytorch, singa
from .workspace import HEADING, Channels, Cost

__all__ = ["ALGORITHMS", "Cost", "cost", "cost_table"]

ALGORITHMS = {"singa": singa, "mxnet": mxnet, "pytorch": pytorch, "numpy_ml": numpy_ml}

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def selectable(plain: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """``plain``, unless the window names an algorithm of this package or limits the workspace.

    The plain kernels have no limit: a window with a limit but none of these algorithms gets "pytorch", the same loop
    over the taps in pieces. Algorithms of the compiled set have no effect here.
    """

    @wraps(plain)
    def chosen(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        window: Any = kwargs["window"] if "window" in kwargs else args[-1]
        name = window.algorithm
        if name not in ALGORITHMS:
            if window.workspace is None:
                return plain(*args, **kwargs)
            name = "pytorch"
        kernel: Callable[Arguments, Result] = getattr(ALGORITHMS[name], plain.__name__)
        return kernel(*args, **kwargs)

    return chosen


def cost(algorithm: str, window: Window, batch: int, channels: Channels, dtype: Any = "float32") -> Cost:
    """The cost of a convolution and its two gradients: bytes of temporary arrays, and multiplications.

    algorithm: a name of ALGORITHMS
    window: the sizes, and the limit ``window.workspace``; ``window.algorithm`` is ignored
    batch, channels: N and (Ci, Co); the weights are in the order of their axes
    dtype: of the arrays

    Raises:
        ValueError: the algorithm is unknown, the channels are not multiples of the groups, or the workspace of the
            window is too small.

    >>> from retrograd.geometry import conv_window
    >>> print(cost("singa", conv_window((8, 8), 3, padding=1), batch=16, channels=(4, 6)))
    algorithm  kernel                     bytes   multiplications  samples at once
    singa      conv                       9,216           221,184                1
    singa      conv_input_grad           10,752           221,184                1
    singa      conv_weight_grad          11,616           221,184                1
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"cost: algorithm={algorithm!r} must be one of {', '.join(ALGORITHMS)}")
    if any(count % window.groups for count in channels):
        raise ValueError(f"cost: channels={channels} must be multiples of groups={window.groups}")
    return ALGORITHMS[algorithm].DEMAND.cost(window, batch, channels, dtype)


def cost_table(window: Window, batch: int, channels: Channels, dtype: Any = "float32") -> str:
    """``cost`` of all algorithms as a table."""
    costs = [cost(algorithm, window, batch, channels, dtype) for algorithm in ALGORITHMS]
    return "\n".join([HEADING, *(line for some in costs for line in some.lines())])
