"""A call of retrograd as a node of PyTorch's graph.

The call records its own graph, from leaves in the memory of PyTorch's tensors to its results. PyTorch's backward runs
the sweep over that graph. With create_graph=True the sweep is such a call itself, whose leaves are those of the first
and the upstream gradients: so there are derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import _getframe
from typing import Any

from ..engine.aliasing import memory, saved_array
from ..engine.backward_pass import grad, leaf_gradients
from ..engine.grad_mode import thread
from ..engine.subgraph import replace_tensors, tensors_in
from ..engine.tensor import Tensor, wrap
from ..ops.sparse.coo import SparseTensor
from .torch_arrays import array_of, tensor_of, torch

__all__ = ["call"]

# not in all versions of PyTorch; without it our graph lives as long as PyTorch's node, not only until its backward
_keeps_graph: Callable[[], bool] = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)
_is_recording, _is_compiling = torch.is_grad_enabled, torch.compiler.is_dynamo_compiling
_Theirs = torch.Tensor

_CONTAINERS = tuple, list, dict
_MODULES = torch.nn.modules.module.__file__  # where PyTorch calls a Layer
Pair = tuple[Tensor, torch.Tensor]  # a leaf, and PyTorch's tensor of the same memory


def call(
    name: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], held: Sequence[Pair] = ()
) -> Any:
    """function(*args, **kwargs) of leaves in the memory of the PyTorch tensors among the arguments, as PyTorch tensors.

    held: leaves that the function uses without being given them, which require gradients where PyTorch's tensors do.
    """
    if _is_compiling():  # its compiler would follow every line below; it is to call them as they are
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
    mode.enabled, mode.inference = record, False  # PyTorch's flag holds, whatever ours is
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
    """A leaf in the memory of a PyTorch tensor; it goes into ``pairs`` with that."""
    x = wrap(array_of(tensor, name, place))
    if record and tensor.requires_grad:
        x._requires_grad = True
    pairs.append((x, tensor))
    return x


def _with_leaves(value: Any, record: bool, pairs: list[Pair], name: str, place: Any) -> Any:
    """The value with leaves in place of the PyTorch tensors in it."""
    tensors = tensors_in((value,), _Theirs)
    return replace_tensors(value, {id(t): _leaf(t, record, pairs, name, place) for t in tensors}, _Theirs)


def _recorded(name: str, roots: list[Tensor], made: list[torch.Tensor], pairs: list[Pair]) -> Any:
    """The results of a call in PyTorch's graph: one, or a tuple of several."""
    leaves, ends = [], []
    watched: list[tuple[torch.Tensor, Tensor, int]] = []
    for x, tensor in pairs:
        if x._requires_grad:
            leaves.append(x)
            ends.append(tensor)
        # detached: the result of another call would hold its graph, and one of this call the node that holds it
        watched.append((tensor if tensor.is_leaf else tensor.detach(), x, tensor._version))
    for y, tensor in zip(roots, made, strict=True):
        watched.append((tensor.detach(), y, tensor._version))
    # PyTorch's own ``apply`` in Python only asks for transforms of torch.func first, and takes a while for it
    apply = RetrogradCall.apply if torch._C._are_functorch_transforms_active() else _apply
    return apply(_Graph(name, roots, leaves, watched), made, *ends)


class _Graph:
    """The recorded graph of one call, for its backward.

    roots: its results that require gradients. leaves: those whose gradients PyTorch asks for, in its order.
    watched: tensors of PyTorch, ours of the same memory, and the versions that PyTorch counted.
    """

    __slots__ = ("leaves", "name", "roots", "watched")

    def __init__(self, name: str, roots: list[Tensor], leaves: list[Tensor], watched: list[Any]) -> None:
        self.name, self.roots, self.leaves, self.watched = name, roots, leaves, watched
        if not leaves:
            self.refuse()

    def refuse(self) -> None:
        """The result depends on a tensor that PyTorch does not know.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(
            f"{self.name}: the result depends on a retrograd Tensor that requires a gradient, which PyTorch would not "
            "see; pass it as an argument, a torch.Tensor, use retrograd.interop.torch.Layer for a module, or detach it"
        )

    def read(self) -> set[int] | None:
        """Ids of the arrays that own what the nodes have saved; None if that is not known.

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
                found = None  # it was freed, or is computed again from arguments
            elif found is not None:
                arrays = [saved_array(item) for item in node.saved]
                found.update([id(memory(array)) for array in arrays if array is not None])
        return found

    def check(self) -> None:
        """Refuse memory of PyTorch that has changed since, if a backward reads it.

        Raises:
            RuntimeError: PyTorch counts other versions than in forward.
        """
        changed = [entry for entry in self.watched if entry[0]._version != entry[2]]
        if not changed:
            return
        read = self.read()
        for tensor, ours, version in changed:
            if read is None or id(memory(ours.array)) in read:
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
    """The gradients of a graph as results of a call, whose leaves are those of the graph and the upstream gradients."""
    graph.read()  # so that a leaf that PyTorch does not know is refused

    def swept(*grads: Tensor) -> Any:
        return grad(roots, graph.leaves, grads, create_graph=True, allow_unused=True)

    return call(f"the gradient of {graph.name}", swept, upstream, {}, [*zip(graph.leaves, ends, strict=True)])
