"""The source map of an operator: the path from the function that users call to the compiled code.

The stops are read from the sources, and nothing is run. A function's source names the Functions that it records. Their
forward and backward name kernels and other Functions. A kernel has one source in the textbook set and one in the
compiled set, and the latter names the Numba-compiled functions by their handles.

A call shows which stops its shapes use. It runs once, forward and backward, and the kernels of its steps and the
launches of their plans are listed.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from .. import nn as layers
from ..arrays import ones_like
from ..engine.arguments import kind_name
from ..engine.backward_pass import grad
from ..engine.function import Function
from ..engine.node import FREED, AccumulateGrad, Node
from ..engine.operator import OPERATORS, Operator
from ..engine.steps import Step, Steps, record_steps
from ..engine.tensor import Tensor
from ..formulas.registry import Together
from ..nn.module import Module
from ..ops.convolution.plan import passes_of
from ..specs.array_spec import leaves
from ..specs.convolution_options import TEXTBOOK_ALGORITHMS, Options
from ..specs.geometry import Window

__all__ = [
    "Ran",
    "Stop",
    "functions_in",
    "kernels_in",
    "listed",
    "node_of",
    "place_of",
    "ran",
    "referred",
    "source_map",
    "stops_of",
    "textbook_of",
]

_ROOT = Path(__file__).parents[1]
_COMPILED, _TEXTBOOK = "retrograd.kernels.compiled", "retrograd.kernels.textbook"
_BY_NAME = {"convolution_kernel", "exact"}  # functions of kernel_set whose first argument is the kernel's name


@dataclass(frozen=True)
class Stop:
    """One stop: its role, its name, and the file (relative to the package) and line where its source begins."""

    depth: int
    role: str
    name: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """``file:line``, or the module for something without Python source."""
        return f"{self.file}:{self.line}" if self.line else self.file

    def __str__(self) -> str:
        return f"{'  ' * self.depth + self.role:20} {self.name:40} {self.place}"


@dataclass(frozen=True)
class Ran:
    """A step that ran.

    text: as ``Steps`` writes it; kernel: its name, and where its source is
    launches: those of its plan, each with its tasks and the source of its machine code; a "call" runs in Python
    why_not: why it has no plan
    """

    text: str
    kernel: Stop
    launches: tuple[Stop, ...] = ()
    why_not: str = ""


def source_map(operator_or_tensor: Any, /, *args: Any, **kwargs: Any) -> str:
    """List an operator's path to compiled code, forward and backward, one stop per line: role, name, ``file:line``.

    With arguments, the call ``operator(*args, **kwargs)`` runs once, forward and backward. Its steps (see
    ``record_steps``) follow the stops, each with the location of its kernel's source, and with the launches of its
    plan, their tasks and the location of their machine code's source. The gradient of the result is 1, and no tensor's
    ``grad`` changes.

    Args:
        operator_or_tensor: an operator, its name, a Function, a layer or its class; or a tensor, which gives the stops
            of what computed it, and for a convolution the algorithm for its shapes and the costs that decided. With
            arguments, it may be any function, such as one training step, but not a class of layers.
        args, kwargs: the arguments of the call.

    Raises:
        TypeError: it is none of these, or cannot be called with arguments.
        ValueError: there is no operator of this name, or the tensor has no history.

    >>> import retrograd as rg
    >>> print(rg.source_map(rg.exp).splitlines()[0].split()[:2])
    ['operator', 'exp']
    >>> x = rg.ones(2, 3, requires_grad=True)
    >>> lines = rg.source_map("softmax", x, 1).splitlines()
    >>> for line in lines[lines.index("forward: 1 step") + 1 :][:3]:
    ...     print(*line.partition(" kernels/")[0].split())
    %1: float32[2, 3] = softmax(%0: float32[2, 3], 1)
    kernel softmax
    launch softmax_softmax_rows_f(1 task)
    """
    if args or kwargs:
        return "\n".join(_of_call(operator_or_tensor, args, kwargs))
    lines = [*map(str, stops_of(operator_or_tensor))]
    node = operator_or_tensor.grad_fn if isinstance(operator_or_tensor, Tensor) else operator_or_tensor
    if isinstance(node, Node):
        lines += _algorithms(node)
    return "\n".join(lines)


def stops_of(operator_or_tensor: Any) -> list[Stop]:
    """Return the stops of ``source_map`` as a list. Raises: as ``source_map``."""
    target = operator_or_tensor
    if isinstance(target, str):
        target = _named(target)
    if isinstance(target, Tensor):
        target = node_of(target, "source_map")
    if isinstance(target, Node):
        target = target.function
    operator = getattr(target, "operator", target)
    if isinstance(operator, Operator):
        return [*_of_operator(operator)]
    if isinstance(target, type) and issubclass(target, Function):
        return [*_of_function(target, 0, set())]
    layer = target if isinstance(target, type) else type(target)
    if issubclass(layer, Module):
        return [_stop(0, "layer", layer.__name__, layer), *_stops_in(layer.forward, layer, 1, set())]
    raise TypeError(
        f"source_map: got {kind_name(operator_or_tensor)}, expected an operator, its name, a layer or a Tensor"
    )


def node_of(tensor: Tensor, caller: str) -> Node:
    """Return the node that computed a tensor. Raises: ValueError: none was recorded."""
    if tensor.grad_fn is None:
        raise ValueError(
            f"{caller}: this tensor is not the result of a recorded operation, so it has no backward; pass a result "
            "computed from tensors that require a gradient, or an operator"
        )
    return tensor.grad_fn


# other libraries' names of operators that readers of a convolution look for
_UNFOLDING = {"im2col": "unfold", "unpack_patch2col": "unfold", "col2im": "fold", "pack_col2patch": "fold"}


def _named(name: str) -> Any:
    """Return the operator or the layer with this name."""
    last = name.rpartition(".")[2]
    found = [each for each in OPERATORS if last in (each.name, *each.methods)]
    if found:
        return max(found, key=lambda each: (each.name == last, bool(each.functions)))
    layer = getattr(layers, last, None)
    if isinstance(layer, type) and issubclass(layer, Module):
        return layer
    names = {each.name for each in OPERATORS if each.name[0].isalpha()} | {*layers.__all__}
    near = [_UNFOLDING[last]] if last in _UNFOLDING else difflib.get_close_matches(last, sorted(names), 3)
    hint = f"; near: {', '.join(near)}" if near else ""
    raise ValueError(f"source_map: there is no operator or layer {name!r}{hint}")


def _of_operator(operator: Operator) -> Iterator[Stop]:
    yield _stop(0, "operator", operator.name, operator.function)
    seen: set[Any] = set()
    for function in operator.functions:
        yield from _of_function(function, 1, seen)
    if not operator.functions:
        yield from _stops_in(operator.function, None, 1, seen)


def _stops_in(function: Any, layer: type | None, depth: int, seen: set[Any]) -> Iterator[Stop]:
    """Yield the stops that a function or a layer's forward calls, directly or through helpers."""
    waiting, known = [function], {function}
    found: dict[int, Operator] = {}
    while waiting:
        text = waiting.pop(0)
        for value in referred(text, layer):
            operator = getattr(value, "operator", None)
            if isinstance(operator, Operator):
                if value is not function and operator.function is not function:
                    found[id(operator)] = operator
            elif isinstance(value, FunctionType) and value not in known and _calls_on(value):
                known.add(value)
                waiting.append(value)
                if not value.__name__.startswith("_"):
                    yield _stop(depth, "by", value.__name__, value)
        for other in functions_in(text):
            yield from _of_function(other, depth, seen)
    for operator in found.values():
        yield _stop(depth, "calls", operator.name, operator.function)


def _calls_on(function: FunctionType) -> bool:
    """Return whether a function may lead to an operator: it is in nn or ops, and does not check arguments."""
    place = function.__module__
    return place.startswith(("retrograd.nn", "retrograd.ops")) and ".arguments" not in place


def _of_function(function: type[Function], depth: int, seen: set[Any], backward: bool = True) -> Iterator[Stop]:
    """Yield a Function, its passes with their kernels, and the Functions of its backward, whose forwards run."""
    if function in seen:
        return
    seen.add(function)
    yield _stop(depth, "Function", function.__name__, function)
    for formula in getattr(function, "formulas", ()):
        role = "gradient" if "_grad" in getattr(formula, "__name__", "") else "formula"
        yield _stop(depth + 1, role, formula.__name__, formula)
    named = getattr(function, "kernel", None)  # of a special function
    for name in ("forward", "backward") if backward else ("forward",):
        passes = inspect.unwrap(getattr(function, name))
        yield _stop(depth + 1, name, function.__name__, passes)
        for kernel in [named] if isinstance(named, str) and name == "forward" else kernels_in(passes):
            yield from _of_kernel(kernel, depth + 2, seen)
        if name == "backward":
            for other in functions_in(passes):
                yield from _of_function(other, depth + 2, seen, False)


def _of_kernel(name: str, depth: int, seen: set[Any]) -> Iterator[Stop]:
    if name in seen:
        return
    seen.add(name)
    for role, package in (("textbook", _TEXTBOOK), ("kernel", _COMPILED)):
        found = getattr(importlib.import_module(package), name, None)
        text = getattr(found, "__func__", found)
        if isinstance(text, FunctionType):
            yield _stop(depth, role, name, inspect.unwrap(text))
            if package == _COMPILED:
                for path in dict.fromkeys(_handles_of(text, set())):
                    yield _compiled(depth + 1, path)


def _compiled(depth: int, path: str) -> Stop:
    """Return the stop of a Numba-compiled function, from its handle ``<folders>.<file without _jit>.<function>``."""
    *folders, file, function = path.split(".")
    where = _ROOT.joinpath("kernels", "compiled", *folders, f"{file}_jit.py")
    lines = where.read_text(encoding="utf-8").splitlines() if where.exists() else []
    begins = re.compile(rf"(def )?\(?([\w, ]+, )?{function}\b")
    line = next((number for number, text in enumerate(lines, 1) if begins.match(text)), 1)
    return Stop(depth, "compiled", path, where.relative_to(_ROOT).as_posix(), line)


def _handles_of(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    """Yield the handles that a function of the compiled set uses, directly or through others in its folder."""
    if function in seen:
        return
    seen.add(function)
    for value in referred(function):
        table = isinstance(value, dict) and not hasattr(value, "path")  # a handle is also a dict
        for each in value.values() if table else value if isinstance(value, tuple) else (value,):
            if isinstance(each, dict) and isinstance(path := getattr(each, "path", None), str):
                yield path
            elif isinstance(each, FunctionType) and _folder(each) == _folder(function):
                yield from _handles_of(each, seen)


def _folder(function: FunctionType) -> str:
    """The package of a function; of a module directly in kernels/compiled the module itself."""
    folder = function.__module__.rpartition(".")[0]
    return function.__module__ if folder == _COMPILED else folder


@cache
def _tree(function: Any) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # the function was made at run time
        return ast.Module([], [])


@cache
def _names(function: Any) -> list[tuple[str, str]]:
    """Return ``("name", "")`` and ``("owner", "attribute")`` in a function's source, each once, in the tree's order."""
    found: dict[tuple[str, str], None] = {}
    for node in ast.walk(_tree(function)):
        if isinstance(node, ast.Name):
            found[node.id, ""] = None
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found[node.value.id, node.attr] = None
    return [*found]


def referred(function: Any, layer: type | None = None) -> list[Any]:
    """Return the objects that a function's source names as ``name``, ``module.name`` or ``self.name``, each once."""
    inside = vars(inspect.getmodule(function) or object)
    found: dict[int, Any] = {}
    for name, attribute in _names(function):
        value = None
        if not attribute:
            value = inside.get(name)
        else:
            owner = layer if name == "self" else inside.get(name)
            value = getattr(owner, attribute, None) if inspect.ismodule(owner) or owner is layer else None
        if value is not None:
            found[id(value)] = value
    return [*found.values()]


def functions_in(function: Any) -> list[type[Function]]:
    """Return the Functions that a source applies, directly or through ``conv_input_grad = ConvInputGrad.apply``."""
    found = []
    for value in referred(function):
        own = value.__self__ if inspect.ismethod(value) and value.__name__ == "apply" else value
        if isinstance(own, type) and issubclass(own, Function) and own is not Function and not own.moves:
            found.append(own)
    return found


def _algorithms(node: Node) -> list[str]:
    """Return the lines that list the algorithm and the costs of each pass of a recorded convolution."""
    window, options = getattr(node, "window", None), getattr(node, "options", None)
    if not isinstance(window, Window) or not isinstance(options, Options) or not node.saved:
        return []
    # an operand that is not saved, because no gradient reads it, has an edge, unless only the bias has a gradient
    operands = [_layout(*pair) for pair in zip(node.saved_tensors[:2], node.edges, strict=False)]
    if None in operands:
        return []
    (first, dtype), (second, _) = operands
    inputs, outputs = second[1] * window.groups, second[0]
    found = passes_of(window, options, first[0], inputs, outputs, dtype.char)
    rule = "the one of least cost, in multiply-adds of whole vectors"
    if any(each.algorithm in TEXTBOOK_ALGORITHMS for each in found.values()):
        rule = "the one that was set, in the textbook kernels; no compiled kernel runs"
    lines = ["", f"the algorithm for these shapes: {rule}"]
    for name, each in found.items():
        costs = ", ".join(f"{other} {cost:,.0f}" for other, cost in each.costs)
        lines.append(f"  {name:18} {each.algorithm}{f' ({each.form})' if each.form else '':10} {costs}".rstrip())
    return lines


def _layout(saved: Tensor | None, edge: Any) -> Any:
    """Return the shape and dtype of an argument of a recorded call; None if neither is known."""
    if saved is None and type(edge) is tuple:
        return edge[2:]
    tensor = edge if saved is None else saved
    return None if tensor is None else (tensor.array.shape, tensor.array.dtype)


def kernels_in(passes: Any) -> list[str]:
    """Return the names of the kernels that a pass calls: ``kernels.softmax``, ``convolution_kernel("conv", ...)``."""
    found: dict[str, None] = {}
    for node in ast.walk(_tree(passes)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "kernels":
            found[node.attr] = None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BY_NAME and node.args:
            found[str(getattr(node.args[0], "value", ""))] = None
    return [name for name in found if name]


def textbook_of(name: str) -> FunctionType | None:
    """Return the kernel of the textbook set, if it is a function with source."""
    found = getattr(importlib.import_module(_TEXTBOOK), name, None)
    return found if isinstance(found, FunctionType) else None


def part_of(file: str) -> str:
    """Return the part of the library that a file is in, such as "ops" or "textbook"; "" for a user's file."""
    path = Path(file)
    if not path.is_relative_to(_ROOT):
        return ""
    parts = path.relative_to(_ROOT).parts
    return parts[1] if parts[0] == "kernels" and len(parts) > 2 else parts[0]


def place_of(thing: Any) -> str:
    """Return ``file:line`` of a function or class."""
    stop = _stop(0, "", "", inspect.unwrap(thing))
    return f"{stop.file}:{stop.line}"


def _stop(depth: int, role: str, name: str, thing: Any) -> Stop:
    return Stop(depth, role, name, *_source(thing))


@cache
def _source(thing: Any) -> tuple[str, int]:
    """Return the file, relative to the package if it is inside, and the first line of a function or class."""
    try:
        file, (_, line) = Path(inspect.getsourcefile(thing) or ""), inspect.getsourcelines(thing)
    except (OSError, TypeError):
        return "?", 0
    return file.relative_to(_ROOT).as_posix() if file.is_relative_to(_ROOT) else str(file), line


# ---- The steps of a call --------------------------------------------------------------------------------------------


def _of_call(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """Return the lines of ``source_map`` for a call."""
    target: Any = _named(function) if isinstance(function, str) else function
    if isinstance(target, type) and not issubclass(target, Function):
        raise TypeError(
            f"source_map: got arguments and the class {target.__name__}, whose call only makes an object; pass the "
            f"object: source_map({target.__name__}(...), x)"
        )
    call = getattr(target, "apply" if isinstance(target, type) else "function", target)  # of a Function, an Operator
    if not callable(call):
        raise TypeError(
            f"source_map: got arguments and {type(target).__name__}, which cannot be called; pass an operator, its "
            "name, a layer or a function"
        )
    known = isinstance(getattr(target, "operator", target), (Operator, Module, type))
    lines = [*map(str, stops_of(target))] if known else []

    def noted(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        if isinstance(result, Tensor) and result.grad_fn is not None and result.grad_fn.saved is not FREED:
            lines.extend(_algorithms(result.grad_fn))
        return result

    found = listed(ran(noted, args, kwargs))
    return [*lines, "", *found] if lines else found


def listed(passes: Mapping[str, Sequence[Ran]]) -> list[str]:
    """Format the result of ``ran`` as lines."""
    lines = []
    for name, steps in passes.items():
        heading = f"{name}: " if "backward" in passes else ""
        lines.append(f"{heading}{len(steps)} step{'s' * (len(steps) != 1)}")
        for step in steps:
            lines += [f"  {step.text}", *map(str, (step.kernel, *step.launches))]
            lines += [f"      no plan: {step.why_not}"] if step.why_not else []
    return lines


def ran(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    upstream: Tensor | None = None,
    names: Sequence[str] = (),
) -> dict[str, list[Ran]]:
    """Return the steps of a call by pass: "forward", and "backward" if something requires a gradient.

    A function that runs backward itself has all its steps in "forward".

    upstream: the gradient of the result; None: ones. names: the names of the arguments' arrays; the result is then y,
        and the gradients are gy, gx, and so on.
    """
    forward = record_steps(function, *args, **kwargs or {})
    results = [each for each in leaves(forward.result) if isinstance(each, Tensor) and each.requires_grad]
    receivers = _reached(results, [each for each in leaves((args, kwargs)) if isinstance(each, Tensor)])
    given = [upstream] if upstream is not None else [Tensor(ones_like(each.array)) for each in results]
    backward = record_steps(grad, results, receivers, given, allow_unused=True) if receivers else Steps()
    named: dict[str, Any] = {}
    if names:
        gradients = {id(each): found for each, found in zip(receivers, backward.result or (), strict=True)}
        tensors = dict(zip(names, args, strict=True))
        tensors |= {"y": forward.result, "gy": upstream}
        tensors |= {f"g{name}": gradients.get(id(each)) for name, each in zip(names, args, strict=True)}
        named = {name: each.array for name, each in tensors.items() if isinstance(each, Tensor)}
    every = Steps([*forward, *backward])
    found = [_ran(step, text) for step, text in zip(every, every.lines(named), strict=True)]
    passes = {"forward": found[: len(forward)], "backward": found[len(forward) :]}
    return {name: steps for name, steps in passes.items() if steps or name == "forward"}


def _reached(results: Sequence[Tensor], args: Sequence[Tensor]) -> list[Tensor]:
    """Return the arguments and leaves that get gradients of the results; none if a backward has freed the graph."""
    receivers = {id(each): each for each in args if each.requires_grad}
    seen = {id(each.grad_fn) for each in receivers.values()}
    waiting: list[Any] = [each.grad_fn for each in results]
    while waiting:
        node = waiting.pop()
        if isinstance(node, AccumulateGrad):
            receivers.setdefault(id(node.variable), node.variable)
        elif node is not None and id(node) not in seen:
            if node.saved is FREED:
                return []
            seen.add(id(node))
            waiting += [end for end, _ in node.next_functions]
    return [*receivers.values()] if results else []


def _ran(step: Step, text: str) -> Ran:
    function: Any = inspect.unwrap(step.run)
    if isinstance(function, Together):  # several gradients as one: they are where the first is
        function = inspect.unwrap(function.parts[0])
    kernel = _stop(2, "kernel", step.name, function)
    roles = {"textbook": "textbook", "formulas": "formula"}
    kernel = replace(kernel, role=roles.get(part_of(str(_ROOT / kernel.file)), kernel.role))
    try:
        plan = step.plan()
    except TypeError as error:
        return Ran(text, kernel, why_not=str(error))
    return Ran(text, kernel, tuple([_launched(one, kernel) for one in plan.launches]))


def _launched(one: Any, kernel: Stop) -> Stop:
    """Return the stop of a plan's launch, or of a Python call in it; kernel: the step that the launch is part of."""
    from ..kernels.compiled.machine.launch import registered

    if not hasattr(one, "tasks"):
        name = f"{one.name}() unless finite" if one.unless_finite else f"{one.name}()"
        found = _stop(3, "call", name, inspect.unwrap(one.function))
        return found if found.line else replace(found, file=getattr(one.function, "__module__", found.file))
    name = f"{one.name}({one.tasks} task{'s' * (one.tasks != 1)})"
    path = next((each.path for each in registered() if one.name in map(each.symbol, "fd")), None)
    if path is None:  # of a user's formula
        return Stop(3, "launch", name, kernel.file, kernel.line)
    found = _compiled(3, path)
    if found.line == 1:  # its file generates it on request
        found = _compiled(3, f"{path.rpartition('.')[0]}.__getattr__")
    return replace(found, role="launch", name=name)
