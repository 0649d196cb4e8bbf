"""The plan of a kernel: launches in their order, the memory that they need, and where the results are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from inspect import signature
from math import copysign, isfinite
from typing import Any, NamedTuple

import numpy as np

from ....specs.array_spec import ArrayInterface, Spec, byte_bounds, layout_of, leaves, mapped
from .launch import MOST_THREADS, get_num_threads, ready
from .plan_tracing import Buffer, Call, Launch, Objects, Place, Word, numbered, planning
from .scratch import none_kept

_CACHE_LINE = 64  # bytes


class Plan(NamedTuple):
    """The plan of a kernel: its launches in order, the memory they need, and the location of each result.

    inputs: the places of the array arguments, in order. results: as the kernel returns them, with a place for each
    array; a place in an input is a view of that input, or an input changed in place. words: scalar arguments that may
    change from run to run, because no decision depends on them, by parameter name. over: pairs of the buffer of a
    result and that of an input whose memory the result may have, if nothing reads that input afterwards.
    """

    launches: tuple[Launch | Call, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[Place, ...]
    results: Any
    words: dict[str, float]
    over: tuple[tuple[int, int], ...] = ()

    @property
    def takes_arrays(self) -> bool:
        """Whether no launch takes a table with the addresses of arrays, or has words."""
        return not any(isinstance(each, (Objects, Word)) for one in self.launches for each in one.arguments)

    def fits(self, y: np.ndarray) -> bool:
        """Whether there is exactly one result, and y can be its memory."""
        return type(self.results) is Place and self._may_hold(self.results, y)

    def _may_hold(self, place: Place, y: np.ndarray) -> bool:
        """Whether the result fills its buffer, and y has its layout."""
        return self.buffers[place.buffer].kind == "output" and (
            (y.shape, y.strides, y.dtype) == (place.shape, place.strides, place.dtype)
            and y.nbytes == self.buffers[place.buffer].bytes
        )

    def places(self) -> list[Any]:
        """The leaves of the results, in their order: the ``Place`` of each array, or a number."""
        return [*leaves(self.results, (Place,))]

    def buffer_bytes(self, at: int) -> int:
        """The bytes of a buffer, for the current number of threads."""
        kind, count = self.buffers[at]
        return count * get_num_threads() if kind == "each" else count

    def constant_launches(self, constant: set[int]) -> dict[int, list[Place]]:
        """The launches that depend only on some inputs, each with the scratch memory that holds its results.

        constant: the buffers of these inputs. So weights that are packed or transformed need not be again, unless a
        later launch uses the same memory for something else: whether it does shows only when the plan runs.
        """
        found: dict[int, list[Place]] = {}
        kept: list[Place] = []
        touched: list[Place] = []
        for at, one in enumerate(self.launches):
            places = [place for each in one.arguments for place in _places_in(each)]
            known = [place for place in places if place.buffer in constant or any(_meet(place, each) for each in kept)]
            others = [place for place in places if place not in known]
            new = all(self.buffers[place.buffer].kind == "scratch" for place in others)
            if (
                isinstance(one, Launch)
                and known
                and others
                and new
                and not any(_meet(a, b) for a in others for b in touched)
            ):
                found[at] = others
                kept += others
            else:
                touched += places
        return found

    def run(
        self, *arrays: np.ndarray, into: Any = None, memory: Mapping[int, np.ndarray] | None = None, **numbers: float
    ) -> Any:
        """Run the launches on arrays that have the layouts of ``inputs``, and return the results.

        into: an array for one result, a tuple like ``results`` for several, with None for those that get new memory.
        Each array has the layout of its result, fills its buffer, and is returned. memory: by buffer number, except
        inputs, arrays whose bytes are used as these buffers; their old contents do not matter. numbers: new values of
        ``words``.

        Raises:
            ValueError: an array has another layout than was planned, or memory another size.
            TypeError: a number is not among the words.
        """
        return self.bound(*arrays, into=into, memory=memory, **numbers).run()

    def bound(
        self, *arrays: np.ndarray, into: Any = None, memory: Mapping[int, np.ndarray] | None = None, **numbers: float
    ) -> Bound:
        """Return the launches with all their memory, to be run any number of times."""
        if unknown := numbers.keys() - self.words.keys():
            raise TypeError(
                f"{min(unknown)} is not a word of this plan, which has {', '.join(self.words) or 'none'}; plan it "
                "again with another number"
            )
        for given, place in zip(arrays, self.inputs, strict=True):
            if (given.shape, given.strides, given.dtype) != (place.shape, place.strides, place.dtype):
                raise ValueError(
                    f"a plan for {place.dtype}{list(place.shape)} with steps {place.strides} was given "
                    f"{given.dtype}{list(given.shape)} with steps {given.strides}; plan it again"
                )
        whole = {id(place): given for given, place in zip(arrays, self.inputs, strict=True)}
        if into is not None:
            whole.update(self._given_results(into))
        found = _Memory(self, whole, memory or {})
        calls: list[_Call] = []
        for one in self.launches:
            arguments = [
                whole[id(each)]
                if id(each) in whole
                else each.of(found)
                if isinstance(each, (Place, Objects))
                else numbers.get(each.name, self.words[each.name])
                if type(each) is Word
                else each
                for each in one.arguments
            ]
            if isinstance(one, Launch):
                calls.append((ready(one.function), (one.tasks, *arguments), None))
            else:
                check = None if one.unless_finite is None else one.unless_finite.of(found)
                calls.append((one.function, (*arguments,), check))

        def result(leaf: Any) -> Any:
            if type(leaf) is not Place:
                return leaf
            return whole[id(leaf)] if id(leaf) in whole else leaf.of(found)

        threads = get_num_threads() if any(self.buffers[at].kind == "each" for at in found) else MOST_THREADS
        return Bound(tuple(calls), mapped(self.results, result, (Place,)), threads)

    def with_numbers(self, bound: Bound) -> Callable[..., None]:
        """Return a function that runs all launches of the plan, bound to memory, with other values of the words."""
        calls = []
        for one, (function, given, check) in zip(self.launches, bound.calls, strict=True):
            arguments = [*given]
            begin = len(arguments) - len(one.arguments)
            words = [(begin + at, each.name) for at, each in enumerate(one.arguments) if type(each) is Word]
            calls.append((function, arguments, words, check))

        def run(**numbers: float) -> None:
            for function, arguments, words, check in calls:
                for at, name in words:
                    if name in numbers:
                        arguments[at] = numbers[name]
                if check is None or not isfinite(check.item()):
                    function(*arguments)

        return run

    def _given_results(self, into: Any) -> Iterator[tuple[int, np.ndarray]]:
        """The places of results, by id, and the arrays that are given for them."""
        several = not isinstance(self.results, Place)
        if several != isinstance(into, tuple):
            raise ValueError(f"into is {type(into).__name__}, needs {'a tuple like the results' if several else 'one'}")
        for place, y in _pairs(self.results, into):
            if y is None:
                continue
            if not isinstance(place, Place) or not self._may_hold(place, y):
                raise ValueError(
                    f"into has {y.dtype}{list(y.shape)} with steps {y.strides}, and the result is not an array of this "
                    "layout that fills its buffer; give None for it, or memory= for the buffer"
                )
            yield id(place), y

    def __str__(self) -> str:
        """Buffers and launches, a line each, with the buffers that each launch reads or writes."""
        names = [f"{buffer.kind.replace('each', 'scratch')}{at}" for at, buffer in enumerate(self.buffers)]
        lines = [
            f"{name}: {buffer.bytes:,} bytes{' for each thread' if buffer.kind == 'each' else ''}"
            for name, buffer in zip(names, self.buffers, strict=True)
        ]
        for one in self.launches:
            used = [names[each.buffer] for each in one.arguments if isinstance(each, Place)]
            tasks = f"{one.tasks} task{'s' * (one.tasks != 1)}: " if isinstance(one, Launch) else ""
            check = getattr(one, "unless_finite", None)
            lines.append(
                f"{one.name}({tasks}{', '.join(used)})" + (f" unless {names[check.buffer]} is finite" if check else "")
            )
        return "\n".join(lines)


_Call = tuple[Callable[..., Any], tuple[Any, ...], np.ndarray | None]


class Bound(NamedTuple):
    """The launches of a plan with the arrays that they run on, and the results.

    calls: function, arguments, and None or an array of one number: the call is skipped if it is finite. threads: the
    number of threads for which there is scratch memory.
    """

    calls: tuple[_Call, ...]
    results: Any
    threads: int

    def run_one(self, place: int) -> None:
        """Run one launch."""
        function, arguments, _ = self.calls[place]
        function(*arguments)

    def without(self, places: Collection[int]) -> Bound:
        """Return all launches but some."""
        return self._replace(calls=tuple([call for place, call in enumerate(self.calls) if place not in places]))

    def run(self) -> Any:
        """Run the launches, and return the results.

        Raises:
            ValueError: there is scratch memory for fewer threads than the current number.
        """
        if get_num_threads() > self.threads:
            raise ValueError(
                f"there is scratch for {self.threads} threads, and {get_num_threads()} run now; bind the plan again, "
                "for steps by in_arena of those that were recorded"
            )
        for function, arguments, check in self.calls:
            if check is None or not isfinite(check.item()):
                function(*arguments)
        return self.results


class _Memory(dict[int, np.ndarray]):
    """The bytes of each buffer of a plan, made on first use.

    whole: the given inputs and results, by the id of their place. memory: arrays whose bytes are used as a buffer.
    """

    def __init__(self, plan: Plan, whole: dict[int, np.ndarray], memory: Mapping[int, np.ndarray]) -> None:
        self.plan, self.whole = plan, whole
        self.given = {place.buffer: place for place in (*plan.inputs, *plan.places()) if id(place) in whole}
        for at, given in memory.items():
            self[at] = found = _bytes_of(given)
            if plan.buffers[at].kind == "input" or found.size < plan.buffer_bytes(at):
                raise ValueError(
                    f"buffer {at} of the plan is {plan.buffers[at].kind} of {plan.buffer_bytes(at)} bytes, and "
                    f"{found.size} were given as memory"
                )

    def __missing__(self, at: int) -> np.ndarray:
        given = self.given.get(at)
        self[at] = found = _zeros(self.plan.buffer_bytes(at)) if given is None else _bytes_of(self.whole[id(given)])
        return found


def _places_in(argument: Any) -> tuple[Place, ...]:
    if isinstance(argument, Objects):
        return argument.places
    return (argument,) if isinstance(argument, Place) else ()


def _meet(one: Place, other: Place) -> bool:
    """Whether two places have bytes in common."""
    if one.buffer != other.buffer:
        return False
    (a, b), (c, d) = (byte_bounds(each.shape, each.strides, each.dtype.itemsize) for each in (one, other))
    return one.begin + a < other.begin + d and other.begin + c < one.begin + b


def _pairs(results: Any, into: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the leaves of ``results``, each with its counterpart in ``into``; None counts for all leaves below."""
    if isinstance(results, (tuple, list)) and not isinstance(results, Place):
        if into is not None:
            for each, given in zip(results, into, strict=True):
                yield from _pairs(each, given)
    else:
        yield results, into


def _zeros(count: int) -> np.ndarray:
    """Return an array of zero bytes, aligned to a cache line.

    No kernel relies on zeros. But a kernel may compute on padding and discard the results, and fresh memory may contain
    denormal numbers, with which arithmetic is slow.
    """
    memory = np.zeros(count + _CACHE_LINE, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _CACHE_LINE
    return memory[begin : begin + count]


def _bytes_of(x: np.ndarray) -> np.ndarray:
    """The memory from the first to the last byte of an array."""
    low, high = byte_bounds(x.shape, x.strides, x.itemsize)
    start = x.__array_interface__["data"][0] + low
    interface = {"data": (start, False), "shape": (high - low,), "typestr": "|u1", "version": 3}
    return np.asarray(ArrayInterface(interface, x))


def plan_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
    """The plan of a kernel for arguments in which arrays, or ``Spec``s with strides, give the layouts.

    Plans are cached by layouts, options and the number of threads. ``keep``, in which a kernel caches what it knows
    about one set of arrays, is not part of a plan.

    Raises:
        PlanError: the kernel would read elements, or compute with NumPy.
    """
    if "keep" in kwargs:
        kwargs = {name: value for name, value in kwargs.items() if name != "keep"}
    layouts = layout_of(_named(function, args, kwargs))
    try:
        key = function, get_num_threads(), _frozen(layouts)  # scratch is sized for the threads
        kept = _kept.setdefault(key, [])
    except TypeError:  # an option cannot be hashed
        return _made(function, *layouts)[1]
    given = _numbers(layouts)
    for fixed, found in kept:
        if all(_is_same(given[name], value) for name, value in fixed.items()):
            words = {name: given[name] for name in found.words}
            same = all(map(_is_same, words.values(), found.words.values()))
            return found if same else found._replace(words=words)
    if len(_kept) > _MOST or len(kept) >= _MOST_NUMBERS:
        _kept.clear()
    kept.append(_made(function, *layouts))
    return kept[-1][1]


def plan_of_call(function: Callable[..., Any], args: tuple[Any, ...]) -> Plan:
    """The plan of a function that only this call needs, as ``plan_of`` makes it, without words but with guards."""
    return _made(function, layout_of(args), {}, True)[1]


def _is_same(a: float, b: float) -> bool:
    """Whether two numbers are equal, also in the sign of 0."""
    return a == b and copysign(1.0, a) == copysign(1.0, b)


_MOST, _MOST_NUMBERS = 4096, 64
_Fixed = dict[str, float]
_kept: dict[Any, list[tuple[_Fixed, Plan]]] = {}  # plans, with the numbers that they are valid for


class _Named(NamedTuple):
    """A number of the arguments, and the name of its parameter."""

    name: str
    value: float


def _named(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments, with the numbers that may become words replaced by named ones."""
    by_place = _parameters(function)
    names = [by_place[at] if at < len(by_place) else f"argument {at}" for at in range(len(args))]

    def named(name: str, value: Any) -> Any:
        if type(value) is tuple and value and all(type(each) is float for each in value):
            return tuple([_Named(f"{name}[{at}]", each) for at, each in enumerate(value)])
        return _Named(name, value) if type(numbered(name, value)) is not type(value) else value

    return (
        tuple([named(name, value) for name, value in zip(names, args, strict=True)]),
        {name: named(name, value) for name, value in kwargs.items()},
    )


@cache
def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters."""
    parameters = signature(function).parameters.values()
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _numbers(layouts: Any) -> dict[str, float]:
    return {leaf.name: leaf.value for leaf in leaves(layouts, (_Named, Spec)) if type(leaf) is _Named}


def _frozen(value: Any) -> Any:
    """A key: lists and dicts as tuples, numbers with their types, since 1 == 1.0 == True; named ones by their names."""
    if type(value) is _Named:
        return _Named, value.name, type(value.value)
    if isinstance(value, (tuple, list)) and not isinstance(value, Spec):
        return type(value), *map(_frozen, value)
    if type(value) is dict:
        return tuple([(key, _frozen(each)) for key, each in value.items()])
    hash(value)
    return (type(value), value) if isinstance(value, (bool, int, float)) else value


def _made(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], takes_guards: bool = False
) -> tuple[_Fixed, Plan]:
    inputs: list[Place] = []
    numbers: dict[str, Any] = {}
    given = _numbers((args, kwargs))
    with planning() as made, none_kept():
        made.takes_guards = takes_guards

        def without_elements(leaf: Any) -> Any:
            if type(leaf) is _Named:
                found = numbers[leaf.name] = numbered(leaf.name.partition("[")[0], leaf.value)
                found.name = leaf.name
                return found
            if not isinstance(leaf, Spec):
                return leaf
            found = made.array("input", leaf.shape, leaf.dtype, leaf.strides)
            inputs.append(made.place(found))
            return found

        args, kwargs = mapped((args, kwargs), without_elements, (Spec, _Named))
        results = function(*args, **kwargs)
        places = mapped(results, lambda leaf: made.place(leaf) if isinstance(leaf, np.ndarray) else leaf)
    kept = {leaf.buffer for leaf in leaves(places, (Place,)) if isinstance(leaf, Place)}
    buffers = [
        buffer._replace(kind="output") if at in kept and buffer.kind != "input" else buffer
        for at, buffer in enumerate(made.buffers)
    ]
    known = {place: place for place in inputs}  # one object for each place, so that it is found by its id
    places = mapped(places, lambda leaf: known.setdefault(leaf, leaf) if type(leaf) is Place else leaf, (Place,))

    def same(value: Any) -> Any:
        return known.get(value, value) if type(value) is Place else value

    launches = [one._replace(arguments=tuple(map(same, one.arguments))) for one in made.settled()]
    words = {each.name: each.value for one in launches for each in one.arguments if type(each) is Word}
    fixed = {name: given[name] for name, number in numbers.items() if number.fixed}
    return fixed, Plan(tuple(launches), tuple(buffers), tuple(inputs), places, words, tuple(made.over))
