"""Random changes of valid files and states, with bounds on time and memory."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
import resource
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from conftest import numpy_2

SECONDS, BYTES = 20, 2 * 1024**3


class TooLong(BaseException):
    """A case took too long. No handler of the library catches it."""


@contextmanager
def bounded() -> Iterator[None]:
    """Limit time and memory within a block; exceeding them raises TooLong or MemoryError."""

    def stop(*_: Any) -> None:
        raise TooLong(f"more than {SECONDS} s")

    pages = Path("/proc/self/statm")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, stop)
    if pages.exists():  # on other systems memory is not limited
        used = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, hard))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGALRM, before)


# ---- bytes ---------------------------------------------------------------------------------------------------------

_EXTREME = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
_NUMBERS = (b"0", b"-1", b"1e999", b"NaN", b"9" * 30, b"9" * 5000, b"0.5", b"1_0", b"0x10", b"", b"\xd9\xa3")


def mutated(random: np.random.Generator, content: bytes) -> bytes:
    """Return the content with one to four random changes."""
    for _ in range(random.integers(1, 5)):
        changes = (_flip, _cut, _swap, _repeat, _extreme, _zeros, _insert, _number)
        content = changes[random.integers(len(changes))](random, content)
    return content


def _place(random: np.random.Generator, content: bytes) -> int:
    """Return a random position: near the start, near the end (where headers are), or anywhere, equally often."""
    size = max(len(content), 1)
    near = int(random.integers(min(size, 100)))
    return (near, size - 1 - near, int(random.integers(size)))[random.integers(3)]


def _flip(random: np.random.Generator, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(random.integers(1, 9)):
        if changed:
            changed[_place(random, content)] ^= 1 << random.integers(8)
    return bytes(changed)


def _cut(random: np.random.Generator, content: bytes) -> bytes:
    place = _place(random, content)
    return content[:place] if random.random() < 0.7 else content[place:]


def _chunk(random: np.random.Generator, content: bytes) -> tuple[int, int]:
    first = _place(random, content)
    return first, min(len(content), first + int(random.integers(1, 65)))


def _swap(random: np.random.Generator, content: bytes) -> bytes:
    (a, b), (c, d) = sorted(_chunk(random, content) for _ in range(2))
    if c < b:
        return content
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def _repeat(random: np.random.Generator, content: bytes) -> bytes:
    first, last = _chunk(random, content)
    return content[:last] + content[first:last] * int(random.integers(1, 4)) + content[last:]


def _extreme(random: np.random.Generator, content: bytes) -> bytes:
    width = int(random.choice([1, 2, 4, 8]))
    value = int(_EXTREME[random.integers(len(_EXTREME))]) % 256**width
    place = _place(random, content)
    return content[:place] + value.to_bytes(width, ("little", "big")[random.integers(2)]) + content[place + width :]


def _zeros(random: np.random.Generator, content: bytes) -> bytes:
    first, last = _chunk(random, content)
    return content[:first] + bytes([0, 255][random.integers(2)] for _ in range(last - first)) + content[last:]


def _insert(random: np.random.Generator, content: bytes) -> bytes:
    place = _place(random, content)
    return content[:place] + random.bytes(int(random.integers(1, 20))) + content[place:]


def _number(random: np.random.Generator, content: bytes) -> bytes:
    """Replace a number written in decimal digits by another one."""
    found = [match.span() for match in re.finditer(rb"[0-9]+", content[:20000])]
    if not found:
        return content
    first, last = found[random.integers(len(found))]
    return content[:first] + _NUMBERS[random.integers(len(_NUMBERS))] + content[last:]


# ---- trees ---------------------------------------------------------------------------------------------------------


def lies(random: np.random.Generator) -> Any:
    """Return a value that is invalid in most places of a state."""
    deep: Any = 1
    for _ in range(int(random.choice([5, 120, 900]))):
        deep = [deep] if random.random() < 0.5 else {"x": deep}
    plain = (
        *(-1, 0, 1, 2, 7, 1000, 2**31, 2**53 + 1, 2**63, 2**64, 2**128, -(10**9), 10**30, 10**400),
        *(float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 1e-308, 0.5, -0.5, 1.5),
        *(True, False, None, "", "x", "digits", "\x1b[31mred", "\ud800", "a" * 1000, "0", "1e3"),
        *([], {}, [[]], [1, [2]], {"x": 1}, {1: 2}, [None] * 1000, deep),
    )
    return plain[random.integers(len(plain))]


def array_lies(random: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Return the array with other values, another shape or another dtype."""
    array = np.array(array)
    which = random.integers(10)
    if which == 0:
        with np.errstate(over="ignore", invalid="ignore"):
            return array.astype(random.choice(["f2", "f4", "f8", "i1", "i8", "u8", ">f4", ">i8", "?"]))
    if which == 1:
        return array.reshape(-1) if array.ndim > 1 else array[np.newaxis]
    if which == 2:
        return array.reshape(-1)[: random.integers(array.size + 1)]
    if which == 3:
        return np.zeros((*(0,) * int(random.integers(1, 4)), *array.shape), array.dtype)
    if which == 4:
        return np.moveaxis(array, 0, -1) if array.ndim else array
    if which == 5:
        return np.frombuffer(random.bytes(array.size), "?").reshape(array.shape)
    if which == 6:
        return np.zeros((1,) * (40 if numpy_2 else 32), array.dtype)
    if array.dtype.kind == "f":
        values: tuple[Any, ...] = (np.nan, np.inf, -np.inf, np.finfo(array.dtype).max, -1.0, 0.0)
    else:
        values = (0, 1, *((np.iinfo(array.dtype).min, np.iinfo(array.dtype).max) if array.dtype.kind in "iu" else ()))
    array[random.random(array.shape) < random.choice([0.1, 1.0])] = values[random.integers(len(values))]
    return array


def forged(random: np.random.Generator, state: Any) -> Any:
    """Return a copy of the state in which one to three entries are replaced, removed, added, duplicated or swapped."""
    return _forged_in_place(random, copy.deepcopy(state))


def _forged_in_place(random: np.random.Generator, state: Any) -> Any:
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        places = list(islice(_places(state), 5000))
        if not places:
            return lies(random)
        holder, key = _drawn(random, places)
        which = random.integers(8)
        value = holder[key]
        if which == 0:
            del holder[key]
        elif which == 1:
            other, name = _drawn(random, places)
            holder[key] = other[name] if _has(other, name) else None  # it may then contain itself
        elif which == 2 and isinstance(holder, dict):
            holder[("x", 7, "\x1b[2J", -1)[random.integers(4)]] = lies(random)
        elif which == 2:
            holder.insert(int(random.integers(len(holder) + 1)), value)
        elif isinstance(value, np.ndarray) and random.random() < 0.8:
            holder[key] = array_lies(random, value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and random.random() < 0.6:
            holder[key] = _near(random, value)
        else:
            holder[key] = lies(random)
    return state


def _near(random: np.random.Generator, value: float) -> Any:
    """Return a plausible other number, or the same number as another type."""
    other: tuple[Callable[[], Any], ...] = (
        *(lambda: -value, lambda: value + 1, lambda: value - 1, lambda: value * 10**9),
        *(lambda: float(value), lambda: str(value), lambda: value * 0.5),
    )
    try:
        return other[random.integers(len(other))]()
    except (OverflowError, ValueError):  # an int with a thousand digits
        return 0


def _drawn(random: np.random.Generator, places: list[tuple[Any, Any, int]]) -> tuple[Any, Any]:
    """Return a random place: at the root, near it, or anywhere, equally often, since most places are deep."""
    deepest = (0, 2, 50)[random.integers(3)]
    chosen = [place for place in places if place[2] <= deepest]
    return chosen[random.integers(len(chosen))][:2]


def _has(holder: Any, key: Any) -> bool:
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _places(state: Any, depth: int = 0) -> Iterator[tuple[Any, Any, int]]:
    """Yield (dict or list, key, depth) for every entry."""
    if depth > 50:
        return
    if isinstance(state, dict) and state.keys() == {"__array__"}:  # the array of a checkpoint
        return
    keys = list(state) if isinstance(state, dict) else range(len(state)) if isinstance(state, list) else ()
    for key in keys:
        yield state, key, depth
        yield from _places(state[key], depth + 1)


def frozen(state: Any) -> Any:
    """Return an immutable, comparable copy of a state."""
    if isinstance(state, dict):
        return tuple((key, frozen(value)) for key, value in state.items())
    if isinstance(state, (list, tuple)):
        return tuple(map(frozen, state))
    array = getattr(state, "data", state) if not isinstance(state, np.generic) else state
    if isinstance(array, np.ndarray):
        return array.dtype.str, array.shape, array.tobytes()
    return repr(state)


# ---- checkpoints ---------------------------------------------------------------------------------------------------


def checkpoint_parts(content: bytes) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the JSON and the arrays of a checkpoint file."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files if name not in ("metadata", "sha256")}
        return json.loads(file["metadata"].tobytes()), arrays


def checkpoint_of(metadata: Any, arrays: dict[str, np.ndarray], random: np.random.Generator | None = None) -> bytes:
    """Return a checkpoint file with a valid digest for any contents.

    random: adds JSON that Python values cannot express: repeated keys, numbers too large for a float.
    """
    try:
        text = json.dumps(metadata)
    except (ValueError, RecursionError, TypeError):  # an int with too many digits, or too deep nesting
        text = '{"format": "retrograd checkpoint", "version": 1, "state": ' + "[" * 5000 + "]" * 5000 + "}"
    if random is not None and random.random() < 0.1:
        text = text.replace(": 0", (": 1e999", ": NaN", ": -Infinity", ": 1" + "0" * 5000)[random.integers(4)], 1)
    if random is not None and random.random() < 0.1:
        text = text.replace("{", '{"task": 1, "task": 2, ', 2)
    entries = {**arrays, "metadata": np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)}
    digest = hashlib.sha256()
    for name in sorted(entries):
        array = entries[name]
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode("utf-8", "surrogatepass") + array.tobytes())
    entries["sha256"] = np.frombuffer(digest.digest(), np.uint8)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in entries.items():
            with archive.open(zipfile.ZipInfo(name + ".npy"), "w") as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
    return stream.getvalue()


def forged_checkpoint(random: np.random.Generator, content: bytes) -> bytes:
    """Return a checkpoint with a valid digest and an invalid state."""
    metadata, arrays = checkpoint_parts(content)
    if random.random() < 0.7:
        metadata["state"] = _forged_in_place(random, metadata["state"])
    else:
        name = list(arrays)[random.integers(len(arrays))]
        arrays[name] = array_lies(random, arrays[name])
    if random.random() < 0.03:
        metadata = _forged_in_place(random, metadata)
    return checkpoint_of(metadata, arrays, random)
