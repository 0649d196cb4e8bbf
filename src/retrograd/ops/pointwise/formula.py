"""`formula`: makes a differentiable pointwise operator from a Python function."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache, update_wrapper
from inspect import signature
from types import FunctionType
from typing import Any

from ...engine.arguments import kind_name
from ...engine.function import Function
from ...engine.tensor import Tensor
from ...formulas import FORMULAS, PRIMITIVES, form
from ...formulas.differentiation import derive, rule_of
from ...formulas.tracing import NAMES, FormulaError, Replacements, Symbol, Trace, function, place, require_source, run
from .. import creation
from ..argument_checks import as_real, is_number
from ..dtypes.promotion import floats
from ..shape.broadcasting import broadcast_shape, expand
from . import activation, arithmetic, comparison, exponential, piecewise, rounding, trigonometry
from .pointwise import make_function

__all__: list[str] = []


# ---- Public operators on symbols, inside user-defined formulas ------------------------------------------------------

_MODULES = (arithmetic, comparison, trigonometry, exponential, rounding, piecewise, activation)
_SELU = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _builtin(name: str, kernel: str = "") -> Callable[..., Any]:
    """Apply a built-in formula to symbols, with the gradients declared for ``name``."""
    value, rule = FORMULAS[kernel or name], rule_of(name, kernel)
    one = form(value)

    def call(*values: Any) -> Any:
        trace = next((each.trace for each in values if isinstance(each, Symbol)), None)
        if trace is None:
            return value(*values)
        count = len(one.operands)
        symbols = [trace.full(each) for each in values[:count]] + [trace.symbol(each) for each in values[count:]]
        result = value(*symbols)
        return result if rule is None else trace.call(trace.full(result), symbols, rule)

    call.__name__ = name
    return call


def _with_defaults(function: Any, formula: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap the formula so that its numbers may be passed by name or omitted, as in a call of the operator."""
    numbers = getattr(function, "operator", None) and function.operator.numbers
    if not numbers or name not in FORMULAS or len(form(FORMULAS[name]).numbers) != len(numbers):
        return formula
    call = signature(function)

    def with_defaults(*args: Any, **kwargs: Any) -> Any:
        bound = call.bind(*args, **kwargs)
        bound.apply_defaults()
        values = [*bound.arguments.values()]
        return formula(*values[: len(form(FORMULAS[name]).operands) + len(numbers)])

    return with_defaults


@cache
def symbolic_operators() -> Replacements:
    """Return the public operators' counterparts that act on symbols."""
    builtin = {name: _builtin(name) for name in FORMULAS if not name.endswith("_grad")}
    builtin |= PRIMITIVES  # one function under both names
    known: dict[Callable[..., Any], Callable[..., Any]] = {
        formula: _builtin(name) for name, formula in FORMULAS.items() if not name.endswith("_grad")
    }
    for module in _MODULES:
        for name in module.__all__:
            formula = builtin.get(name)
            if formula is not None:
                function = getattr(module, name)
                known[function] = _with_defaults(function, formula, name)
    alpha, scale = _SELU
    hardtanh = _builtin("hardtanh", "clamp")

    def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
        y = input if min is None else PRIMITIVES["where"](input < min, min, input)
        return y if max is None else PRIMITIVES["where"](y > max, max, y)

    def round(input: Any, *, decimals: int = 0) -> Any:
        if not decimals:
            return builtin["nearest"](input)
        return builtin["round_places" if decimals > 0 else "round_tens"](input, 10.0 ** max(decimals, -decimals))

    def nan_to_num(input: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
        if posinf is None or neginf is None:
            raise FormulaError("nan_to_num: name posinf and neginf, which depend on the type of input")
        return builtin["nan_to_num"](input, nan, posinf, neginf)

    def logit(input: Any, eps: float | None = None) -> Any:
        return builtin["logit"](input, *((-math.inf, math.inf) if eps is None else (eps, 1.0 - eps)))

    def lerp(input: Any, end: Any, weight: Any) -> Any:
        is_operand = isinstance(weight, Symbol) and weight.kind == "operand"
        return builtin["lerp" if is_operand else "lerp_number"](input, end, weight)

    known |= {
        rounding.round: round,
        creation.full_like: PRIMITIVES["full_like"],
        creation.zeros_like: lambda x: PRIMITIVES["full_like"](x, 0.0),
        creation.ones_like: lambda x: PRIMITIVES["full_like"](x, 1.0),
        arithmetic.add: lambda x, y, *, alpha=1: x + y * alpha,
        arithmetic.sub: lambda x, y, *, alpha=1: x - y * alpha,
        arithmetic.mul: lambda x, y: x * y,
        arithmetic.div: lambda x, y: x / y,
        arithmetic.true_divide: lambda x, y: x / y,
        arithmetic.lerp: lerp,
        arithmetic.addcmul: lambda x, y, z, *, value=1.0: x + y * z * value,
        arithmetic.addcdiv: lambda x, y, z, *, value=1.0: x + y / z * value,
        arithmetic.positive: lambda x: x,
        comparison.gt: lambda x, y: x > y,
        comparison.ge: lambda x, y: x >= y,
        comparison.logical_and: lambda x, y: x & y,
        comparison.logical_or: lambda x, y: x | y,
        comparison.logical_not: lambda x: ~x,
        exponential.logit: logit,
        exponential.pow: lambda x, p: x**p,
        exponential.square: lambda x: x * x,
        piecewise.clamp: clamp,
        piecewise.clamp_min: lambda x, min: clamp(x, min),
        piecewise.clamp_max: lambda x, max: clamp(x, None, max),
        piecewise.nan_to_num: nan_to_num,
        activation.threshold: lambda x, threshold, value: builtin["threshold"](x, threshold, value),
        activation.hardtanh: lambda x, min_val=-1.0, max_val=1.0: hardtanh(x, min_val, max_val),
        activation.relu6: lambda x: hardtanh(x, 0.0, 6.0),
        activation.gelu: lambda x, approximate="none": builtin["gelu_tanh" if approximate == "tanh" else "gelu"](x),
        activation.logsigmoid: builtin["log_sigmoid"],
        activation.elu: lambda x, alpha=1.0: builtin["elu"](x, alpha, 1.0, 1.0),
        activation.celu: lambda x, alpha=1.0: builtin["elu"](x, alpha, 1.0, 1.0 / alpha),
        activation.selu: lambda x: builtin["elu"](x, alpha * scale, scale, 1.0),
    }
    return Replacements(known)


# ---- User-defined pointwise operators: `formula` --------------------------------------------------------------------

_MOST_OPERANDS, _MOST_NUMBERS = 2, 3


class Formula:
    """An operator made by `formula`; call it with Tensors.

    function: the operator's Function.
    source: the compiled source of the operator and its gradient, which can be copied and edited.
    """

    function: type[Function]
    _gradient: Any

    def __init__(self, written: FunctionType) -> None:
        if not isinstance(written, FunctionType):
            raise TypeError(f"formula: expected a function, got {kind_name(written)}")
        update_wrapper(self, written)
        self._written, self._name = written, written.__name__
        require_source(self._name, written)
        self._operands, self._numbers, self._defaults = self._parameters()
        self._plain = not self._numbers
        self._declared: FunctionType | None = None
        trace = Trace(self._operands, self._numbers)
        self._value = function(
            self._name, f"{self._name}, as it is compiled", trace, [self._apply_to_symbols(trace.parameters)]
        )
        try:
            self._use_gradient(*self._derived())
        except FormulaError as error:
            self._refuse_backward(str(error))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._plain or kwargs or len(args) != len(self._operands):
            args = self._arguments(args, kwargs)
        x = args[0]
        if len(self._operands) == 1 and isinstance(x, Tensor) and x.array.dtype.kind == "f":
            return self.function.apply(*args)
        return self._checked(args)

    def __repr__(self) -> str:
        return f"<formula {self._name}{inspect.signature(self._written)}>"

    def __reduce__(self) -> str:
        return self._written.__qualname__  # pickled by name, like a function; a copy is the same object

    @property
    def source(self) -> str:
        sources: list[Any] = [text for text in (self._value, self._gradient) if text is not None]
        names = sorted({name for text in sources for name in text.__code__.co_names if name in NAMES})
        begin = f"from {NAMES['exp'].__module__.rpartition('.')[0]} import {', '.join(names)}\n\n\n" if names else ""
        return begin + "\n\n".join(each.source for each in sources)

    def gradient(self, written: FunctionType) -> FunctionType:
        """Declare the gradient as a function of g, the gradient of the result, and the formula's parameters.

        With two operands it returns two gradients. Formulas that already call this one keep its previous gradient.

        Raises:
            ValueError: it cannot be compiled or has other parameters; the message gives file, line and reason.
        """
        if not isinstance(written, FunctionType):
            raise TypeError(f"{self._name}.gradient: expected a function, got {kind_name(written)}")
        require_source(written.__name__, written)
        expected = [self._g, *self._operands, *self._numbers]
        count = len(inspect.signature(written).parameters)
        if count != len(expected):
            raise FormulaError(
                f"{place(written.__name__, written)}: a gradient of {self._name} has the parameters "
                f"{', '.join(expected)}, got {count} of them"
            )
        before, self._declared = self._declared, written
        trace = Trace([self._g, *self._operands], self._numbers)
        try:
            gradients = [trace.full(each) for each in self._rule(trace.parameters[0], None, *trace.parameters[1:])]
        except FormulaError:
            self._declared = before
            raise
        self._use_gradient(trace, gradients)
        return written

    @property
    def _g(self) -> str:
        """Return the name of the upstream gradient: g, unless a parameter has that name."""
        return next(name for name in ("g", "gy", "gz", "gg", "g_", "g__") if name not in self._operands + self._numbers)

    def _parameters(self) -> tuple[list[str], list[str], dict[str, float]]:
        """Return the names of operands and numbers, and the defaults of the numbers."""
        operands: list[str] = []
        numbers: list[str] = []
        defaults: dict[str, float] = {}
        at = place(self._name, self._written)
        if not self._name.isidentifier():
            raise FormulaError(f"{at}: it has no name; write it with def")
        for name, parameter in inspect.signature(self._written).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise FormulaError(f"{at}: *{name} is any number of parameters; name each")
            if name in NAMES:
                raise FormulaError(f"{at}: the parameter {name} hides the function of this name; choose another name")
            if parameter.annotation in (float, "float"):
                numbers.append(name)
                if parameter.default is not parameter.empty:
                    defaults[name] = self._number(name, parameter.default)
            elif parameter.annotation in (int, "int", bool, "bool"):
                raise FormulaError(f"{at}: {name} is {parameter.annotation}; numbers are annotated as float")
            elif numbers:
                raise FormulaError(
                    f"{at}: the operand {name} follows a number; operands come first, then the numbers, which are "
                    "annotated as float"
                )
            elif parameter.kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty:
                raise FormulaError(f"{at}: {name} has a default or is keyword-only; annotate numbers as float")
            else:
                operands.append(name)
        if not 1 <= len(operands) <= _MOST_OPERANDS or len(numbers) > _MOST_NUMBERS:
            raise FormulaError(
                f"{at}: it has {len(operands)} operands and {len(numbers)} numbers; a formula has one or two operands "
                f"and up to {_MOST_NUMBERS} numbers, which are annotated as float"
            )
        return operands, numbers, defaults

    def _number(self, label: str, value: Any) -> float:
        if not is_number(value):
            raise TypeError(f"{self._name}: {label} is {kind_name(value)}, needs a number")
        return as_real(self._name, label, value)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Return operands and numbers in order."""
        try:
            bound = inspect.signature(self._written).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        given = self._defaults | bound.arguments
        numbers = [given[name] for name in self._numbers]
        return (
            *(given[name] for name in self._operands),
            *(
                number if isinstance(number, Symbol) else self._number(name, number)
                for name, number in zip(self._numbers, numbers, strict=True)
            ),
        )

    def _checked(self, args: tuple[Any, ...]) -> Any:
        """Return the result for Tensors, arrays or symbols."""
        if any(isinstance(value, Symbol) for value in args):
            return self._inline(args)
        count = len(self._operands)
        tensors = floats(self._name, **dict(zip(self._operands, args[:count], strict=True)))
        if count == 2 and tensors[0].array.shape != tensors[1].array.shape:
            shape = broadcast_shape(self._name, tensors[0].array.shape, tensors[1].array.shape)
            tensors = (*(expand(tensor, shape) for tensor in tensors),)
        return self.function.apply(*tensors, *args[count:])

    def _inline(self, args: tuple[Any, ...]) -> Symbol:
        """Apply the formula inside another formula."""
        trace: Trace = next(value.trace for value in args if isinstance(value, Symbol))
        count = len(self._operands)
        symbols = [trace.full(value) for value in args[:count]] + [trace.symbol(value) for value in args[count:]]
        for name, symbol in zip(self._numbers, symbols[count:], strict=True):
            if symbol.kind != "number":
                raise FormulaError(f"{self._name}: {name} is one number for all elements, not one of each")
        result = trace.full(self._apply_to_symbols(symbols))
        return result if self._declared is None else trace.call(result, symbols, self._rule)

    def _apply_to_symbols(self, arguments: list[Symbol]) -> Symbol:
        """Apply the formula to symbols."""
        return self._single_result(
            self._written, run(self._name, self._written, arguments, symbolic_operators()), arguments
        )

    def _single_result(self, written: FunctionType, result: Any, arguments: list[Symbol]) -> Symbol:
        """Check that a function returned one value, and return it."""
        if isinstance(result, Symbol) and result.kind == "truth":
            reason = "it returns a condition; return numbers, as rg.where(x > 0, 1.0, 0.0) does"
        elif isinstance(result, Symbol) or is_number(result):
            return arguments[0].trace.full(result)
        else:
            reason = f"it returns {type(result).__name__ if result is not None else 'nothing'}, expected one value"
        raise FormulaError(f"{place(written.__name__, written)}: {reason}")

    def _rule(self, g: Symbol, _: Any, *arguments: Symbol) -> list[Symbol]:
        """Return the declared gradients on symbols, one for each operand."""
        written = self._declared
        assert written is not None
        results = run(written.__name__, written, [g, *arguments], symbolic_operators())
        if len(self._operands) == 1:
            results = (results,)
        elif not isinstance(results, tuple) or len(results) != len(self._operands):
            raise FormulaError(
                f"{place(written.__name__, written)}: it must return a tuple of {len(self._operands)} gradients, "
                f"of {' and '.join(self._operands)}"
            )
        return [self._single_result(written, result, [g]) for result in results]

    def _derived(self) -> tuple[Trace, list[Symbol]]:
        """Derive the gradient of each operand from the formula."""
        trace = Trace([self._g, *self._operands], self._numbers)
        g, *operands = trace.operands
        return trace, derive(trace, self._apply_to_symbols(trace.parameters[1:]), g, operands)

    def _use_gradient(self, trace: Trace, gradients: list[Symbol]) -> None:
        """Use these gradients in the backward pass."""
        kind = "as it is compiled" if self._declared else "derived"
        comment = f"gradient of {self._name}, {kind}; what it calls is in {Symbol.__module__.rpartition('.')[0]}"
        name = f"{self._name}_grad"
        self._gradient = function(name, comment, trace, gradients)
        parts, fused = [self._gradient], None
        if len(gradients) > 1:
            pairs = zip(self._operands, gradients, strict=True)
            parts, fused = [function(f"{name}_{one}", comment, trace, [each]) for one, each in pairs], self._gradient
        self._build_function(parts, fused, self._declared or self._gradient)

    def _refuse_backward(self, reason: str) -> None:
        self._gradient = None

        def refuse(ctx: Any, g: Tensor) -> Any:
            raise FormulaError(f"{reason} with @{self._name}.gradient")

        self._build_function([], None, None)
        self.function.backward = staticmethod(refuse)  # type: ignore[method-assign]

    def _build_function(self, parts: list[Any], fused: Any, source: Any) -> None:
        """Make the Function; ``backward_source`` shows ``source`` for it."""
        members: dict[str, Any] = {"__doc__": self.__doc__, "__module__": self._written.__module__}
        self.function = make_function(self._name, self._value, parts, fused, **members)
        self.function.backward.__wrapped__ = source  # type: ignore[attr-defined]


def formula(function: Callable[..., Any]) -> Formula:
    """Make an operator from a function of single elements: one kernel for its result, one for its gradient.

    The function takes one or two operands (Tensors of float32 or float64 that broadcast), followed by up to three
    numbers annotated as float. It may use arithmetic, comparisons, ``rg.where``, operators such as ``rg.exp``, and
    other formulas. It is traced once, when decorated: constants keep the values they have then. The gradient is
    derived automatically. ``gradient`` declares another one, which is a function of the same kind.

    Raises:
        TypeError: ``function`` is not a function.
        ValueError: it cannot be compiled; the message gives file, line and reason.

    >>> import retrograd as rg
    >>> @rg.formula
    ... def swish(x, beta: float = 1.0):
    ...     return x * rg.sigmoid(beta * x)
    >>> x = rg.tensor([0.0, 2.0], requires_grad=True)
    >>> y = swish(x, beta=0.5)
    >>> y.sum().backward()
    >>> x.grad
    tensor([0.5   , 0.9277])
    >>> print(rg.backward_source(y), end="")
    def swish_grad(g, x, beta: float):
        # gradient of swish, derived; what it calls is in retrograd.formulas
        t1 = sigmoid(beta * x)
        return g * t1 + g * x * t1 * (1.0 - t1) * beta
    """
    return Formula(function)  # type: ignore[arg-type]
