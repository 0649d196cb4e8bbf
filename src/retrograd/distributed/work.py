"""Work and Future: handles of asynchronous collectives."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from ..engine.tensor import Tensor
from .process_group import CollectiveCall, as_seconds, wait

if TYPE_CHECKING:
    from .process_group import ProcessGroup

__all__ = ["Future", "Work"]


# ---- Future, with the names of torch.futures ------------------------------------------------------------------------


class Future:
    """A value that is not available yet, from a communication hook or from ``Work.get_future``.

    steps: a generator that yields the objects to wait for, with ``wait`` and ``is_completed`` as Work has, and finally
        returns the value. None: ``set_result`` sets the value.
    """

    def __init__(self, steps: Generator[Any, None, Any] | None = None) -> None:
        self._steps, self._current = steps, None
        self._value: Any = None
        self._done = False

    def set_result(self, result: Any) -> None:
        """Set the value.

        Raises:
            RuntimeError: the value is set already, or this Future waits for a collective or another Future.
        """
        if self._done or self._steps is not None:
            raise RuntimeError("Future.set_result: its value is set already, or comes from what it waits for")
        self._value, self._done = result, True

    def done(self) -> bool:
        """Advance as far as possible without waiting; return whether the value is available."""
        return self._advance(False)

    is_completed = done

    def wait(self) -> Any:
        """Wait for the value and return it.

        Raises:
            RuntimeError: ``set_result`` was not called. Any error of the collectives and callbacks that it waits for.
        """
        if not self._advance(True):
            raise RuntimeError("Future.wait: nobody has set its result")
        return self._value

    def value(self) -> Any:
        """Return the value.

        Raises:
            RuntimeError: the value is not available yet.
        """
        if not self.done():
            raise RuntimeError("Future.value: the value is not available yet; call wait()")
        return self._value

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Return a Future of ``callback(self)``; the callback is called once the value of this Future is available."""

        def steps() -> Generator[Any, None, Any]:
            yield self
            return callback(self)

        return Future(steps())

    def _advance(self, waiting: bool) -> bool:
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
                self._steps = None  # the value will never be available
                raise
        return self._done


# ---- Work: a running collective -------------------------------------------------------------------------------------


class Work:
    """A running collective, returned with ``async_op=True``. Its result is available once ``wait`` has returned."""

    seconds: float

    def __init__(
        self,
        group: ProcessGroup | None = None,
        requests: Sequence[Any] = (),
        entered: CollectiveCall | None = None,
        finish: Callable[[], object] | None = None,
        outputs: Sequence[Tensor] = (),
    ) -> None:
        self._group, self._requests, self._entered, self._finish = group, list(requests), entered, finish
        self._outputs = list(outputs)
        self.seconds = 0.0  # spent in `wait`

    def wait(self, timeout: Any = None) -> bool:
        """Wait until the collective is done. Returns True.

        timeout: a timedelta or seconds; None means the group's.

        Raises:
            DistNetworkError: a rank did not take part in time. WorkerLostError: one has died.
            ValueError: timeout is not a positive time.
        """
        if self._requests and self._group is not None and self._entered is not None:
            seconds = None if timeout is None else as_seconds("Work.wait", timeout)
            self.seconds += wait(self._group, self._requests, self._entered, timeout=seconds)
        self._end()
        return True

    def is_completed(self) -> bool:
        """Return whether the collective is done, without waiting."""
        if not all(request.Test() for request in self._requests):
            return False
        self._end()
        return True

    def is_success(self) -> bool:
        """Return whether the collective is done without an error."""
        return self.is_completed()

    def result(self) -> list[Tensor]:
        """Return the tensors that contain the result once the collective is done."""
        return self._outputs

    def get_future(self) -> Future:
        """Return a Future of ``result()``."""

        def steps() -> Generator[Any, None, Any]:
            yield self
            return self.result()

        return Future(steps())

    def _end(self) -> None:
        self._requests = []
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
