"""Views: tensors that show the memory of another one.

A view knows its base, the tensor at the start of the chain, and the way from there; the base knows its views. When one
of them is changed in place, the others get the history that belongs to their new values, see inplace.py.
"""

from __future__ import annotations

from typing import Any
from weakref import ref as _reference

import numpy as np

from .changes import memory
from .function import Function
from .grad_mode import INFERENCE, thread
from .tensor import Tensor, wrap

# (base, the View that made it, the arguments of that call, which output): the first argument may be a view itself
Link = tuple[Tensor, "type[View]", tuple[Any, ...], int]
UNTRACKED = "made while nothing was recorded"

_apply: Any = Function.apply.__func__  # type: ignore[attr-defined]


class View(Function):
    """A Function whose outputs may share the memory of its first argument: reshape, permute, a slice.

    Only that argument may carry a gradient, and the same call on another tensor of that shape must show the same
    elements. An output that does not share the memory is an ordinary result.
    """

    @classmethod
    def apply(cls, *args: Any) -> Any:
        output = _apply(cls, *args)
        if type(output) is Tensor and output._requires_grad:  # recorded; the usual cases of _link at once
            x = args[0]
            owner = x.array.base
            if output.array.base is (x.array if owner is None else owner) and getattr(x, "_view", None) is None:
                output._view = x, cls, args, 0
                views = getattr(x, "_views", None)
                if views is None or (type(views) is _reference and views() is None):
                    x._views = _reference(output)
                else:
                    _register(x, output)
                return output
        mode = thread.mode
        if mode.enabled:
            if type(output) is not tuple:
                _link(cls, args, output, 0)
            else:
                for index, item in enumerate(output):
                    _link(cls, args, item, index)
        elif not mode.sweeping:  # the gradients in a sweep share memory with nothing that lasts
            for item in output if type(output) is tuple else (output,):
                if _is_shown(args[0].array, item.array):
                    item._view = UNTRACKED
                    if args[0]._grad_req is not INFERENCE and item._grad_req is INFERENCE:
                        item._grad_req = "add"
        return output


def _is_shown(array: np.ndarray, view: np.ndarray) -> bool:
    """Whether the memory of `view` is that of `array`."""
    base, owner = view.base, array.base
    return base is (array if owner is None else owner) or (base is not None and memory(base) is memory(array))


def _link(cls: type[View], args: tuple[Any, ...], output: Tensor, index: int) -> None:
    x = args[0]
    array, base = x.array, output.array.base
    owner = array.base
    if base is not (array if owner is None else owner) and not _is_shown(array, output.array):
        return
    way = getattr(x, "_view", None)
    if way is None:
        root = x
    elif way is UNTRACKED:
        output._view = UNTRACKED
        return
    else:
        root = way[0]
    output._view = root, cls, args, index
    _register(root, output)


def _register(root: Tensor, view: Tensor) -> None:
    """Note weakly that root has a view: one reference, or a list of them."""
    views: Any = getattr(root, "_views", None)
    if views is None:
        root._views = _reference(view)
    elif type(views) is not list:
        root._views = [views, _reference(view)]
    else:
        if len(views) >= 32 and not len(views) & (len(views) - 1):  # at powers of 2: that costs each view a little
            views[:] = [reference for reference in views if reference() is not None]
        views.append(_reference(view))


def views_of(root: Tensor) -> list[Tensor]:
    """The views of a base that are still there."""
    views = getattr(root, "_views", ())
    found = [view() for view in (views if isinstance(views, list | tuple) else (views,))]
    return [view for view in found if view is not None]


def forget(x: Tensor) -> None:
    """Let x be no view any more, and have none: it is about to show other memory."""
    for view in views_of(x):
        del view._view
    for name in ("_view", "_views"):
        if hasattr(x, name):
            delattr(x, name)


def replay(link: Link, x: Tensor, done: dict[int, Tensor] | None = None) -> Tensor:
    """What `link` shows of its base, of x instead.

    `done`: views on the way, by their id, as they are of x; what is found here is added.
    """
    links = []  # from the view to its base: views of views may be many, so this is a loop
    start = link[0]
    while True:
        links.append(link)
        parent = link[2][0]
        if parent is start:
            break
        if done is not None and id(parent) in done:
            x = done[id(parent)]
            break
        link = parent._view
    for position in range(len(links) - 1, -1, -1):
        _, cls, args, index = links[position]
        result = _apply(cls, x, *args[1:])
        x = result[index] if type(result) is tuple else result
        if position and done is not None:
            done[id(links[position - 1][2][0])] = x
    return x


class Overwrite(Function):
    """base with the part that `link` shows replaced by value; both of one dtype.

    `written`: the memory of base holds the value already, so base itself is the result.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, value: Tensor, link: Link, written: bool) -> Tensor:
        ctx.link, ctx.shape, ctx.dtype = link, value.array.shape, value.array.dtype
        if written:
            return wrap(base.array)
        y = wrap(_copy_as(base.array, link[0].array))
        part = replay(link, y).array
        if memory(part) is not memory(y.array):
            raise RuntimeError(f"{link[1].__name__}: not a view of a tensor with the strides {y.array.strides}")
        np.copyto(part, value.array)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        want_base, want_value = ctx.needs_input_grad[:2]
        zeros = wrap(np.zeros(ctx.shape, ctx.dtype)) if want_base else None
        gbase = Overwrite.apply(g, zeros, ctx.link, False) if want_base else None
        return gbase, replay(ctx.link, g) if want_value else None, None, None


def _copy_as(array: np.ndarray, model: np.ndarray) -> np.ndarray:
    """A copy of `array` whose axes lie in memory in the order of `model`'s, so that the same views exist."""
    order = sorted(range(model.ndim), key=lambda axis: -abs(model.strides[axis]))
    result = np.empty([array.shape[axis] for axis in order], array.dtype).transpose(np.argsort(order))
    np.copyto(result, array)
    return result
