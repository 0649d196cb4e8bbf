"""retrograd inside PyTorch: its operators, formulas and changed backwards on torch.Tensors, its layers as modules.

``from retrograd.interop.torch import Layer, function`` is all that a script needs. PyTorch is imported by
``torch_arrays`` and by nothing else.

Both libraries have threads of their own, which wait for work by spinning for a while: on cores that other processes
need too, ``torch.set_num_threads(1)`` and ``retrograd.set_num_threads(1)`` keep them from holding each other up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Self

from .. import nn
from ..engine.tensor import Tensor
from .torch_arrays import array_of, from_torch, tensor_of, to_torch, torch
from .torch_call import call

__all__ = ["Layer", "from_torch", "function", "to_torch"]


def function(operator: Callable[..., Any]) -> Callable[..., Any]:
    """A function of retrograd as one of torch.Tensors, with its gradients, of any order.

    operator: an operator, a formula, or a function made of them. It gets a Tensor for each torch.Tensor among its
        arguments and in their tuples, lists and dicts, in the same memory; what else it is given it gets as it is. Its
        Tensors come out as torch.Tensors, in the same memory unless that is an argument's.

    Under ``torch.no_grad()`` nothing is recorded. A rule of ``override_backward`` that holds when it is called holds in
    the backward too. Random numbers are those of ``retrograd.manual_seed``.

    Raises:
        TypeError: operator is a Module, or cannot be called.

    and when it is called:
        TypeError: a tensor is not on the CPU, sparse, or of an element type in which nothing is computed: float16,
            bfloat16, complex.
        RuntimeError: the result depends on a Tensor that requires a gradient and is no argument; in backward, what it
            needs was changed in place, or was freed.
    """
    if isinstance(operator, nn.Module):
        raise TypeError(f"function: operator is a {type(operator).__name__}, a Module; use Layer(module)")
    if not callable(operator):
        raise TypeError(f"function: operator is {type(operator).__name__}, expected a function of Tensors")
    name = getattr(operator, "__name__", type(operator).__name__)

    @functools.wraps(operator)
    def on_torch(*args: Any, **kwargs: Any) -> Any:
        return call(name, operator, args, kwargs)

    return on_torch


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A module of retrograd as one of PyTorch, which its optimisers train.

    module: any Module; it stays at hand as ``layer.retrograd``. Parameters and buffers become those of the Layer, under
        the same names and in the same memory: a step of an optimiser of either library changes both, and so do running
        statistics, ``load_state_dict``, ``train()``, ``requires_grad_`` and ``to(torch.float64)`` of the Layer. Each
        child module is a Layer itself.

    It is called as ``function`` says, and raises the same.

    Raises:
        TypeError: module is no Module of retrograd.
        ValueError: a parameter has no shape yet, or a ``grad_req`` or ``limits`` that PyTorch would not heed.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            raise TypeError(f"Layer: module is {type(module).__name__}, expected a retrograd.nn.Module")
        self._fill(module, {}, {})

    def _fill(self, module: nn.Module, tensors: dict[int, Any], layers: dict[int, Layer]) -> None:
        """Take the members of a module; ``tensors`` and ``layers`` have those that were met, by the ids of ours."""
        self.retrograd = module
        self.training = module.training
        self._members: list[_Member] | None = None
        layers[id(module)] = self
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in tensors:
                tensor = torch.from_numpy(_checked(f"{type(module).__name__}.{name}", parameter))
                tensors[id(parameter)] = torch.nn.Parameter(tensor, parameter.requires_grad)
            self.register_parameter(name, tensors.get(id(parameter)))
        for name, buffer in module._buffers.items():
            if buffer is not None and id(buffer) not in tensors:
                tensors[id(buffer)] = tensor_of(buffer.array)
            self.register_buffer(name, tensors.get(id(buffer)), module._buffer_names[name])
        for name, child in module._modules.items():
            layer = layers.get(id(child))
            if child is not None and layer is None:
                layer = Layer.__new__(Layer)
                torch.nn.Module.__init__(layer)
                layer._fill(child, tensors, layers)
            self.add_module(name, layer)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """module(*args, **kwargs)"""
        module, members = self.retrograd, self._members
        if members is None:
            members = self._members = [*_members_of(self)]
        held = [(member.ours, member.join()) for member in members]
        result = call(type(module).__name__, module, args, kwargs, held)
        for member in members:
            if member.place[member.name].array is not member.array:  # the module has put another one there
                member.join()
        return result

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of the module, too."""
        self.retrograd.train(mode)
        return super().train(mode)

    def __repr__(self) -> str:
        return f"Layer({self.retrograd!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_members": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for member in _members_of(self):  # a copy's tensors are copies, one for each library
            member.take()


class _Member:
    """A parameter or buffer: ``place[name]`` in the module, ``theirs[name]`` in the Layer.

    array and address are the memory that both had when they were last seen.
    """

    __slots__ = ("address", "array", "name", "ours", "place", "theirs")

    def __init__(self, name: str, place: dict[str, Any], theirs: dict[str, Any]) -> None:
        self.name, self.place, self.theirs = name, place, theirs
        self.ours: Tensor = place[name]
        self.array = self.ours.array
        self.address: int = self.ours.data_ptr()

    def join(self) -> torch.Tensor:
        """PyTorch's tensor; if one library has put another memory in place since, the other one gets it, too."""
        tensor = self.theirs.get(self.name)
        ours = self.place.get(self.name)
        if tensor is None or ours is None:
            raise RuntimeError(
                f"Layer: {self.name} is no longer there; parametrizations of PyTorch do not reach into a Layer, apply "
                "those of retrograd.nn.utils before it is made"
            )
        if ours is not self.ours or ours.array is not self.array:
            self.ours, self.array = ours, ours.array
            self.address = ours.data_ptr()
            tensor.data = tensor_of(ours.array)
        elif tensor.data_ptr() != self.address or tensor.shape != self.array.shape:
            self.take()
        if ours._requires_grad is not tensor.requires_grad:
            ours.requires_grad = tensor.requires_grad
        return tensor

    def take(self) -> None:
        """Let the module have PyTorch's memory."""
        self.ours = self.place[self.name]
        self.array = self.ours.array = array_of(self.theirs[self.name], f"Layer: {self.name}")
        self.address = self.ours.data_ptr()


def _members_of(layer: Layer) -> Iterator[_Member]:
    """The parameters and buffers of a Layer and of those in it, each once."""
    seen: set[int] = set()
    for each in layer.modules():
        if isinstance(each, Layer):
            module = each.retrograd
            for names, theirs in ((module._parameter_names, each._parameters), (module._buffer_names, each._buffers)):
                for name in names:
                    ours = module.__dict__[name]
                    if ours is not None and id(ours) not in seen:
                        seen.add(id(ours))
                        yield _Member(name, module.__dict__, theirs)


def _checked(name: str, parameter: nn.Parameter) -> Any:
    """The array of a parameter that PyTorch can train.

    Raises:
        ValueError: it has none yet, or options that PyTorch would not heed.
    """
    try:
        array = parameter.array
    except ValueError:
        raise ValueError(f"Layer: {name} has no shape yet; call the module once before") from None
    for option, usual in (("grad_req", "add"), ("limits", None)):
        value = getattr(parameter, option, None)
        if value != usual:
            raise ValueError(
                f"Layer: {name} has {option}={value!r}, which PyTorch does not heed; set it to {usual!r} before"
            )
    return array
