"""``compile`` and ``freeze``: functions and modules whose calls are recorded and replayed, see ``replay.py``."""

from __future__ import annotations

import os
from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

from ..engine.arguments import as_truth, kind_name
from ..engine.grad_mode import no_grad
from ..engine.memory_planning import root
from .module import Module
from .replay import Recorder

__all__ = ["compile", "explain_recording"]

_Called = TypeVar("_Called", bound=Callable[..., Any])


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return a module or function that replays recorded calls; without ``model``, a decorator.

    Calls are recorded once for each layout of the arguments, with gradients also their backward, and then run without
    Python between the kernels: a small network is several times as fast. The results and gradients are the same to the
    bit. Arguments are tensors, numbers and strings, and tuples, lists and dicts of these. What cannot be recorded runs
    as usual: random numbers other than dropout's, decisions by values, elements read through NumPy, changes of an
    argument in place, hooks, backward rules of your own (those of ``rules`` are recorded), or printing in a ``forward``
    of your own. ``explain_recording`` says what was recorded, and why not. A recording is dropped when an attribute,
    parameter, buffer or child of a module is replaced. Python code between operators is not repeated, as with PyTorch.
    Second derivatives, or a second backward pass, run the call again as usual. Its contributions to the gradient of a
    tensor that is also used elsewhere are added up first, which may change the last bits.

    Where a call cannot be recorded as a whole, the modules that it calls are: each largest one that can be.

    A function may be a whole training step: zero_grad, forward, backward, and the step of an optimizer. Learning rates
    and other options are read at each call. The loss that it returns does not require a gradient.

    A compiled module shares everything with ``model``, and is an instance of its class.

    fullgraph: a call that cannot be recorded is an error. disable: return ``model`` unchanged, as
    the environment variable RETROGRAD_EAGER=1 does. dynamic, backend, mode, options: for PyTorch's compiler, no effect.

    Raises:
        TypeError: model is not callable, or fullgraph, dynamic or disable is not a bool.

    >>> import retrograd as rg
    >>> net = rg.nn.Sequential(rg.nn.Linear(4, 8), rg.nn.ReLU(), rg.nn.Linear(8, 2))
    >>> fast, x = rg.compile(net), rg.ones(1, 4)
    >>> with rg.no_grad():
    ...     (fast(x) == net(x)).all().item(), (fast(x) == net(x)).all().item()
    (True, True)
    """
    fullgraph = as_truth("compile", "fullgraph", fullgraph)
    disable = as_truth("compile", "disable", disable)
    if dynamic is not None:
        as_truth("compile", "dynamic", dynamic)
    if model is None:
        return lambda function: compile(function, fullgraph=fullgraph, disable=disable)
    if not callable(model):
        raise TypeError(f"compile: model is {kind_name(model)}, needs a module or a function")
    if disable or os.environ.get("RETROGRAD_EAGER") == "1" or isinstance(model, (_Function, _Compiled)):
        return model
    return _compiled_module(model, fullgraph) if isinstance(model, Module) else _Function(model, fullgraph)


def compiled_if_repeated(model: _Called) -> _Called:
    """``compile`` that records the third call of a layout, for callers that cannot know how often they will call."""
    found: _Called = compile(model)
    if isinstance(found, _Function | _Compiled):
        found._recorder.patience = 2
    return found


class Frozen:
    """A module for inference with constant weights; see ``Module.freeze``."""

    def __init__(self, module: Module) -> None:
        own = deepcopy(module)
        shared = {id(root(each.array)) for each in (*module.parameters(), *module.buffers())}
        if any(id(root(each.array)) in shared for each in (*own.parameters(), *own.buffers())):
            raise ValueError(
                f"freeze: copy.deepcopy({type(module).__name__}) shares parameters or buffers with the module, so they "
                "would not be constant; let its __deepcopy__ copy them"
            )
        self._recorder = Recorder(own.requires_grad_(False), False, frozen=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with no_grad():
            return self._recorder.call(args, kwargs)

    def __repr__(self) -> str:
        return f"Frozen({self._recorder.function!r})"

    def __reduce__(self) -> Any:
        return Frozen, (self._recorder.function,)


def explain_recording(compiled: Any) -> str:
    """Return what ``compile`` or ``freeze`` recorded: steps, launches and memory for each layout, or why it did not.

    Raises:
        TypeError: compiled is not a result of ``compile`` or ``freeze``.
    """
    recorder = getattr(compiled, "_recorder", None)
    if not isinstance(recorder, Recorder):
        raise TypeError(f"explain_recording: compiled is {kind_name(compiled)}, needs a result of retrograd.compile")
    return recorder.explained()


# ---- Compiled functions and modules ----------------------------------------------------------------------------------


class _Function:
    """A function whose calls are replayed."""

    def __init__(self, function: Callable[..., Any], fullgraph: bool) -> None:
        self._recorder = Recorder(function, fullgraph)
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._recorder.call(args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Function(self.__wrapped__.__get__(instance, owner), False)

    def __reduce__(self) -> Any:
        return compile, (self.__wrapped__,)


class _Compiled:
    """The part of a compiled module that its class does not have."""

    __slots__ = ()
    _recorder: Recorder


def _compiled_module(module: Module, fullgraph: bool) -> Module:
    """A module of a subclass that shares the members of ``module``."""
    kind = type(module)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._recorder.call(args, kwargs)

    members = {
        "__slots__": ("_recorder",),
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__call__": call,
        "__reduce_ex__": lambda self, protocol: (compile, (self._recorder.function,)),
        "__deepcopy__": lambda self, memo: compile(deepcopy(self._recorder.function, memo)),
    }
    compiled: Module = object.__new__(type(kind.__name__, (_Compiled, kind), members))
    object.__setattr__(compiled, "__dict__", module.__dict__)
    object.__setattr__(compiled, "_recorder", Recorder(module, fullgraph))
    return compiled
