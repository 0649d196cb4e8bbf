"""An operator with a page: its tensors, settings and example arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...ops.signatures import suggestion
from ..explanation import Case, Explanation, Setting
from ..measurements import Arrays, gradients

__all__ = [
    "Operator",
    "VALUES",
    "arguments",
    "call_text",
    "differing",
    "distinct",
    "draw",
    "frozen",
    "leading",
    "switch",
]


# ---- Small arrays of the initial page -------------------------------------------------------------------------------

VALUES = Setting(
    "values", "integers", ("integers", "decimals"), "integers, which can be checked in your head, or arbitrary numbers"
)


def draw(shape: Sequence[int], values: str, seed: int, low: int = -2, high: int = 3) -> np.ndarray:
    """Return float32 numbers from low to high, always the same for a given seed."""
    rng = np.random.default_rng(seed)
    if values == "integers":
        return rng.integers(low, high, shape, endpoint=True).astype(np.float32)
    return rng.uniform(low, high, shape).astype(np.float32)


def distinct(shape: Sequence[int], values: str, seed: int) -> np.ndarray:
    """Return float32 numbers that all differ, so that the maximum of each window is unique."""
    rng = np.random.default_rng(seed)
    numbers = rng.permutation(int(np.prod(shape))).reshape(shape) - int(np.prod(shape)) // 2
    return (numbers if values == "integers" else numbers / 7).astype(np.float32)


# ---- Explainable operators ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operator:
    """An operator that can be explained.

    tensors: the names of its tensor arguments, in order; optional: those that may be missing
    settings: what the reader of the page can change
    example: makes the inputs of the page from the values of the settings
    case: makes the case of the operator with given inputs and options
    """

    name: str
    tensors: tuple[str, ...]
    optional: tuple[str, ...]
    settings: tuple[Setting, ...]
    example: Callable[[Mapping[str, Any]], Arrays]
    case: Callable[[Arrays, Mapping[str, Any]], Case]

    def with_settings(self, given: Mapping[str, Any]) -> Explanation:
        """Return the explanation of the example with some settings changed.

        Raises:
            ValueError: there is no such setting, a value is not one of its choices, or the settings are incompatible.
        """
        known = {setting.name: setting for setting in self.settings}
        for name, value in given.items():
            if name not in known:
                way = suggestion(name, known)
                raise ValueError(f"explain: {self.name} has no setting {name!r}; it has {', '.join(known)}{way}")
            if value not in known[name].choices:
                choices = ", ".join(map(str, known[name].choices))
                raise ValueError(f"explain: {name}={value!r} must be one of {choices}")
        settings = tuple(
            replace(each, value=given.get(each.name, each.value), default=each.value) for each in self.settings
        )
        options = {each.name: each.value for each in settings}
        case = self.case(self.example(options), options)
        y = gradients(case.call, {name: array.values for name, array in case.inputs.items()}, None, "compiled")["y"]
        gy = draw(y.shape, str(options.get("values", "integers")), 4)
        return Explanation(case, gy, settings, options, change=self.with_settings)


def call_text(function: str, inputs: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Return the call as Python: ``F.conv2d(x, w, b, stride=2)``."""
    return f"{function}({', '.join([*inputs, *(f'{name}={value!r}' for name, value in options.items())])})"


def arguments(
    name: str, options: Mapping[str, Any], defaults: Mapping[str, Any], settings: Sequence[Setting] = ()
) -> dict[str, Any]:
    """Return the options of an operator, with its defaults; "True" and "False" of a switch become booleans.

    settings: those of its example, all of which the example must be given

    Raises:
        ValueError: there is an unknown option.
    """
    example = {setting.name for setting in settings}
    unknown = options.keys() - defaults.keys() - (example if example <= options.keys() else set())
    if unknown:
        known = ", ".join(defaults) or "none"
        way = suggestion(min(unknown), defaults)
        raise ValueError(
            f"explain: {name} with {', '.join(sorted(unknown))} cannot be explained; known are: {known}{way}"
        )
    words = {"True": True, "False": False}
    return {
        key: words.get(value, value) if isinstance(value := options.get(key, default), str) else value
        for key, default in defaults.items()
    }


def differing(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that a call has to name: those that differ from the defaults."""
    return {key: value for key, value in given.items() if value != defaults[key]}


def frozen(value: Any) -> Any:
    """Return a list as a tuple, recursively, as the geometry functions require."""
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value


def switch(name: str, value: bool, about: str) -> Setting:
    """Return a setting that is on or off."""
    return Setting(name, str(value), ("True", "False"), about)


def leading(count: int) -> str:
    """Return ``count`` letters for leading axes that have no name in the operator: n, then others."""
    return "ntuvpqrs"[:count]
