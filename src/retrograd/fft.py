"""Discrete Fourier transforms: ``torch.fft`` on pairs of real numbers, since there are no complex tensors.

A complex tensor of shape (...) is a real one of shape (..., 2), whose last axis holds the real and the imaginary part,
as PyTorch's ``view_as_real`` gives it: ``retrograd.stack((re, im), -1)`` makes one, and ``z[..., 0]`` and ``z[..., 1]``
are its parts. ``dim``, ``n`` and ``s`` count without that last axis.

``rfft``, ``rfft2``, ``rfftn`` and ``ihfft`` take real tensors (...) and give pairs; ``irfft``, ``irfft2``, ``irfftn``
and ``hfft`` take pairs and give real tensors; all others take pairs and give pairs. (PyTorch's ``fft`` of a real tensor
x is ``fft(stack((x, zeros_like(x)), -1))``.)

norm: "backward" divides the inverse transforms by the number of elements n, "forward" the others, "ortho" both by
sqrt(n); by default "backward".
"""

from __future__ import annotations

from .absent import attach_to_module
from .ops.fourier.helpers import fftfreq, fftshift, ifftshift, rfftfreq
from .ops.fourier.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

attach_to_module(__name__)
