"""TypeErrors for arguments that do not fit a signature: they name the function called and suggest the right keyword."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

__all__ = ["advised", "require_bound"]

_F = TypeVar("_F", bound=Callable[..., Any])

# other libraries' keywords: PyTorch's names for them, the first that the function has
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "pad": ("padding",),
    "dilate": ("dilation",),
    "dilation_rate": ("dilation",),
    "kernel": ("kernel_size",),
    "pool_size": ("kernel_size",),
    "kernel_shape": ("kernel_size",),
    "filters": ("out_channels",),
    "num_filter": ("out_channels",),
    "channels": ("out_channels", "num_features"),
    "num_group": ("groups",),
    "units": ("out_features", "hidden_size"),
    "num_hidden": ("out_features", "hidden_size"),
    "use_bias": ("bias",),
    "epsilon": ("eps",),
    "axis": ("dim", "dims", "normalized_shape"),
    "dim": ("axis", "dims"),
    "keepdims": ("keepdim",),
    "rate": ("p",),
    "drop_prob": ("p",),
    "learning_rate": ("lr",),
}
_LAYOUT = "channels come before positions here: (N, C, H, W); write x.permute(0, 3, 1, 2) for an input of (N, H, W, C)"
_ADVICE = {"layout": _LAYOUT, "data_format": _LAYOUT}


def require_bound(name: str, signature: inspect.Signature, args: tuple[Any, ...], given: Mapping[str, Any]) -> None:
    """Raise a TypeError that names ``name`` and the argument, unless the arguments fit the signature."""
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        raise TypeError(f"{name}() {_problem(signature, args, given) or error}") from None


def _problem(signature: inspect.Signature, args: tuple[Any, ...], given: Mapping[str, Any]) -> str:
    """Return a message for a call that does not fit the signature, or "" where ``inspect``'s own message is clear."""
    parameters = signature.parameters.values()
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    unknown = [key for key in given if key not in signature.parameters]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        return f"got an unexpected keyword argument {unknown[0]!r}{_suggestion(unknown[0], [*signature.parameters])}"
    if len(args) > len(by_place) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        least = sum(p.default is p.empty for p in by_place)
        allowed = f"{least} to {len(by_place)}" if least < len(by_place) else str(least)
        return f"takes {allowed} positional arguments, got {len(args)}"
    return ""


def _suggestion(keyword: str, names: list[str]) -> str:
    for name in _SYNONYMS.get(keyword, ()):
        if name in names:
            return f"; did you mean {name!r}?"
    if keyword in _ADVICE:
        return f"; {_ADVICE[keyword]}"
    close = difflib.get_close_matches(keyword, names, 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def advised(function: _F) -> _F:
    """The function, whose TypeErrors for arguments that do not fit suggest others; see ``require_bound``."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except TypeError:
            require_bound(function.__name__, signature, args, given)
            raise

    return cast(_F, call)
