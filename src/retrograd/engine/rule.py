"""Rules: functions that replace a backward pass, and the scopes in which they are active.

A rule is one of three things, told apart by the name of its first parameter:

    def rule(true, g): ...     gets the true backward: gx, gw, gb = true(g)
    def rule(ctx, g): ...      replaces the backward of the operator's Function, and may be a copy of its source
    def rule(g, x): ...        computes the gradient from g and the arguments; a compiled `formula` is one of these

While a rule is active, every node that an operator or layer records is marked with the `Region` of that call. Forward
runs as usual. The sweep runs the rule in place of the backward of all nodes of the region, see region.py.

Which operator a node belongs to is read from the stack: operators carry no code for this, and cost nothing when no rule
is active.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial
from inspect import isgenerator
from types import CodeType, FunctionType
from typing import Any, NamedTuple, Self, TypeVar
from warnings import warn

from .family import UNTRACKED
from .function import Function
from .grad_mode import OneFlag, decorate, thread
from .line import inside
from .node import Node, with_history
from .region import Constant, Identity, Own, Region, replace_tensors, tensors_in
from .tensor import Tensor

_F = TypeVar("_F", bound=Callable[..., Any])
REGISTRY: dict[str, Callable[..., Any]] = {}  # rules by name
READY: list[Callable[[], Any]] = []  # what registers the ready rules; the package, which has them, fills it


class Rule(NamedTuple):
    """A checked rule.

    form: "ctx", "true" or "g". takes: how many Tensors of the call one of form "g" takes; -1: all.
    """

    function: Callable[..., Any]
    form: str
    takes: int
    name: str


def as_rule(caller: str, rule: Any) -> Rule:
    """The rule that a function is, or that a name stands for.

    Raises:
        ValueError: there is no rule of this name, or the function has no such parameters.
        TypeError: rule is neither a function nor a name.
    """
    if isinstance(rule, Rule):
        return rule
    if isinstance(rule, str):
        if rule not in REGISTRY:
            for register in READY:
                register()
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
        raise TypeError(
            f"{caller}: the rule is {rule!r}; expected a function of (ctx, g), (true, g) or (g, x, ...), or the name "
            "of a registered rule"
        )
    parameters, several = _parameters_of(rule)
    first = parameters[0] if parameters else ""
    if not first or (first in ("ctx", "true") and len(parameters) == 1 and not several):
        raise ValueError(f"{caller}: the rule {_name_of(rule)} must take the arguments (ctx, g), (true, g) or (g, ...)")
    form = first if first in ("ctx", "true") else "g"
    return Rule(rule, form, -1 if several else len(parameters) - 1, name or _name_of(rule))


def _parameters_of(function: Any) -> tuple[list[str], bool]:
    """The names of the parameters without defaults that are given by position, and whether there are any number."""
    if type(function) is FunctionType and not hasattr(function, "__wrapped__"):  # the same as below, in 1 us
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
    """Give a rule a name, by which `override_backward` and `layer.backward_rule` find it.

    Raises:
        ValueError: the name is taken by another rule, or the function has not the parameters of a rule.
        TypeError: name is not a str, or rule is not a function.
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"register_backward_rule: name is {name!r}, expected a str that is not empty")
    as_rule("register_backward_rule", rule if callable(rule) else None)
    if REGISTRY.setdefault(name, rule) is not rule:
        raise ValueError(f"register_backward_rule: the name {name!r} is taken by {_name_of(REGISTRY[name])}")


# ---- which node belongs to which call ----------------------------------------------------------------------------

_NAMED: set[CodeType] = set()  # code that runs several operators; its parameter `name` tells which


def runs_operators_by_name(function: _F) -> _F:
    """Declare that `function` runs the operator that its parameter ``name`` names."""
    _NAMED.add(function.__code__)
    return function


def computed_by(cls: type[Function]) -> Callable[[_F], _F]:
    """Declare that an operator is one call of a Function, which other operators do not use."""

    def declare(operator: _F) -> _F:
        operator.function = cls  # type: ignore[attr-defined]
        return operator

    return declare


class _Override:
    """An operator whose backward a rule replaces."""

    __slots__ = ("count", "error", "function", "rule")

    def __init__(self, function: Any, rule: Rule) -> None:
        self.function, self.rule = function, rule
        self.count = 0  # of calls that were recorded
        self.error: BaseException | None = None  # that was being handled when the scope began


_NONE: dict[Any, Any] = {}
_REGION = "<region>"  # among the locals of an operator's frame: the region of this call


class Active:
    """The rules that are active in a thread: the overridden operators by key, and the layer with a rule that runs."""

    __slots__ = ("overrides", "region")

    def __init__(self, overrides: dict[Any, _Override], region: Region | None) -> None:
        self.overrides, self.region = overrides, region

    def within(self) -> Active | None:
        """What is active in a backward sweep: what it records is part of the layer that runs, if one does."""
        if self.region is None:
            return None
        return Active({}, self.region) if self.overrides else self

    def mark(self, node: Node, args: tuple[Any, ...], outputs: Any) -> None:
        """Enter a node that was just made in the region of its call, if a rule applies."""
        region = self.region
        if self.overrides:
            region = self._of_operator(node.function, args, region)
        if region is not None:
            region.enter(node)
            if len(args) == len(node.edges):
                node.kinds = (*map(type, args),)
            node.outputs = outputs  # the sweep looks at `region` only if this is set

    def _of_operator(self, cls: type[Function], args: tuple[Any, ...], region: Region | None) -> Region | None:
        calls: list[tuple[_Override, Any]] = []  # innermost first
        frame: Any = sys._getframe(2)  # apply, or what it calls
        while frame is not None:
            code = frame.f_code
            if code is run_with_rule.__code__ or not inside[code.co_filename]:
                break
            override = self.overrides.get(frame.f_locals.get("name") if code in _NAMED else code)
            if override is not None:
                if calls and calls[-1][0] is override:
                    calls.pop()  # an operator that calls itself, or the code shared by several
                calls.append((override, frame))
            frame = frame.f_back
        for override, frame in reversed(calls):
            values = frame.f_locals  # it lives as long as the call, and a further name in it does not disturb
            known = values.get(_REGION)
            if known is None:
                function, given, named = _call_of(override, frame)
                known = self._begin(override, _name_of(override.function), region, function, given, named)
                values[_REGION] = known
            region = known
        override = self.overrides.get(cls)
        if override is not None:
            name = _name_of(override.function) if hasattr(override.function, "function") else cls.__name__
            region = self._begin(override, name, region, cls.apply, args, {})
        return region

    def _begin(
        self, override: _Override, name: str, parent: Region | None,
        function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
    ) -> Region:  # fmt: skip
        override.count += 1
        others = {key: other for key, other in self.overrides.items() if other is not override}
        return Region(override.rule, name, parent, function, args, kwargs, [], others)


def _call_of(override: _Override, frame: Any) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The function and the arguments of the call that a frame runs."""
    code, values, function = frame.f_code, frame.f_locals, override.function
    if getattr(function, "__code__", None) is not code:
        function = FunctionType(code, frame.f_globals)
    names = iter(code.co_varnames)
    args = [values[next(names)] for _ in range(code.co_argcount)]
    kwargs = {name: values[name] for _, name in zip(range(code.co_kwonlyargcount), names)}  # noqa: B905
    if code.co_flags & inspect.CO_VARARGS:
        args += values[next(names)]
    if code.co_flags & inspect.CO_VARKEYWORDS:  # the Tensors in the order of the parameters
        bound = inspect.signature(function).bind(*args, **kwargs, **values[next(names)])
        return function, bound.args, bound.kwargs
    return function, (*args,), kwargs


class override_backward(OneFlag):  # noqa: N801  it is used like a function
    """Replaces the backward of an operator by a rule: ``with override_backward(F.relu, rule): ...``.

    The rule holds for the calls that this thread records inside, by whatever name they are called: in layers, as
    methods, within other operators. It is stored with what they record, so the backward may run later. Of nested
    overrides of one operator the innermost holds.

    Args:
        operator: a function of `retrograd` or `nn.functional`, an operator made by `formula`, or a Function.
        rule: a function, or the name of a registered rule:
            rule(true, g): `true` is the true backward. ``true(g)`` gives the gradient of each Tensor among the
                arguments, in their order (None where it requires none), ``true.inputs`` are these Tensors, and
                ``true.at(*tensors)(g)`` is the true backward of the same call with other Tensors. A Tensor that is
                given twice counts once. Of several results, each that received a gradient adds one: (true, *g).
            rule(ctx, g): the backward of the operator's Function; ``backward_source`` prints the one it replaces.
            rule(g, x, ...): the gradient from that of the result and the Tensors among the arguments. If there are
                several that require a gradient, it returns one for each; a `formula` is compiled.

    Raises:
        TypeError: operator is not an operator, or rule not a rule.
        ValueError: the rule has other parameters, or its name is not registered.

    ``@override_backward(operator, rule)`` is a decorator. A warning at the end of the scope tells that no call was
    recorded inside.
    """

    def __init__(self, operator: Callable[..., Any], rule: Callable[..., Any] | str) -> None:
        operator = _innermost(operator)
        self._override = _Override(operator, as_rule("override_backward", rule))
        self._keys = _keys_of(operator)
        super().__init__("rules", partial(_warn_without_effect, self._override))

    def __enter__(self) -> Self:
        before: Active | None = thread.mode.rules
        overrides = before.overrides if before is not None else {}
        region = None if before is None else before.region
        self._override.error = sys.exception()
        self._set(Active(overrides | dict.fromkeys(self._keys, self._override), region))
        return self

    def __call__(self, function: _F) -> _F:
        rule: Any = self._override.rule
        return decorate(function, partial(override_backward, self._override.function, rule), "override_backward")


def _warn_without_effect(override: _Override, _: None) -> None:
    """At the end of the scope, unless an error ends it."""
    if not override.count and sys.exception() is override.error:
        warn(
            f"override_backward: no call of {_name_of(override.function)} was recorded inside, so the rule "
            f"{override.rule.name} has no effect; the forward pass belongs inside the scope",
            stacklevel=2,
        )


class without_backward_rules(OneFlag):  # noqa: N801
    """A backward inside runs the true backwards in place of all rules, to compare: ``with without_backward_rules():``.

    The graph is the same, so ``backward(retain_graph=True)`` before or inside leaves it for the other one.
    """

    def __init__(self) -> None:
        super().__init__("unruled")

    def __enter__(self) -> Self:
        self._set(True)
        return self

    def __call__(self, function: _F) -> _F:
        return decorate(function, without_backward_rules, "without_backward_rules")


def _innermost(operator: Any) -> Any:
    """The operator itself, without the functions of the same name around it that read other forms of a call."""
    while type(operator) is FunctionType and type(inner := getattr(operator, "__wrapped__", None)) is FunctionType:
        if inner.__name__ != operator.__name__ or not inside[inner.__code__.co_filename]:
            break
        operator = inner
    return operator


def _keys_of(operator: Any) -> list[Any]:
    """What the nodes of an operator are found by: its Function, its code, its name."""
    if isinstance(operator, type) and issubclass(operator, Function):
        return [operator]
    if inspect.ismethod(operator) and isinstance(operator.__self__, type) and issubclass(operator.__self__, Function):
        return [operator.__self__]
    function = getattr(operator, "function", None)
    if isinstance(function, type) and issubclass(function, Function):
        return [function]
    code = getattr(operator, "__code__", None)
    if not isinstance(code, CodeType) or not inside[code.co_filename]:
        kind = f"the layer {type(operator).__name__}: set its backward_rule" if hasattr(operator, "forward") else (
            f"{operator!r}, expected an operator of this package, an operator made by formula, or a Function; for the "
            "backward of a function of your own put it into a Module and set its backward_rule"
        )  # fmt: skip
        raise TypeError(f"override_backward: got {kind}")
    return [code, operator.__name__]


def overridden() -> dict[str, str]:
    """The operators that are overridden in this thread, and the names of the rules."""
    active: Active | None = thread.mode.rules
    overrides = {} if active is None else active.overrides
    return {_name_of(override.function): override.rule.name for override in overrides.values()}


def run_with_rule(
    rule: Rule, name: str, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], own: Own
) -> Any:
    """Call the forward of a layer with a rule; `own`: its parameters.

    Raises:
        TypeError: forward is a generator, whose body runs after the call.
    """
    mode = thread.mode
    if not mode.enabled:
        return forward(*args, **kwargs)
    before: Active | None = mode.rules
    overrides = _NONE if before is None else before.overrides
    region = Region(rule, name, None if before is None else before.region, forward, args, kwargs, own, overrides)
    mode.rules = Active(overrides, region)
    try:
        result = forward(*args, **kwargs)
        if region.arrays is None:
            region.hold()
        if type(result) is Tensor and result._edge is not None and result._edge[0].region is region:
            return result
        return _entered(result, region)
    finally:
        mode.rules = before


def _entered(result: Any, region: Region) -> Any:
    """The result of a call, in which each Tensor with a gradient is one that the call has recorded.

    If none has a gradient, since forward is not differentiable, all get one: it is the rule's.
    """
    if isgenerator(result):
        raise TypeError(
            f"{region.name}: forward is a generator, which runs after the call, so the rule {region.rule.name} cannot "
            "hold for it; return the results"
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
