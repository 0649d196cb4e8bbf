"""Running compiled kernels: handles that load them, and the threads that share their tasks.

``kernel("pointwise.mul")`` is a handle on ``mul`` of ``pointwise_jit.py``; ``handle["f"]`` loads its float32 form (from
the cache, else compiled now) and returns a function ``launch(tasks, ...)`` that runs all tasks. For an element-wise
kernel ``launch(x, ...)`` also allocates the result (see ``pointwise.py``). Work is cut into tasks by shape, never by
the number of threads, so the bits do not depend on that number.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib.metadata import version
from typing import Any, Final, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from . import cache, numpy_abi
from .object_file import is_sound
from .plan_tracing import PlanError, Planned, may_overwrite, planner
from .target import target_machine

Launch = Callable[..., Any]
MOST_THREADS = 1024
NUMBA = "0.63", "0.68"  # the first and the last version whose private names ``compiler`` is known to work with
_PATIENCE = 100_000  # nanoseconds that a thread waits for work before it sleeps
_STOP, _THREADS, _STARTED, _MUTEX, _CONDITION, _WORDS = 32, 41, 42, 48, 64, 80 + 8 * 64  # as in threads_jit.py
_CPYTHON = (  # C functions that its machine code calls
    "PyLong_AsLongLong",
    "PyFloat_AsDouble",
    "PyErr_Occurred",
    "PyErr_SetString",
    "PyObject_CallNoArgs",
    "PyObject_Vectorcall",
    "PyObject_Hash",
    "PyObject_RichCompareBool",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_Size",
    "PyTuple_SetItem",
    "PyList_GetItem",
    "PyList_New",
    "PyList_SetItem",
    "PyList_Size",
    "PyObject_GetAttr",
    "PyObject_SetAttr",
    "PyType_GenericAlloc",
    "Py_IncRef",
    "Py_DecRef",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)
loading = threading.RLock()
begun: set[str] = set()  # the functions that this process has compiled, or is compiling
_announced = False


class _Engine:
    """LLVM's linker for object files in memory. Nothing is ever unloaded."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._jit = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())

    def add(self, code: bytes, symbol: str) -> int:
        self._jit.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._jit.finalize_object()
        address: int = self._jit.get_function_address(symbol)
        return address


_engine: _Engine | None = None


def load(name: str, compile: Callable[[], bytes]) -> tuple[int, bytes]:
    """Address of the compiled function ``name`` and the note stored with it.

    ``compile`` is called on a miss; it returns the note (one line) followed by the object file.
    """
    global _engine
    with loading:
        if _engine is None:
            with known_versions("load machine code"):
                _engine = _Engine()
        note, _, code = (cache.read(name) or b"").partition(b"\n")
        if not is_sound(code, name):
            announce()
            begun.add(name)
            try:
                with known_versions(f"compile {name}"), few_collections():
                    content = compile()
            except BaseException:
                begun.discard(name)
                raise
            cache.write(name, content)
            note, _, code = content.partition(b"\n")
        return _engine.add(code, name), note


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage less often: Numba makes many long-lived objects, and collections take a tenth of the time.

    Around all that is compiled in a row, since one is due at the end.
    """
    before = gc.get_threshold()
    if before[0]:  # 0: the user has switched it off
        gc.set_threshold(max(before[0], 100_000), max(before[1], 20), *before[2:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def known_versions(job: str) -> Iterator[None]:
    """If the block fails, say which versions of Numba are known to work.

    Our own kernels compile: if one does not, a private name of Numba or llvmlite has changed.
    """
    try:
        yield
    except (MemoryError, OSError):
        raise
    except Exception as error:
        raise RuntimeError(
            f"retrograd could not {job} with Numba {version('numba')} and llvmlite {version('llvmlite')} "
            f"({type(error).__name__}: {error}); install a supported version of Numba, {NUMBA[0]} to {NUMBA[1]}, "
            "or call retrograd.use_kernels('textbook'), which runs on plain NumPy"
        ) from error


def announce(shown: bool = False) -> None:
    """Say once why the first call takes a while.

    shown: a progress display has said so, so that later calls print nothing either.
    """
    global _announced
    before, _announced = _announced, True
    if not before and not shown:
        print(
            f"retrograd: compiling kernels for this CPU (once; kept in {cache.folder()})", file=sys.stderr, flush=True
        )


def is_compiling() -> bool:
    """Whether this process has compiled kernels, or will compile its first one, since the cache has none."""
    return _announced or not cache.has("pool_launch")


class Kernel(dict[str, Launch]):
    """A kernel by element type: ``kernel["f"]`` and ``kernel["d"]`` are its launch functions, loaded on first use."""

    is_deferrable = True

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._deferred: dict[str, Deferred] = {}

    def __missing__(self, dtype: str) -> Launch:
        if dtype not in ("f", "d"):
            raise TypeError(
                f"{_operator_on_stack() or self.path}: no kernel computes in {np.dtype(dtype)}; convert the operands "
                "with .float() or .double()"
            )
        if planner() is None or not self.is_deferrable or cache.has(self.symbol(dtype)):
            return self.loaded(dtype)
        with loading:
            if dtype not in self._deferred:
                self._deferred[dtype] = Deferred(self, dtype)
                for add in waiting:
                    add(self._deferred[dtype])
            return self._deferred[dtype]

    def loaded(self, dtype: str) -> Launch:
        """The launch function, compiled now if the cache lacks it."""
        with loading:
            if dtype not in self:
                self[dtype] = self._load(dtype)
            return self[dtype]

    def symbol(self, dtype: str) -> str:
        """Name of the machine code, in the cache and in the object file."""
        return f"{self.path.replace('.', '_')}_{dtype}"

    def body(self) -> Callable[..., None]:
        """The function that performs one task, before it is compiled."""
        from importlib import import_module

        module, _, function = self.path.rpartition(".")
        body: Callable[..., None] = getattr(import_module(f"..{module}_jit", __package__), function)
        return body

    def compile(self, dtype: str) -> bytes:
        """The kinds of the parameters, as a line, and the object file."""
        from .compiler import compile_kernel, parameters

        body = self.body()
        return ",".join(parameters(body)).encode() + b"\n" + compile_kernel(body, dtype, self.symbol(dtype))

    def _load(self, dtype: str) -> Launch:
        name = self.symbol(dtype)
        entry, note = load(name, lambda: self.compile(dtype))
        return _launcher(name, dtype, entry, note.decode().split(","))


waiting: list[Callable[[Deferred], None]] = []  # called for each new one


class Deferred:
    """The launch function of a kernel in a plan, before its machine code exists: a plan that never runs needs none."""

    def __init__(self, kernel: Kernel, dtype: str) -> None:
        from .compiler import parameters

        self.kernel, self.dtype, self._kinds = kernel, dtype, parameters(kernel.body())

    def __call__(self, *values: Any) -> Any:
        if not any(isinstance(value, Planned) for value in values):
            return self.ready()(*values)
        name, dtypes = self.kernel.symbol(self.dtype), _dtypes(self.dtype)
        return planned_launch(name, self, self._kinds, dtypes, _messages(name, self._kinds, dtypes), values)

    @property
    def is_shared(self) -> bool:
        """Whether another process can compile it: it knows no formulas of users."""
        return type(self.kernel) is Kernel

    @property
    def is_loaded(self) -> bool:
        return self.dtype in self.kernel

    def ready(self) -> Launch:
        """The launch function, compiled now unless that was done in the meantime."""
        return self.kernel.loaded(self.dtype)


def ready(function: Launch) -> Launch:
    """The launch function of a launch in a plan, with machine code."""
    return function.ready() if type(function) is Deferred else function


def _operator_on_stack() -> str:
    """Name of the outermost public operator among the callers, for messages; empty if there is none."""
    found, frame = "", sys._getframe(2)
    while frame is not None:
        operator = getattr(frame.f_globals.get(frame.f_code.co_name), "operator", None)
        found = getattr(operator, "name", found)
        frame = frame.f_back  # type: ignore[assignment]
    return found


class Part(Kernel):
    """A function that kernels call: ``part["f"]`` is the address of its machine code."""

    is_deferrable = False

    def _load(self, dtype: str) -> Any:
        return load(self.symbol(dtype), lambda: self.compile(dtype))[0]


_registry: list[Kernel] = []


def kernel(path: str, kind: type[Kernel] = Kernel) -> Kernel:
    """The handle on a function of a ``_jit`` file: ``kernel("<folders>.<file without _jit>.<function>")``."""
    handle = kind(path)
    _registry.append(handle)
    return handle


def registered() -> list[Kernel]:
    """The handles on all kernels."""
    return _registry


@lru_cache(maxsize=1)
def _warn_slow() -> None:
    print(
        f"retrograd: {numpy_abi.fault()} (Python {sys.version.split()[0]}, NumPy {np.__version__}): kernels are "
        "started through ctypes, with the same results, at ten microseconds or more each",
        file=sys.stderr,
        flush=True,
    )


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL, _METH_KEYWORDS = 0x80, 0x02
_KINDS = {"int": 1, "float": 2}  # threads_jit.py
_DTYPES: dict[str, np.dtype[Any]] = {
    "Table": np.dtype(np.int64),
    "Words": np.dtype(np.int32),
    "Bytes": np.dtype(np.uint8),
    "Truth": np.dtype(np.bool_),
}
forever: list[Any] = []  # objects whose addresses machine code holds


class Native(NamedTuple):
    """What a launch function starts: the address of a kernel, and the kinds of its parameters."""

    entry: int
    kinds: tuple[str, ...]


natives: dict[Launch, Native] = {}  # by the launch function


def _dtypes(dtype: str) -> dict[str, np.dtype[Any]]:
    """The dtypes of array parameters by kind."""
    return {"Array": np.dtype(dtype), **_DTYPES}


def _messages(name: str, kinds: Sequence[str], dtypes: dict[str, np.dtype[Any]]) -> tuple[str, str, str]:
    """Errors of a launch: the number of arguments, something other than an array, and its dtype."""
    expected = ", ".join(str(dtypes.get(kind, kind)) for kind in kinds)
    return (
        f"launch of {name}: expected tasks and {len(kinds)} arguments",
        f"launch of {name}: expected an ndarray, got another object",
        f"launch of {name}: an array has another dtype than expected: (tasks, {expected}); "
        "float16 is converted with .float() first",
    )


def _launcher(name: str, dtype: str, entry: int, kinds: list[str]) -> Launch:
    """``launch(tasks, ...)``: pack the parameter record and run the tasks.

    A built-in function in machine code (``launch`` of threads_jit.py), because it runs at least once per operator: a
    call takes 0.2 us, through ctypes 10 or more.
    """
    dtypes = _dtypes(dtype)
    messages = _messages(name, kinds, dtypes)
    if numpy_abi.fault():
        from .ctypes_launch import launcher  # imported late: it is rarely needed

        _warn_slow()
        return launcher(name, kinds, dtypes, messages, pool.runner(entry))
    message, _, wrong_dtype = (ctypes.create_string_buffer(text.encode()) for text in messages)
    start = pool.start

    def other(*values: Any) -> Any:
        """Handle a launch with an argument that is not an array, or is an array of a plan."""
        if not any(isinstance(value, Planned) for value in values):
            raise TypeError(messages[1])
        return planned_launch(name, launch, kinds, dtypes, messages, values)

    words = np.array(
        [
            pool.address,
            entry,
            len(kinds),
            id(start),
            id(None),
            id(TypeError),
            ctypes.addressof(message),
            id(np.ndarray),
            id(other),
            ctypes.addressof(wrong_dtype),
            numpy_abi.new_like(),
            id(Planned),
            *(id(dtypes[kind]) if kind in dtypes else _KINDS[kind] for kind in kinds),
        ],
        np.int64,
    )
    forever.extend((message, other, wrong_dtype, dtypes, start))
    launch = built_in(name, pool.launch, words)
    natives[launch] = Native(entry, tuple(kinds))
    return launch


def built_in(name: str, code: int, words: np.ndarray, keywords: bool = False) -> Launch:
    """The built-in function whose machine code is at an address; it gets the address of the words that describe it.

    keywords: whether the code takes keyword arguments.
    """
    new_function = ctypes.pythonapi.PyCFunction_NewEx
    new_function.argtypes, new_function.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p), ctypes.py_object
    flags = _METH_FASTCALL | (_METH_KEYWORDS if keywords else 0)
    method = _Method(name.encode(), code, flags, None)
    forever.extend((words, method))
    function: Launch = new_function(ctypes.addressof(method), words.ctypes.data, None)
    return function


def planned_launch(
    name: str,
    launch: Launch,
    kinds: Sequence[str],
    dtypes: dict[str, np.dtype[Any]],
    messages: tuple[str, str, str],
    values: tuple[Any, ...],
) -> Any:
    """Stand-in for ``launch(*values)`` while a plan is made: records the launch instead of running it."""
    from ..memory.layout import like_in_memory, tasks

    made = planner()
    if made is None:
        raise PlanError(f"launch of {name}: an array of a plan is used after it was made")
    if not isinstance(values[0], np.ndarray):
        if len(values) != len(kinds) + 1:
            raise TypeError(messages[0])
        count, arguments, result = int(values[0]), list(values[1:]), None
    else:  # as ``_map`` of threads_jit.py
        arrays = next((slot for slot, kind in enumerate(kinds) if kind in _KINDS), 0) - 1
        first, result = values[0], np.empty_like(values[0])
        if not all(like_in_memory(first, each) for each in (*values[1:arrays], result)):
            return None
        count, arguments = tasks(first.size), [*values[:arrays], result, first.size, *values[arrays:]]
        may_overwrite(result, *values[:arrays])
    for kind, value in zip(kinds, arguments, strict=True):
        if kind in dtypes and value.dtype != dtypes[kind]:
            raise TypeError(messages[2])
    made.launch(name, launch, count, arguments)
    return result


class Map:
    """An element-wise kernel in both types: ``run(arrays..., numbers...)`` allocates the result.

    ``run`` is a built-in function. It calls ``declined`` for arrays that are not dense in one order, and ``other`` for
    whatever else it does not know. It saves the time of Python code that looks up the kernel of a type: 0.1 us.
    declined: a ``Prepared``.
    """

    def __init__(self, kernel: Kernel, other: Callable[..., Any], declined: Any = None) -> None:
        self._kernel, self._other, self._declined = kernel, other, declined
        self._words = np.zeros(5, np.int64)

    @cached_property
    def run(self) -> Launch:
        """The built-in function, compiled on first use."""
        with loading:
            if numpy_abi.fault():
                return self._other
            declined = self._other if self._declined is None else self._declined.run
            self._words[:3] = id(self._learn), id(np.ndarray), id(declined)
            forever.extend((self, declined))
            return built_in("map", pool.map_either, self._words)

    @cached_property
    def _learn(self) -> Launch:
        def learn(*values: Any) -> Any:
            result = self._other(*values)
            for place, dtype in enumerate("fd", 3):
                self._words[place] = getattr(self._kernel.get(dtype), "__self__", 0)
            return result

        return learn


class _Pool:
    """The thread pool. Its state is memory that is never freed, since a thread may read it after the last launch."""

    threads: int

    def __init__(self) -> None:
        self._state = np.zeros(_WORDS + 8, np.int64)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._state))  # never freed
        self.address: int = (self._state.ctypes.data + 63) & ~63
        self._words = (ctypes.c_int64 * _WORDS).from_address(self.address)
        self._words[_THREADS] = 1
        self.threads = _default_threads()
        self._words[_STARTED] = self.threads == 1
        self._workers: list[threading.Thread] = []
        self._native: dict[str, int] = {}
        self.prepared_functions: list[Any] = []  # each a ``Prepared``, with scratch memory for all threads

    def native(self, function: str, arguments: int, returns: bool = False) -> int:
        """Address of a function of threads_jit.py or prepared_jit.py, a C function of 64-bit integers."""
        if function not in self._native:
            name = f"pool_{function}"

            def compile() -> bytes:
                from . import prepared_jit, threads_jit
                from .compiler import compile_plain

                module = threads_jit if hasattr(threads_jit, function) else prepared_jit
                return b"\n" + compile_plain(getattr(module, function), arguments, name, returns)

            self._native[function], _ = load(name, compile)
        return self._native[function]

    def compile(self) -> None:
        """Compile the functions that a launch uses, so that the first one does not wait for it."""
        _ = self.launch, self.map_either, self.prepared
        if self.threads > 1:
            self.native("serve", 4)

    @property
    def launch(self) -> int:
        """Address of ``launch``."""
        return self._python("launch")

    @property
    def map_either(self) -> int:
        """Address of ``map_either``."""
        return self._python("map_either")

    @property
    def prepared(self) -> int:
        """Address of ``prepared``."""
        return self._python("prepared")

    @property
    def operation(self) -> int:
        """Address of ``operation``."""
        return self._python("operation", 4)

    @cached_property
    def replay(self) -> Launch:
        """The built-in function ``replay``."""
        return built_in("replay", self._python("replay"), np.zeros(0, np.int64))

    def _python(self, function: str, arguments: int = 3) -> int:
        """Address of a function that calls CPython's."""
        for symbol in _CPYTHON:
            llvm.add_symbol(symbol, ctypes.cast(getattr(ctypes.pythonapi, symbol), ctypes.c_void_p).value)
        return self.native(function, arguments, returns=True)

    @cached_property
    def remember(self) -> Callable[[int, int], int]:
        """The function ``remember``, which keeps Python's lock."""
        return ctypes.PYFUNCTYPE(*[ctypes.c_int64] * 3)(self._python("remember", 2))

    def runner(self, entry: int) -> Callable[[int, Any], None]:
        """``run(tasks, record)`` of the kernel at an address, for ``ctypes_launch``."""
        native = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(self.native("run", 4))

        def run(tasks: int, record: Any) -> None:
            if tasks > 1:
                self.start()
            native(self.address, entry, tasks, ctypes.addressof(record))

        return run

    def start(self) -> None:
        """Start all threads but the calling one."""
        with loading:
            if self._words[_STARTED]:
                return
            serve = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(self.native("serve", 4))
            self._words[_STOP] = 0
            for worker in range(len(self._workers) + 1, self.threads):  # the last start may have failed half-way
                arguments = self.address, worker, _PATIENCE, time.CLOCK_MONOTONIC
                thread = threading.Thread(target=serve, args=arguments, name=f"retrograd-{worker}", daemon=True)
                thread.start()
                self._workers.append(thread)
            self._words[_THREADS] = self.threads
            self._words[_STARTED] = 1

    def use(self, threads: int) -> None:
        """Set the number of threads; only the calling one may be running."""
        self.threads = threads
        self._words[_STARTED] = threads == 1
        for each in self.prepared_functions:
            each.forget()

    def stop(self) -> None:
        """End the threads; the next launch with several tasks starts them again."""
        with loading:
            self._words[_THREADS] = 1
            if self._workers:
                self._words[_STOP] = 1
                libc = ctypes.CDLL(None)
                mutex, condition = (ctypes.c_void_p(self.address + 8 * word) for word in (_MUTEX, _CONDITION))
                libc.pthread_mutex_lock(mutex)
                libc.pthread_cond_broadcast(condition)
                libc.pthread_mutex_unlock(mutex)
                for thread in self._workers:
                    thread.join()
                self._workers.clear()
            self._words[_STARTED] = self.threads == 1

    def forget(self) -> None:
        """A forked child has no threads: start with fresh state and release the lock that the fork acquired."""
        ctypes.memset(self.address, 0, 8 * _WORDS)
        self._words[_THREADS] = 1
        self._workers.clear()
        self._words[_STARTED] = self.threads == 1
        loading.release()


def _default_threads() -> int:
    chosen = os.environ.get("RETROGRAD_NUM_THREADS", "")
    if chosen and _as_threads(chosen) is None:
        raise ValueError(f"RETROGRAD_NUM_THREADS must be an integer from 1 to {MOST_THREADS}, got {chosen!r}")
    if sys.platform == "win32" and not chosen:  # the pool needs pthreads
        return 1
    # Joblib, Dask and Ray set OMP_NUM_THREADS for their workers, which share the cores; "4,2" is for nested loops.
    if threads := _as_threads(chosen) or _as_threads(os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()):
        return threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _as_threads(text: str) -> int | None:
    """Parse a number of threads; None unless it is an integer from 1 to ``MOST_THREADS``."""
    usual = text.isdecimal() and len(text) <= len(str(MOST_THREADS)) and 0 < int(text) <= MOST_THREADS
    return int(text) if usual else None


pool: Final = _Pool()
atexit.register(pool.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=loading.acquire, after_in_parent=loading.release, after_in_child=pool.forget)


def get_num_threads() -> int:
    """Return the number of threads that run the tasks of a kernel, the calling thread included.

    Initially RETROGRAD_NUM_THREADS if set; else 1 on Windows, and elsewhere OMP_NUM_THREADS or one for each core.
    """
    return pool.threads


def set_num_threads(count: int) -> None:
    """Use ``count`` threads from now on. Results do not depend on it, bit for bit.

    Do not call it while another Python thread computes: its operators have memory for the previous number of threads.

    Raises:
        ValueError: ``count`` is not an integer from 1 to 1,024.
    """
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count <= MOST_THREADS:
        raise ValueError(f"set_num_threads: count must be an integer from 1 to {MOST_THREADS}, got {count!r}")
    if count != pool.threads:
        pool.stop()
        pool.use(count)
