"""View, a Function whose result shares the memory of its argument, and history updates after in-place changes.

When a tensor is changed in place, its base and the other views of that base get the history of their new values. See
aliasing.py for bases and views, and inplace.py for the change itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref as _reference

import numpy as np

from ..arrays import empty, zeros
from .aliasing import UNTRACKED, Untracked, memory_owner, register_view, views_of
from .arithmetic import assign
from .function import Function
from .grad_mode import INFERENCE, enable_grad, thread
from .tensor import Tensor, alias, wrap

if TYPE_CHECKING:
    from .aliasing import ViewPath

_apply: Any = Function.apply.__func__  # type: ignore[attr-defined]


class View(Function):
    """A Function whose outputs may share the memory of its first argument: reshape, permute, a slice.

    Only that argument may carry a gradient, and the same call on another tensor of that shape must select the same
    elements. An output that does not share the memory is an ordinary result.
    """

    moves = True

    @classmethod
    def apply(cls, *args: Any) -> Any:
        output = _apply(cls, args[0], args[1]) if len(args) == 2 else _apply(cls, *args)
        mode = thread.mode
        if mode.enabled:
            if type(output) is Tensor:  # the usual cases of _link, inlined
                x = args[0]
                array = x.array
                owner = array.base
                if output.array.base is (array if owner is None else owner) and getattr(x, "_view", None) is None:
                    output._view = x, (cls, args, 0, None)
                    views = getattr(x, "_views", None)
                    if views is None or (type(views) is _reference and views() is None):
                        x._views = _reference(output)
                    else:
                        register_view(x, output)
                    return output
            if type(output) is not tuple:
                _link(cls, args, output, 0)
            else:
                for index, item in enumerate(output):
                    _link(cls, args, item, index)
        elif not mode.sweeping:  # gradients in a sweep share memory with nothing that outlives it
            for index, item in enumerate(output if type(output) is tuple else (output,)):
                if _shares_memory(args[0].array, item.array):
                    item._view = _untracked(cls, args, index)
                    if args[0]._grad_req is not INFERENCE and item._grad_req is INFERENCE:
                        item._grad_req = "add"
        return output


def _shares_memory(array: np.ndarray, view: np.ndarray) -> bool:
    """Return whether the memory of `view` is that of `array`."""
    base, owner = view.base, array.base
    return base is (array if owner is None else owner) or (
        base is not None and memory_owner(base) is memory_owner(array)
    )


def _link(cls: type[View], args: tuple[Any, ...], output: Tensor, index: int) -> None:
    x = args[0]
    array, base = x.array, output.array.base
    owner = array.base
    if base is not (array if owner is None else owner) and not _shares_memory(array, output.array):
        return
    link = getattr(x, "_view", None)
    if link is not None and type(link) is not tuple:
        output._view = _untracked(cls, args, index)
        return
    root, path = (x, None) if link is None else link
    output._view = root, (cls, args, index, path)
    register_view(root, output)


def _untracked(cls: type[View], args: tuple[Any, ...], index: int) -> Untracked | str:
    """Return the `_view` of a view that gets no history from its base."""
    x = args[0]
    link = getattr(x, "_view", None)
    call = (None, *args[1:])
    if link is None:
        return Untracked(x, x.array.shape, (cls, call, index, None))
    if type(link) is tuple:
        return Untracked(link[0], link[0].array.shape, (cls, call, index, link[1]))
    if link is UNTRACKED:
        return UNTRACKED
    view = Untracked(None, link.shape, (cls, call, index, link.path))
    view.base = link.base
    return view


def replay(path: ViewPath, base: Tensor, done: dict[int, Tensor] | None = None) -> Tensor:
    """Return the view of `base` at the end of `path`.

    `done`: views of `base` by the id of their path. Those on this path are reused, and new ones are added.
    """
    steps = []  # from the view to its base; a loop, since views of views may be many
    x = base
    step: Any = path
    while step is not None:
        if done is not None and id(step) in done:
            x = done[id(step)]
            break
        steps.append(step)
        step = step[3]
    for step in reversed(steps):
        cls, args, index, _ = step
        result = _apply(cls, x, *args[1:])
        x = result[index] if type(result) is tuple else result
        if done is not None:
            done[id(step)] = x
    return x


class Overwrite(Function):
    """base with the part that `path` leads to replaced by value; both have the same dtype.

    `strides`: the strides of the base for which `path` was recorded and leads to a view. With None, the memory of base
    already contains the value, so base itself is the result.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, value: Tensor, path: ViewPath, strides: tuple[int, ...] | None) -> Tensor:
        ctx.path, ctx.shape, ctx.dtype = path, value.array.shape, value.array.dtype
        ctx.strides = base.array.strides if strides is None else strides
        if strides is None:
            return wrap(base.array)
        y = wrap(_copy_as(base.array, strides))
        target = replay(path, y).array
        if memory_owner(target) is not memory_owner(y.array):
            raise RuntimeError(f"{path[0].__name__}: not a view of a tensor with the strides {y.array.strides}")
        assign(target, value.array)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        needs_base, needs_value = ctx.needs_input_grad[:2]
        zero = wrap(zeros(ctx.shape, ctx.dtype, like=g.array)) if needs_base else None
        gbase = Overwrite.apply(g, zero, ctx.path, ctx.strides) if needs_base else None
        return gbase, replay(ctx.path, g) if needs_value else None, None, None


def _copy_as(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """Return a copy of `array` with its axes in memory in the order of `strides`, so that the same views exist."""
    order = sorted(range(array.ndim), key=lambda axis: -abs(strides[axis]))
    shape = tuple([array.shape[axis] for axis in order])
    result = empty(shape, array.dtype, like=array).transpose([order.index(axis) for axis in range(array.ndim)])
    assign(result, array)
    return result


def rebase(x: Tensor, edge: Any) -> None:
    """Give x, whose memory has just changed, its base, and all views of the base a new history.

    Each view, also x itself, is made from its base again. So its gradient is that of its own later uses, without those
    of its base and of other views.
    """
    link = getattr(x, "_view", None)
    base = x
    if type(link) is tuple:
        base, path = link
        value = wrap(x.array)
        value._requires_grad, value._edge = True, edge
        with enable_grad():
            changed = Overwrite.apply(alias(base), value, path, None)
        edge = changed._edge
    _set_edge(base, edge)
    done: dict[int, Tensor] = {}
    for view in views_of(base):
        cls, args, index, parent = view._view[1]
        with enable_grad():
            source = base if parent is None else replay(parent, base, done)
            now = _apply(cls, source, *args[1:])  # not in `done`: views of this view have a place of their own
        _set_edge(view, (now[index] if type(now) is tuple else now)._edge)


def _set_edge(x: Tensor, edge: Any) -> None:
    """Move x to another place in the graph; if it retains its gradient, it retains it there."""
    region = edge[0].region
    while region is not None:
        region.replace_input(x)
        region = region.parent
    retains = x.retains_grad
    if retains:
        node = x._edge[0]  # type: ignore[index]
        node.retained = tuple([pair for pair in node.retained if pair[1]() is not x])
    x._edge, x._requires_grad = edge, True
    if retains:
        x.retain_grad()
