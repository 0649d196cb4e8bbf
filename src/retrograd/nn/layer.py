"""Base classes of layers: constructors, reprs and docstrings derived from declared options."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

from ..engine.arguments import kind_name
from ..engine.tensor import Tensor
from ..ops.signatures import require_bound
from . import functional
from .module import Module, checked
from .module_state import Tree

__all__ = ["Described", "OverAxes", "changed", "layer"]


# ---- Docstring templates for layers over one, two and three axes ----------------------------------------------------

_WORDS = {1: ("one axis", "I"), 2: ("two axes", "H, W"), 3: ("three axes", "D, H, W")}


def filled(text: str, ndim: int) -> str:
    """Fill a template: {n} is the number of axes, {axes} the number in words, {extents} the names of their extents."""
    axes, extents = _WORDS[ndim]
    return text.replace("{n}", str(ndim)).replace("{axes}", axes).replace("{extents}", extents)


# ---- Constructors and reprs from declared options, docstrings from those of functions -------------------------------

AnyLayer = TypeVar("AnyLayer", bound=Module)


@dataclass_transform(eq_default=False)
def layer(cls: type[AnyLayer]) -> type[AnyLayer]:
    """Give a layer a constructor whose parameters are the attributes annotated in the class, as ``dataclass`` does.

    The constructor stores the arguments (those annotated as ``Tensor | None`` as buffers). It then calls ``_set_up``,
    if there is one, to check them and to create parameters. The repr shows the attributes ``_shown``, by default all.
    """
    options = _parameters(cls)
    signature = inspect.Signature([_SELF, *options.values()], return_annotation="None")
    buffers = {name for name, option in options.items() if option.annotation == "Tensor | None"}
    set_up = getattr(cls, "_set_up", None)  # looked up now, so that a user's subclass cannot replace it
    adapted = getattr(cls, "_adapted", None)  # for losses: converts the deprecated size_average and reduce

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        if adapted is not None:
            args, kwargs = type(self)._adapted(args, kwargs)
        try:
            given = signature.bind(self, *args, **kwargs)
        except TypeError:
            require_bound(type(self).__name__, own, args, kwargs)
            raise
        given.apply_defaults()
        Module.__init__(self)
        for name, value in list(given.arguments.items())[1:]:
            if name in buffers:
                if value is not None and not isinstance(value, Tensor):
                    raise TypeError(
                        f"{type(self).__name__}: {name} is {kind_name(value)}, needs a Tensor; make one with "
                        f"retrograd.tensor({name})"
                    )
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        if set_up is not None:
            set_up(self)

    own = signature.replace(parameters=[*options.values()])  # without self
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    members: Any = cls
    members._options = options
    shown = [_SELF, *options.values()]
    if adapted is not None:
        shown = members._signature(shown)
    __init__.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    members.__init__ = checked(__init__)
    if not hasattr(cls, "_shown"):
        members._shown = tuple(options)
    if cls.extra_repr is Tree.extra_repr:
        members.extra_repr = extra_repr
    return cls


_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _parameters(cls: Any) -> dict[str, inspect.Parameter]:
    """Return the annotated attributes as parameters, after those of the bases.

    Keyword-only ones (after ``_: KW_ONLY``) come last. The defaults are deleted from the class, because an attribute of
    the class could not become a buffer.
    """
    found: dict[str, inspect.Parameter] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_options", {})
    kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    for name, annotation in inspect.get_annotations(cls).items():
        if annotation == "KW_ONLY":
            kind = inspect.Parameter.KEYWORD_ONLY
        elif not annotation.startswith("ClassVar"):
            default = cls.__dict__.get(name, inspect.Parameter.empty)
            found[name] = inspect.Parameter(name, kind, default=default, annotation=annotation)
            if name in cls.__dict__:
                delattr(cls, name)
    return dict(sorted(found.items(), key=lambda item: item[1].kind))


def extra_repr(self: Any) -> str:
    """Return ``name=value`` for the shown attributes; ``inplace`` only if it is set."""
    shown = [(name, getattr(self, name)) for name in self._shown]
    return ", ".join(
        f"{name}={repr(value) if isinstance(value, str) else value}"
        for name, value in shown
        if name != "inplace" or value
    )


def changed(module: Module, **defaults: Any) -> list[str]:
    """Return ``name=value`` for the attributes that differ from these defaults, for a repr."""
    values = {name: getattr(module, name, default) for name, default in defaults.items()}
    return [f"{name}={value}" for name, value in values.items() if value != defaults[name]]


class Described:
    """Base of layers whose docstrings are templates.

    ``{functional.relu}`` is replaced by the docstring of that function. A docstring without a "Raises:" section gets
    ``_errors`` of the base class.
    """

    _errors: ClassVar[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        text = re.sub(r"\{functional\.(\w+)\}", _docstring, cls.__doc__ or "")
        if "Raises:" not in text and any("_errors" in vars(base) for base in cls.__bases__):
            text = f"{text.rstrip()}\n\n    Raises:\n        {cls._errors}\n    "
        cls.__doc__ = text or None


def _docstring(name: re.Match[str]) -> str:
    return textwrap.indent(inspect.getdoc(getattr(functional, name[1])) or "", "    ").strip()


def _joined(own: str, general: str) -> str:
    """Join a class's own docstring, or the first paragraph of the general one, and the rest of the general one."""
    _, _, rest = general.partition("\n\n")
    return f"{own.rstrip()}\n\n{rest}" if own and rest else own or general


class OverAxes(Described):
    """Base of layers for any number of axes: ``class Conv2d(_Conv, ndim=2)``.

    The docstring of ``Conv2d`` is followed by that of ``_Conv`` without its first paragraph.
    """

    ndim: ClassVar[int]
    operator: ClassVar[str] = ""  # the name of the function in ``nn.functional``
    run: ClassVar[Callable[..., Any]]  # that function

    def __init_subclass__(cls, ndim: int = 0, **kwargs: Any) -> None:
        if ndim:
            cls.ndim, cls.operator = ndim, filled(cls.operator, ndim)
            if cls.operator:
                cls.run = staticmethod(getattr(functional, cls.operator))
            cls.__doc__ = _joined(cls.__doc__ or "", filled(cls._general(), ndim))
        super().__init_subclass__(**kwargs)

    @classmethod
    def _general(cls) -> str:
        """Return the docstring that holds for any number of axes."""
        return cls.__bases__[0].__doc__ or ""
