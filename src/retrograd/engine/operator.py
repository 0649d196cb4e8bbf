"""Operators: functions that users call, their descriptions, and the interpreters that see the calls.

An operator is an ordinary function with a description above it. Its first statement lets interpreters see the call:

    @operator(records=Silu)
    def silu(input: Tensor) -> Tensor:
        '''input * sigmoid(input).'''
        if interpreters and (found := interpreted(silu, locals())) is not None:
            return found
        return Silu.apply(input)

``silu`` stays this function; ``silu.operator`` is its ``Operator``. A function without that statement, such as a
user's, is wrapped in one that has it, which costs 0.2 us per call.

An interpreter sees the operator calls of this thread inside its ``with`` block. Backward rules, ONNX export and the
explanation page are interpreters. They form a stack: the innermost sees a call first and decides what runs.
``operator.run`` passes the call on to the next interpreter below, and finally to the function itself. Calls made by
that function start at the top of the stack again.

Models: ``primitive`` of HIPS/autograd, ``__torch_function__`` of PyTorch, the interpreters of JAX.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from .call_site import in_package
from .grad_mode import AttributeScope, thread

if TYPE_CHECKING:
    from .function import Function

_F = TypeVar("_F", bound=Callable[..., Any])
Domain = tuple[float, float]

# One entry for each interpreter that is entered, in any thread. It is almost always empty, so a call costs one test.
# If another thread has entered an interpreter, the call also checks its own thread.
interpreters: list[Interpreter] = []
_DTYPES = {
    "b": ("bool",),
    "i": ("uint8", "int8", "int16", "int32", "int64"),
    "h": ("float16",),
    "f": ("float32", "float64"),
}
OPERATORS: list[Operator] = []  # the operators of this package, in the order of definition


class Operator:
    """The description of an operator: its function, gradients, methods and element types.

    function: the function that users call, without the wrapper that accepts ``out=`` and NumPy's argument names.
    functions: the Functions that it records itself; empty if it is made of other operators or has no gradient.
    domains: for each operand of an element-wise operator, the range from which examples and tests draw it.
    methods: the names under which it is a method of Tensor. in_place: whether there are also methods ``name_``.
    numpy: the names of NumPy's element-wise functions that run this operator when applied to a Tensor.
    dtypes: the dtypes that its Tensors may have; empty if it takes no Tensor. For an in-place form, the result must
    also have the dtype that is overwritten.
    by_shape: whether its result depends only on shapes, dtypes and numbers, and on no element of a Tensor.
    """

    by_shape: bool
    functions: tuple[type[Function], ...]
    in_place: bool
    methods: tuple[str, ...]
    numpy: tuple[str, ...]
    domains: tuple[Domain, ...]
    function: Callable[..., Any]

    __slots__ = (
        *("_parameters", "by_shape", "domains", "dtypes", "function", "functions", "in_place", "methods", "name"),
        "numpy",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        functions: tuple[type[Function], ...] = (),
        domains: tuple[Domain, ...] = (),
        methods: str = "",
        in_place: bool = False,
        numpy: str = "",
        by_shape: bool = False,
        dtypes: str = "f",
    ) -> None:
        self.function, self.functions, self.domains, self.by_shape = function, functions, domains, by_shape
        self.methods, self.in_place, self.numpy = (*methods.split(),), in_place, (*numpy.split(),)
        self.dtypes: tuple[str, ...] = tuple([name for kind in dtypes for name in _DTYPES[kind]])
        self.name: str = function.__name__
        self._parameters: tuple[list[str], str, list[str], str] | None = None

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def __reduce__(self) -> Any:
        return _of, (self.function,)

    @property
    def moves(self) -> bool:
        """True if it only moves, copies or converts elements."""
        return bool(self.functions) and all(each.moves for each in self.functions)

    @property
    def mathematics(self) -> str:
        """Its name with the first line of its docstring, then one line with the gradient of each recorded Function.

        If that first line ends in a colon, the formula below it is added.
        """
        from ..explanation.backward_source import gradient_of

        first, _, rest = (inspect.getdoc(self.function) or "").partition("\n")
        if first.endswith(":"):
            first += f" {' '.join(rest.strip().partition(chr(10) * 2)[0].split())}"
        lines = [f"{self.name}: {first}" if first else self.name]
        for each in self.functions:
            lines.append("; ".join(f"{name}: {text}" if name else text for name, text in gradient_of(each)))
        return "\n".join(lines)

    @property
    def textbook(self) -> tuple[Callable[..., Any], ...]:
        """The plain NumPy functions that its Functions run on the kernel set "textbook"."""
        from ..explanation.source_map import stops_of, textbook_of

        names = dict.fromkeys([stop.name for stop in stops_of(self.function) if stop.role == "textbook"])
        return tuple([found for name in names if (found := textbook_of(name)) is not None])

    @property
    def numbers(self) -> dict[str, float]:
        """The numeric parameters besides its operands, with their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in parameters if type(each.default) in (int, float)}

    @property
    def page(self) -> str:
        """The name under which ``retrograd explain`` explains it; empty if it has no page."""
        from ..explanation.operators import names

        return self.name if self.name in names() else ""

    @property
    def onnx(self) -> tuple[str, ...]:
        """The ONNX operators that its export may consist of; empty if it is exported as the operators it is made of."""
        from ..onnx.exporting.converters.registry import written_for

        return written_for(self.function, *self.functions)

    def run(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leave_out: Callable[[Interpreter], bool] = lambda _: False
    ) -> Any:
        """Pass a call on from an interpreter's `call` to the interpreters below, or to the function itself.

        Outside an interpreter it is an ordinary call.

        leave_out: the interpreters that do not see the call.
        """
        mode = thread.mode
        level = mode.interpreter if mode.level is None else mode.level.below
        while level is not None and leave_out(level.interpreter):
            level = level.below
        mode.passed = self, level
        try:
            return self.function(*args, **kwargs)
        finally:
            mode.passed = None

    def arguments(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and keyword arguments from the values of all parameters by name."""
        if self._parameters is None:
            self._parameters = _parameters(self.function)
        by_place, rest, by_name, others = self._parameters
        args = tuple([values[name] for name in by_place])
        if rest:
            args += values[rest]
        kwargs = {name: values[name] for name in by_name}
        if others:
            kwargs.update(values[others])
        return args, kwargs

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return the values of all parameters by name from positional and keyword arguments."""
        bound = inspect.signature(self.function).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


def _parameters(function: Callable[..., Any]) -> tuple[list[str], str, list[str], str]:
    """Return the names of positional parameters, of ``*rest``, of keyword-only parameters and of ``**others``."""
    by_place, rest, by_name, others = [], "", [], ""
    for name, parameter in inspect.signature(function, follow_wrapped=False).parameters.items():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            by_place.append(name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            rest = name
        elif parameter.kind is parameter.KEYWORD_ONLY:
            by_name.append(name)
        else:
            others = name
    return by_place, rest, by_name, others


def _of(function: Any) -> Operator:
    found: Operator = function.operator
    return found


@overload
def operator(function: _F, /) -> _F: ...
@overload
def operator(
    *,
    records: type[Function] | tuple[type[Function], ...] = (),
    domains: tuple[Domain, ...] = (),
    methods: str = "",
    in_place: bool = False,
    numpy: str = "",
    by_shape: bool = False,
    dtypes: str = "f",
) -> Callable[[_F], _F]: ...
def operator(function: Any = None, /, *, records: Any = (), **about: Any) -> Any:
    """Make a function an operator: ``@operator`` or ``@operator(records=Softmax)``, with the Functions that it records.

    Rules, exports and other interpreters then see each call as a whole: ``override_backward(my_operator, rule)``.

    about: attributes of ``Operator``; separate several names by spaces. In dtypes, "b" means bool, "i" integers, "h"
        float16, and "f" float32 and float64.

    Raises:
        TypeError: records contains something other than Functions, an option is unknown, or the decorated object is not
            a function.
        ValueError: dtypes contains other letters.
    """
    functions = records if isinstance(records, tuple) else (records,)
    for each in functions:
        if not (isinstance(each, type) and hasattr(each, "apply")):
            raise TypeError(f"operator: records={each!r} must be a Function, or a tuple of several")
    unknown = {*about} - {"domains", "methods", "in_place", "numpy", "by_shape", "dtypes"}
    if unknown:
        raise TypeError(f"operator: unknown option {', '.join(sorted(unknown))}")
    if not {*about.get("dtypes", "")} <= {*_DTYPES}:
        raise ValueError(f"operator: dtypes={about['dtypes']!r} must be letters of {''.join(_DTYPES)!r}")
    declare = functools.partial(_declare, functions, about)
    return declare if function is None else declare(function)


def _declare(functions: tuple[type[Function], ...], about: dict[str, Any], function: Any) -> Any:
    if not inspect.isfunction(function):
        raise TypeError(f"operator: got {function!r}, expected a function written with def")
    made: Any = function if "interpreted" in function.__code__.co_names else _with_interpreters(function)
    made.operator = Operator(made, functions, **about)
    if in_package[function.__code__.co_filename]:
        OPERATORS.append(made.operator)
    return made


def _with_interpreters(function: Callable[..., Any]) -> Any:
    """Wrap a function in one that lets interpreters see the call."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if interpreters and (found := _interpret(call.operator, lambda: (args, kwargs))) is not None:  # type: ignore[attr-defined]
            return found
        return function(*args, **kwargs)

    return call


class Interpreter(AttributeScope):
    """Sees operator calls while it is entered: ``with Interpreter(): ...``; subclasses override `call`."""

    def __init__(self, then: Callable[[None], object] | None = None, flag: str = "interpreter") -> None:
        super().__init__(flag, functools.partial(_exit_interpreter, then) if flag == "interpreter" else then)

    def __enter__(self) -> Self:
        interpreters.append(self)
        self._set(Level(self, thread.mode.interpreter))
        return self

    def call(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of the call, never None; ``operator.run(args, kwargs)`` bypasses this interpreter."""
        return operator.run(args, kwargs)


def _exit_interpreter(then: Callable[[None], object] | None, _: None) -> None:
    interpreters.pop()
    if then is not None:
        then(None)


class Level:
    """A position on the stack of interpreters."""

    below: Level | None
    interpreter: Interpreter

    __slots__ = ("below", "interpreter")

    def __init__(self, interpreter: Interpreter, below: Level | None) -> None:
        self.interpreter, self.below = interpreter, below


def current_level() -> Level | None:
    """Return the top of this thread's stack."""
    found: Level | None = thread.mode.interpreter
    return found


def level_without(level: Level | None, interpreter: Interpreter) -> Level | None:
    """Return the stack without one interpreter."""
    if level is None:
        return None
    below = level_without(level.below, interpreter)
    if level.interpreter is interpreter:
        return below
    return level if below is level.below else Level(level.interpreter, below)


@contextmanager
def use_level(level: Level | None) -> Iterator[None]:
    """Use this interpreter stack for the calls of this thread within a block."""
    mode = thread.mode
    before, mode.interpreter = mode.interpreter, level
    if level is not None:
        interpreters.append(level.interpreter)
    try:
        yield
    finally:
        mode.interpreter = before
        if level is not None:
            interpreters.pop()


def interpreted(function: Any, values: dict[str, Any]) -> Any:
    """Return the innermost interpreter's result for a call; None if the function itself should run.

    values: the parameters by name; ``locals()`` of the function, before anything else is assigned.
    """
    operator: Operator = function.operator
    return _interpret(operator, lambda: operator.arguments(values))


def _interpret(operator: Operator, arguments: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]) -> Any:
    mode = thread.mode
    passed, mode.passed = mode.passed, None
    level = mode.interpreter if passed is None or passed[0] is not operator else passed[1]
    if level is None:
        return None
    before, mode.level = mode.level, level
    try:
        return level.interpreter.call(operator, *arguments())
    finally:
        mode.level = before
