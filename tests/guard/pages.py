"""A NumPy memory handler that puts every array between inaccessible pages.

What reads or writes one byte beyond an array ends the process; so does what uses an array after it was freed, since its
addresses are never given away again. Fresh memory holds garbage of our choice. One side of an array touches a page
without access; what is left of its pages on the other side holds a known byte, which is looked at when it is freed.

    record | no access | known bytes, array | no access        before a page
    record | no access | array, known bytes | no access        behind a page

Before a page an array ends with the very last byte. So its address is a multiple of what its size is a multiple of, as
that of a slice of an array, and of no more.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
from numba import cfunc, njit, types
from numba.extending import intrinsic

PAGE = mmap.PAGESIZE
READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
FIXED = PRIVATE | 0x10 | getattr(mmap, "MAP_NORESERVE", 0)  # MAP_FIXED is 0x10 everywhere
PATTERN, BEFORE, DAMAGED, COUNT = range(4)  # words of _state
_HANDLER = 304  # of PyDataMem_SetHandler in the table of NumPy's C interface

_CAPSULE = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_CONTENT = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_state = (ctypes.c_int64 * 4)()
_STATE = ctypes.addressof(_state)
_word, _int = types.int64, types.int32
_mmap = types.ExternalFunction("mmap", _word(_word, _word, _int, _int, _int, _word))
_mprotect = types.ExternalFunction("mprotect", _int(_word, _word, _int))
_memset = types.ExternalFunction("memset", _word(_word, _int, _word))
_memcpy = types.ExternalFunction("memcpy", _word(_word, _word, _word))


def _pointer_to(element: Any) -> Any:
    def pointer(context: Any, address: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(element)(_word), code

    return intrinsic(pointer)


_words, _bytes = _pointer_to(types.int64), _pointer_to(types.uint8)


def _allocation(zeros: bool) -> Any:
    def allocate(size: int) -> int:
        state = _words(_STATE)
        size = max(size, 1)
        length = (size + PAGE - 1) // PAGE * PAGE
        record = _mmap(0, length + 3 * PAGE, READ_WRITE, PRIVATE, -1, 0)
        if record == -1:
            return 0
        begin = record + 2 * PAGE
        if _mprotect(begin - PAGE, PAGE, 0) | _mprotect(begin + length, PAGE, 0):
            return 0
        known = (state[PATTERN] & 0xFF) ^ 0xA5  # what reads it gets other numbers with other garbage
        _memset(begin, known, length)
        data = begin
        if state[BEFORE]:
            data += length - size
        if zeros:
            _memset(data, 0, size)
        else:
            pattern = state[PATTERN]
            whole = _words(data)
            for i in range(size // 8):
                whole[i] = pattern
            rest = _bytes(data)
            for i in range(size // 8 * 8, size):
                rest[i] = (pattern >> (8 * (i % 8))) & 0xFF
        kept = _words(record)
        kept[0], kept[1], kept[2] = data, size, known
        state[COUNT] += 1
        return data

    return allocate


def _release(data: int) -> int:
    if data == 0:
        return 0
    begin = data // PAGE * PAGE
    record = begin - 2 * PAGE
    kept, state = _words(record), _words(_STATE)
    size, known = kept[1], kept[2]
    length = (size + PAGE - 1) // PAGE * PAGE
    if kept[0] != data:
        state[DAMAGED] += 1
        return 0
    seen, changed = _bytes(begin), 0
    for i in range(data - begin):
        changed |= seen[i] ^ known
    for i in range(data - begin + size, length):
        changed |= seen[i] ^ known
    state[DAMAGED] += changed != 0
    _mmap(record, length + 3 * PAGE, 0, FIXED, -1, 0)
    return 0


class _Allocator(ctypes.Structure):
    """NumPy's PyDataMemAllocator."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free"))


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = (("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("allocator", _Allocator))


def _handler() -> _Handler:
    fresh, zeroed, release = njit(_allocation(False)), njit(_allocation(True)), njit(_release)

    @cfunc(_word(_word, _word))
    def malloc(ctx: int, size: int) -> int:
        return fresh(size)

    @cfunc(_word(_word, _word, _word))
    def calloc(ctx: int, count: int, size: int) -> int:
        return zeroed(count * size)

    @cfunc(_word(_word, _word, _word))
    def realloc(ctx: int, data: int, size: int) -> int:
        new = fresh(size)
        if data and new:
            _memcpy(new, data, min(size, _words(data // PAGE * PAGE - 2 * PAGE)[1]))
            release(data)
        return new

    @cfunc(types.void(_word, _word, _word))
    def free(ctx: int, data: int, size: int) -> None:
        release(data)

    functions = malloc, calloc, realloc, free
    handler = _Handler(b"guard pages", 1, _Allocator(None, *(function.address for function in functions)))
    _forever.extend((handler, functions))
    return handler


_forever: list[Any] = []


def use(pattern: int, before: bool) -> None:
    """Let each array made from now on lie between pages without access, before one or behind one, full of ``pattern``.

    For the rest of the process: arrays are freed by what made them.
    """
    _state[PATTERN], _state[BEFORE] = pattern, before
    if _forever:
        return
    handler = _handler()
    name = b"mem_handler"
    capsule = _CAPSULE(ctypes.addressof(handler), name, None)
    core = sys.modules.get("numpy._core._multiarray_umath") or sys.modules["numpy.core._multiarray_umath"]
    table = ctypes.cast(_CONTENT(core._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    setter = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[_HANDLER] or 0)
    _forever.extend((name, capsule, setter(capsule)))
    assert np.empty(3).ctypes.data % PAGE in (0, PAGE - 24)


def damaged() -> int:
    """How many arrays were written over outside of their bounds, of those that have been freed."""
    return int(_state[DAMAGED])


def count() -> int:
    """How many arrays there were."""
    return int(_state[COUNT])
