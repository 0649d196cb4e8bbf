"""Operators, formulas and layers of retrograd inside PyTorch's autograd graph.

Each call records its own graph, from leaves in the memory of PyTorch's tensors to its results. PyTorch's backward runs
the backward sweep over that graph. With create_graph=True the sweep is itself such a call, whose leaves are the leaves
of the first call and the upstream gradients. This gives derivatives of any order.

``from retrograd.interop.torch import Layer, function`` is all that a script needs. PyTorch is imported only by this
module.

Both libraries have their own threads, which spin for a while as they wait for work. On cores that other processes
also need, ``torch.set_num_threads(1)`` and ``retrograd.set_num_threads(1)`` keep them from delaying each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from sys import _getframe
from typing import Any, Self

import numpy as np

from .. import nn
from ..engine.aliasing import memory_owner, saved_array
from ..engine.arguments import kind_name
from ..engine.backward_pass import grad, leaf_gradients
from ..engine.dtype import COMPUTED, STORED
from ..engine.grad_mode import thread
from ..engine.subgraph import replace_tensors, tensors_in
from ..engine.tensor import Tensor, wrap
from ..ops.sparse import SparseTensor

__all__ = ["Layer", "from_torch", "function", "to_torch"]


# ---- Tensors of PyTorch and retrograd that share memory -------------------------------------------------------------

try:
    import torch
    import torch.autograd.forward_ad as _forward_ad
except ImportError:
    raise ImportError("PyTorch is not installed: pip install torch") from None


# the engine compares types by "is"
_TYPES: dict[Any, Any] = {kind: kind for kind in (*COMPUTED, *STORED) if kind != np.float16}


def from_torch(tensor: torch.Tensor) -> Tensor:
    """Return a Tensor that shares the memory of a PyTorch tensor; a change of one in place changes both.

    Raises:
        TypeError: tensor is not a PyTorch tensor, or has no array here: on a GPU, sparse, bfloat16, complex.
        RuntimeError: tensor requires a gradient, which would be lost.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"from_torch: tensor is {kind_name(tensor)}, expected a torch.Tensor")
    if tensor.requires_grad:
        raise RuntimeError(
            "from_torch: tensor requires grad, and its gradient would be lost; use tensor.detach(), or "
            "retrograd.interop.torch.function to compute with it"
        )
    return wrap(array_of(tensor, "from_torch: tensor"))


def to_torch(tensor: Tensor) -> torch.Tensor:
    """Return a PyTorch tensor that shares the memory of a Tensor; a change of one in place changes both.

    Raises:
        TypeError: tensor is not a Tensor.
        RuntimeError: tensor requires a gradient, which would be lost.
        ValueError: PyTorch cannot represent its memory, which is read-only or has negative strides.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_torch: tensor is {kind_name(tensor)}, expected a retrograd.Tensor")
    array = tensor.numpy()
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        raise ValueError(
            f"to_torch: the memory of tensor is {'read backwards' if array.flags.writeable else 'read-only'}, which "
            "PyTorch cannot show; use tensor.clone()"
        )
    return torch.from_numpy(array)


def array_of(tensor: torch.Tensor, what: str, place: Any = None) -> np.ndarray:
    """Return the array of a PyTorch tensor, in its memory; ``what`` and the argument ``place`` identify it in messages.

    Raises:
        TypeError: tensor has no array here: it is on a GPU, sparse, or of another element type.
    """
    try:
        array: np.ndarray = tensor.detach().numpy()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        why = _reason(tensor) or f"has no array, as within torch.vmap and torch.func.grad: {error}"
    else:
        own = _TYPES.get(array.dtype)
        if _forward_ad._current_level >= 0 and _forward_ad.unpack_dual(tensor).tangent is not None:
            why = "carries a tangent, and retrograd has no forward mode; use backward"
        elif own is array.dtype:
            return array
        elif own is not None:
            return array.view(own)
        else:
            why = _reason(tensor)
    raise TypeError(f"{what}{'' if place is None else f': argument {place}'} {why}")


def _reason(tensor: torch.Tensor) -> str:
    """Return why a tensor has no array here, and what to do; "" if unknown."""
    if tensor.device.type == "meta":
        return "is on the device meta and has no values; make it on the CPU"
    if tensor.device.type != "cpu":
        return f"is on the device {tensor.device}, and retrograd computes on the CPU; move it there: tensor.cpu()"
    if tensor.layout is not torch.strided:
        return f"has the layout {tensor.layout}; use tensor.to_dense()"
    if tensor.dtype not in (torch.float32, torch.float64, torch.int64, torch.bool):
        return f"is {tensor.dtype}, and retrograd computes in float32 and float64; convert it, as by tensor.float()"
    return ""


def tensor_of(array: np.ndarray, others: Iterable[np.ndarray] = ()) -> torch.Tensor:
    """Return a PyTorch tensor of an array, sharing its memory if possible and if it is none of the ``others``.

    Memory shared with the others is copied, since PyTorch would not know that changing one changes the other.
    """
    if array.base is None:
        shared = any(other is array for other in others)
    else:
        owner = memory_owner(array)
        shared = any(memory_owner(other) is owner for other in others)
    if shared or not array.flags.writeable:
        array = array.copy(order="K")
    try:
        return torch.from_numpy(array)
    except ValueError:  # an axis has a negative stride
        return torch.from_numpy(array.copy())


# ---- A call of retrograd as a node of PyTorch's graph ---------------------------------------------------------------

# missing in some versions of PyTorch; our graph then lives as long as PyTorch's node, not only until its backward
_keeps_graph: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
_is_recording, _is_compiling = torch.is_grad_enabled, torch.compiler.is_dynamo_compiling
_Theirs = torch.Tensor

_CONTAINERS = tuple, list, dict
_MODULES = torch.nn.modules.module.__file__  # where PyTorch calls a Layer
Pair = tuple[Tensor, torch.Tensor]  # a leaf, and PyTorch's tensor with the same memory


def call(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], held: Sequence[Pair] = ()
) -> Any:
    """Call function(*args, **kwargs) with leaves that share the PyTorch tensors' memory; return PyTorch tensors.

    held: leaves that the function uses without receiving them; they require gradients where PyTorch's tensors do.
    """
    if _is_compiling():  # torch.compile would trace every line below, but must call the function as it is
        return torch.compiler.disable(call)(name, function, args, kwargs, held)
    record = _is_recording()
    pairs = [*held]
    given: list[Any] = []
    for value in args:
        if isinstance(value, _Theirs):
            value = _leaf(value, record, pairs, name, len(given))
        elif isinstance(value, _CONTAINERS):
            value = _with_leaves(value, record, pairs, name, len(given))
        given.append(value)
    if kwargs:
        kwargs = {key: _with_leaves(value, record, pairs, name, key) for key, value in kwargs.items()}
    mode = thread.mode
    previous = mode.enabled, mode.inference, mode.site
    if mode.site is None:
        frame: Any = _getframe(2)
        while frame.f_code.co_filename == _MODULES and frame.f_back is not None:
            frame = frame.f_back
        mode.site = frame.f_code, frame.f_lasti  # the user's line, see engine/call_site.py
    mode.enabled, mode.inference = record, False  # PyTorch's flag decides, whatever ours is
    try:
        result = function(*given, **kwargs)
    finally:
        mode.enabled, mode.inference, mode.site = previous
    arrays = [x.array for x, _ in pairs]
    if type(result) is Tensor:
        made = tensor_of(result.array, arrays)
        return _recorded(name, [result], [made], pairs) if record and result._requires_grad else made
    found = tensors_in((result,), (Tensor, SparseTensor))
    if any(isinstance(y, SparseTensor) for y in found):
        raise TypeError(f"{name}: the result is sparse, which PyTorch cannot be given; use result.to_dense()")
    tensors = {id(y): tensor_of(y.array, arrays) for y in found}
    roots = [y for y in found if record and y._requires_grad]
    if roots:
        joined = _recorded(name, roots, [tensors[id(y)] for y in roots], pairs)
        joined = joined if isinstance(joined, tuple) else (joined,)
        tensors |= {id(y): tensor for y, tensor in zip(roots, joined, strict=True)}
    return replace_tensors(result, tensors)


def _leaf(tensor: torch.Tensor, record: bool, pairs: list[Pair], name: str, place: Any) -> Tensor:
    """Return a leaf in the memory of a PyTorch tensor, and add both to ``pairs``."""
    x = wrap(array_of(tensor, name, place))
    if record and tensor.requires_grad:
        x._requires_grad = True
    pairs.append((x, tensor))
    return x


def _with_leaves(value: Any, record: bool, pairs: list[Pair], name: str, place: Any) -> Any:
    """Return the value with leaves in place of its PyTorch tensors."""
    tensors = tensors_in((value,), _Theirs)
    return replace_tensors(value, {id(t): _leaf(t, record, pairs, name, place) for t in tensors}, _Theirs)


def _recorded(name: str, roots: list[Tensor], made: list[torch.Tensor], pairs: list[Pair]) -> Any:
    """Return the results of a call in PyTorch's graph: one, or a tuple of several."""
    leaves, ends = [], []
    watched: list[tuple[torch.Tensor, Tensor, int]] = []
    for x, tensor in pairs:
        if x._requires_grad:
            leaves.append(x)
            ends.append(tensor)
        # detached: the result of another call would keep its graph alive, and one of this call its own node
        watched.append((tensor if tensor.is_leaf else tensor.detach(), x, tensor._version))
    for y, tensor in zip(roots, made, strict=True):
        watched.append((tensor.detach(), y, tensor._version))
    # PyTorch's own Python ``apply`` only checks for torch.func transforms first, which is slow
    apply = RetrogradCall.apply if torch._C._are_functorch_transforms_active() else _apply
    return apply(_Graph(name, roots, leaves, watched), made, *ends)


class _Graph:
    """The recorded graph of one call, kept for its backward.

    roots: the results that require gradients. leaves: those whose gradients PyTorch requests, in its order.
    watched: PyTorch tensors, our tensors with the same memory, and PyTorch's version counts.
    """

    leaves: list[Tensor]
    name: str
    roots: list[Tensor]
    watched: list[Any]

    __slots__ = ("leaves", "name", "roots", "watched")

    def __init__(self, name: str, roots: list[Tensor], leaves: list[Tensor], watched: list[Any]) -> None:
        self.name, self.roots, self.leaves, self.watched = name, roots, leaves, watched
        if not leaves:
            self.refuse()

    def refuse(self) -> None:
        """Report that the result depends on a tensor that PyTorch does not know.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"{self.name}: the result depends on a retrograd Tensor that requires a gradient, which PyTorch would not "
            "see; pass it as an argument, a torch.Tensor, use retrograd.interop.torch.Layer for a module, or detach it"
        )

    def read(self) -> set[int] | None:
        """Return the ids of the arrays that own the nodes' saved data; None if unknown.

        Raises:
            RuntimeError: the graph has a leaf that PyTorch does not know.
        """
        known = {id(leaf) for leaf in self.leaves}
        found: set[int] | None = set()
        seen: set[int] = set()
        edges: list[Any] = [root._edge or root for root in self.roots]
        while edges:
            edge = edges.pop()
            if type(edge) is not tuple:
                if edge is not None and id(edge) not in known:
                    self.refuse()
                continue
            node = edge[0]
            if node.order in seen:
                continue
            seen.add(node.order)
            edges += node.edges
            if node.region is not None:
                edges += node.region.edges
                found = None  # a rule may read any argument
            elif type(node.saved) not in (list, tuple):
                found = None  # it was freed, or is recomputed from arguments
            elif found is not None:
                arrays = [saved_array(item) for item in node.saved]
                found.update([id(memory_owner(array)) for array in arrays if array is not None])
        return found

    def check(self) -> None:
        """Raise an error if a backward would read PyTorch memory that has changed since forward.

        Raises:
            RuntimeError: PyTorch's version counts differ from those in forward.
        """
        changed = [entry for entry in self.watched if entry[0]._version != entry[2]]
        if not changed:
            return
        read = self.read()
        for tensor, ours, version in changed:
            if read is None or id(memory_owner(ours.array)) in read:
                raise RuntimeError(
                    f"{self.name}: a tensor that its backward needs, {tensor.dtype} of shape {tuple(tensor.shape)}, "
                    f"was changed in place by PyTorch after the call (version {tensor._version}, expected {version}); "
                    "change it after the backward, or change a copy: tensor.clone()"
                )


class RetrogradCall(torch.autograd.Function):  # type: ignore[misc]
    """The node of one call in PyTorch's graph."""

    @staticmethod
    def forward(ctx: Any, graph: _Graph, made: list[torch.Tensor], *ends: torch.Tensor) -> Any:
        ctx.graph = graph
        ctx.save_for_backward(*ends)
        ctx.set_materialize_grads(False)
        return made[0] if len(made) == 1 else tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        graph: _Graph | None = ctx.graph
        if graph is None:
            raise RuntimeError(
                "the graph of a call of retrograd was freed by an earlier backward; pass retain_graph=True to the "
                "first backward, or run forward again"
            )
        graph.check()
        roots = [root for root, g in zip(graph.roots, grads, strict=True) if g is not None]
        if not roots:
            return (None,) * (2 + len(graph.leaves))
        upstream = [g for g in grads if g is not None]
        if _is_recording():
            return None, None, *_recorded_sweep(graph, roots, upstream, ctx.saved_tensors)
        keep = _keeps_graph()
        if not keep:
            ctx.graph = None
        found = leaf_gradients(roots, [wrap(array_of(g, f"the gradient of {graph.name}")) for g in upstream], keep)
        gradients = {id(leaf): torch.from_numpy(g.array) for leaf, g in found}
        results = [gradients.pop(id(leaf), None) for leaf in graph.leaves]
        if gradients:
            graph.refuse()
        return None, None, *results


_apply = super(torch.autograd.Function, RetrogradCall).apply


def _recorded_sweep(
    graph: _Graph, roots: list[Tensor], upstream: list[torch.Tensor], ends: Sequence[torch.Tensor]
) -> Any:
    """Compute a graph's gradients as results of a call whose leaves are its own and the upstream gradients."""
    graph.read()  # raises if PyTorch does not know one of the leaves

    def swept(*grads: Tensor) -> Any:
        return grad(roots, graph.leaves, grads, create_graph=True, allow_unused=True)

    return call(f"the gradient of {graph.name}", swept, upstream, {}, [*zip(graph.leaves, ends, strict=True)])


# ---- Functions and modules of retrograd for PyTorch, with overridden backwards --------------------------------------


def function(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a retrograd function to take and return torch.Tensors, with gradients of any order.

    operator: an operator, a formula, or a function composed of them. It receives a Tensor for each torch.Tensor among
        its arguments and in their tuples, lists and dicts, in the same memory; other arguments are passed unchanged.
        Tensors that it returns become torch.Tensors, in the same memory unless that belongs to an argument.

    Under ``torch.no_grad()`` nothing is recorded. A rule of ``override_backward`` that is active during the call is
    also used in its backward. Random numbers are those of ``retrograd.manual_seed``.

    Raises:
        TypeError: operator is a Module, or cannot be called.

    and when it is called:
        TypeError: a tensor is not on the CPU, is sparse, or has an element type without arithmetic here: float16,
            bfloat16, complex.
        RuntimeError: the result depends on a Tensor that requires a gradient and is not an argument; or memory that the
            backward needs was changed in place or freed.
    """
    if isinstance(operator, nn.Module):
        raise TypeError(f"function: operator is a {kind_name(operator)}, a Module; use Layer(module)")
    if not callable(operator):
        raise TypeError(f"function: operator is {kind_name(operator)}, expected a function of Tensors")
    name = getattr(operator, "__name__", type(operator).__name__)

    @functools.wraps(operator)
    def on_torch(*args: Any, **kwargs: Any) -> Any:
        return call(name, operator, args, kwargs)

    return on_torch


class Layer(torch.nn.Module):  # type: ignore[misc]
    """A retrograd module as a PyTorch module, which PyTorch's optimizers can train.

    module: any Module, available as ``layer.retrograd``. Its parameters and buffers become those of the Layer, under
        the same names and in the same memory. A step of an optimizer from either library therefore changes both, and so
        do running statistics, ``load_state_dict``, ``train()``, ``requires_grad_`` and ``to(torch.float64)`` of the
        Layer. Each child module becomes a Layer itself, and ``layer.backward_rule`` is the module's.

    Calls behave as described in ``function``, and raise the same errors.

    Raises:
        TypeError: module is not a retrograd Module.
        ValueError: a parameter has no shape yet, or a ``grad_req`` or ``limits`` that PyTorch would ignore.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if not isinstance(module, nn.Module):
            raise TypeError(f"Layer: module is {kind_name(module)}, expected a retrograd.nn.Module")
        self._fill(module, {}, {})

    def _fill(self, module: nn.Module, tensors: dict[int, Any], layers: dict[int, Layer]) -> None:
        """Adopt the members of a module; ``tensors`` and ``layers`` contain those already seen, by the ids of ours."""
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
        """Return module(*args, **kwargs)."""
        module, members = self.retrograd, self._members
        if members is None:
            members = self._members = [*_members_of(self)]
        held = [(member.ours, member.join()) for member in members]
        result = call(type(module).__name__, module, args, kwargs, held)
        for member in members:
            if member.place[member.name].array is not member.array:  # the module has replaced it
                member.join()
        return result

    @property
    def backward_rule(self) -> Any:
        """The backward rule of the retrograd module, or None."""
        return self.retrograd.backward_rule

    @backward_rule.setter
    def backward_rule(self, rule: Any) -> None:
        self.retrograd.backward_rule = rule

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of the Layer and of the module."""
        self.retrograd.train(mode)
        return super().train(mode)

    def __repr__(self) -> str:
        return f"Layer({self.retrograd!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_members": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for member in _members_of(self):  # a copy's tensors are separate copies, one for each library
            member.take()


class _Member:
    """A parameter or buffer: ``place[name]`` in the module, ``theirs[name]`` in the Layer.

    array and address are the memory of both when last synchronized.
    """

    __slots__ = ("address", "array", "name", "ours", "place", "theirs")

    def __init__(self, name: str, place: dict[str, Any], theirs: dict[str, Any]) -> None:
        self.name, self.place, self.theirs = name, place, theirs
        self.ours: Tensor = place[name]
        self.array = self.ours.array
        self.address: int = self.ours.data_ptr()

    def join(self) -> torch.Tensor:
        """Return PyTorch's tensor; if either library has replaced the memory since, the other one gets it too."""
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
        """Make the module use the memory of PyTorch's tensor."""
        self.ours = self.place[self.name]
        self.array = self.ours.array = array_of(self.theirs[self.name], f"Layer: {self.name}")
        self.address = self.ours.data_ptr()


def _members_of(layer: Layer) -> Iterator[_Member]:
    """Yield the parameters and buffers of a Layer and of its children, each once."""
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
    """Return the array of a parameter that PyTorch can train.

    Raises:
        ValueError: the parameter has no array yet, or options that PyTorch would ignore.
    """
    try:
        array = parameter.array
    except ValueError:
        raise ValueError(f"Layer: {name} has no shape yet; call the module once first") from None
    for option, usual in (("grad_req", "add"), ("limits", None)):
        value = getattr(parameter, option, None)
        if value != usual:
            raise ValueError(f"Layer: {name} has {option}={value!r}, which PyTorch ignores; set it to {usual!r} first")
    return array
