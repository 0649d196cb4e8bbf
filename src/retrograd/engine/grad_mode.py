"""Whether operations record a graph: one flag per thread.

`no_grad`, `enable_grad` and `set_grad_enabled` work as context managers, and the first two as decorators.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Self, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])


class _Mode:
    __slots__ = ("enabled",)

    def __init__(self) -> None:
        self.enabled = True


class _Thread(threading.local):
    """The flag of the calling thread; every new thread starts with recording on.

    It is an object of its own because each access to a threading.local costs several to a plain object.
    """

    def __init__(self) -> None:
        self.mode = _Mode()


thread = _Thread()


def is_grad_enabled() -> bool:
    """True if operations of this thread record a graph now."""
    return thread.mode.enabled


class _Setting:
    """Sets the flag on entry and restores what it found on exit; may be nested and entered again."""

    __slots__ = ("_enabled", "_found")

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._found: list[bool] = []

    def __enter__(self) -> Self:
        self._found.append(thread.mode.enabled)
        thread.mode.enabled = self._enabled
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread.mode.enabled = self._found.pop()

    def __call__(self, function: _F) -> _F:
        enabled = self._enabled
        # A generator or coroutine function only makes an object: its body runs after the flag is restored.
        if inspect.isgeneratorfunction(function):
            return cast(_F, _wrap_generator(function, enabled))
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{type(self).__name__}: {getattr(function, '__qualname__', function)} is asynchronous; "
                "use `with` around the statements inside it instead of the decorator"
            )

        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            found = thread.mode.enabled
            thread.mode.enabled = enabled
            try:
                return function(*args, **kwargs)
            finally:
                thread.mode.enabled = found

        return cast(_F, wrapper)


def _wrap_generator(function: Callable[..., Generator[Any, Any, Any]], enabled: bool) -> Callable[..., Any]:
    """The flag holds while the generator's own statements run, never while its caller's do."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        step: Callable[[Any], Any] = generator.send
        value: Any = None
        try:
            while True:
                try:
                    with _Setting(enabled):
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
            with _Setting(enabled):
                generator.close()

    return wrapper


class no_grad(_Setting):  # noqa: N801  the names are PyTorch's
    """Operations inside record no graph: `with no_grad(): ...`, `@no_grad()` or `@no_grad`."""

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        _Setting.__init__(self, False)
        return self(function)

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_Setting):  # noqa: N801
    """Operations inside record a graph: `with enable_grad(): ...`, `@enable_grad()` or `@enable_grad`."""

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        _Setting.__init__(self, True)
        return self(function)

    def __init__(self) -> None:
        super().__init__(True)


class set_grad_enabled(_Setting):  # noqa: N801
    """Sets the flag at once; as a context manager, `with set_grad_enabled(flag)`, restores it at the end.

    Raises:
        TypeError: `enabled` is not a bool.
    """

    __slots__ = ("_fresh",)

    def __init__(self, enabled: bool) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"set_grad_enabled: enabled is {enabled!r}, expected True or False")
        super().__init__(enabled)
        self._found.append(thread.mode.enabled)
        self._fresh = True  # the first `with` restores what the constructor found
        thread.mode.enabled = enabled

    def __enter__(self) -> Self:
        if not self._fresh:
            self._found.append(thread.mode.enabled)
        self._fresh = False
        thread.mode.enabled = self._enabled
        return self

    def __call__(self, function: _F) -> _F:
        if self._fresh:  # as a decorator only the wrapped calls change the flag
            thread.mode.enabled = self._found.pop()
            self._fresh = False
        return super().__call__(function)
