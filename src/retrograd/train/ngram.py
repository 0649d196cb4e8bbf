"""How well the last few characters alone predict the next one: what a network for text is measured against."""

from __future__ import annotations

import numpy as np

__all__ = ["bits", "witten_bell"]


def witten_bell(train: np.ndarray, test: np.ndarray, characters: int, order: int = 6) -> np.ndarray:
    """The probabilities (order, M) that n-gram models of ``train`` give each character of ``test``, after those before.

    train, test: codes from 0 to characters - 1, int64 (N,) and (M,).
    order: the greatest n. Row n - 1 of the result predicts from the n - 1 characters before, or from fewer where a text
        begins.

    Of a context h, c(h) is how often it has a next character in train, c(h, w) how often that is w, and t(h) how many
    different ones there are. Witten and Bell leave a share t / (c + t) to the context that is one character shorter:

        P(w | h) = (c(h, w) + t(h) P(w | h')) / (c(h) + t(h)),

    and to all characters alike below the context of length 0. A context that train does not have is passed over.

    Raises:
        ValueError: order is not positive.

    Source: I. H. Witten, T. C. Bell, "The Zero-Frequency Problem", 1991, method C, interpolated as in S. F. Chen,
    J. Goodman, "An Empirical Study of Smoothing Techniques for Language Modeling", 1999.
    """
    if order < 1:
        raise ValueError(f"witten_bell: order={order!r} must be at least 1")
    codes, size = np.concatenate([train, test]), len(train)
    since = np.concatenate([np.arange(size), np.arange(len(test))])  # how many characters stand before each
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
    """The mean number of bits that it takes to say which character came, if these were their probabilities."""
    return float(-np.log2(probabilities).mean())
