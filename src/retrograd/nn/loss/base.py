"""Base class of losses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from inspect import Parameter
from typing import Any, ClassVar

from ...ops.arguments.checks import as_real
from ...ops.loss.older import reduction_of
from ..layer import Described, layer
from ..module import Module


@layer
class Loss(Described, Module):
    """A layer with the option ``reduction``: "mean", "sum", "none", or one of those that the class adds."""

    _: KW_ONLY
    reduction: str = "mean"

    _more_reductions: ClassVar[tuple[str, ...]] = ()
    _limits: ClassVar[dict[str, tuple[str, Callable[[Any], bool]]]] = {}  # option -> what it must be, and the check
    _errors = "ValueError: the reduction is unknown."
    _shown = ()  # as in PyTorch
    _older: ClassVar[tuple[str, ...]] = ("size_average", "reduce", "reduction")  # the first options by position

    @classmethod
    def _by_position(cls) -> tuple[list[str], list[str]]:
        """The names of the arguments before the options, and those of the options in PyTorch's order."""
        options: dict[str, Parameter] = vars(cls).get("_options") or cls._options  # type: ignore[attr-defined]
        places = [name for name, p in options.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
        return places, [*cls._older, *(name for name in options if name not in (*places, *cls._older))]

    @classmethod
    def _adapted(cls, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the constructor with ``size_average`` and ``reduce`` turned into ``reduction``."""
        if not cls._older:
            return args, given
        places, names = cls._by_position()
        if len(places) < len(args) <= len(places) + len(names):
            more = dict(zip(names, args[len(places) :], strict=False))
            if more.keys() & given.keys():
                raise TypeError(f"got multiple values for argument {min(more.keys() & given.keys())!r}")
            args, given = args[: len(places)], more | given
        size_average, reduce = given.pop("size_average", None), given.pop("reduce", None)
        if size_average is not None or reduce is not None:
            given["reduction"] = reduction_of(cls.__name__, size_average, reduce)
        return args, given

    @classmethod
    def _signature(cls, parameters: list[Parameter]) -> list[Parameter]:
        """The parameters of the constructor as they are shown."""
        if not cls._older:
            return parameters
        places, names = cls._by_position()
        known = {p.name: p.replace(kind=p.POSITIONAL_OR_KEYWORD) for p in parameters}
        return [
            known.get(name, Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="bool | None"))
            for name in ("self", *places, *names)
        ]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        text = cls.__doc__ or ""
        if "reduction:" not in text and Loss in cls.__bases__:
            cls.__doc__ = f'{text.rstrip()}\n\n    reduction: "mean", "sum" or "none".\n    '
        super().__init_subclass__(**kwargs)

    def _set_up(self) -> None:
        allowed = (*self._more_reductions, "mean", "sum", "none")
        if self.reduction not in allowed:
            text = ", ".join(map(repr, allowed[:-1]))
            raise ValueError(f"{type(self).__name__}: reduction={self.reduction!r} must be {text} or 'none'")
        for name, (limit, fits) in self._limits.items():
            if not fits(as_real(type(self).__name__, name, value := getattr(self, name))):
                raise ValueError(f"{type(self).__name__}: {name}={value} must be {limit}")
