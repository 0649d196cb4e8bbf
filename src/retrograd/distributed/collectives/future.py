"""Future: a value that comes later, with the names of torch.futures."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

__all__ = ["Future"]


class Future:
    """A value that comes later, of a hook of DistributedDataParallel or of ``Work.get_future``.

    steps: a generator that yields what is waited for, each with ``wait`` and ``is_completed`` as a Work has them, and
    returns the value; None: ``set_result`` sets it.
    """

    def __init__(self, steps: Generator[Any, None, Any] | None = None) -> None:
        self._steps, self._current = steps, None
        self._value: Any = None
        self._done = False

    def set_result(self, result: Any) -> None:
        """Set the value.

        Raises:
            RuntimeError: it is there already, or comes from something else.
        """
        if self._done or self._steps is not None:
            raise RuntimeError("Future.set_result: its value is set already, or comes from what it waits for")
        self._value, self._done = result, True

    def done(self) -> bool:
        """Whether the value is there; goes on as far as possible without waiting."""
        return self._go_on(False)

    is_completed = done

    def wait(self) -> Any:
        """The value, after waiting for it.

        Raises:
            RuntimeError: nobody has set it. What the collectives and callbacks that it waits for raise.
        """
        if not self._go_on(True):
            raise RuntimeError("Future.wait: nobody has set its result")
        return self._value

    def value(self) -> Any:
        """The value.

        Raises:
            RuntimeError: it is not there yet.
        """
        if not self.done():
            raise RuntimeError("Future.value: it is not there yet; call wait()")
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A Future of ``callback(self)``, which is called when the value of this one is there."""

        def steps() -> Generator[Any, None, Any]:
            yield self
            return callback(self)

        return Future(steps())

    def _go_on(self, waiting: bool) -> bool:
        while not self._done and self._steps is not None:
            current: Any = self._current
            if current is not None and waiting:
                current.wait()
            elif current is not None and not current.is_completed():
                return False
            try:
                self._current = next(self._steps)
            except StopIteration as end:
                self._value, self._done = end.value, True
            except BaseException:
                self._steps = None  # the value will never be there
                raise
        return self._done
