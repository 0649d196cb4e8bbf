"""Kernels that run without Python code for arrays of layouts that they have seen before.

A kernel's Python function checks, chooses and allocates: on small arrays that takes ten times as long as its launches.
What it does depends on layouts and options alone, so the plan of a call can be kept and found again by machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from ....specs.convolution_options import Options
from ....specs.geometry import AdaptiveWindow, Window
from ....specs.recurrence import Recurrence
from . import numpy_abi
from .launch import Launch, Native, built_in, forever, loading, natives, pool, ready


class Mark:
    """Identifies nodes that one template has made, which have the same layouts and options."""


_TABLE, _PLACES, _WAYS, _OPTION, _HEADER, _STRUCTURE = 11, 512, 4, -1, 9, 67  # as in prepared_jit.py
_CONSTANT, _OF_ARGUMENT, _OF_RESULT = range(3)  # these, too
_LINE = 64  # bytes of a cache line
_MOST_PARAMETERS = 64
_COPY = Native(0, ("Array", "Array", "int"))
_LOOK, _GUARD = 1, 2  # tasks of a launch that only looks whether a number is finite, or integers are within a range
_GUARDED = Native(0, ("Array", "int", "int", "int"))
_EXPONENTS = {4: 0x7F800000, 8: 0x7FF0000000000000}  # bits that are all set in an infinite number or NaN
_MOST_ARGUMENTS = 10  # whose structure fits 64 bits
_BY_VALUE = frozenset({bool, int, float, str, type(None)})  # types of options that machine code compares exactly
_BY_IDENTITY = frozenset(  # and those of which equal ones are usually the same object
    {
        *(Window, AdaptiveWindow, Options, Recurrence, Mark, type(NotImplemented)),
        *[type(np.dtype(char)) for char in "?bBhilefd"],
    }
)


class Argument(NamedTuple):
    """A parameter of a prepared launch: the argument at a place, from 0 on, an array; ``begin`` bytes into it."""

    place: int
    begin: int = 0


class Result(NamedTuple):
    """A parameter of a prepared launch: the new array of this number, of several; ``begin`` bytes into it."""

    place: int
    begin: int = 0


class Scratch(NamedTuple):
    """As ``Result`` for an array that is not returned: the first cache line in it, and ``begin`` bytes from there."""

    place: int
    begin: int = 0


RESULT: Final = Result(0)  # the new array


class Prepared:
    """A function of arrays and options that allocates its results and launches kernels, found by layouts and options.

    ``run`` is a built-in function; for layouts and options that it does not know it calls ``other`` with the same
    arguments, which may ``remember`` them. It saves the time of Python code that looks up a plan: half a microsecond.

    flags: True after the last array means that each result is needed, and is ignored. plain: called instead of
    ``other`` where there is nothing to prepare.
    """

    def __init__(self, other: Callable[..., Any], flags: bool = True, plain: Callable[..., Any] | None = None) -> None:
        self._other, self._flags, self._plain = other, flags, plain or other
        self._words = np.zeros(0, np.int64)
        self._kept: dict[int, Any] = {}  # the objects that an entry of the table refers to, by its address

    @cached_property
    def run(self) -> Launch:
        """The built-in function, compiled on first use."""
        with loading:
            if numpy_abi.fault():
                return self._other
            words = [id(self._other), id(np.ndarray), numpy_abi.new_like(), pool.address, id(True) * self._flags]
            words += [*map(id, (int, float, str, tuple, None, self._plain)), *[0] * (_PLACES * _WAYS)]
            self._words = np.array([*words, *self._more_words()], np.int64)
            forever.append(self)  # machine code holds addresses of what it refers to
            pool.prepared_functions.append(self)
            return self._built_in()

    def _built_in(self) -> Launch:
        return built_in("prepared", pool.prepared, self._words)

    def _more_words(self) -> list[int]:
        """Words after the table of entries."""
        return []

    def forget(self) -> None:
        """Drop all entries: the memory of their scratch arrays is for the present number of threads."""
        with loading:
            self._words[_TABLE : _TABLE + _PLACES * _WAYS] = 0
            self._kept.clear()

    def remember(
        self,
        arrays: Sequence[np.ndarray],
        launch: Launch,
        tasks: int,
        shape: tuple[int, ...],
        parameters: Sequence[Any],
        results: int = 1,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        """Launch ``launch(tasks, *parameters)`` for arrays of these layouts, with new arrays of this shape as results.

        A parameter is an ``Argument``, a ``Result``, a number, or an array that is the same in each call. dtype: of
        the results; None means that of the first array.
        """
        like = np.broadcast_to(np.zeros((), arrays[0].dtype if dtype is None else dtype), shape)
        if np.empty_like(like).flags.c_contiguous:
            self.remember_all(*flat(arrays), [(launch, tasks, parameters)], [like] * results, results)

    def remember_all(
        self,
        leaves: Sequence[Any],
        structure: int,
        launches: Sequence[tuple[Launch | None, int, Sequence[Any]]],
        made: Sequence[np.ndarray],
        results: int,
        container: type | None = None,
        graph: Sequence[int] = (),
        kept: Any = None,
    ) -> bool:
        """Run these launches (function, tasks, parameters) for arguments of these layouts and with these options.

        None instead of a function copies bytes; the parameters are their destination, source and number. With one task,
        the parameters are the place, the bytes and the exponent bits of a number; if it is not finite, the arrays are
        dropped and the Python function runs. With two tasks, they are the place of int64 integers, their number, and
        the smallest and largest value that they may have, with the same consequence.

        leaves, structure: the arguments as ``flat`` returns them. made: for each new array another one with its layout;
        the first ``results`` of them are returned. A negative number of results means that there is nothing to prepare.
        container: the type of tuple that an operation returns. graph: the words of the nodes that it records. kept:
        objects whose addresses are in them. Returns whether the entry was made.
        """
        words: list[int] = []
        for launch, tasks, parameters in launches:
            kernel: int = getattr(launch, "__self__", 0)  # of a built-in function
            native = natives.get(launch) if launch is not None else _GUARDED if tasks == _GUARD else _COPY
            if native is None or len(parameters) > _MOST_PARAMETERS:
                return False
            sources = [_source(*pair) for pair in zip(parameters, native.kinds, strict=True)]
            words += kernel, tasks, len(parameters), *chain.from_iterable(sources)
        if self._words.size == 0 or len(made) > _MOST_PARAMETERS:
            return False
        layouts: list[int] = []
        for value in leaves:
            if isinstance(value, np.ndarray):
                layouts += value.ndim, id(value.dtype), *chain(*zip(value.shape, value.strides, strict=True))
            else:
                layouts += _OPTION, id(value)
        begin = _HEADER + len(made) + len(layouts)
        counts = (
            len(leaves),
            structure,
            len(made),
            results,
            len(launches),
            begin,
            0 if container is None else id(container),
            begin + len(words) if graph else 0,
        )
        entry = np.array([0, *counts, *map(id, made), *layouts, *words, *graph], np.int64)
        kinds = [value.dtype if isinstance(value, np.ndarray) else value for value in leaves]
        owner = (entry, [*made], kinds, [*launches], container, kept)
        entry[0] = id(owner)
        with loading:
            address = entry.ctypes.data
            self._kept[address] = owner
            self._kept.pop(pool.remember(self._words.ctypes.data, address), None)
        return True


def flat(given: Sequence[Any]) -> tuple[list[Any], int]:
    """The arguments, with the elements of tuples in their place, and a number that says which are tuples."""
    leaves: list[Any] = []
    structure = 0
    for value in given:
        several = type(value) is tuple
        structure = structure * _STRUCTURE + (len(value) + 2 if several else 1)
        leaves += value if several else (value,)
    return leaves, structure


def _source(value: Any, kind: str) -> tuple[int, int, int]:
    """The words that describe a parameter of a launch."""
    if isinstance(value, Argument):
        return _OF_ARGUMENT, *value
    if isinstance(value, Result):
        return _OF_RESULT, *value
    if isinstance(value, Scratch):
        return _OF_RESULT + _LINE - 1, *value
    if kind == "float":
        return _CONSTANT, int(np.float64(value).view(np.int64)), 0
    return _CONSTANT, value.ctypes.data if isinstance(value, np.ndarray) else int(value), 0


# ---- Kernels that are prepared from their plans ---------------------------------------------------------------------

_LARGEST = 1 << 20  # bytes of an array: above that Python's share of the time is small
_USUAL = 4  # calls with the same layouts and options, after which they are prepared: making a plan takes some time
_MOST_SEEN, _NEVER = 4096, 1 << 62
_NOTHING = -1  # instead of the number of results


def prepared(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a kernel run without Python code for small arrays, where its plan consists of launches only.

    The caller gives all arguments by position.
    """
    function.direct = FromPlans(function)  # type: ignore[attr-defined]
    return function


class _Substitute(NamedTuple):
    run: Callable[..., Any]


def substitute(function: Callable[..., Any], run: Callable[..., Any]) -> None:
    """Let operators call ``run`` in place of a kernel, as for ``prepared``; recorded steps still call the kernel.

    So the results of a step lie in memory as its plan says, even if those of ``run`` do not.
    """
    function.direct = _Substitute(run)  # type: ignore[attr-defined]


class FromPlans(Prepared):
    """A ``Prepared`` that remembers the plans of a kernel for layouts and options that come several times."""

    def __init__(self, function: Callable[..., Any], flags: bool = False) -> None:
        super().__init__(self._count, flags, function)
        self._function = function
        self._seen: dict[Any, int] = {}  # calls with these layouts and options, or a negative number: not prepared

    def forget(self) -> None:
        super().forget()
        self._seen.clear()

    def _count(self, *given: Any) -> Any:
        found = self._function(*given)
        seen = given
        while self._flags and seen and seen[-1] is True:
            seen = seen[:-1]
        leaves, structure = flat(seen)
        if self.is_usual(leaves, structure):
            few = len(seen) <= _MOST_ARGUMENTS and len(leaves) < _MOST_PARAMETERS
            if few and not self._prepare(given, leaves, structure):
                self.remember_nothing(leaves, structure)
        return found

    def is_usual(self, leaves: list[Any], structure: int) -> bool:
        """Whether a call is the one after which these layouts and options are prepared."""
        key: list[Any] = [structure]
        for value in leaves:
            if type(value) is np.ndarray:
                if value.nbytes > _LARGEST:
                    return False
                key += value.shape, value.strides, value.dtype
            elif type(value) in _BY_VALUE:
                key += type(value), repr(value) if type(value) is float else value  # 1, 1.0 and True; 0.0 and -0.0
            elif type(value) in _BY_IDENTITY:
                key.append(id(value))
            else:
                return False
        kept = (*key,)
        calls = self._seen.get(kept, 0) + 1
        if calls > 0:
            if len(self._seen) > _MOST_SEEN:
                self._seen.clear()
            self._seen[kept] = -_NEVER if calls == _USUAL else calls
        return calls == _USUAL

    def remember_nothing(self, leaves: list[Any], structure: int) -> None:
        """Remember that there is nothing to prepare for these layouts and options."""
        self.remember_all(leaves, structure, [], [], _NOTHING)

    def _prepare(self, given: tuple[Any, ...], leaves: list[Any], structure: int) -> bool:
        """Remember the launches of a call; False if it does not consist of launches that can be prepared.

        leaves, structure: the arguments by which machine code finds it.
        """
        from .plan import plan_of
        from .plan_tracing import PlanError

        try:
            plan = plan_of(self._function, given, {})
        except PlanError:
            return False
        return self.remember_plan(plan, leaves, structure)

    def _is_container(self, kind: type) -> bool:
        """Whether results of this type are several."""
        return kind is tuple

    def remember_plan(
        self, plan: Any, leaves: list[Any], structure: int, graph: Any = None, saved: Sequence[Any] = ()
    ) -> bool:
        """Remember a plan as ``_prepare`` does.

        saved: the places of arrays that are kept besides the results. graph(returned, sources) returns the words of the
        nodes that an operation records, and what must be kept for them; sources: an ``Argument`` or ``Result`` for each
        of ``saved``.
        """
        from .plan_tracing import Call as Called
        from .plan_tracing import Launch as Planned
        from .plan_tracing import Place, Word, within

        container = type(plan.results) if self._is_container(type(plan.results)) else None
        returned = (plan.results,) if container is None else plan.results
        if plan.results is None:  # it changes an argument
            returned = ()
        sizes = [plan.buffer_bytes(at) for at in range(len(plan.buffers))]
        if max(sizes, default=0) > _LARGEST:
            return False
        begins = {each.buffer: each.begin for each in plan.inputs}
        arrays = [at for at, value in enumerate(leaves) if isinstance(value, np.ndarray)]
        places: dict[int, Any] = {each.buffer: Argument(at) for at, each in zip(arrays, plan.inputs, strict=True)}
        made: list[np.ndarray] = []
        parts: list[tuple[int, Any]] = []  # results that are parts of a buffer
        inputs = {each: places[each.buffer] for each in plan.inputs}
        sources: dict[Any, Any] = {}
        for at, place in enumerate((*returned, *saved)):
            if at >= len(returned) and (place in inputs or place in sources):
                sources.setdefault(place, inputs.get(place))
                continue
            if type(place) is not Place or place.buffer in begins:  # nothing, or a view of an argument
                return False
            sources.setdefault(place, Result(len(made)))
            like = _array_like(place)
            if like is None:
                return False
            if place.begin or like.nbytes != plan.buffers[place.buffer].bytes or place.buffer in places:
                parts.append((len(made), place))
            else:
                places[place.buffer] = Result(len(made))
            made.append(like)
        results = len(made)
        for at, size in enumerate(sizes):
            if at not in places:
                places[at] = Scratch(len(made))
                made.append(np.broadcast_to(np.zeros((), np.uint8), (size + _LINE,)))
        launches: list[tuple[Any, int, list[Any]]] = []
        for one in plan.launches:
            if isinstance(one, Called) and one.unless_finite is not None and returned:
                place, size = one.unless_finite, one.unless_finite.dtype.itemsize
                begin = place.begin - begins.get(place.buffer, 0)
                launches.append((None, _LOOK, [places[place.buffer]._replace(begin=begin), size, _EXPONENTS[size]]))
                continue
            if isinstance(one, Called) and one.function is within:
                place, low, high = one.arguments
                begin = place.begin - begins.get(place.buffer, 0)
                guard = [places[place.buffer]._replace(begin=begin), prod(place.shape), int(low), int(high)]
                launches.append((None, _GUARD, guard))
                continue
            if not isinstance(one, Planned):
                return False
            parameters: list[Any] = []
            for value in one.arguments:
                if type(value) is Place:
                    start = value.begin - begins.get(value.buffer, 0)
                    parameters.append(places[value.buffer]._replace(begin=start))
                elif isinstance(value, (int, float, np.integer, np.ndarray)):
                    parameters.append(value)
                elif type(value) is Word:
                    parameters.append(plan.words[value.name])
                else:
                    return False
            launches.append((ready(one.function), one.tasks, parameters))
        for at, place in parts:
            source = places[place.buffer]._replace(begin=place.begin)
            launches.append((None, 0, [Result(at), source, made[at].nbytes]))
        words, kept = (None, None) if graph is None else graph(len(returned), [sources[each] for each in saved])
        return self.remember_all(leaves, structure, launches, made, results, container, words or (), kept)


def _array_like(place: Any) -> np.ndarray | None:
    """An array with the layout of a result, but with little memory; None if NumPy gives a new one another layout."""
    like = np.lib.stride_tricks.as_strided(np.zeros(1, place.dtype), place.shape, place.strides)
    new = np.empty_like(like)
    steps = zip(place.shape, new.strides, place.strides, strict=True)
    return like if all(extent == 1 or step == other for extent, step, other in steps) else None
