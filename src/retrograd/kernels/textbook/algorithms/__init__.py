"""Algorithms of convolution from other libraries, side by side.

    singa      unfold one sample and multiply: dW += G_b X_b^T, dX = col2im(W^T G_b)
    mxnet      unfold as many samples as the workspace holds
    pytorch    the gradients are convolutions: to the input a transposed one, to the weights one with groups = batch
    numpy_ml   dilate, pad, flip, and unfold the whole batch

Each is a file with ``conv``, ``conv_input_grad`` and ``conv_weight_grad`` in 1 to 3 dimensions, with groups, stride,
dilation and asymmetric padding, even if its source lacks them. "auto" is the plain one, textbook/convolution.py.

    retrograd.use_kernels("textbook", convolution="singa")     for a whole network
    conv(x, w, bias, window, Options("singa"))                 for one convolution and its gradients

``Options.workspace`` limits the temporary memory of each, without changing a bit of the result.

Arguments, results and axes are those of textbook/convolution.py. U is the number of positions of a unit (unfold.py),
n the number of samples of a chunk. The derivations are on the page "How a convolution goes backward".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....specs.convolution_options import Options
from ....specs.geometry import Window
from . import mxnet, numpy_ml, pytorch, singa
from .workspace import HEADING, Channels, Cost

__all__ = ["ALGORITHMS", "PLAIN", "Cost", "choose", "cost", "cost_table", "kernel_of"]

ALGORITHMS = {"singa": singa, "mxnet": mxnet, "pytorch": pytorch, "numpy_ml": numpy_ml}

PLAIN = "taps"  # the algorithm of textbook/convolution.py


def choose(options: Options) -> str:
    """Return the algorithm that the textbook set uses: one of ALGORITHMS, or PLAIN.

    The plain algorithm cannot respect a workspace limit. If there is a limit and the options name none of these
    algorithms, "pytorch" is used: the same loop over the taps, in pieces. Algorithms of the compiled set are ignored.
    """
    if options.algorithm in ALGORITHMS:
        return options.algorithm
    return PLAIN if options.workspace is None else "pytorch"


def kernel_of(name: str, options: Options) -> Callable[..., np.ndarray] | None:
    """Return the kernel of this name of the chosen algorithm; None if that is the plain one."""
    chosen = choose(options)
    return None if chosen == PLAIN else getattr(ALGORITHMS[chosen], name)


def cost(
    algorithm: str, window: Window, batch: int, channels: Channels, dtype: Any = "float32", workspace: int | None = None
) -> Cost:
    """The cost of a convolution and its two gradients: bytes of temporary arrays, and multiplications.

    algorithm: a name of ALGORITHMS
    window: the sizes
    batch, channels: N and (Ci, Co); the weights are in the order of their axes
    dtype: of the arrays
    workspace: most bytes of temporary arrays; None is no limit

    Raises:
        ValueError: the algorithm is unknown, the channels are not multiples of the groups, or the workspace is too
            small.

    >>> from retrograd.specs.geometry import conv_window
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
    return ALGORITHMS[algorithm].DEMAND.cost(window, workspace, batch, channels, dtype)


def cost_table(
    window: Window, batch: int, channels: Channels, dtype: Any = "float32", workspace: int | None = None
) -> str:
    """``cost`` of all algorithms as a table."""
    costs = [cost(algorithm, window, batch, channels, dtype, workspace) for algorithm in ALGORITHMS]
    return "\n".join([HEADING, *(line for some in costs for line in some.lines())])
