"""Filters in the order in which the micro-kernel reads them: [group][panel][tap][word][column of the panel]."""

from __future__ import annotations

from functools import partial

import numpy as np

from ....specs.low_bit import ELEMENTS, Filters, make_filters, words_of
from ..machine.integer import integer_tile

__all__ = ["lowbit_filters"]


def lowbit_filters(
    element: str, w: np.ndarray, groups: int, transposed: bool = False, most: int | None = None
) -> Filters:
    return make_filters(element, w, groups, transposed, most, partial(_arranged, element, groups, transposed))


def _arranged(element: str, groups: int, transposed: bool, w: np.ndarray) -> np.ndarray:
    """int32 words of the filters (Co, Ci/G, *R): by tap, and then in panels unless ``transposed``."""
    outputs, channels = len(w) // groups, w.shape[1]
    taps, words = w[0, 0].size, words_of(element, channels)
    codes = np.zeros((len(w), taps, words * ELEMENTS[element]), np.int16 if element == "int16" else np.int8)
    codes[..., :channels] = w.reshape(len(w), channels, taps).swapaxes(1, 2)
    if element == "binary":
        codes = np.packbits(codes > 0, axis=-1, bitorder="little")
    by_tap = codes.view("<i4").reshape(groups, outputs, taps, words).transpose(0, 2, 3, 1)  # (G, taps, words, Co/G)
    columns = integer_tile(outputs).columns
    filled = np.zeros((*by_tap.shape[:-1], columns), np.int32)
    filled[..., :outputs] = by_tap
    return filled if transposed else _in_panels(filled)


def _in_panels(by_tap: np.ndarray) -> np.ndarray:
    """(G, taps, words, columns) -> flat; the columns are whole vectors."""
    columns = by_tap.shape[-1]
    width = integer_tile(columns).width
    firsts = range(0, columns, width)
    panels = [by_tap[group, ..., first : first + width] for group in range(len(by_tap)) for first in firsts]
    return np.concatenate([panel.ravel() for panel in panels])


def in_phases(filters: Filters, taps: tuple[int, ...]) -> np.ndarray:
    """The words in panels with the taps in this order: a transposed convolution has phases, each with some of them."""
    if not filters.transposed:
        return filters.codes
    found = filters.made.get(taps)
    if found is None:
        found = filters.made[taps] = _in_panels(filters.codes[:, list(taps)])
    return found
