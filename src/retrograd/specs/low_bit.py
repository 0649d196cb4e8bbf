"""Operands of low-bit products: codes in 32-bit words, filters, and the conversion of the sums.

A code represents a small integer. A word contains the codes of several consecutive channels, the first one in its
lowest bits:

    element   in a word   code                     value
    binary    32          a bit                    1: +1, 0: -1
    int8      4           uint8 or int8            code - zero point (a filter's code is int8, and the value itself)
    int16     2           int16                    the code itself

The channels of a group fill whole words: C channels take ceil(C / codes per word) words. The codes beyond C in the
last word are padding: 0 for binary; of any value for int8 and int16, whose filters are 0 there. An array of codes is
C-contiguous with axes (N, *S, G*K): K codes (uint32 words for binary) of each of the G groups at a position.

Sums of products are int32: ``fits`` checks that no filter can cause an overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "ELEMENTS",
    "Filters",
    "Requantized",
    "Scaled",
    "Thresholded",
    "code_dtype",
    "codes_of",
    "fits",
    "make_filters",
    "words_of",
]

ELEMENTS = {"binary": 32, "int8": 4, "int16": 2}  # codes per word
_DTYPES: dict[str, np.dtype[Any]] = {
    "binary": np.dtype(np.uint32),
    "int8": np.dtype(np.uint8),
    "int16": np.dtype(np.int16),
}
_LARGEST = {"binary": 1, "int8": 255, "int16": 32768}  # largest absolute value of an input in a product


@dataclass(frozen=True, slots=True, eq=False)
class Filters:
    """The weights of one layer in the layout of the kernel set that made them; made by ``lowbit_filters``."""

    element: str
    codes: np.ndarray
    sums: np.ndarray  # (taps, Co) float64: sum of the values of a filter at each tap
    channels: int  # input channels of a group
    outputs: int  # Co, over all groups
    groups: int
    kernel: tuple[int, ...]
    transposed: bool
    made: dict[Any, Any] = field(default_factory=dict, repr=False)  # data that a kernel set caches for these filters


class Scaled(NamedTuple):
    """Sums as floating-point numbers: y[n, k, o] = (sum * scale[k]) * factor[n, o] + bias[k], rounded at every step.

    scale and bias (Co,) have the floating-point dtype of y, and so has factor (N, *O). bias and factor may be omitted.
    """

    scale: np.ndarray
    bias: np.ndarray | None = None
    factor: np.ndarray | None = None


class Thresholded(NamedTuple):
    """Sums as bits: 1 where (sum >= threshold[k]) != flip[k]; packed as the binary input of a layer with one group.

    threshold (Co,) int32, flip (Co,) bool. This combines batch norm and sign: gamma < 0 reverses the comparison, and a
    channel that is always 1 has the threshold -2**31.
    """

    threshold: np.ndarray
    flip: np.ndarray


class Requantized(NamedTuple):
    """Sums as codes: clip(round((sum + bias[k]) * scale[k]) + zero_point, low, high), rounding halves to even.

    scale (Co,) float32, bias (Co,) int32 or None. The codes are those of a layer with one group. For ``element`` "int8"
    they are uint8, or int8 if ``low`` is negative; for "int16" they are int16. ReLU is ``low = zero_point``.
    """

    scale: np.ndarray
    bias: np.ndarray | None = None
    zero_point: int = 0
    low: int = 0
    high: int = 255
    element: str = "int8"


def words_of(element: str, channels: int) -> int:
    """Return the number of words that the channels of a group take."""
    return -(-channels // ELEMENTS[element])


def codes_of(element: str, channels: int) -> int:
    """Return the number of codes (words for "binary") of the channels of a group, including padding."""
    words = words_of(element, channels)
    return words if element == "binary" else words * ELEMENTS[element]


def code_dtype(element: str, low: int = 0) -> np.dtype[Any]:
    """Return the dtype of an array of codes."""
    return np.dtype(np.int8) if element == "int8" and low < 0 else _DTYPES[element]


def make_filters(
    element: str,
    w: np.ndarray,
    groups: int,
    transposed: bool,
    most: int | None,
    arrange: Callable[[np.ndarray], np.ndarray],
) -> Filters:
    """Return the Filters of ``w``, (Co, Ci/groups, *R) or (Ci, Co/groups, *R) if transposed.

    ``arrange`` makes the codes from ``w`` in the first of these shapes.

    Raises:
        ValueError: as for ``fits``.
    """
    if transposed:
        split = w.reshape(groups, len(w) // groups, *w.shape[1:]).swapaxes(1, 2)  # (G, Co/G, Ci/G, *R)
        w = split.reshape(groups * w.shape[1], len(w) // groups, *w.shape[2:])
    fits(w, _LARGEST[element] if most is None else most)
    sums = w.astype(np.float64).sum(axis=1).reshape(len(w), -1).T  # (Co, *R) -> (R, Co)
    return Filters(element, arrange(w), np.ascontiguousarray(sums), w.shape[1], len(w), groups, w.shape[2:], transposed)


def fits(w: np.ndarray, most: int) -> None:
    """Check that sums of products with inputs up to ``most`` in absolute value fit into int32; rows of w are filters.

    Raises:
        ValueError: in some filter, the sum of absolute values times ``most`` is 2**31 or more.
    """
    sums = np.abs(w.astype(np.int64)).sum(axis=tuple(range(1, w.ndim)))
    if sums.size and int(sums.max()) * most >= 2**31:
        place = int(sums.argmax())
        raise ValueError(
            f"filter {place}: the sum of absolute values {int(sums[place])}, times inputs up to {most}, must be less "
            f"than 2**31, or sums of products exceed int32; take fewer bits for the weights or the input"
        )
