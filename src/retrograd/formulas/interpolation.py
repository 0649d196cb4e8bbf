"""Keys' kernel of cubic interpolation, on Tensors and on arrays.

Source: R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
"""

from __future__ import annotations

from typing import Any


def keys_near(t: Any, a: float) -> Any:
    """The weight at a distance 0 <= t <= 1."""
    return ((a + 2) * t - (a + 3)) * t * t + 1


def keys_far(t: Any, a: float) -> Any:
    """The weight at a distance 1 <= t < 2."""
    return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
