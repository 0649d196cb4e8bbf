"""Function, an operation with its gradient, and the decorator `once_differentiable`.

An example:

    class Mul(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return Tensor(x.array * y.array)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y, g * x

    z = Mul.apply(x, y)
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy import ndarray

from .aliasing import next_order
from .call_site import in_package, user_call_site
from .grad_mode import INFERENCE, thread
from .node import Node, classify_saved, saved_output, with_history
from .tensor import Tensor, wrap

# ---- Function: an operation with its gradient -----------------------------------------------------------------------


class Function:
    """An operation and its gradient. Subclass it, write the two static methods, call `apply`.

    forward(ctx, *args) gets the arguments of `apply` with recording off and returns a Tensor or a tuple of
    Tensors. backward(ctx, *grads) gets one gradient per output and returns one gradient per argument, in the same
    order as the arguments: a Tensor, or None where there is no gradient, as for any argument other than a Tensor.
    Extra Nones at the end are ignored. backward runs with recording on if the sweep has create_graph=True, so a
    backward written in differentiable operators can be differentiated again; see `once_differentiable` for others.

    forward may also be written without ctx: forward(*args), followed by setup_context(ctx, inputs, output), which
    saves what backward needs; inputs is the tuple of arguments.

    An operation whose output shares the memory of an argument is a `View`, so that changes in place reach both.

    piecewise_linear = True declares that the gradients depend on the arguments only through signs and positions, except
    where backward uses recorded operators. With create_graph=True, the unrecorded derivatives are then 0, not missing.

    Source: the contract of torch.autograd.Function.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        text = f"{cls.__name__}: a Function needs no instance, its methods are static; write {cls.__name__}.apply(...)"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return super().__new__(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = type(self).__name__
        raise RuntimeError(
            f"{name}: an instance of a Function cannot be called, as before PyTorch 1.3; make forward(ctx, ...) and "
            f"backward(ctx, ...) static methods, pass options as arguments, and write {name}.apply(...)"
        )

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Compute the outputs; every subclass defines this method."""
        raise NotImplementedError("forward: the Function must define the static method forward(ctx, *args)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs; for a subclass whose forward takes no ctx."""
        raise NotImplementedError(
            "setup_context: the Function must define the static method setup_context(ctx, inputs, output)"
        )

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Compute the gradients of the arguments; every subclass that is differentiated defines this method."""
        raise NotImplementedError("backward: the Function must define the static method backward(ctx, *grads)")

    piecewise_linear = False
    gradient: str = ""  # formulas for the documentation if backward's source does not show them: "x: g yT; y: xT g"
    moves = False  # True if it only moves, copies or converts elements: an operator may use it besides its own Function

    _depth = 1  # callers of apply that are known to be inside this package
    _user_defined = True  # defined outside this package
    _needs_all_saved = False  # a changed saved tensor is an error even if backward does not use its elements
    _takes_ctx = True  # the parameter ctx of forward; otherwise setup_context gets it
    # (forward, setup_context) of a Function of this package without ctx in forward, which computes new Tensors from
    # arrays. A call that is not recorded needs no node and no setup_context.
    _pure: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._user_defined = not in_package[sys._getframe(1).f_code.co_filename]
        cls._depth = 1 if cls._user_defined else 2  # in this package a public function calls apply
        own = cls.__dict__
        if cls._user_defined:
            cls._pure = None
        if "setup_context" in own:
            cls._takes_ctx = False
            if not cls._user_defined:
                cls._pure = cls.forward, cls.setup_context
        elif "forward" in own:
            above: Any = next(base for base in cls.__mro__ if "setup_context" in base.__dict__)
            if above is Function or not above._user_defined:
                cls._takes_ctx, cls._pure = True, None

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward, and record the call if recording is on and an argument requires a gradient.

        Raises:
            TypeError: forward returned something other than Tensors.
        """
        mode = thread.mode
        if mode.watch is not None:
            return mode.watch(cls, args)
        enabled = mode.enabled
        node: Any = None
        count = len(args)
        if enabled:
            if count <= 2:
                node = _node_to_record(cls, args)
            else:
                for arg in args:
                    kind = type(arg)
                    if (kind is Tensor or (kind not in _PLAIN and isinstance(arg, Tensor))) and arg._requires_grad:
                        node = _node_to_record(cls, args)
                        break
        pure = cls._pure
        if pure is None:
            return _apply_with_ctx(cls, args, node)
        mode.enabled = False
        try:
            if count == 1:  # faster than *args
                output = pure[0](args[0])
            elif count == 2:
                output = pure[0](args[0], args[1])
            elif count == 3:
                output = pure[0](args[0], args[1], args[2])
            else:
                output = pure[0](*args)
            if node is not None:
                pure[1](node, args, output)
        finally:
            mode.enabled = enabled
        if node is not None:
            if node.saved:
                place = mode.site
                node.call_site = user_call_site(2) if place is None else place
            if type(output) is tuple:
                _record_several(node, output, args, mode.rules)
            else:
                _record(node, output, args, mode.rules)
        elif mode.inference:
            for item in output if type(output) is tuple else (output,):
                item._grad_req = INFERENCE
        return output


def _apply_with_ctx(cls: type[Function], args: tuple[Any, ...], node: Any) -> Any:
    """Run the forward of a call, with a node if it is recorded; forward may do everything that is documented."""
    mode = thread.mode
    enabled = mode.enabled
    record = node is not None
    if node is None:
        node = Node()
        node.function, node.saved, node.outputs = cls, (), None
        node.needs_input_grad = (False,) * len(args)
    mode.enabled = False
    try:
        if cls._takes_ctx:
            output = cls.forward(node, *args)
        else:
            output = cls.forward(*args)
            cls.setup_context(node, args, output)
    finally:
        mode.enabled = enabled
    plain = type(output) is Tensor and not output._requires_grad
    if plain:
        for arg in args:
            if arg is output:
                plain = False
                break
    if not record:
        if not plain:
            return _without_history(node, output, args)
        if mode.inference:
            output._grad_req = INFERENCE
        return output
    depth = cls._depth
    if cls._user_defined:
        node.kinds = (*map(type, args),)
    if node.saved:
        place = mode.site
        node.call_site = user_call_site(depth + 1) if place is None else place
    if not plain or node.outputs is not None:
        return _record_outputs(node, output, args)
    _record(node, output, args, mode.rules)
    return output


def _node_to_record(cls: type[Function], args: tuple[Any, ...]) -> Node | None:
    """Return the node of a call before its forward runs; None if no argument requires a gradient."""
    edge: Any = None
    other: Any = None
    count = len(args)
    if count and isinstance(first := args[0], Tensor) and first._requires_grad:
        edge = first._edge
        if edge is None and first._grad_req != "null":
            edge = first
    if count == 1:  # as the loop below, which is slower
        if edge is None:
            return None
        node = Node()
        node.edges, node.needs_input_grad = (edge,), _NEEDED
    elif count == 2:
        second = args[1]
        if type(second) not in _PLAIN and isinstance(second, Tensor) and second._requires_grad:
            other = second._edge
            if other is None and second._grad_req != "null":
                other = second
        if edge is None and other is None:
            return None
        node = Node()
        node.edges, node.needs_input_grad = (edge, other), (edge is not None, other is not None)
    else:
        edges: Any = None
        place = 0
        for arg in args[1:]:
            place += 1
            if type(arg) not in _PLAIN and isinstance(arg, Tensor) and arg._requires_grad:
                other = arg._edge
                if other is None and arg._grad_req != "null":
                    other = arg
                if other is not None:
                    if edges is None:
                        edges = [edge] + [None] * (count - 1)
                    edges[place] = other
        if edges is not None:
            node = Node()
            node.edges, node.needs_input_grad = (*edges,), tuple([each is not None for each in edges])
        elif edge is None:
            return None
        else:
            node = Node()
            node.edges, node.needs_input_grad = (edge, None, None), _ONLY_FIRST
            if count > 3:
                node.edges, node.needs_input_grad = (edge, *(None,) * place), (True, *(False,) * place)
    node.function, node.saved, node.outputs = cls, (), None
    return node


_NEEDED = (True,)
_ONLY_FIRST = True, False, False
_PLAIN = frozenset({bool, float, int, str, tuple, type(None)})  # isinstance takes longer for them


def _record(node: Node, output: Tensor, args: tuple[Any, ...], rules: Any) -> None:
    """Record a call with one output, a new Tensor."""
    data = output.array
    dtype = data.dtype
    if dtype.kind != "f":
        return
    node.order = next_order()
    saved = node.saved
    if saved and type(saved) is not list:
        items: list[Any] = []
        for item in saved:  # the usual cases of classify_saved
            if isinstance(item, Tensor):
                if item is output:
                    items.append(saved_output(data, 0))
                    continue
                if item._requires_grad:  # an argument
                    items.append((item, item.array))
                    continue
            elif type(item) is ndarray or item is None:  # a constant
                items.append(item)
                continue
            classify_saved(node, args, (output,))
            break
        else:
            node.saved = items
    output._requires_grad = True
    output._edge = (node, 0, data.shape, dtype)
    if rules is not None:
        rules.add_to_region(node, args, ((data.shape, dtype),))


def _record_several(node: Node, outputs: tuple[Tensor, ...], args: tuple[Any, ...], rules: Any) -> None:
    """Record a call with several outputs, all of them new Tensors."""
    marked = node.outputs  # by mark_non_differentiable
    node.order = next_order()
    layouts: list[Any] = []
    for item in outputs:
        data = item.array
        shape, dtype = data.shape, data.dtype
        if dtype.kind == "f" and not (marked and _is_in(item, marked)):
            item._requires_grad = True
            item._edge = (node, len(layouts), shape, dtype)
        layouts.append((shape, dtype))
    node.outputs = (*layouts,)
    if rules is not None:
        rules.add_to_region(node, args, node.outputs)
    if node.saved:
        classify_saved(node, args, outputs)


def _without_history(node: Node, output: Any, args: tuple[Any, ...]) -> Any:
    """Return the outputs of a call that is not recorded in the general case: tuples, and arguments among them."""
    result = _strip_history(node, output, args)
    if thread.mode.inference:
        for item in result if type(result) is tuple else (result,):
            if not _is_in(item, node.dirty):
                item._grad_req = INFERENCE
    return result


def _strip_history(node: Node, output: Any, args: tuple[Any, ...]) -> Any:
    """Return the checked outputs of forward without history; an argument is returned as such only if it is dirty."""
    arguments = {id(arg) for arg in args}
    if type(output) is tuple:
        return tuple([_strip_one(node, item, arguments) for item in output])
    return _strip_one(node, output, arguments)


def _strip_one(node: Node, output: Any, arguments: set[int]) -> Tensor:
    if not isinstance(output, Tensor):
        raise TypeError(
            f"{node.function.__name__}: forward must return a Tensor or a tuple of Tensors, got "
            f"{type(output).__name__}; wrap an array: Tensor(array)"
        )
    if output._requires_grad or id(output) in arguments:
        return output if _is_in(output, node.dirty) else wrap(output.array)
    return output


def _is_in(tensor: Tensor, tensors: tuple[Tensor, ...]) -> bool:
    for other in tensors:  # noqa: SIM110, any() of a generator is slower
        if tensor is other:
            return True
    return False


def _record_outputs(node: Node, output: Any, args: tuple[Any, ...]) -> Any:
    """Record outputs in the general case: tuples, and outputs without a gradient or changed in place."""
    cls = node.function
    dirty = node.dirty
    originals = output if type(output) is tuple else (output,)
    outputs = _strip_history(node, originals, args)
    marked = node.outputs or ()  # by mark_non_differentiable
    node.order = next_order()
    node.outputs = tuple([(item.array.shape, item.array.dtype) for item in outputs])
    if thread.mode.rules is not None:
        thread.mode.rules.add_to_region(node, args, node.outputs)
    for method, tensors in (("mark_non_differentiable", marked), ("mark_dirty", dirty)):
        for item in tensors:
            if not _is_in(item, originals):
                raise ValueError(f"{cls.__name__}: {method} was given a tensor that forward does not return")
    changed: list[tuple[Tensor, Any]] = []
    for index, item in enumerate(outputs):
        data = item.array
        dtype = data.dtype
        if dtype.kind == "f" and not (marked and _is_in(originals[index], marked)):
            edge = (node, index, data.shape, dtype)
            if dirty and _is_in(item, dirty):
                changed.append((item, edge))
                continue
            if item._edge is not None:
                raise ValueError(f"{cls.__name__}: forward returns one tensor twice; return a copy for output {index}")
            item._requires_grad = True
            item._edge = edge
    for item, edge in changed:
        item._rebase(edge)
    if node.saved:
        # Arguments that forward returned have been replaced by aliases, so a saved tensor that is both an argument and
        # an output counts as the argument. Only a dirty one counts as the output.
        classify_saved(node, tuple([arg for arg in args if not _is_in(arg, dirty)]) if dirty else args, outputs)
    if dirty:
        del node.dirty  # it would form a cycle with the node
    return outputs if type(output) is tuple else outputs[0]


# ---- Saved tensors that are restored with a history (node.py restores the others) ----------------------------------


class Snapshot(Function):
    """The array that a tensor had when it was saved, with the tensor's history."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, array: np.ndarray) -> Tensor:
        return wrap(array)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        return g, None


def as_saved(tensor: Tensor, array: np.ndarray) -> Tensor:
    """Return a saved tensor whose `array` has since been replaced, with its old array and its history."""
    return Snapshot.apply(tensor, array)


def as_intermediate(tensor: Tensor, node: Node) -> Tensor:
    """Return `tensor`, which the forward of `node` created and saved, for a sweep with create_graph=True."""
    return without_derivative(tensor.array, Intermediate, node.function, node.edges)


def without_derivative(
    array: np.ndarray, kind: type[Function], function: type[Function], edges: tuple[Any, ...]
) -> Tensor:
    """Return a tensor with an unknown gradient: a sweep that needs it raises `kind`'s error about `function`.

    `edges` list the tensors it depends on, so that `grad` finds the path to its inputs.
    """
    return with_history(array, kind, edges, (function,))


class Intermediate(Function):
    """The gradient of a tensor that was made inside some forward and saved there."""

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> NoReturn:
        name = ctx.saved_tensors[0].__name__
        raise RuntimeError(
            f"{name}: its backward uses a saved tensor that forward made itself, so the second derivative "
            "through it is unknown. Return that tensor as a further output, compute it again in backward, "
            "or, if it does not depend on the inputs, save its array: ctx.save_for_backward(tensor.array)"
        )


# ---- once_differentiable: an error instead of a wrong second derivative ---------------------------------------------


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
    """Decorate a backward that is not made of differentiable operators.

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
        if not isinstance(results, (tuple, list)):
            results = (results,)
        return tuple(
            [
                without_derivative(r.array, _OnceOnly, ctx.function, edges) if isinstance(r, Tensor) else r
                for r in results
            ]
        )

    return wrapper
