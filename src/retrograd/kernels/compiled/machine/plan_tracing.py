"""Plans: what a compiled kernel does with arrays of given layouts, found without any data.

The Python function of a kernel chooses an algorithm, allocates and launches; it decides by shapes, steps in memory and
options alone. To plan it, it runs once on ``Planned`` arrays, which have a layout and no elements: what it allocates
becomes a buffer of the plan, and what it launches becomes a ``Launch`` with places in these buffers. What would read an
element is refused. So a kernel is written once, and its plan cannot differ from what it does.

Model: tracing in JAX, whose abstract values have a shape and a type.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from threading import local
from typing import Any, NamedTuple

import numpy as np

from ....specs.array_spec import ArrayInterface, byte_bounds

_CACHE_LINE = 64  # bytes


class PlanError(TypeError):
    """A kernel has no plan for these arguments; the message says why."""


class Buffer(NamedTuple):
    """Memory of a plan. kind: "input", "output", "scratch", or "each": scratch for each thread, of so many bytes."""

    kind: str
    bytes: int


class Place(NamedTuple):
    """An array in a buffer, which begins at a byte."""

    buffer: int
    begin: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    def of(self, memory: Mapping[int, np.ndarray]) -> np.ndarray:
        """The array, in the memory of the buffers."""
        if 0 in self.shape:  # NumPy refuses strides in an empty buffer
            return np.empty(self.shape, self.dtype)
        return np.ndarray(self.shape, self.dtype, memory[self.buffer], self.begin, self.strides)


class Word(NamedTuple):
    """A scalar argument of a launch that may change from run to run. value: the one that the plan was made with."""

    name: str
    value: float


class Objects(NamedTuple):
    """A table of int64, some of which are the addresses of NumPy array objects."""

    words: np.ndarray
    at: tuple[int, ...]
    places: tuple[Place, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the table."""
        return self.words.dtype

    def of(self, memory: Mapping[int, np.ndarray]) -> np.ndarray:
        """Return the table for arrays in the memory of the buffers; it keeps them alive."""
        words, arrays = self.words.copy(), [place.of(memory) for place in self.places]
        words[list(self.at)] = [id(each) for each in arrays]
        return np.asarray(ArrayInterface(words.__array_interface__, (words, arrays)))


class Launch(NamedTuple):
    """One launch of machine code: its name, the function, tasks and arguments; arrays of the plan are places."""

    name: str
    function: Callable[..., Any]
    tasks: int
    arguments: tuple[Any, ...]


class Call(NamedTuple):
    """A call of a Python function on arrays, where there is no kernel: copies of bytes or with odd strides.

    unless_finite: the place of a number; the call is made only if it is not finite. So a kernel that is wrong for
    infinite and NaN elements is followed by its exact form, and the plan does not depend on any element.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    unless_finite: Place | None = None


# ---- Numbers that may change between runs ------------------------------------------------------------------------


class _Number:
    """A scalar argument of a kernel while it is planned.

    A number that is only passed to launches is a word of the plan and may change from run to run. fixed: something was
    computed or decided with it, so the plan is valid for this number only.
    """

    name = ""
    fixed = False


class Float(_Number, float):
    """A ``_Number`` of Python's type float."""


class Integer(_Number, int):
    """A ``_Number`` of Python's type int, only for the names in ``INTEGERS``: use as a size cannot be detected."""


INTEGERS = ("key", "stream")  # of random numbers


def numbered(name: str, value: Any) -> Any:
    """Return a float, or an integer of a known name, as a ``_Number``, and anything else unchanged."""
    kind = Float if type(value) is float else Integer if type(value) is int and name in INTEGERS else None
    if kind is None:
        return value
    found = kind(value)
    found.name = name
    return found


def _fixing(kind: type, name: str) -> Callable[..., Any]:
    plain = getattr(kind, name)

    def method(self: Any, *others: Any) -> Any:
        self.fixed = True
        for other in others:
            if isinstance(other, _Number):
                other.fixed = True
        return plain(self, *others)

    return method


for _kind, _plain in ((Float, float), (Integer, int)):
    for _name in (
        *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
        *("pow", "rpow", "divmod", "rdivmod", "neg", "pos", "abs", "bool", "int", "float", "round", "trunc", "floor"),
        *("ceil", "eq", "ne", "lt", "le", "gt", "ge", "hash", "str", "repr", "format", "and", "or", "xor", "lshift"),
        *("rshift", "invert", "index"),
    ):
        if hasattr(_plain, f"__{_name}__"):
            setattr(_kind, f"__{_name}__", _fixing(_plain, f"__{_name}__"))
for _name in ("is_integer", "hex", "as_integer_ratio"):
    setattr(Float, _name, _fixing(float, _name))


# ---- arrays without elements -------------------------------------------------------------------------------------


_BASIC = (int, np.integer, slice, type(None), type(...))  # indices that give views


class Planned(np.ndarray):
    """An array of a plan: a layout at an address where nothing is stored. It has views, but no elements."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc is np.add and kwargs.get("out") == inputs[:1]:
            from ..memory.moves import accumulate

            accumulate(*inputs)
            return inputs[0]
        raise PlanError(f"np.{ufunc.__name__} would compute elements")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _VIEWS:
            return super().__array_function__(function, types, args, kwargs)
        rule = _FUNCTIONS.get(function)
        if rule is None:
            raise PlanError(f"np.{function.__name__} would read elements")
        return rule(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        if not all(isinstance(each, _BASIC) for each in (key if isinstance(key, tuple) else (key,))):
            raise PlanError("an index would copy elements")
        found = super().__getitem__(key)
        if not isinstance(found, Planned):
            raise PlanError("it would read an element")
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        move(self[key], value)

    def require_within(self, low: float, high: float) -> None:
        """Make the plan valid for elements in [low, high] only."""
        made = _planner()
        integers = type(low) is int and type(high) is int and self.dtype == np.int64 and self.flags.c_contiguous
        if not (made.takes_guards and integers):
            raise PlanError("whether elements are within a range would be read")
        made.call(within, self, low, high)

    def reshape(self, *shape: Any, **order: Any) -> Any:
        extents = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], (int, np.integer)) else shape
        if -1 in extents:
            known = prod(extent for extent in extents if extent != -1)
            extents = tuple([self.size // (known or 1) if extent == -1 else int(extent) for extent in extents])
        if prod(extents) != self.size or order:
            raise PlanError(f"{self.shape} cannot be seen as {extents} with {order}")
        steps = _steps_of_view(self, extents)
        return _copied(self).reshape(extents) if steps is None else _planner().view(self, extents, steps)

    def ravel(self, order: Any = "C") -> Any:
        if order == "K":
            axes = sorted(range(self.ndim), key=lambda axis: -abs(self.strides[axis]))
            return self.transpose(axes).ravel()
        return self.reshape(-1)

    def copy(self, order: Any = "C") -> Any:
        y = _empty_like(self) if order == "K" else _empty(self.shape, self.dtype)
        move(y, self)
        return y

    def __iter__(self) -> Any:
        return (self[at] for at in range(len(self)))

    def fill(self, value: Any) -> None:
        move(self, value)

    def astype(self, dtype: Any, *args: Any, copy: Any = True, **kwargs: Any) -> Any:
        if np.dtype(dtype) != self.dtype:
            raise PlanError(f"a conversion to {np.dtype(dtype)} would compute elements")
        return self.copy("K") if copy else self


def is_planned(x: np.ndarray) -> bool:
    """Whether an array belongs to a plan that is being made."""
    return isinstance(x, Planned)


def _refused(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise PlanError(f"{name} would read elements")

    return method


for _name in (
    "__bool__",
    "__complex__",
    "__contains__",
    "__float__",
    "__index__",
    "__int__",
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "choose",
    "clip",
    "compress",
    "conj",
    "cumprod",
    "cumsum",
    "dot",
    "dump",
    "dumps",
    "flatten",
    "item",
    "max",
    "mean",
    "min",
    "nonzero",
    "partition",
    "prod",
    "put",
    "repeat",
    "round",
    "searchsorted",
    "sort",
    "std",
    "sum",
    "take",
    "tobytes",
    "tolist",
    "trace",
    "var",
):
    setattr(Planned, _name, _refused(_name))

_region: mmap.mmap | None = None


def _nowhere() -> mmap.mmap:
    """Addresses for arrays without elements: reserved, never written, and read as zeros if a rule above has a gap."""
    global _region
    size = 1 << 42
    while _region is None:
        try:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
            _region = mmap.mmap(-1, size, flags, mmap.PROT_READ)
        except (AttributeError, OSError, OverflowError, ValueError) as error:
            size //= 4
            if size < 1 << 30:
                raise PlanError(f"no addresses can be reserved on this system: {error}") from error
    return _region


def _address(x: np.ndarray) -> int:
    found: int = x.__array_interface__["data"][0]
    return found


def _steps_of_view(x: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The strides with which x is seen in another shape of as many elements; None if that takes a copy.

    Source: ``_attempt_nocopy_reshape`` of NumPy.
    """
    if not x.size:
        return tuple([x.itemsize] * len(shape))
    old = [(extent, step) for extent, step in zip(x.shape, x.strides, strict=True) if extent != 1]
    steps, at, done = [x.itemsize] * len(shape), 0, 0
    places = [place for place, extent in enumerate(shape) if extent != 1]
    while done < len(places):
        first, begin = at, done
        here, there = old[at][0], shape[places[done]]
        at, done = at + 1, done + 1
        while here != there:
            if there < here:
                there, done = there * shape[places[done]], done + 1
            else:
                here, at = here * old[at][0], at + 1
        if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(first, at - 1)):
            return None
        step = old[at - 1][1]
        for place in reversed(places[begin:done]):
            steps[place], step = step, step * shape[place]
    return (*steps,)


class Planner:
    """The plan that is being made in this thread.

    takes_guards: it may begin with calls of ``within``, and is for nothing else if one of them is False.
    """

    takes_guards = False

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.launches: list[Launch | Call] = []
        self.over: list[tuple[int, int]] = []  # buffers of a result and of an operand that it may overwrite
        self._starts: list[int] = []
        self._end = 0
        self._base = _address(np.frombuffer(_nowhere(), np.uint8, 1))

    def array(
        self, kind: str, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None
    ) -> np.ndarray:
        """Return an array with a new buffer."""
        dtype = np.dtype(dtype)
        if strides is None:
            strides, step = (), dtype.itemsize
            for extent in reversed(shape):
                strides, step = (step, *strides), step * max(extent, 1)
        low, high = byte_bounds(shape, strides, dtype.itemsize)
        begin, bytes_ = self._end, high - low
        if begin + bytes_ + _CACHE_LINE > len(_nowhere()):
            raise PlanError("it needs more memory than addresses could be reserved for")
        self._starts.append(begin)
        self.buffers.append(Buffer(kind, bytes_))
        self._end += -(-(bytes_ + 1) // _CACHE_LINE) * _CACHE_LINE
        return np.ndarray.__new__(Planned, shape, dtype, _nowhere(), begin - low, strides)

    def view(self, x: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
        """The memory of x from its first element on, with another shape and other strides."""
        return np.ndarray.__new__(Planned, shape, x.dtype, _nowhere(), _address(x) - self._base, strides)

    def buffer_at(self, address: int) -> int | None:
        offset = address - self._base
        return bisect_right(self._starts, offset) - 1 if 0 <= offset < self._end else None

    def place(self, x: np.ndarray) -> Place:
        """The place of an array: its buffer and the offset there, with its shape, strides and dtype."""
        address = _address(x)
        at = self.buffer_at(address)
        if at is None:
            raise PlanError("NumPy has copied elements")
        return Place(at, address - self._base - self._starts[at], x.shape, x.strides, x.dtype)

    def settled(self) -> list[Launch | Call]:
        """The launches, in which numbers that are not fixed are words."""

        def word(value: Any) -> Any:
            if not isinstance(value, _Number):
                return value
            plain = float.__pos__(value) if isinstance(value, float) else int.__pos__(value)  # type: ignore[arg-type]
            return plain if value.fixed else Word(value.name, plain)

        return [each._replace(arguments=tuple(map(word, each.arguments))) for each in self.launches]

    def launch(self, name: str, function: Callable[..., Any], tasks: int, arguments: Sequence[Any]) -> None:
        self.launches.append(Launch(name, function, tasks, tuple([self._as_place(each) for each in arguments])))

    def call(self, function: Callable[..., Any], *arguments: Any, unless_finite: Any = None) -> None:
        check = None if unless_finite is None else self.place(unless_finite)
        places = tuple([self._as_place(each) for each in arguments])
        self.launches.append(Call(function.__name__, function, places, check))

    def _as_place(self, value: Any) -> Any:
        if isinstance(value, Planned):
            return self.place(value)
        if isinstance(value, _Number):
            return value
        if isinstance(value, np.ndarray) and value.size and self.buffer_at(_address(value)) is not None:
            raise PlanError("NumPy has made an array of its own class of one of the plan; pass like=")
        return value


class _Current(local):
    planner: Planner | None = None


_current = _Current()


def _planner() -> Planner:
    if _current.planner is None:
        raise PlanError("an array of a plan is used after it was made")
    return _current.planner


def planner() -> Planner | None:
    """The plan that is being made in this thread."""
    return _current.planner


def objects(words: np.ndarray, arrays: Sequence[np.ndarray]) -> Objects:
    """Return a table that contains the ids of some arrays of the plan that is being made."""
    places = {id(each): _planner().place(each) for each in arrays}
    at = tuple([place for place, word in enumerate(words.tolist()) if word in places])
    return Objects(words, at, tuple([places[int(words[place])] for place in at]))


def model_of(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """One of the operands, for ``like=``: an array of the plan if there is one, since others may be constants."""
    return next((each for each in arrays if type(each) is Planned), arrays[-1])


def may_overwrite(y: np.ndarray, *operands: np.ndarray) -> np.ndarray:
    """Return a result that may have the memory of an operand with its layout.

    Each element of the operand is read before the same element of the result is written, and not again.
    """
    if type(y) is Planned:
        made, target = _planner(), _planner().place(y)
        for x in operands:
            if type(x) is not Planned:  # a constant
                continue
            found = made.place(x)
            if found._replace(buffer=target.buffer) == target:
                made.over.append((target.buffer, found.buffer))
    return y


def call(function: Callable[..., Any], *arguments: Any, unless_finite: Any = None) -> None:
    """Add a call of a Python function to the plan that is being made."""
    _planner().call(function, *arguments, unless_finite=unless_finite)


def within(x: np.ndarray, low: float, high: float) -> bool:
    """Whether all elements are in [low, high]: a guard of a plan, which machine code looks at."""
    return bool(((x >= low) & (x <= high)).all())


@contextmanager
def planning() -> Iterator[Planner]:
    """Make a plan of what runs in the block on ``Planned`` arrays."""
    before, _current.planner = _current.planner, Planner()
    try:
        yield _current.planner
    finally:
        _current.planner = before


# ---- functions of NumPy that allocate or move --------------------------------------------------------------------


def _empty(shape: Any, dtype: Any = float, *args: Any, **kwargs: Any) -> Any:
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return _planner().array("scratch", shape, dtype)


def _empty_like(x: np.ndarray, dtype: Any = None, *args: Any, shape: Any = None, **kwargs: Any) -> Any:
    """np.empty_like: an array in the memory order of x."""
    dtype = np.dtype(dtype or x.dtype)
    if shape is not None:
        raise PlanError("np.empty_like with a shape")
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    model = np.lib.stride_tricks.as_strided(np.empty(1, x.dtype), x.shape, x.strides)
    strides = np.empty_like(model, dtype).strides if 0 not in x.shape and x.size < 1 << 20 else None
    if strides is None:
        steps, step = [0] * x.ndim, dtype.itemsize
        for axis in reversed(order):
            steps[axis], step = step, step * max(x.shape[axis], 1)
        strides = (*steps,)
    return _planner().array("scratch", x.shape, dtype, strides)


def _filled(make: Callable[..., Any], value: Any) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        y = make(*args, **kwargs)
        move(y, value)
        return y

    return made


def _full(shape: Any, value: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    y = _empty(shape, np.result_type(value) if dtype is None else dtype)
    move(y, value)
    return y


def _copied(x: np.ndarray) -> Any:
    y = _empty(x.shape, x.dtype)
    move(y, x)
    return y


def _contiguous(x: np.ndarray, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    if dtype is not None and np.dtype(dtype) != x.dtype:
        raise PlanError(f"a conversion to {np.dtype(dtype)} would compute elements")
    return x if x.flags.c_contiguous else _copied(x)


def _as_array(x: np.ndarray, dtype: Any = None, order: Any = None, *args: Any, **kwargs: Any) -> Any:
    return _contiguous(x, dtype) if order == "C" else x


def _concatenated(arrays: Sequence[np.ndarray], axis: int = 0, *args: Any, **kwargs: Any) -> Any:
    first = arrays[0]
    shape = [*first.shape]
    shape[axis] = sum(each.shape[axis] for each in arrays)
    y, begin = _empty(tuple(shape), first.dtype), 0
    for each in arrays:
        place = [slice(None)] * first.ndim
        place[axis] = slice(begin, begin + each.shape[axis])
        move(y[tuple(place)], each)
        begin += each.shape[axis]
    return y


def _tiled(x: np.ndarray, times: int) -> Any:
    """np.tile, of an array of any number of axes along the last."""
    y = _empty((*x.shape[:-1], times, x.shape[-1]), x.dtype)
    move(y, x[..., np.newaxis, :])
    return y.reshape(*x.shape[:-1], -1)


def _repeated(x: np.ndarray, times: int, axis: int) -> Any:
    shape = [*x.shape]
    shape[axis : axis + 1] = [x.shape[axis], times]
    y = _empty(tuple(shape), x.dtype)
    move(y, np.expand_dims(x, axis + 1))
    return y.reshape([extent * (times if at == axis else 1) for at, extent in enumerate(x.shape)])


def _broadcast(x: np.ndarray, shape: Any, *args: Any, **kwargs: Any) -> Any:
    """np.broadcast_to, which would return a plain NumPy array."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    missing = len(shape) - x.ndim
    steps = [0 if extent == 1 else step for extent, step in zip(x.shape, x.strides, strict=True)]
    return _planner().view(x, shape, (*(0,) * missing, *steps))


def _broadcast_together(*arrays: Any, **kwargs: Any) -> list[Any]:
    shape = np.broadcast_shapes(*[each.shape for each in arrays])
    return [_broadcast(each, shape) if isinstance(each, Planned) else np.broadcast_to(each, shape) for each in arrays]


def move(y: Any, x: Any, casting: str = "same_kind") -> None:
    """y[...] = x, as a launch. casting: the conversions that NumPy would allow; ignored, as a plan cannot convert."""
    from ..memory.moves import copy  # it launches a kernel, and so imports this file

    if isinstance(x, _Number):
        x.fixed = True  # it becomes a constant array
    source = x if isinstance(x, np.ndarray) else np.asarray(x, y.dtype)
    if source.dtype != y.dtype:
        raise PlanError(f"a conversion to {y.dtype} would compute elements")
    if y.size:
        copy(y, source)


_VIEWS = {np.moveaxis, np.swapaxes, np.transpose, np.expand_dims, np.squeeze}
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.empty: _empty,
    np.zeros: _filled(_empty, 0),
    np.ones: _filled(_empty, 1),
    np.full: _full,
    np.empty_like: _empty_like,
    np.zeros_like: _filled(_empty_like, 0),
    np.ones_like: _filled(_empty_like, 1),
    np.ascontiguousarray: _contiguous,
    np.asarray: _as_array,
    np.concatenate: _concatenated,
    np.copyto: move,
    np.tile: _tiled,
    np.repeat: _repeated,
    np.broadcast_to: _broadcast,
    np.broadcast_arrays: _broadcast_together,
}
