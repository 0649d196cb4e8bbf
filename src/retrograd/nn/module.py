"""Module, the base class of every layer and network: calls, members, their lookup by path, and dtype conversion.

Layers accept 0 and 1 as bools, as PyTorch's do, and refuse strings and other numbers. ``bias=None`` means no bias, and
``layer.bias`` is then None. A layer is created on the CPU, then moved to its ``device``.

Module paths are not tracked while a network runs: each Module.__call__ that an exception propagates through adds its
module to the exception.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import pairwise
from sys import _getframe
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..arrays import empty_like, zeros_like
from ..engine.arguments import kind_name
from ..engine.call_site import in_package
from ..engine.grad_mode import thread
from ..engine.tensor import Tensor
from ..kernel_set import exact
from ..ops.argument_checks import as_truth
from ..ops.device import DeviceLike, array_on_device, as_any_device, moved
from ..ops.dtypes.conversion import destination, named_type
from ..ops.signatures import require_bound
from ..torch_api.missing import attach_to_class
from .module_hooks import Hooked, changes
from .module_state import HasStateDict, Tree
from .parameter import Buffer, Parameter, as_float_dtype, is_lazy

if TYPE_CHECKING:
    from .compilation import Frozen
    from .parameter import Parameter

__all__ = ["Module"]


# ---- Argument checks shared by all layers: bools and the device -----------------------------------------------------


def checked(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``init`` to refuse anything but bools for parameters annotated as bool, and to move the layer to its device.

    Arguments that do not fit the signature raise a TypeError that names the layer and suggests a keyword.
    """
    parameters = list(inspect.signature(init).parameters.values())[1:]
    flags = [(place, p.name) for place, p in enumerate(parameters) if p.annotation in (bool, "bool")]
    device_position = next((place for place, p in enumerate(parameters) if p.name == "device"), -1)
    signature = inspect.Signature(parameters)

    takes = parameters[0] if parameters else None
    of_tensor = takes is not None and ("Tensor" in str(takes.annotation) or takes.name in ("module", "modules"))

    @functools.wraps(init)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            create(self, *args, **kwargs)
        except (TypeError, ValueError, AttributeError):
            # a first argument that is a tensor: the layer was to be called, not created
            name = type(self).__name__
            tensors = bool(args) and isinstance(args[0], (Tensor, np.ndarray)) and not name.startswith("_")
            if tensors and (len(args) > 1 if of_tensor else True):
                inputs = ", ".join(["input", "target"][: len(args)])
                raise TypeError(
                    f"{name}(...) creates a layer; call the layer with tensors: {name}(...)({inputs})"
                ) from None
            raise

    def create(self: Any, *args: Any, **kwargs: Any) -> None:
        for place, name in flags:
            if place < len(args):
                if type(args[place]) is not bool:
                    args = (*args[:place], _flag(self, name, args[place]), *args[place + 1 :])
            elif name in kwargs:
                kwargs[name] = _flag(self, name, kwargs[name])
        on: str | None = None
        if device_position >= 0:
            device = args[device_position] if device_position < len(args) else kwargs.get("device")
            on = None if device is None else as_any_device(type(self).__name__, device)
        try:
            init(self, *args, **kwargs)
        except TypeError:
            require_bound(type(self).__name__, signature, args, kwargs)
            raise
        if on is not None:
            self.to(on)

    return initialize


def _flag(layer: Any, name: str, value: Any) -> bool:
    if value is None and name == "bias":
        return False
    return as_truth(type(layer).__name__, name, value)


# ---- Module paths in exception messages -----------------------------------------------------------------------------

_PREFIX, _MODULES = "_retrograd_module_path", "_retrograd_modules"


class _ModuleTrace(list["Module"]):
    """The modules that an exception has propagated through, outermost first; a pickled copy is empty."""

    def __reduce__(self) -> Any:
        return _ModuleTrace, ()


def add_module_path(error: Exception, module: Module) -> None:
    """Prefix the message of an exception raised in a call of ``module``: ``in features.3 (Conv2d(16, 32, ...)): ``.

    Each enclosing module replaces the prefix of the module inside it, so the outermost prefix remains. An exception
    whose message is not its only argument (KeyError, OSError, ...) keeps its arguments and gets a note instead.
    """
    members: dict[str, Any] = error.__dict__
    members[_MODULES] = modules = _ModuleTrace([module, *members.get(_MODULES, ())])
    words = f"in {described(modules)}"
    previous: str | None = members.get(_PREFIX)
    members[_PREFIX] = words
    # only BaseException.__str__ is known to print the arguments
    if type(error).__str__ is BaseException.__str__ and [type(arg) for arg in error.args] == [str]:
        message: str = error.args[0]
        if previous is not None:
            message = message.removeprefix(previous + ": ")
        error.args = (f"{words}: {message}",)
        return
    notes: list[str] = getattr(error, "__notes__", [])
    if previous in notes:
        notes[notes.index(previous)] = words
    else:
        error.add_note(words)


def described(modules: list[Module]) -> str:
    """Return the path from the first module to the last, and a description of the last."""
    names = [name for outer, inner in pairwise(modules) if (name := _name_in(outer, inner))]
    try:
        description = modules[-1].describe()
    except Exception:  # a failing repr must not hide the error
        description = type(modules[-1]).__name__
    return f"{'.'.join(names)} ({description})" if names else description


def _name_in(outer: Module, inner: Module) -> str:
    for name, module in outer.named_modules():
        if module is inner:
            return name
    return f"<{type(inner).__name__}>"  # called by outer, but not registered in it


# ---- Members as dicts: PyTorch's `_modules`, `_parameters` and `_buffers` -------------------------------------------


class Members(MutableMapping[str, Any]):
    """The members of one kind by name; setting or deleting an entry sets or deletes the attribute.

    kind: "module", "parameter" or "buffer".

    Raises:
        KeyError: there is no such member.
    """

    def __init__(self, module: Module, kind: str) -> None:
        self._module, self._kind = module, kind

    def _names(self) -> dict[str, Any]:
        registry = {"module": "_child_names", "parameter": "_parameter_names", "buffer": "_buffer_names"}[self._kind]
        names: dict[str, Any] = self._module.__dict__[registry]
        return names

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return self._module.__dict__[name]

    def __setitem__(self, name: str, value: Any) -> None:
        getattr(self._module, f"register_{self._kind}")(name, value)

    def __delitem__(self, name: str) -> None:
        self[name]
        delattr(self._module, name)

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names()))

    def __len__(self) -> int:
        return len(self._names())

    def __repr__(self) -> str:
        return repr(dict(self))


# ---- Lookup of members by path, as in `state_dict` and `named_modules`: `"features.0.weight"` -----------------------


class Lookup:
    """The methods of Module that find members by path."""

    def get_submodule(self, target: str) -> Module:
        """Return the module at path ``target``; "" is this one.

        Raises:
            AttributeError: there is no such module.
        """
        module: Any = self
        for depth, name in enumerate(parts := target.split(".") if target else []):
            members = module.__dict__
            if members.get(name) is None or name not in members["_child_names"]:
                raise self._missing("module", target, ".".join(parts[:depth]), name, members["_child_names"])
            module = members[name]
        return module

    def set_submodule(self, target: str, module: Module) -> None:
        """Replace the module at path ``target``.

        Raises:
            ValueError: target is empty.
            AttributeError: there is no module at target.
            TypeError: module is not a Module.
        """
        if not target:
            raise ValueError("set_submodule: target is empty; a module cannot replace itself")
        self.get_submodule(target)
        path, _, name = target.rpartition(".")
        self.get_submodule(path).register_module(name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at path ``target``.

        Raises:
            AttributeError: there is no such parameter.
        """
        return self._member("parameter", "_parameter_names", target)

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at path ``target``.

        Raises:
            AttributeError: there is no such buffer.
        """
        return self._member("buffer", "_buffer_names", target)

    def _member(self, kind: str, registry: str, target: str) -> Any:
        path, _, name = target.rpartition(".")
        members = self.get_submodule(path).__dict__
        if name not in members[registry] or members[name] is None:
            raise self._missing(kind, target, path, name, members[registry])
        return members[name]

    def _missing(self, kind: str, target: str, path: str, name: str, names: Any) -> AttributeError:
        place = f"{type(self).__name__}{'.' if path else ''}{path}"
        known = ", ".join(names) or "none"
        return AttributeError(f"get_{kind}({target!r}): {place} has no {kind} {name!r}; it has {known}")


# ---- Conversion of a module's tensors to another dtype or device ----------------------------------------------------


class Convertible:
    """Methods of Module that convert its tensors to another type or device."""

    parameters: Callable[..., Iterator[Parameter]]
    buffers: Callable[..., Iterator[Tensor]]

    def to(self, *args: Any, **options: Any) -> Self:
        """Convert parameters, their gradients and floating-point buffers.

        ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(tensor)``; non_blocking has no effect.

        dtype is float32 or float64; the device is the CPU, or one registered with ``kernel_set.add_device``.
        Parameters stay the same objects and keep their memory order, the one that the kernels read;
        ``memory_format`` has no effect.

        Raises:
            TypeError: dtype is neither float32 nor float64.
            RuntimeError: the device is not known, or a parameter without a shape would be moved.
        """
        found = destination("to", args, options)
        if found.dtype is not None:
            self._convert(as_float_dtype(found.dtype))
        return self if found.device is None else self._move("to", found.device)

    def _move(self, name: str, device: str) -> Self:
        for tensor in (*self.parameters(), *self.buffers()):
            if is_lazy(tensor):
                if device != "cpu":
                    raise RuntimeError(f"{name}: a parameter has no shape yet; run the module once, then move it")
                continue
            tensor.array = moved(tensor.array, device)
            if tensor.grad is not None:
                tensor.grad = Tensor(moved(tensor.grad.array, device))
        return self

    def _convert(self, dtype: np.dtype) -> Self:
        for tensor in (*self.parameters(), *self.buffers()):
            if is_lazy(tensor):
                tensor.set_dtype(dtype)
            elif tensor.array.dtype.kind == "f":
                tensor.array = _cast(tensor.array, dtype)
                if tensor.grad is not None:
                    tensor.grad = Tensor(_cast(tensor.grad.array, dtype))
        return self

    def type(self, dst_type: Any) -> Self:
        """Apply ``to(dtype)`` for a dtype, a class such as retrograd.FloatTensor, or its name.

        Raises: as ``to``.
        """
        return self._convert(as_float_dtype(named_type("type", dst_type)))

    def float(self) -> Self:
        return self._convert(np.dtype(np.float32))

    def double(self) -> Self:
        return self._convert(np.dtype(np.float64))

    def half(self) -> Self:
        """Raise a TypeError: layers compute in float32 and float64."""
        return self._convert(as_float_dtype(np.float16))

    def bfloat16(self) -> Self:
        """Raise a TypeError: layers compute in float32 and float64."""
        raise TypeError("bfloat16: layers compute in float32 or float64; leave the call out")

    def cpu(self) -> Self:
        """Move parameters, their gradients and buffers to the CPU."""
        return self._move("cpu", "cpu")

    def cuda(self, device: DeviceLike = None) -> Self:
        """Raise a RuntimeError: there is one device, the CPU."""
        raise RuntimeError("cuda: there is one device, the CPU; leave the call out, or write to(device) with 'cpu'")

    def share_memory(self) -> Self:
        """Return the module itself: no memory is shared between processes."""
        return self

    def to_empty(self, *, device: DeviceLike, recurse: bool = True) -> Self:
        """Give all parameters and buffers new memory with undefined values, on ``device``.

        Raises:
            RuntimeError: the device is not known.
        """
        recurse = as_truth("to_empty", "recurse", recurse)
        for tensor in (*self.parameters(recurse), *self.buffers(recurse)):
            if not is_lazy(tensor):
                tensor.array = array_on_device("to_empty", empty_like(tensor.array), device)
        return self


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Convert array to dtype; return it unchanged if it has that dtype."""
    return array if array.dtype == dtype else exact("cast")(array, dtype)


# ---- Module: the base class of every layer and network --------------------------------------------------------------


class Module(Tree, Hooked, Lookup, HasStateDict, Convertible):
    """The base class of layers and networks; holds parameters, buffers and child modules under their attribute names.

    A subclass calls ``super().__init__()`` first, assigns its members and defines ``forward``. Parameters, buffers and
    children are ordinary entries of the instance's ``__dict__``, so that ``self.weight`` is a plain lookup; three dicts
    of names record which entries are which.
    """

    training: bool
    _parameter_names: dict[str, None]
    _buffer_names: dict[str, bool]  # name -> whether state_dict contains it
    _child_names: dict[str, None]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        init = cls.__dict__.get("__init__")
        code = getattr(init, "__code__", None)  # a user's __init__ may be any callable
        if init is not None and code is not None and in_package[code.co_filename]:  # a layer of this package
            cls.__init__ = checked(init)  # type: ignore[method-assign]

    def __init__(self) -> None:
        self.__dict__.update(training=True, _parameter_names={}, _buffer_names={}, _child_names={})

    if TYPE_CHECKING:  # members are assigned at run time, without a slow __getattr__

        def __getattr__(self, name: str) -> Any: ...

    # ------------------------------------------------------------------ calling
    def _forward_missing(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f'{type(self).__name__} has no "forward"; define forward(self, ...) in the class')

    forward: Callable[..., Any] = _forward_missing

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call forward; prefix the message of an exception with this module's path."""
        mode = thread.mode
        if mode.pieces is not None and (recorded := mode.pieces.of(self)) is not None:
            return recorded(args, kwargs)
        try:
            if mode.running is not None or not self._is_plain:
                return self._call_specially(args, kwargs)
            if mode.site is None:
                frame = _getframe(1)
                code = frame.f_code
                if not in_package[code.co_filename]:
                    mode.site = code, frame.f_lasti  # the user's line, see engine/call_site.py
                    try:
                        return self.forward(*args, **kwargs)
                    finally:
                        mode.site = None
            return self.forward(*args, **kwargs)
        except Exception as error:
            add_module_path(error, self)
            raise

    # ------------------------------------------------------------------ registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under name; None reserves the name (``bias=False``).

        Raises:
            AttributeError: Module.__init__() has not run yet.
            TypeError: name is not a str, or param is neither a Parameter nor None.
            KeyError: name is empty, contains a dot, or is already used.
        """
        self._check_name(name, "parameter", "_parameter_names")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"register_parameter({name!r}): got {kind_name(param)}, expected Parameter or None; "
                "wrap it in nn.Parameter, or use register_buffer"
            )
        self._parameter_names[name] = None
        changes[0] += 1
        self.__dict__[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained; state_dict includes it unless persistent is False.

        Raises: as register_parameter, with Tensor for Parameter.
        """
        self._check_name(name, "buffer", "_buffer_names")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer({name!r}): got {kind_name(tensor)}, expected Tensor or None")
        self._buffer_names[name] = persistent
        changes[0] += 1
        self.__dict__[name] = tensor

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a child module under name.

        Raises: as register_parameter, with Module for Parameter.
        """
        self._check_name(name, "module", "_child_names")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"register_module({name!r}): got {kind_name(module)}, expected Module or None")
        self._child_names[name] = None
        changes[0] += 1
        self.__dict__[name] = module

    add_module = register_module

    def _check_name(self, name: str, kind: str, registry: str) -> None:
        if "_child_names" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {kind} {name!r} before Module.__init__() has run; "
                f"call super().__init__() first in {type(self).__name__}.__init__"
            )
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a str, got {kind_name(name)}")
        if not name or "." in name:
            raise KeyError(f'{kind} name {name!r} must not be empty and must not contain "."')
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise KeyError(f"attribute {name!r} of {type(self).__name__} already exists; choose another name")

    def __setattr__(self, name: str, value: Any) -> None:
        changes[0] += 1
        if isinstance(value, Parameter):
            self._delete_other_kind(name, "_parameter_names")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._delete_other_kind(name, "_child_names")
            self.register_module(name, value)
        elif isinstance(value, Buffer):
            self._delete_other_kind(name, "_buffer_names")
            self.register_buffer(name, value, value.persistent)
        else:
            if value is not None:
                self._check_replacement(name, value)
            object.__setattr__(self, name, value)

    def _delete_other_kind(self, name: str, registry: str) -> None:
        """Delete the entry under name if it is of another kind."""
        if name in self.__dict__ and name not in self.__dict__.get(registry, ()):
            delattr(self, name)

    def _check_replacement(self, name: str, value: Any) -> None:
        members = self.__dict__
        if name in members.get("_parameter_names", ()):
            expected = "parameter", "Parameter"
        elif name in members.get("_child_names", ()):
            expected = "child module", "Module"
        elif name in members.get("_buffer_names", ()) and not isinstance(value, Tensor):
            expected = "buffer", "Tensor"
        else:
            return
        wrap = "wrap it: nn.Parameter(value); or " if isinstance(value, (Tensor, np.ndarray)) else ""
        wrap = wrap if expected[1] == "Parameter" else ""
        raise TypeError(
            f"cannot assign {type(value).__name__} as {expected[0]} {name!r} of {type(self).__name__} "
            f"({expected[1]} or None expected); {wrap}delete the attribute first to use the name for something else"
        )

    def __delattr__(self, name: str) -> None:
        changes[0] += 1
        object.__delattr__(self, name)
        for registry in ("_parameter_names", "_buffer_names", "_child_names"):
            self.__dict__.get(registry, {}).pop(name, None)

    @property
    def _modules(self) -> Members:
        return Members(self, "module")

    @property
    def _parameters(self) -> Members:
        return Members(self, "parameter")

    @property
    def _buffers(self) -> Members:
        return Members(self, "buffer")

    # ------------------------------------------------------------------ traversal

    def _named_members(
        self, registry: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        for path, module in modules:
            for name in module.__dict__[registry]:
                value = module.__dict__[name]
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (path, parameter) for every parameter; a shared one only once, under its first path."""
        return self._named_members("_parameter_names", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield (path, buffer) for every buffer."""
        return self._named_members("_buffer_names", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # ------------------------------------------------------------------ modes

    def train(self, mode: bool = True) -> Self:
        """Set training mode (dropout drops, batch norm uses the batch's statistics) for this module and its children.

        If a child overrides ``train``, that method is called, so that it can keep parts of itself in eval mode.

        Raises:
            ValueError: mode is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode={mode!r} is not a bool; use train(True), or eval() for train(False)")
        pending = list(self.modules())[:1]  # modules() visits all, and raises if a module contains itself
        seen = {id(self)}
        while pending:
            module = pending.pop()
            module.training = mode
            for child in module.children():
                if type(child).train is not Module.train:
                    child.train(mode)
                elif id(child) not in seen:
                    seen.add(id(child))
                    pending.append(child)
        return self

    def eval(self) -> Self:
        return self.train(False)

    def freeze(self) -> Frozen:
        """Return a copy for inference with constant weights: a function of tensors that is called like the module.

        For each layout of the arguments, its kernels are recorded as by ``retrograd.compile``. Batch norms become part
        of the convolutions before them, weights are packed once, and memory is planned. So results may differ from
        the module's by rounding. They have no gradient. Later changes of this module have no effect on the copy.

        Raises:
            ValueError: the module is in training mode.

        >>> import retrograd as rg
        >>> net = rg.nn.Sequential(rg.nn.Conv2d(3, 8, 3), rg.nn.BatchNorm2d(8), rg.nn.ReLU()).eval()
        >>> frozen = net.freeze()
        >>> tuple(frozen(rg.ones(1, 3, 9, 9)).shape)
        (1, 8, 7, 7)
        """
        from .compilation import Frozen

        if self.training:
            raise ValueError(f"freeze: {type(self).__name__} is in training mode; call eval() first")
        return Frozen(self)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Turn the gradients of all parameters on or off."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None or zero."""
        for parameter in self.parameters():
            if parameter.grad is not None:  # a new zero array: the old one may be shared with another tensor
                parameter.grad = None if set_to_none else Tensor(zeros_like(parameter.array))
                if getattr(parameter, "grad_sample", None) is not None:
                    parameter.grad_sample = None

    described: Any = staticmethod(described)

    # ------------------------------------------------------------------ inference
    def pack(
        self,
        *,
        skip: Iterable[str] = (),
        fuse: bool = True,
        floats: str = "float32",
        classes: Sequence[str] | None = None,
        image: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return a copy for inference with the low-bit layers stored as packed bits; see ``lowbit.pack``."""
        from ..lowbit.pack import pack

        return pack(self, skip=skip, fuse=fuse, floats=floats, classes=classes, image=image)


attach_to_class(Module, "torch.nn.Module")
for base in (HasStateDict, Hooked, Tree):  # Python's messages about a wrong call then name Module
    for method in list(vars(base).values()):
        if isinstance(method, FunctionType) and not method.__name__.startswith("_"):
            method.__module__, method.__qualname__ = __name__, f"Module.{method.__name__}"
