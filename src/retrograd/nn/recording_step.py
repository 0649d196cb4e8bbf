"""Recorded training steps: calls that deliver gradients and update parameters by optimizers.

A replay leaves behind what the call does: gradients in ``grad``, changed parameters and states, and the counters of the
optimizers. Numbers such as a learning rate or a count of steps come from the optimizers at each replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from sys import getrefcount
from threading import get_ident
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from ..arrays import copies, empty
from ..engine.gradients import listeners
from ..engine.memory_planning import root
from ..engine.node import FREED
from ..engine.steps import Steps, update_listeners
from ..engine.tensor import Tensor, wrap
from .recording_references import refill
from .recording_state import State

_grad, _grad_req = attrgetter("_grad"), attrgetter("_grad_req")


class UnrecordableError(Exception):
    """A call cannot be recorded, for this reason. later: another call of the same layouts may be."""

    def __init__(self, reason: str, later: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.later = reason, later


class Update(NamedTuple):
    """An update of a recorded step: one batch of a group of an optimizer. words: the numbers that may change."""

    optimizer: Any
    group: int
    batch: Any
    numbers: dict[str, float]
    words: frozenset[str]


class Delivery(NamedTuple):
    """The gradient of a parameter: its array before the step if the step reads that, and after it, None without one.

    kept: the step does not touch ``grad``.
    """

    parameter: Tensor
    before: np.ndarray | None
    after: np.ndarray | None
    kept: bool


class Training:
    """The gradients and updates of a recorded training step, which a replay leaves behind as the call does."""

    def __init__(self, deliveries: Sequence[Delivery], updates: Mapping[int, Update]) -> None:
        self.deliveries, self.updates = [*deliveries], {**updates}
        self.parameters = [each.parameter for each in deliveries]
        self.requests, self.limits = [*map(_grad_req, self.parameters)], [*map(_limits, self.parameters)]
        arrays = [array for each in deliveries for array in (each.before, each.after) if array is not None]
        self.arrays = [*{id(array): array for array in arrays}.values()]
        self.references: list[int] = []  # of the arrays, without those of tensors
        self.numbers: dict[int, dict[str, float]] = {}  # of each update in the next replay
        self._counters: dict[int, dict[str, Any]] = {}

    def is_ready(self) -> bool:
        """Whether a replay would do what the call does; finds the numbers of the updates."""
        if [*map(_grad_req, self.parameters)] != self.requests or [*map(_limits, self.parameters)] != self.limits:
            return False
        for place, update in self.updates.items():
            found = update.optimizer.next_update(update.group, update.batch)
            if found is None:
                return False
            self._counters[place], numbers = found
            if any(numbers[name] != value and name not in update.words for name, value in update.numbers.items()):
                return False
            self.numbers[place] = numbers
        return True

    def run(self, replay: Callable[[], bool]) -> bool:
        """Replay the step; False, with everything as before, if it would lead to other decisions.

        So it does if the user still refers to the gradients of the last replay, which the call would not change.
        """
        present = [*map(_grad, self.parameters)]
        done = False
        try:
            for parameter in self.parameters:
                parameter._grad = None
            known = {*map(id, self.arrays)}
            own = [given for given in present if given is not None and id(given.array) in known]
            if [*map(getrefcount, own)] == [_ALONE] * len(own):
                counts = {id(given.array): 1 for given in own}
                unheld = [  # the references if nobody else has one
                    count + counts.get(id(array), 0) for array, count in zip(self.arrays, self.references, strict=True)
                ]
                if [*map(getrefcount, self.arrays)] == unheld:
                    others = [
                        (before, given.array)
                        for (_, before, _, _), given in zip(self.deliveries, present, strict=True)
                        if before is not None and given.array is not before
                    ]
                    if all((a.strides, a.dtype) == (b.strides, b.dtype) for a, b in others):
                        for before, array in others:
                            copies.put(before, array)
                        done = replay()
        finally:
            if not done:
                for parameter, given in zip(self.parameters, present, strict=True):
                    parameter._grad = given
        if done:
            for (parameter, _, after, kept), given in zip(self.deliveries, present, strict=True):
                if kept or given is not None and given.array is after:  # nothing else refers to it
                    parameter._grad = given
                else:
                    parameter._grad = None if after is None else wrap(after)
            for place, update in self.updates.items():
                update.optimizer.finish_update(update.batch, self._counters[place])
        return done

    def count_references(self) -> None:
        """Take the present number of references to the arrays as that while no tensor refers to them."""
        self.references = [*map(getrefcount, self.arrays)]


def _limits(parameter: Tensor) -> Any:
    return getattr(parameter, "_limits", None)  # only a Parameter has them, once they are set


def _alone() -> int:
    """The number of references that an object in two lists has, as seen by ``map``."""
    present = [wrap(empty(1, np.float32))]
    own = [given for given in present if given is not None]
    return [*map(getrefcount, own)][0]


_ALONE = _alone()


# ---- Recording -------------------------------------------------------------------------------------------------------


class Before:
    """Gradients, and state and options of optimizers, as they were before a trial of a training step."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._grads = [*map(_grad, state.leaves)]
        self._entries = [
            (entries, {**entries}) for optimizer in state.optimizers for entries in optimizer.state.values()
        ]
        self._options = [_options(optimizer) for optimizer in state.optimizers]
        self._states = [{**optimizer.state} for optimizer in state.optimizers]

    @contextmanager
    def step(self, numbers: Callable[[np.ndarray], np.ndarray]) -> Iterator[list[Delivery]]:
        """Give each parameter a gradient of its own, list the gradients at the end, and put all but elements back.

        Raises:
            UnrecordableError: the step has changed something that a replay would not.
        """
        given: list[Any] = []  # weak, since the step adds in place to a gradient that nothing else refers to
        for leaf, grad in zip(self.state.leaves, self._grads, strict=True):
            leaf._grad = None if grad is None else wrap(copies.duplicate(numbers(grad.array)))
            given.append(_nothing if leaf._grad is None else ref(leaf._grad.array))
        found: list[Delivery] = []
        try:
            yield found
            for leaf, before in zip(self.state.leaves, given, strict=True):
                after = None if leaf._grad is None else leaf._grad.array
                kept = before is _nothing if after is None else after is before()  # a removed array is gone
                found.append(Delivery(leaf, before(), after, kept))
            self._check()
        finally:
            for leaf, grad in zip(self.state.leaves, self._grads, strict=True):
                leaf._grad = grad
            self.state.put_tensors_back()
            for optimizer, states in zip(self.state.optimizers, self._states, strict=True):
                if len(optimizer.state) != len(states):
                    refill(optimizer.state, states)
            for entries, values in self._entries:
                refill(entries, values)
            for optimizer, options in zip(self.state.optimizers, self._options, strict=True):
                for group, values in zip(optimizer.param_groups, options, strict=False):
                    group.update(values)

    def _check(self) -> None:
        if not self.state.has_same_tensors():
            raise UnrecordableError("it assigns another array or requires_grad to a tensor")
        for optimizer, options, states in zip(self.state.optimizers, self._options, self._states, strict=True):
            if _options(optimizer) != options:
                raise UnrecordableError(f"it changes an option of {type(optimizer).__name__}")
            if len(optimizer.state) != len(states):
                raise UnrecordableError(f"{type(optimizer).__name__} makes its state", later=True)
        if any(entries.keys() != before.keys() for entries, before in self._entries):
            raise UnrecordableError("an optimizer makes its state", later=True)


def _nothing() -> None:
    return None


def _options(optimizer: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]


@contextmanager
def only_known(state: State, arguments: Mapping[int, Tensor]) -> Iterator[None]:
    """Let no other optimizer make a step, and no other tensor get a gradient.

    Raises:
        UnrecordableError: one is about to.
    """
    known = {*map(id, state.leaves)}
    owner = get_ident()

    def check_step(optimizer: Any) -> None:
        if get_ident() == owner and not any(optimizer is each for each in state.optimizers):
            raise UnrecordableError(f"it refers to {type(optimizer).__name__} through another object")

    def check_gradients(entries: Iterable[Any]) -> None:
        if get_ident() == owner:
            for entry in entries:
                if any(entry[0] is each for each in arguments.values()):
                    raise UnrecordableError("it delivers the gradient of an argument")
                if id(entry[0]) not in known:
                    raise UnrecordableError("it delivers gradients to tensors that it refers to through another object")

    update_listeners.append(check_step)
    listeners.append(check_gradients)
    try:
        yield
    finally:
        update_listeners.remove(check_step)
        listeners.remove(check_gradients)


def refuse_hook(_: Tensor) -> None:
    """Stand in for the hooks of a tensor while a call is tried, which would not be repeated.

    Raises:
        UnrecordableError: always.
    """
    raise UnrecordableError("a hook of a tensor runs during the call")


def is_differentiable(tensor: Tensor) -> bool:
    """Whether a backward through the graph of a result could still run: not every node has been freed."""
    pending, seen = [tensor._edge], set()
    while pending:
        edge = pending.pop()
        if type(edge) is tuple and id(edge[0]) not in seen:
            seen.add(id(edge[0]))
            if edge[0].saved is FREED:
                return False
            pending += edge[0].edges
    return True


def without_copies(steps: Steps, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray | None]:
    """Remove the steps that copy a gradient which nothing else refers to; return the arrays of the gradients then."""
    makers: dict[int, int] = {}
    given: set[int] = set()  # the memory that steps read and none of them made
    made: dict[int, int] = {}  # and that which one of them made, with its number
    for at, step in enumerate(steps):
        given.update({id(root(array)) for array in step.inputs} - made.keys())
        for key in {id(root(array)) for array in step.outputs} - given:
            made.setdefault(key, at)
        for array in step.outputs:
            makers.setdefault(id(array), at)  # an update counts the gradients among what it changes
    last: dict[int, int] = {}  # by the id of an array that owns its memory, the place of its last use
    views: dict[int, set[int]] = {}  # by the same, the ids of the arrays in that memory
    for at, step in enumerate(steps):
        for array in (*step.inputs, *step.outputs):
            last[id(root(array))] = at
            views.setdefault(id(root(array)), set()).add(id(array))
    other: dict[int, np.ndarray] = {}
    dropped: set[int] = set()
    for y in arrays:
        place = None if y is None else makers.get(id(y))
        if place is None or steps[place].kernel != "duplicate" or steps[place].result is not y:
            continue
        x = steps[place].args[0]
        owner = root(x)
        fits = (x.shape, x.strides, x.dtype) == (y.shape, y.strides, y.dtype) and x.nbytes == owner.nbytes
        if not fits or id(owner) not in made or last[id(owner)] != place:
            continue
        known = {id(x), id(owner), *map(id, steps[made[id(owner)]].outputs)}  # x may be its transpose
        if views[id(owner)] <= known:
            other[id(y)] = x
            dropped.add(place)
    if dropped:
        left = steps.replaced({}, dropped)
        steps.decisions, steps.sites = left.decisions, left.sites
        steps[:] = [step.reading(other) for step in left]
    return [None if y is None else other.get(id(y), y) for y in arrays]


def updates_of(steps: Steps, optimizers: Sequence[Any]) -> dict[int, Update]:
    """Return the updates by optimizers among the steps, by their numbers.

    Raises:
        UnrecordableError: one of them cannot be repeated.
    """
    found: dict[int, Update] = {}
    for place, step in enumerate(steps):
        if step.kernel != "update" or not any(step.args[0] in optimizer.formulas for optimizer in optimizers):
            continue
        arrays = [*map(id, step.args[1])]
        numbers = {name: value for name, value in step.kwargs.items() if name != "keep"}
        words = frozenset(getattr(step.plan(), "words", ()))
        for optimizer in optimizers:
            for group, batch in optimizer.batches().items():
                if step.args[0] is batch.formula and [*map(id, batch.arrays)] == arrays:
                    found[place] = Update(optimizer, group, batch, numbers, words)
        if place not in found:
            raise UnrecordableError("an optimizer updates the parameters of a group in several parts", later=True)
    return found
