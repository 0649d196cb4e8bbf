"""Work and Future: handles of asynchronous collectives."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from ..engine.tensor import Tensor
from .process_group import Entered, as_seconds, wait

if TYPE_CHECKING:
    from .process_group import ProcessGroup

__all__ = ["Future", "Work"]


# ---- Future: a value that comes later, with the names of torch.futures ----------------------------------------------


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


# ---- Work: a collective that has begun ------------------------------------------------------------------------------


class Work:
    """The handle of a collective with ``async_op=True``. Tensors hold its result once ``wait`` has returned."""

    def __init__(
        self,
        group: ProcessGroup | None = None,
        requests: Sequence[Any] = (),
        entered: Entered | None = None,
        finish: Callable[[], object] | None = None,
        outputs: Sequence[Tensor] = (),
    ) -> None:
        self._group, self._requests, self._entered, self._finish = group, list(requests), entered, finish
        self._outputs = list(outputs)
        self.seconds = 0.0  # spent in `wait`

    def wait(self, timeout: Any = None) -> bool:
        """Wait until it is done; returns True.

        timeout: a timedelta or seconds; None: that of the group.

        Raises:
            DistNetworkError: a rank did not take part in time. WorkerLostError: one has died.
            ValueError: timeout is no time above 0.
        """
        if self._requests and self._group is not None and self._entered is not None:
            seconds = None if timeout is None else as_seconds("Work.wait", timeout)
            self.seconds += wait(self._group, self._requests, self._entered, timeout=seconds)
        self._end()
        return True

    def is_completed(self) -> bool:
        """Whether it is done; does not wait."""
        if not all(request.Test() for request in self._requests):
            return False
        self._end()
        return True

    def is_success(self) -> bool:
        """Whether it is done without an error."""
        return self.is_completed()

    def result(self) -> list[Tensor]:
        """The tensors that hold the result once it is done."""
        return self._outputs

    def get_future(self) -> Future:
        """A Future of ``result()``."""

        def steps() -> Generator[Any, None, Any]:
            yield self
            return self.result()

        return Future(steps())

    def _end(self) -> None:
        self._requests = []
        finish, self._finish = self._finish, None
        if finish is not None:
            finish()
