"""The backward rules of modules: ``layer.backward_rule = rule`` and ``model.backward_rules()``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engine.rule import LAYER_CALLS, Rule, as_rule, overridden, run_with_rule

__all__: list[str] = []


class Ruled:
    """The part of Module that replaces its backward."""

    @property
    def backward_rule(self) -> Callable[..., Any] | None:
        """The function that replaces the backward of this module, or None.

        A function, or the name of a registered rule, as for `override_backward`. The Tensors of the call are those
        among the arguments of forward and then the parameters, in the order of ``parameters()``: the true backward of
        a Linear gives ``gx, gw, gb = true(g)``. A rule is part of the configuration: repr shows it, copies have it, a
        state_dict does not hold it.

        Raises:
            TypeError: the rule is neither a function nor a name.
            ValueError: it has other parameters, or no rule has this name.
        """
        rule: Rule | None = self.__dict__.get("_backward_rule")
        return None if rule is None else rule.function

    @backward_rule.setter
    def backward_rule(self, rule: Callable[..., Any] | str | None) -> None:
        if rule is None:
            self.__dict__.pop("_backward_rule", None)
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
        """What repr shows in the brackets: ``extra_repr`` and the rule."""
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
        (each.__dict__, name)
        for each in (module.modules() if module._child_names else (module,))
        for name in each.__dict__["_parameter_names"]
        if each.__dict__[name] is not None
    ]
    return run_with_rule(module.__dict__["_backward_rule"], type(module).__name__, forward, args, kwargs, own)


LAYER_CALLS.add(call_with_rule.__code__)
