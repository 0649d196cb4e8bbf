"""Memory that the tasks of a kernel use while they run; it is reused by the next call.

This saves the allocation, and slow arithmetic with denormal numbers: a kernel may compute on padding whose results are
discarded. Numbers left by an earlier call are harmless there; the bits of fresh memory may be denormal.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

import numpy as np

from .launch import pool
from .plan_tracing import planner

_MOST = 8 << 20  # bytes kept for each element type
_CACHE_LINE = 64  # bytes
_DATA, _address = object.__basicsize__, ctypes.c_int64.from_address  # of an array, see launch.py
_MOST_PIECES = 256
_ALIGNED_FROM = 16 << 10  # bytes from which the alignment of an array is worth its time
_PAGE = 4096  # bytes beyond which a CPU rarely prefetches


class _Kept(local):  # per calling thread
    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.pieces: dict[tuple[str, tuple[int, ...]], list[np.ndarray]] = {}  # of them, as ``carved`` gave them


_kept = _Kept()


def aligned(count: int, dtype: str) -> np.ndarray:
    """A fresh array that begins at a cache line: loads and stores across two lines are slower."""
    size = 4 if dtype in "fi" else 8
    if (made := planner()) is not None:
        return made.array("scratch", (count,), dtype)
    if count * size < _ALIGNED_FROM:
        return np.empty(count, dtype)
    memory = np.empty(count + _CACHE_LINE // size, dtype)
    begin: int = -_address(id(memory) + _DATA).value % _CACHE_LINE // size
    return memory[begin : begin + count]


def forget() -> None:
    """Free the memory kept for this thread."""
    _kept.arrays.clear()
    _kept.pieces.clear()


def per_thread(count: int, dtype: str) -> np.ndarray:
    """At least ``count`` elements per thread, one part after the other; the next call may return the same memory."""
    array = _kept.arrays.get(dtype)
    total = count * pool.threads
    return array if array is not None and array.size >= total else _more(total, dtype, count)


def page_of(words: int, size: int = 8) -> int:
    """At least so many words for each thread, whole pages: no core writes or prefetches the lines of another one.

    ``size``: bytes of a word.

    >>> page_of(1), page_of(512), page_of(513)
    (512, 512, 1024)
    """
    return -(-words * size // _PAGE) * _PAGE // size


def carved(dtype: str, *counts: int) -> list[np.ndarray]:
    """Arrays of at least these sizes, each beginning at a cache line, for one operator: of kept memory, unless
    large. ``shared`` may return the same memory."""
    pieces = _kept.pieces.get((dtype, counts))
    if pieces is not None:
        return pieces
    line = _CACHE_LINE // (4 if dtype == "f" else 8)
    sizes = [-(-count // line) * line for count in counts]
    total = sum(sizes)
    if total * (4 if dtype == "f" else 8) > _MOST:  # one large piece would come fresh from the system
        return [aligned(size, dtype) for size in sizes]
    memory = shared(total, dtype)
    pieces, begin = [], 0
    for size in sizes:
        pieces.append(memory[begin : begin + size])
        begin += size
    if len(_kept.pieces) >= _MOST_PIECES:
        _kept.pieces.clear()
    _kept.pieces[dtype, counts] = pieces
    return pieces


def cores() -> int:
    """The number of threads for which a memory limit must suffice. It decides which algorithm runs, and so the bits of
    the result: it must not depend on the current number of threads."""
    return os.cpu_count() or 1


def shared(count: int, dtype: str) -> np.ndarray:
    """At least ``count`` elements; the next call of this function or of ``per_thread`` may return the same memory."""
    array = _kept.arrays.get(dtype)
    return array if array is not None and array.size >= count else _more(count, dtype)


def _more(count: int, dtype: str, each: int | None = None) -> np.ndarray:
    """Allocate more memory than is cached; for a plan, a new buffer. each: elements for each thread."""
    if (made := planner()) is not None:
        return made.array("scratch", (count,), dtype) if each is None else made.array("each", (each,), dtype)
    array = aligned(count, dtype)
    array.fill(0)
    if array.nbytes <= _MOST:
        _kept.arrays[dtype] = array
        _kept.pieces.clear()  # they hold the memory that was kept before
    return array


@contextmanager
def none_kept() -> Iterator[None]:
    """In the block, no memory is kept from before: a plan names all that it needs."""
    before = _kept.arrays, _kept.pieces
    _kept.arrays, _kept.pieces = {}, {}
    try:
        yield
    finally:
        _kept.arrays, _kept.pieces = before
