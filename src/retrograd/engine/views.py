"""Views: tensors that show the memory of another one.

A view knows its base, the tensor at the start of the chain, and the way from there; the base knows its views. When one
of them is changed in place, the others get the history that belongs to their new values, see inplace.py.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from .changes import memory
from .function import Function
from .grad_mode import INFERENCE, thread
from .tensor import Tensor, wrap

# (base, the Link of the tensor that this is a view of, the View that made it, its further arguments, which output)
Link = tuple[Tensor, Any, "type[View]", tuple[Any, ...], int]
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
        if type(output) is tuple:
            for index, item in enumerate(output):
                _link(args[0], cls, args[1:], item, index)
        else:
            _link(args[0], cls, args[1:], output, 0)
        return output


def _link(x: Any, cls: type[View], rest: tuple[Any, ...], output: Tensor, index: int) -> None:
    array, base = x.data, output.data.base
    owner = array if array.base is None else array.base
    if base is not owner and (base is None or memory(base) is not memory(owner)):
        return
    mode = thread.mode
    if not mode.enabled:
        output._view = UNTRACKED
        if x._grad_req is not INFERENCE and output._grad_req is INFERENCE:
            output._grad_req = "add"
        return
    way = getattr(x, "_view", None)
    root = x
    if way is not None:
        if way is UNTRACKED:
            output._view = UNTRACKED
            return
        root = way[0]
    output._view = root, way, cls, rest, index
    views = getattr(root, "_views", None)
    if views is None:
        root._views = [weakref.ref(output)]
        return
    if not len(views) % 32:
        views[:] = [view for view in views if view() is not None]
    views.append(weakref.ref(output))


def replay(link: Link, x: Tensor) -> Tensor:
    """What `link` shows of its base, of x instead."""
    _, way, cls, rest, index = link
    result = _apply(cls, x if way is None else replay(way, x), *rest)
    return result[index] if type(result) is tuple else result


class Overwrite(Function):
    """base with the part that `link` shows replaced by value; both of one dtype.

    `written`: the memory of base holds the value already, so base itself is the result.
    """

    @staticmethod
    def forward(ctx: Any, base: Tensor, value: Tensor, link: Link, written: bool) -> Tensor:
        ctx.link, ctx.shape, ctx.dtype = link, value.data.shape, value.data.dtype
        if written:
            return wrap(base.data)
        y = wrap(_copy_as(base.data, link[0].data))
        part = replay(link, y).data
        if memory(part) is not memory(y.data):
            raise RuntimeError(f"{link[2].__name__}: not a view of a tensor with the strides {y.data.strides}")
        np.copyto(part, value.data)
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
