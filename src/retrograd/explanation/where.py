"""Where an operator is computed: every stop from the function that users call to the compiled code.

Nothing is run: the stops are read from the sources. A function's text names the Functions it records; their forward and
backward name kernels and other Functions; a kernel has a text in the textbook set and one in the compiled set, and the
latter names the functions that Numba compiles, by their handles.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from ..engine.function import Function
from ..engine.node import Node
from ..engine.operator import OPERATORS, Operator
from ..engine.tensor import Tensor
from ..geometry import Window
from ..nn import modules as layers
from ..nn.module import Module
from ..ops.convolution.plan import passes_of
from ..options import Options

__all__ = [
    "Stop",
    "functions_in",
    "kernels_in",
    "node_of",
    "place_of",
    "referred",
    "source_map",
    "stops_of",
    "textbook_of",
]

_ROOT = Path(__file__).parents[1]
_COMPILED, _TEXTBOOK = "retrograd.kernels.compiled", "retrograd.textbook"
_BY_NAME = {"convolution_kernel", "exact"}  # functions of kernel_set whose first argument is the kernel's name


@dataclass(frozen=True)
class Stop:
    """One stop: what is there, its name, and the file (below the package) and line where its text begins."""

    depth: int
    role: str
    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{'  ' * self.depth + self.role:20} {self.name:40} {self.file}:{self.line}"


def source_map(operator_or_tensor: Any) -> str:
    """The stops on the way of an operator, forward and backward, a line each: role, name, ``file:line``.

    Args:
        operator_or_tensor: an operator, its name, a Function, a layer or its class; or a tensor: then the stops of what
            computed it, and for a convolution the algorithm of its shapes and the costs that decided.

    Raises:
        TypeError: it is none of these.
        ValueError: there is no operator of this name, or the tensor has no history.

    >>> import retrograd as rg
    >>> print(rg.source_map(rg.exp).splitlines()[0].split()[:2])
    ['operator', 'exp']
    """
    lines = [*map(str, stops_of(operator_or_tensor))]
    node = operator_or_tensor.grad_fn if isinstance(operator_or_tensor, Tensor) else operator_or_tensor
    if isinstance(node, Node):
        lines += _algorithms(node)
    return "\n".join(lines)


def stops_of(operator_or_tensor: Any) -> list[Stop]:
    """As ``source_map``, as a list. Raises: as ``source_map``."""
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
        return [_stop(0, "layer", layer.__name__, layer), *_of_text(layer.forward, layer, 1, set())]
    raise TypeError(
        f"source_map: got {type(operator_or_tensor).__name__}, expected an operator, its name, a layer or a Tensor"
    )


def node_of(tensor: Tensor, caller: str) -> Node:
    """The node that computed a tensor. Raises: ValueError: none was recorded."""
    if tensor.grad_fn is None:
        raise ValueError(
            f"{caller}: this tensor is not the result of a recorded operation, so it has no backward; pass a result "
            "computed from tensors that require a gradient, or an operator"
        )
    return tensor.grad_fn


def _named(name: str) -> Any:
    """The operator or the layer of this name."""
    last = name.rpartition(".")[2]
    found = [each for each in OPERATORS if last in (each.name, *each.methods)]
    if found:
        return max(found, key=lambda each: (each.name == last, bool(each.functions)))
    layer = getattr(layers, last, None)
    if isinstance(layer, type) and issubclass(layer, Module):
        return layer
    names = {each.name for each in OPERATORS if each.name[0].isalpha()} | {*layers.__all__}
    near = difflib.get_close_matches(last, sorted(names), 3)
    hint = f"; near: {', '.join(near)}" if near else ""
    raise ValueError(f"source_map: there is no operator or layer {name!r}{hint}")


def _of_operator(operator: Operator) -> Iterator[Stop]:
    yield _stop(0, "operator", operator.name, operator.function)
    seen: set[Any] = set()
    for function in operator.functions:
        yield from _of_function(function, 1, seen)
    if not operator.functions:
        yield from _of_text(operator.function, None, 1, seen)


def _of_text(function: Any, layer: type | None, depth: int, seen: set[Any]) -> Iterator[Stop]:
    """What a function or a layer's forward calls, itself or by others that are no operators."""
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
    """Whether a function may lead to an operator: it is in nn or ops, and no check of arguments."""
    place = function.__module__
    return place.startswith(("retrograd.nn", "retrograd.ops")) and ".arguments" not in place


def _of_function(function: type[Function], depth: int, seen: set[Any], backward: bool = True) -> Iterator[Stop]:
    """A Function, its passes with their kernels, and the Functions of its backward, of which forward runs."""
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
    """The function that Numba compiles, of a handle ``<folder>.<file without _jit>.<function>``."""
    folder, file, function = path.split(".")
    where = _ROOT / "kernels" / "compiled" / folder / f"{file}_jit.py"
    lines = where.read_text(encoding="utf-8").splitlines() if where.exists() else []
    begins = re.compile(rf"(def )?\(?([\w, ]+, )?{function}\b")
    line = next((number for number, text in enumerate(lines, 1) if begins.match(text)), 1)
    return Stop(depth, "compiled", path, where.relative_to(_ROOT).as_posix(), line)


def _handles_of(function: FunctionType, seen: set[Any]) -> Iterator[str]:
    """The handles of compiled code that a function of the compiled set uses, itself or through others of its folder."""
    if function in seen:
        return
    seen.add(function)
    for value in referred(function):
        table = isinstance(value, dict) and not hasattr(value, "path")  # a handle is a dict, too
        for each in value.values() if table else value if isinstance(value, tuple) else (value,):
            if isinstance(each, dict) and isinstance(path := getattr(each, "path", None), str):
                yield path
            elif isinstance(each, FunctionType) and _folder(each) == _folder(function):
                yield from _handles_of(each, seen)


def _folder(function: FunctionType) -> str:
    return function.__module__.rpartition(".")[0]


@cache
def _tree(function: Any) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # made at run time
        return ast.Module([], [])


def referred(function: Any, layer: type | None = None) -> list[Any]:
    """What the names, ``module.name`` and ``self.name`` in a function's text stand for, each once, in order."""
    inside = vars(inspect.getmodule(function) or object)
    found: dict[int, Any] = {}
    for node in ast.walk(_tree(function)):
        value = None
        if isinstance(node, ast.Name):
            value = inside.get(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = layer if node.value.id == "self" else inside.get(node.value.id)
            value = getattr(owner, node.attr, None) if inspect.ismodule(owner) or owner is layer else None
        if value is not None:
            found[id(value)] = value
    return [*found.values()]


def functions_in(function: Any) -> list[type[Function]]:
    """The Functions that a text applies, itself or as ``conv_input_grad = ConvInputGrad.apply`` of its module."""
    found = []
    for value in referred(function):
        own = value.__self__ if inspect.ismethod(value) and value.__name__ == "apply" else value
        if isinstance(own, type) and issubclass(own, Function) and own is not Function and not own.moves:
            found.append(own)
    return found


def _algorithms(node: Node) -> list[str]:
    """How the shapes of a recorded convolution are computed, a line for each pass."""
    window, options = getattr(node, "window", None), getattr(node, "options", None)
    if not isinstance(window, Window) or not isinstance(options, Options) or not node.saved:
        return []
    first, second = [tensor.array for tensor in node.saved_tensors][:2]
    inputs, outputs = second.shape[1] * window.groups, second.shape[0]
    found = passes_of(window, options, len(first), inputs, outputs, first.dtype.char)
    lines = ["", "the algorithm for these shapes: the least cost, in multiply-adds of whole vectors"]
    for name, each in found.items():
        costs = ", ".join(f"{other} {cost:,.0f}" for other, cost in each.costs)
        lines.append(f"  {name:18} {each.algorithm}{f' ({each.form})' if each.form else '':10} {costs}")
    return lines


def kernels_in(passes: Any) -> list[str]:
    """The names of the kernels that a pass calls: ``kernels.softmax``, ``convolution_kernel("conv", ...)``."""
    found: dict[str, None] = {}
    for node in ast.walk(_tree(passes)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "kernels":
            found[node.attr] = None
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BY_NAME and node.args:
            found[str(getattr(node.args[0], "value", ""))] = None
    return [name for name in found if name]


def textbook_of(name: str) -> FunctionType | None:
    """The kernel of the textbook set, if it is a function with a text."""
    found = getattr(importlib.import_module(_TEXTBOOK), name, None)
    return found if isinstance(found, FunctionType) else None


def place_of(thing: Any) -> str:
    """``file:line`` of a function or class."""
    stop = _stop(0, "", "", inspect.unwrap(thing))
    return f"{stop.file}:{stop.line}"


def _stop(depth: int, role: str, name: str, thing: Any) -> Stop:
    try:
        file, (_, line) = Path(inspect.getsourcefile(thing) or ""), inspect.getsourcelines(thing)
    except (OSError, TypeError):
        return Stop(depth, role, name, "?", 0)
    inside = file.is_relative_to(_ROOT)
    return Stop(depth, role, name, file.relative_to(_ROOT).as_posix() if inside else str(file), line)
