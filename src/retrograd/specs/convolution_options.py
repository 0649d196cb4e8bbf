"""User options for computing a convolution: the algorithm and the limit on temporary memory.

The Window in geometry.py describes the convolution itself. The Options are passed along with it through the operators,
their gradients and the kernels, down to the choice of an algorithm: ``kernels/compiled/convolution/algorithm.py`` in
the compiled set, ``kernels/textbook/algorithms`` in the textbook set.
"""

from __future__ import annotations

from typing import NamedTuple

from .geometry import Window

__all__ = ["ALGORITHMS", "AUTO", "NEEDS", "TEXTBOOK_ALGORITHMS", "Options", "suits"]

# "exact" is "auto" without transforms; NEEDS lists the requirements of those that cannot compute every convolution.
TEXTBOOK_ALGORITHMS = ("singa", "mxnet", "pytorch", "numpy_ml")  # each a file of kernels/textbook/algorithms
ALGORITHMS = ("auto", "exact", "direct", "depthwise", "pointwise", "winograd", *TEXTBOOK_ALGORITHMS)
NEEDS = {
    "winograd": (
        "3x3 or 5x5 taps (3-D: along the last two axes, with dilation 1 along the first), stride 1, one group, and "
        "inputs and outputs of at least 2 times the dilation on each of these two axes; or a transposed convolution of "
        "4x4 taps with stride 2, dilation 1, one group"
    ),
    "depthwise": "as many groups as input channels and as output channels",
    "pointwise": "one tap, and a group of more than one channel (for others there is 'depthwise')",
}


class Options(NamedTuple):
    """The user's choice for a convolution and its gradients.

    algorithm: one of ALGORITHMS
    workspace: maximum bytes of temporary memory in each pass; None means no limit
    """

    algorithm: str = "auto"
    workspace: int | None = None


AUTO = Options()  # no choice made


def suits(algorithm: str, window: Window, inputs: int, outputs: int, transposed: bool = False) -> bool:
    """Return whether a convolution of ``inputs`` to ``outputs`` channels meets the NEEDS of ``algorithm``.

    ``transposed``: for the window's input gradient.
    """
    depthwise = window.groups == inputs == outputs
    if algorithm == "winograd":
        phases = window.kernel == (4, 4) and window.stride == (2, 2) and min(window.input) > 1
        if transposed and phases and window.dilation == (1, 1) and window.groups == 1:
            return True
        return (
            window.ndim in (2, 3)
            and window.kernel[-2:] in ((3, 3), (5, 5))
            and window.groups == 1
            and max(*window.stride, *window.dilation[:-2]) == 1
            and all(
                min(axis) >= 2 * dilation
                for dilation, *axis in zip(window.dilation[-2:], window.output[-2:], window.input[-2:], strict=True)
            )
        )
    if algorithm == "depthwise":
        return depthwise
    return algorithm != "pointwise" or (window.taps == 1 and not depthwise)
