"""Discrete Fourier transforms as in ``torch.fft``, on pairs of real numbers since there are no complex tensors.

A complex tensor of shape (...) is represented by a real one of shape (..., 2), whose last axis contains the real and
the imaginary part, like the result of PyTorch's ``view_as_real``. ``retrograd.stack((re, im), -1)`` makes one, and
``z[..., 0]`` and ``z[..., 1]`` are its parts. ``dim``, ``n`` and ``s`` do not count that last axis.

``rfft`` and ``ihfft``, and their forms over 2 and n axes, take real tensors (...) and return pairs; ``irfft`` and
``hfft``, and their forms over 2 and n axes, take pairs and return real tensors; all others take and return pairs.
(PyTorch's ``fft`` of a real tensor x is ``fft(stack((x, zeros_like(x)), -1))``.) ``retrograd.stft`` and ``istft`` use
pairs, too.

norm: "backward", the default, divides the inverse transforms by the number of elements n, "forward" the others, "ortho"
both by sqrt(n).
"""

from __future__ import annotations

from ..ops.fourier import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from ..ops.signatures import add_forms
from .missing import attach_to_module

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

add_forms(globals(), "fft")
attach_to_module(__name__)
