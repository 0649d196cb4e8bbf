"""An operator that can be explained: its tensors, its settings, the example that its page begins with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..explanation import Case, Explanation, Setting
from ..measure import Arrays, gradients
from .example import draw

__all__ = ["Operator", "call_text"]


@dataclass(frozen=True)
class Operator:
    """How one operator is explained.

    tensors: the names of the tensors that it takes, in their order; optional: those that may be missing
    settings: what the page lets its reader change
    example: the inputs of the page, from the values of the settings
    case: the operator with given inputs and options
    """

    name: str
    tensors: tuple[str, ...]
    optional: tuple[str, ...]
    settings: tuple[Setting, ...]
    example: Callable[[Mapping[str, Any]], Arrays]
    case: Callable[[Arrays, Mapping[str, Any]], Case]

    def with_settings(self, given: Mapping[str, Any]) -> Explanation:
        """The explanation of the example with some settings changed.

        Raises:
            ValueError: there is no such setting, a value is not one of its choices, or they do not go together.
        """
        known = {setting.name: setting for setting in self.settings}
        for name, value in given.items():
            if name not in known:
                raise ValueError(f"explain: {self.name} has no setting {name!r}; it has {', '.join(known)}")
            if value not in known[name].choices:
                choices = ", ".join(map(str, known[name].choices))
                raise ValueError(f"explain: {name}={value!r} must be one of {choices}")
        settings = tuple(replace(each, value=given.get(each.name, each.value)) for each in self.settings)
        options = {each.name: each.value for each in settings}
        inputs = self.example(options)
        case = self.case(inputs, options)
        y = gradients(case.call, inputs, None, "compiled")["y"]
        gy = draw(y.shape, str(options.get("values", "integers")), 4)
        return Explanation(case, gy, settings, options)


def call_text(function: str, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """The call as Python: ``F.conv2d(x, w, b, stride=2)``."""
    return f"{function}({', '.join([*inputs, *(f'{name}={value!r}' for name, value in options.items())])})"
