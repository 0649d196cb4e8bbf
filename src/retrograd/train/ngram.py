"""n-gram models of characters: the baseline for text networks."""

from __future__ import annotations

import numpy as np

__all__ = ["bits", "witten_bell"]


def witten_bell(train: np.ndarray, test: np.ndarray, characters: int, order: int = 6) -> np.ndarray:
    """The probabilities (order, M) that n-gram models of ``train`` give each character of ``test``, given its context.

    train, test: codes from 0 to characters - 1, int64 (N,) and (M,).
    order: the greatest n. Row n - 1 of the result predicts from the previous n - 1 characters, or fewer at the start of
        a text.

    For a context h, c(h) counts its occurrences with a next character in train, c(h, w) those where it is w, and t(h)
    the different next characters. Witten and Bell give a share t / (c + t) to the context one character shorter:

        P(w | h) = (c(h, w) + t(h) P(w | h')) / (c(h) + t(h)),

    and to the uniform distribution below the context of length 0. A context that is not in train is skipped.

    Raises:
        ValueError: order is not positive.

    Source: I. H. Witten, T. C. Bell, "The Zero-Frequency Problem", 1991, method C, interpolated as in S. F. Chen,
    J. Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling", 1999.
    """
    if order < 1:
        raise ValueError(f"witten_bell: order={order!r} must be at least 1")
    codes, size = np.concatenate([train, test]), len(train)
    since = np.concatenate([np.arange(size), np.arange(len(test))])  # number of characters before each
    context = np.zeros(len(codes), np.int64)  # equal numbers for equal contexts
    result = np.empty((order + 1, len(test)))
    result[0] = 1.0 / characters
    for length in range(order):
        lower = result[length]
        if length:
            _, context = np.unique(context * characters + np.roll(codes, length), return_inverse=True)
        known = since >= length
        pair = context * characters + codes
        pairs, counts = np.unique(pair[:size][known[:size]], return_counts=True)
        contexts = int(context.max(initial=0)) + 1
        total = np.bincount(context[:size][known[:size]], minlength=contexts)[context[size:]]
        kinds = np.bincount(pairs // characters, minlength=contexts)[context[size:]]
        place = np.minimum(np.searchsorted(pairs, pair[size:]), len(pairs) - 1)
        count = np.where(pairs[place] == pair[size:], counts[place], 0)
        mixed = (count + kinds * lower) / np.maximum(total + kinds, 1)
        result[length + 1] = np.where(known[size:] & (total > 0), mixed, lower)
    return result[1:]


def bits(probabilities: np.ndarray) -> float:
    """The mean number of bits per character under these probabilities."""
    return float(-np.log2(probabilities).mean())
