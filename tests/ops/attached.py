"""Writes engine/attached.pyi, the stub of Tensor for type checkers; run it after changing methods."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import retrograd
from retrograd.engine.methods import METHODS as ENGINE
from retrograd.ops import inplace_functions
from retrograd.ops.methods import METHODS

FILE = Path(retrograd.__file__).parent / "engine" / "attached.pyi"
# where the annotations of a method say less
RETURNS = {
    **dict.fromkeys(("__iadd__", "__isub__", "__imul__", "__itruediv__"), "Self"),
    "__eq__": "Any",  # PyTorch's: object would not do for a condition
    "__ne__": "Any",
    **dict.fromkeys(("real", "H", "mH"), "Tensor"),
    "layout": "Layout",
    **dict.fromkeys(("itemsize", "nbytes", "output_nr"), "builtins.int"),
}
NAMED = {"device": "Device", "layout": "Layout"}  # types that are imported under another name, as a method has theirs
ARRAYS = {"Tensor | float": "_Operand", "Tensor | int": "_Integers"}  # operators of Python also take arrays


def text() -> str:
    """Return the text of the stub, with one line per method."""
    head, mark, _ = FILE.read_text(encoding="utf-8").partition("    __slots__ = ()\n\n")
    lines = []
    for name, method in (ENGINE | METHODS).items():
        if isinstance(method, property):
            noted = "  # noqa: N802" * name[-1].isupper()
            lines += ["    @property", f"    def {name}(self) -> {_returns(name, method.fget)}: ...{noted}"]
        else:
            lines.append(f"    def {name}({_parameters(name, method)}) -> {_returns(name, method)}: ...")
    return head + mark + "\n".join(lines) + "\n"


def _returns(name: str, method: Any) -> str:
    if name in RETURNS:
        return RETURNS[name]
    return "builtins.bool" if name.startswith("is_") else _written(inspect.signature(method).return_annotation)


def _parameters(name: str, method: object) -> str:
    # a function of its own (inplace_functions.py) has no class that tells the type of its first parameter
    parts, keyword_only = ["self: Self" if name in inplace_functions.__all__ else "self"], False
    for p in list(inspect.signature(method).parameters.values())[1:]:
        if name.startswith("__") and p.default is not p.empty:
            continue  # Python calls an operator method with its operands only
        if p.kind is p.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        keyword_only = keyword_only or star == "*"
        kind = ARRAYS.get(p.annotation, p.annotation) if name.startswith("__") else p.annotation
        kind = "object" if name in ("__eq__", "__ne__") else _written(kind)
        parts.append(f"{star}{p.name}: {kind}" + ("" if p.default is p.empty else f" = {p.default!r}"))
    return ", ".join(parts)


class _Names(ast.NodeTransformer):
    """Names of types as they are written inside the class, some of whose methods are called float, int, ..."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        known = f"builtins.{node.id}" if node.id in METHODS else node.id
        return ast.Name(NAMED.get(node.id, known))


def _written(annotation: str) -> str:
    return ast.unparse(_Names().visit(ast.parse(annotation, mode="eval")))


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
