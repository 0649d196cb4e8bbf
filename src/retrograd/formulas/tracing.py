"""Symbolic tracing of user formulas: symbols, the traced expression, and its source code.

A ``Trace`` is the list of the operations of a formula, without duplicates. Its source runs on Tensors, on arrays and on
registers; ``differentiation.py`` adds the operations of the gradient.

A user's function runs unchanged, but its calls are looked up first: a public operator becomes the primitive or formula
of this name, another user function is also run on symbols, and other operators are refused.
"""

from __future__ import annotations

import hashlib
import inspect
import linecache
import math
import numbers
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final

import numpy as np

from .primitive import PRIMITIVES
from .registry import form

# ---- Symbols, on which a formula is run to trace its operations -----------------------------------------------------

MOST_OPERATIONS = 1000  # loops make many; compiling more takes minutes
_SIGNS = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
_MOST_FACTORS = 16


class FormulaError(ValueError):
    """Raised when a formula cannot be compiled; the message says why."""


class Symbol:
    """A value in a formula: an element of an ``operand``, a scalar ``number``, or a boolean (``truth``)."""

    arguments: tuple[Symbol, ...]
    kind: str
    operation: str
    trace: Trace
    value: Any

    __slots__ = ("arguments", "kind", "operation", "place", "rule", "trace", "value")
    __hash__ = object.__hash__

    def __init__(self, trace: Trace, operation: str, arguments: tuple[Symbol, ...], kind: str, value: Any) -> None:
        self.trace, self.operation, self.arguments, self.kind, self.value = trace, operation, arguments, kind, value
        self.place: int = len(trace.symbols)
        self.rule: Any = None  # for a call: the declared gradient of the function

    @staticmethod
    def __primitive__(name: str, operands: tuple[Any, ...]) -> Symbol:
        trace = next(operand.trace for operand in operands if isinstance(operand, Symbol))
        return trace.primitive(name, operands)

    def __add__(self, other: Any) -> Symbol:
        return self.trace.arithmetic("+", self, other)

    def __radd__(self, other: Any) -> Symbol:
        return self.trace.arithmetic("+", other, self)

    def __sub__(self, other: Any) -> Symbol:
        return self.trace.arithmetic("-", self, other)

    def __rsub__(self, other: Any) -> Symbol:
        return self.trace.arithmetic("-", other, self)

    def __mul__(self, other: Any) -> Symbol:
        return self.trace.arithmetic("*", self, other)

    def __rmul__(self, other: Any) -> Symbol:
        return self.trace.arithmetic("*", other, self)

    def __truediv__(self, other: Any) -> Symbol:
        return self.trace.arithmetic("/", self, other)

    def __rtruediv__(self, other: Any) -> Symbol:
        return self.trace.arithmetic("/", other, self)

    def __neg__(self) -> Symbol:
        return self.trace.negative(self)

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Symbol:
        return self.trace.primitive("absolute", (self,))

    def __pow__(self, power: Any) -> Symbol:
        if isinstance(power, numbers.Real):
            exponent = float(power)
            if exponent == 0.5:
                return self.trace.primitive("sqrt", (self,))
            if exponent.is_integer() and 1 <= abs(exponent) <= _MOST_FACTORS:
                product: Symbol = self.trace.product(self, abs(int(exponent)))
                return product if exponent > 0 else 1.0 / product
        raise FormulaError(
            f"** {power!r}: powers of operands are 0.5 and whole numbers from 1 to {_MOST_FACTORS}, or -1 to "
            f"-{_MOST_FACTORS}; write rg.exp(p * rg.log(x)) for x ** p"
        )

    def __rpow__(self, base: Any) -> Symbol:
        if isinstance(base, numbers.Real) and base == 2:
            return self.trace.primitive("exp2", (self,))
        raise FormulaError(f"{base!r} ** x: the only base allowed here is 2; write rg.exp(x * math.log({base!r}))")

    def __lt__(self, other: Any) -> Symbol:
        return self.trace.comparison("<", self, other)

    def __le__(self, other: Any) -> Symbol:
        return self.trace.comparison("<=", self, other)

    def __gt__(self, other: Any) -> Symbol:
        return self.trace.comparison(">", self, other)

    def __ge__(self, other: Any) -> Symbol:
        return self.trace.comparison(">=", self, other)

    def __eq__(self, other: Any) -> Symbol:  # type: ignore[override]
        return self.trace.comparison("==", self, other)

    def __ne__(self, other: Any) -> Symbol:  # type: ignore[override]
        return self.trace.comparison("!=", self, other)

    def __and__(self, other: Any) -> Symbol:
        return self.trace.connective("and", self, other)

    def __or__(self, other: Any) -> Symbol:
        return self.trace.connective("or", self, other)

    def __invert__(self) -> Symbol:
        return self.trace.connective("not", self)

    __rand__: Final = __and__
    __ror__: Final = __or__

    def __bool__(self) -> bool:
        raise FormulaError(
            "if, while, and, or, not, min and max need one truth value, and each element has its own; "
            "choose with rg.where(condition, x, y), and combine conditions with &, | and ~"
        )

    def __float__(self) -> float:
        raise FormulaError("float, int and the functions of math take one number; use those of retrograd, as rg.exp(x)")

    __int__: Final = __float__
    __index__: Final = __float__

    def __iter__(self, *place: Any) -> Any:
        raise FormulaError("a formula computes one element: no loop over an operand, no index, no length")

    __len__: Final = __iter__
    __getitem__: Final = __iter__

    def __array_ufunc__(self, ufunc: Any, method: str, *values: Any, **options: Any) -> Any:
        """A NumPy number on the left side of an operator."""
        name = ufunc.__name__
        sign = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/"}.get(name)
        if method == "__call__" and len(values) == 2 and sign:
            return self.trace.arithmetic(sign, *values)
        if method == "__call__" and name in _SIGNS:
            return self.trace.comparison(_SIGNS[name], *values)
        raise FormulaError(f"np.{name} is a function of arrays; use those of retrograd, as rg.exp(x)")

    def __array_function__(self, function: Any, kinds: Any, values: Any, options: Any) -> Any:
        raise FormulaError(f"np.{function.__name__} is a function of arrays; use those of retrograd, as rg.where")

    def __getattr__(self, name: str) -> Any:
        primitive = "absolute" if name == "abs" else name
        if primitive in PRIMITIVES and len(form(PRIMITIVES[primitive]).operands) == 1:
            return lambda: self.trace.primitive(primitive, (self,))
        if name.startswith("__"):
            raise AttributeError(name)
        raise FormulaError(
            f".{name} is not defined for one element; of the methods of Tensors use those of one operand, as x.exp()"
        )


class Trace:
    """The operations of a formula. ``simplify``: omit products with 1, sums with 0 and the like."""

    def __init__(self, operands: list[str], numbers: list[str]) -> None:
        self.symbols: list[Symbol] = []
        self._known: dict[Any, Symbol] = {}
        self.simplify = False
        self.operands: list[Symbol] = [self.make("parameter", (), "operand", name) for name in operands]
        self.numbers: list[Symbol] = [self.make("parameter", (), "number", name) for name in numbers]

    @property
    def parameters(self) -> list[Symbol]:
        """All parameters: operands, then numbers."""
        return self.operands + self.numbers

    def make(self, operation: str, arguments: tuple[Symbol, ...], kind: str, value: Any = None) -> Symbol:
        """The symbol of an operation; equal operations share one."""
        key = operation, tuple(argument.place for argument in arguments), value
        symbol = self._known.get(key)
        if symbol is None:
            if len(self.symbols) >= MOST_OPERATIONS:
                raise FormulaError(f"it takes more than {MOST_OPERATIONS} operations; make it shorter")
            symbol = self._known[key] = Symbol(self, operation, arguments, kind, value)
            self.symbols.append(symbol)
        return symbol

    def literal(self, number: float) -> Symbol:
        """A constant. (0.0 and -0.0 differ, all NaN are one.)"""
        return self.make("literal", (), "number", repr(number))

    def symbol(self, value: Any) -> Symbol:
        """A value in the formula as a symbol: a condition becomes 1 or 0."""
        if isinstance(value, Symbol):
            if value.trace is not self:
                raise FormulaError("a value of another formula was kept; pass it as an operand")
            return self.where(value, 1.0, 0.0) if value.kind == "truth" else value
        if isinstance(value, numbers.Real | np.bool_):
            try:
                return self.literal(float(value))
            except OverflowError:
                raise FormulaError("a constant is larger than any floating-point number; use math.inf") from None
        raise FormulaError(
            f"a {type(value).__name__} is not a constant; constants of a formula are numbers; pass it as an operand"
        )

    def full(self, value: Any) -> Symbol:
        """A value for each element."""
        symbol = self.symbol(value)
        if symbol.kind == "operand":
            return symbol
        return self.make("full_like", (self.operands[0], symbol), "operand")

    def arithmetic(self, sign: str, left: Any, right: Any) -> Symbol:
        """left + right and so on"""
        x, y = self.symbol(left), self.symbol(right)
        if self.simplify and (found := self._simpler(sign, x, y)) is not None:
            return found
        if sign == "/" and x.kind == y.kind == "number":
            x = self.full(x)  # Python's division by 0 raises an error
        return self.make(sign, (x, y), "operand" if "operand" in (x.kind, y.kind) else "number")

    def _simpler(self, sign: str, x: Symbol, y: Symbol) -> Symbol | None:
        a, b = (value.value if value.operation == "literal" else None for value in (x, y))
        if sign in "*/" and b == "1.0" or sign in "+-" and b in ("0.0", "-0.0"):
            return x
        if sign == "*" and a == "1.0" or sign == "+" and a in ("0.0", "-0.0"):
            return y
        if sign in "*/" and b == "-1.0":
            return self.negative(x)
        if sign == "*" and a == "-1.0" or sign == "-" and a in ("0.0", "-0.0"):
            return self.negative(y)
        if sign in "+-" and y.operation == "negative":
            return self.arithmetic("-" if sign == "+" else "+", x, y.arguments[0])
        if sign == "+" and x.operation == "negative":
            return self.arithmetic("-", y, x.arguments[0])
        return None

    def negative(self, value: Any) -> Symbol:
        """-x"""
        x = self.symbol(value)
        if x.operation == "literal":
            return self.literal(-float(x.value))
        if self.simplify and x.operation == "negative":
            return x.arguments[0]
        return self.make("negative", (x,), x.kind)

    def product(self, x: Any, count: int) -> Any:
        """x**count by squares"""
        if count == 1:
            return x
        half = self.product(x, count // 2)
        return half * half * x if count % 2 else half * half

    def comparison(self, sign: str, left: Any, right: Any) -> Symbol:
        """left < right and so on"""
        x, y = self.symbol(left), self.symbol(right)
        if "operand" not in (x.kind, y.kind):
            x = self.full(x)
        return self.make(sign, (x, y), "truth")

    def connective(self, name: str, *conditions: Any) -> Symbol:
        """Combine conditions by "and", "or" or "not"."""
        for condition in conditions:
            if not isinstance(condition, Symbol) or condition.kind != "truth":
                raise FormulaError("&, | and ~ combine conditions; put comparisons into parentheses: (x > 0) & (x < 1)")
        return self.make(name, conditions, "truth")

    def where(self, condition: Any, left: Any, right: Any) -> Symbol:
        """left where the condition holds, right elsewhere; combined conditions become nested choices"""
        if isinstance(condition, bool | np.bool_):
            return self.symbol(left if condition else right)
        if not isinstance(condition, Symbol) or condition.kind != "truth":
            raise FormulaError("where needs a condition, such as x > 0, before the two values")
        parts = condition.arguments
        if condition.operation == "not":
            return self.where(parts[0], right, left)
        if condition.operation == "and":
            return self.where(parts[0], self.where(parts[1], left, right), right)
        if condition.operation == "or":
            return self.where(parts[0], left, self.where(parts[1], left, right))
        x, y = self.symbol(left), self.symbol(right)
        if x is y:
            return self.full(x)
        if x.kind == y.kind == "number":
            x = self.full(x)
        return self.make("where", (condition, x, y), "operand")

    def primitive(self, name: str, operands: tuple[Any, ...]) -> Symbol:
        """A call of a primitive."""
        if name == "where":
            return self.where(*operands)
        if name == "full_like":
            return self.full(operands[1])
        return self.make(name, tuple(self.full(operand) for operand in operands), "operand")

    def call(self, result: Symbol, arguments: list[Symbol], rule: Any) -> Symbol:
        """The result of a function with a declared gradient: ``rule(g, result, *arguments)``."""
        if result.kind != "operand":
            return result
        symbol = self.make("call", (result, *arguments), "operand", rule)
        symbol.rule = rule
        return symbol


CONSTANTS = {"inf": math.inf, "nan": math.nan}  # numbers written by name


# ---- The source of a trace: a readable function that runs on Tensors, on arrays and on registers --------------------

_SUM, _PRODUCT, _NEGATIVE, _ATOM = 1, 2, 3, 4  # precedence, increasing
_BINDS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_LONG = 72  # characters, beyond which a value gets a name
NAMES: dict[str, Any] = {**PRIMITIVES, **CONSTANTS}  # names that the source may use


def inner(symbol: Symbol) -> Symbol:
    """The operation that computes a value: for a call, the last one of the function."""
    while symbol.operation == "call":
        symbol = symbol.arguments[0]
    return symbol


def function(name: str, comment: str, trace: Trace, results: list[Symbol]) -> Callable[..., Any]:
    """The function of a trace's parameters that returns the results.

    Its attributes ``source`` and ``digest`` are its source code and a hash of its parameters and body.
    """
    body = _body(trace, results)
    parameters = [parameter.value for parameter in trace.operands]
    parameters += [f"{parameter.value}: float" for parameter in trace.numbers]
    digest = hashlib.sha256("\n".join((*parameters, *body)).encode()).hexdigest()[:32]
    lines = [f"def {name}({', '.join(parameters)}):", f"    # {comment}", *("    " + line for line in body)]
    source = "\n".join(lines) + "\n"
    file = f"<formula {name} {hashlib.sha256(source.encode()).hexdigest()[:16]}>"  # a file name per source
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    scope: dict[str, Any] = {**NAMES, "__name__": __package__}
    exec(compile(source, file, "exec", dont_inherit=True), scope)
    made: Callable[..., Any] = scope[name]
    made.digest = made.kernel = digest  # type: ignore[attr-defined]
    made.source, made.results = source, len(results)  # type: ignore[attr-defined]
    return made


def _body(trace: Trace, results: list[Symbol]) -> list[str]:
    """The lines of the function: a value that is used twice, or is long, gets a name."""
    results = [inner(result) for result in results]
    uses = _uses(results)
    used_names = {parameter.value for parameter in trace.parameters} | NAMES.keys()
    names = (name for number in range(1, 2 * len(trace.symbols) + 2) if (name := f"t{number}") not in used_names)
    sources: dict[int, tuple[str, int]] = {}
    lines = []
    for symbol in trace.symbols:
        if symbol.place not in uses:
            continue
        source, binds = expression(symbol, [sources[inner(each).place] for each in symbol.arguments])
        if symbol.arguments and (uses[symbol.place] > 1 or len(source) > _LONG):
            local = next(names)
            lines.append(f"{local} = {source}")
            source, binds = local, _ATOM
        sources[symbol.place] = source, binds
    return [*lines, "return " + ", ".join(sources[result.place][0] for result in results)]


def _uses(results: list[Symbol]) -> dict[int, int]:
    """The number of uses of each value that the results need."""
    uses: dict[int, int] = {}
    waiting = list(results)
    while waiting:
        symbol = waiting.pop()
        uses[symbol.place] = uses.get(symbol.place, 0) + 1
        if uses[symbol.place] == 1:
            waiting += [inner(argument) for argument in symbol.arguments]
    return uses


def expression(symbol: Symbol, parts: list[tuple[str, int]]) -> tuple[str, int]:
    """The source of one operation, given that of its operands, and its precedence."""

    def at_least(part: tuple[str, int], level: int) -> str:
        return part[0] if part[1] >= level else f"({part[0]})"

    operation = symbol.operation
    if operation in ("parameter", "literal"):
        return symbol.value, _NEGATIVE if symbol.value.startswith("-") else _ATOM
    if operation in _BINDS:
        binds, right = _BINDS[operation], parts[1]
        if operation in "+-" and symbol.arguments[1].operation == "literal" and right[0].startswith("-"):
            operation, right = "-" if operation == "+" else "+", (right[0][1:], _ATOM)
        return f"{at_least(parts[0], binds)} {operation} {at_least(right, binds + 1)}", binds
    if operation == "negative":
        return f"-{at_least(parts[0], _ATOM)}", _NEGATIVE
    if operation in _COMPARISONS:
        return f"{parts[0][0]} {operation} {parts[1][0]}", 0
    return f"{operation}({', '.join(source for source, _ in parts)})", _ATOM


# ---- Running a user's function on symbols ---------------------------------------------------------------------------

_PACKAGE = __name__.partition(".")[0]
_MARK = "__run_on_symbols__"  # in the globals of functions that run on symbols


class Replacements:
    """Replacements of public functions for runs on symbols, by object."""

    def __init__(self, known: Mapping[Callable[..., Any], Callable[..., Any]]) -> None:
        self._known = {id(function): replacement for function, replacement in known.items()}
        self._known.update((id(function), function) for function in PRIMITIVES.values())
        self._kept = list(known)  # keeps the objects alive, so that their ids stay valid
        self.names: list[str] = sorted({function.__name__ for function in (*known, *PRIMITIVES.values())})

    def of(self, value: Any, clones: dict[int, Any]) -> Any:
        """The replacement of a value in a function that runs on symbols."""
        if id(value) in self._known:
            return self._known[id(value)]
        if isinstance(value, FunctionType) and hasattr(value, "operator") and hasattr(value, "__wrapped__"):
            return self.of(value.__wrapped__, clones)  # the operator in another call form
        if isinstance(value, ModuleType):
            return _Module(value, self, clones)
        if isinstance(value, FunctionType):
            if value.__module__ and value.__module__.partition(".")[0] == _PACKAGE:
                return self._refusal(value.__name__)
            return self.clone(value, clones)
        return value

    def _refusal(self, name: str) -> Callable[..., Any]:
        def refuse(*values: Any, **options: Any) -> Any:
            raise FormulaError(
                f"{name} is not a function of single elements that formulas know; these are {', '.join(self.names)}"
            )

        return refuse

    def clone(self, function: FunctionType, clones: dict[int, Any]) -> Any:
        """Return the function with its global names and closure variables replaced."""
        if id(function) in clones:
            return clones[id(function)]
        scope: dict[str, Any] = {**function.__globals__, _MARK: True}
        cells = tuple(CellType() for _ in function.__closure__ or ())
        copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)
        copy.__kwdefaults__ = function.__kwdefaults__
        clones[id(function)] = copy
        for name in _names(function.__code__):
            if name in scope:
                scope[name] = self.of(scope[name], clones)
        for cell, own in zip(cells, function.__closure__ or (), strict=True):
            try:
                cell.cell_contents = self.of(own.cell_contents, clones)
            except ValueError:  # not bound yet; unbound in the copy, too
                continue
        return copy


class _Module:
    """A module used in a function that runs on symbols."""

    def __init__(self, module: ModuleType, replacements: Replacements, clones: dict[int, Any]) -> None:
        self._module, self._replacements, self._clones = module, replacements, clones

    def __getattr__(self, name: str) -> Any:
        return self._replacements.of(getattr(self._module, name), self._clones)


def _names(code: CodeType) -> set[str]:
    """The global names in a code object and in its nested functions."""
    inside = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inside)


def run(name: str, function: FunctionType, arguments: list[Any], replacements: Replacements) -> Any:
    """Return the result of a user's function on symbols.

    Raises:
        FormulaError: it cannot be run on symbols; the message gives file, line and reason.
    """
    try:
        return replacements.clone(function, {})(*arguments)
    except RecursionError:
        raise FormulaError(f"{place(name, function)}: it recurses without end") from None
    except Exception as error:
        if isinstance(error, FormulaError) and getattr(error, "located", False):
            raise
        reason = str(error) if isinstance(error, FormulaError) else f"{type(error).__name__}: {error}"
        if isinstance(error, NameError) and error.name in NAMES:
            reason += f"; from {_PACKAGE}.formulas import {error.name}"
        located = FormulaError(f"{_where(name, function, error)}: {reason}")
        located.located = True  # type: ignore[attr-defined]
        raise located from None


def _where(name: str, function: FunctionType, error: BaseException) -> str:
    """Return the innermost line of user code in the traceback of an error."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if _MARK in trace.tb_frame.f_globals:
            found = trace
        trace = trace.tb_next
    if found is None:
        return place(name, function)
    file, line = found.tb_frame.f_code.co_filename, found.tb_lineno
    source = linecache.getline(file, line).strip()
    return f"formula {name}: {file}, line {line}: {source}"


def place(name: str, function: FunctionType) -> str:
    """The location of a function, for a message."""
    return f"formula {name}: {function.__code__.co_filename}, line {function.__code__.co_firstlineno}"


def require_source(name: str, function: FunctionType) -> None:
    """Refuse a function whose source cannot be found.

    Raises:
        FormulaError: it cannot be found; the message says what to do.
    """
    try:
        inspect.getsource(function)
    except (OSError, TypeError):
        raise FormulaError(
            f"{place(name, function)}: its source cannot be found, and a formula must have one; save it to a file"
        ) from None
