"""Gradients of each sample: of embeddings, and whether one sample alone gives what it gives in its batch."""

from __future__ import annotations

import numpy as np

from .ieee import ieee

__all__ = ["agrees", "embedding_sample_grad"]


def embedding_sample_grad(
    g: np.ndarray, indices: np.ndarray, shape: tuple[int, ...], padding: int | None
) -> np.ndarray:
    """The gradient (N, *shape) to an embedding's weight of each of N samples: g summed at the indices (N, *).

    padding: a row whose gradient is 0, or None.
    """
    gw = np.zeros((indices.shape[0], *shape), g.dtype, like=g)
    samples = np.arange(indices.shape[0], like=g).reshape(-1, *(1,) * (indices.ndim - 1))
    np.add.at(gw, (np.broadcast_to(samples, indices.shape), indices), g)
    if padding is not None:
        gw[:, padding] = 0
    return gw


@ieee
def agrees(x: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Whether |x - expected| is at most the tolerance times |expected| plus its largest finite absolute value."""
    finite = np.abs(expected[np.isfinite(expected)])
    scale = float(finite.max()) if finite.size else 0.0
    return np.allclose(x, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
