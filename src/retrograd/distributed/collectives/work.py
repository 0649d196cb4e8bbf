"""Work: a collective that has begun."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any

from ...engine.tensor import Tensor
from ..processes.entered import Entered
from ..processes.waiting import as_seconds, wait
from .future import Future

if TYPE_CHECKING:
    from ..processes.process_group import ProcessGroup

__all__ = ["Work"]


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
