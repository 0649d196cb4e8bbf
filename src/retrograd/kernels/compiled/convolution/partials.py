"""The partial sums of a weight gradient, one for each part of the work: added in order, so that the bits are fixed."""

from __future__ import annotations

import numpy as np

from ..machine.launch import kernel

_add_partials = kernel("convolution.convolution.add_partials")


def sum_parts(partials: np.ndarray, gw: np.ndarray) -> np.ndarray:
    """Fill ``gw`` with the sum of all partial sums, in their order."""
    chunk = 16384
    _add_partials[gw.dtype.char](-(-gw.size // chunk), partials, gw, gw.size, partials.shape[0], chunk)
    return gw


def add_parts(partials: np.ndarray, gw: np.ndarray, first: bool) -> None:
    """Add some partial sums to ``gw``, in their order; the ``first`` of all begins it."""
    total = gw.reshape(-1)
    with np.errstate(all="ignore"):
        for at, part in enumerate(partials.reshape(len(partials), -1)):
            if first and at == 0:
                total[:] = part
            else:
                np.add(total, part, out=total)
