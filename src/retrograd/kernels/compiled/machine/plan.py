"""The plan of a kernel: launches in their order, the memory that they need, and where the results are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from ...interface.kernel import Spec, layout_of, leaves, mapped
from .launch import get_num_threads
from .planning import Buffer, Call, Launch, Objects, Place, Word, bounds, numbered, planning
from .scratch import none_kept

_LINE = 64  # bytes


class Plan(NamedTuple):
    """What a kernel does: launches in their order, the memory they need, and where the results are.

    inputs: the places of the arrays that are given, in the order of the arguments. results: as the kernel returns
    them, with places for arrays; a place in an input is a view of it, or what was changed in place. words: numbers of
    the kernel that may be others in each run, by the names of its parameters; they decide nothing.
    """

    launches: tuple[Launch | Call, ...]
    buffers: tuple[Buffer, ...]
    inputs: tuple[Place, ...]
    results: Any
    words: dict[str, float]

    def fits(self, y: np.ndarray) -> bool:
        """Whether there is one result, and an array may be its memory."""
        place = self.results
        return type(place) is Place and self.buffers[place.buffer].kind == "output" and (
            (y.shape, y.strides, y.dtype) == (place.shape, place.strides, place.dtype)
            and y.nbytes == self.buffers[place.buffer].bytes
        )  # fmt: skip

    def run(self, *arrays: np.ndarray, into: np.ndarray | None = None, **numbers: float) -> Any:
        """Run the launches on arrays that have the layouts of ``inputs``, and return the results.

        into: the memory of the result, which it ``fits``; it is returned. numbers: other numbers than those of
        ``words``.

        Raises:
            ValueError: an array has another layout than was planned.
            TypeError: a number is not among the words.
        """
        if unknown := numbers.keys() - self.words.keys():
            raise TypeError(
                f"{min(unknown)} is no word of this plan, which has {', '.join(self.words) or 'none'}; plan it again "
                "with another number"
            )
        for given, place in zip(arrays, self.inputs, strict=True):
            if (given.shape, given.strides, given.dtype) != (place.shape, place.strides, place.dtype):
                raise ValueError(
                    f"a plan for {place.dtype}{list(place.shape)} with steps {place.strides} was given "
                    f"{given.dtype}{list(given.shape)} with steps {given.strides}; plan it again"
                )
        whole = {id(place): given for given, place in zip(arrays, self.inputs, strict=True)}
        if into is not None:
            whole[id(self.results)] = into
        memory = _Memory(self, whole)
        for one in self.launches:
            arguments = [
                whole[id(each)] if id(each) in whole
                else each.of(memory) if isinstance(each, (Place, Objects))
                else numbers.get(each.name, self.words[each.name]) if type(each) is Word
                else each
                for each in one.arguments
            ]  # fmt: skip
            if isinstance(one, Launch):
                one.function(one.tasks, *arguments)
            elif one.unless_finite is None or not isfinite(one.unless_finite.of(memory).item()):
                one.function(*arguments)
        if into is not None:
            return into
        return mapped(self.results, lambda leaf: leaf.of(memory) if type(leaf) is Place else leaf, (Place,))

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


class _Memory(dict[int, np.ndarray]):
    """The bytes of each buffer of a plan, made on first use; whole: arrays that are given, by the id of their place."""

    def __init__(self, plan: Plan, whole: dict[int, np.ndarray]) -> None:
        self.buffers = plan.buffers
        self.given = {place.buffer: place for place in (*plan.inputs, plan.results) if id(place) in whole}
        self.whole = whole

    def __missing__(self, at: int) -> np.ndarray:
        if at in self.given:
            self[at] = found = _bytes_of(self.whole[id(self.given[at])])
            return found
        buffer = self.buffers[at]
        self[at] = found = _zeros(buffer.bytes * (get_num_threads() if buffer.kind == "each" else 1))
        return found


def _zeros(count: int) -> np.ndarray:
    """Bytes that begin at a cache line; zeros, as kernels expect of scratch."""
    memory = np.zeros(count + _LINE, np.uint8)
    begin = -memory.__array_interface__["data"][0] % _LINE
    return memory[begin : begin + count]


def _bytes_of(x: np.ndarray) -> np.ndarray:
    """The memory from the first to the last byte of an array."""
    low, high = bounds(x.shape, x.strides, x.itemsize)
    start = x.__array_interface__["data"][0] + low
    interface = {"data": (start, False), "shape": (high - low,), "typestr": "|u1", "version": 3}
    return np.asarray(_Exposed(interface, x))


class _Exposed:
    """Memory by its address; keeps its owner alive."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__, self.owner = interface, owner


def plan_of(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan:
    """The plan of a kernel for arguments in which arrays, or ``Spec``s with strides, give the layouts.

    Plans are kept: equal layouts and options have one plan.

    Raises:
        PlanError: the kernel would read elements, or compute with NumPy.
    """
    layouts = layout_of(_named(function, args, kwargs))
    try:
        key = function, _frozen(layouts)
        kept = _kept.setdefault(key, [])
    except TypeError:  # an option cannot be hashed
        return _made(function, *layouts)[1]
    given = _numbers(layouts)
    for fixed, found in kept:
        if all(given[name] == value for name, value in fixed.items()):
            words = {name: given[name] for name in found.words}
            return found if words == found.words else found._replace(words=words)
    if len(_kept) > _MOST or len(kept) >= _MOST_NUMBERS:
        _kept.clear()
    kept.append(_made(function, *layouts))
    return kept[-1][1]


_MOST, _MOST_NUMBERS = 4096, 64
_Fixed = dict[str, float]
_kept: dict[Any, list[tuple[_Fixed, Plan]]] = {}  # plans, and the numbers for which alone they hold


class _Named(NamedTuple):
    """A number of the arguments, and the name of its parameter."""

    name: str
    value: float


def _named(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments, in which numbers that may be words have names."""
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
    """The names of the parameters that may be given by place."""
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


def _made(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Fixed, Plan]:
    inputs: list[Place] = []
    numbers: dict[str, Any] = {}
    given = _numbers((args, kwargs))
    with planning() as made, none_kept():

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
    if type(places) is Place:
        places = known.setdefault(places, places)

    def same(value: Any) -> Any:
        return known.get(value, value) if type(value) is Place else value

    launches = [one._replace(arguments=tuple(map(same, one.arguments))) for one in made.settled()]
    words = {each.name: each.value for one in launches for each in one.arguments if type(each) is Word}
    fixed = {name: given[name] for name, number in numbers.items() if number.fixed}
    return fixed, Plan(tuple(launches), tuple(buffers), tuple(inputs), places, words)
