"""``compile``: calls recorded once and replayed without Python between the kernels.

The first call with arguments of new layouts runs the function twice as usual, and records its steps (``engine/steps``),
with gradients also those of a backward pass. Further calls copy the arguments into the recorded arrays and run the
kernels' launches in a loop, on memory that was planned once. What a recording depends on is compared before each
replay; a call that cannot be recorded, or whose recording no longer holds, runs as usual. So the results are those of
the function, to the bit.

A call with gradients is one node of the graph. Its memory holds what backward needs; until that has run, or the result
is gone, further calls run as usual.

Model: CUDA graphs, and PyTorch's ``torch.compile``, whose signature it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import isfinite
from operator import attrgetter, is_
from threading import Lock
from types import CodeType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from .. import kernel_set
from ..arrays import host
from ..engine.arguments import kind_name
from ..engine.backward_pass import grad
from ..engine.function import Function
from ..engine.grad_mode import INFERENCE, enable_grad, thread
from ..engine.memory_planning import root
from ..engine.steps import Steps, record_steps
from ..engine.tensor import Tensor, wrap
from ..ops.argument_checks import as_truth
from ..ops.random.dropout import random_key
from ..ops.random.random import default_generator
from ..specs.array_spec import leaves
from .module import Module
from .module_hooks import changes

__all__ = ["compile", "explain_recording"]

_MOST = 16  # recordings of a function; the oldest is dropped
_PLAIN = (bool, int, float, str, type(None))
_VISIBLE = {"print", "input", "open", "breakpoint", "exec", "eval", "register_hook", "retain_grad"}
# what a replay would not repeat
_NOT_THESE = object()  # the values of the arguments lead to other decisions, such as an error
_array, _requires_grad = attrgetter("array"), attrgetter("_requires_grad")


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

    Calls are recorded once for each layout of the arguments, with gradients also their backward, and then run without
    Python between the kernels: a small network is several times as fast. The results and gradients are the same to the
    bit. What cannot be recorded runs as usual: random numbers other than dropout's, decisions by values, changes of an
    argument in place, hooks, backward rules, or printing in a ``forward`` of your own. ``explain_recording`` says what
    was recorded, and why not. A recording is dropped when an attribute, parameter, buffer or child of a module is
    replaced. Python code between operators is not repeated, as with PyTorch. A recorded call has first derivatives, for
    one backward pass.

    A compiled module shares everything with ``model``, and is an instance of its class.

    fullgraph: a call that cannot be recorded is an error. disable: return ``model`` unchanged, as
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
        self.flags = [tensor._requires_grad for tensor in self.tensors]
        self.trained = [tensor for tensor in self.tensors if tensor._requires_grad]
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
        if not all(map(is_, map(_requires_grad, self.tensors), self.flags)):
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


class _Recording:
    """The launches of a call, the arrays that it reads its arguments from, and its result.

    upstream: the gradients of the results, for the launches ``back`` of a backward pass, which give ``grads``: None
    where the result does not depend on a tensor. read_back: the tensors that these read. again: gives ``grads`` for
    upstream gradients in another memory order, which may lead to other kernels, by running the function.
    """

    def __init__(self, steps: Steps, inputs: list[np.ndarray], forward: int) -> None:
        self.steps, self.inputs = steps, inputs
        self.parts, self.back = _parts(steps, 0, forward), _parts(steps, forward, len(steps))
        self.upstream: list[np.ndarray] = []
        self.grads: list[np.ndarray | None] = []
        self.read_back: list[Tensor] = []
        self.again: Callable[[Sequence[Tensor]], list[np.ndarray | None]] | None = None
        self.lock = Lock()
        self.owner: Any = None  # a reference to the node whose backward has not run

    @property
    def is_free(self) -> bool:
        """Whether no backward needs what the memory holds."""
        return self.owner is None or self.owner() is None

    def run(self, arrays: Sequence[np.ndarray]) -> bool:
        """Run the forward pass on other arguments; False if they lead to other decisions."""
        for own, given in zip(self.inputs, arrays, strict=True):
            np.copyto(own, given)
        return _run(self.parts)


def _run(parts: list[_Part]) -> bool:
    for calls, checked in parts:
        for function, arguments, check in calls:
            if check is None or not isfinite(check.item()):
                function(*arguments)
        if checked is not None and not checked.holds():
            return False
    return True


class _Replayed(Function):
    """A replayed call with gradients; its results are those of ``recording``, one after another."""

    @staticmethod
    def forward(ctx: Any, recording: _Recording, arrays: Sequence[np.ndarray], *tensors: Tensor) -> Any:
        with recording.lock:
            if not recording.run(arrays):
                raise _OtherDecisionError
            recording.owner = ref(ctx)
            results = [wrap(each.array.copy("K")) for each in _tensors(recording.steps.result)]
        ctx.recording = recording
        ctx.save_for_backward(*recording.read_back)
        recorded = _tensors(recording.steps.result)
        if constant := [y for y, x in zip(results, recorded, strict=True) if not x._requires_grad]:
            ctx.mark_non_differentiable(*constant)
        return (*results,)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        recording: _Recording = ctx.recording
        _ = ctx.saved_tensors  # an error if one of them has been changed in place
        if thread.mode.enabled:
            raise RuntimeError(
                "compile: a recorded call has first derivatives only; for create_graph=True call the module itself, or "
                "set RETROGRAD_EAGER=1"
            )
        if recording.owner is None or recording.owner() is not ctx:
            raise RuntimeError(
                "compile: the backward of a recorded call runs once; for retain_graph=True call the module itself, or "
                "set RETROGRAD_EAGER=1"
            )
        recording.owner = None
        given = [g for g, x in zip(grads, _tensors(recording.steps.result), strict=True) if x._requires_grad]
        with recording.lock:
            if all(own.strides == g.array.strides for own, g in zip(recording.upstream, given, strict=True)):
                for own, g in zip(recording.upstream, given, strict=True):
                    np.copyto(own, g.array)
                _run(recording.back)
                grads_of = recording.grads
            else:
                assert recording.again is not None
                grads_of = recording.again(given)
            found = [
                wrap(y.copy("K")) if y is not None and needed else None
                for y, needed in zip(grads_of, ctx.needs_input_grad[2:], strict=True)
            ]
        return None, None, *found


class _OtherDecisionError(Exception):
    """The values of the arguments lead to other decisions than those recorded, such as an error."""


def _parts(steps: Steps, begin: int, last: int) -> list[_Part]:
    """The launches of some steps in an arena, cut where a decision follows; steps without a plan are called."""
    found: list[_Part] = []
    ranges = [each for each in steps.ranges if begin <= each[0] < last or each[0] == begin == 0]
    for end, checked in [*ranges, (last, None)]:
        calls: list[_Launch] = []
        for at in range(begin, end):
            one = steps[at : at + 1]
            planned = one.calls()
            if steps[at].kernel == "dropout" and (run := steps.with_numbers(at, "key", "stream")) is not None:
                planned = [(_with_random_key, (run,), None)]
            calls += [(one.run, (), None)] if planned is None else planned
        found.append((calls, checked))
        begin = end
    return found


def _with_random_key(run: Callable[..., None]) -> None:
    key, stream = random_key()
    run(key=key, stream=stream)


def _copied(value: Any, inference: bool) -> Any:
    """The result with tensors of its own."""

    def copied(tensor: Tensor) -> Tensor:
        found = wrap(tensor.array.copy("K"))
        if inference:
            found._grad_req = INFERENCE
        return found

    return _mapped(value, copied)


def _mapped(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """The result with its tensors replaced, in order."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, (tuple, list)):
        parts = [_mapped(each, function) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {key: _mapped(each, function) for key, each in value.items()}
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
        self.upstream: dict[Any, list[tuple[int, ...]]] = {}  # by the same: the strides of the upstream gradients

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = thread.mode
        if mode.watch is not None or mode.interpreter is not None or mode.running is not None:
            return self.function(*args, **kwargs)
        arrays: list[np.ndarray] = []
        key: list[Any] = [mode.exact, mode.inference, *kwargs]
        trained: list[Tensor] = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if isinstance(value, Tensor):
                array = value.array
                if min(array.strides, default=0) < 0:
                    return self._as_usual("an argument is in reversed order", args, kwargs)
                arrays.append(array)
                key += array.shape, array.strides, array.dtype.char
                if mode.enabled and value._requires_grad:
                    key.append("grad")
                    trained.append(value)
            elif isinstance(value, _PLAIN):
                key += type(value), value
            else:
                return self._as_usual(f"an argument is {kind_name(value)}", args, kwargs)
        if kernel_set.listeners or host.listeners or mode.rules is not None:
            return self.function(*args, **kwargs)
        if kernel_set.kernels._active != "compiled":
            return self._as_usual("the textbook kernels have no plans", args, kwargs)
        state = self.state
        if state is None or not state.holds(self.function):
            state = self._change_state()
        if mode.enabled:
            trained += state.trained
        key += kernel_set.kernels.get_num_threads(), bool(trained)
        found = self.found.get(place := (*key,))
        if found is None:
            return self._recorded(place, args, kwargs, trained)
        if isinstance(found, str):
            return self._as_usual(found, args, kwargs)
        try:
            if trained:
                if found.is_free:
                    tensors = iter(_Replayed.apply(found, arrays, *trained))
                    return _mapped(found.steps.result, lambda _: next(tensors))
            elif found.lock.acquire(blocking=False):  # else another thread replays it
                try:
                    if found.run(arrays):
                        return _copied(found.steps.result, mode.inference)
                finally:
                    found.lock.release()
        except _OtherDecisionError:
            pass
        return self.function(*args, **kwargs)

    def _as_usual(self, reason: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.fullgraph:
            raise RuntimeError(f"compile: with fullgraph=True, this call cannot be recorded: {reason}")
        return self.function(*args, **kwargs)

    def _change_state(self) -> _State:
        """Take up the recordings of the present state, such as training or eval mode, if there are any."""
        if self.state is not None:
            self.others = [(self.state, self.found), *self.others[:3]]
        for place, (state, found) in enumerate(self.others):
            if state.holds(self.function):
                self.state, self.found = state, found
                del self.others[place]
                return state
        self.state, self.found = _State(self.function), {}
        return self.state

    def _recorded(self, place: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trained: list[Tensor]) -> Any:
        """Call the function, and record the call for the next ones."""
        found = self._record(place, args, kwargs, trained)
        while len(self.found) >= _MOST:
            del self.found[next(iter(self.found))]
        self.found[place] = found
        return self._as_usual(found, args, kwargs) if isinstance(found, str) else self.call(args, kwargs)

    def _record(
        self, place: Any, args: tuple[Any, ...], kwargs: dict[str, Any], trained: list[Tensor]
    ) -> _Recording | str:
        """Record a call, and another one with other numbers: what differs between them cannot be replayed.

        Nothing but the kernels' results remains: random numbers and the tensors of modules are put back.
        """
        state = self.state
        assert state is not None
        if reason := state.obstacle(self.function):
            return reason
        count = changes[0]
        strides = self.upstream.get(place)
        with _put_back(state.arrays) as put_back:
            one = self._call_with(args, kwargs, trained, _same_layout, strides)
            put_back()
            try:
                other = self._call_with(args, kwargs, trained, _other_numbers, strides)
            except Exception as error:
                return f"it fails for other numbers of the same shapes: {type(error).__name__}: {error}"
        if count != changes[0]:
            return "it sets an attribute of a module"
        if reason := _difference(one, other) or _unsafe(one, state.arrays, other):
            return reason
        del other
        steps = one.steps.in_arena()
        for place, step in enumerate(steps):
            kinds = [type(leaf) for leaf in leaves(step.result) if not isinstance(leaf, (np.ndarray, *_PLAIN))]
            if kinds and steps[place : place + 1].calls() is None:
                return f"{step.name} has no plan, and returns {kinds[0].__name__}"
            if step.kernel == "dropout" and steps.with_numbers(place, "key", "stream") is None:
                return "dropout has no plan for other random numbers"
        found = _Recording(steps, one.inputs, one.forward)
        if trained:
            found.upstream, found.grads = one.upstream, one.grads
            plain = [value._requires_grad if isinstance(value, Tensor) else _Plain(value) for value in args]
            named = {
                name: value._requires_grad if isinstance(value, Tensor) else _Plain(value)
                for name, value in kwargs.items()
            }
            found.again = partial(self._computed_again, place, found.inputs, plain, named)
            read = {id(root(array)) for step in steps[one.forward :] for array in step.inputs}
            found.read_back = [tensor for tensor in state.tensors if id(root(tensor.array)) in read]
        return found

    def _call_with(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        trained: list[Tensor],
        numbers: Callable[[np.ndarray], np.ndarray],
        strides: list[tuple[int, ...]] | None,
    ) -> _Call:
        """Record a call with arguments of its own, and its backward if there is something to train."""
        arrays: list[np.ndarray] = []
        wanted: list[Tensor] = []

        def own(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            arrays.append(numbers(value.array))
            found = wrap(arrays[-1])
            if thread.mode.enabled and value._requires_grad:
                wanted.append(found.requires_grad_())
            return found

        given = [own(value) for value in args]
        named = {name: own(value) for name, value in kwargs.items()}
        wanted += trained[len(wanted) :]
        steps = record_steps(self.function, *given, **named)
        forward = len(steps)
        results = [value for value in _tensors(steps.result) if isinstance(value, Tensor)]
        upstream: list[np.ndarray] = []
        grads: list[np.ndarray | None] = []
        differentiable = [value for value in results if value._requires_grad]
        if trained and differentiable:
            draw = np.random.default_rng(len(arrays))
            steps_of = strides or [y.array.strides for y in differentiable]
            upstream = [_empty(y.array, each) for y, each in zip(differentiable, steps_of, strict=True)]
            for g in upstream:
                g[...] = draw.standard_normal(g.shape)
            outer = [wrap(g) for g in upstream]
            back = record_steps(grad, differentiable, wanted, outer, allow_unused=True)
            grads = [None if each is None else each.array for each in back.result]
            steps += back
            steps.reads += back.reads
            steps.ranges += [(forward + place, each) for place, each in back.ranges]

        def without_graph(tensor: Tensor) -> Tensor:
            found = wrap(tensor.array)
            found._requires_grad = tensor._requires_grad
            return found

        if all(type(value) is Tensor for value in _tensors(steps.result)):
            steps.result = _mapped(steps.result, without_graph)
        return _Call(steps, arrays, forward, upstream, grads)

    def _computed_again(
        self,
        place: Any,
        inputs: list[np.ndarray],
        args: list[bool | _Plain],
        kwargs: dict[str, bool | _Plain],
        upstream: Sequence[Tensor],
    ) -> list[np.ndarray | None]:
        """The gradients of a call whose upstream gradients have other strides than recorded; later ones are recorded.

        args, kwargs: of the call, with whether it requires a gradient in place of each tensor.
        """
        assert self.state is not None
        strides = [g.array.strides for g in upstream]
        self.found.pop(place, None)
        self.upstream[place] = strides
        if any(min(each, default=0) < 0 for each in strides):
            self.found[place] = "its upstream gradient is in reversed order"
        arrays, wanted = iter(inputs), []

        def own(value: bool | _Plain) -> Any:
            if isinstance(value, _Plain):
                return value.value
            found = wrap(next(arrays))
            if value:
                wanted.append(found.requires_grad_())
            return found

        with enable_grad(), _put_back(self.state.arrays):
            given = [own(value) for value in args]
            named = {name: own(value) for name, value in kwargs.items()}
            results = [value for value in _tensors(self.function(*given, **named)) if value._requires_grad]
            found = grad(results, [*wanted, *self.state.trained], list(upstream), allow_unused=True)
        return [None if each is None else each.array for each in found]

    def explained(self) -> str:
        if not self.found:
            return "nothing was recorded yet: call it within no_grad()"
        lines = []
        for place, found in self.found.items():
            shapes = ", ".join(str(each) for each in place if isinstance(each, tuple))
            if isinstance(found, str):
                lines.append(f"{shapes}: runs as usual, since {found}")
                continue
            launches = sum(len(calls) for calls, _ in (*found.parts, *found.back))
            lines.append(f"{shapes}: {len(found.steps)} steps, {launches} launches; {found.steps.memory}")
        return "\n".join(lines)


class _Plain(NamedTuple):
    """An argument that is no tensor."""

    value: Any


class _Call(NamedTuple):
    """The steps of a call and of its backward, which begins after ``forward`` of them, and the arrays of its own."""

    steps: Steps
    inputs: list[np.ndarray]
    forward: int
    upstream: list[np.ndarray]
    grads: list[np.ndarray | None]


@contextmanager
def _put_back(arrays: Sequence[np.ndarray]) -> Iterator[Callable[[], None]]:
    """Put the elements of the arrays and the random numbers back, when the result is called and at the end."""
    random, kept = default_generator.get_state(), [array.copy("K") for array in arrays]

    def put_back() -> None:
        for array, before in zip(arrays, kept, strict=True):
            if array.tobytes() != before.tobytes():
                np.copyto(array, before)

    try:
        yield put_back
    finally:
        put_back()
        default_generator.set_state(random)


def _same_layout(x: np.ndarray) -> np.ndarray:
    """A copy with the strides of x."""
    y = _empty(x, x.strides)
    np.copyto(y, x)
    return y


def _empty(x: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """An array with the shape and type of x, and these strides, which are not negative."""
    last = sum((extent - 1) * step for extent, step in zip(x.shape, strides, strict=True)) if x.size else 0
    return np.lib.stride_tricks.as_strided(np.empty(last // x.itemsize + 1, x.dtype), x.shape, strides)


def _other_numbers(x: np.ndarray) -> np.ndarray:
    """As ``_same_layout``, with the elements in another order and, of floats, closer to the middle."""
    y = _same_layout(x)
    turned = np.ascontiguousarray(x).reshape(-1)[::-1].reshape(x.shape)
    np.copyto(y, turned * 0.75 + 0.125 if x.dtype.kind == "f" else turned, casting="same_kind")
    return y


def _difference(call: _Call, again: _Call) -> str | None:
    """What differs between the steps of two calls."""
    steps, others = call.steps, again.steps
    ranges, checked = ([(place, *each[1:]) for place, each in one.ranges] for one in (steps, others))
    if len(steps.reads) > len(ranges) or ranges != checked:
        return f"Python reads {steps.reads[0]}"
    if len(steps) != len(others) or call.forward != again.forward:
        return "the number of steps depends on values"
    for one, other in zip(steps, others, strict=True):
        if one.kernel != other.kernel:
            return f"the steps depend on values: {one.name} or {other.name}"
        if one.kernel == "dropout":  # its random numbers are drawn at each replay
            one, other = (step._replace(args=step.args[:2]) for step in (one, other))
        a, b = ([*leaves((step.args, step.kwargs))] for step in (one, other))
        if len(a) != len(b) or not all(map(_alike, a, b)):
            return f"a number of {one.name} depends on values or is random"
    return None


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)
    return a is b or type(a) is type(b) and (a == b or repr(a) == repr(b))


def _unsafe(call: _Call, known: list[np.ndarray], again: _Call) -> str | None:
    """Why the steps cannot be replayed."""
    steps = call.steps
    own = {id(root(array)) for array in (*call.inputs, *call.upstream)}
    held = {id(root(array)) for array in known}
    for array, same in zip(steps.sources(), again.steps.sources(), strict=True):
        if id(root(array)) in own or id(root(array)) in held:
            continue
        if same is array:
            return f"it reads an array of shape {array.shape} that is no argument, parameter or buffer: pass it"
        if array.tobytes() != same.tobytes():
            return f"NumPy computes an array of shape {array.shape} from values, or with random numbers"
    for step, other in zip(steps, again.steps, strict=True):
        for array, same in zip(step.changed, other.changed, strict=True):
            if id(root(array)) in own:
                return f"{step.name} changes an argument in place"
            if root(array) is root(same) and id(root(array)) not in held:
                return f"{step.name} changes an array of shape {array.shape} that is no argument, parameter or buffer"
    for value in _tensors(steps.result):
        if type(value) is not Tensor:
            return f"the result contains {kind_name(value)}"
        if id(root(value.array)) in own | held:
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
