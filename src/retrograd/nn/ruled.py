"""The backward rules of modules: ``layer.backward_rule = rule`` and ``model.backward_rules()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine.backward_rules import Rule, as_rule, overridden, run_with_rule

__all__: list[str] = []


class Ruled:
    """The part of Module that replaces its backward."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "backward_rule" in cls.__dict__:
            raise TypeError(
                f"{cls.__name__}: backward_rule is an attribute of each object and would not hold as a member of the "
                "class; give the function another name, and in __init__ write self.backward_rule = self.that_name"
            )

    @property
    def backward_rule(self) -> Callable[..., Any] | None:
        """The function that replaces the backward of this module, or None.

        A function, or the name of a registered rule, as for `override_backward`. The Tensors of the call are those
        among the arguments of forward and then the parameters, in the order of ``parameters()``: the true backward of
        a Linear gives ``gx, gw, gb = true(g)``. A rule is part of the configuration: repr shows it, copies have it, a
        state_dict does not hold it.

        A forward that is not differentiable, such as one in NumPy, gets the gradients of its rule. A call of
        ``layer.forward`` instead of ``layer`` leaves out the rule, as it leaves out hooks.

        Raises:
            TypeError: the rule is neither a function nor a name, or the module has no forward, as a ModuleList.
            ValueError: it has other parameters, or no rule has this name.
        """
        rule: Rule | None = self.__dict__.get("_backward_rule")
        return None if rule is None else rule.function

    @backward_rule.setter
    def backward_rule(self, rule: Callable[..., Any] | str | None) -> None:
        if rule is None:
            self.__dict__.pop("_backward_rule", None)
        elif getattr(self.forward, "__name__", "") == "_forward_missing":  # type: ignore[attr-defined]
            raise TypeError(
                f"{type(self).__name__}.backward_rule: this module has no forward, so the rule would never hold; "
                "set it on the modules in it"
            )
        else:
            self.__dict__["_backward_rule"] = as_rule(f"{type(self).__name__}.backward_rule", rule)
            self.__dict__["_is_plain"] = False

    @backward_rule.deleter
    def backward_rule(self) -> None:
        self.backward_rule = None

    def backward_rules(self) -> dict[str, str]:
        """The rules that replace backwards: {path of the module: name}, then {operator: name} of the active overrides.

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
    """Whether a rule replaces the backward of this module."""
    return "_backward_rule" in module.__dict__


def call_with_rule(module: Any, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``forward`` of a module that has a rule."""
    own = [
        (members, name, members[name])
        for members in ([each.__dict__ for each in module.modules()] if module._child_names else (module.__dict__,))
        for name in members["_parameter_names"]
        if members[name] is not None
    ]
    return run_with_rule(module.__dict__["_backward_rule"], type(module).__name__, forward, args, kwargs, own)
