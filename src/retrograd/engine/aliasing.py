"""Memory shared by tensors: views of a base, and tracking of in-place changes.

A view stores its base, which is not itself a view, and its path (a `ViewPath`): the calls that lead from the base to
the view. The base keeps weak references to its views. views.py creates views and updates their histories.

Nodes and in-place changes share one sequence of numbers. A change is recorded, together with the part of the array that
it overwrote, for the array that owns the memory: views, detached tensors and NumPy arrays of the same memory all have
this owner. When a backward reads its saved tensors, one comparison shows whether anything has changed since the node
was created. Only then is each saved tensor compared with the recorded changes. A change that does not overlap a saved
tensor is ignored.

Writes that bypass the library are not detected: `x.array[...] = y`, or NumPy functions that write into the array.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn
from weakref import ref

import numpy as np

from ..arrays import address, from_host, is_array, shares_memory
from .call_site import CallSite, describe_call_site, user_call_site
from .grad_mode import INFERENCE, process, thread

if TYPE_CHECKING:
    from .node import Node
    from .tensor import Tensor


# ---- Bases and views: which tensors share memory, and how each view is made from its base ---------------------------

if TYPE_CHECKING:
    from .views import View

    # (the View, its arguments, the index of the output, the path to its first argument or None if that is the base)
    ViewPath = tuple[type[View], tuple[Any, ...], int, Any]
    Link = tuple[Tensor, ViewPath]  # (base, path): the `_view` of a view

UNTRACKED = "shares memory that others may see"  # `_view` of a tensor that is not known to be a view of another one


class Untracked:
    """`_view` of a view created under no_grad: its base gets no history from it, and it gets none from its base."""

    __slots__ = ("base", "path", "shape")

    def __init__(self, base: Tensor | None, shape: tuple[int, ...], path: ViewPath) -> None:
        self.base = None if base is None else ref(base)  # a view must not keep the history of its base
        self.shape, self.path = shape, path


def register_view(base: Tensor, view: Tensor) -> None:
    """Record a weak reference to a view of `base`: a single reference, or a list once there are several."""
    views: Any = getattr(base, "_views", None)
    if views is None:
        base._views = ref(view)
    elif type(views) is not list:
        base._views = [views, ref(view)]
    else:
        if len(views) >= 32 and not len(views) & (len(views) - 1):  # at powers of 2 only: constant cost per view
            views[:] = [reference for reference in views if reference() is not None]
        views.append(ref(view))


def views_of(base: Tensor) -> list[Tensor]:
    """Return the views of `base` that are still alive, in the order in which they were made."""
    references = getattr(base, "_views", None) or ()
    views = [reference() for reference in (references if isinstance(references, list | tuple) else (references,))]
    return [view for view in views if view is not None]


def unlink_views(x: Tensor, array: np.ndarray) -> None:
    """Cut the links between x and its base and views before `array` is assigned to x.

    The views of x keep the old memory. Their new base is a tensor on that memory with the current history of x, so they
    remain views of each other. Nothing changes if `array` covers the same memory.
    """
    link = getattr(x, "_view", None)
    if link is None and getattr(x, "_views", None) is None:
        return
    if x.array.strides == array.strides and address(x.array) == address(array):
        return
    if link is not None:
        x._view = None
        if type(link) is tuple:
            link[0]._views = [ref(view) for view in views_of(link[0]) if view is not x]
    if views_of(x):
        _hand_over_views(x)
    x._views = None


def _hand_over_views(x: Tensor) -> Tensor:
    """Return a new base for the views of x: a tensor on the same memory, with the same history."""
    base = x.detach()
    base._requires_grad, base._edge, base._views = x._requires_grad, x._edge, x._views
    for view in views_of(x):
        view._view = base, view._view[1]
    x._views = None
    return base


def is_linked(x: Tensor) -> bool:
    """Return whether x is a view of a known base, or has views."""
    return type(getattr(x, "_view", None)) is tuple or bool(views_of(x))


def become_view(x: Tensor, source: Tensor, view: Tensor) -> None:
    """Link x, which is about to get the array of ``view``, as that view of what it was; ``source`` is its alias.

    Its base and views keep the memory; if it is itself the base, they get another one.
    """
    link = getattr(view, "_view", None)
    if type(link) is not tuple or link[0] is not source:  # it has memory of its own
        unlink_views(x, view.array)
        return
    steps = []
    step: Any = link[1]
    while step is not None:
        steps.append(step)
        step = step[3]
    link = getattr(x, "_view", None)
    if type(link) is tuple:
        base, path = link
    else:
        base, path = _hand_over_views(x), None
        register_view(base, x)
    for step in reversed(steps):
        path = (*step[:3], path)
    x._view = base, path


# ---- In-place changes: detection of modified saved tensors, and tensors that must not change ------------------------

# Counts down, so a newer node has a smaller number. A node is newer than the nodes that it depends on: increasing order
# is therefore a valid order for a backward sweep.
next_order: Final = itertools.count(0, -1).__next__


class _Clock:
    """`latest`: the number of the latest in-place change. A node with a larger number was created before it."""

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest: int = sys.maxsize


clock: Final = _Clock()

# id of a tensor -> [weak reference to it, number of its latest detach_, the user's line]
_detached: dict[int, tuple[Any, int, CallSite]] = {}

# (number, the operator, the user's line, the changed part, or None if all of it changed)
_Change = tuple[float, str, CallSite, Any]

# id of the owner -> (weak reference to it, its changes in order; a change of the whole array replaces earlier ones)
_changes: dict[int, tuple[Any, list[_Change]]] = {}
_MAX_PARTS = 32  # partial changes recorded per array; more are merged into one change of the whole array
_MAX_OVERLAP_STEPS = 1000  # limit of NumPy's search for a common element


def memory_owner(array: np.ndarray) -> np.ndarray:
    """Return the array that owns the memory of `array`."""
    owner: Any = array
    base = getattr(array, "base", None)  # it may be a buffer of another kind, such as an mmap
    while base is not None:
        if isinstance(base, np.ndarray) or is_array(base):  # isinstance first: the call is slower
            owner = base
        base = getattr(base, "base", None)
    return owner


def _forget(key: int, _: Any) -> None:
    _changes.pop(key, None)


def saved_array(item: Any) -> np.ndarray | None:
    """Return the array of an item that a node saved; None if it has none."""
    if type(item) is tuple:
        item = item[1]
    return item if is_array(item) else getattr(item, "array", None)


def mark_changed(arrays: Iterable[np.ndarray], operator: str, call_site: CallSite | None = None) -> None:
    """Record that `operator`, called at `call_site`, has changed the memory of `arrays`."""
    call_site = user_call_site() if call_site is None else call_site
    with process.lock:  # keeps `latest` monotonic
        order = next_order()
        all_changed = order, operator, call_site, None
        for array in arrays:
            owner = array if array.base is None else memory_owner(array)
            changes = _changes_of(owner)
            if _is_whole(array, owner) or len(changes) > _MAX_PARTS:
                changes[:] = (all_changed,)
            else:
                changes.append((order, operator, call_site, _ChangedPart(array)))
        clock.latest = order


class ChangingArrays:
    """Arrays that are changed together again and again, such as those of an optimizer's step.

    `mark` is `mark_changed` for all of them; it looks up nothing.
    """

    def __init__(self, arrays: Iterable[np.ndarray]) -> None:
        self._arrays = list(arrays)  # keeps alive what the recorded changes belong to
        owners = [(array, memory_owner(array)) for array in self._arrays]
        with process.lock:
            self._changes = [_changes_of(owner) for array, owner in owners if _is_whole(array, owner)]
        self._parts = [array for array, owner in owners if not _is_whole(array, owner)]

    def mark(self, operator: str) -> None:
        """Record that `operator` has changed all of them."""
        call_site = user_call_site()
        with process.lock:
            order = next_order()
            all_changed = ((order, operator, call_site, None),)
            for changes in self._changes:
                changes[:] = all_changed
            clock.latest = order
        if self._parts:
            mark_changed(self._parts, operator, call_site)


def _changes_of(owner: np.ndarray) -> list[_Change]:
    """Return the list of the recorded changes of memory, which lives as long as its owner."""
    key = id(owner)
    found = _changes.get(key)
    if found is None:
        found = _changes[key] = weakref.ref(owner, partial(_forget, key)), []
    return found[1]


def _is_whole(array: np.ndarray, owner: np.ndarray) -> bool:
    return array is owner or array.size == owner.size or not isinstance(array, np.ndarray)


class _ChangedPart:
    """The memory layout of a NumPy array. It does not keep the memory alive: use it only while the memory exists."""

    __slots__ = ("__array_interface__",)

    def __init__(self, array: np.ndarray) -> None:
        self.__array_interface__ = array.__array_interface__

    def touches(self, array: np.ndarray) -> bool:
        """Return whether the array overlaps this part; True if a short search does not decide it."""
        return shares_memory(from_host(self), array, _MAX_OVERLAP_STEPS)


def recorded_changes() -> dict[int, list[_Change]]:
    """Return the changes recorded so far, for `move_changes`."""
    with process.lock:  # of a copy: Python may collect an owner, and forget its changes, in between
        return {key: [*changes] for key, (_, changes) in _changes.copy().items()}


def move_changes(saved: Iterable[Any], earlier: dict[int, list[_Change]], moved: Callable[[float], float]) -> None:
    """Let changes of what nodes saved, recorded since `earlier`, count as made when `moved` says.

    Arrays that `earlier` knows have been put back since: their changes are those from before.
    """
    keys = {id(memory_owner(array)) for array in map(saved_array, saved) if array is not None}
    with process.lock:
        for key in keys:
            found = _changes.get(key)
            if found is not None:
                found[1][:] = earlier.get(key) or [(moved(order), *rest) for order, *rest in found[1]]


def mark_detached(tensor: Tensor) -> None:
    """Record that `tensor` is about to lose its history, which a second derivative may need."""
    if tensor._edge is not None:
        key, call_site = id(tensor), user_call_site()
        with process.lock:
            order = next_order()
            _detached[key] = weakref.ref(tensor, lambda _: _detached.pop(key, None)), order, call_site
            clock.latest = order


def check_unchanged(node: Node, saved: Iterable[Any]) -> None:
    """Raise if a saved tensor of `node` has changed since it was saved.

    Raises:
        RuntimeError: one was changed in place, or one was detached in place and create_graph is True; the message names
            the operator and both lines of user code.
    """
    for item in saved:
        if (error := change_of(node, item)) is not None:
            raise error()


def change_of(node: Node, item: Any) -> Callable[[], RuntimeError] | None:
    """Return what makes the error about a saved item that has changed; None if it has not changed."""
    detached = _detached.get(id(item[0])) if type(item) is tuple and thread.mode.enabled else None
    if detached is not None and detached[1] < node.order:
        return partial(_detached_error, node, detached[2])
    array = saved_array(item)
    if array is None:
        return None
    change = change_since(array, node.order)
    return None if change is None else partial(_changed_error, node, array, change)


def _detached_error(node: Node, call_site: CallSite) -> RuntimeError:
    return RuntimeError(
        f"{node.function.__name__}: a second derivative needs the history of a tensor that was detached "
        f"in place after it had been saved.\n"
        f"  saved by {node.function.__name__} at {describe_call_site(getattr(node, 'call_site', None))}\n"
        f"  changed by detach_ at {describe_call_site(call_site)}\n"
        "Use tensor.detach() instead"
    )


def _changed_error(node: Node, array: np.ndarray, change: _Change) -> RuntimeError:
    return RuntimeError(
        f"{node.function.__name__}: a tensor that its backward needs, {array.dtype} of shape "
        f"{array.shape}, was changed in place after it had been saved.\n"
        f"  saved by {node.function.__name__} at {describe_call_site(getattr(node, 'call_site', None))}\n"
        f"  changed by {change[1]} at {describe_call_site(change[2])}\n"
        "Change it after the backward, or change a copy: x.clone(), or x = x + y instead of x += y"
    )


class ChangedArray:
    """Stand-in for a saved array that was changed in place: it has the array's layout, and any other use is an error.

    So a backward fails only if it needs the elements, such as those of x for the gradient of w in x @ w.
    """

    __slots__ = ("dtype", "error", "itemsize", "nbytes", "ndim", "shape", "size", "strides")
    base = None

    def __init__(self, array: Any, error: Callable[[], RuntimeError]) -> None:
        self.shape, self.dtype, self.strides = array.shape, array.dtype, array.strides
        self.ndim, self.size, self.itemsize, self.nbytes = array.ndim, array.size, array.itemsize, array.nbytes
        self.error = error

    def __getattr__(self, name: str) -> NoReturn:
        raise self.error()

    def __repr__(self) -> str:
        return f"<changed array of {self.dtype}, shape {self.shape}>"

    def to_host(self) -> NoReturn:
        raise self.error()


def _refuse(self: ChangedArray, *args: Any, **kwargs: Any) -> NoReturn:
    raise self.error()


for _name in (  # Python finds them on the type only
    *("array", "array_ufunc", "array_function", "bool", "complex", "float", "hash", "index", "int", "len", "iter"),
    *("contains", "getitem", "setitem", "eq", "ne", "lt", "le", "gt", "ge", "abs", "invert", "neg", "pos"),
    *(
        f"{side}{name}"
        for side in ("", "r", "i")
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
    ),
    *(f"{side}{name}" for side in ("", "r", "i") for name in ("matmul", "and", "or", "xor", "lshift", "rshift")),
):
    setattr(ChangedArray, f"__{_name}__", _refuse)


def change_since(array: np.ndarray, order: int) -> _Change | None:
    """Return the latest change that overlaps `array` and is newer than `order`, the number of a node."""
    found = _changes.get(id(memory_owner(array)))
    for change in reversed(() if found is None else found[1]):
        if change[0] >= order:
            return None
        if change[3] is None or change[3].touches(array):
            return change
    return None


def check_changeable(x: Tensor, operator: str, recording: bool) -> None:
    """Raise if a tensor must not change in place.

    Raises: as for `modify`.
    """
    view = getattr(x, "_view", None)
    base = view[0] if type(view) is tuple else x
    if recording and base._requires_grad and base._edge is None:
        what = "a leaf that requires a gradient" if base is x else "a view of a leaf that requires a gradient"
        sign = operator[0]
        example = f"x = x {sign} y" if operator == f"{sign}=" else f"x = x.clone() before {operator}"
        raise RuntimeError(
            f"{operator}: {what} cannot change while operations are recorded; put the line into "
            f"'with retrograd.no_grad():', or write {example} for a new tensor"
        )
    if x._grad_req is INFERENCE and not thread.mode.inference:
        raise RuntimeError(
            f"{operator}: a tensor made in inference_mode cannot change outside of it; use tensor.clone() first"
        )
    check_memory(x.array, operator)


def check_memory(array: np.ndarray, operator: str, what: str = "x") -> None:
    """Raise if the elements of array, of the tensor ``what``, cannot change one by one.

    Raises:
        RuntimeError: several elements share memory, or it is read-only.
    """
    if (
        array.size
        and 0 in array.strides
        and any(not step and extent > 1 for step, extent in zip(array.strides, array.shape, strict=True))
    ):
        raise RuntimeError(
            f"{operator}: several elements of {what}, {array.dtype} of shape {array.shape}, share one memory location "
            f"(it was expanded), so they cannot change one by one; use {what}.clone() first"
        )
    if not array.flags.writeable:
        raise RuntimeError(f"{operator}: the memory of {what} is read-only; use {what}.clone() first")
