"""Anomaly detection: an error names the operator that produced the first NaN, with its module, element and source line.

While it is on, a wrapper runs instead of Function.apply, and a check runs after the backward of every node. While it is
off, each of the two places costs one comparison with None.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import numpy as np

from .aliasing import next_order
from .call_site import describe_call_site, user_call_site
from .function import Function
from .grad_mode import thread
from .node import Node
from .tensor import Tensor

_apply: Any = Function.apply.__func__  # type: ignore[attr-defined]


class AnomalyDetector:
    """Wraps Function.apply: stores the user's line and the module in each node, and looks for NaN in the results."""

    __slots__ = ("check_nan",)

    def __init__(self, check_nan: bool) -> None:
        self.check_nan: bool = check_nan

    def __call__(self, cls: type[Function], args: tuple[Any, ...]) -> Any:
        mode = thread.mode
        before = next_order()
        mode.watch = None
        try:
            output = _apply(cls, *args)
        finally:
            mode.watch = self
        outputs = output if type(output) is tuple else (output,)
        for item in outputs:
            if item._edge is not None and item._edge[0].order < before:
                node = item._edge[0]
                node.call_site = user_call_site()
                node.modules = [*(mode.running or ())]
                break
        if self.check_nan:
            for index, item in enumerate(outputs):
                where = _locate_nan(item)
                if where:
                    which = f"output {index}" if type(output) is tuple else "its result"
                    raise RuntimeError(
                        f"{cls.__name__}: {which} contains NaN, {where}; {_blame('argument', args)}.\n"
                        f"  called at {describe_call_site(user_call_site())}"
                    )
        return output

    def after_backward(self, node: Node, entry: list[Any], grads: Any) -> None:
        """Raise if the gradients `grads` of a node contain NaN; entry[1:] are its incoming gradients."""
        if not self.check_nan:
            return
        items = grads if isinstance(grads, tuple | list) else (grads,)
        for index, item in enumerate(items):
            where = _locate_nan(item)
            if where:
                raise RuntimeError(
                    f"{node.name()}: the gradient of argument {index} contains NaN, {where}; "
                    f"{_blame('incoming gradient', tuple(entry[1:]))}.\n"
                    f"  the forward of {node.function.__name__}{describe_origin(node)}"
                )


def describe_origin(node: Node) -> str:
    """Describe where a node was made, as far as known: its module and the user's line."""
    running = getattr(node, "modules", None)
    call_site = getattr(node, "call_site", None)
    text = f" in {running[0].described(running)}" if running else ""
    return text + ("" if call_site is None else f", called at {describe_call_site(call_site)}")


def _locate_nan(item: Any) -> str:
    """Return ``the first at [1, 2] (3 of 6 elements, float32 of shape (2, 3))``, or "" if there is no NaN."""
    if not isinstance(item, Tensor) or item.array.dtype.kind != "f":
        return ""
    bad = np.isnan(item.array)
    if not bad.any():
        return ""
    index = [int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape)]
    size, shape, dtype = bad.size, item.array.shape, item.array.dtype
    return f"the first at {index} ({int(bad.sum())} of {size} elements, {dtype} of shape {shape})"


def _blame(what: str, items: tuple[Any, ...]) -> str:
    for index, item in enumerate(items):
        where = _locate_nan(item)
        if where:
            return f"{what} {index} already contains NaN, {where}"
    return f"no {what} contains any"


# ---- Context managers and queries --------------------------------------------------------------------------


class set_detect_anomaly:  # noqa: N801  the name is PyTorch's
    """Switch anomaly detection on or off immediately; as a context manager, restore the previous state at the end.

    mode: whether to detect anomalies in this thread.
    check_nan: look for NaN in the results of every forward and backward. If False, errors raised in a backward still
        name the module and the user's line of the forward.

    Raises:
        TypeError: mode or check_nan is not a bool.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        for name, value in (("mode", mode), ("check_nan", check_nan)):
            if not isinstance(value, bool):
                raise TypeError(f"set_detect_anomaly: {name} is {value!r}, expected True or False")
        self._previous = _install(AnomalyDetector(check_nan) if mode else None)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _install(self._previous)


class detect_anomaly:  # noqa: N801
    """Detect anomalies in a block: ``with detect_anomaly(): ...``; see `set_detect_anomaly`.

    check_nan: see `set_detect_anomaly`.

    Raises:
        TypeError: check_nan is not a bool.
    """

    def __init__(self, check_nan: bool = True) -> None:
        if not isinstance(check_nan, bool):
            raise TypeError(f"detect_anomaly: check_nan is {check_nan!r}, expected True or False")
        self._check_nan = check_nan
        self._previous: list[AnomalyDetector | None] = []

    def __enter__(self) -> Self:
        self._previous.append(_install(AnomalyDetector(self._check_nan)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _install(self._previous.pop())


def is_anomaly_enabled() -> bool:
    """Return True if anomaly detection is on in this thread."""
    return _detector() is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Return True if this thread currently looks for NaN."""
    watch = _detector()
    return watch is not None and watch.check_nan


def _detector() -> AnomalyDetector | None:
    watch: Any = thread.mode.watch
    return watch if watch is None or type(watch) is AnomalyDetector else watch.below


def _install(new: AnomalyDetector | None) -> AnomalyDetector | None:
    """Set this thread's detector, below the wrapper of a running recomputation, and return the previous one."""
    previous = _detector()
    mode: Any = thread.mode
    mode.running = None if new is None else mode.running or []
    if mode.watch is None or type(mode.watch) is AnomalyDetector:
        mode.watch = new
    else:
        mode.watch.below = new
    return previous
