"""What people get wrong in a backward pass, by operator."""

from __future__ import annotations

from ..faults import Fault

__all__ = ["CONVOLUTION"]

_TAPS = "for r, at in enumerate(taps(window)):"

_CONVOLUTION = (
    (
        "drop the stride", "gw reads x as if the window moved by 1 (no difference at stride 1)",
        "conv_weight_grad", _TAPS, "for r, at in enumerate(taps(replace(window, stride=(1,) * window.ndim))):",
    ),
    (
        "drop the dilation", "gx puts neighbouring taps side by side (no difference at dilation 1)",
        "conv_input_grad", _TAPS, "for r, at in enumerate(taps(replace(window, dilation=(1,) * window.ndim))):",
    ),
    (
        "forget a transpose", "gx multiplies by W, not by Wᵀ (fits only where a group has as many filters as channels)",
        "conv_input_grad", "w[r].swapaxes(1, 2)", "w[r]",
    ),
    (
        "flip the kernel once more", "gx as a convolution has a flipped kernel; as a scatter, as here, it has not",
        "conv_input_grad", "w[r].swapaxes(1, 2)", "w[-1 - r].swapaxes(1, 2)",
    ),
    (
        "overwrite, do not add", "windows overlap: an entry of x gets a product from each of them",
        "conv_input_grad", "padded[at] += back", "padded[at] = back",
    ),
    (
        "forget the padding", "gx is cut out of the padded array at its corner (no difference without padding)",
        "conv_input_grad", "crop(padded, window)", "crop(padded, replace(window, padding=((0, 0),) * window.ndim))",
    ),
    (
        "keep one sample", "gw is a sum over the batch (no difference with one sample)",
        "conv_weight_grad", ".sum(axis=0)", "[0]",
    ),
)  # fmt: skip

CONVOLUTION = tuple(Fault(name, about, "convolution", *rest) for name, about, *rest in _CONVOLUTION)
