"""Discrete Fourier transforms: ``torch.fft`` on pairs of real numbers, since there are no complex tensors.

A complex tensor of shape (...) is a real one of shape (..., 2), whose last axis holds the real and the imaginary part,
as PyTorch's ``view_as_real`` gives it: ``retrograd.stack((re, im), -1)`` makes one, and ``z[..., 0]`` and ``z[..., 1]``
are its parts. ``dim``, ``n`` and ``s`` count without that last axis.

``rfft`` and ``ihfft``, and their forms over 2 and n axes, take real tensors (...) and give pairs; ``irfft`` and
``hfft``, and their forms over 2 and n axes, take pairs and give real tensors; all others take pairs and give pairs.
(PyTorch's ``fft`` of a real tensor x is ``fft(stack((x, zeros_like(x)), -1))``.) ``retrograd.stft`` and ``istft`` use
pairs, too.

norm: "backward" divides the inverse transforms by the number of elements n, "forward" the others, "ortho" both by
sqrt(n); by default "backward".
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
