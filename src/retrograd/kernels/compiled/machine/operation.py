"""Operators that run without Python code for tensors of layouts that they have seen before.

An operator checks its arguments, chooses a kernel, calls it and wraps the result; on small tensors that takes several
times as long as the kernel. For the same layouts and options it does the same each time. So its plan is made as that of
a kernel is: its Python function runs once on arrays without elements. The plan is kept only if it then gives the bits
that the operator gives.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....specs.array_spec import mapped
from .launch import Launch, built_in, pool
from .plan import plan_of_call
from .plan_tracing import Place, PlanError, planner
from .prepared import Argument, FromPlans, Mark

_CALLS = (
    11 + 512 * 4 + 1
)  # word with the unknown calls that are still looked at; this and the next three as in prepared_jit.py
_MOST_ARGUMENTS, _STRUCTURE = 8, 67
_PLAIN, _EMPTY = -1, -2
_EDGES = {"argument": 1, "end": 2}
_ITEMS = {"object": 0, "argument": 1, "output": 2, "given": 3, "array": 4, "tensor": 5, "number": 6}
_MOST_UNKNOWN, _MORE = 400, 100  # such calls at first, and more for each that was prepared


class Recording(NamedTuple):
    """What machine code needs to record a call, and Python to know how.

    node, output: types with the slots ``edges``, ``order``, ``call_site``, ``saved`` and ``template``, and with
    ``array`` and ``index``. next_order, call_site: functions without arguments. template(results, given): see
    ``engine.node_template``. is_same(one, other): whether two tensors have the same history. node_like(node,
    next_saved): a copy of a node with other saved tensors.
    """

    node: Any
    output: Any
    next_order: Callable[[], int]
    call_site: Callable[[], Any]
    template: Callable[..., Any]
    is_same: Callable[[Any, Any], bool]
    node_like: Callable[[Any, Callable[[], Any]], Any]


class Engine(NamedTuple):
    """The objects of the engine that machine code looks at.

    usual: a buffer of two words; while one is 0, no operation runs. interpreters: a list; the same while it has
    elements. thread: its attribute ``mode`` has the slot ``enabled``, and the slots of ``flags`` with usual values.
    tensor, parameter: types with the slots ``array`` and ``_requires_grad``. fields: other slots of a new tensor.
    wrap: makes one. reads: functions that are called before Python reads an element. clock: its attribute ``latest``
    changes if a tensor is changed in place. recording: see there.
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
    recording: Recording


class Operation(FromPlans):
    """The built-in form of an operator: ``run(...)`` returns NotImplemented where the operator itself must run."""

    def __init__(self, operator: Callable[..., Any], engine: Engine) -> None:
        super().__init__(operator)
        self._other, self._engine = self._learn, engine
        self._mode = "mode"

    def _built_in(self) -> Launch:
        return built_in("operation", pool.operation, self._words, keywords=True)

    def _more_words(self) -> list[int]:
        engine, mode, recording = self._engine, self._engine.thread.mode, self._engine.recording
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
            *map(id, (True, engine.fields["_grad_req"], recording.node, recording.output)),
            *map(id, (recording.next_order, recording.call_site)),
            *[slot_of(engine.tensor, name) for name in ("_edge", "_grad_req")],
            slot_of(type(mode), "site"),
            *[slot_of(recording.node, name) for name in ("edges", "order", "call_site", "saved")],
            *[slot_of(recording.output, name) for name in ("array", "index")],
            *(slot_of(recording.node, "template"), slot_of(type(mode), "retain_graph")),
            *(id(engine.clock), slot_of(type(engine.clock), "latest")),
            *[word for pair in slots for word in pair],
        ]

    def _is_container(self, kind: type) -> bool:
        return kind is tuple or (issubclass(kind, tuple) and kind is not Place)

    def _learn(self, *args: Any, **kwargs: Any) -> Any:
        """Prepare a call with unknown layouts or options if it is the usual one."""
        names, values = (*kwargs,), [*map(self._arrays, map(self._with_arrays, (*args, *kwargs.values())))]
        if len(values) + len(names) > _MOST_ARGUMENTS:
            return NotImplemented
        enabled: bool = self._engine.thread.mode.enabled
        structure, leaves, needs = int(enabled), list[Any](), list[bool]()
        for value in map(self._with_arrays, (*args, *kwargs.values())):
            is_list = type(value) is list
            several = is_list or type(value) is tuple
            structure = (structure * _STRUCTURE + (len(value) + 2 if several else 1)) * 2 + is_list
            for each in value if several else (value,):
                leaves.append(self._arrays(each))
                if isinstance(each, (self._engine.tensor, np.ndarray)):
                    needs.append(enabled and getattr(each, "_requires_grad", False))
                    leaves += [NotImplemented] * needs[-1]
        leaves += names
        structure = structure * _STRUCTURE + len(names)
        if not self.is_usual(leaves, structure):
            return NotImplemented
        try:
            plan, template = self._plan(args, values, names, needs)
        except Exception:  # the operator itself will raise the error, if it is one
            plan = template = None
        try:
            is_known = plan is not None and plan.results is not None
            is_known = is_known and self._remember(plan, template, leaves, structure)
        except PlanError:
            is_known = False
        if not is_known:
            self.remember_nothing(leaves, structure)
            return NotImplemented
        expected = self._function(*args, **kwargs)
        constants = [each for one in plan.launches for each in one.arguments if isinstance(each, np.ndarray)]
        before = [each.tobytes() for each in constants]
        found = self.run(*args, **kwargs)
        if not self._is_same(expected, found) or [each.tobytes() for each in constants] != before:
            self.remember_nothing(leaves, structure)
        else:
            self._words[_CALLS] += _MORE
        return expected

    def _arrays(self, value: Any) -> Any:
        """An argument with arrays in place of tensors."""
        if type(value) in (tuple, list):
            return type(value)([*map(self._arrays, value)])
        return value.array if isinstance(value, self._engine.tensor) else value

    def _with_arrays(self, value: Any) -> Any:
        """An argument; for a node, what its backward depends on, as a list."""
        if type(value) is not self._engine.recording.node:
            return value
        return [value.template, self._engine.thread.mode.retain_graph, *map(_saved_array, value.saved)]

    def _plan(
        self, args: tuple[Any, ...], values: list[Any], names: tuple[str, ...], needs: list[bool]
    ) -> tuple[Any, Any]:
        """The plan of the operator for arguments in which arrays stand for tensors, and the template of its nodes.

        needs: for each tensor, whether it requires a gradient. The results of the plan are followed by the arrays that
        nodes save, if something is recorded.
        """
        engine, count, latest, template = self._engine, len(values) - len(names), self._engine.clock.latest, None

        def on_arrays(*given: Any) -> Any:
            nonlocal template
            tensors: list[Any] = []

            def tensor(leaf: Any) -> Any:
                if not isinstance(leaf, np.ndarray):
                    return leaf
                tensors.append(engine.wrap(leaf))
                tensors[-1]._requires_grad = needs[len(tensors) - 1]
                return tensors[-1]

            wrapped = mapped(given, tensor)
            if args and type(args[0]) is engine.recording.node:
                saved = iter(wrapped[0][2:])
                wrapped = (engine.recording.node_like(args[0], lambda: next(saved)), *wrapped[1:])
            results = self._function(*wrapped[:count], **dict(zip(names, wrapped[count:], strict=True)))
            if engine.clock.latest != latest:
                raise PlanError("a tensor is changed in place")
            found = mapped(results, self._arrays)
            several = results if self._is_container(type(results)) else (results,)
            if not any(each is not None and each._requires_grad for each in several):
                return found
            template = engine.recording.template(several, tensors)
            if template is None:
                raise PlanError("what it records differs from call to call")
            return found, template.arrays

        engine.reads.append(_refuse)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # one that would be given at each call
                return plan_of_call(on_arrays, (*values,)), template
        finally:
            engine.reads.remove(_refuse)

    def _remember(self, plan: Any, template: Any, leaves: list[Any], structure: int) -> bool:
        if template is None:
            results = plan.results
            if type(results) is not tuple or None not in results:
                return self.remember_plan(plan, leaves, structure)
            ends = [_EMPTY if each is None else _PLAIN for each in results]
            plan = plan._replace(results=tuple([each for each in results if each is not None]))
            return self.remember_plan(plan, leaves, structure, lambda *_: ([len(ends), 0, 0, *ends], None))
        results, saved = plan.results
        given = [at for at, value in enumerate(leaves) if isinstance(value, np.ndarray)]

        def graph(returned: int, sources: Sequence[Any]) -> tuple[list[int], Any]:
            return self._words_of(template, returned, sources, given)

        return self.remember_plan(plan._replace(results=results), leaves, structure, graph, saved)

    def _words_of(
        self, template: Any, returned: int, sources: Sequence[Any], given: list[int]
    ) -> tuple[list[int], Any]:
        """The words of a graph as in prepared_jit.py, and the objects whose addresses they contain.

        sources: of the arrays that nodes save. given: the places of tensors among the leaves of the arguments.
        """
        words, kept = [returned, len(template.nodes), sum(len(each.ends) for each in template.nodes)], list[Any]()

        def address(value: Any) -> int:
            kept.append(value)
            return id(value)

        def item(kind: str, *value: Any) -> tuple[int, int, int]:
            if kind == "object" or kind == "number":
                return _ITEMS[kind], address(value[0]), -1
            if kind == "argument":
                return _ITEMS[kind], given[value[0]], -1
            source = sources[value[0]]
            if isinstance(source, Argument):
                if kind != "array":
                    raise PlanError("a result is an argument")
                kind = "given"
            last = address(value[1]) if kind == "output" else value[1] if kind == "tensor" else -1
            return _ITEMS[kind], source.place, last

        words += template.results
        for node in template.nodes:
            saved = node.saved or []
            constants = {**node.slots, "template": Mark()}
            slots = [(slot_of(self._engine.recording.node, name), address(each)) for name, each in constants.items()]
            edges = [(0, 0) if each is None else (_EDGES[each[0]], each[1]) for each in node.edges]
            edges = [(kind, given[place]) if kind == _EDGES["argument"] else (kind, place) for kind, place in edges]
            attributes = [(address(sys.intern(name)), address(each)) for name, each in node.attributes.items()]
            ends = [tuple(map(address, each)) for each in node.ends]
            words += len(slots), len(edges), -1 if node.saved is None else len(saved), len(attributes), len(ends)
            words.append(int(bool(saved)))
            parts: list[Any] = [*slots, *edges, *[item(*each) for each in saved], *attributes, *ends]
            words += [word for part in parts for word in part]
        return words, kept

    def _is_same(self, expected: Any, found: Any) -> bool:
        """Whether results have the same types, layouts, bits and histories."""
        if type(expected) is not type(found) or expected is None:
            return expected is found
        if isinstance(expected, tuple):
            return len(expected) == len(found) and all(map(self._is_same, expected, found))
        a, b = expected.array, found.array
        same = (a.shape, _steps(a), a.dtype, a.tobytes()) == (b.shape, _steps(b), b.dtype, b.tobytes())
        return same and self._engine.recording.is_same(expected, found)


def _saved_array(item: Any) -> Any:
    """The array of a saved item, or None."""
    return item[1] if type(item) is tuple else getattr(item, "array", item)


def _refuse(why: str, decision: Any) -> None:
    if planner() is not None:
        raise PlanError(f"{why} would be read")


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
