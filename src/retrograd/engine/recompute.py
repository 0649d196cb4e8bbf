"""Recomputation (checkpointing): drops the saved tensors of a call and computes them again when a backward needs them.

The function runs as usual and its nodes stay in the graph; only their saved items are replaced by a `Deferred`. The
first backward that needs one runs the function again and takes the items saved by the nodes of that second run, in the
order in which the nodes were made. Derivatives of any order work, since the graph is that of the first run.

Source: T. Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016 (arXiv:1604.06174).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from .aliasing import ChangedArray, memory_owner, next_order, saved_array
from .call_site import user_call_site
from .function import Function
from .grad_mode import enable_grad, thread
from .node import Node, SavedIntermediate, SavedOutput, saved_output, usable_items
from .tensor import Tensor, wrap

_apply: Any = Function.apply.__func__  # type: ignore[attr-defined]


class Checkpoint(Function):
    """The name of a recomputed call in error messages; it is never applied."""

    _needs_all_saved = True


class Deferred:
    """Stand-in for the saved items of a node: the items that are kept, and the region that recomputes the others."""

    __slots__ = ("index", "items", "region")

    def __init__(self, region: CheckpointedCall, index: int, saved: Any) -> None:
        self.region: CheckpointedCall = region
        self.index: int = index
        self.items: list[Any] = [_drop_array(item) for item in saved]

    def restore(self, node: Node) -> list[Any]:
        """Return the node's saved items; those that were dropped get the arrays of the second run."""
        again = self.region.pop_saved(self.index)
        restored: list[Any] = []
        if len(again) == len(self.items):
            for item, other in zip(self.items, again, strict=True):
                is_new = type(item) is Dropped and not item.had_memory_of(other)
                found = item.fill(other) if type(item) is Dropped else item
                if found is None and other is not None:
                    break
                # a leaf, or a tensor from outside the function, may have been changed since the first run
                restored += [found] if is_new else usable_items(node, [found])
                if isinstance(array := saved_array(restored[-1]), ChangedArray):
                    node.changed = array.error
            else:
                return restored
        self.region.raise_difference(f"an item saved by {node.function.__name__} has another shape or dtype")


class Dropped:
    """A saved item without its array."""

    requires_grad: Any
    index: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    kind: type

    __slots__ = ("dtype", "edge", "index", "kind", "owner", "requires_grad", "shape")

    def __init__(self, item: Any) -> None:
        array = saved_array(item)
        assert array is not None
        self.shape, self.dtype, self.kind = array.shape, array.dtype, type(item)
        self.owner = ref(memory_owner(array))
        self.edge: Any = None
        self.index = -1
        self.requires_grad = False
        if self.kind is tuple:
            self.edge, self.requires_grad = item[0]._edge, item[0]._requires_grad
        elif self.kind is SavedOutput:
            self.index = item.index

    def had_memory_of(self, item: Any) -> bool:
        """Return whether the array of this item was in the memory of another item's array."""
        array = saved_array(item)
        return array is not None and memory_owner(array) is self.owner()

    def fill(self, item: Any) -> Any:
        """Return the item with the array of another run; None if the kinds of item differ."""
        array = saved_array(item)
        if type(item) is not self.kind or array is None or array.shape != self.shape or array.dtype != self.dtype:
            return None
        if array is item:
            return array
        if self.kind is SavedOutput:
            return saved_output(array, self.index)
        if self.kind is SavedIntermediate:
            return SavedIntermediate(array)
        tensor = wrap(array)
        tensor._edge, tensor._requires_grad = self.edge, self.requires_grad
        return tensor, array


def _drop_array(item: Any) -> Any:
    """Return the item without its array. A leaf that requires a gradient, a parameter, stays alive anyway: keep it."""
    if item is None or (type(item) is tuple and item[0]._requires_grad and item[0]._edge is None):
        return item
    return Dropped(item)


class _Complete(BaseException):
    """Raised to end the second run early, once every node has saved its tensors."""


class SavedTensorObserver:
    """Wraps Function.apply and calls `each` with every node that saved something.

    again: whether this is a second run, whose nodes are not part of the graph and which may end early.
    """

    again: Any | bool
    each: Callable[[Node], object]

    __slots__ = ("again", "below", "each")

    def __init__(self, each: Callable[[Node], object], outer: Any, again: bool = False) -> None:
        self.each, self.again = each, again or getattr(outer, "again", False)
        self.below: Any = (
            outer.below if isinstance(outer, SavedTensorObserver) else outer
        )  # anomaly detection continues

    def __call__(self, cls: type[Function], args: tuple[Any, ...]) -> Any:
        mode = thread.mode
        before = next_order()
        mode.watch = self.below
        try:
            output = _apply(cls, *args)
        finally:
            mode.watch = self
        for item in output if type(output) is tuple else (output,):
            if item._edge is not None and item._edge[0].order < before:
                if item._edge[0].saved:
                    self.each(item._edge[0])
                break
        return output


class CheckpointedCall:
    """One call of a function whose saved tensors are computed again.

    `around` returns a context manager for the second run, in which the function must do the same as in the first run.
    """

    exact: bool
    count: int

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], around: Callable[[], Any]
    ) -> None:
        self.function = function
        self.around = around
        self.exact = False  # the flag of the mode, for both runs
        self.count = 0
        self.recomputed: dict[int, Any] = {}  # index of a node -> its saved items from the second run
        # A node saves the arguments for this region, so that in-place changes are detected and an outer region can also
        # drop and recompute them.
        self.names: list[int | str] = [*range(len(args)), *kwargs]
        values = [*args, *kwargs.values()]
        self.others: list[Any | None] = [None if isinstance(value, Tensor) else value for value in values]
        self.node: Node = Node()
        self.node.function = Checkpoint
        self.node.saved = [(value, value.array) if isinstance(value, Tensor) else None for value in values]
        self.node.call_site = user_call_site()

    def run(self) -> Any:
        """Run the function for the first time and return its result."""
        args, kwargs = self._arguments(self.node.saved_tensors)
        mode = thread.mode
        outer, self.exact = mode.watch, mode.exact
        mode.watch = SavedTensorObserver(self._defer, outer)
        try:
            result = self.function(*args, **kwargs)
        finally:
            mode.watch = outer
        self.node.order = next_order()  # so that a change of an argument inside the function counts as part of the call
        if isinstance(outer, SavedTensorObserver):
            outer.each(self.node)
        return result

    def pop_saved(self, index: int) -> Any:
        """Return the saved items of node number `index`, recomputed unless available; each can be popped once."""
        if index not in self.recomputed:
            self._run_again()
        return self.recomputed.pop(index)

    def raise_difference(self, what: str) -> NoReturn:
        raise RuntimeError(
            f"checkpoint: the second run of {getattr(self.function, '__qualname__', self.function)} differs from the "
            f"first: {what}. It must do the same whenever it is called; preserve_rng_state=True makes random numbers "
            "repeat"
        )

    def _defer(self, node: Node) -> None:
        node.saved = Deferred(self, self.count, node.saved)
        self.count += 1

    def _run_again(self) -> None:
        nodes: list[Node] = []

        def collect(node: Node) -> None:
            nodes.append(node)
            if len(nodes) == self.count:
                raise _Complete

        mode = thread.mode
        outer, site, exact = mode.watch, mode.site, mode.exact
        mode.site, mode.exact = self.node.call_site, self.exact
        try:
            with enable_grad(), self.around():
                args, kwargs = self._arguments(self.node.saved_tensors)
                mode.watch = SavedTensorObserver(collect, outer, again=True)
                self.function(*args, **kwargs)
        except _Complete:
            pass
        finally:
            mode.watch, mode.site, mode.exact = outer, site, exact
        if len(nodes) != self.count:
            self.raise_difference(f"{len(nodes)} operators saved something, {self.count} did in the first run")
        # a later in-place operator may have changed some
        self.recomputed = {index: usable_items(node, node.saved) for index, node in enumerate(nodes)}

    def _arguments(self, tensors: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = [other if tensor is None else tensor for tensor, other in zip(tensors, self.others, strict=True)]
        named: list[tuple[Any, Any]] = list(zip(self.names, values, strict=True))
        return (
            tuple([value for name, value in named if type(name) is int]),
            {name: value for name, value in named if type(name) is str},
        )
