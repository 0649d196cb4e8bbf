"""Parameters computed from others at every use: ``torch.nn.utils.parametrize``.

The module's class is replaced by a subclass in which the parameter is a property, so forward needs no change.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from ...engine.aliasing import change_since, next_order
from ...engine.arguments import kind_name
from ...engine.grad_mode import no_grad, thread
from ...engine.tensor import Tensor
from ...kernel_set import kernels, listeners
from ...ops.argument_checks import as_flag, as_list, require_tensor
from ..arguments import as_module
from ..module import Module
from ..parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations"]


class ParametrizationList(Module):
    """A parameter's originals (``original``, or ``original0``, ``original1``, ...) and Modules (``0``, ``1``, ...)

    Module 0 gets the originals, each other Module what the one before it computes.
    """

    def __init__(self, parametrization: Module, originals: tuple[Tensor, ...], requires_grad: bool) -> None:
        originals = tuple(as_list("ParametrizationList", "originals", originals, "a tuple of Tensors"))
        for place, tensor in enumerate(originals):
            require_tensor("ParametrizationList", tensor, f"originals[{place}]")
        super().__init__()
        self._names = ["original"] if len(originals) == 1 else [f"original{k}" for k in range(len(originals))]
        for name, tensor in zip(self._names, originals, strict=True):
            self.register_parameter(name, Parameter(tensor.array, requires_grad))
        self.append(parametrization)

    def append(self, parametrization: Module) -> None:
        """Compute ``parametrization(value)`` from the value computed so far."""
        self.register_module(str(len(self)), parametrization)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Rename the keys of earlier functions, such as ``weight_g``, if the parametrization has ``legacy_keys``."""
        legacy: Callable[[], dict[str, str]] | None = getattr(self.__dict__["0"], "legacy_keys", None)
        owner, found, name = prefix[:-1].rpartition("parametrizations.")
        if legacy is not None and found:
            moved = {f"{owner}{name}{end}": f"{prefix}{key}" for end, key in legacy().items()}
            if all(key in state_dict for key in moved) and not any(key in state_dict for key in moved.values()):
                for key, place in moved.items():
                    state_dict[place] = state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def __len__(self) -> int:
        return len(self._child_names)

    def __getitem__(self, index: int) -> Module:
        return [*self.children()][index]

    def forward(self) -> Tensor:
        first, *others = self.children()
        value: Tensor = first(*(self.__dict__[name] for name in self._names))
        for each in others:
            value = each(value)
        return value

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set the originals to those from which the parametrizations compute value.

        Raises:
            RuntimeError: a parametrization has no ``right_inverse``.
            TypeError: value is not a Tensor.
            ValueError: ``right_inverse`` gives other shapes or dtypes than the originals have.
        """
        require_tensor("right_inverse", value, "value")
        found: Any = value.detach()
        for each in reversed([*self.children()]):
            inverse: Callable[[Tensor], Any] | None = getattr(each, "right_inverse", None)
            if inverse is None:
                raise RuntimeError(
                    f"{type(each).__name__} has no right_inverse, so the tensor that it computes cannot be assigned; "
                    "write that method, or change the original"
                )
            found = inverse(found)
        found = (found,) if isinstance(found, Tensor) else tuple(found)
        originals = [self.__dict__[name] for name in self._names]
        kinds = [[(each.array.shape, each.dtype) for each in tensors] for tensors in (found, originals)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"right_inverse of {type(self[0]).__name__} gives tensors of (shape, dtype) {kinds[0]}, the originals "
                f"have {kinds[1]}; they must be equal"
            )
        for original, new in zip(originals, found, strict=True):
            original.copy_(new)


class _Parametrizations(Module):
    """A ParametrizationList for each computed parameter, under its name."""


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute ``module.<tensor_name>`` as ``parametrization(original)`` from now on, and train ``original``.

    original starts as the parameter's value X, or as ``parametrization.right_inverse(X)`` if that method exists (and
    does not raise NotImplementedError); it may return several tensors, which forward gets as arguments: original0,
    original1, ... They are stored under ``parametrizations.<tensor_name>`` in the state_dict. Each use of the parameter
    recomputes it, except within ``cached``. Assigning a Tensor X to it sets the originals to ``right_inverse(X)``.

    A further parametrization of the same parameter gets the value computed so far; the originals stay as they are.

    unsafe: permit another shape or dtype, and do not call forward to find out.

    Raises:
        TypeError: unsafe is not a bool.
        ValueError: the module has no such parameter, or, unless ``unsafe``, the parametrization changes the shape or
            dtype, or is not the first and needs, or returns from ``right_inverse``, several tensors.

    >>> import retrograd
    >>> from retrograd import nn
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return (x + x.T) * 0.5
    >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    unsafe = as_flag("register_parametrization", "unsafe", unsafe)
    if is_parametrized(module, tensor_name):
        computed = module.parametrizations.__dict__[tensor_name]
        if not unsafe:
            _check_further(computed, parametrization, tensor_name)
        computed.append(parametrization)
        return module
    parameter = parameter_named("register_parametrization", module, tensor_name)
    inverse: Callable[[Tensor], Any] | None = getattr(parametrization, "right_inverse", None)
    with no_grad():
        originals: Any = parameter.detach()
        if inverse is not None:
            with suppress(NotImplementedError):
                originals = inverse(originals)
        if isinstance(originals, Tensor):
            originals = (originals,)
        computed = ParametrizationList(parametrization, tuple(originals), parameter.requires_grad)
        if not unsafe:
            _check_same_kind(tensor_name, parameter, _in_eval(computed), "gives")
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.register_module("parametrizations", _Parametrizations())
    module.parametrizations.register_module(tensor_name, computed)
    compute(module, tensor_name, partial(_value, tensor_name), "Parametrized")
    return module


class _CachedValue(NamedTuple):
    modules: list[tuple[Module, bool]]  # and whether each is in training mode
    tensors: list[Tensor]
    arrays: list[np.ndarray]
    order: int  # of the computation among the changes in place
    value: Tensor


class _Cache(threading.local):
    """Within ``cached``: the values computed so far, by the id of their list and whether a graph is recorded."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, bool], _CachedValue] | None = None


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Within the block, compute each parametrized parameter once in this thread, at its first use.

    For networks that use a parameter several times, such as recurrent ones. It is computed again when its originals,
    or parameters, buffers, modules or the mode of its parametrizations have changed.
    """
    outer = _cache.values
    if outer is None:
        _cache.values = {}
    try:
        yield
    finally:
        _cache.values = outer


def _value(name: str, module: Any) -> Tensor:
    computed: ParametrizationList = module.parametrizations.__dict__[name]
    values = _cache.values
    if values is None or thread.mode.interpreter is not None or get_ident() in listeners:
        return computed()  # which transforms and recordings must see
    key = id(computed), thread.mode.enabled
    found = values.get(key)
    if found is None or not _is_current(found, computed):
        value = computed()  # which may change buffers
        modules, tensors, arrays = _state(computed)
        found = values[key] = _CachedValue(modules, tensors, arrays, next_order(), value)
    return found.value


def _state(computed: ParametrizationList) -> tuple[list[tuple[Module, bool]], list[Tensor], list[np.ndarray]]:
    tensors = [*computed.parameters(), *computed.buffers()]
    return [(each, each.training) for each in computed.modules()], tensors, [each.array for each in tensors]


def _is_current(found: _CachedValue, computed: ParametrizationList) -> bool:
    modules, tensors, arrays = _state(computed)
    return (
        len(modules) == len(found.modules)
        and all(a is b and x == y for (a, x), (b, y) in zip(modules, found.modules, strict=True))
        and len(tensors) == len(found.tensors)
        and all(a is b for a, b in zip((*tensors, *arrays), (*found.tensors, *found.arrays), strict=True))
        and not any(change_since(array, found.order) for array in arrays)
    )


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make ``module.<tensor_name>`` a parameter again, with its computed value, or with the original one if not
    ``leave_parametrized``.

    Raises:
        ValueError: there is no parametrization, or there are several originals.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"remove_parametrizations: {tensor_name!r} of {type(module).__name__} has no parametrization")
    computed = module.parametrizations.__dict__[tensor_name]
    if leave_parametrized:
        with no_grad():
            value = kernels.duplicate(getattr(module, tensor_name).array)
    elif len(computed._names) > 1:
        raise ValueError(
            f"remove_parametrizations: {tensor_name!r} has {len(computed._names)} originals; "
            f"use leave_parametrized=True"
        )
    else:
        value = computed.original.array
    requires_grad = any(parameter.requires_grad for parameter in computed.parameters(recurse=False))
    stop_computing(module, tensor_name)
    delattr(module.parametrizations, tensor_name)
    if not module.parametrizations._child_names:
        delattr(module, "parametrizations")
    module.register_parameter(tensor_name, Parameter(value, requires_grad))
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether the module computes any parameter, or the given one, by a parametrization."""
    lists = as_module("is_parametrized", "module", module).__dict__.get("parametrizations")
    if not isinstance(lists, _Parametrizations):
        return False
    return bool(lists._child_names) if tensor_name is None else tensor_name in lists._child_names


def compute(module: Module, name: str, function: Callable[[Any], Tensor], prefix: str = "") -> None:
    """Define ``module.<name>``, which is no longer a member, as a property with the value function(module)."""
    kind = type(module)
    before: _Computed = kind.__dict__.get("_computed") or _Computed(kind, prefix, {})
    _reclass(module, _Computed(before.kind, before.prefix or prefix, {**before.functions, name: function}))


def stop_computing(module: Module, name: str) -> None:
    """Undo ``compute``: free the name."""
    before: _Computed = type(module)._computed  # type: ignore[attr-defined]
    functions = {other: function for other, function in before.functions.items() if other != name}
    _reclass(module, before._replace(functions=functions))


class _Computed(NamedTuple):
    """A module's original class, the prefix of the new class's name, and the functions that became properties."""

    kind: type[Module]
    prefix: str
    functions: dict[str, Callable[[Any], Tensor]]


def _reclass(module: Module, computed: _Computed) -> None:
    """Give the module a new class; an existing one is never modified, since copies share it."""
    kind = computed.kind
    if computed.functions:
        members: dict[str, Any] = {
            name: property(function, partial(_assign, name)) for name, function in computed.functions.items()
        }
        members |= {"_computed": computed, "__doc__": kind.__doc__, "__module__": kind.__module__}
        members |= {"__reduce_ex__": _reduce, "__copy__": _copy, "_load_from_state_dict": _load}
        if kind.__deepcopy__ is Module.__deepcopy__:
            members["__deepcopy__"] = _copy
        kind = type(f"{computed.prefix}{kind.__name__}", (kind,), members)
    module.__class__ = kind


def _load(module: Any, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
    """Let functions with an ``upgrade_state`` convert the state of an older version before it is loaded."""
    computed: _Computed = type(module)._computed
    for function in computed.functions.values():
        upgrade: Callable[[Any, dict[str, Any], str], None] | None = getattr(function, "upgrade_state", None)
        if upgrade is not None:
            upgrade(module, state_dict, prefix)
    computed.kind._load_from_state_dict(module, state_dict, prefix, *rest)


def _assign(name: str, module: Module, value: Tensor) -> None:
    if not is_parametrized(module, name):
        raise AttributeError(
            f"{type(module).__name__}: {name} is computed from other parameters and cannot be assigned; change those"
        )
    module.parametrizations.__dict__[name].right_inverse(value)


def _reduce(module: Any, protocol: int) -> tuple[Any, ...]:
    """Pickle the original class and the functions, from which ``_rebuilt`` makes the class again."""
    computed: _Computed = type(module)._computed
    if is_parametrized(module):
        raise RuntimeError(
            f"{type(module).__name__} cannot be pickled: its class is made at run time, for the parametrizations of "
            f"{', '.join(module.parametrizations._child_names)}; pickle its state_dict(), and load that into a new "
            f"{computed.kind.__name__} with the same parametrizations"
        )
    parts: Any = computed.kind.__reduce_ex__(module, max(protocol, 2))
    return (_rebuilt, (computed.kind, computed.prefix, computed.functions), *parts[2:])


def _rebuilt(kind: type[Module], prefix: str, functions: dict[str, Callable[[Any], Tensor]]) -> Module:
    module = kind.__new__(kind)
    _reclass(module, _Computed(kind, prefix, functions))
    return module


def _copy(module: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return a copy of the same class; a deep one with ``memo``."""
    parts = type(module)._computed.kind.__reduce_ex__(module, 4)
    return copy._reconstruct(module, memo, *parts)  # type: ignore[attr-defined]


def parameter_named(caller: str, module: Module, name: str) -> Parameter:
    """Return the module's own parameter ``name``; raise a ValueError if there is none."""
    parameter = module.__dict__.get(name) if isinstance(name, str) else None
    if not isinstance(parameter, Parameter):
        raise no_parameter(caller, module, name)
    return parameter


def no_parameter(caller: str, module: Module, name: object) -> ValueError:
    """Return the error of a module without the parameter ``name``."""
    own = ", ".join(each for each, _ in module.named_parameters(recurse=False))
    return ValueError(f"{caller}: {type(module).__name__} has no parameter {name!r}; it has {own or 'none of its own'}")


def _in_eval(module: Module, *arguments: Tensor) -> Tensor:
    """Return the module's result in eval mode, in which no statistic moves."""
    modes = [(each, each.training) for each in module.modules()]
    module.eval()
    try:
        result: Tensor = module(*arguments)
    finally:
        for each, mode in modes:
            each.training = mode
    return result


@no_grad()
def _check_further(computed: ParametrizationList, parametrization: Module, name: str) -> None:
    """Raise a ValueError if a parametrization cannot follow those before it."""
    value = _in_eval(computed)
    try:
        result = _in_eval(parametrization, value)
    except TypeError as error:
        raise ValueError(
            f"register_parametrization: {name!r} has a parametrization already, and a further one gets its value as "
            f"the only argument; {type(parametrization).__name__}: {error}"
        ) from error
    _check_same_kind(name, value, result, "gives")
    inverse: Callable[[Tensor], Any] | None = getattr(parametrization, "right_inverse", None)
    if inverse is not None:
        with suppress(NotImplementedError):
            _check_same_kind(name, value, inverse(result), "has a right_inverse, which gives")


def _check_same_kind(name: str, value: Tensor, found: Any, gives: str) -> None:
    if not isinstance(found, Tensor):
        raise ValueError(
            f"register_parametrization: the parametrization of {name!r} {gives} {kind_name(found)}, needs one Tensor"
        )
    if found.array.shape != value.array.shape or found.array.dtype != value.array.dtype:
        raise ValueError(
            f"register_parametrization: {name!r} is {value.array.dtype} of shape {value.array.shape}, its "
            f"parametrization {gives} {found.array.dtype} of shape {found.array.shape}; they must be equal"
            + (", or pass unsafe=True" if gives == "gives" else "")
        )
