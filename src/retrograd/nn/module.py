"""Module: the base class of every layer and network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import _getframe
from typing import TYPE_CHECKING, Any, Self

from ..arrays import zeros_like
from ..engine.call_site import inside
from ..engine.grad_mode import thread
from ..engine.tensor import Tensor
from ..torch_api.missing import attach_to_class
from .conversion import Convertible
from .error_path import add_module_path, described
from .flags import checked
from .hooks import Hooked
from .lookup import Lookup
from .parameter import Buffer, Parameter
from .registry import Members
from .state import Stated
from .tree import Tree

__all__ = ["Module"]


class Module(Tree, Hooked, Lookup, Stated, Convertible):
    """Holds parameters, buffers and child modules under the names they were assigned to.

    A subclass calls ``super().__init__()`` first, assigns its members and defines ``forward``. Parameters, buffers and
    children are ordinary entries of the instance's ``__dict__``, so that ``self.weight`` is a plain lookup; three dicts
    of names record which entries are which.
    """

    training: bool
    _parameter_names: dict[str, None]
    _buffer_names: dict[str, bool]  # name -> whether state_dict holds it
    _child_names: dict[str, None]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        init = cls.__dict__.get("__init__")
        code = getattr(init, "__code__", None)  # a user's __init__ need not be a function
        if init is not None and code is not None and inside[code.co_filename]:  # a layer of this package
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
        """forward(...); the message of an exception is prefixed with this module's path."""
        mode = thread.mode
        try:
            if mode.running is not None or not self._is_plain:
                return self._call_specially(args, kwargs)
            if mode.site is None:
                frame = _getframe(1)
                code = frame.f_code
                if not inside[code.co_filename]:
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
            KeyError: name is empty, contains a dot, or is taken.
        """
        self._check_name(name, "parameter", "_parameter_names")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"register_parameter({name!r}): got {type(param).__name__}, expected Parameter or None; "
                "wrap it in nn.Parameter, or use register_buffer"
            )
        self._parameter_names[name] = None
        self.__dict__[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained; state_dict includes it unless persistent is False.

        Raises: as register_parameter, with Tensor for Parameter.
        """
        self._check_name(name, "buffer", "_buffer_names")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer({name!r}): got {type(tensor).__name__}, expected Tensor or None")
        self._buffer_names[name] = persistent
        self.__dict__[name] = tensor

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a child module under name.

        Raises: as register_parameter, with Module for Parameter.
        """
        self._check_name(name, "module", "_child_names")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"register_module({name!r}): got {type(module).__name__}, expected Module or None")
        self._child_names[name] = None
        self.__dict__[name] = module

    add_module = register_module

    def _check_name(self, name: str, kind: str, registry: str) -> None:
        if "_child_names" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {kind} {name!r} before Module.__init__() has run; "
                f"call super().__init__() first in {type(self).__name__}.__init__"
            )
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a str, got {type(name).__name__}")
        if not name or "." in name:
            raise KeyError(f'{kind} name {name!r} must not be empty and must not contain "."')
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise KeyError(f"attribute {name!r} of {type(self).__name__} already exists; choose another name")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._make_way(name, "_parameter_names")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._make_way(name, "_child_names")
            self.register_module(name, value)
        elif isinstance(value, Buffer):
            self._make_way(name, "_buffer_names")
            self.register_buffer(name, value, value.persistent)
        else:
            if value is not None:
                self._check_replacement(name, value)
            object.__setattr__(self, name, value)

    def _make_way(self, name: str, registry: str) -> None:
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
        raise TypeError(
            f"cannot assign {type(value).__name__} as {expected[0]} {name!r} of {type(self).__name__} "
            f"({expected[1]} or None expected); delete the attribute first to use the name for something else"
        )

    def __delattr__(self, name: str) -> None:
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

    # ------------------------------------------------------------------ walking the model

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
        """(path, parameter) for every parameter; a shared one only once, under its first path."""
        return self._named_members("_parameter_names", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(path, buffer) for every buffer."""
        return self._named_members("_buffer_names", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # ------------------------------------------------------------------ modes

    def train(self, mode: bool = True) -> Self:
        """Set training mode (dropout drops, batch norm uses the batch's statistics) for this module and its children.

        A child with a ``train`` of its own has that called, so that it can keep parts of itself in eval mode.

        Raises:
            ValueError: mode is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode={mode!r} is not a bool; use train(True), or eval() for train(False)")
        left = list(self.modules())[:1]  # all are looked at: a module that contains itself is refused
        seen = {id(self)}
        while left:
            module = left.pop()
            module.training = mode
            for child in module.children():
                if type(child).train is not Module.train:
                    child.train(mode)
                elif id(child) not in seen:
                    seen.add(id(child))
                    left.append(child)
        return self

    def eval(self) -> Self:
        return self.train(False)

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

    described = staticmethod(described)

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
        """A copy for inference whose low-bit layers are stored in their bits: ``lowbit.pack``, which explains it."""
        from ..lowbit.pack import pack

        return pack(self, skip=skip, fuse=fuse, floats=floats, classes=classes, image=image)


attach_to_class(Module, "torch.nn.Module")
