"""Bases and views: which tensors share memory, and how each view is made from its base.

A view knows its base, the tensor at the start of the chain, and the way from there; the base holds its views weakly.
views.py makes views and updates their histories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ..arrays import address

if TYPE_CHECKING:
    from .tensor import Tensor
    from .views import View

    # (the View, the arguments of that call, which output, the Way to its first argument or None if that is the base)
    Way = tuple[type[View], tuple[Any, ...], int, Any]
    Link = tuple[Tensor, Way]  # (base, way): the `_view` of a view

UNTRACKED = "made while nothing was recorded"  # the `_view` of such a view


def register(base: Tensor, view: Tensor) -> None:
    """Note weakly that `base` has a view: one reference, or a list of them."""
    views: Any = getattr(base, "_views", None)
    if views is None:
        base._views = ref(view)
    elif type(views) is not list:
        base._views = [views, ref(view)]
    else:
        if len(views) >= 32 and not len(views) & (len(views) - 1):  # only at powers of 2, so it costs little per view
            views[:] = [reference for reference in views if reference() is not None]
        views.append(ref(view))


def views_of(base: Tensor) -> list[Tensor]:
    """The views of `base` that are still alive, in the order in which they were made."""
    references = getattr(base, "_views", ())
    views = [reference() for reference in (references if isinstance(references, list | tuple) else (references,))]
    return [view for view in views if view is not None]


def part(x: Tensor, array: np.ndarray) -> None:
    """Separate x from its base and views, as it is about to hold `array`.

    Its views keep the old memory and get a stand-in for x as their base, with the present history of x, so they stay
    views of each other. Nothing happens if `array` shows the same memory.
    """
    link = getattr(x, "_view", None)
    if link is None and getattr(x, "_views", None) is None:
        return
    if x.array.strides == array.strides and address(x.array) == address(array):
        return
    if link is not None:
        del x._view
        if type(link) is tuple:
            link[0]._views = [ref(view) for view in views_of(link[0]) if view is not x]
    views = views_of(x)
    if views:
        base = x.detach()
        base._requires_grad, base._edge, base._views = x._requires_grad, x._edge, x._views
        for view in views:
            view._view = base, view._view[1]
    if hasattr(x, "_views"):
        del x._views
