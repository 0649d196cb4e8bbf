"""Hooks on tensors: user functions that a sweep calls with a gradient.

The hooks of a tensor run in the order of registration, each on the gradient that the previous one returned. The hooks
of an operator's result run when its gradient is complete, before the backward of the operator; `retain_grad` and `grad`
see the gradient after the hooks. A leaf's hooks run at the end of the sweep, on the whole gradient of this sweep,
before it is delivered. Post-accumulate hooks run when all gradients have been delivered.

An in-place change gives a tensor a new node in the graph; hooks registered before it stay at the old node.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from ..arrays import is_array
from .arguments import kind_name
from .node import Node
from .tensor import Tensor, alias

_next_id = itertools.count().__next__


class _Registered:
    """`leaves`: whether any leaf has ever had a hook; a sweep looks for leaf hooks only then."""

    __slots__ = ("leaves",)

    def __init__(self) -> None:
        self.leaves: bool = False


registered: Final = _Registered()


class HookDict(dict[int, Any]):
    """Hooks by the id of their handle, which refers to this dict weakly."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """The handle of a registered hook. ``remove()`` removes the hook, and so does the end of ``with handle:``."""

    def __init__(self, hooks: HookDict, hook: Any, prepend: bool = False) -> None:
        self.id: int = _next_id()
        self._hooks = weakref.ref(hooks)
        hooks[self.id] = hook
        if prepend:
            for key in [key for key in hooks if key != self.id]:
                hooks[key] = hooks.pop(key)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        hooks = self._hooks()
        if hooks is not None:
            hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call hook(gradient) whenever a sweep has computed the gradient of `tensor`.

    If it returns a Tensor of the same shape and dtype, this replaces the gradient. It must not change its argument.

    Raises:
        RuntimeError: the tensor does not require a gradient.
        TypeError: hook is not callable.
    """
    _require_callable("register_hook", hook)
    if not tensor._requires_grad:
        raise RuntimeError("register_hook: the tensor does not require a gradient, so the hook would never run")
    if tensor._edge is None:
        registered.leaves = True
        if not hasattr(tensor, "_hooks"):
            tensor._hooks = HookDict()
        return RemovableHandle(tensor._hooks, hook)
    node, index, shape, dtype = tensor._edge
    hooks: Any = next((items for output, items in node.hooks if output == index), None)
    if hooks is None:
        hooks = HookDict()
        node.hooks = (*node.hooks, (index, hooks))
        if node.outputs is None:
            node.outputs = ((shape, dtype),)  # the sweep looks at `hooks` only if outputs is set
    return RemovableHandle(hooks, hook)


def register_post_accumulate_grad_hook(tensor: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Call hook(tensor) whenever a backward has stored the `grad` of this leaf; the result of the hook is ignored.

    Raises:
        RuntimeError: the tensor is not a leaf, or does not require a gradient.
        TypeError: hook is not callable.
    """
    _require_callable("register_post_accumulate_grad_hook", hook)
    if not tensor._requires_grad or tensor._edge is not None:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: only a leaf that requires a gradient accumulates one; "
            "use register_hook for results of operations"
        )
    registered.leaves = True
    if not hasattr(tensor, "_post_hooks"):
        tensor._post_hooks = HookDict()
    return RemovableHandle(tensor._post_hooks, hook)


def _require_callable(name: str, hook: Any) -> None:
    if not callable(hook):
        raise TypeError(f"{name}: hook is {kind_name(hook)}, expected a function")


def has_hooks(tensor: Tensor) -> bool:
    """Return whether a backward would call hooks with the gradient of a tensor."""
    if tensor._edge is not None:
        return any(hooks for output, hooks in tensor._edge[0].hooks if output == tensor._edge[1])
    return bool(getattr(tensor, "_hooks", None) or getattr(tensor, "_post_hooks", None))


@contextmanager
def without_hooks(tensors: Iterable[Tensor], instead: Callable[[Tensor], Any] | None = None) -> Iterator[None]:
    """Run no hooks of these tensors, or one other hook for all of a tensor.

    For backward passes that compute only a part of a gradient, or are not the user's.
    """
    kept: list[tuple[Any, str, Any]] = []
    other = HookDict() if instead is None else HookDict({-1: instead})
    for tensor in filter(has_hooks, tensors):
        if tensor._edge is not None:
            node, index = tensor._edge[:2]
            kept.append((node, "hooks", node.hooks))
            node.hooks = tuple([(output, other if output == index else hooks) for output, hooks in node.hooks])
        for name in ("_hooks", "_post_hooks") if tensor._edge is None else ():
            if getattr(tensor, name, None):
                kept.append((tensor, name, getattr(tensor, name)))
                setattr(tensor, name, other)
    try:
        yield
    finally:
        for holder, name, before in reversed(kept):
            setattr(holder, name, before)


# ---- Functions called by the sweep -------------------------------------------------------------------------


def run_hooks(node: Node, entry: list[Any]) -> None:
    """Run the hooks on the outputs of a node; entry is [node, gradient of output 0, ...]."""
    for output, hooks in node.hooks:
        gradient = entry[output + 1]
        if gradient is not None:
            entry[output + 1] = _run_chain(hooks, gradient)


def run_leaf_hooks(entries: Iterable[list[Any]]) -> None:
    """Run the hooks of leaves; an entry is [tensor, gradient, whether the sweep made its array]."""
    for entry in entries:
        hooks = getattr(entry[0], "_hooks", None)
        if hooks:
            entry[1] = _run_chain(hooks, entry[1])


def run_post_hooks(entries: Iterable[list[Any]]) -> None:
    """Run the post-accumulate hooks of the tensors whose gradients were delivered."""
    for entry in entries:
        for hook in list(getattr(entry[0], "_post_hooks", {}).values()):
            hook(entry[0])


def _run_chain(hooks: dict[int, Callable[[Tensor], Any]], gradient: Tensor) -> Tensor:
    """Return the gradient after the hooks. Each hook gets its own tensor, so it may assign to its `array`."""
    for hook in list(hooks.values()):
        argument = alias(gradient)
        result = hook(argument)
        if result is None:
            result = argument
        if not isinstance(result, Tensor):
            raise TypeError(
                f"register_hook: the hook returned {type(result).__name__}, expected a Tensor, or None to leave the "
                "gradient as it is"
            )
        gradient = _alias_like(result, gradient, "register_hook: the hook returned")
    return gradient


def _alias_like(result: Tensor, gradient: Tensor, what: str) -> Tensor:
    """Return an alias of the result, which must have the dtype and shape of the gradient."""
    array, expected = result.array, gradient.array
    if not is_array(array):
        raise TypeError(f"{what} a Tensor whose array is {kind_name(array)}, expected an ndarray")
    if array.shape != expected.shape or array.dtype != expected.dtype:
        raise RuntimeError(
            f"{what} {array.dtype} of shape {array.shape}, the gradient is {expected.dtype} of shape {expected.shape}"
        )
    return alias(result)
