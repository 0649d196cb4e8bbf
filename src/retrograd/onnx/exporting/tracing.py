"""Tracing of a model for export: its operator calls, and the origin of each value.

The engine reports Functions as it applies them. Operators that record no Function are observed by an Interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engine.call_site import is_caller_in_package
from ...engine.function import Function
from ...engine.grad_mode import enable_grad, thread
from ...engine.inplace import overwrite
from ...engine.node import Node
from ...engine.operator import Interpreter, Operator
from ...engine.tensor import Tensor
from ...engine.views import Overwrite
from ...ops.index.indexing import GetItem, Put, places_of, setitem
from ..errors import OnnxError, UnsupportedError

# ---- Origins of the values that a model computes: an input, a parameter, or a recorded call -------------------------


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
class Lost:
    """A value that the function ``maker`` computed from an input, in the module ``path``, without a recorded call."""

    maker: str
    path: str


@dataclass(frozen=True)
class Reshaped:
    """The memory of another value, in this shape; ``wide``: also broadcast to that shape."""

    origin: Named | Result | Lost
    shape: tuple[int, ...]
    wide: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Known:
    """A value seen by the recorder: its origin, and its content at that time."""

    origin: Named | Result | Lost | Reshaped
    array: np.ndarray


@dataclass(frozen=True, eq=False)
class Call:
    """One call of ``operator``, a Function or another function of this package, in the module ``path``.

    arguments, named: arguments of a Function by position, of another function by name. A tensor or array that the
        recorder has seen is a Known, any other tensor is a Fixed. outputs: None for anything but a tensor or array.
    """

    operator: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    outputs: tuple[np.ndarray | None, ...]
    path: str


def all_arrays(value: Any) -> Iterator[np.ndarray]:
    """Yield the tensors and arrays in a function's result."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from all_arrays(each)
    elif (array := array_of(value)) is not None:
        yield array


def array_of(value: Any) -> np.ndarray | None:
    array = value.array if isinstance(value, Tensor) else value
    return array if isinstance(array, np.ndarray) else None


def has_known(value: Any) -> bool:
    return isinstance(value, Known) or (isinstance(value, (tuple, list)) and any(map(has_known, value)))


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, Known):
        yield value.array
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from arrays_in(each)
    elif isinstance(value, dict):
        yield from arrays_in(list(value.values()))


def required(calls: list[Call], outputs: list[Any]) -> list[int]:
    """Return the numbers of the calls that the outputs depend on, in order.

    Raises:
        OnnxError: an output depends on nothing that was recorded.
    """
    needed: set[int] = set()
    for place, output in enumerate(outputs):
        if not isinstance(output, Known):
            raise OnnxError(f"onnx.export: output {place} of the model depends neither on an input nor on a parameter")
        needed |= _calls_of(output)
    for number in range(len(calls) - 1, -1, -1):
        if number in needed:
            needed |= _calls_of((calls[number].arguments, list(calls[number].named.values())))
    return sorted(needed)


def _calls_of(value: Any) -> set[int]:
    if isinstance(value, Known):
        origin = value.origin.origin if isinstance(value.origin, Reshaped) else value.origin
        return {origin.call} if isinstance(origin, Result) else set()
    if isinstance(value, (tuple, list)):
        return set().union(*map(_calls_of, value)) if value else set()
    return set()


# ---- Recording of the operator calls that a model makes for an example, in order ------------------------------------


def operator_of(function: Any) -> Operator:
    """Return the description of an operator."""
    found: Operator = function.operator
    return found


_apply: Any = Function.apply.__func__  # type: ignore[attr-defined]
_OVERWRITE, _PLACES = operator_of(overwrite), operator_of(places_of)
_READ = {
    operator_of(getattr(Tensor, name))
    for name in ("item", "tolist", "numpy", "__array__", "__float__", "__int__", "__bool__", "__index__")
}


_CALLER = 4  # frames from ``Recorder.call`` up to an operator's caller


class _Stale:
    """A marker in place of an origin: the memory was changed through another tensor."""


class Recorder(Interpreter):
    """Runs a model and records its calls.

    named: the inputs, parameters and buffers by name. inputs: the names of inputs. paths: module paths, by module id.
    functions: those recorded in addition to Functions; each has a predicate of whether a call with these arguments
        replaces all calls inside. ``values_read``: where Python read values that depend on an input, as (method, path).
    """

    def __init__(
        self,
        named: Mapping[str, Tensor],
        inputs: Iterable[str],
        paths: Mapping[int, str],
        functions: Mapping[Callable[..., Any], Callable[[dict[str, Any]], bool]],
    ) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.values_read: list[tuple[str, str]] = []
        self._paths, self._inputs = paths, {*inputs}
        self._from_inputs: set[int] = set()  # calls whose results depend on an input
        self._functions = {operator_of(function): (function, when) for function, when in functions.items()}
        self._origins: dict[int, Any] = {}  # by the id of the array
        self._arrays: dict[int, np.ndarray] = {}  # keeps them alive, so that an id or an address stays unique
        self._places: dict[tuple[int, int], int] = {}  # address and bytes -> id of the array
        self._fixed: dict[int, np.ndarray] = {}  # arrays made from shapes alone
        self._indices: dict[int, tuple[Any, Any]] = {}  # the original of a split index, if it depends on an input
        self._cuts: dict[int, tuple[np.ndarray, Any]] = {}  # of a view by an index: its base and the index
        self._hidden = 0  # running calls that replace those inside
        for name, tensor in named.items():
            self._know(tensor.array, Named(name))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record the calls of this thread within the context."""
        mode = thread.mode
        outer, mode.watch, mode.running = mode.watch, self, []
        try:
            with self, enable_grad():  # without recording, one kernel may compute several operators
                yield
        finally:
            mode.watch, mode.running = outer, None

    def resolve(self, value: Any) -> Any:
        """Return an argument with Known and Fixed in place of Tensors and of arrays seen before."""
        if isinstance(value, Tensor):
            return self._seen(value.array) or Fixed(value.array.copy())  # copied, as it may be changed in place later
        if isinstance(value, np.ndarray):
            return self._seen(value) or value
        if type(value) in (tuple, list):
            return type(value)(self.resolve(each) for each in value)
        return value

    def __call__(self, cls: type[Function], args: tuple[Any, ...]) -> Any:
        """Run instead of Function.apply."""
        mode = thread.mode
        if cls._user_defined and not self._hidden:
            return self._inside(cls, args)
        arguments = () if self._hidden or cls is Overwrite else tuple([self.resolve(arg) for arg in args])
        mode.watch = None
        self._hidden += 1
        try:
            output = _apply(cls, *args)
        finally:
            self._hidden -= 1
            mode.watch = self
        if cls is Put and id(args[2]) in self._indices:
            arguments = (*arguments[:2], self._indices[id(args[2])][1], *arguments[3:])
        if not self._hidden and cls is not Overwrite:
            self._add(cls, arguments, {}, output)
            if cls is GetItem:
                self._arrays[id(output.array)] = output.array
                self._cuts[id(output.array)] = args[0].array, args[1]
        return output

    @staticmethod
    def _inside(cls: type[Function], args: tuple[Any, ...]) -> Any:
        """Record the calls in a user's Function's forward in its place; its backward is not exported."""
        node = Node()
        node.function, node.saved, node.outputs, node.needs_input_grad = cls, (), None, (False,) * len(args)
        if cls._takes_ctx:
            return cls.forward(node, *args)
        output = cls.forward(*args)
        cls.setup_context(node, args, output)
        return output

    def call(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._hidden:
            return operator.run(args, kwargs)
        if operator in _READ:
            if not is_caller_in_package(_CALLER) and self._depends(self.resolve(args[0])):
                self.values_read.append((operator.name, self._path()))
            return operator.run(args, kwargs)
        if operator in self._functions:
            function, when = self._functions[operator]
            given = {name: self.resolve(value) for name, value in operator.named(args, kwargs).items()}
            if when(given):
                self._hidden += 1
                try:
                    result = operator.run(args, kwargs)
                finally:
                    self._hidden -= 1
                self._add(function, (), given, result)
                return result
        result = operator.run(args, kwargs)
        if operator is _OVERWRITE:
            self._change(result, args[1])
        elif operator is _PLACES:
            index = self.resolve(args[2])
            if self._depends(index):
                self._indices[id(result)] = result, index
        else:
            self._lose(operator, (*args, *kwargs.values()), result)
        return result

    def _lose(self, operator: Operator, arguments: tuple[Any, ...], result: Any) -> None:
        """Mark the results that an operator computed from an input without a recorded call."""
        new = (each for each in all_arrays(result) if each.size and id(each) not in self._fixed)
        made = [each for each in new if not self._seen(each)]
        if not made:
            return
        if operator.by_shape:
            self._fixed.update({id(each): each for each in made})
        elif any(self._depends(self.resolve(each)) for each in arguments):
            for array in made:
                self._know(array, Lost(operator.name, self._path()))

    def _depends(self, value: Any) -> bool:
        """Return whether a resolved value depends on an input."""
        if isinstance(value, (tuple, list)):
            return any(map(self._depends, value))
        if not isinstance(value, Known):
            return False
        origin = value.origin.origin if isinstance(value.origin, Reshaped) else value.origin
        if isinstance(origin, Named):
            return origin.name in self._inputs
        return isinstance(origin, Lost) or origin.call in self._from_inputs

    def _path(self) -> str:
        return next((found for each in reversed(thread.mode.running or ()) if (found := self._paths.get(id(each)))), "")

    def _add(self, operator: Any, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        """Record a call, unless it uses nothing recorded: its results are then constants."""
        if not any(has_known(each) for each in (*arguments, *named.values())):
            return
        outputs = tuple([array_of(item) for item in (output if isinstance(output, tuple) else (output,))])
        given = list(arrays_in((arguments, named)))
        for place, array in enumerate(outputs):
            if array is not None and not any(array is each for each in given):
                self._know(array, Result(len(self.calls), place))
        if any(map(self._depends, (*arguments, *named.values()))):
            self._from_inputs.add(len(self.calls))
        self.calls.append(Call(operator, arguments, named, outputs, self._path()))

    def _know(self, array: np.ndarray, origin: Any) -> None:
        self._origins[id(array)] = origin
        self._arrays[id(array)] = array
        if array.size and array.flags.c_contiguous:
            self._places[array.__array_interface__["data"][0], array.nbytes] = id(array)

    def _seen(self, array: np.ndarray) -> Known | None:
        key = self._key(array)
        narrow = array
        if key is None and 0 in array.strides and array.size:  # broadcast
            narrow = array[tuple(slice(None) if stride else slice(1) for stride in array.strides)]
            key = self._key(narrow)
        if key is None:
            return None
        origin = self._origins[key]
        if origin is _Stale:
            raise UnsupportedError(
                "onnx.export: a part of a tensor was changed in place, and the tensor was used again, which an ONNX "
                "graph cannot express; make the new tensor with cat, where or scatter"
            )
        if self._arrays[key].shape == array.shape:
            return Known(origin, array)
        origin = origin.origin if isinstance(origin, Reshaped) else origin
        return Known(Reshaped(origin, narrow.shape, None if narrow is array else array.shape), array)

    def _key(self, array: np.ndarray) -> int | None:
        """Return the id of the array that has this memory."""
        key = id(array)
        if key in self._origins:
            return key
        if not array.size or not array.flags.c_contiguous:
            return None
        found = self._places.get((array.__array_interface__["data"][0], array.nbytes))
        return None if found is None or self._arrays[found].dtype != array.dtype else found

    def _change(self, x: Tensor, written: Tensor) -> None:
        """Handle a change of x in place: x becomes the value just written, and other views of its memory become stale.

        If x is a view by an index, its base becomes the base with that value at the index.
        """
        value, array = self.resolve(written), x.array
        bases: list[tuple[np.ndarray, Any, Any]] = []
        while id(array) in self._cuts:
            base, index = self._cuts[id(array)]
            bases.append((base, index, self._before(base, index)))
            array = base
        state = self._origins.get(id(array))
        if isinstance(state, Named) and state.name not in self._inputs:
            raise UnsupportedError(
                f"onnx.export: the model changes {state.name!r} in place in each call, and an ONNX file keeps no "
                "state; make it an input and an output, or switch this off in eval mode"
            )
        for key, other in self._arrays.items():
            if key in self._origins and self._origins[key] is not _Stale and np.may_share_memory(other, array):
                self._origins[key] = _Stale
        self._write(x.array, value)
        for base, index, before in bases:
            if isinstance(before, Known) or isinstance(value, Known):
                outputs = (base,)
                if self._depends((before, value)):
                    self._from_inputs.add(len(self.calls))
                self.calls.append(Call(setitem, (before, value, index), {}, outputs, self._path()))
                value = Known(Result(len(self.calls) - 1, 0), base)
            else:
                value = Fixed(base.copy())
            self._write(base, value)

    def _before(self, base: np.ndarray, index: Any) -> Any:
        """Return the value of a base before a part of it was changed; the part itself does not matter."""
        known = self._seen(base)
        if known is not None:
            return known
        before = base.copy()
        before[index] = 0  # an array from rg.zeros is all 0 again
        return Fixed(before)

    def _write(self, array: np.ndarray, value: Any) -> None:
        """Set the current value of an array."""
        if isinstance(value, Known):
            self._know(array, value.origin)
        else:
            self._origins.pop(id(array), None)
            self._places.pop((array.__array_interface__["data"][0], array.nbytes), None)
