"""The table of formulas and gradients, from which both kernel sets make their kernels and ops its operators."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

Formula = Callable[..., Any]
F = TypeVar("F", bound=Formula)
_NUMBERS = ("float", float, "bool")


class Form(NamedTuple):
    """The signature of a formula: operands, then numbers, annotated as float (or, in updates, bool).

    operands, numbers: their names. conditions: for each operand, whether it is boolean (annotated as Truth). truth:
    whether the result is boolean. results: the number of results.
    """

    operands: tuple[str, ...]
    numbers: tuple[str, ...]
    conditions: tuple[bool, ...]
    truth: bool
    results: int


FORMULAS: dict[str, Formula] = {}
GRADIENTS: dict[str, tuple[Formula, ...]] = {}  # by operator: the declared gradient of each operand
UPDATES: dict[str, Formula] = {}  # of optimizers, by name: both kernel sets run an update over lists of arrays


def formula(function: F) -> F:
    """Register a function of operands and numbers in the table: both kernel sets get a kernel of its name.

    The operands of a gradient, after g, have one shape; those of other formulas broadcast.
    """
    FORMULAS[function.__name__] = function
    return like(function.__name__)(function)


def like(name: str) -> Callable[[F], F]:
    """For a gradient that equals the formula ``name``: use the kernel of that formula."""

    def remember(function: F) -> F:
        function.kernel = name  # type: ignore[attr-defined]
        return function

    return remember


def gradients(name: str, *parts: Formula) -> None:
    """Declare the gradient of each operand of ``name``, a formula or primitive.

    Each takes g and any of the operands, the numbers and the result (``y``, for an operator of x), by parameter name.
    Operands may broadcast. A single gradient ``<name>_grad`` needs no declaration.
    """
    GRADIENTS[name] = parts


def update(function: F) -> F:
    """Register an optimizer's update: it takes a parameter, its gradient, its states and numbers."""
    UPDATES[function.__name__] = function
    return function


def same_grad(g: Any) -> Any:
    """g"""
    return g


def stored(x: Any) -> Any:
    """x; a kernel rounds it as if it were stored, so that no later operation is fused with those before."""
    return x


@lru_cache(maxsize=4096)
def form(function: Formula) -> Form:
    """Return the signature of a formula."""
    if isinstance(function, Together):
        return function.form
    function = getattr(function, "__wrapped__", function)
    code, kinds = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount]
    operands = tuple([name for name in names if kinds.get(name) not in _NUMBERS])
    conditions = tuple([kinds.get(name) == "Truth" for name in operands])
    results = getattr(function, "results", 1)
    return Form(operands, names[len(operands) :], conditions, kinds.get("return") == "Truth", results)


def gradients_of(name: str) -> tuple[Formula, ...]:
    """Return the declared gradient of each operand; empty if none is declared."""
    one = FORMULAS.get(f"{name}_grad")
    return GRADIENTS.get(name) or ((one,) if one else ())


class Together:
    """Several gradients as one formula with the parameters of all: g, the operands and the numbers, by name."""

    kernel: str
    parts: tuple[Formula, ...]

    def __init__(self, name: str, parts: tuple[Formula, ...]) -> None:
        self.__name__ = self.kernel = name
        self.parts, forms = parts, [form(part) for part in parts]
        operands = sorted({each for one in forms for each in one.operands} - {"g"})
        numbers = sorted({each for one in forms for each in one.numbers})
        self.form: Form = Form(("g", *operands), (*numbers,), (False,) * (1 + len(operands)), False, len(parts))
        names = ["g", *operands, *numbers]
        self._places = [[names.index(each) for each in one.operands + one.numbers] for one in forms]

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        pairs = zip(self.parts, self._places, strict=True)
        return tuple([part(*[values[place] for place in places]) for part, places in pairs])


def fused(operators: Container[str]) -> dict[str, Formula]:
    """Return the gradients of each operator as one formula, by kernel name, without those that are g itself."""
    found: dict[str, Formula] = {}
    for operator, parts in GRADIENTS.items():
        if operator not in operators:
            continue
        name, computed = f"{operator}_grad", tuple([part for part in parts if part is not same_grad])
        if len({*computed}) > 1:
            found[name] = Together(name, computed)
        elif computed and not hasattr(computed[0], "kernel"):
            found[name] = like(name)(computed[0])
    return found
