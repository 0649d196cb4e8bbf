"""backward_source: the source code of the backward that computes a gradient.

If a hand-written kernel computes it, the kernel's plain NumPy source comes first, since it shows the mathematics.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from ..engine.arguments import kind_name
from ..engine.function import Function
from ..engine.node import Node
from ..engine.operator import Operator
from ..engine.tensor import Tensor
from ..nn.module import Module
from ..ops.signatures import advised
from .source_map import functions_in, kernels_in, node_of, place_of, referred, textbook_of


@advised
def backward_source(tensor_or_function: Any) -> str:
    """Return the source code of the backward that will run, or of the rule that replaces it.

    If the backward is one kernel call, the plain NumPy source comes first: that of the textbook kernel, whose results
    the compiled kernel matches.

    Args:
        tensor_or_function: a result of an operation, its `grad_fn`, an operator, a Function, or a Function's `apply`.
            For an operator that may record several Functions, the source of each, under a line with its name.

    Raises:
        ValueError: a tensor without history, or an operator composed of others without a backward of its own.
        TypeError: anything else.
        OSError: Python has no source code for it, for example because it was typed into an interactive session.
    """
    target = tensor_or_function
    operator = getattr(target, "operator", None)
    if isinstance(operator, Operator):
        return _of_operator(operator)
    if not isinstance(target, (Tensor, Node, type)):
        target = getattr(target, "function", target)  # for a user's formula
    if isinstance(target, Tensor):
        target = node_of(target, "backward_source")
    if isinstance(target, Node):
        if target.region is not None:
            return _source_of(target.region.rule.function, f"the rule {target.region.rule.name}")
        target = target.function
    if inspect.ismethod(target) and isinstance(target.__self__, type):
        target = target.__self__
    if not (isinstance(target, type) and issubclass(target, Function)):
        hint = (
            "; call the layer, and pass its result: backward_source(layer(x))"
            if isinstance(tensor_or_function, Module)
            else ""
        )
        raise TypeError(
            "backward_source: expected a Tensor, its grad_fn, an operator or a Function, got "
            f"{kind_name(tensor_or_function)}{hint}"
        )
    return _of_function(target)


def _of_operator(operator: Operator) -> str:
    if not operator.functions:
        raise ValueError(
            f"backward_source: {operator.name} is made of other operators, whose backwards run one after the other; "
            f"its source is {operator.function.__module__}.{operator.function.__name__}. Pass a result to see the "
            "backward of the last of them"
        )
    sources = [_of_function(each) for each in operator.functions]
    if len(sources) == 1:
        return sources[0]
    return "\n\n".join(
        f"# {function.__name__}: {inspect.getdoc(function)}\n{source}"
        for function, source in zip(operator.functions, sources, strict=True)
    )


def _of_function(target: Any) -> str:
    if target.backward is Function.backward:
        raise TypeError(f"backward_source: {target.__name__} defines no backward")
    # an operator made of formulas has one gradient formula, or one for each operand
    owner = next(each for each in target.__mro__ if "backward" in vars(each))  # a subclass may have its own backward
    formulas = [each for each in vars(owner).get("formulas", ()) if "_grad" in each.__name__]
    sources = [
        _source_of(each, f"{target.__qualname__}.backward") for each in formulas or [inspect.unwrap(target.backward)]
    ]
    source = "\n\n".join(re.sub(r"\A@(formula|like\(.*\))\n", "", each) for each in sources)
    return source if formulas else _readable_source(target) + source


def _readable_source(target: Any) -> str:
    """Return the source of the kernels that a backward calls, directly or through its one ``...Grad`` Function.

    If there are none, return the source of the operator-based gradient that the backward names.
    """
    passes = inspect.unwrap(target.backward)
    names = kernels_in(passes)
    others = functions_in(passes)
    if not names and len(others) == 1 and others[0].__name__ == f"{target.__name__}Grad":
        names = kernels_in(inspect.unwrap(others[0].forward))
    found = [("in plain NumPy", kernel) for name in names if (kernel := textbook_of(name)) is not None]
    if not found:
        composed = [each for each in referred(passes) if _is_gradient(each)]
        found = [("composed of operators", each) for each in composed]
    if not found:
        return ""
    parts = [f"# {how}, {place_of(each)}\n{_source_of(each, each.__name__)}\n" for how, each in found]
    return "\n".join(parts) + f"\n# the backward that runs, {place_of(passes)}\n"


def _is_gradient(thing: Any) -> bool:
    name = getattr(thing, "__name__", "")
    return inspect.isfunction(thing) and name.endswith("_grad") and not name.startswith("_")


def _source_of(function: Any, name: str) -> str:
    try:
        written = inspect.isroutine(function) or hasattr(function, "__wrapped__")
        return textwrap.dedent(inspect.getsource(function if written else type(function)))
    except (OSError, TypeError) as error:
        raise OSError(f"backward_source: Python has no source code for {name}: {error}") from None


# ---- One-line gradients ---------------------------------------------------------------------------------------------

_LONGEST = 110  # characters of an expression; a longer gradient is described in words


def gradient_of(function: type[Function]) -> list[tuple[str, str]]:
    """Return pairs (argument of forward, its gradient in one line); the argument of a description in words is ""."""
    if isinstance(function.gradient, str) and function.gradient:  # a user's Function may have a method of this name
        return [("", function.gradient)]
    if hasattr(function, "slope"):
        body = ast.parse(textwrap.dedent(inspect.getsource(function.slope))).body[0].body  # type: ignore[attr-defined]
        return [("x", f"g * ({ast.unparse(body[-1].value)})")]
    formulas = [each for each in getattr(function, "formulas", ()) if "_grad" in each.__name__]
    if formulas:
        return [(_operand(each.__name__), _first_paragraph(each)) for each in formulas]
    try:
        found = [*_returned(function)]
    except (SyntaxError, OSError, IndexError):
        found = []
    if not found or max(len(value) for _, value in found) > _LONGEST:
        passes = inspect.unwrap(function.backward)
        words = passes.__doc__ if passes.__qualname__.startswith(function.__name__) else ""
        words = inspect.cleandoc(words or function.__doc__ or "")
        return [("", words.split("\n\n")[0].replace("\n", " "))]
    return found


def _operand(name: str) -> str:
    return name.rpartition("_grad_")[2] if "_grad_" in name else "x"


def _first_paragraph(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0].replace("\n", " ")


def _returned(function: type[Function]) -> Iterator[tuple[str, str]]:
    """Yield (argument, expression of its gradient) for a backward that assigns each name once and then returns."""
    passes = inspect.unwrap(function.backward)
    names = [*inspect.signature(inspect.unwrap(function.forward)).parameters][function._takes_ctx :]
    body = ast.parse(textwrap.dedent(inspect.getsource(passes))).body[0].body  # type: ignore[attr-defined]
    values: dict[str, ast.expr] = {}
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if statement.targets[0].id in values:
                return  # computed in several steps
            values[statement.targets[0].id] = statement.value
        elif isinstance(statement, ast.Return) and statement.value is not None:
            several = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            inner = {
                each.__name__: _first_paragraph(each) for each in functions_in(passes) if each.__name__.endswith("Grad")
            }
            for name, value in zip(names, several):  # noqa: B905  numbers have none
                text = ast.unparse(_Inliner(values).visit(ast.parse(ast.unparse(value), mode="eval").body))
                for other, words in inner.items():
                    if re.fullmatch(rf"{other}\(.*\)", text):
                        text = words
                if text != "None":
                    yield name, text
            return
        elif not isinstance(statement, ast.Assign | ast.Expr):
            return


class _Inliner(ast.NodeTransformer):
    """Replaces local names by their values, and strips ``ctx.``, ``.array``, ``.apply`` and similar wrappers."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id)
        if value is None:
            return node
        rest = {name: each for name, each in self._values.items() if name != node.id}
        return _Inliner(rest).visit(ast.parse(ast.unparse(value), mode="eval").body)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        if node.attr in ("array", "apply"):
            return node.value
        if isinstance(node.value, ast.Name) and node.value.id in ("ctx", "kernels", "np"):
            return ast.Name(node.attr, ast.Load())
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        plain = isinstance(node.func, ast.Name) and node.func.id in ("wrap", "Tensor", "asarray")
        return node.args[0] if plain and node.args else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.orelse, ast.Constant) and node.orelse.value is None:
            return node.body
        return node
