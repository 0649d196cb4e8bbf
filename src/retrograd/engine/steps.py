"""Steps: the kernel calls of a computation, recorded below autograd.

``record_steps(function)`` runs a function once and returns its steps, including those of forward, backward and the
optimizer. Printed, they are the program that ran; ``run`` runs it again, in the same order on the same arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from itertools import count
from threading import get_ident
from typing import Any, NamedTuple, Self
from weakref import ref

import numpy as np

from ..arrays import copies, empty, host, is_array
from ..kernel_set import Listener, plan_of_function
from ..kernels.interface import KERNELS
from ..specs.array_spec import arrays_in, layout_of, leaves, mapped
from .arguments import kind_name
from .arithmetic import assign
from .call_site import CallSite, user_call_site
from .memory_planning import NUMBERS, Memory, PlannedStep, place_in_arena, plan_if_any, plan_inputs, root

__all__ = ["Step", "Steps", "record_steps"]

update_listeners: list[Callable[[Any], None]] = []  # called with an optimizer before its step; almost always empty

_MAX_LENGTH = 32  # characters of an argument other than an array


class Step(NamedTuple):
    """One call of a kernel: its name, its arguments and its result.

    run: the function that was called, from the kernel set that was active.
    """

    kernel: str
    run: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any

    @property
    def name(self) -> str:
        """The name of the kernel or of the user's formula, with that of the formula at the end of a product."""
        if self.kernel not in KERNELS:
            return getattr(self.run, "__name__", self.kernel)
        formula = _named(self).get("formula") if self.kernel.endswith("_clamp") else None
        return self.kernel if formula is None else f"{self.kernel}+{formula.__name__}"

    @property
    def inputs(self) -> list[np.ndarray]:
        """The arrays that the kernel reads."""
        found = KERNELS.get(self.kernel)
        given = self.args[1:] if found is not None and found.writes else self.args  # the first is overwritten
        return [*arrays_in((given, self.kwargs))]

    @property
    def host(self) -> str:
        """Why the layout of the results depends on values; empty if it does not."""
        found = KERNELS.get(self.kernel)
        return "" if found is None else found.host

    def plan(self) -> Any:
        """Return the plan of the kernel: the machine code to launch and the memory it needs; see ``kernel_set.plan``.

        Raises:
            TypeError: the kernel has no plan; the message says why.
        """
        return plan_of_function(self.run, self.args, self.kwargs)

    def reading(self, others: Mapping[int, np.ndarray]) -> Step:
        """Return the step with other arrays in place of some of its arguments, by the id of these."""
        args, kwargs = mapped((self.args, self.kwargs), lambda leaf: others.get(id(leaf), leaf))
        return self._replace(args=args, kwargs=kwargs)

    @property
    def changed(self) -> list[np.ndarray]:
        """The arrays that the kernel changed in place."""
        found = KERNELS.get(self.kernel)
        if found is None or not (found.writes or found.changes):
            return []
        return [*arrays_in(self.args if found.changes == "*columns" else self.args[0])]

    @property
    def outputs(self) -> list[np.ndarray]:
        """The arrays that the kernel returned, or those that it changed in place."""
        return self.changed or [*arrays_in(self.result)]


def left_before(place: int, dropped: Collection[int]) -> int:
    """The number of steps before a place that are not dropped."""
    return place - sum(at < place for at in dropped)


class Steps(list[Step]):
    """The steps of a computation, in order.

    result: the result of the recorded function. reads: the decisions that depended on a value that Python read from an
    array; ``run`` does not repeat them. decisions: those of ``reads`` that can be repeated, each with the number of
    steps before it. memory: the memory use found by ``in_arena``; None for steps whose arrays are where they were
    recorded. sites, read_sites: the lines of user code that led to each step, and to each of ``reads``, as recorded.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        super().__init__(steps)
        self.result: Any = None
        self.reads: list[str] = []
        self.decisions: list[tuple[int, host.Decision]] = []
        self.memory: Memory | None = None
        self.sites: list[CallSite] = []
        self.read_sites: list[CallSite] = []
        self._planned: dict[int, PlannedStep] = {}  # by the id of the step

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return self._with(found) if isinstance(key, slice) else found

    def _with(self, steps: list[Step]) -> Steps:
        """Return some of these steps, in the same memory."""
        found = Steps(steps)
        found.memory, found._planned = self.memory, {**self._planned}
        return found

    def copy(self) -> Steps:
        """Return the same steps and result in a new list."""
        found = self._with(self)
        found.result, found.reads, found.decisions = self.result, [*self.reads], [*self.decisions]
        return found

    def replaced(self, made: Mapping[int, Step], dropped: Collection[int]) -> Steps:
        """Return the steps without those at the places ``dropped``, and with others at the places of ``made``."""
        places = [at for at in range(len(self)) if at not in dropped]
        found = Steps([made[at] if at in made else self[at] for at in places])
        found.result, found.reads, found.read_sites = self.result, [*self.reads], [*self.read_sites]
        found.sites = [self.sites[at] for at in places if at < len(self.sites)]
        found.decisions = [(left_before(place, dropped), each) for place, each in self.decisions]
        return found

    def in_arena(self, constants: Sequence[np.ndarray] = (), varying: Collection[int] = ()) -> Steps:
        """Return the same steps with all arrays that only they use, and the kernels' scratch, in one block of memory.

        Two arrays that are not needed at the same step may share bytes, so an array keeps its values until a later step
        overwrites them. Arrays that are referenced elsewhere are not moved: the function's result, parameters, their
        gradients, optimizer states, and every array that you still refer to, also through a view or a Tensor. To keep
        an intermediate result, keep a reference to its array: ``run`` of the new steps then leaves the result there.
        ``memory`` gives the size of the block.

        constants: arrays whose elements never change; kernels then pack weights once, and not at each run, except those
        of the steps with the numbers ``varying``; see ``overwritten``.

        Steps of compiled kernels run by their plans, without new memory; their scratch is sized for the current number
        of threads. The other steps are called, and their results are copied into place.

        >>> import retrograd as rg
        >>> x = rg.ones(1000)
        >>> steps = rg.record_steps(lambda: rg.exp(rg.sin(rg.cos(rg.exp(x))))).in_arena()
        >>> print(steps.memory)
        3 arrays of 12,000 bytes and 0 bytes of scratch, of which 4,032 are needed at once: an arena of 4,032 bytes
        >>> before = steps.result.tolist()
        >>> steps.run()
        >>> steps.result.tolist() == before
        True
        """
        if self.memory is not None:
            return self.copy()
        steps, planned, memory = place_in_arena(self, constants, varying)
        found = Steps(steps)
        found.result, found.reads, found.decisions = self.result, [*self.reads], [*self.decisions]
        found.memory = memory
        found._planned = {id(each.step): each for each in planned}
        return found

    def run(self) -> None:
        """Run all steps again. Every result goes into the array that the step returned when it was recorded.

        Inputs are thus read from the same arrays, parameters and optimizer states are changed in place, and the
        function's result gets the new values. Numbers that are not elements of an array, such as a learning rate or the
        key of dropout, stay as recorded; see ``set``.
        """
        again: dict[int, Any] = {}  # objects that a kernel saved for its gradient, by the id of the recorded object
        for step in self:
            if (planned := self._planned.get(id(step))) is not None:
                planned.bound.run()
                continue
            result = step.run(*_substitute(step.args, again), **_substitute(step.kwargs, again))
            for old, new in zip(leaves(step.result), leaves(result), strict=True):
                if is_array(old):
                    if old.shape != new.shape:
                        where = (
                            f"{step.name} returns {new.shape} for these values, but {old.shape} when it was recorded"
                        )
                        raise ValueError(f"run: {where}; record the steps again")
                    assign(old, new)
                elif not isinstance(old, NUMBERS):  # equal numbers may be one object
                    again[id(old)] = new

    def overwritten(self) -> list[int]:
        """Return the numbers of the steps in an arena whose packed constants have been overwritten by a run.

        Their kernels use the memory for something else later on.
        """
        found = [self._planned.get(id(step)) for step in self]
        return [at for at, each in enumerate(found) if each is not None and each.is_overwritten]

    def calls(self) -> list[Any] | None:
        """Return the launches of steps in an arena: function, arguments, and a number that skips them if it is finite.

        None if a step has no plan, or the steps are in no arena.
        """
        found = [self._planned.get(id(step)) for step in self]
        return None if None in found else [call for each in found if each is not None for call in each.bound.calls]

    def takes_arrays(self, place: int) -> bool:
        """Return whether a step in an arena only runs launches that take arrays, and no tables of their addresses."""
        planned = self._planned.get(id(self[place]))
        return planned is not None and planned.plan.takes_arrays

    def with_numbers(self, place: int, *names: str) -> Callable[..., None] | None:
        """Return a function of these numbers that runs a step in an arena; None if its plan depends on them."""
        planned = self._planned.get(id(self[place]))
        return None if planned is None or not planned.plan.words.keys() >= {*names} else planned.with_numbers()

    def numbers(self) -> dict[str, list[float]]:
        """Return the numeric arguments of kernels by parameter name: learning rates, factors, keys.

        Each name has one number for each step with this parameter, in the order of the steps.
        """
        found: dict[str, list[float]] = {}
        for step in self:
            for name, value in _named(step).items():
                if type(value) in (int, float):
                    found.setdefault(name, []).append(value)
        return found

    def set(self, **numbers: float) -> None:
        """Set the number of this name in every step that has one; ``run`` uses it.

        Raises:
            TypeError: no step has a number of this name.

        >>> import retrograd as rg
        >>> w = rg.nn.Parameter(rg.ones(2))
        >>> w.grad = rg.ones(2)
        >>> steps = rg.record_steps(rg.optim.SGD([w], lr=0.5).step)
        >>> steps.set(lr=0.25)
        >>> steps.run()
        >>> print(w.data)
        tensor([0.25, 0.25])
        """
        present = self.numbers()
        if unknown := numbers.keys() - present.keys():
            names = ", ".join(sorted(present)) or "none"
            raise TypeError(f"set: no step has a number {min(unknown)!r}; there are {names}")
        for at, step in enumerate(self):
            named = _named(step)
            if others := {name: value for name, value in numbers.items() if type(named.get(name)) in (int, float)}:
                places = [*named]
                args = tuple([others.get(places[place], each) for place, each in enumerate(step.args)])
                kwargs = {name: others.get(name, each) for name, each in step.kwargs.items()}
                self[at] = other = step._replace(args=args, kwargs=kwargs)
                planned = self._planned.pop(id(step), None)
                if planned is not None and (again := planned.again(other)) is not None:
                    self._planned[id(other)] = again

    def sources(self) -> list[np.ndarray]:
        """Return the arrays that a step reads and no earlier step made: inputs, parameters, states, constants."""
        made: set[int] = set()
        found: dict[int, np.ndarray] = {}
        for step in self:
            for array in map(root, step.inputs):
                if id(array) not in made:
                    found.setdefault(id(array), array)
            made.update(id(root(array)) for array in step.outputs)
        return [*found.values()]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, named: Mapping[str, np.ndarray] | None = None) -> list[str]:
        """Return the text of every step, with arrays named %0, %1, ...

        named: arrays that get a name instead, such as x; of several for the same memory, the first counts. A result in
        an arena is shown with its byte offset there.
        """
        names = _ArrayNames(named or {})
        lines = []
        for step in self:
            arguments = [_format_value(each, names) for each in step.args]
            arguments += [f"{key}={_format_value(each, names)}" for key, each in step.kwargs.items()]
            call = f"{step.name}({', '.join(arguments)})"
            results = step.result if isinstance(step.result, tuple) else (step.result,)
            made = ", ".join(_format_value(each, names, self.memory) for each in results)
            lines.append(call if step.result is None else f"{made} = {call}")
        return lines


class MadeUpReadError(Exception):
    """Python would decide something by made-up numbers, such as whether a loop ends."""


class _Recorder(Listener):
    """Records the calls of kernels.

    numbers: the results of convolutions and products, repeated, in place of theirs; None: they are computed.

    Raises:
        MadeUpReadError: Python reads what is computed from these numbers.
    """

    def __init__(self, numbers: np.ndarray | None = None) -> None:
        self.steps = Steps()
        self._numbers = numbers
        self._computed: dict[int, ref[np.ndarray]] = {}  # by id, owners of results, but not of copies of what was given
        self._refused: MadeUpReadError | None = None

    def __enter__(self) -> Self:
        host.listeners.append(self._read)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        host.listeners.remove(self._read)
        if self._refused is not None and error[0] is None:  # the function caught it
            raise self._refused

    def _read(self, why: str, made: host.Decision | None) -> None:
        if get_ident() == self._thread:
            self.steps.reads.append(why)
            self.steps.read_sites.append(user_call_site())
            if made is not None:
                self.steps.decisions.append((len(self.steps), made))
            if self._numbers is not None and (made is None or self._are_computed(made.arrays)):
                self._refuse(why)

    def _refuse(self, why: str) -> None:
        self._refused = MadeUpReadError(why)
        raise self._refused

    def _are_computed(self, arrays: Iterable[np.ndarray]) -> bool:
        return any(id(root(array)) in self._computed for array in arrays)

    def _notice(self, step: Step) -> None:
        if self._numbers is not None and (step.kernel != "duplicate" or self._are_computed(step.inputs)):
            for owner in map(root, step.outputs):
                _remember(self._computed, owner)

    def _result(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._numbers is not None and (name != "duplicate" or self._are_computed(arrays_in(args))):
            step = Step(name, _bare(kernel, args, kwargs), args, kwargs, None)
            if (found := _made_up(step, self._numbers)) is not None:
                return found.result
            if step.changed:
                self._refuse(f"what {step.name} changes")
        return kernel(*args, **kwargs)

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._result(name, kernel, args, kwargs)
        self.steps.sites.append(user_call_site())
        self.steps.append(
            Step(
                name,
                _bare(kernel, args, kwargs),
                _copy_containers(args),
                _copy_containers(kwargs),
                _copy_containers(result),
            )
        )
        self._notice(self.steps[-1])
        return result


def record_steps(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Steps:
    """Call a function and return the steps that it ran.

    Only kernel calls are steps. Arrays that the function computes directly with NumPy are not recorded, and ``run``
    does not compute them again; ``sources()`` lists them. ``reads`` lists the decisions that depended on values of
    arrays.

    Raises:
        TypeError: function is not callable.

    >>> import retrograd as rg
    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> steps = rg.record_steps(lambda: rg.exp(x).sum())
    >>> [step.kernel for step in steps]
    ['exp', 'sum']
    >>> x.detach()[0] = 0.0
    >>> steps.run()
    >>> print(steps.result)
    tensor(8.3891, grad_fn=<SumBackward>)
    """
    if not callable(function):
        raise TypeError(f"record_steps: function is {kind_name(function)}, needs something to call: lambda: f(x)")
    with _Recorder() as recorder:
        result = function(*args, **kwargs)
    recorder.steps.result = result
    return recorder.steps


def record_layouts(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Steps:
    """``record_steps`` without the time of convolutions and products: their results are made-up numbers."""
    with _Recorder(copies.OTHERS) as recorder:
        result = function(*args, **kwargs)
    recorder.steps.result = result
    return recorder.steps


class Outline(_Recorder):
    """Records calls without keeping the arrays that they make: the steps have layouts in place of arrays.

    sources: as of ``Steps``. changed: of each step, the owners of the memory that it changed and no step made, with
    None in place of others.

    exact: compute all results; otherwise those of convolutions and products are made-up numbers.

    sizes: arrays with so many elements are kept. Whether a gradient is copied, or added to in place, depends on whether
    anything else refers to it, so those of leaves must be referred to as by ``Steps``.
    """

    def __init__(self, sizes: Collection[int], exact: bool = True) -> None:
        super().__init__(None if exact else copies.NUMBERS)
        self._sizes = frozenset(sizes)
        self._kept: list[np.ndarray] = []
        self._sources: dict[int, np.ndarray] = {}
        self.changed: list[list[np.ndarray | None]] = []
        self._made: dict[int, ref[np.ndarray]] = {}  # by the id of an owner that is alive

    @property
    def sources(self) -> list[np.ndarray]:
        return [*self._sources.values()]

    def record(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function, add its steps, and return its result."""
        with self:
            return function(*args, **kwargs)

    def call(self, name: str, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = self._result(name, kernel, args, kwargs)
        step = Step(name, _bare(kernel, args, kwargs), args, kwargs, result)
        self._kept += [array for array in arrays_in((args, kwargs, result)) if array.size in self._sizes]
        for owner in map(root, step.inputs):
            if id(owner) not in self._made:
                self._sources.setdefault(id(owner), owner)
        owners = [root(array) for array in step.changed]
        self.changed.append([None if id(owner) in self._made else owner for owner in owners])
        for owner in map(root, step.outputs):
            _remember(self._made, owner)
        self._notice(step)
        self.steps.sites.append(user_call_site())
        self.steps.append(step._replace(args=layout_of(args), kwargs=layout_of(kwargs), result=layout_of(result)))
        return result


# ---- Made-up results, for recordings that only need layouts ----------------------------------------------------------


def _made_up(step: Step, numbers: np.ndarray) -> Step | None:
    """Return the step with a result that has the layouts of the kernel's, and these numbers, without running it.

    None if it must run: its plan does not show the layouts, or it returns indices, which must be valid, or an object.
    """
    plan = plan_if_any(step)
    if plan is None or not plan.launches:
        return None
    given = {id(place): x for place, x in zip(plan.inputs, plan_inputs(step), strict=True)}
    memory: dict[int, np.ndarray] = {}
    for place in plan.places():
        if id(place) in given:  # an argument that is changed in place
            continue
        buffer = plan.buffers[place.buffer] if hasattr(place, "buffer") else None
        if buffer is None or buffer.kind != "output" or place.dtype.kind != "f":
            return None
        if 1 in place.shape and place.strides != empty(place.shape, place.dtype).strides:
            return None  # the stride of such an axis may be another one than is planned
        if place.buffer not in memory:
            memory[place.buffer] = copies.made_up(buffer.bytes, place.dtype, numbers)

    def made(leaf: Any) -> Any:
        return given[id(leaf)] if id(leaf) in given else None if leaf is None else leaf.of(memory)

    return step._replace(result=mapped(plan.results, made, (*{type(place) for place in plan.places()},)))


def _remember(made: dict[int, ref[np.ndarray]], owner: np.ndarray) -> None:
    """Note an array by its id, as long as it is alive: another one may get the id then."""
    if id(owner) not in made:
        made[id(owner)] = ref(owner, partial(_forget, made, id(owner)))


def _forget(made: dict[int, Any], key: int, _: Any) -> None:
    made.pop(key, None)


def _named(step: Step) -> dict[str, Any]:
    """Return the arguments of a step by parameter name, positional arguments first."""
    found = KERNELS.get(step.kernel)
    names: list[str] = (
        [] if found is None else [name for name in signature(found.declaration).parameters if name != "self"]
    )
    if found is None or len(names) < len(step.args) or found.changes == "*columns":
        names = [f"argument {at}" for at in range(len(step.args))]
    return {**dict(zip(names, step.args, strict=False)), **step.kwargs}


def _bare(kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any]:
    return kernel.bare(args, kwargs) if hasattr(kernel, "bare") else kernel


# ---- Arguments and results, which may be tuples, lists and dicts of arrays ---------------------------------------


def _copy_containers(value: Any) -> Any:
    """Return the same leaves in new containers, since the caller may change the old ones later."""
    return mapped(value, lambda leaf: leaf)


def _substitute(value: Any, other: dict[int, Any]) -> Any:
    return mapped(value, lambda leaf: other.get(id(leaf), leaf)) if other else value


class _ArrayNames:
    """The names of arrays in a listing: the given ones, and a number for every other array."""

    def __init__(self, named: Mapping[str, np.ndarray]) -> None:
        self._by_id: dict[int, str] = {}
        self._numbers = count()
        for name, array in named.items():
            self._by_id.setdefault(id(root(array)), name)

    def of(self, array: np.ndarray) -> str:
        place = id(root(array))
        if place not in self._by_id:
            self._by_id[place] = f"%{next(self._numbers)}"
        return self._by_id[place]


def _format_value(value: Any, names: _ArrayNames, memory: Memory | None = None) -> str:
    """Return the text of an argument or result; memory: shows the offsets of arrays in its arena."""
    if is_array(value):
        place = memory.arena.offset(value) if memory is not None and isinstance(value, np.ndarray) else None
        name = names.of(value) if place is None else f"{names.of(value)} @{place}"
        return f"{name}: {value.dtype}[{', '.join(map(str, value.shape))}]"
    if isinstance(value, (tuple, list)) and any(True for _ in arrays_in(value)):
        return f"({', '.join(_format_value(each, names, memory) for each in value)})"
    text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"
