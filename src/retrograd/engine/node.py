"""Graph nodes and the tensors saved for backward.

An argument of forward is saved as a pair (tensor, its array at that time), an ndarray unchanged. An output, or a tensor
made inside forward, is saved as a stand-in whose `restore` returns the tensor. A sparse tensor is its own stand-in.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ..arrays import is_array
from .aliasing import (
    ChangedArray,
    change_of,
    check_changeable,
    check_unchanged,
    clock,
    mark_changed,
    next_order,
    saved_array,
)
from .arguments import kind_name
from .call_site import CallSite, apply_call_site
from .grad_mode import INFERENCE, thread
from .tensor import Tensor, wrap

if TYPE_CHECKING:
    from .function import Function


# ---- Node: one recorded call of a Function, and the data it keeps for its backward ----------------------------------

FREED: Any = object()
Retained = tuple[tuple[int, Callable[[], Tensor | None]], ...]  # (output, weak reference), see retain_grad
Hooks = tuple[tuple[int, dict[int, Callable[[Tensor], Any]]], ...]  # (output, its hooks), see register_hook


class Node:
    """One call of a Function: `ctx` inside forward and backward, `grad_fn` of the resulting tensors.

    Further attributes may be set freely; they live as long as the graph. Pass arrays to `save_for_backward` instead:
    its contents are freed as soon as the sweep has used them.
    """

    # A training step makes hundreds of nodes: values that most of them share are class defaults.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "edges",
        "function",
        "needs_input_grad",
        "order",
        "outputs",
        "call_site",
        "saved",
        "template",
    )
    retained: Retained = ()
    hooks: Hooks = ()
    dirty: tuple[Tensor, ...] = ()
    materialize: bool = True
    changed: Callable[[], RuntimeError] | None = None  # makes the error about a saved tensor that has changed
    region: Any = None  # the call whose backward is a rule, see subgraph.py
    kinds: tuple[type, ...] | None = None  # the type of each argument, if a user's backward may run

    function: type[Function]
    needs_input_grad: tuple[bool, ...]  # one per argument of forward
    order: int  # a smaller order means made later
    edges: tuple[Any, ...]  # per argument: None, a leaf Tensor, or the Edge of a result
    outputs: Any  # shape and dtype of each; None for a single output with nothing special
    call_site: CallSite  # the user's line; set if anything was saved
    # The arguments of `save_for_backward`. Once forward has returned: a list of saved items, FREED, or a Deferred.
    saved: Any
    template: Any  # set if machine code made the node: nodes with the same one have the same layouts and options

    def save_for_backward(self, *tensors: Tensor | ndarray | None) -> None:
        """Keep inputs, outputs or constants for backward; call once, in forward or setup_context.

        Inputs and outputs are tracked: a second derivative flows through them. An ndarray (or an int64 or
        bool Tensor) is kept as a constant. A floating-point Tensor made inside forward is neither input nor output:
        the gradient through it is unknown, so a second derivative that needs it raises instead of being
        wrong. An ndarray, or an attribute set on ctx, that depends on the inputs is not detected.
        """
        self.saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors, in the order of `save_for_backward`.

        Raises:
            RuntimeError: a sweep without retain_graph=True has freed them, or one has been changed in place since; for
                a Function of this package, only the use of a changed array is an error.
        """
        saved = self.saved
        if saved is FREED:
            raise RuntimeError(
                f"{self!r}: the saved tensors were freed by an earlier backward through this graph; "
                "pass retain_graph=True to the first backward, or run forward again"
            )
        if type(saved) is not tuple and type(saved) is not list:
            saved = saved.restore(self)  # the arrays were dropped, see recompute.py
        else:
            try:
                changed_since = self.order > clock.latest
            except AttributeError:  # forward is still running
                changed_since = False
            if changed_since:  # something has been changed in place since
                saved = usable_items(self, saved)
        if type(saved) is list:
            tensors = []
            for item in saved:
                kind = type(item)
                if kind is tuple:
                    tensor = item[0]
                    item = tensor if tensor.array is item[1] else tensor._as_saved(item[1])
                elif kind is not ndarray and kind is not ChangedArray and item is not None and hasattr(item, "restore"):
                    item = item.restore(self)
                tensors.append(item)
            return (*tensors,)
        return saved

    @property
    def saved_arrays(self) -> list[Any]:
        """The arrays of ``saved_tensors``, for a backward that is not recorded; without the Tensors around them."""
        return saved_arrays(self)

    def free(self) -> None:
        """Release the saved tensors, for a backward that overwrites them; a further backward raises."""
        self.saved = FREED

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare outputs that carry no gradient; backward still gets a (zero) gradient for each."""
        self.outputs = tensors  # until forward has returned

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare arguments whose memory forward has changed or will change; each must also be returned.

        `apply` returns the argument itself, with this call as its history.

        Raises:
            RuntimeError: a leaf that requires a gradient, or a view of one, while the call is recorded.
        """
        for tensor in tensors:
            check_changeable(tensor, self.function.__name__, any(self.needs_input_grad))
        mark_changed([tensor.array for tensor in tensors], self.function.__name__, apply_call_site())
        self.dirty = tensors
        self.outputs = self.outputs or ()  # not None: one of them is special

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether backward gets zeros (True) or None (False) for an output that received no gradient."""
        self.materialize = value

    @property
    def next_functions(self) -> tuple[tuple[Node | AccumulateGrad | None, int], ...]:
        """The destination of each argument's gradient, as (node, output index).

        For a leaf that requires a gradient, the node is the leaf's AccumulateGrad; for a constant, it is (None, 0).
        """
        ends = [edge if edge is None or type(edge) is tuple else (accumulation(edge), 0) for edge in self.edges]
        return tuple([(None, 0) if end is None else (end[0], end[1]) for end in ends])

    @cached_property
    def metadata(self) -> dict[Any, Any]:
        """A dict for notes about this call; it lives as long as the graph."""
        return {}

    @property
    def rule(self) -> str | None:
        """The name of the rule that replaces the backward of the call to which this node belongs."""
        return None if self.region is None else self.region.rule.name

    def name(self) -> str:
        """Return the name of the function with `Backward` appended."""
        return f"{self.function.__name__}Backward"

    def __repr__(self) -> str:
        return f"<{Node.name(self)}>"  # a Function may have set ctx.name


class AccumulateGrad:
    """The node at which the gradient of a leaf is accumulated; `variable` is the leaf.

    It is made when `next_functions` is read. A leaf keeps the same one as long as something refers to it.
    """

    next_functions: tuple[()] = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        self.metadata: dict[Any, Any] = {}

    def name(self) -> str:
        """Return "AccumulateGrad"."""
        return "AccumulateGrad"

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


# by the id of the leaf, which the AccumulateGrad keeps alive
_accumulations: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()


def accumulation(leaf: Tensor) -> AccumulateGrad:
    """Return the AccumulateGrad of a leaf."""
    found = _accumulations.get(id(leaf))
    if found is None:
        found = _accumulations[id(leaf)] = AccumulateGrad(leaf)
    return found


def with_history(
    array: ndarray, function: type[Function], edges: tuple[Any, ...], saved: tuple[Any, ...] = ()
) -> Tensor:
    """Return a Tensor around `array` that counts as a result of `function`, with an explicitly built node."""
    node = Node()
    node.function = function
    node.saved = saved
    node.outputs = None
    node.edges = edges
    node.needs_input_grad = tuple([edge is not None for edge in edges])
    node.order = next_order()
    rules = thread.mode.rules
    if rules is not None:
        rules.add_to_region(node, (), ((array.shape, array.dtype),))
    tensor = wrap(array)
    tensor._requires_grad = True
    tensor._edge = (node, 0, array.shape, array.dtype)
    return tensor


def save_factors(node: Node, x: Tensor, y: Tensor) -> None:
    """Keep the factors of a product for backward: one if the other needs a gradient; both if a rule may run."""
    of_x, of_y, *_ = node.needs_input_grad
    if (of_x and of_y) or thread.mode.rules is not None:
        node.saved = x, y
    else:
        node.saved = x if of_y else None, y if of_x else None


def saved_arrays(node: Node) -> list[Any]:
    """Return ``node.saved_arrays``, faster."""
    saved = node.saved
    if type(saved) is not list:
        return [None if tensor is None else tensor.array for tensor in node.saved_tensors]
    if node.order > clock.latest:  # something has been changed in place since
        saved = usable_items(node, saved)
    arrays: list[Any] = []  # without a comprehension, which is slower for few
    for item in saved:
        arrays.append(item[1] if type(item) is tuple else None if item is None else item.array)
    return arrays


def usable_items(node: Node, saved: Sequence[Any]) -> Sequence[Any]:
    """Return saved items in which a `ChangedArray` stands for each array that was changed in place since.

    Raises:
        RuntimeError: one was changed, and the node is of a user's Function, whose backward may use it in any way, or of
            one that needs all of them.
    """
    errors = [change_of(node, item) for item in saved]
    if errors.count(None) == len(errors):
        return saved
    if node.function._user_defined or node.function._needs_all_saved:
        check_unchanged(node, saved)
    node.changed = next(error for error in errors if error is not None)
    return [item if error is None else _with_changed(item, error) for item, error in zip(saved, errors, strict=True)]


def error_of_backward(node: Node, error: Exception) -> Exception:
    """Return the error to raise for one that a node's backward raised.

    A kernel that gets a `ChangedArray` says that it is not an array.
    """
    return node.changed() if type(error) is TypeError and node.changed is not None else error


def _with_changed(item: Any, error: Callable[[], RuntimeError]) -> Any:
    """Return a saved item with a `ChangedArray` in place of its array."""
    array: Any = ChangedArray(saved_array(item), error)
    if type(item) is tuple:
        return item[0], array
    if type(item) is SavedOutput:
        return saved_output(array, item.index)
    if type(item) is SavedIntermediate:
        return SavedIntermediate(array)
    if is_array(item):
        return array
    raise error()  # a sparse tensor


def first_saved(node: Node) -> ndarray:
    """Return the first of a node's ``saved_arrays``, faster."""
    saved = node.saved
    if type(saved) is not list or node.order > clock.latest:
        return node.saved_arrays[0]
    item = saved[0]
    array: ndarray = item[1] if type(item) is tuple else item.array
    return array


# ---- Saved tensors: storage in forward and restoration for backward -------------------------------------------------


class SavedOutput:
    """Stand-in for an output among the saved tensors: saving the tensor itself would make a reference cycle."""

    __slots__ = ("array", "index")

    array: np.ndarray
    index: int

    def restore(self, node: Node) -> Tensor:
        tensor = wrap(self.array)
        tensor._requires_grad = True
        tensor._edge = (node, self.index, self.array.shape, self.array.dtype)
        return tensor


def saved_output(array: np.ndarray, index: int) -> SavedOutput:
    """Return a SavedOutput: faster than a constructor."""
    found = SavedOutput()
    found.array, found.index = array, index
    return found


class SavedIntermediate:
    """Stand-in for a floating-point tensor made inside forward; its dependence on the inputs was not recorded."""

    __slots__ = ("array",)

    def __init__(self, array: np.ndarray) -> None:
        self.array: np.ndarray = array

    def restore(self, node: Node) -> Tensor:
        tensor = wrap(self.array)
        return tensor._as_intermediate(node) if thread.mode.enabled else tensor


def classify_saved(node: Node, args: tuple[Any, ...], outputs: tuple[Tensor, ...]) -> None:
    """Replace saved tensors by pairs with their arrays or by stand-ins.

    Raises:
        TypeError: something was saved that is neither a Tensor nor an ndarray nor None.
        RuntimeError: a tensor made in inference_mode was saved.
    """
    saved: list[Any] = []
    arguments = {id(arg) for arg in args}
    for position, item in enumerate(node.saved):
        stand_in: Any = item
        if isinstance(item, Tensor):
            if item._grad_req is INFERENCE:
                raise RuntimeError(
                    f"{node.function.__name__}: a tensor made in inference_mode cannot be saved for a backward; use "
                    "tensor.clone() outside inference_mode, or no_grad instead of inference_mode"
                )
            stand_in = item, item.array
            if id(item) not in arguments:
                for index, output in enumerate(outputs):
                    if output is item:
                        if node.outputs is None or output._edge is not None:
                            stand_in = saved_output(item.array, index)
                        break
                else:
                    # One that requires a gradient came from outside forward and has its own history.
                    if not item._requires_grad and item.array.dtype.kind == "f":
                        stand_in = SavedIntermediate(item.array)
        elif item is not None and not hasattr(item, "__array_function__") and not hasattr(item, "restore"):
            raise TypeError(
                f"{node.function.__name__}: save_for_backward takes Tensors, ndarrays and None, "
                f"argument {position} is {kind_name(item)}; set it as an attribute: ctx.name = value"
            )
        saved.append(stand_in)
    node.saved = saved
