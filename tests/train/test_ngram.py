"""The n-gram baseline against its definition."""

from __future__ import annotations

import math

import numpy as np
import pytest

from retrograd.train.language_modeling import bits, witten_bell


def by_definition(train: str, before: str, character: str, characters: int, order: int) -> float:
    """Return P(character | the last order - 1 characters of before), by recursion over shorter contexts."""
    if order == 0:
        return 1 / characters
    lower = by_definition(train, before, character, characters, order - 1)
    length = order - 1
    if len(before) < length:
        return lower
    context = before[len(before) - length :]
    follows = [train[i] for i in range(length, len(train)) if train[i - length : i] == context]
    if not follows:
        return lower
    kinds = len(set(follows))
    return (follows.count(character) + kinds * lower) / (len(follows) + kinds)


def test_every_probability_is_that_of_the_definition() -> None:
    random = np.random.default_rng(0)
    train, test = ("".join(random.choice(list("aabbbcd"), size)) for size in (150, 40))
    test = test + "e"  # never seen
    codes = [np.array([ord(c) - ord("a") for c in text]) for text in (train, test)]
    found = witten_bell(*codes, 5, 6)
    for order in range(1, 7):
        expected = [by_definition(train, test[:i], test[i], 5, order) for i in range(len(test))]
        np.testing.assert_allclose(found[order - 1], expected, rtol=1e-12)


def test_an_answer_by_hand() -> None:
    # after "a": b twice, c once, so c(a) = 3, t(a) = 2; of all 7: a 3, b 3, c 1; t() = 3
    train, test = np.array([0, 1, 0, 1, 0, 2, 1]), np.array([0, 1])
    b = (3 + 3 / 3) / (7 + 3)
    assert witten_bell(train, test, 3, 2)[1, 1] == pytest.approx((2 + 2 * b) / (3 + 2))


def test_the_probabilities_of_all_characters_add_up_to_one() -> None:
    random = np.random.default_rng(0)
    train = random.integers(0, 4, 300)
    before = train[10:15]
    total = sum(witten_bell(train, np.append(before, c), 5, 6)[-1, -1] for c in range(5))
    assert total == pytest.approx(1, abs=1e-12)


def test_bits_and_refusals() -> None:
    assert bits(np.array([0.5, 0.125])) == 2 and bits(np.full(3, 1 / math.e)) == pytest.approx(1 / math.log(2))
    with pytest.raises(ValueError, match="order=0 must be at least 1"):
        witten_bell(np.zeros(3, np.int64), np.zeros(3, np.int64), 2, 0)
