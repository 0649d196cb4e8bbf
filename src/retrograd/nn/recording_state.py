"""State: the modules and tensors that a recording of ``compile`` depends on, compared before each replay."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from operator import is_
from types import CodeType
from typing import Any

import numpy as np

from ..engine.hooks import has_hooks, registered
from ..engine.memory_planning import root
from ..engine.steps import Step
from ..engine.tensor import Tensor
from ..ops.random.random import Generator, default_generator
from .module import Module
from .module_hooks import changes
from .parameter import is_lazy
from .recording_references import (
    ELEMENTS,
    References,
    content,
    has_changeable_content,
    has_content,
    has_own_forward,
    is_same,
    names_in,
    refill,
    with_nested,
)

_FUNCTIONS = {"print", "input", "open", "breakpoint", "exec", "eval", "globals"}  # would not be repeated or compared
_METHODS = {"register_hook", "retain_grad", "environ", "getenv", "stdout", "stderr", "warn", ELEMENTS}
_METHODS |= {"open", "load", "read_text", "read_bytes", "fromfile", "loadtxt"}  # files, which may change
_REGISTRIES = ("_parameter_names", "_buffer_names", "_child_names")


class State:
    """The modules and tensors that a function refers to, as they were when it was recorded."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.references = References(function)
        self.modules = [*self.references.modules.values()]
        self.members = [{**module.__dict__} for module in self.modules]
        self.kinds = [*map(type, self.modules)]
        held = [value for members in self.members for value in members.values()]
        self.optimizers = [*self.references.optimizers.values()]
        self.groups = [[*group["params"]] for optimizer in self.optimizers for group in optimizer.param_groups]
        grouped = [tensor for group in self.groups for tensor in group]
        tensors = [value for value in (*held, *grouped) if isinstance(value, Tensor)]
        tensors += self.references.tensors.values()
        self.tensors = [*{id(tensor): tensor for tensor in tensors}.values()]
        self.is_lazy = any(map(is_lazy, self.tensors))  # whether some have no values yet
        self.arrays = [] if self.is_lazy else [tensor.array for tensor in self.tensors]
        self.ids = {*map(id, self.tensors)}
        self.memory = {id(root(array)) for array in self.arrays}
        self.flags = [tensor._requires_grad for tensor in self.tensors]
        # the tensors whose ``grad`` the code may look at, and whether it was None
        reads = any("grad" in names_in(code).attributes for code in self.references.codes)
        self.looked_at = self.tensors if reads else []
        self.had_none = [tensor._grad is None for tensor in self.looked_at]
        self.edges: list[Any] = []  # the places of the tensors in a graph during a trial
        self.trained = [tensor for tensor in self.tensors if tensor._requires_grad]
        leaves = [*self.trained, *grouped] if self.optimizers else self.trained
        self.leaves = [*{id(tensor): tensor for tensor in leaves if tensor._edge is None}.values()]
        self.results = [tensor for tensor in self.trained if tensor._edge is not None]
        self.hooked = self._hooked()
        own = {id(members[name]) for members in self.members for name in _REGISTRIES}  # with these, the count changes
        changeable = [value for value in held if has_changeable_content(value) and id(value) not in own]
        self.containers = [(value, content(value)) for value in changeable]
        self.has_rules = any("_backward_rule" in members for members in self.members)
        self.generators = Generators(self.references.generators.values())
        self.count = changes[0]
        self.is_ready = False  # whether the optimizers have made their states

    def _hooked(self) -> list[Tensor]:
        """The tensors with hooks, which a call may run."""
        return [each for each in (*self.leaves, *self.results) if has_hooks(each)]

    def holds(self) -> bool:
        """Whether nothing has been replaced."""
        if not self._has_same_values():
            return False
        if self.looked_at and self.had_none != [tensor._grad is None for tensor in self.looked_at]:
            return False
        if (registered.leaves or self.results) and not is_same((*self._hooked(),), (*self.hooked,)):
            return False
        return self.references.hold()

    def _has_same_values(self) -> bool:
        if self.count != changes[0]:
            if [*map(type, self.modules)] != self.kinds or not all(map(_same_members, self.modules, self.members)):
                return False
            self.count = changes[0]
        if not self.has_same_tensors():
            return False
        if not all(has_content(value, before) for value, before in self.containers):
            return False
        if self.optimizers:
            now = [group["params"] for optimizer in self.optimizers for group in optimizer.param_groups]
            if [*map(len, now)] != [*map(len, self.groups)] or not all(
                all(map(is_, group, before)) for group, before in zip(now, self.groups, strict=True)
            ):
                return False
        return True

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Put back for a while what modules and variables were when a call was recorded, to run it once more.

        Raises:
            RuntimeError: something else has changed, such as the content of a list.
        """
        if self._has_same_values() and self.references.hold():
            yield
            return
        members = [(module, type(module), {**module.__dict__}) for module in self.modules]
        tensors = [(tensor, tensor.array, tensor._requires_grad) for tensor in self.tensors]
        present = self.references.present()
        try:
            _put_members(zip(self.modules, self.kinds, self.members, strict=True))
            self.references.put_back()
            _put_tensors(zip(self.tensors, self.arrays, self.flags, strict=True))
            if not (self._has_same_values() and self.references.hold()):
                raise RuntimeError(
                    "compile: this backward runs the call again, since it has other upstream gradients than were "
                    "recorded, create_graph or retain_graph, but something that the call reads has changed since, such "
                    "as the content of a list; change it after the backward"
                )
            yield
        finally:
            self.references.put_back(present)
            _put_members(members)
            _put_tensors(tensors)
            self.count = -1  # the members are to be compared again

    def has_same_tensors(self) -> bool:
        """Whether no tensor has another array or ``requires_grad``."""
        tensors = self.tensors  # lists, since the interpreter reads an attribute faster than attrgetter
        return all(map(is_, [tensor.array for tensor in tensors], self.arrays)) and self.flags == [
            tensor._requires_grad for tensor in tensors
        ]

    @contextmanager
    def results_as_leaves(self) -> Iterator[None]:
        """Cut tensors that operators made off their graph, which a trial must neither run nor free."""
        kept = [tensor._edge for tensor in self.tensors]
        self.edges = [None] * len(kept)
        try:
            for tensor in self.tensors:
                tensor._edge = None
            yield
        finally:
            for tensor, edge in zip(self.tensors, kept, strict=True):
                tensor._edge = edge

    def put_tensors_back(self) -> None:
        """Let all tensors have their arrays, ``requires_grad`` and places in a graph again."""
        for tensor, array, flag, edge in zip(self.tensors, self.arrays, self.flags, self.edges, strict=True):
            if tensor.array is not array:
                tensor.array = array
            tensor._requires_grad, tensor._edge = flag, edge

    @contextmanager
    def put_back_after(self) -> Iterator[None]:
        """Put back what a trial has changed in modules, containers and elsewhere: it must not count twice."""
        held = (value for members in self.members for value in members.values())
        containers = [(value, copy(value)) for value in with_nested((*held, *self.references.containers))]
        try:
            yield
        finally:
            _put_members(zip(self.modules, self.kinds, self.members, strict=True))
            for value, before in containers:
                if not has_content(value, content(before)):
                    refill(value, before)
            self.references.put_back()

    def states(self) -> list[np.ndarray]:
        """Return the arrays in the optimizers' states."""
        entries = [each for optimizer in self.optimizers for each in optimizer.state.values()]
        return [value.array for each in entries for value in each.values() if isinstance(value, Tensor)]

    def obstacle(self) -> str | None:
        """Why calls cannot be recorded, whatever the arguments are."""
        if self.references.are_too_many:
            return "it refers to more objects than can be compared at each call"
        if self.references.opaque:
            return f"it refers to {self.references.opaque}"
        for module in self.modules:
            name = type(module).__name__
            hooks = module.__dict__.get("_hooks")
            if hooks is not None and any(hooks.values()):
                return f"{name} has a hook"
            rule = module.__dict__.get("_backward_rule")
            if rule is not None and not _is_of_library(rule.function):
                return f"{name} has a backward rule of your own"
            if "forward" in module.__dict__:
                return f"{name} has a forward of its own"
            code = getattr(type(module).forward, "__code__", None)
            if code is not None and has_own_forward(type(module)) and (call := _visible_call(code)):
                return f"forward of {name} uses {call}"
        for scheduler in self.references.schedulers:  # before a trial, which would make a step of it
            return f"it refers to {type(scheduler).__name__}: call that outside of the function"
        for optimizer in self.optimizers:
            if not optimizer.is_recordable:
                return f"{type(optimizer).__name__} has a step of its own"
        for code in self.references.codes:
            if call := _visible_call(code):
                return f"the function uses {call}"
        return None


def _is_of_library(rule: Callable[..., Any]) -> bool:
    """Whether a rule is one of ``rules``, which depend on their arguments and options only."""
    module: str = getattr(rule, "__module__", None) or type(rule).__module__
    return module.startswith(f"{__package__.partition('.')[0]}.rules.")


def _visible_call(code: CodeType) -> str | None:
    names = names_in(code)
    found = sorted(_FUNCTIONS & names.globals | _METHODS & names.attributes)
    return f"{found[0]}, in line {code.co_firstlineno} of {code.co_filename}" if found else None


def _put_members(members: Iterable[tuple[Module, type, dict[str, Any]]]) -> None:
    for module, kind, before in members:
        if type(module) is not kind or not _same_members(module, before):
            object.__setattr__(module, "__class__", kind)
            refill(module.__dict__, before)


def _put_tensors(tensors: Iterable[tuple[Tensor, np.ndarray, bool]]) -> None:
    for tensor, array, flag in tensors:
        if tensor.array is not array:
            tensor.array = array
        tensor._requires_grad = flag


def _same_members(module: Module, before: dict[str, Any]) -> bool:
    now = module.__dict__
    return len(now) == len(before) and all(name in now and is_same(now[name], before[name]) for name in before)


# ---- Random numbers --------------------------------------------------------------------------------------------------


class Generators:
    """The generators that a call may draw from: the library's, NumPy's, Python's, and those that it refers to."""

    def __init__(self, others: Iterable[Any]) -> None:
        self._others = [each for each in others if each is not default_generator]

    def states(self) -> list[Any]:
        """Return the present states."""
        return [default_generator.get_state(), np.random.get_state(), random.getstate(), *map(_state, self._others)]

    def set_states(self, states: Sequence[Any]) -> None:
        """Continue from states that ``states`` has returned."""
        default_generator.set_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        for generator, state in zip(self._others, states[3:], strict=True):
            if isinstance(generator, np.random.Generator):
                generator.bit_generator.state = state
            elif isinstance(generator, np.random.RandomState):
                generator.set_state(state)
            else:
                generator.setstate(state)

    def drawn_since(self, before: Sequence[Any], steps: Iterable[Step]) -> str | None:
        """Return whose numbers were drawn besides the keys of dropouts among the steps, which a replay draws again."""
        expected = Generator().set_state(before[0])
        for step in steps:
            if step.kernel == "dropout":
                expected.integers(1 << 63)  # as ``random_key``
        sources = ["other than dropout's", "of NumPy", "of Python", *["of a generator"] * len(self._others)]
        for source, one, other in zip(sources, [expected.get_state(), *before[1:]], self.states(), strict=True):
            if pickle.dumps(one) != pickle.dumps(other):
                return f"it draws random numbers {source}"
        return None


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.getstate()
