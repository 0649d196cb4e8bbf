"""Parameters computed from others at every use: ``torch.nn.utils.parametrize``.

The module's class is replaced by a subclass in which the parameter is a property, so forward needs no change.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ...engine.grad_mode import no_grad
from ...engine.tensor import Tensor
from ...kernel_set import kernels
from ...ops.argument_checks import as_list, require_tensor
from ..arguments import as_module
from ..module import Module
from ..parameter import Parameter

__all__ = ["ParametrizationList", "is_parametrized", "register_parametrization", "remove_parametrizations"]


class ParametrizationList(Module):
    """The originals of a parameter (``original``, or ``original0``, ``original1``, ...) and its Module ``0``."""

    def __init__(self, parametrization: Module, originals: tuple[Tensor, ...], requires_grad: bool) -> None:
        originals = tuple(as_list("ParametrizationList", "originals", originals, "a tuple of Tensors"))
        for place, tensor in enumerate(originals):
            require_tensor("ParametrizationList", tensor, f"originals[{place}]")
        super().__init__()
        self._names = ["original"] if len(originals) == 1 else [f"original{k}" for k in range(len(originals))]
        for name, tensor in zip(self._names, originals, strict=True):
            self.register_parameter(name, Parameter(tensor.array, requires_grad))
        self.register_module("0", parametrization)

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
        return 1

    def __getitem__(self, index: int) -> Module:
        return (self.__dict__["0"],)[index]

    def forward(self) -> Tensor:
        return self.__dict__["0"](*(self.__dict__[name] for name in self._names))

    @no_grad()
    def right_inverse(self, value: Tensor) -> None:
        """Set the originals to those from which the parametrization computes value.

        Raises:
            RuntimeError: the parametrization has no ``right_inverse``.
            TypeError: value is not a Tensor.
            ValueError: ``right_inverse`` gives other shapes or dtypes than the originals have.
        """
        inverse: Callable[[Tensor], Any] | None = getattr(self[0], "right_inverse", None)
        if inverse is None:
            raise RuntimeError(
                f"{type(self[0]).__name__} has no right_inverse, so the tensor that it computes cannot be assigned; "
                "write that method, or change the original"
            )
        require_tensor("right_inverse", value, "value")
        found = inverse(value.detach())
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


def register_parametrization(module: Module, tensor_name: str, parametrization: Module) -> Module:
    """Compute ``module.<tensor_name>`` as ``parametrization(original)`` from now on, and train ``original``.

    original starts as the parameter's value X, or as ``parametrization.right_inverse(X)`` if that method exists (and
    does not raise NotImplementedError); it may return several tensors, which forward gets as arguments: original0,
    original1, ... They are stored under ``parametrizations.<tensor_name>`` in the state_dict. Each use of the parameter
    recomputes it. Assigning a Tensor X to it sets the originals to ``right_inverse(X)``.

    Raises:
        ValueError: the module has no such parameter, it already has a parametrization (write one Module that does
            both), or the parametrization changes the shape or dtype.

    >>> import retrograd
    >>> from retrograd import nn
    >>> class Symmetric(nn.Module):
    ...     def forward(self, x):
    ...         return (x + x.T) * 0.5
    >>> layer = nn.utils.parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    if is_parametrized(module, tensor_name):
        raise ValueError(
            f"register_parametrization: {tensor_name!r} of {type(module).__name__} already has a parametrization; "
            f"write one Module that does both, or remove it first"
        )
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
        _check_shape_and_dtype(computed, parameter, tensor_name)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.register_module("parametrizations", _Parametrizations())
    module.parametrizations.register_module(tensor_name, computed)
    compute(module, tensor_name, lambda self: self.parametrizations.__dict__[tensor_name](), "Parametrized")
    return module


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
        raise ValueError(f"{caller}: {type(module).__name__} has no parameter {name!r}")
    return parameter


def _check_shape_and_dtype(computed: ParametrizationList, parameter: Parameter, name: str) -> None:
    mode = computed.training
    value = computed.eval()()
    computed.train(mode)
    if value.array.shape != parameter.array.shape or value.array.dtype != parameter.array.dtype:
        raise ValueError(
            f"register_parametrization: {name!r} is {parameter.array.dtype} of shape {parameter.array.shape}, its "
            f"parametrization gives {value.array.dtype} of shape {value.array.shape}; they must be equal"
        )
