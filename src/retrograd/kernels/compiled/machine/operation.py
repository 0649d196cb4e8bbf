"""Operators that run without Python code for tensors of layouts that they have seen before.

An operator checks its arguments, chooses a kernel, calls it and wraps the result; on small tensors that takes several
times as long as the kernel. For the same layouts and options it does the same each time. So its plan is made as that of
a kernel is: its Python function runs once on arrays without elements. The plan is kept only if it then gives the bits
that the operator gives.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ....specs.array_spec import mapped
from .launch import Launch, built_in, pool
from .plan import plan_of_call
from .plan_tracing import Place, PlanError, planner
from .prepared import FromPlans

_CALLS = (
    11 + 512 * 4 + 1
)  # word with the unknown calls that are still looked at; this and the next as in prepared_jit.py
_MOST_ARGUMENTS, _STRUCTURE = 8, 67
_MOST_UNKNOWN, _MORE = 400, 100  # such calls at first, and more for each that was prepared


class Engine(NamedTuple):
    """The objects of the engine that machine code looks at.

    usual: a buffer of two words; while one is 0, no operation runs. interpreters: a list; the same while it has
    elements. thread: its attribute ``mode`` has the slot ``enabled``, and the slots of ``flags`` with usual values.
    tensor, parameter: types with the slots ``array`` and ``_requires_grad``. fields: other slots of a new tensor.
    wrap: makes one. reads: functions that are called before Python reads an element. clock: its attribute ``latest``
    changes if a tensor is changed in place.
    """

    usual: Any
    interpreters: list[Any]
    thread: Any
    flags: Mapping[str, Any]
    tensor: Any
    parameter: Any
    fields: Mapping[str, Any]
    wrap: Callable[[np.ndarray], Any]
    reads: list[Any]
    clock: Any


class Operation(FromPlans):
    """The built-in form of an operator: ``run(...)`` returns NotImplemented where the operator itself must run."""

    def __init__(self, operator: Callable[..., Any], engine: Engine) -> None:
        super().__init__(operator)
        self._other, self._engine = self._learn, engine
        self._mode = "mode"

    def _built_in(self) -> Launch:
        return built_in("operation", pool.operation, self._words, keywords=True)

    def _more_words(self) -> list[int]:
        engine, mode = self._engine, self._engine.thread.mode
        slots = [(slot_of(type(mode), name), id(value)) for name, value in engine.flags.items()]
        slots += [(slot_of(engine.tensor, name), id(value)) for name, value in engine.fields.items()]
        return [
            id(NotImplemented),
            _MOST_UNKNOWN,
            engine.usual.buffer_info()[0],
            id(engine.interpreters),
            id(engine.thread),
            id(self._mode),
            id(engine.tensor),
            id(engine.parameter),
            id(list),
            id(False),
            slot_of(engine.tensor, "array"),
            slot_of(engine.tensor, "_requires_grad"),
            slot_of(type(mode), "enabled"),
            len(engine.flags),
            len(engine.fields),
            *[word for pair in slots for word in pair],
        ]

    def _is_container(self, kind: type) -> bool:
        return kind is tuple or (issubclass(kind, tuple) and kind is not Place)

    def _learn(self, *args: Any, **kwargs: Any) -> Any:
        """Prepare a call with unknown layouts or options if it is the usual one."""
        names, values = (*kwargs,), [*map(self._arrays, (*args, *kwargs.values()))]
        if len(values) + len(names) > _MOST_ARGUMENTS:
            return NotImplemented
        structure = int(self._engine.thread.mode.enabled)
        leaves: list[Any] = []
        for value in values:
            is_list = type(value) is list
            several = is_list or type(value) is tuple
            structure = (structure * _STRUCTURE + (len(value) + 2 if several else 1)) * 2 + is_list
            leaves += value if several else (value,)
        leaves += names
        structure = structure * _STRUCTURE + len(names)
        if not self.is_usual(leaves, structure):
            return NotImplemented
        try:
            plan = self._plan(values, names)
        except Exception:  # the operator itself will raise the error, if it is one
            plan = None
        if plan is None or plan.results is None or not self.remember_plan(plan, leaves, structure):
            self.remember_nothing(leaves, structure)
            return NotImplemented
        expected = self._function(*args, **kwargs)
        constants = [each for one in plan.launches for each in one.arguments if isinstance(each, np.ndarray)]
        before = [each.tobytes() for each in constants]
        found = self.run(*args, **kwargs)
        if not _is_same(expected, found) or [each.tobytes() for each in constants] != before:
            self.remember_nothing(leaves, structure)
        else:
            self._words[_CALLS] += _MORE
        return expected

    def _arrays(self, value: Any) -> Any:
        """An argument with arrays in place of tensors."""
        if type(value) in (tuple, list):
            return type(value)([*map(self._arrays, value)])
        return value.array if isinstance(value, self._engine.tensor) else value

    def _plan(self, values: list[Any], names: tuple[str, ...]) -> Any:
        """The plan of the operator for arguments in which arrays stand for tensors."""
        engine, count, latest = self._engine, len(values) - len(names), self._engine.clock.latest

        def on_arrays(*given: Any) -> Any:
            wrapped = mapped(given, lambda leaf: engine.wrap(leaf) if isinstance(leaf, np.ndarray) else leaf)
            results = self._function(*wrapped[:count], **dict(zip(names, wrapped[count:], strict=True)))
            if engine.clock.latest != latest:
                raise PlanError("a tensor is changed in place")
            return mapped(results, self._arrays)

        engine.reads.append(_refuse)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # one that would be given at each call
                return plan_of_call(on_arrays, (*values,))
        finally:
            engine.reads.remove(_refuse)


def _refuse(why: str, decision: Any) -> None:
    if planner() is not None:
        raise PlanError(f"{why} would be read")


def _is_same(expected: Any, found: Any) -> bool:
    """Whether results are of the same types and layouts, and the elements have the same bits."""
    if type(expected) is not type(found):
        return False
    if isinstance(expected, tuple):
        return len(expected) == len(found) and all(map(_is_same, expected, found))
    a, b = expected.array, found.array
    return (a.shape, _steps(a), a.dtype, a.tobytes()) == (b.shape, _steps(b), b.dtype, b.tobytes())


def _steps(x: np.ndarray) -> list[int]:
    """The strides of axes with several elements."""
    return [step for step, extent in zip(x.strides, x.shape, strict=True) if extent != 1]


def slot_of(kind: type, name: str) -> int:
    """The place of a slot in the objects of a class, in words."""
    thing: Any = object.__new__(kind)
    mark = object()
    getattr(kind, name).__set__(thing, mark)
    words = (ctypes.c_int64 * (kind.__basicsize__ // 8)).from_address(id(thing))
    (place,) = [at for at, word in enumerate(words) if word == id(mark)]
    return place
