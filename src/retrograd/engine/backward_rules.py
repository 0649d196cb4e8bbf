"""Backward rules: functions that replace a backward pass, and the scopes in which they are active.

A rule has one of four forms. The first three are distinguished by the name of the first parameter, the fourth by the
name of the function:

    def rule(true, g): ...     gets the true backward: gx, gw, gb = true(g)
    def rule(ctx, g): ...      replaces the backward of the operator's Function, and may be a copy of its source
    def rule(g, x): ...        computes the gradient from g and the arguments; a compiled `formula` is one of these
    def softmax_grad(g, y, axis): ...    replaces the function of this name, whose source `backward_source` prints

While a rule is active, every node that the operator or layer records is marked with the `Region` of that call. Forward
runs as usual. The sweep runs the rule in place of the backward of all nodes of the region; see subgraph.py.

An override of an operator is an interpreter (see operator.py): it intercepts the call and starts a region. An override
of a Function starts a region at each call of its ``apply``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from inspect import isgenerator
from types import FunctionType
from typing import Any, NamedTuple, Self, TypeVar
from warnings import warn

from ..kernel_set import is_textbook_kernel
from .aliasing import UNTRACKED
from .arguments import kind_name
from .function import Function
from .grad_mode import AttributeScope, decorate, thread
from .node import Node, with_history
from .operator import Interpreter, Level, Operator, current_level, level_without, use_level
from .subgraph import Constant, Identity, LayerParameters, Region, replace_tensors, tensors_in
from .tensor import Tensor

_F = TypeVar("_F", bound=Callable[..., Any])
REGISTRY: dict[str, Callable[..., Any]] = {}  # rules by name


class Rule(NamedTuple):
    """A checked rule.

    form: "ctx", "true", "g", or "kernel" (a copy of a textbook kernel). takes: how many of the call's Tensors a rule of
    form "g" accepts; -1 means all.
    """

    function: Callable[..., Any]
    form: str
    takes: int
    name: str


def as_rule(caller: str, rule: Any) -> Rule:
    """Return the checked Rule for a function or a registered name.

    Raises:
        ValueError: there is no rule of this name, or the function does not have the parameters of a rule.
        TypeError: rule is neither a function nor a name.
    """
    if isinstance(rule, Rule):
        return rule
    if isinstance(rule, str):
        if rule not in REGISTRY:
            from .. import rules as _  # noqa: F401  importing registers the rules
        if rule not in REGISTRY:
            names = ", ".join(sorted(REGISTRY)) or "none"
            raise ValueError(
                f"{caller}: there is no rule named {rule!r}; the registered ones are: {names}; add one with "
                "register_backward_rule"
            )
        name, rule = rule, REGISTRY[rule]
    else:
        name = ""
    if not callable(rule) or isinstance(rule, type):
        given = kind_name(rule) if isinstance(rule, type) else repr(rule)
        raise TypeError(
            f"{caller}: the rule is {given}; expected a function of (ctx, g), (true, g) or (g, x, ...), or the name "
            "of a registered rule"
        )
    parameters, several = _parameters_of(rule)
    first = parameters[0] if parameters else ""
    if not first or (first in ("ctx", "true") and len(parameters) == 1 and not several):
        raise ValueError(f"{caller}: the rule {_name_of(rule)} must take the arguments (ctx, g), (true, g) or (g, ...)")
    form = first if first in ("ctx", "true") else "kernel" if is_textbook_kernel(rule) else "g"
    name = name or _name_of(rule)
    # a copy of a formula is called ..._grad and keeps the formula's parameters
    if form == "g" and (first in _INPUTS or ("g" in parameters and first[0] != "g")) and not name.endswith("_grad"):
        raise ValueError(
            f"{caller}: the rule {name} has the parameters ({', '.join(parameters)}), expected the gradient first: "
            "(g, x, ...), or (true, g) or (ctx, g) with these names"
        )
    return Rule(rule, form, -1 if several else len(parameters) - 1, name)


_INPUTS = {"x", "v", "u", "w", "input", "inputs", "weight"}  # names that cannot mean a gradient


def _parameters_of(function: Any) -> tuple[list[str], bool]:
    """Return the names of the positional parameters without defaults, and whether there is a ``*args`` parameter."""
    if type(function) is FunctionType and not hasattr(function, "__wrapped__"):  # fast path: 1 us
        code = function.__code__
        count = code.co_argcount - len(function.__defaults__ or ())
        return [*code.co_varnames[:count]], bool(code.co_flags & inspect.CO_VARARGS)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return [], False
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.default is p.empty and p.kind in by_position]
    return names, any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _name_of(rule: Any) -> str:
    if inspect.ismethod(rule) and not isinstance(rule.__self__, type):
        return f"{_name_of(rule.__self__)}.{rule.__name__}"
    return getattr(rule, "__name__", None) or repr(rule)


def register_backward_rule(name: str, rule: Callable[..., Any]) -> None:
    """Register a rule under a name, which `override_backward` and `layer.backward_rule` accept in place of the rule.

    Raises:
        ValueError: the name is taken by another rule, or the function does not have the parameters of a rule.
        TypeError: name is not a str, or rule is not a function.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"register_backward_rule: name is {name!r}, expected a str that is not empty")
    as_rule("register_backward_rule", rule if callable(rule) else None)
    if REGISTRY.setdefault(name, rule) is not rule:
        raise ValueError(f"register_backward_rule: the name {name!r} is taken by {_name_of(REGISTRY[name])}")


# ---- Active rules, and the regions that collect the nodes of each call -------------------------------------------


class ActiveRules:
    """The rules active in a thread: the overrides of Functions, and the innermost running call that has a rule."""

    functions: Mapping[type[Function], override_backward]
    region: Region | None

    __slots__ = ("functions", "region")

    def __init__(self, functions: Mapping[type[Function], override_backward], region: Region | None) -> None:
        self.functions, self.region = functions, region

    def during_sweep(self) -> ActiveRules | None:
        """Return the rules for a backward sweep, whose recorded nodes belong to the running call, if any."""
        if self.region is None:
            return None
        return ActiveRules(_NO_OVERRIDES, self.region) if self.functions else self

    def add_to_region(self, node: Node, args: tuple[Any, ...], outputs: Any) -> None:
        """Add a node that was just made to the region of its call, if a rule applies."""
        region, cls = self.region, node.function
        override = self.functions.get(cls)
        if override is not None:
            override.scope.count += 1
            overrides = Overrides(
                {key: other for key, other in self.functions.items() if other is not override}, current_level()
            )
            region = Region(override.rule, cls.__name__, region, cls.apply, args, {}, [], overrides)
        if region is not None:
            region.add(node)
            if len(args) == len(node.edges):
                node.kinds = (*map(type, args),)
            node.outputs = outputs  # the sweep looks at `region` only if this is set


_NO_OVERRIDES: Mapping[Any, Any] = {}


class Overrides(NamedTuple):
    """The overrides in force at a call: those of Functions, and the interpreter stack with those of operators."""

    functions: Mapping[type[Function], Any]
    level: Level | None

    @classmethod
    def current(cls) -> Overrides:
        """Return the overrides in force in this thread."""
        active: ActiveRules | None = thread.mode.rules
        return cls(_NO_OVERRIDES if active is None else active.functions, current_level())

    @contextmanager
    def in_force(self, region: Region | None) -> Iterator[None]:
        """Put these overrides in force within a block, for calls that are part of ``region``."""
        mode = thread.mode
        before = mode.rules
        mode.rules = ActiveRules(self.functions, region) if self.functions or region is not None else None
        try:
            with use_level(self.level):
                yield
        finally:
            mode.rules = before

    def of_operators(self) -> Iterator[override_backward]:
        """Yield the overrides of operators, innermost first."""
        level = self.level
        while level is not None:
            if isinstance(level.interpreter, override_backward):
                yield level.interpreter
            level = level.below


class override_backward(Interpreter):  # noqa: N801  it is used like a function
    """Replace the backward of an operator by a rule: ``with override_backward(F.relu, rule): ...``.

    The rule applies to all calls of the operator that this thread records inside the block, however they are made: by
    layers, as methods, or within other operators. It is stored in the recorded graph, so the backward may run later.
    Among nested overrides of one operator, the innermost applies.

    Args:
        operator: a function of `retrograd` or `nn.functional`, one decorated with `operator` or made by `formula`, or a
            Function.
        rule: a function, or the name of a registered rule:
            rule(true, g): `true` is the true backward. ``true(g)`` gives the gradient of each Tensor among the
                arguments, in their order (None where it requires none), ``true.inputs`` are these Tensors, and
                ``true.at(*tensors)(g)`` is the true backward of the same call with other Tensors. A Tensor that is
                passed twice counts once. If the call has several results, the rule gets one gradient for each result
                that received one: (true, *g).
            rule(ctx, g): the backward of the operator's Function; ``backward_source`` prints the one it replaces.
            rule(g, x, ...): computes the gradient from that of the result and the Tensors among the arguments. If
                several require a gradient, it returns one for each; a `formula` is compiled.
            a function whose source ``backward_source`` prints, or a changed copy with the same name and parameters: it
                runs where the operator's backward runs that function. A NumPy function takes and returns arrays.

    Raises:
        TypeError: operator is not an operator, or rule is not a rule.
        ValueError: the rule has other parameters, or its name is not registered.

    ``@override_backward(operator, rule)`` is a decorator. At the end of the block a warning is issued if no call was
    recorded inside, unless the block is in ``no_grad``.
    """

    given: Callable[..., Any]
    of: Operator | type[Function]

    def __init__(self, operator: Callable[..., Any], rule: Callable[..., Any] | str) -> None:
        self.given, self.of = operator, _find_operator(operator)
        self.rule: Rule = as_rule("override_backward", rule)
        self.name: str = self.of.__name__ if isinstance(self.of, type) else self.of.name
        flag, depth = ("rules", 2) if isinstance(self.of, type) else ("interpreter", 3)
        self.scope: _CallCount = _CallCount(self.name, self.rule.name, depth)
        super().__init__(partial(_warn_without_effect, self.scope), flag)

    def __enter__(self) -> Self:
        self.scope.error = sys.exception()
        if not isinstance(self.of, type):
            return super().__enter__()
        before: ActiveRules | None = thread.mode.rules
        functions = _NO_OVERRIDES if before is None else before.functions
        self._set(ActiveRules({**functions, self.of: self}, None if before is None else before.region))
        return self

    def __call__(self, function: _F) -> _F:
        rule: Any = self.rule
        return decorate(function, partial(override_backward, self.given, rule), "override_backward")

    def call(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        mode = thread.mode
        before: ActiveRules | None = mode.rules
        parent = None if before is None else before.region
        if operator is not self.of or not mode.enabled or (parent is not None and parent.override is self):
            return operator.run(args, kwargs)
        functions = _NO_OVERRIDES if before is None else before.functions
        overrides = Overrides(functions, level_without(current_level(), self))
        region = Region(self.rule, operator.name, parent, operator.function, args, kwargs, [], overrides, self)
        mode.rules = ActiveRules(functions, region)
        try:
            return operator.run(args, kwargs, self._is_outer)
        finally:
            mode.rules = before
            self.scope.count += bool(region.orders)

    def _is_outer(self, other: Interpreter) -> bool:
        """Return whether `other` is an override of the same operator, which this one replaces."""
        return isinstance(other, override_backward) and other.of is self.of


def _find_operator(operator: Any) -> Operator | type[Function]:
    """Return the operator or Function that is overridden."""
    if inspect.ismethod(operator) and operator.__name__ == "apply":
        operator = operator.__self__
    found = operator
    for name in ("operator", "function"):  # attributes of a decorated function and of a formula
        found = getattr(operator, name, found)
    if isinstance(found, Operator) or (isinstance(found, type) and issubclass(found, Function)):
        return found
    kind = (
        f"the layer {operator.__name__}: set the backward_rule of an instance"
        if isinstance(operator, type) and hasattr(operator, "forward")
        else f"the layer {type(operator).__name__}: set its backward_rule"
        if hasattr(operator, "forward")
        else (
            f"{operator!r}, expected an operator of this package, an operator made by formula, or a Function; for the "
            "backward of a function of your own put it into a Module and set its backward_rule, or put "
            "@retrograd.operator above it"
        )
    )
    raise TypeError(f"override_backward: got {kind}")


class _CallCount:
    """The number of calls recorded within an override, separate from it so that no cycle keeps the rule alive."""

    count: int
    operator: str
    rule: str

    depth: int  # frames from the warning to the end of the scope

    __slots__ = ("count", "depth", "error", "operator", "rule")

    def __init__(self, operator: str, rule: str, depth: int) -> None:
        self.operator, self.rule, self.depth, self.count = operator, rule, depth, 0
        self.error: BaseException | None = None  # the exception being handled when the scope begins


def _warn_without_effect(calls: _CallCount, _: None) -> None:
    """Warn at the end of a scope that recorded no call, unless an error ends it or recording is disabled around it."""
    if not calls.count and sys.exception() is calls.error and thread.mode.enabled:
        warn(
            f"override_backward: no call of {calls.operator} was recorded inside, so the rule {calls.rule} has no "
            "effect; the forward pass belongs inside the scope",
            stacklevel=calls.depth,
        )


class without_backward_rules(AttributeScope):  # noqa: N801
    """Run true backwards instead of rules in a block, for comparison: ``with without_backward_rules():``.

    The graph is the same for both, so call the first of the two backwards with ``retain_graph=True``.
    """

    def __init__(self) -> None:
        super().__init__("rules_disabled")

    def __enter__(self) -> Self:
        self._set(True)
        return self

    def __call__(self, function: _F) -> _F:
        return decorate(function, without_backward_rules, "without_backward_rules")


def overridden() -> dict[str, str]:
    """Return the operators that are overridden in this thread, and the names of the rules."""
    in_force = Overrides.current()
    found = [*in_force.functions.values(), *reversed([*in_force.of_operators()])]
    return {override.name: override.rule.name for override in found}


def is_overridden(*functions: Any) -> bool:
    """Return whether a rule applies to one of these operators; a fused operator then runs as their composition."""
    in_force = Overrides.current()
    overridden = {override.of for override in in_force.of_operators()} | {*in_force.functions}
    operators = [function.operator for function in functions]
    return not overridden.isdisjoint([*operators, *[each for operator in operators for each in operator.functions]])


def run_with_rule(
    rule: Rule,
    name: str,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    parameters: LayerParameters,
) -> Any:
    """Call the forward of a layer that has a rule; `parameters`: those of the layer.

    Raises:
        TypeError: forward is a generator, whose body runs after the call.
    """
    mode = thread.mode
    if not mode.enabled:
        return forward(*args, **kwargs)
    before: ActiveRules | None = mode.rules
    overrides = Overrides.current()
    region = Region(rule, name, None if before is None else before.region, forward, args, kwargs, parameters, overrides)
    mode.rules = ActiveRules(overrides.functions, region)
    try:
        result = forward(*args, **kwargs)
        if region.arrays is None:
            region.record_arrays()
        if type(result) is Tensor and result._edge is not None and result._edge[0].region is region:
            return result
        return _attach_results(result, region)
    finally:
        mode.rules = before


def _attach_results(result: Any, region: Region) -> Any:
    """Return the result of a call, with every Tensor that requires a gradient attached to the call's region.

    A Tensor that was not recorded by the call is passed through an Identity. If no result requires a gradient because
    forward is not differentiable, all floating-point results are made to require one: the rule computes the gradients.
    """
    if isgenerator(result):
        raise TypeError(
            f"{region.name}: forward is a generator, which runs after the call, so the rule {region.rule.name} cannot "
            "apply to it; return the results"
        )
    results = tensors_in([result])
    other: dict[int, Tensor] = {}
    if any(tensor._requires_grad for tensor in results):
        for tensor in results:
            if tensor._requires_grad and (tensor._edge is None or not region.encloses(tensor._edge[0])):
                other[id(tensor)] = Identity.apply(tensor)
    elif any(edge is not None for edge in region.edges):
        for tensor in results:
            if tensor.array.dtype.kind == "f":
                other[id(tensor)] = y = with_history(tensor.array, Constant, ())
                y._view = UNTRACKED
    edges: list[Any] = [other.get(id(tensor), tensor)._edge for tensor in results]
    region.results = [None if edge is None else (edge[0].order, edge[1]) for edge in edges]
    return replace_tensors(result, other) if other else result
