"""Random generators: the default generator, seeds, and validated states.

The default generator starts from a fixed seed. Without manual_seed, every run draws the same numbers.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, Final, Self

import numpy as np
from numpy.random import PCG64, SeedSequence

from ..._files.state import brief, check_table, choice, count, names
from ...arrays import from_host, same
from ...engine.arguments import kind_name
from ..argument_checks import as_flag

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


# ---- Generator states from untrusted data ---------------------------------------------------------------------------

# The largest numbers allowed in a state. With a larger pos, NumPy reads beyond its arrays.
_LARGEST = {"state": 2**128 - 1, "inc": 2**128 - 1, "pos": 624, "buffer_pos": 4, "has_uint32": 1, "uinteger": 2**32 - 1}


def set_state_of(generator: np.random.BitGenerator, state: Any) -> None:
    """Set the state of a NumPy generator. An invalid state raises ValueError and changes nothing."""
    checked = _checked("state", state, generator.state)
    inner = checked.get("state")
    if isinstance(inner, dict):
        if inner.get("inc", 1) % 2 == 0:
            raise ValueError(f"state['inc'] is {inner['inc']}; it must be odd, or the numbers repeat")
        if "pos" in inner and not inner["key"].any():
            raise ValueError("state['key'] is all zeros, which generates only zeros")
    generator.state = checked


def _checked(name: str, value: Any, own: Any) -> Any:
    """Check that ``value`` has the structure of ``own``, and return it."""
    if isinstance(own, Mapping):
        table = check_table(name, value)
        if table.keys() != own.keys():
            raise ValueError(f"{name} has the entries {names(table)}, expected {list(own)}")
        return {key: _checked(f"{name}[{key!r}]", table[key], own[key]) for key in own}
    if isinstance(own, np.ndarray):
        array = from_host(value)
        if array.shape == own.shape and array.dtype.kind in "iu":
            found = array.astype(own.dtype)
            if same(found, array, "whether a state fits"):
                return found
        raise ValueError(f"{name} is {brief(value)}; it must be an array of {own.dtype}, shape {own.shape}")
    if isinstance(own, str):
        return choice(own)(name, value)
    return count(0, _LARGEST.get(name.rpartition("['")[2].removesuffix("']"), 2**63 - 1))(name, value)


# ---- Random generators and the default generator --------------------------------------------------------------------


class Generator(np.random.Generator):
    """A random generator with its own state: ``retrograd.rand(3, generator=Generator().manual_seed(1))``.

    It is NumPy's PCG64 with PyTorch's methods. A new generator starts from seed 0.
    """

    def __init__(self) -> None:
        super().__init__(PCG64(0))
        self._seed = self._spawned = 0  # seeds that spawned_seed() has returned

    def manual_seed(self, seed: int) -> Self:
        """Restart from ``seed``, a non-negative int, and return the generator.

        Raises:
            TypeError: the seed is not an int.
            ValueError: the seed is negative.
        """
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise TypeError(f"manual_seed: seed={seed!r} is {kind_name(seed)}, needs an int")
        if seed < 0:
            raise ValueError(f"manual_seed: seed={seed} is negative; use 0 or more")
        self.bit_generator.state = PCG64(int(seed)).state
        self._seed, self._spawned = int(seed), 0
        return self

    def seed(self) -> int:
        """Restart from a seed drawn by the operating system, and return it."""
        self.manual_seed(secrets.randbits(63))
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed that the generator last started from."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """Return the state: nested dicts of str and int, which can be stored as JSON.

        The entry "spawned" counts the epochs for which a DataLoader has seeded worker processes; it is absent if zero.
        """
        return state_of(self)

    def set_state(self, state: dict[str, Any]) -> Self:
        """Continue from a state returned by ``get_state``.

        Raises:
            ValueError: the state is invalid; the generator is unchanged.
        """
        try:
            restore(self, state)
        except ValueError as error:
            raise ValueError(f"set_rng_state: not a state from get_rng_state: {error}") from None
        return self

    def __reduce__(self) -> Any:
        return _restored, (self.get_state(), self._seed)


def _restored(state: dict[str, Any], seed: int) -> Generator:
    generator = Generator().set_state(state)
    generator._seed = seed
    return generator


default_generator: Final = Generator()


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


def as_generator(name: str, generator: np.random.Generator | None) -> np.random.Generator:
    """Return ``generator``, or the default generator for None; TypeError if it is not a generator."""
    if generator is None:
        return default_generator
    if not isinstance(generator, np.random.Generator):
        raise TypeError(f"{name}: generator is {kind_name(generator)}, needs a retrograd.Generator")
    return generator


def state_of(generator: np.random.Generator) -> dict[str, Any]:
    """Return the state of a Generator or a NumPy generator."""
    state = dict(generator.bit_generator.state)
    spawned = generator._spawned if isinstance(generator, Generator) else 0
    return {**state, "spawned": spawned} if spawned else state


def restore(generator: np.random.Generator, state: Any) -> None:
    """Continue from a state returned by ``state_of``. An invalid state raises ValueError and changes nothing."""
    spawned = 0
    if isinstance(generator, Generator) and isinstance(state, Mapping) and "spawned" in state:
        spawned = count()("state['spawned']", state["spawned"])
        state = {name: state[name] for name in state if name != "spawned"}
    set_state_of(generator.bit_generator, state)
    if isinstance(generator, Generator):
        generator._spawned = spawned


def spawned_seed(generator: np.random.Generator) -> int:
    """Return a seed from 0 to 2**63 - 1 without advancing the generator's stream; each call returns a new one.

    It depends on the generator's state and on the number of earlier calls, which a Generator counts from the last
    ``manual_seed`` and keeps in its state. For a NumPy generator, the number of
    spawned children takes the place of that count.
    """
    if isinstance(generator, Generator):
        number = generator._spawned
        generator._spawned += 1
    elif hasattr(generator.bit_generator.seed_seq, "spawn"):
        number = generator.bit_generator.seed_seq.spawn(1)[0].spawn_key[-1]
    else:  # made from a RandomState, which has no counter
        number = int(generator.integers(2**63))
    following = int(deepcopy(generator).integers(2**63))
    return int(SeedSequence(following, spawn_key=(number,)).generate_state(1, np.uint64)[0]) >> 1
