# mypy: ignore-errors
"""The launch: threads that run the tasks of a kernel.

Each thread has a share of the tasks, adjacent ones and the same at every launch, so that it finds in its cache what it
wrote there before; a thread that has finished its share helps the others. A share is one 64-bit ticket (a launch number
and the number of tasks left): the thread that decrements it owns one task. It can only be decremented while tasks are
left, and the launch ends after the last of them, so the other fields are valid for a thread that owns a task. Idle
threads spin for a moment (waking a thread takes longer than a small kernel runs), then sleep on a condition variable.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..memory.layout import CHUNK
from .compiler import DATA_OFFSET, helper
from .simd import I64, declare

# words of the pool's state; those that different threads write are in separate cache lines
LAUNCHES, ENTRY, RECORD, TASKS, SHARES, COMPLETED, SLEEPERS, STOP, BUSY, THREADS, STARTED, MUTEX, CONDITION, TICKETS = (
    0,
    1,
    2,
    3,
    4,
    16,
    24,
    32,
    40,
    41,
    42,
    48,
    64,
    80,
)
LINE = 8  # words from one ticket to the next
MOST_SHARES = 64  # with more threads, several share one
WORDS = TICKETS + LINE * MOST_SHARES
LEFT = (1 << 32) - 1
# words that describe a kernel to ``launch``, followed by one word per parameter: INT, FLOAT, or the address of the
# dtype that an array must have
STATE, KERNEL, COUNT, START, NONE, ERROR, MESSAGE, ARRAY_TYPE, OTHER, WRONG_DTYPE, NEW_LIKE, PLANNED, KINDS = range(13)
INT, FLOAT = 1, 2
TYPE = object.__basicsize__ // 8 - 1  # of an object: the index of the address of its type
DATA = DATA_OFFSET // 8  # of NumPy's array: the index of the address of its elements; the fields after it follow
AXES, EXTENTS, STRIDES, DTYPE = DATA + 1, DATA + 2, DATA + 3, DATA + 5
# of NumPy's dtype: the word with its kind, type, byte order, flags (a byte each) and number (four bytes)
SIGNATURE, SIGNATURE_FLAGS = TYPE + 2, 0xFF << 24
PARAMETERS = 64  # of a kernel, at most
# words that describe a map: what else to call, the type of arrays, what to call for arrays that its kernels decline,
# and the words of its kernels, or 0
MAP_OTHER, MAP_TYPE, MAP_DECLINED, MAP_FLOAT, MAP_DOUBLE = range(5)
# words of a program, followed by three for each launch: the kernel, the number of tasks, and the parameter record
PROGRAM_STATE, PROGRAM_START, PROGRAM_NONE, PROGRAM_LAUNCHES, PROGRAM_FIRST = range(5)

_lock = types.ExternalFunction("pthread_mutex_lock", types.int32(types.int64))
_unlock = types.ExternalFunction("pthread_mutex_unlock", types.int32(types.int64))
_wait = types.ExternalFunction("pthread_cond_wait", types.int32(types.int64, types.int64))
_broadcast = types.ExternalFunction("pthread_cond_broadcast", types.int32(types.int64))
_yield = types.ExternalFunction("sched_yield", types.int32())
_read_clock = types.ExternalFunction("clock_gettime", types.int32(types.int64, types.int64))
_copy = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.int64))
# functions of CPython; objects are addresses here
_to_int = types.ExternalFunction("PyLong_AsLongLong", types.int64(types.int64))
_to_float = types.ExternalFunction("PyFloat_AsDouble", types.float64(types.int64))
_error = types.ExternalFunction("PyErr_Occurred", types.int64())
_set_error = types.ExternalFunction("PyErr_SetString", types.void(types.int64, types.int64))
_call_object = types.ExternalFunction("PyObject_CallNoArgs", types.int64(types.int64))
_call_with = types.ExternalFunction(
    "PyObject_Vectorcall", types.int64(types.int64, types.int64, types.int64, types.int64)
)
_take = types.ExternalFunction("Py_IncRef", types.void(types.int64))
_drop = types.ExternalFunction("Py_DecRef", types.void(types.int64))
_release_lock = types.ExternalFunction("PyEval_SaveThread", types.int64())
_take_lock = types.ExternalFunction("PyEval_RestoreThread", types.void(types.int64))


def _word(builder: ir.IRBuilder, pool: ir.Value, index: ir.Value) -> ir.Value:
    return builder.gep(builder.inttoptr(pool, I64.as_pointer()), [index])


@intrinsic
def get(typing: Any, pool: Any, index: Any) -> Any:
    """A word of the state, sequentially consistent."""
    generate = lambda context, builder, signature, args: builder.load_atomic(_word(builder, *args), "seq_cst", 8)  # noqa: E731
    return types.int64(types.int64, types.int64), generate


@intrinsic
def put(typing: Any, pool: Any, index: Any, value: Any) -> Any:
    """Write a word of the state; a thread that sees it also sees all earlier writes."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        builder.store_atomic(args[2], _word(builder, args[0], args[1]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def add(typing: Any, pool: Any, index: Any, value: Any) -> Any:
    """Add to a word of the state; returns the old value."""
    generate = lambda context, builder, signature, args: builder.atomic_rmw(  # noqa: E731
        "add", _word(builder, args[0], args[1]), args[2], "seq_cst"
    )
    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def exchange_if(typing: Any, pool: Any, index: Any, expected: Any, value: Any) -> Any:
    """Write a word of the state if it still is ``expected``; returns whether it was."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        word = _word(builder, args[0], args[1])
        return builder.extract_value(builder.cmpxchg(word, args[2], args[3], "seq_cst", "seq_cst"), 1)

    return types.boolean(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def word(typing: Any, address: Any, index: Any) -> Any:
    """A 64-bit word at an address."""
    generate = lambda context, builder, signature, args: builder.load(_word(builder, *args))  # noqa: E731
    return types.int64(types.int64, types.int64), generate


@intrinsic
def set_word(typing: Any, address: Any, index: Any, value: Any) -> Any:
    """Write a 64-bit word at an address."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        builder.store(args[2], _word(builder, args[0], args[1]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def new_record(typing: Any) -> Any:
    """Address of memory for a parameter record, until the function returns."""
    generate = lambda context, builder, signature, args: builder.ptrtoint(  # noqa: E731
        cgutils.alloca_once(builder, I64, size=PARAMETERS), I64
    )
    return types.int64(), generate


@intrinsic
def bits(typing: Any, number: Any) -> Any:
    """The bits of a float64 as an integer."""
    return types.int64(types.float64), lambda context, builder, signature, args: builder.bitcast(args[0], I64)


@intrinsic
def call(typing: Any, entry: Any, task: Any, worker: Any, record: Any) -> Any:
    """Run one task of the kernel at an address."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        function = ir.FunctionType(ir.VoidType(), [I64, I64, I64])
        builder.call(builder.inttoptr(args[0], function.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64, types.int64), generate


@intrinsic
def call_new_like(typing: Any, function: Any, array: Any) -> Any:
    """Call NumPy's PyArray_NewLikeArray at an address: a new array with the order (2) and dtype (0) of another."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        integer = ir.IntType(32)
        function = ir.FunctionType(I64, [I64, integer, I64, integer])
        pointer = builder.inttoptr(args[0], function.as_pointer())
        return builder.call(pointer, [args[1], integer(2), I64(0), integer(0)])

    return types.int64(types.int64, types.int64), generate


@intrinsic
def pause(typing: Any) -> Any:
    """Tell the CPU that this is a waiting loop."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        if builder.module.triple.startswith(("x86_64", "i686")):
            builder.call(declare(builder, "llvm.x86.sse2.pause", ir.VoidType(), []), [])
        return context.get_dummy_value()

    return types.void(), generate


@helper
def _work(pool: int, worker: int) -> None:
    """Run the tasks left of this worker's share, then of the others'."""
    tickets = get(pool, SHARES)  # maybe those of an earlier launch: only a hint where to look
    done = 0
    for turn in range(tickets):
        share = (worker + turn) % tickets
        place = TICKETS + LINE * share
        ticket = get(pool, place)
        while ticket & LEFT != 0:
            if exchange_if(pool, place, ticket, ticket - 1):
                end = (share + 1) * get(pool, TASKS) // get(pool, SHARES)
                call(get(pool, ENTRY), end - (ticket & LEFT), worker, get(pool, RECORD))
                done += 1
            ticket = get(pool, place)
    if done != 0:
        add(pool, COMPLETED, done)


@helper
def run(pool: int, entry: int, tasks: int, record: int) -> None:
    """Run every task of a kernel; the calling thread takes part. A concurrent second launch runs its tasks alone."""
    if tasks == 1 or get(pool, THREADS) == 1 or not exchange_if(pool, BUSY, 0, 1):
        for task in range(tasks):
            call(entry, task, 0, record)
        return
    put(pool, ENTRY, entry)
    put(pool, RECORD, record)
    put(pool, TASKS, tasks)
    put(pool, COMPLETED, 0)
    number = get(pool, LAUNCHES) + 1
    shares = min(get(pool, THREADS), MOST_SHARES)
    put(pool, SHARES, shares)
    for share in range(shares):
        left = (share + 1) * tasks // shares - share * tasks // shares
        put(pool, TICKETS + LINE * share, number << 32 | left)
    add(pool, LAUNCHES, 1)  # sequentially consistent with the next line: no thread falls asleep between the two
    if get(pool, SLEEPERS) > 0:
        _lock(pool + 8 * MUTEX)
        _broadcast(pool + 8 * CONDITION)
        _unlock(pool + 8 * MUTEX)
    _work(pool, 0)
    spins = 0
    while get(pool, COMPLETED) < tasks:
        spins += 1
        if spins > 10000:  # the thread that holds the last task may wait for this core
            _yield()
        pause()
    put(pool, BUSY, 0)


@helper
def _alike(x: int, y: int) -> bool:
    """Whether two arrays have the same type, shape and memory layout."""
    axes = word(x, AXES) & 0xFFFFFFFF
    if word(y, AXES) & 0xFFFFFFFF != axes or word(x, DTYPE) != word(y, DTYPE):
        return False
    for axis in range(axes):
        extent = word(word(x, EXTENTS), axis)
        if word(word(y, EXTENTS), axis) != extent:
            return False
        if extent > 1 and word(word(x, STRIDES), axis) != word(word(y, STRIDES), axis):
            return False
    return True


@helper
def _is_of(x: int, dtype: int) -> bool:
    """Whether the elements of an array have a dtype; two objects may describe the same one."""
    found = word(x, DTYPE)
    return found == dtype or (word(found, SIGNATURE) ^ word(dtype, SIGNATURE)) & ~SIGNATURE_FLAGS == 0


@helper
def _size(x: int) -> int:
    size = 1
    for axis in range(word(x, AXES) & 0xFFFFFFFF):
        size *= word(word(x, EXTENTS), axis)
    return size


@helper
def _start(pool: int, start: int) -> bool:
    """Start the threads if they are not running; False with an exception set if they cannot be started."""
    if get(pool, STARTED) == 0:
        result = _call_object(start)
        if result == 0:
            return False
        _drop(result)
    return True


@helper
def _release(pool: int, kernel: int, tasks: int, record: int) -> bool:
    """Run the tasks without Python's global lock; False with an exception set if threads cannot be started."""
    if tasks > 1 and not _start(pool, word(kernel, START)):
        return False
    thread = _release_lock()
    run(pool, word(kernel, KERNEL), tasks, record)
    _take_lock(thread)
    return True


@helper
def _map(kernel: int, arguments: int, count: int) -> int:
    """An element-wise kernel of (arrays..., result, n, numbers...), called with (arrays..., numbers...).

    Allocates the result and returns it; None unless the arrays are dense with the same memory layout.
    """
    arrays = 1
    while arrays < count and word(kernel, KINDS + arrays + 1) > FLOAT:
        arrays += 1
    if count + 2 != word(kernel, COUNT) or word(kernel, KINDS + arrays) <= FLOAT:
        _set_error(word(kernel, ERROR), word(kernel, MESSAGE))
        return 0
    record = new_record()
    first = word(arguments, 0)
    for slot in range(arrays):
        value = word(arguments, slot)
        if word(value, TYPE) != word(kernel, ARRAY_TYPE):
            return _call_with(word(kernel, OTHER), arguments, count, 0)
        if not _is_of(value, word(kernel, KINDS + slot)):
            _set_error(word(kernel, ERROR), word(kernel, WRONG_DTYPE))
            return 0
        if slot > 0 and not _alike(first, value):
            _take(word(kernel, NONE))
            return word(kernel, NONE)
        set_word(record, slot, word(value, DATA))
    for slot in range(arrays, count):
        number = _to_float(word(arguments, slot))
        if number == -1.0 and _error() != 0:
            return 0
        set_word(record, slot + 2, bits(number))
    result = call_new_like(word(kernel, NEW_LIKE), first)
    if result == 0:
        return 0
    if not _alike(first, result):
        _drop(result)
        _take(word(kernel, NONE))
        return word(kernel, NONE)
    size = _size(first)
    set_word(record, arrays, word(result, DATA))
    set_word(record, arrays + 1, size)
    if not _release(word(kernel, STATE), kernel, max(1, (size + CHUNK - 1) // CHUNK), record):
        _drop(result)
        return 0
    return result


def launch(owner: int, arguments: int, count: int) -> int:
    """The built-in function (METH_FASTCALL) of one kernel that Python calls: ``launch(tasks, ...)``.

    ``owner`` is a Python integer, the address of the words of the kernel. Packs the record and runs the tasks. Returns
    None, or 0 with an exception set. With an array instead of ``tasks`` it is ``_map``. If an argument that should be
    an array is not one, it calls ``other`` of launch.py, which plans the launch or raises an error.
    """
    kernel = _to_int(owner)
    if count > 0:
        kind = word(word(arguments, 0), TYPE)
        if kind == word(kernel, ARRAY_TYPE):
            return _map(kernel, arguments, count)
        if kind == word(kernel, PLANNED):
            return _call_with(word(kernel, OTHER), arguments, count, 0)
    if count != word(kernel, COUNT) + 1:
        _set_error(word(kernel, ERROR), word(kernel, MESSAGE))
        return 0
    record = new_record()
    tasks = _to_int(word(arguments, 0))
    failed = tasks == -1
    for slot in range(count - 1):
        value, kind = word(arguments, slot + 1), word(kernel, KINDS + slot)
        if kind == INT:
            value = _to_int(value)
            failed = failed or value == -1
        elif kind == FLOAT:
            number = _to_float(value)
            value = bits(number)
            failed = failed or number == -1.0
        elif word(value, TYPE) != word(kernel, ARRAY_TYPE):
            return _call_with(word(kernel, OTHER), arguments, count, 0)
        elif not _is_of(value, kind):
            _set_error(word(kernel, ERROR), word(kernel, WRONG_DTYPE))
            return 0
        else:
            value = word(value, DATA)
        set_word(record, slot, value)
    if failed and _error() != 0:
        return 0
    if not _release(word(kernel, STATE), kernel, tasks, record):
        return 0
    _take(word(kernel, NONE))
    return word(kernel, NONE)


def map_either(owner: int, arguments: int, count: int) -> int:
    """The built-in function (METH_FASTCALL) of an element-wise kernel in both types: (arrays..., numbers...).

    ``owner`` is a Python integer, the address of the words of the map. It calls ``declined`` for arrays for which
    ``_map`` returns None, and ``other`` for other types and objects, and until the kernel of the type has been loaded.
    """
    function = _to_int(owner)
    if count > 0 and word(word(arguments, 0), TYPE) == word(function, MAP_TYPE):
        kernel = word(function, MAP_FLOAT)
        if kernel == 0 or not _is_of(word(arguments, 0), word(kernel, KINDS)):
            kernel = word(function, MAP_DOUBLE)
        if kernel != 0 and _is_of(word(arguments, 0), word(kernel, KINDS)):
            result = _map(kernel, arguments, count)
            if result != word(kernel, NONE):
                return result
            _drop(result)
            return _call_with(word(function, MAP_DECLINED), arguments, count, 0)
    return _call_with(word(function, MAP_OTHER), arguments, count, 0)


def replay(owner: int, arguments: int, count: int) -> int:
    """The built-in function (METH_FASTCALL) that runs the launches of a program: ``replay(words)``, see program.py."""
    program = word(word(arguments, 0), DATA)
    pool = word(program, PROGRAM_STATE)
    if not _start(pool, word(program, PROGRAM_START)):
        return 0
    thread = _release_lock()
    for launch in range(word(program, PROGRAM_LAUNCHES)):
        at = PROGRAM_FIRST + 3 * launch
        run(pool, word(program, at), word(program, at + 1), word(program, at + 2))
    _take_lock(thread)
    _take(word(program, PROGRAM_NONE))
    return word(program, PROGRAM_NONE)


@helper
def _now(clock: int, time: int) -> int:
    """Nanoseconds; ``time`` is the address of two words."""
    _read_clock(clock, time)
    return word(time, 0) * 1000000000 + word(time, 1)


def serve(pool: int, worker: int, patience: int, clock: int) -> None:
    """The loop of a thread of the pool, until the pool stops; ``patience`` in nanoseconds."""
    time = new_record()
    seen = 0
    while get(pool, STOP) == 0:
        turns = 0
        tired = _now(clock, time) + patience
        while get(pool, LAUNCHES) == seen and get(pool, STOP) == 0:
            pause()  # takes 10 to 100 times longer on one CPU than on another
            turns += 1
            if turns & 63 == 0 and _now(clock, time) > tired:
                _lock(pool + 8 * MUTEX)
                add(pool, SLEEPERS, 1)
                while get(pool, LAUNCHES) == seen and get(pool, STOP) == 0:
                    _wait(pool + 8 * CONDITION, pool + 8 * MUTEX)
                add(pool, SLEEPERS, -1)
                _unlock(pool + 8 * MUTEX)
        seen = get(pool, LAUNCHES)
        _work(pool, worker)
