"""Function: an operation with its gradient; Node: one recorded call of it.

An example:

    class Mul(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return Tensor(x.data * y.data)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

    z = Mul.apply(x, y)
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from .grad_mode import thread
from .tensor import Tensor, wrap

# Counts down: a node is younger than all it was computed from, so increasing order is a valid sweep order.
_next_order = itertools.count(0, -1).__next__
FREED: Any = object()
Retained = tuple[tuple[int, Callable[[], Tensor | None]], ...]  # (output, weak reference), see retain_grad


class _SavedOutput:
    """Stands for an output among the saved tensors: the tensor itself would hold the node that holds it."""

    __slots__ = ("data", "index")

    def __init__(self, data: np.ndarray, index: int) -> None:
        self.data = data
        self.index = index


class _SavedIntermediate:
    """Stands for a floating tensor made inside forward: its own dependence on the inputs was not recorded."""

    __slots__ = ("data",)

    def __init__(self, data: np.ndarray) -> None:
        self.data = data


class Node:
    """One call of a Function: `ctx` inside forward and backward, `grad_fn` of the tensors that came out.

    Further attributes may be set freely; they live as long as the graph. Arrays belong into
    `save_for_backward`, whose contents are freed as soon as the sweep has used them.
    """

    # Every step makes hundreds of nodes: what nearly all have in common is a default of the class.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "edges",
        "function",
        "needs_input_grad",
        "order",
        "outputs",
        "saved",
    )
    retained: Retained = ()
    materialize: bool = True

    function: type[Function]
    needs_input_grad: tuple[bool, ...]  # one per argument of forward
    order: int  # smaller = made later
    edges: tuple[Any, ...]  # per argument: None, a leaf Tensor, or the Edge of a result
    outputs: Any  # shape and dtype of each; None if there is one and nothing is special about it
    saved: Any  # a tuple; a list if it holds stand-ins

    def save_for_backward(self, *tensors: Tensor | np.ndarray | None) -> None:
        """Keep inputs, outputs or constants for backward; call once, in forward.

        Inputs and outputs are tracked: a second derivative flows through them. An ndarray (or an int64 or
        bool Tensor) is kept as a constant. A floating Tensor made inside forward is neither input nor output:
        the gradient through it is unknown, so a second derivative that needs it raises instead of being
        wrong. Not detected: an ndarray, or an attribute set on ctx, that depends on the inputs.
        """
        self.saved = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept, in its order.

        Raises:
            RuntimeError: a sweep without retain_graph=True has freed it.
        """
        saved = self.saved
        if saved is FREED:
            raise RuntimeError(
                f"{self!r}: the saved tensors were freed by an earlier backward through this graph; "
                "pass retain_graph=True to the first backward, or run forward again"
            )
        if type(saved) is list:
            return tuple([_restore(self, item) for item in saved])
        return saved

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare outputs that carry no gradient; backward still gets a (zero) gradient for each."""
        self.outputs = tensors  # until forward has returned

    def set_materialize_grads(self, value: bool) -> None:
        """With False, backward gets None instead of zeros for an output that received no gradient."""
        self.materialize = value

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Per argument (node, output index): where its gradient goes; (None, 0) for leaves and constants."""
        return tuple([(e[0], e[1]) if type(e) is tuple else (None, 0) for e in self.edges])

    def name(self) -> str:
        """The name of the function with `Backward` appended."""
        return f"{self.function.__name__}Backward"

    def __repr__(self) -> str:
        return f"<{self.name()}>"


class Function:
    """An operation and its gradient. Subclass it, write the two static methods, call `apply`.

    forward(ctx, *args) gets the arguments of `apply` with recording off and returns a Tensor or a tuple of
    Tensors. backward(ctx, *grads) gets one gradient per output and returns one gradient (Tensor or None) per
    argument; trailing Nones may be left out. It is run with recording on if the sweep has create_graph=True,
    so that a backward written in differentiable operators can be differentiated again; see
    `once_differentiable` for others.

    Source: the contract of torch.autograd.Function.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{cls.__name__}: a Function has no instances; use {cls.__name__}.apply(...)")

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Compute the outputs; every subclass has its own."""
        raise NotImplementedError("forward: the Function must define the static method forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Compute the gradients of the arguments; every subclass that is differentiated has its own."""
        raise NotImplementedError(
            "backward: the Function must define the static method backward(ctx, *grads)"
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward, and record the call if recording is on and an argument requires a gradient.

        Raises:
            TypeError: forward returned something else than Tensors.
        """
        node = Node()
        node.function = cls
        node.saved = ()
        node.outputs = None
        mode = thread.mode
        enabled = mode.enabled
        edges: list[Any] = []
        needs: list[bool] = []
        record = False
        for arg in args if enabled else ():
            if isinstance(arg, Tensor) and arg._requires_grad:
                edge: Any = arg._edge
                if edge is None and arg._grad_req != "null":
                    edge = arg
                if edge is not None:
                    edges.append(edge)
                    needs.append(True)
                    record = True
                    continue
            edges.append(None)
            needs.append(False)
        node.needs_input_grad = (*needs,) if record else (False,) * len(args)
        mode.enabled = False
        try:
            output = cls.forward(node, *args)
        finally:
            mode.enabled = enabled
        if not record:
            if type(output) is Tensor and not output._requires_grad:
                for arg in args:
                    if arg is output:
                        break
                else:
                    return output
            return _free_of_history(cls, output, args)
        if type(output) is not Tensor or node.outputs is not None or output._requires_grad:
            return _record_outputs(node, edges, output, args)
        for arg in args:
            if arg is output:
                return _record_outputs(node, edges, output, args)
        data = output.data
        dtype = data.dtype
        if dtype.kind != "f":
            return output
        node.order = _next_order()
        node.edges = (*edges,)
        for item in node.saved:
            if not isinstance(item, Tensor) or not item._requires_grad:  # else it is an argument
                _classify_saved(node, args, (output,))
                break
        output._requires_grad = True
        output._edge = (node, 0, data.shape, dtype)
        return output


def _free_of_history(cls: type[Function], output: Any, args: tuple[Any, ...]) -> Any:
    """What forward returned: checked, without history, and never one of the arguments itself."""
    if type(output) is tuple:
        return tuple([_one_free_of_history(cls, item, args) for item in output])
    return _one_free_of_history(cls, output, args)


def _one_free_of_history(cls: type[Function], output: Any, args: tuple[Any, ...]) -> Tensor:
    if not isinstance(output, Tensor):
        raise TypeError(
            f"{cls.__name__}: forward must return a Tensor or a tuple of Tensors, got "
            f"{type(output).__name__}; wrap an array: Tensor(array)"
        )
    if output._requires_grad or any(arg is output for arg in args):
        return wrap(output.data)
    return output


def _record_outputs(node: Node, edges: list[Any], output: Any, args: tuple[Any, ...]) -> Any:
    """Outputs of a recorded call, the general form: tuples, outputs without gradient, subclasses."""
    cls = node.function
    originals = output if type(output) is tuple else (output,)
    outputs = _free_of_history(cls, originals, args)
    marked = node.outputs or ()  # by mark_non_differentiable
    node.order = _next_order()
    node.edges = (*edges,)
    node.outputs = tuple([(item.data.shape, item.data.dtype) for item in outputs])
    for item in marked:
        if not any(item is original for original in originals):
            raise ValueError(
                f"{cls.__name__}: mark_non_differentiable was given a tensor that forward does not return"
            )
    for index, (item, original) in enumerate(zip(outputs, originals, strict=True)):
        if item.data.dtype.kind == "f" and not any(original is other for other in marked):
            if item._edge is not None:
                raise ValueError(
                    f"{cls.__name__}: forward returns one tensor twice; return a copy for output {index}"
                )
            item._requires_grad = True
            item._edge = (node, index, item.data.shape, item.data.dtype)
    if node.saved:
        # A returned argument was replaced by an alias: saved, it is still the argument.
        _classify_saved(node, args, outputs)
    return outputs if type(output) is tuple else outputs[0]


def _classify_saved(node: Node, args: tuple[Any, ...], outputs: tuple[Tensor, ...]) -> None:
    """Replace saved outputs and intermediates by their stand-ins."""
    saved = node.saved
    kept: list[Any] | None = None
    for position, item in enumerate(saved):
        for arg in args:
            if arg is item:
                break
        else:
            if isinstance(item, Tensor):
                stand_in: Any = None
                for index, output in enumerate(outputs):
                    if output is item:
                        if node.outputs is None or output._edge is not None:
                            stand_in = _SavedOutput(item.data, index)
                        break
                else:
                    # One that requires a gradient came from outside forward and has its own history.
                    if not item._requires_grad and item.data.dtype.kind == "f":
                        stand_in = _SavedIntermediate(item.data)
                if stand_in is not None:
                    if kept is None:
                        kept = list(saved)
                    kept[position] = stand_in
            elif item is not None and not isinstance(item, np.ndarray):
                raise TypeError(
                    f"{node.function.__name__}: save_for_backward takes Tensors, ndarrays and None, "
                    f"argument {position} is {type(item).__name__}; set it as an attribute: ctx.name = value"
                )
    if kept is not None:
        node.saved = kept


def _restore(node: Node, item: Any) -> Any:
    """The saved tensor for a stand-in."""
    kind = type(item)
    if kind is _SavedOutput:
        tensor = wrap(item.data)
        tensor._requires_grad = True
        tensor._edge = (node, item.index, item.data.shape, item.data.dtype)
        return tensor
    if kind is _SavedIntermediate:
        if thread.mode.enabled:
            return refusing(item.data, _Intermediate, node.function, node.edges)
        return wrap(item.data)
    return item


def refusing(
    data: np.ndarray, kind: type[Function], function: type[Function], edges: tuple[Any, ...]
) -> Tensor:
    """A tensor without a known gradient: a sweep that needs it ends in `kind`'s message about `function`.

    `edges` say what it depends on, so that a search for the way to some input finds it.
    """
    node = Node()
    node.function = kind
    node.saved = (function,)
    node.needs_input_grad = tuple([edge is not None for edge in edges])
    node.order = _next_order()
    node.edges = edges
    node.outputs = None
    tensor = wrap(data)
    tensor._requires_grad = True
    tensor._edge = (node, 0, data.shape, data.dtype)
    return tensor


class _Intermediate(Function):
    """The gradient of a tensor that was made inside some forward and saved there."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        name = ctx.saved_tensors[0].__name__
        raise RuntimeError(
            f"{name}: its backward uses a saved tensor that forward made itself, so the second derivative "
            "through it is unknown. Return that tensor as a further output, compute it again in backward, "
            "or, if it does not depend on the inputs, save its array: ctx.save_for_backward(tensor.data)"
        )


class _OnceOnly(Function):
    """The gradient of a result of a backward that is declared once_differentiable."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        name = ctx.saved_tensors[0].__name__
        raise RuntimeError(
            f"{name}: its backward is marked once_differentiable, so it has no second derivative. Write "
            "backward in differentiable operators and remove @once_differentiable, or do without "
            "create_graph=True"
        )


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a backward that is not made of differentiable operators.

    It runs with recording off; a second derivative through it is an error instead of a wrong number:

        @staticmethod
        @once_differentiable
        def backward(ctx, g): ...
    """

    @functools.wraps(backward)
    def wrapper(ctx: Node, *grads: Any) -> Any:
        mode = thread.mode
        if not mode.enabled:
            return backward(ctx, *grads)
        mode.enabled = False
        try:
            results = backward(ctx, *grads)
        finally:
            mode.enabled = True
        sources = [g._edge or g for g in grads if isinstance(g, Tensor) and g._requires_grad]
        edges = (*ctx.edges, *sources)
        if type(results) is not tuple:
            results = (results,)
        return tuple(
            [
                refusing(r.data, _OnceOnly, ctx.function, edges) if isinstance(r, Tensor) else r
                for r in results
            ]
        )

    return wrapper
