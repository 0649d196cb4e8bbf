"""Module hooks and backward rules: user functions that run around the forward and backward pass.

A module without hooks has no overhead: registering a hook sets a flag that `Module.__call__` tests anyway.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..engine.aliasing import UNTRACKED
from ..engine.arguments import kind_name
from ..engine.backward_rules import Rule, as_rule, overridden, run_with_rule
from ..engine.call_site import in_package, user_call_site
from ..engine.function import Function
from ..engine.grad_mode import is_grad_enabled, thread
from ..engine.hooks import HookDict, RemovableHandle
from ..engine.tensor import Tensor, alias, wrap

__all__: list[str] = []


# ---- Backward rules of modules: `layer.backward_rule = rule` and `model.backward_rules()` ---------------------------


class HasBackwardRule:
    """The methods of Module that replace its backward."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "backward_rule" in cls.__dict__:
            raise TypeError(
                f"{cls.__name__}: backward_rule is an attribute of each object and would not work as a member of the "
                "class; give the function another name, and in __init__ write self.backward_rule = self.that_name"
            )

    @property
    def backward_rule(self) -> Callable[..., Any] | None:
        """The function that replaces the backward of this module, or None.

        A function, or the name of a registered rule, as for `override_backward`. The Tensors of the call are those
        among the arguments of forward and then the parameters, in the order of ``parameters()``: the true backward of
        a Linear gives ``gx, gw, gb = true(g)``. A rule is part of the configuration: repr shows it and copies keep it,
        but a state_dict does not contain it.

        A forward that is not differentiable, such as one in NumPy, gets the gradients of its rule. Calling
        ``layer.forward`` instead of ``layer`` skips the rule, as it skips hooks.

        Raises:
            TypeError: the rule is neither a function nor a name, or the module has no forward, such as a ModuleList.
            ValueError: the rule has other parameters, or no rule has this name.
        """
        rule: Rule | None = self.__dict__.get("_backward_rule")
        return None if rule is None else rule.function

    @backward_rule.setter
    def backward_rule(self, rule: Callable[..., Any] | str | None) -> None:
        if rule is None:
            self.__dict__.pop("_backward_rule", None)
        elif getattr(self.forward, "__name__", "") == "_forward_missing":  # type: ignore[attr-defined]
            raise TypeError(
                f"{type(self).__name__}.backward_rule: this module has no forward, so the rule would never run; "
                "set it on the modules in it"
            )
        else:
            self.__dict__["_backward_rule"] = as_rule(f"{type(self).__name__}.backward_rule", rule)
            self.__dict__["_is_plain"] = False
            changes[0] += 1

    @backward_rule.deleter
    def backward_rule(self) -> None:
        self.backward_rule = None

    def backward_rules(self) -> dict[str, str]:
        """Return the active backward rules: {path of the module: name}, then {operator: name} of the overrides.

        The path of this module itself is "".
        """
        modules: Any = self.named_modules()  # type: ignore[attr-defined]
        rules = {path: module.__dict__["_backward_rule"].name for path, module in modules if has_rule(module)}
        return rules | overridden()

    def _arguments(self) -> str:
        """Return the arguments that repr shows in parentheses: ``extra_repr`` and the rule."""
        rule: Rule | None = self.__dict__.get("_backward_rule")
        shown: str = self.extra_repr()  # type: ignore[attr-defined]
        if rule is None:
            return shown
        separator = "\n" if "\n" in shown else ", " if shown else ""
        return f"{shown}{separator}backward_rule={rule.name}"


def has_rule(module: Any) -> bool:
    """Return whether a rule replaces the backward of this module."""
    return "_backward_rule" in module.__dict__


def call_with_rule(module: Any, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``forward`` of a module that has a rule."""
    own = [
        (members, name, members[name])
        for members in ([each.__dict__ for each in module.modules()] if module._child_names else (module.__dict__,))
        for name in members["_parameter_names"]
        if members[name] is not None
    ]
    return run_with_rule(module.__dict__["_backward_rule"], type(module).__name__, forward, args, kwargs, own)


# ---- Module hooks: user functions that run around the forward and backward pass -------------------------------------

Hook = Callable[..., Any]
changes = [0]  # how often an attribute, a hook or a rule of any module was set: recordings compare it, see replay.py
_KINDS = ("forward_pre", "forward", "backward_pre", "backward")


class Hooked(HasBackwardRule):
    """The hook methods of Module, as in PyTorch."""

    _is_plain = True  # no hooks and no rule, and forward is this package's own: Module.__call__ takes the fast path
    _hooks: dict[str, HookDict]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        code = getattr(getattr(cls, "forward", None), "__code__", None)
        cls._is_plain = code is not None and in_package[code.co_filename]

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args) before forward; its result, if not None, replaces args.

        A result that is not a tuple counts as a tuple of one. with_kwargs: hook(module, args, kwargs), which returns
        None or (args, kwargs). prepend: run before the hooks already registered.

        Raises:
            TypeError: hook is not callable.
        """
        return self._register("forward_pre", hook, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args, output) after forward; its result, if not None, replaces the output.

        with_kwargs: hook(module, args, kwargs, output). always_call: also if forward raised, with output None.

        Raises:
            TypeError: hook is not callable.
        """
        return self._register("forward", hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_output) once the gradients of the outputs are known, before the module's backward.

        grad_output is a tuple with one gradient (or None) per output. The hook's result, if not None, replaces it; a
        Tensor counts as a tuple of one.

        Raises:
            TypeError: hook is not callable.
        """
        return self._register("backward_pre", hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) once the gradients of the inputs are known.

        Both are tuples with one gradient (or None) per positional argument and per output. The hook's result, if not
        None, replaces grad_input. If no input requires a gradient, it runs once grad_output is known. Inputs and
        outputs of a module with such hooks must not be changed in place.

        Raises:
            TypeError: hook is not callable.
        """
        return self._register("backward", hook, prepend)

    def _register(self, kind: str, hook: Hook, prepend: bool, *options: bool) -> RemovableHandle:
        if not callable(hook):
            raise TypeError(f"register_{kind}_hook: hook must be a function, got {kind_name(hook)}")
        hooks = self.__dict__.get("_hooks")
        if hooks is None:
            hooks = self.__dict__["_hooks"] = {name: HookDict() for name in _KINDS}
        self.__dict__["_is_plain"] = False
        changes[0] += 1
        return RemovableHandle(hooks[kind], (hook, *options), prepend)

    def _call_specially(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call forward of a module that has hooks, a rule or a user's forward, or whose calls are being tracked."""
        forward: Callable[..., Any] = self.forward  # type: ignore[attr-defined]
        members, mode = self.__dict__, thread.mode
        site, running = mode.site, mode.running
        if running is not None:
            running.append(self)
        try:
            hooks = members.get("_hooks")
            if hooks is not None and any(hooks.values()):
                mode.site = None  # the lines in hooks and in a user's forward are the user's
                if "_backward_rule" in members:
                    forward = partial(call_with_rule, self, forward)
                return self._run_hooks(hooks, forward, args, kwargs)
            if not type(self)._is_plain:
                mode.site = None
            elif site is None:
                mode.site = user_call_site()
            if "_backward_rule" in members:
                return call_with_rule(self, forward, *args, **kwargs)
            return forward(*args, **kwargs)
        finally:
            mode.site = site
            if running is not None:
                running.pop()

    def _run_hooks(
        self, hooks: dict[str, HookDict], forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        called: set[int] = set()
        result = None
        try:
            for hook, with_kwargs in list(hooks["forward_pre"].values()):
                args, kwargs = _before(self, hook, with_kwargs, args, kwargs)
            call = None
            if hooks["backward"] or hooks["backward_pre"]:
                call = _BackwardCall(self, hooks, args)
                args = call.args
            result = forward(*args, **kwargs)
            for key, (hook, with_kwargs, _) in list(hooks["forward"].items()):
                called.add(key)
                returned = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                result = result if returned is None else returned
            return result if call is None else call.pass_outputs(result)
        except Exception:
            for key, (hook, with_kwargs, always) in list(hooks["forward"].items()):
                if always and key not in called:
                    try:
                        returned = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                        result = result if returned is None else returned
                    except Exception as error:  # it must not hide the first one
                        warnings.warn(f"a forward hook with always_call=True raised {error!r}", stacklevel=2)
            raise


def _before(
    module: Any, hook: Hook, with_kwargs: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments after a forward pre-hook."""
    if not with_kwargs:
        returned = hook(module, args)
        if returned is not None:
            args = returned if isinstance(returned, tuple) else (returned,)
        return args, kwargs
    returned = hook(module, args, kwargs)
    if returned is None:
        return args, kwargs
    if isinstance(returned, tuple) and len(returned) == 2:
        return returned
    raise RuntimeError(
        f"register_forward_pre_hook: a hook with_kwargs must return None or a tuple (args, kwargs), got {returned!r}"
    )


class _BackwardHookFunction(Function):
    """Identity on tensors whose gradients pass through a function."""

    @staticmethod
    def forward(ctx: Any, receive: Callable[..., Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.receive = receive
        ctx.set_materialize_grads(False)
        return tuple([wrap(tensor.array) for tensor in tensors])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        # the hook may keep references to the tensors it received or returned
        return None, *[alias(g) if isinstance(g, Tensor) else g for g in ctx.receive(grads)]


class _BackwardCall:
    """One call of a module with backward hooks."""

    def __init__(self, module: Any, hooks: dict[str, HookDict], args: tuple[Any, ...]) -> None:
        self.module = module
        self.before, self.after = list(hooks["backward_pre"].values()), list(hooks["backward"].values())
        self.grad_output: tuple[Any, ...] | None = None
        self.count = len(args)
        self.args, self.inputs = _pass(args, self.at_inputs)

    def pass_outputs(self, result: Any) -> Any:
        results = result if isinstance(result, tuple) else (result,)
        if not all(isinstance(item, Tensor) for item in results):
            warnings.warn(
                f"{type(self.module).__name__}: full backward hooks need a forward that returns a Tensor or a tuple of "
                f"Tensors, got {kind_name(result)}; gradients of other outputs bypass the hooks",
                stacklevel=2,
            )
        passed, self.outputs = _pass(results, self.at_outputs)
        self.results = len(results)
        return passed if isinstance(result, tuple) else passed[0]

    def at_outputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        spread = _spread(grads, self.outputs, self.results)
        for (hook,) in self.before:
            returned = hook(self.module, spread)
            if returned is not None:
                spread = _checked("register_full_backward_pre_hook", returned, spread)
        self.grad_output = spread
        if not self.inputs:
            for (hook,) in self.after:
                returned = hook(self.module, (None,) * self.count, spread)
                if returned is not None and any(item is not None for item in _as_tuple(returned)):
                    raise RuntimeError(
                        "register_full_backward_hook: no input requires a gradient, so the hook must return None"
                    )
        return tuple([spread[position] for position in self.outputs])

    def at_inputs(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        spread = _spread(grads, self.inputs, self.count)
        for (hook,) in self.after:
            returned = hook(self.module, spread, self.grad_output)
            if returned is not None:
                spread = _checked("register_full_backward_hook", returned, spread)
        self.grad_output = None
        return tuple([spread[position] for position in self.inputs])


def _pass(items: tuple[Any, ...], receive: Callable[..., Any]) -> tuple[tuple[Any, ...], list[int]]:
    """Pass each tensor that requires a gradient through a _BackwardHookFunction; return the items, the positions."""
    positions = [index for index, item in enumerate(items) if isinstance(item, Tensor) and item.requires_grad]
    if not positions or not is_grad_enabled():
        return items, []
    passed: Iterator[Tensor] = iter(_BackwardHookFunction.apply(receive, *[items[index] for index in positions]))
    results = list(items)
    for index in positions:
        results[index] = next(passed)
        results[index]._view = UNTRACKED  # it shares memory that others may see
    return tuple(results), positions


def _spread(grads: tuple[Any, ...], positions: list[int], count: int) -> tuple[Any, ...]:
    result: list[Any] = [None] * count
    for position, gradient in zip(positions, grads, strict=True):
        result[position] = gradient
    return tuple(result)


def _as_tuple(returned: Any) -> tuple[Any, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


def _checked(name: str, returned: Any, before: tuple[Any, ...]) -> tuple[Any, ...]:
    result = _as_tuple(returned)
    if len(result) != len(before):
        raise RuntimeError(f"{name}: the hook returned {len(result)} gradients, expected {len(before)}")
    return result
