"""Generators of random numbers, and the default one.

It starts from a fixed seed: without manual_seed, every run draws the same numbers.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from ..arguments.checks import as_flag
from .random_state import set_state_of

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]


class Generator(np.random.Generator):
    """A generator with its own state: ``retrograd.rand(3, generator=Generator().manual_seed(1))``.

    NumPy's PCG64 with PyTorch's methods. A new one starts from seed 0.
    """

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))
        self._seed = 0

    def manual_seed(self, seed: int) -> Self:
        """Restart from ``seed``, a non-negative int, and return the generator.

        Raises:
            TypeError: the seed is not an int.
            ValueError: the seed is negative.
        """
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"manual_seed: seed={seed!r} is {type(seed).__name__}, needs an int")
        if seed < 0:
            raise ValueError(f"manual_seed: seed={seed} is negative; use 0 or more")
        self.bit_generator.state = np.random.PCG64(int(seed)).state
        self._seed = int(seed)
        return self

    def seed(self) -> int:
        """Restart from a seed that the operating system draws, and return it."""
        self.manual_seed(secrets.randbits(63))
        return self._seed

    def initial_seed(self) -> int:
        """The seed that the generator last started from."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """The state: nested dicts of str and int, which JSON can hold."""
        return dict(self.bit_generator.state)

    def set_state(self, state: dict[str, Any]) -> Self:
        """Continue from a state that ``get_state`` returned.

        Raises:
            ValueError: this is not a valid state; the generator is left as it was.
        """
        try:
            set_state_of(self.bit_generator, state)
        except ValueError as error:
            raise ValueError(f"set_rng_state: not a state from get_rng_state: {error}") from None
        return self

    def __reduce__(self) -> Any:
        return _restored, (self.get_state(), self._seed)


def _restored(state: dict[str, Any], seed: int) -> Generator:
    generator = Generator().set_state(state)
    generator._seed = seed
    return generator


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """``Generator.manual_seed`` of the default generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """``Generator.seed`` of the default generator."""
    return default_generator.seed()


def initial_seed() -> int:
    """``Generator.initial_seed`` of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> dict[str, Any]:
    """``Generator.get_state`` of the default generator."""
    return default_generator.get_state()


def set_rng_state(state: dict[str, Any]) -> None:
    """``Generator.set_state`` of the default generator."""
    default_generator.set_state(state)


@contextmanager
def fork_rng(enabled: bool = True) -> Iterator[None]:
    """Restore the default generator's state when the ``with`` block ends."""
    if not as_flag("fork_rng", "enabled", enabled):
        yield
        return
    state, start = default_generator.get_state(), default_generator._seed
    try:
        yield
    finally:
        default_generator.set_state(state)
        default_generator._seed = start


def chosen(name: str, generator: Any) -> np.random.Generator:
    """``generator``, or the default one for None; TypeError if it is not a generator."""
    if generator is None:
        return default_generator
    if not isinstance(generator, np.random.Generator):
        raise TypeError(f"{name}: generator is {type(generator).__name__}, needs a retrograd.Generator")
    return generator
