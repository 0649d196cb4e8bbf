"""``compile``: inference recorded once and replayed without Python between the kernels.

The first call with arguments of new layouts runs the function twice as usual, and records its steps (``engine/steps``).
Further calls copy the arguments into the recorded arrays and run the kernels' launches in a loop, on memory that was
planned once. What a recording depends on is compared before each replay; a call that cannot be recorded, or whose
recording no longer holds, runs as usual. So the results are those of the function, to the bit.

Model: CUDA graphs, and PyTorch's ``torch.compile``, whose signature it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from operator import attrgetter, is_
from threading import Lock
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from .. import kernel_set
from ..arrays import host
from ..engine.arguments import kind_name
from ..engine.grad_mode import INFERENCE, thread
from ..engine.memory_planning import root
from ..engine.steps import Steps, record_steps
from ..engine.tensor import Tensor, wrap
from ..ops.argument_checks import as_truth
from ..ops.random.random import default_generator
from ..specs.array_spec import leaves
from .module import Module
from .module_hooks import changes

__all__ = ["compile", "explain_recording"]

_MOST = 16  # recordings of a function; the oldest is dropped
_PLAIN = (bool, int, float, str, type(None))
_VISIBLE = {"print", "input", "open", "breakpoint", "exec", "eval"}  # what a replay would not repeat
_NOT_THESE = object()  # the values of the arguments lead to other decisions, such as an error
_array = attrgetter("array")


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return a module or function that replays recorded calls; without ``model``, a decorator.

    Calls without gradients (within ``no_grad`` or ``inference_mode``) are recorded once for each layout of the
    arguments, and then run without Python between the kernels: a small network is several times as fast. The results
    are the same to the bit. Calls with gradients run as usual, and so do calls that cannot be recorded: with random
    numbers, decisions by values, changes in place, hooks, or printing in a ``forward`` of your own.
    ``explain_recording`` says what was recorded, and why not. A recording is dropped when an attribute, parameter,
    buffer or child of a module is replaced. Python code between operators is not repeated, as with PyTorch.

    A compiled module shares everything with ``model``, and is an instance of its class.

    fullgraph: a call without gradients that cannot be recorded is an error. disable: return ``model`` unchanged, as
    the environment variable RETROGRAD_EAGER=1 does. dynamic, backend, mode, options: for PyTorch's compiler, no effect.

    Raises:
        TypeError: model is not callable, or fullgraph, dynamic or disable is not a bool.

    >>> import retrograd as rg
    >>> net = rg.nn.Sequential(rg.nn.Linear(4, 8), rg.nn.ReLU(), rg.nn.Linear(8, 2))
    >>> fast, x = rg.compile(net), rg.ones(1, 4)
    >>> with rg.no_grad():
    ...     (fast(x) == net(x)).all().item(), (fast(x) == net(x)).all().item()
    (True, True)
    """
    fullgraph = as_truth("compile", "fullgraph", fullgraph)
    disable = as_truth("compile", "disable", disable)
    if dynamic is not None:
        as_truth("compile", "dynamic", dynamic)
    if model is None:
        return lambda function: compile(function, fullgraph=fullgraph, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: model is {kind_name(model)}, needs a module or a function")
    if disable or os.environ.get("RETROGRAD_EAGER") == "1" or isinstance(model, (_Function, _Compiled)):
        return model
    return _compiled_module(model, fullgraph) if isinstance(model, Module) else _Function(model, fullgraph)


def explain_recording(compiled: Any) -> str:
    """Return what ``compile`` recorded: steps, launches and memory for each layout, or why calls run as usual.

    Raises:
        TypeError: compiled is not a result of ``compile``.
    """
    recorder = getattr(compiled, "_recorder", None)
    if not isinstance(recorder, _Recorder):
        raise TypeError(f"explain_recording: compiled is {kind_name(compiled)}, needs a result of retrograd.compile")
    return recorder.explained()


# ---- What a recording depends on -------------------------------------------------------------------------------------


class _State:
    """The modules and tensors that a function refers to, as they were when it was recorded."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.references = _references(function)
        found: dict[int, Module] = {}
        for value in self.references:
            if isinstance(value, Module):
                found.update((id(each), each) for each in value.modules())
        self.modules = [*found.values()]
        self.members = [{**module.__dict__} for module in self.modules]
        held = [value for members in self.members for value in members.values()]
        tensors = [value for value in (*held, *self.references) if isinstance(value, Tensor)]
        self.tensors = [*{id(tensor): tensor for tensor in tensors}.values()]
        self.arrays = [tensor.array for tensor in self.tensors]
        self.containers = [(value, repr(value)) for value in held if isinstance(value, (list, dict, set)) and value]
        self.containers = [(value, text) for value, text in self.containers if "_names" not in text]
        self.count = changes[0]

    def holds(self, function: Callable[..., Any]) -> bool:
        """Whether nothing has been replaced."""
        if self.count != changes[0]:
            if not all(map(_same_members, self.modules, self.members)):
                return False
            self.count = changes[0]
        if not all(map(is_, map(_array, self.tensors), self.arrays)):
            return False
        if any(repr(value) != text for value, text in self.containers):
            return False
        return isinstance(function, Module) or all(map(_is_same, _references(function), self.references))

    def obstacle(self, function: Callable[..., Any]) -> str | None:
        """Why calls cannot be recorded, whatever the arguments are."""
        for module in self.modules:
            name = type(module).__name__
            hooks = module.__dict__.get("_hooks")
            if hooks is not None and any(hooks.values()):
                return f"{name} has a hook"
            if "_backward_rule" in module.__dict__:
                return f"{name} has a backward rule"
            if "forward" in module.__dict__:
                return f"{name} has a forward of its own"
            if not type(module)._is_plain and (call := _visible_call(type(module).forward)):
                return f"forward of {name} calls {call}"
        call = None if isinstance(function, Module) else _visible_call(function)
        return f"the function calls {call}" if call else None


def _references(function: Callable[..., Any]) -> list[Any]:
    """The module itself, or the modules, tensors and numbers in a function's closure and globals."""
    if isinstance(function, Module):
        return [function]
    owner = getattr(function, "__self__", None)
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    found = [owner] if owner is not None else []
    if code is None:
        return found
    for cell in plain.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            found.append(None)
    found += [plain.__globals__.get(name) for name in _names(code)]
    return [value if isinstance(value, (Module, Tensor, *_PLAIN)) else None for value in found]


def _names(code: CodeType) -> Iterator[str]:
    """The global names in a function's code, and in those of functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _visible_call(function: Any) -> str | None:
    code = getattr(function, "__code__", None)
    if code is None or not (found := sorted(_VISIBLE.intersection(_names(code)))):
        return None
    return f"{found[0]}, in line {code.co_firstlineno} of {code.co_filename}"


def _same_members(module: Module, before: dict[str, Any]) -> bool:
    now = module.__dict__
    return len(now) == len(before) and all(name in now and _is_same(now[name], before[name]) for name in before)


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (*_PLAIN, tuple)) and repr(a) == repr(b))


# ---- Recordings ------------------------------------------------------------------------------------------------------


_Launch = tuple[Callable[..., Any], tuple[Any, ...], Any]
_Part = tuple[list[_Launch], host.Range | None]  # launches, and a decision after them


class _Recording(NamedTuple):
    """The launches of a call, the arrays that it reads its arguments from, and its result."""

    steps: Steps
    inputs: list[np.ndarray]
    parts: list[_Part]
    lock: Lock

    def replay(self, arrays: Sequence[np.ndarray], inference: bool) -> Any:
        """The result for other arguments, or ``_NOT_THESE``."""
        for own, given in zip(self.inputs, arrays, strict=True):
            np.copyto(own, given)
        for calls, checked in self.parts:
            for function, arguments, check in calls:
                if check is None or not isfinite(check.item()):
                    function(*arguments)
            if checked is not None and not checked.holds():
                return _NOT_THESE
        return _copied(self.steps.result, inference)


def _parts(steps: Steps) -> list[_Part]:
    """The launches of steps in an arena, cut where a decision follows; steps without a plan are called."""
    found: list[_Part] = []
    begin = 0
    for end, checked in [*steps.ranges, (len(steps), None)]:
        calls: list[_Launch] = []
        for at in range(begin, end):
            one = steps[at : at + 1]
            planned = one.calls()
            calls += [(one.run, (), None)] if planned is None else planned
        found.append((calls, checked))
        begin = end
    return found


def _copied(value: Any, inference: bool) -> Any:
    if isinstance(value, Tensor):
        found = wrap(value.array.copy("K"))
        if inference:
            found._grad_req = INFERENCE
        return found
    if isinstance(value, (tuple, list)):
        parts = [_copied(each, inference) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: _copied(each, inference) for key, each in value.items()}
    return value


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors of a result, and values that are neither tensors nor plain."""
    if type(value) in (tuple, list) or hasattr(value, "_fields"):
        for each in value:
            yield from _tensors(each)
    elif type(value) is dict:
        yield from _tensors([*value.values()])
    elif not isinstance(value, _PLAIN):
        yield value


class _Recorder:
    """The recordings of a function."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool) -> None:
        self.function, self.fullgraph = function, fullgraph
        self.state: _State | None = None
        self.others: list[tuple[_State, dict[Any, _Recording | str]]] = []  # of other modes, such as training
        self.found: dict[Any, _Recording | str] = {}  # by layouts: a recording, or why there is none

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = thread.mode
        if mode.enabled or mode.watch is not None or mode.interpreter is not None or mode.running is not None:
            return self.function(*args, **kwargs)
        arrays: list[np.ndarray] = []
        key: list[Any] = [mode.exact, mode.inference, *kwargs]
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, Tensor):
                array = value.array
                arrays.append(array)
                key += array.shape, array.strides, array.dtype.char
            elif isinstance(value, _PLAIN):
                key += type(value), value
            else:
                return self._as_usual(f"an argument is {kind_name(value)}", args, kwargs)
        if kernel_set.listeners or host.listeners or mode.rules is not None:
            return self.function(*args, **kwargs)
        if kernel_set.kernels._active != "compiled":
            return self._as_usual("the textbook kernels have no plans", args, kwargs)
        if self.state is None or not self.state.holds(self.function):
            self._change_state()
        key.append(kernel_set.kernels.get_num_threads())
        found = self.found.get(place := (*key,))
        if found is None:
            found = self._record(args, kwargs)
            while len(self.found) >= _MOST:
                del self.found[next(iter(self.found))]
            self.found[place] = found
        if isinstance(found, str):
            return self._as_usual(found, args, kwargs)
        if not found.lock.acquire(blocking=False):  # another thread replays it
            return self.function(*args, **kwargs)
        try:
            result = found.replay(arrays, mode.inference)
        finally:
            found.lock.release()
        return self.function(*args, **kwargs) if result is _NOT_THESE else result

    def _as_usual(self, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.fullgraph:
            raise RuntimeError(f"compile: with fullgraph=True, this call cannot be recorded: {reason}")
        return self.function(*args, **kwargs)

    def _change_state(self) -> None:
        """Take up the recordings of the present state, such as training or eval mode, if there are any."""
        if self.state is not None:
            self.others = [(self.state, self.found), *self.others[:3]]
        for place, (state, found) in enumerate(self.others):
            if state.holds(self.function):
                self.state, self.found = state, found
                del self.others[place]
                return
        self.state, self.found = _State(self.function), {}

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Recording | str:
        """Record a call, and another one with other numbers: what differs between them cannot be replayed."""
        assert self.state is not None
        if reason := self.state.obstacle(self.function):
            return reason
        random, kept = default_generator.get_state(), [array.copy("K") for array in self.state.arrays]
        count = changes[0]
        inputs, steps = self._steps(args, kwargs, _same_layout)
        try:
            _, others = self._steps(args, kwargs, _other_numbers)
        except Exception as error:
            return f"it fails for other numbers of the same shapes: {type(error).__name__}: {error}"
        finally:
            default_generator.set_state(random)
            for array, before in zip(self.state.arrays, kept, strict=True):
                if array.tobytes() != before.tobytes():
                    np.copyto(array, before)
        if count != changes[0]:
            return "it sets an attribute of a module"
        reason = _difference(steps, others) or _unsafe(steps, inputs, self.state.arrays, others)
        del others
        if reason:
            return reason
        steps = steps.in_arena()
        for place, step in enumerate(steps):
            kinds = [type(leaf) for leaf in leaves(step.result) if not isinstance(leaf, (np.ndarray, *_PLAIN))]
            if kinds and steps[place : place + 1].calls() is None:
                return f"{step.name} has no plan, and returns {kinds[0].__name__}"
        return _Recording(steps, inputs, _parts(steps), Lock())

    def _steps(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], numbers: Callable[[np.ndarray], np.ndarray]
    ) -> tuple[list[np.ndarray], Steps]:
        """Record a call with arrays of its own."""
        arrays: list[np.ndarray] = []

        def own(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            arrays.append(numbers(value.array))
            return wrap(arrays[-1])

        given = [own(value) for value in args]
        named = {name: own(value) for name, value in kwargs.items()}
        return arrays, record_steps(self.function, *given, **named)

    def explained(self) -> str:
        if not self.found:
            return "nothing was recorded yet: call it within no_grad()"
        lines = []
        for place, found in self.found.items():
            shapes = ", ".join(str(each) for each in place if isinstance(each, tuple))
            if isinstance(found, str):
                lines.append(f"{shapes}: runs as usual, since {found}")
                continue
            launches = sum(len(calls) for calls, _ in found.parts)
            lines.append(f"{shapes}: {len(found.steps)} steps, {launches} launches; {found.steps.memory}")
        return "\n".join(lines)


def _same_layout(x: np.ndarray) -> np.ndarray:
    """A copy with the strides of x."""
    y = np.lib.stride_tricks.as_strided(np.empty(_extent(x), x.dtype), x.shape, x.strides)
    np.copyto(y, x)
    return y


def _extent(x: np.ndarray) -> int:
    """Elements from the first to the last one of x; its strides are not negative."""
    steps = [(extent - 1) * step // x.itemsize for extent, step in zip(x.shape, x.strides, strict=True)]
    return 1 + sum(steps) if x.size else 0


def _other_numbers(x: np.ndarray) -> np.ndarray:
    """As ``_same_layout``, with the elements in another order and, of floats, closer to the middle."""
    y = _same_layout(x)
    turned = np.ascontiguousarray(x).reshape(-1)[::-1].reshape(x.shape)
    np.copyto(y, turned * 0.75 + 0.125 if x.dtype.kind == "f" else turned, casting="same_kind")
    return y


def _difference(steps: Steps, others: Steps) -> str | None:
    """What differs between the steps of two calls."""
    ranges, again = ([(place, *each[1:]) for place, each in one.ranges] for one in (steps, others))
    if len(steps.reads) > len(ranges) or ranges != again:
        return f"Python reads {steps.reads[0]}"
    if len(steps) != len(others):
        return "the number of steps depends on values"
    for one, other in zip(steps, others, strict=True):
        if one.kernel != other.kernel:
            return f"the steps depend on values: {one.name} or {other.name}"
        a, b = ([*leaves((step.args, step.kwargs))] for step in (one, other))
        if len(a) != len(b) or not all(map(_alike, a, b)):
            return f"a number of {one.name} depends on values or is random"
    return None


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    return a is b or type(a) is type(b) and (a == b or repr(a) == repr(b))


def _unsafe(steps: Steps, inputs: list[np.ndarray], known: list[np.ndarray], others: Steps) -> str | None:
    """Why the steps cannot be replayed."""
    own = {id(root(array)) for array in inputs}
    held = {id(root(array)) for array in known}
    for array, other in zip(steps.sources(), others.sources(), strict=True):
        if id(root(array)) in own or id(root(array)) in held:
            continue
        if other is array:
            return f"it reads an array of shape {array.shape} that is no argument, parameter or buffer: pass it"
        if array.tobytes() != other.tobytes():
            return f"NumPy computes an array of shape {array.shape} from values, or with random numbers"
    sources = own | held
    for step in steps:
        if any(id(root(array)) in sources for array in step.changed):
            return f"{step.name} changes an argument, parameter or buffer in place"
    for value in _tensors(steps.result):
        if type(value) is not Tensor:
            return f"the result contains {kind_name(value)}"
        if id(root(value.array)) in sources:
            return "it returns an argument or parameter, or a view of one"
    return None


# ---- Compiled functions and modules ----------------------------------------------------------------------------------


class _Function:
    """A function whose calls are replayed."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool) -> None:
        self._recorder = _Recorder(function, fullgraph)
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._recorder.call(args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Function(self.__wrapped__.__get__(instance, owner), False)

    def __reduce__(self) -> Any:
        return compile, (self.__wrapped__,)


class _Compiled:
    """The part of a compiled module that its class does not have."""

    __slots__ = ()


def _compiled_module(module: Module, fullgraph: bool) -> Module:
    """A module of a subclass that shares the members of ``module``."""
    kind = type(module)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._recorder.call(args, kwargs)

    members = {
        "__slots__": ("_recorder",),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__call__": call,
        "__reduce_ex__": lambda self, protocol: (compile, (self._recorder.function,)),
        "__deepcopy__": lambda self, memo: compile(_deepcopy(self._recorder.function, memo)),
    }
    compiled: Module = object.__new__(type(kind.__name__, (_Compiled, kind), members))
    object.__setattr__(compiled, "__dict__", module.__dict__)
    object.__setattr__(compiled, "_recorder", _Recorder(module, fullgraph))
    return compiled


def _deepcopy(module: Module, memo: dict[int, Any]) -> Module:
    from copy import deepcopy

    return deepcopy(module, memo)
