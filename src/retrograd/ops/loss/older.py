"""``size_average`` and ``reduce``, which ``reduction`` took the place of, in the places that PyTorch gives them."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ..arguments.checks import as_truth

__all__ = ["averaged", "reduction_of"]

AnyLoss = TypeVar("AnyLoss", bound=Callable[..., Any])


def averaged(loss: AnyLoss) -> AnyLoss:
    """A loss that takes ``size_average`` and ``reduce``, too, and its options by position in PyTorch's order.

    There ``size_average`` is the first option, and ``reduce`` stands before ``reduction``.
    """
    signature = inspect.signature(loss)
    places = [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    options = [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    before = next(index for index, p in enumerate(options) if p.name == "reduction")
    average, each = (
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="bool | None")
        for name in ("size_average", "reduce")
    )
    order = [average, *options[:before], each, *options[before:]]
    names = [p.name for p in order]

    @functools.wraps(loss)
    def call(*args: Any, size_average: Any = None, reduce: Any = None, **given: Any) -> Any:
        if len(args) > len(places):
            more = dict(zip(names, args[len(places) :], strict=False))
            if len(args) > len(places) + len(names) or more.keys() & given.keys():
                raise TypeError(f"{loss.__name__}: too many arguments, or one that is given twice; it is {call_form}")
            args, given = args[: len(places)], more | given
            size_average, reduce = given.pop("size_average", size_average), given.pop("reduce", reduce)
        if size_average is not None or reduce is not None:
            given["reduction"] = reduction_of(loss.__name__, size_average, reduce)
        return loss(*args, **given)

    shown: list[inspect.Parameter] = [*places, *(p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in order)]
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    call_form = f"{loss.__name__}{call.__signature__}"  # type: ignore[attr-defined]
    result: Any = call
    return result


def reduction_of(name: str, size_average: bool | None, reduce: bool | None) -> str:
    """Return the ``reduction`` that ``size_average`` and ``reduce`` stand for, with PyTorch's warning.

    Raises:
        TypeError: one is neither a bool nor None; a ``reduction`` is given by its name.
    """
    average = size_average is None or as_truth(name, "size_average", size_average)
    whole = reduce is None or as_truth(name, "reduce", reduce)
    found = "none" if not whole else "mean" if average else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction={found!r} instead.",
        UserWarning,
        stacklevel=3,
    )
    return found
