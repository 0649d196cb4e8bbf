"""The one generator that initialisation and dropout draw from.

It starts from a fixed seed, so that a program that never seeds draws the same numbers in every run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["default_generator", "get_rng_state", "manual_seed", "set_rng_state"]

default_generator = np.random.Generator(np.random.PCG64(0))


def manual_seed(seed: int) -> np.random.Generator:
    """Restart the generator from ``seed``, a non-negative int, and return it.

    Raises:
        TypeError: the seed is no int.
        ValueError: the seed is negative.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"manual_seed: seed={seed!r} is {type(seed).__name__}, needs an int")
    if seed < 0:
        raise ValueError(f"manual_seed: seed={seed} is negative; use 0 or more")
    default_generator.bit_generator.state = np.random.PCG64(int(seed)).state
    return default_generator


def get_rng_state() -> dict[str, Any]:
    """The generator's state: nested dicts of str and int, so that it can be written as JSON."""
    return dict(default_generator.bit_generator.state)


def set_rng_state(state: dict[str, Any]) -> None:
    """Put the generator into a state that ``get_rng_state`` returned.

    Raises:
        ValueError: this is no such state; the generator is left as it was.
    """
    before = default_generator.bit_generator.state
    try:
        default_generator.bit_generator.state = state
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        default_generator.bit_generator.state = before
        raise ValueError(f"set_rng_state: not a state from get_rng_state: {error!r}") from None
