"""What a model does with an example: the calls of operators, in their order.

Operators that are Functions are seen where the engine applies them. The others, which carry no gradient, are ordinary
functions: they are seen by Python's profiler, for the time of this one call of the model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from types import FrameType
from typing import Any

import numpy as np

from ...engine.anomaly import modules
from ...engine.function import Function
from ...engine.grad_mode import enable_grad, thread
from ...engine.inplace import modify
from ...engine.node import Node
from ...engine.tensor import Tensor
from ...engine.views import Overwrite
from ..errors import OnnxError, UnsupportedError

_apply: Any = Function.apply.__func__  # type: ignore[attr-defined]
_MODIFY = modify.__code__


@dataclass(frozen=True)
class Named:
    """An input of the model, or one of its parameters or buffers."""

    name: str


@dataclass(frozen=True)
class Result:
    """Output number ``place`` of call number ``call``."""

    call: int
    place: int


@dataclass(frozen=True, eq=False)
class Fixed:
    """A Tensor that depends on no input and no parameter."""

    array: np.ndarray


@dataclass(frozen=True)
class Reshaped:
    """The memory of another value, in this shape."""

    origin: Named | Result
    shape: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Known:
    """A value that was seen: where it comes from, and what it was."""

    origin: Named | Result | Reshaped
    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Call:
    """One call of ``operator``, a Function or another function of this package, in the module ``path``.

    arguments, named: of a Function by position, of another function by name. A tensor or array among them that was seen
    is a Known, another tensor is Fixed. outputs: None for what is no tensor or array.
    """

    operator: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    outputs: tuple[np.ndarray | None, ...]
    path: str


class _Stale:
    """In place of an origin: the memory was changed through another tensor."""


class Recorder:
    """Runs a model and records its calls.

    named: the inputs, parameters and buffers by name. paths: of modules, by their id. functions: those that are seen
    besides Functions; for each, whether a call with these arguments stands for all calls inside.
    """

    def __init__(
        self,
        named: Mapping[str, Tensor],
        paths: Mapping[int, str],
        functions: Mapping[Callable[..., Any], Callable[[dict[str, Any]], bool]],
    ) -> None:
        self.calls: list[Call] = []
        self._paths = paths
        self._functions = {function.__code__: (function, when) for function, when in functions.items()}
        self._origins: dict[int, Any] = {}  # by the id of the array
        self._arrays: dict[int, np.ndarray] = {}  # keeps them, so that an id or an address names one
        self._places: dict[tuple[int, int], int] = {}  # address and bytes -> id of the array
        self._hidden = 0  # calls that stand for those inside, now running
        self._running: list[tuple[FrameType, Any, dict[str, Any]]] = []
        for name, tensor in named.items():
            self._know(tensor.array, Named(name))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within it, calls of this thread are recorded."""
        mode, profile = thread.mode, sys.getprofile()
        outer, mode.watch = mode.watch, self
        sys.setprofile(self._on_event)
        try:
            with enable_grad():  # operators without a record may be computed by one kernel for several
                yield
        finally:
            sys.setprofile(profile)
            mode.watch = outer

    def resolve(self, value: Any) -> Any:
        """An argument, with Known and Fixed in place of Tensors and of arrays that were seen."""
        if isinstance(value, Tensor):
            return self._seen(value.array) or Fixed(value.array)
        if isinstance(value, np.ndarray):
            return self._seen(value) or value
        if type(value) in (tuple, list):
            return type(value)(self.resolve(each) for each in value)
        return value

    def __call__(self, cls: type[Function], args: tuple[Any, ...]) -> Any:
        """Runs instead of Function.apply."""
        mode = thread.mode
        if cls._foreign and not self._hidden:
            return self._inside(cls, args)
        arguments = () if self._hidden or cls is Overwrite else tuple([self.resolve(arg) for arg in args])
        mode.watch = None
        self._hidden += 1
        try:
            output = _apply(cls, *args)
        finally:
            self._hidden -= 1
            mode.watch = self
        if not self._hidden and cls is not Overwrite:
            self._add(cls, arguments, {}, output)
        return output

    @staticmethod
    def _inside(cls: type[Function], args: tuple[Any, ...]) -> Any:
        """A user's Function is what its forward does; the backward is not exported."""
        node = Node()
        node.function, node.saved, node.outputs, node.needs_input_grad = cls, (), None, (False,) * len(args)
        return cls.forward(node, *args)

    def _on_event(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call":
            if code in self._functions and not self._hidden:
                function, when = self._functions[code]
                given = {name: self.resolve(frame.f_locals[name]) for name in signature(function).parameters}
                if when(given):
                    self._running.append((frame, function, given))
                    self._hidden += 1
        elif event == "return":
            if self._running and self._running[-1][0] is frame:
                _, function, given = self._running.pop()
                self._hidden -= 1
                if arg is not None:
                    self._add(function, (), given, arg)
            elif code is _MODIFY and arg is not None and not self._hidden:
                self._change(arg, frame.f_locals)

    def _add(self, operator: Any, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        """Record a call, unless nothing that it takes was seen: its results are constants."""
        if not any(_has_known(each) for each in (*arguments, *named.values())):
            return
        outputs = tuple([_array_of(item) for item in (output if isinstance(output, tuple) else (output,))])
        given = list(_arrays_in((arguments, named)))
        for place, array in enumerate(outputs):
            if array is not None and not any(array is each for each in given):
                self._know(array, Result(len(self.calls), place))
        path = next((found for each in reversed(modules.running()) if (found := self._paths.get(id(each)))), "")
        self.calls.append(Call(operator, arguments, named, outputs, path))

    def _know(self, array: np.ndarray, origin: Any) -> None:
        self._origins[id(array)] = origin
        self._arrays[id(array)] = array
        if array.size and array.flags.c_contiguous:
            self._places[array.__array_interface__["data"][0], array.nbytes] = id(array)

    def _seen(self, array: np.ndarray) -> Known | None:
        key = id(array)
        if key not in self._origins:
            if not array.size or not array.flags.c_contiguous:
                return None
            found = self._places.get((array.__array_interface__["data"][0], array.nbytes))
            if found is None or self._arrays[found].dtype != array.dtype:
                return None
            key = found
        origin = self._origins[key]
        if origin is _Stale:
            raise UnsupportedError(
                "onnx.export: a part of a tensor was changed in place, and the tensor was used again, which a graph of "
                "ONNX cannot say; make the new tensor with cat, where or scatter"
            )
        if key == id(array) or self._arrays[key].shape == array.shape:
            return Known(origin, array)
        origin = origin.origin if isinstance(origin, Reshaped) else origin
        return Known(Reshaped(origin, array.shape), array)

    def _change(self, x: Tensor, local: dict[str, Any]) -> None:
        """x was changed in place: it is the value that was written now, and what shares its memory is stale."""
        value = local.get("value")
        known = None if value is None else self._seen(value.array)
        array = x.array
        for key, other in self._arrays.items():
            if other is not array and self._origins[key] is not _Stale and np.may_share_memory(other, array):
                self._origins[key] = _Stale
        if known is not None:
            self._know(array, known.origin)
        elif id(array) in self._origins:
            raise UnsupportedError("onnx.export: a tensor was changed in place by something that is not recorded")


def _array_of(value: Any) -> np.ndarray | None:
    array = value.array if isinstance(value, Tensor) else value
    return array if isinstance(array, np.ndarray) else None


def _has_known(value: Any) -> bool:
    return isinstance(value, Known) or (isinstance(value, (tuple, list)) and any(map(_has_known, value)))


def _arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, Known):
        yield value.array
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _arrays_in(each)
    elif isinstance(value, dict):
        yield from _arrays_in(list(value.values()))


def required(calls: list[Call], outputs: list[Any]) -> list[int]:
    """The numbers of the calls that the outputs depend on, in order.

    Raises:
        OnnxError: an output depends on nothing that was seen.
    """
    wanted: set[int] = set()
    for place, output in enumerate(outputs):
        if not isinstance(output, Known):
            raise OnnxError(f"onnx.export: output {place} of the model depends neither on an input nor on a parameter")
        wanted |= _calls_of(output)
    for number in range(len(calls) - 1, -1, -1):
        if number in wanted:
            wanted |= _calls_of((calls[number].arguments, list(calls[number].named.values())))
    return sorted(wanted)


def _calls_of(value: Any) -> set[int]:
    if isinstance(value, Known):
        origin = value.origin.origin if isinstance(value.origin, Reshaped) else value.origin
        return {origin.call} if isinstance(origin, Result) else set()
    if isinstance(value, (tuple, list)):
        return set().union(*map(_calls_of, value)) if value else set()
    return set()
