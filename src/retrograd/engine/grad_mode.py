"""Grad modes, and the engine's per-thread state.

`no_grad`, `enable_grad`, `inference_mode` and `set_grad_enabled` work as context managers, and the first three as
decorators.
"""

from __future__ import annotations

import functools
import inspect
import io
import operator
import os
import threading
from collections.abc import Callable, Generator, Sequence
from itertools import repeat
from typing import Any, Final, Self, TypeVar, cast

from .arguments import as_truth

# ---- Recording of the graph: one flag per thread --------------------------------------------------------------------

_F = TypeVar("_F", bound=Callable[..., Any])


class _Request(str):
    """A grad_req that is compared by identity, not by value."""


INFERENCE = _Request("null")  # the grad_req of a tensor made in inference_mode, which takes part in no graph


class Delivery:
    """Identifies a running backward until it has delivered its gradients.

    starts: the edges, or leaves, that it and the backward calls inside it started from; empty afterwards.
    """

    __slots__ = ("starts",)

    def __init__(self, starts: list[Any]) -> None:
        self.starts = starts


class _Mode:
    __slots__ = (
        "delivery",
        "enabled",
        "exact",
        "inference",
        "interpreter",
        "pieces",
        "retain_graph",
        "level",
        "passed",
        "rules",
        "running",
        "site",
        "sweeping",
        "rules_disabled",
        "pending",
        "watch",
    )

    def __init__(self) -> None:
        self.enabled: bool = True
        self.inference: bool = False
        self.exact: bool = False  # operators skip faster algorithms that round more, see exact_convolution
        self.delivery: Delivery | None = None  # the running backward, until its gradients are delivered
        self.pieces: Any = None  # runs the calls of modules in a compiled function, see nn/recording_pieces.py
        self.running: list[Any] | None = None  # the running modules, outermost first, if requested; see anomaly.py
        self.site: Any = None  # in a layer of this package: the user's line that called it, see call_site.py
        self.retain_graph: bool = True  # the running backward sweep keeps the saved tensors for another sweep
        self.rules_disabled: bool = False  # a sweep runs the true backwards instead of rules
        self.sweeping: bool = False  # a backward sweep that is not recorded is running
        self.pending: Sequence[int] = ()  # in a backward sweep: the orders of the pending nodes
        self.rules: Any = None  # the rules that replace backwards, see backward_rules.py
        self.interpreter: Any = None  # the top of the stack of interpreters, see operator.py
        self.level: Any = None  # the stack position of the interpreter whose `call` runs
        self.passed: Any = None  # the call that it passes on, as (operator, next stack position)
        self.watch: Callable[..., Any] | None = None  # runs instead of Function.apply, see anomaly.py


class _Thread(threading.local):
    """The mode of the calling thread; every new thread starts with recording on.

    The mode is a separate object because one access to a threading.local costs as much as several to a plain object.
    """

    def __init__(self) -> None:
        self.mode: _Mode = _Mode()


thread: Final = _Thread()


def is_grad_enabled() -> bool:
    """Return True if operations of this thread currently record a graph."""
    return thread.mode.enabled


def is_graph_retained() -> bool:
    """Return whether, in a backward, another sweep may read the saved tensors after this one."""
    return thread.mode.retain_graph


def pending_orders() -> Sequence[int]:
    """Return, in a backward, the orders of the nodes that have a gradient and have not run yet."""
    return thread.mode.pending


# endless iterators for `map`: the mode of the calling thread, and the names of its flags
_modes = map(operator.attrgetter("mode"), repeat(thread))
_enabled, _inference = repeat("enabled"), repeat("inference")
_NEVER = object()  # a sentinel: no flag has this value


class _Scope(io.IOBase):
    """A context manager that sets the flags and restores them at the end; it can be nested and reused.

    Python may raise KeyboardInterrupt before the first line of any function, including ``__exit__``, and then the flags
    would not be restored. Leaving therefore runs no Python code: IOBase's ``__exit__`` is written in C and calls
    ``close``, which is made of C functions here.
    """

    closed = True  # IOBase's destructor has nothing to close

    def __init__(self) -> None:
        self._previous: list[bool] = []
        pop = iter(self._previous.pop, None)
        enabled, inference = map(setattr, _modes, _enabled, pop), map(setattr, _modes, _inference, pop)
        self.close: Any = map(operator.is_not, enabled, inference).__next__  # a call restores both and returns False

    def _remember(self) -> _Mode:
        mode = thread.mode
        self._previous += mode.inference, mode.enabled
        return mode


class _Setting(_Scope):
    """Sets whether operations record a graph."""

    def __init__(self, enabled: bool) -> None:
        super().__init__()
        self._enabled = enabled

    def __enter__(self) -> Self:
        mode = self._remember()
        mode.enabled = self._enabled and not mode.inference
        return self

    def __call__(self, function: _F) -> _F:
        return decorate(function, functools.partial(_Setting, self._enabled), type(self).__name__)


class AttributeScope(_Scope):
    """A scope that sets one attribute of the mode; at the end it calls ``then(None)``, if given."""

    close: Any

    def __init__(self, flag: str, then: Callable[[None], object] | None = None) -> None:
        self._flag = flag
        self._previous: list[Any] = []
        restored = map(setattr, _modes, repeat(flag), iter(self._previous.pop, _NEVER))
        self.close = (restored if then is None else map(then, restored)).__next__

    def _set(self, value: Any) -> None:
        mode = thread.mode
        self._previous.append(getattr(mode, self._flag))
        setattr(mode, self._flag, value)


def decorate(function: _F, setting: Callable[[], Any], name: str) -> _F:
    """Wrap every call of `function` in `with setting():`."""
    # A generator or coroutine function only makes an object: its body runs after the flag is restored.
    if inspect.isgeneratorfunction(function):
        return cast(_F, _wrap_generator(function, setting))
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{name}: {getattr(function, '__qualname__', function)} is asynchronous; "
            "use `with` around the statements inside it instead of the decorator"
        )

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with setting():
            return function(*args, **kwargs)

    return cast(_F, wrapper)


def _wrap_generator(
    function: Callable[..., Generator[Any, Any, Any]], setting: Callable[[], Any]
) -> Callable[..., Any]:
    """Wrap a generator so that the flags are set while its own statements run, never while its caller's do."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        step: Callable[[Any], Any] = generator.send
        value: Any = None
        try:
            while True:
                try:
                    with setting():
                        item = step(value)
                except StopIteration as end:
                    return end.value
                try:
                    value = yield item
                    step = generator.send
                except GeneratorExit:
                    raise
                except BaseException as error:
                    value, step = error, generator.throw
        finally:
            with setting():
                generator.close()

    return wrapper


class _Fixed(_Setting):
    """A setting whose class is also a decorator."""

    _to: bool

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        _Setting.__init__(self, cls._to)
        return self(function)

    def __init__(self) -> None:
        super().__init__(self._to)


class no_grad(_Fixed):  # noqa: N801  the names are PyTorch's
    """Operations inside record no graph: `with no_grad(): ...`, `@no_grad()` or `@no_grad`."""

    _to = False


class enable_grad(_Fixed):  # noqa: N801
    """Operations inside record a graph: `with enable_grad(): ...`, `@enable_grad()` or `@enable_grad`."""

    _to = True


class inference_mode(_Scope):  # noqa: N801
    """Like no_grad, and tensors made inside can never take part in a graph: ``with inference_mode(): ...``.

    After the block, it is an error to save such a tensor for a backward, to change it in place, or to make it require a
    gradient; ``clone()`` returns an ordinary tensor. Views of ordinary tensors stay ordinary. It is also a decorator:
    ``@inference_mode()`` or ``@inference_mode``.

    mode: False switches the mode off inside an outer inference_mode, and turns recording on.

    Raises:
        TypeError: mode is neither a bool nor a function to decorate.
    """

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if isinstance(mode, bool):
            return self
        if not callable(mode):
            as_truth("inference_mode", "mode", mode)
            return self
        return decorate(mode, cls, cls.__name__)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._mode = as_truth("inference_mode", "mode", mode)

    def __enter__(self) -> Self:
        mode = self._remember()
        mode.enabled, mode.inference = not self._mode, self._mode
        return self

    def __call__(self, function: _F) -> _F:
        return decorate(function, functools.partial(inference_mode, self._mode), "inference_mode")


def is_inference_mode_enabled() -> bool:
    """Return True if tensors that this thread makes now are inference tensors."""
    return thread.mode.inference


class set_grad_enabled(_Setting):  # noqa: N801
    """Set the flag immediately; as a context manager, `with set_grad_enabled(flag)`, restore it at the end.

    Raises:
        TypeError: `enabled` is not a bool.
    """

    def __init__(self, enabled: bool) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"set_grad_enabled: enabled is {enabled!r}, expected True or False")
        super().__init__(enabled)
        self._fresh = True  # the first `with` restores what was set before the constructor
        mode = self._remember()
        mode.enabled = enabled and not mode.inference

    def __enter__(self) -> Self:
        mode = thread.mode if self._fresh else self._remember()
        self._fresh = False
        mode.enabled = self._enabled and not mode.inference
        return self

    def __call__(self, function: _F) -> _F:
        if self._fresh:  # as a decorator, only the wrapped calls change the flag
            self.close()
            self._fresh = False
        return super().__call__(function)


# ---- The lock for data shared by threads: gradients of leaves, and records of in-place changes ----------------------


class _Process:
    """State shared by all threads. ``with process.lock:`` acquires a reentrant lock."""

    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.RLock()


process: Final = _Process()
if hasattr(os, "register_at_fork"):
    # the child does not have the thread that held the lock
    os.register_at_fork(after_in_child=lambda: setattr(process, "lock", threading.RLock()))
